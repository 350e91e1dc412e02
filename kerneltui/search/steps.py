"""What the search may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from kerneltui.records import VariantState

ON_DEVICE = frozenset({VariantState.COMPILING, VariantState.QUEUED, VariantState.RUNNING})
UNDER_WAY = ON_DEVICE | {VariantState.WRITING}
SETTLED = frozenset({VariantState.DONE, VariantState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Open:
    """Begin a round; `parents` holds variant ids, "" is the reference; `shares` is () where settings hold."""

    round: int
    parents: tuple[str, ...]
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask for `count` ideas; `parent` None is the reference."""

    parent: str | None
    author: str
    count: int
    round: int


@dataclass(frozen=True, slots=True)
class Write:
    """Ask for `count` variants of an idea; rows that wait to be written are used up first."""

    idea: str
    author: str
    count: int


@dataclass(frozen=True, slots=True)
class Repair:
    """Ask for a failed variant to be mended."""

    variant: str
    author: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Try up to `count` other settings of a variant's tunables."""

    variant: str
    count: int


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Judge a variant; unless `full`, measuring may stop as soon as it is surely slower than `beam_us`."""

    variant: str
    full: bool
    beam_us: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """End the search."""

    reason: str


Step = Open | Propose | Write | Repair | Sweep | Evaluate | Finish
