"""What our compositor leaves out must not be missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OpenApp, screen_text
from terminal_cells import cells
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from kerneltui.tui.compositor import RowCompositor, is_known, runs, use_rows


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
            assert cells(drawn[1]) == cells(drawn[0]), region
            assert len(drawn[0]) <= len(drawn[1]), region
        assert "\n".join(strip.text.rstrip() for strip in whole) == screen_text(pilot)


def test_rows_far_apart_do_not_draw_what_lies_between() -> None:
    regions = [Region(0, 2, 80, 1), Region(0, 3, 80, 1), Region(0, 30, 80, 1), Region(81, 30, 20, 2)]
    assert runs(regions) == [Region(0, 2, 80, 2), Region(0, 30, 101, 1), Region(81, 31, 20, 1)]
    assert runs([]) == []


class Other(Compositor):
    """As another Textual might have it."""

    def _render_chops(self, crop: Region) -> list[dict[int, Strip]]:  # type: ignore[override]
        return []


class Bare:
    """A compositor of which nothing is known."""


@pytest.mark.parametrize("other", [Other, Bare])
def test_another_textual_keeps_its_own_compositor(other: type) -> None:
    screen: Screen[None] = Screen()
    stock = screen._compositor
    assert is_known(Compositor)
    assert not is_known(other)
    assert not use_rows(screen, other)
    assert screen._compositor is stock
    assert use_rows(screen)
    assert isinstance(screen._compositor, RowCompositor)


async def test_the_screen_works_on_textuals_own_compositor(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(session, 100, 30) as pilot:
        expected = screen_text(pilot)
    monkeypatch.setattr("kerneltui.tui.screens.main.use_rows", lambda screen: use_rows(screen, Other))
    async with open_app(session, 100, 30) as pilot:
        assert type(pilot.app.screen._compositor) is Compositor
        tree = screen_text(pilot).splitlines()[3:20]
        await pilot.press("j")
        await pilot.pause(0.2)
    assert expected.splitlines()[3:20] == tree
