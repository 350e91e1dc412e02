"""What a change of the budget means before it is made: old and new caps, what is used, whether the search ends by it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kerneltui.records import Settings, Tree
from kerneltui.search.forecast import WorstCases, forecast
from kerneltui.search.forecast import words as forecast_words
from kerneltui.search.spending import spend
from kerneltui.tui import words

NAMES = {"usd": "dollars", "wall_s": "time", "target_speedup": "target", "plateau_rounds": "plateau"}


def changed(settings: Settings, payload: Mapping[str, Any]) -> Settings:
    """The settings after the change."""
    caps = {key: value for key, value in payload.items() if key != "rounds"}
    return replace(settings, rounds=payload.get("rounds", settings.rounds), budget=replace(settings.budget, **caps))


def cap_text(key: str, value: float | None) -> str:
    """A cap in its own unit."""
    if value is None:
        return "no cap"
    if key == "usd":
        return words.money_text(value)
    if key == "wall_s":
        return words.span_text(value)
    return f"{value:g} times eager" if key == "target_speedup" else f"{value:,.0f}"


def used_so_far(tree: Tree, active_s: float) -> dict[str, float]:
    """What is used of every cap that something is used of."""
    used, best = spend(tree), tree.best()
    ratio = best.speedup.ratio if best is not None and best.speedup else 0.0
    return {"rounds": tree.status.round, "usd": used.usd + used.reserved_usd, "tokens": used.tokens + used.reserved_tokens,
            "evaluations": used.evaluations, "wall_s": active_s, "target_speedup": ratio}  # fmt: skip


def change_lines(tree: Tree, payload: Mapping[str, Any], active_s: float) -> list[str]:
    """Old and new of every cap that changes, with what is used: `dollars  $25.00 to $40.00, $3.10 used`."""
    used = used_so_far(tree, active_s)
    found = []
    for key, value in payload.items():
        before = tree.settings.rounds if key == "rounds" else getattr(tree.settings.budget, key)
        spent = (
            f", {cap_text(key, used[key])} {'reached' if key == 'target_speedup' else 'used'}" if key in used else ""
        )
        found.append(f"{NAMES.get(key, key):<12}{cap_text(key, before)} to {cap_text(key, value)}{spent}")
    return found


def ends_by(tree: Tree, payload: Mapping[str, Any], active_s: float) -> str:
    """The cap that is used up already once it is changed so, in words; "" if the search can go on."""
    used = used_so_far(tree, active_s)
    for key, value in payload.items():
        before = tree.settings.rounds if key == "rounds" else getattr(tree.settings.budget, key)
        if value is None or value == before or key not in used:
            continue
        over = used[key] > value if key == "rounds" else used[key] >= value
        if over:
            had = "is reached" if key == "target_speedup" else "are used" if key not in ("wall_s",) else "is used"
            return f"{cap_text(key, used[key])} {'of ' + NAMES.get(key, key) if key != 'rounds' else 'rounds'} {had}"
    return ""


def forecast_line(tree: Tree, payload: Mapping[str, Any], worst: WorstCases) -> str:
    """What the next round may take, under the changed caps."""
    settings = changed(tree.settings, payload)
    return forecast_words(forecast(tree, settings, worst))
