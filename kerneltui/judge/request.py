"""What is asked of a trial, what counts as right, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kerneltui.judge.tolerance import Tolerance
from kerneltui.records import Check, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be judged, and how far."""

    library: str
    function: str
    deadline_s: float
    full: bool = True
    beam_us: float | None = None
    filter: bool = True  # forbid system calls in the runner
    module: bool = False
    certify: bool = False
    lower_precision: bool = True  # may a lower class than the problem's win
    resources: tuple[dict[str, Any], ...] = ()  # of each kernel, as the compiler said
    launches: tuple[dict[str, Any], ...] = ()  # sizes of launches, where the source states them


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What counts as right."""

    tolerance: Tolerance
    allow_nan: bool
    truth: bool  # whether a float64 answer is affordable
    hard: bool = True  # whether hard inputs are tried
    eager_s: float = 1e-3  # one warm call of the reference
    baseline_precision: str = ""
    floor_us: float | None = None


@dataclass(slots=True)
class Progress:
    """How far a trial is, for the words of a failure."""

    stage: Stage = Stage.LOAD
    left_s: float = 0.0
    checks: list[Check] = field(default_factory=list)
    workspace_bytes: int = 0
    calls: int = 0
