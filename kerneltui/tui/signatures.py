"""Failures grouped by what went wrong: one line with everything that differs by chance masked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from kerneltui.records import Idea, Outcome, Variant
from kerneltui.tui import words
from kerneltui.tui.render import one_line

_MASKS = (
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"(?:[\w.~-]*/)+[\w.~-]+(?::\d+)*(?:\(\d+\))?"), "FILE"),
    (re.compile(r"\b[\w.-]+\.(?:cu|cuh|cpp|cc|h|hpp|py)\b(?::\d+)*(?:\(\d+\))?"), "FILE"),
    (re.compile(r"\b_Z\w+"), "NAME"),
    (re.compile(r"(['\"`‘“])[^'\"`’”]*['\"`’”]"), "?"),
    (re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"), "#"),
)
_FULL_CUT = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures with one signature."""

    stage: str
    signature: str
    variants: tuple[Variant, ...]  # newest last
    ideas: int
    last_round: int


@lru_cache(maxsize=20_000)
def _mask(text: str) -> str:
    text = one_line(text[:400])
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return text[:_FULL_CUT].strip()


def signature(variant: Variant) -> str:
    """What went wrong, without the details that differ by chance."""
    text = variant.author_error or variant.message
    return _mask(text) or words.outcome_text(variant) or "no reason given"


def group_failures(variants: Iterable[Variant], ideas: dict[str, Idea]) -> list[Group]:
    """Groups of failures, largest first; the machine's own are not among them, since they are no verdicts."""
    found: dict[tuple[str, str], list[Variant]] = {}
    for variant in variants:
        if words.is_failure(variant):
            found.setdefault((_stage(variant), signature(variant)), []).append(variant)
    groups = [
        Group(
            stage=stage,
            signature=text,
            variants=tuple(members),
            ideas=len({member.idea for member in members if member.idea in ideas}),
            last_round=max(member.round for member in members),
        )
        for (stage, text), members in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.variants), group.stage, group.signature))


def _stage(variant: Variant) -> str:
    if variant.outcome is Outcome.TIMEOUT:
        return "timeout"
    return words.stage_word(variant)


def trend(variants: Iterable[Variant], rounds: int = 3) -> list[tuple[int, float]]:
    """Share of failures among what ended, in each of the last rounds."""
    ended: dict[int, list[bool]] = {}
    for variant in variants:
        if variant.state == "done":
            ended.setdefault(variant.round, []).append(words.is_failure(variant))
    return [(number, sum(ended[number]) / len(ended[number])) for number in sorted(ended)[-rounds:]]
