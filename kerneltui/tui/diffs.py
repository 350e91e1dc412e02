"""A unified diff as lines with both line numbers. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from kerneltui.tui.render import fit, lines
from kerneltui.tui.widgets.linelist import Line

CONTEXT = 3
TOO_MANY_LINES = 20_000  # difflib is quadratic where little agrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Lines to show, where hunks begin, and how much changed."""

    lines: list[Line]
    hunks: list[int]
    added: int
    removed: int


def make_diff(before: str, after: str) -> Diff:
    """Unified, three lines of context; equal texts say so."""
    old, new = lines(before), lines(after)
    if len(old) > TOO_MANY_LINES or len(new) > TOO_MANY_LINES:
        text = f"too long to compare here: {len(old):,} and {len(new):,} lines; y yanks the paths for a tool of yours"
        return Diff(lines=[[(text, "warning")]], hunks=[], added=0, removed=0)
    found: list[Line] = []
    hunks: list[int] = []
    added = removed = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        hunks.append(len(found))
        found.append([(_head(group), "diff-hunk")])
        for kind, a, b, c, d in group:
            if kind == "equal":
                found += [_line(a + n, c + n, " ", old[a + n], "diff-ctx") for n in range(b - a)]
                continue
            found += [_line(n, None, "-", old[n], "diff-del") for n in range(a, b)]
            found += [_line(None, n, "+", new[n], "diff-add") for n in range(c, d)]
            removed, added = removed + b - a, added + d - c
    if not found:
        found = [[(" the same text", "muted")]]
    return Diff(lines=found, hunks=hunks, added=added, removed=removed)


def make_beside(before: str, after: str, width: int) -> Diff:
    """Old on the left, new on the right, three lines of context, cut to the width."""
    old, new = lines(before), lines(after)
    if len(old) > TOO_MANY_LINES or len(new) > TOO_MANY_LINES:
        return make_diff(before, after)
    half = max(20, (width - 3) // 2)
    found: list[Line] = []
    hunks: list[int] = []
    added = removed = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        hunks.append(len(found))
        found.append([(_head(group), "diff-hunk")])
        for kind, a, b, c, d in group:
            tokens = ("diff-ctx", "diff-ctx") if kind == "equal" else ("diff-del", "diff-add")
            signs = (" ", " ") if kind == "equal" else ("-", "+")
            for n in range(max(b - a, d - c)):
                left = _cell(old, a + n, b, signs[0], half)
                right = _cell(new, c + n, d, signs[1], half)
                found.append([(left[0], "line-number"), (left[1], tokens[0]), (" | ", "plot-axis"),
                              (right[0], "line-number"), (right[1], tokens[1])])  # fmt: skip
            if kind != "equal":
                removed, added = removed + b - a, added + d - c
    return Diff(lines=found or [[(" the same text", "muted")]], hunks=hunks, added=added, removed=removed)


def _cell(texts: list[str], at: int, end: int, sign: str, width: int) -> tuple[str, str]:
    """Number and text of one side; empty where the other side has more lines."""
    if at >= end:
        return " " * 6, " " * (width - 6)
    return f"{at + 1:5} ", fit(f"{sign} {texts[at]}", width - 6)


def _head(group: list[tuple[str, int, int, int, int]]) -> str:
    first, last = group[0], group[-1]
    return f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"


def _line(old: int | None, new: int | None, sign: str, text: str, token: str) -> Line:
    numbers = "".join(f"{number + 1:5}" if number is not None else "     " for number in (old, new))
    return [(numbers + " ", "line-number"), (f"{sign} {text}", token)]
