"""Text made safe and made to fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kerneltui.tui.passages import flowing
from kerneltui.tui.render import ASCII, UNICODE, bar, cut, fit, lines, one_line, plain, wrap

UNSAFE = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\n", "\t"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kx", "error: x"),
        ("\x1b]0;pwned title\x07after", "after"),
        ("\x1b]52;c;cm0gLXJmIH4=\x07 clipboard", " clipboard"),
        ("\x1b]8;;http://example.invalid\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[?1049l\x1b[2J\x1b[Hx", "x"),
        ("progress  10%\rprogress  99%\rdone          ", "done"),
        ("NUL\0 BEL\x07 BS\x08\x08 VT\x0b FF\x0c DEL\x7f", "NUL^@ BEL^G BS^H^H VT^K FF^L DEL^?"),
        ("C1\x9b31mred\x9b0m", "C1red"),
        ("\x1bPq#0;2;0;0;0#0~~@@\x1b\\ sixel, unfinished: \x1b[3", " sixel, unfinished: "),
        ("unfinished \x1b]0;title\nnext line", "unfinished \nnext line"),
        ("a\u202eb\u200bc", "a<U+202E>b<U+200B>c"),
        ("lone \udcff surrogate", "lone � surrogate"),
        ("line\r\nline", "line\nline"),
        ("[red] [/] [@click=app.quit]quit[/] \\[x", "[red] [/] [@click=app.quit]quit[/] \\[x"),
    ],
)
def test_control_sequences_are_removed_and_the_rest_made_visible(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    assert not UNSAFE & set(plain(text))


@given(st.text(), st.integers(1, 40))
def test_fit_gives_exactly_so_many_cells(text: str, width: int) -> None:
    assert cell_len(fit(one_line(text), width)) == width


@given(st.text(alphabet="ab 試し\n", max_size=200), st.integers(4, 30))
def test_wrap_keeps_every_word_and_the_width(text: str, width: int) -> None:
    wrapped = wrap(text, width)
    assert all(cell_len(line) <= width for line in wrapped)
    assert "".join("".join(wrapped).split()) == "".join(text.split())


def test_only_a_line_feed_ends_a_line() -> None:
    assert lines("a\x0bb\u2028c\nd\n") == ["a^Kb<U+2028>c", "d"]


def test_cut_marks_what_is_missing() -> None:
    assert (cut("abcdef", 4), cut("abc", 4), cut("試し書き", 5)) == ("abc…", "abc", "試し…")


def test_a_line_of_megabytes_is_cut_without_being_measured() -> None:
    assert cut("x" * 10_000_000, 5) == "xxxx…"


def test_bar_shows_something_for_anything() -> None:
    assert (bar(0.0, 4, UNICODE), bar(0.001, 4, UNICODE), bar(2.0, 4, ASCII)) == ("░░░░", "█░░░", "####")


def test_the_escapes_case_reaches_the_screen_plain() -> None:
    path = Path(__file__).parent / "escapes.log"
    shown = plain(path.read_bytes().decode("utf-8", "replace"))
    assert not UNSAFE & set(shown)
    assert "pwned" not in shown


def test_prose_flows_and_lists_and_code_stay() -> None:
    assert "Cut a sample into chunks:\n- one\n- two" == flowing("Cut a sample\ninto chunks:\n- one\n- two\n")
    assert "One.\n\nTwo goes on." == flowing("One.\n\nTwo\ngoes on.")
    assert "Steps\n1. load\n2. store" == flowing("Steps\n1. load\n2. store")
    assert "```\nint a;\nint b;\n```" == flowing("```\nint a;\nint b;\n```")
