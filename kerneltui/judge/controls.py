"""Negative controls, once for a problem in a judge: eager against itself is a tie, and eager done twice is slower.

They go the way of every ratio: slices of both sides in random order, the median of their log-ratios, its sign.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kerneltui import stats
from kerneltui.judge.pairs import SLICE_S, Side, launches_for
from kerneltui.records import Speedup

PAIRS_LEAST, PAIRS_MOST = 3, 12
BUDGET_S = 0.4  # for each control
TRIES = 3  # a busy moment is no verdict on a machine
OFF_BY = {"cpu": 0.1, "cuda": 0.02}  # what eager may differ from itself; a host is shared with others
TWICE_MOST = 0.75  # of eager's speed, when its work is done twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """What came of them."""

    fault: str  # why no ratio from here may be believed; "" when they came out right
    words: str


def control(device: str, sides: Callable[[int], Side], each_s: float) -> Controls:
    """Both controls; `sides(n)` does eager's work n times at each launch, `each_s` is one eager call."""
    launches = launches_for(each_s * 1e6, SLICE_S)
    fault = words = ""
    for _ in range(TRIES):
        same = paired(sides(1), sides(1), launches, stats.RESOLUTION[device])
        twice = paired(sides(1), sides(2), launches, stats.RESOLUTION[device])
        words = f"eager against itself {same.ratio:.3f}, eager done twice {twice.ratio:.3f}"
        fault = why_wrong(same, twice, OFF_BY[device])
        if not fault:
            break
    return Controls(fault=fault and f"{fault} ({words})", words=words)


def why_wrong(same: Speedup, twice: Speedup, off_by: float) -> str:
    """Why the ratios of this machine cannot be believed now; "" when they can."""
    if not same.tie and abs(same.ratio - 1) > off_by:
        return "eager timed against itself is no tie: the machine is too disturbed to time anything"
    if twice.ratio > TWICE_MOST:
        return "eager done twice is hardly slower than once: the clock cannot be believed"
    return ""


def paired(baseline: Side, candidate: Side, launches: int, resolution: float) -> Speedup:
    """The ratio of two sides."""
    rng, start = random.SystemRandom(), time.monotonic()
    one: list[float] = []
    other: list[float] = []
    for side in (baseline, candidate):
        side.slice(launches)
    while len(one) < PAIRS_LEAST or (len(one) < PAIRS_MOST and time.monotonic() - start < BUDGET_S):
        order = [(baseline, one), (candidate, other)]
        rng.shuffle(order)
        for side, times in order:
            times.append(side.slice(launches).each_us)
    found = stats.speedup(one, other, resolution=resolution)
    assert found is not None  # there are pairs
    return found
