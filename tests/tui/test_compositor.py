"""What our compositor leaves out must not be missed."""

from __future__ import annotations

from pathlib import Path

from conftest import OpenApp, screen_text
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region

from kerneltui.tui.compositor import RowCompositor


async def test_an_update_of_any_region_says_the_same_as_textuals(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 120, 40) as pilot:
        screen = pilot.app.screen
        whole = screen._compositor.render_strips()
        for region in (Region(0, 3, 60, 9), Region(10, 5, 1, 1), Region(50, 2, 30, 20), Region(0, 0, 120, 40),
                       Region(62, 4, 20, 3), Region(0, 39, 120, 1)):  # fmt: skip
            drawn = []
            for kind in (RowCompositor, Compositor):
                screen._compositor.__class__ = kind
                screen._compositor._dirty_regions.add(region)
                update = screen._compositor.render_partial_update()
                assert isinstance(update, ChopsUpdate)
                drawn.append(update.render_segments(pilot.app.console))
            screen._compositor.__class__ = RowCompositor
            assert drawn[0] == drawn[1], region
        assert "\n".join(strip.text.rstrip() for strip in whole) == screen_text(pilot)
