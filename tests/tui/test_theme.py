"""Themes: readable, complete, forgiving."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OpenApp, screen_text, wait_for
from rich.color import ColorType
from textual.color import Color

from kerneltui.errors import SettingsError
from kerneltui.tui import theme

SHIPPED = ("kt-ansi", "kt-contrast", "kt-dark", "kt-ember", "kt-forest", "kt-light", "kt-plain")
TRUE_COLOUR = ("kt-contrast", "kt-dark", "kt-ember", "kt-forest", "kt-light")


def contrast(one: Color, other: Color) -> float:
    """WCAG 2.2, section 1.4.3."""

    def luminance(color: Color) -> float:
        parts = [part / 255 for part in (color.r, color.g, color.b)]
        r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_these_ship() -> None:
    assert tuple(sorted(theme.theme_names())) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_theme_has_no_mistake(name: str) -> None:
    assert theme.load_look(name).problems == ()


@pytest.mark.parametrize("name", TRUE_COLOUR)
def test_every_text_can_be_read(name: str) -> None:
    look = theme.load_look(name)
    background = Color.parse(look.theme.background or "")
    least = 7.0 if name == "kt-contrast" else 4.5
    weak = {}
    for token, style in look.styles.items():
        behind = Color(*style.bgcolor.triplet) if style.bgcolor and style.bgcolor.triplet else background
        front = (
            Color(*style.color.triplet)
            if style.color and style.color.triplet
            else Color.parse(look.theme.foreground or "")
        )
        if contrast(front, behind) < least:
            weak[token] = round(contrast(front, behind), 2)
    assert weak == {}


def test_sixteen_colours_are_sixteen() -> None:
    kinds = {style.color.type for style in theme.load_look("kt-ansi").styles.values() if style.color}
    assert kinds <= {ColorType.STANDARD, ColorType.DEFAULT}


def test_no_colour_has_none() -> None:
    assert [token for token, style in theme.load_look("kt-plain").styles.items() if style.color or style.bgcolor] == []


def test_the_cursor_is_reversed_in_every_theme() -> None:
    assert [name for name in SHIPPED if not theme.load_look(name)["cursor"].reverse] == []


def test_a_persons_theme_fills_in_from_another_and_names_its_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "kerneltui" / "themes" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text('inherit = "kt-light"\n[tokens]\nok = "#00gg00"\nfial = "#ff0000"\n', encoding="utf-8")
    look = theme.load_look("mine")
    assert (look.theme.dark, look["fail"]) == (False, theme.load_look("kt-light")["fail"])
    assert [problem.split(": ", 1)[1].split(" (")[0] for problem in look.problems] == [
        "unknown key 'fial' in [tokens]",
        "ok = '#00gg00' is no style",
    ]


def test_an_unknown_theme_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"no theme called 'kt-drak'; there are .*kt-dark"):
        theme.load_look("kt-drak")


@pytest.mark.parametrize("name", TRUE_COLOUR)
async def test_an_editor_can_be_read(name: str, session: Path, open_app: OpenApp) -> None:
    """Line numbers and what stands in an empty field have colours of the library's own."""
    async with open_app(session, 100, 30, theme=name) as pilot:
        await pilot.press("i")
        await wait_for(pilot, lambda: "path of a file" in screen_text(pilot))
        weak = {}
        for strip in pilot.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                if segment.text.strip() and style and style.color and style.bgcolor:
                    front, behind = style.color.triplet, style.bgcolor.triplet
                    if front and behind and contrast(Color(*front), Color(*behind)) < 4.5:
                        weak[segment.text] = style
        assert weak == {}
