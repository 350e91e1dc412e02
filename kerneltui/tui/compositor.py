"""Textual's compositor, drawing no more than the rows that changed and writing no more than differs in them.

It stands on parts of Textual that are not promised. `use_rows` looks whether they are as they were when this was
written, and otherwise leaves Textual's own compositor in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from kerneltui.tui.sequences import written

# Method -> its arguments, as in Textual 8.2.
KNOWN = {
    "_get_renders": ("self", "crop"),
    "_regions_to_spans": ("cls", "regions"),
    "_render_chops": ("self", "crop", "is_rendered_line"),
    "render_partial_update": ("self",),
}


class RowCompositor(Compositor):
    """Textual asks every widget of the screen for all its lines at every update; this asks those that lie in it, for
    the rows that it has. Columns stay whole, since lines are cut at the edges of widgets."""

    _runs: list[Region] | None = None

    def render_partial_update(self) -> ChopsUpdate | None:
        screen = self.size.region
        self._runs = runs(part for region in self._dirty_regions if (part := region.intersection(screen)))
        try:
            update = super().render_partial_update()
        finally:
            self._runs = None
        return update and RowUpdate(update.chops, update.spans, update.chop_ends)

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if crop is None:
            yield from super()._get_renders(crop)
            return
        for run in self._runs or [crop]:
            yield from self._renders_of(run)

    def _renders_of(self, run: Region) -> Iterable[tuple[Region, Region, list[Strip]]]:
        rows = Region(0, run.y, self.size.width, run.height)
        for widget, (region, clip) in self.visible_widgets.items():
            part = region.intersection(clip).intersection(rows)
            if part and run.overlaps(part):
                yield region, part, widget.render_lines(part.translate(-region.offset))
                if part.contains_region(run):  # what comes now lies behind it
                    return


class RowUpdate(ChopsUpdate):
    """Textual's update in fewer bytes."""

    def render_segments(self, console: Console) -> str:
        parts: list[str] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                if not (right > x >= left and end <= right):
                    strip = strip.crop(0, min(end, right) - x)
                parts += (f"\x1b[{y + 1};{x + 1}H", written(strip, console))
        return "".join(parts)


def runs(regions: Iterable[Region]) -> list[Region]:
    """Neighbouring rows of equal extent as one region: rows far apart do not draw what lies between."""
    extents: dict[int, tuple[int, int]] = {}
    for y, left, right in Compositor._regions_to_spans(regions):
        known = extents.get(y, (left, right))
        extents[y] = (min(left, known[0]), max(right, known[1]))
    found: list[Region] = []
    for y, (left, right) in sorted(extents.items()):
        last = found[-1] if found else None
        if last is not None and last.bottom == y and last.column_span == (left, right):
            found[-1] = last.grow((0, 0, 1, 0))
        else:
            found.append(Region(left, y, right - left, 1))
    return found


def is_known(compositor: type) -> bool:
    """Whether a compositor is built as `RowCompositor` needs it."""
    for name, arguments in KNOWN.items():
        code = getattr(getattr(compositor, name, None), "__code__", None)
        if code is None or code.co_varnames[: code.co_argcount] != arguments:
            return False
    code = ChopsUpdate.render_segments.__code__
    if code.co_varnames[: code.co_argcount] != ("self", "console") or "_render_cache" not in Strip.__slots__:
        return False
    return isinstance(getattr(compositor, "visible_widgets", None), property) and hasattr(Widget, "render_lines")


def use_rows(screen: Screen[None], compositor: type = Compositor) -> bool:
    """Give a new screen the quicker compositor, where Textual is as it must be for that."""
    if not is_known(compositor) or type(getattr(screen, "_compositor", None)) is not compositor:
        return False
    screen._compositor = RowCompositor()
    return True
