"""Strips as terminal sequences, with no more of them than change a cell: half of the bytes.

Rich writes every segment with all of its style and a reset behind it. Here a style is written where it differs from the
one before, only the part that differs, and not at all for blanks on the same ground.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

RESET = "\x1b[0m"


class Look(NamedTuple):
    """A style in the codes of a terminal."""

    attributes: str  # "1;4"
    front: str  # "38;2;138;149;165"
    ground: str
    plain_blank: bool  # a blank in it shows the ground and nothing else


BARE = Look("", "39", "49", True)


@lru_cache(maxsize=2048)
def look(style: Style | None, system: ColorSystem) -> Look:
    """The codes of a style. Colours that it leaves open are the terminal's own."""
    if style is None:
        return BARE
    written = style.without_color.render(" ", color_system=system)
    attributes = written[2 : written.index("m")] if written.startswith("\x1b[") else ""
    front = ";".join(style.color.downgrade(system).get_ansi_codes()) if style.color else "39"
    ground = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(False)) if style.bgcolor else "49"
    seen = style.underline or style.underline2 or style.reverse or style.strike or style.overline
    return Look(attributes, front, ground, not (seen or style.frame or style.encircle or style.link))


def written(strip: Strip, console: Console) -> str:
    """A strip for the terminal; kept with the strip."""
    if strip._render_cache is None:
        strip._render_cache = sequences(strip, console._color_system or ColorSystem.TRUECOLOR)
    return strip._render_cache


def sequences(segments: Iterable[Segment], system: ColorSystem) -> str:
    """Segments of one line, from a terminal without attributes to one without attributes."""
    parts: list[str] = []
    now = BARE
    for text, style in _joined(segments, system):
        if style is not None and style.link:
            parts += (RESET if now != BARE else "", style.render(text, color_system=system))
            now = BARE
            continue
        wanted = look(style, system)
        parts += (_change(now, wanted), text)
        now = wanted
    return "".join(parts) + (RESET if now != BARE else "")


def _joined(segments: Iterable[Segment], system: ColorSystem) -> list[tuple[str, Style | None]]:
    """Neighbours in one style as one; blanks go with whatever stands beside them on the same ground."""
    found: list[tuple[str, Style | None]] = []
    for text, style, _ in segments:
        if not text:
            continue
        if found:
            before, last = found[-1]
            if style == last:
                found[-1] = (before + text, style)
                continue
            old, new = look(last, system), look(style, system)
            if old.plain_blank and new.plain_blank and old.ground == new.ground:
                if not text.strip(" "):
                    found[-1] = (before + text, last)
                    continue
                if not before.strip(" "):
                    found[-1] = (before + text, style)
                    continue
        found.append((text, style))
    return found


def _change(now: Look, wanted: Look) -> str:
    if wanted == BARE:
        return "" if now == BARE else RESET
    if now.attributes != wanted.attributes:
        codes = [wanted.attributes] if wanted.attributes else []
        codes += ["0"] if now != BARE else []
        codes = codes[::-1] + [code for code, own in ((wanted.front, "39"), (wanted.ground, "49")) if code != own]
    else:
        codes = [code for code, old in ((wanted.front, now.front), (wanted.ground, now.ground)) if code != old]
    return f"\x1b[{';'.join(codes)}m" if codes else ""
