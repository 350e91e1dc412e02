"""Which panes are shown at which size. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIN_WIDTH, MIN_HEIGHT = 60, 16


class Pane(StrEnum):
    """The panes, in the order of their keys 1 to 6."""

    TREE = "tree"
    DETAIL = "detail"
    PLOT = "plot"
    WORKERS = "workers"
    BUDGET = "budget"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Visible panes, and the height of the strip below tree and detail; 0 is none, -1 all there is."""

    shown: frozenset[Pane]
    bottom_rows: int = 0
    events_rows: int = 0
    strip: bool = False  # a few lines on the current row, where there is no detail pane


def too_small(width: int, height: int) -> bool:
    """Whether only a sentence fits."""
    return width < MIN_WIDTH or height < MIN_HEIGHT


def arrange(width: int, height: int, pane: Pane, *, zoomed: bool, lower: Pane) -> Arrangement:
    """Where everything goes: `pane` has the focus, `lower` is the chosen bottom strip of middle sizes."""
    if zoomed or ((width < 100 or height < 24) and pane is not Pane.TREE):
        return _alone(pane)
    if width < 100 or height < 24:
        return Arrangement(shown=frozenset({Pane.TREE}), strip=True)
    if width >= 140 and height >= 36:
        bottom = 13 if height >= 44 else 11
        return Arrangement(shown=frozenset(Pane), bottom_rows=bottom, events_rows=6 if height >= 44 else 4)
    if height < 30:
        both = frozenset({Pane.TREE, Pane.DETAIL})
        return Arrangement(shown=both) if pane in both else _alone(pane)
    shown = frozenset({Pane.TREE, Pane.DETAIL, lower})
    if lower is Pane.EVENTS:
        return Arrangement(shown=shown, events_rows=9)
    return Arrangement(shown=shown, bottom_rows=9)


def _alone(pane: Pane) -> Arrangement:
    shown = frozenset({pane})
    if pane is Pane.EVENTS:
        return Arrangement(shown=shown, events_rows=-1)
    if pane in (Pane.TREE, Pane.DETAIL):
        return Arrangement(shown=shown)
    return Arrangement(shown=shown, bottom_rows=-1)
