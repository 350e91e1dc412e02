"""Lines in several colours, cut to columns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

Span = tuple[str, str]  # text, token of the theme
Line = str | Sequence[Span]  # a plain line, or one in several colours


def measure(line: Line) -> int:
    """Cells of a line; a long one is counted in characters, since it is only for the scroll range."""
    text = line if isinstance(line, str) else "".join(span[0] for span in line)
    return len(text) if len(text) > 2000 or text.isascii() else cell_len(text)


def clip(line: Line, left: int, width: int, style_of: Callable[[str], Style]) -> list[Segment]:
    """The cells `left` to `left + width` of a line as segments."""
    spans: Sequence[Span] = ((line, ""),) if isinstance(line, str) else line
    segments: list[Segment] = []
    skip, room = left, width
    for text, token in spans:
        if room <= 0:
            break
        if skip:
            cells = measure(text)
            if cells <= skip:
                skip -= cells
                continue
        piece = text[skip : skip + room] if text.isascii() else _clip_cells(text, skip, room)
        skip = 0
        if piece:
            segments.append(Segment(piece, style_of(token) if token else None))
            room -= cell_len(piece)
    return segments


def clip_marked(line: Line, left: int, width: int, style_of: Callable[[str], Style], mark: str) -> list[Segment]:
    """The same; where the line goes on beyond them, the last cell says so."""
    if measure(line) <= left + width or width < 2:
        return clip(line, left, width, style_of)
    return [*clip(line, left, width - 1, style_of), Segment(mark, style_of("muted"))]


def _clip_cells(text: str, left: int, width: int) -> str:
    """Characters whose cells lie between two columns; half a wide character becomes a space."""
    found: list[str] = []
    column = 0
    for character in text:
        cells = cell_len(character)
        if column + cells > left:
            if column >= left + width:
                break
            found.append(character if column >= left and column + cells <= left + width else " ")
        column += cells
    return "".join(found)
