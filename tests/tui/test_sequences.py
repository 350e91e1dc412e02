"""Fewer bytes for the terminal must leave the same cells on it."""

from __future__ import annotations

import random

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from terminal_cells import cells

from kerneltui.tui.sequences import sequences


def fresh_styles() -> list[Style | None]:
    """A style keeps the codes of the first colour system that it was asked for: each test makes its own."""
    dark, grey = "#141a1f", "#8a95a5"
    return [
        None,
        Style(),
        Style(bold=True, color="red", bgcolor=dark),
        Style(color="red", bgcolor=dark),
        Style(color=grey, bgcolor=dark),
        Style(underline=True, color=grey, bgcolor=dark),
        Style(reverse=True),
        Style(strike=True, bgcolor="blue"),
        Style(dim=True, italic=True, bgcolor="blue"),
        Style(color="white"),
        Style(bold=True),
        Style(color="green", bgcolor="blue", link="https://example.org"),
    ]


def as_rich_writes(segments: list[Segment], system: ColorSystem) -> str:
    return "".join(style.render(text, color_system=system) if style else text for text, style, _ in segments)


@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])
def test_cells_are_the_same_as_rich_makes_them(system: ColorSystem) -> None:
    chance, styles = random.Random(5), fresh_styles()
    for _ in range(400):
        segments = [
            Segment(chance.choice(("", " ", "   ", "ab", " c", "é…", "日本")), chance.choice(styles)) for _ in range(9)
        ]
        short, long = sequences(segments, system), as_rich_writes(segments, system)
        assert cells(long) == cells(short), segments
        assert len(short) <= len(long), segments


def test_blanks_and_equal_styles_take_no_codes() -> None:
    ground = "on #141a1f"
    row = [Segment(" ", Style.parse(f"bold red {ground}")), Segment("   ", Style.parse(f"white {ground}")),
           Segment("v1 ", Style.parse(f"white {ground}")), Segment("ok", Style.parse(f"green {ground}")),
           Segment("    ", Style.parse(f"white {ground}"))]  # fmt: skip
    expected = "\x1b[37;48;2;20;26;31m    v1 \x1b[32mok    \x1b[0m"
    assert expected == sequences(row, ColorSystem.TRUECOLOR)
    assert "    plain" == sequences([Segment("    "), Segment("plain", None)], ColorSystem.TRUECOLOR)
