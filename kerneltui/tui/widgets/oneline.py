"""Lines of one cell height that are no list: titles, header, footer, messages."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from kerneltui.tui.clip import clip
from kerneltui.tui.render import to_ascii
from kerneltui.tui.widgets.linelist import Span


class OneLine(Widget):
    """Spans at the left and at the right of one line; the left is cut where both do not fit."""

    DEFAULT_CSS = "OneLine { height: 1; }"
    token = "text"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.left: Sequence[Span] = ()
        self.right: Sequence[Span] = ()

    def set(self, left: Sequence[Span], right: Sequence[Span] = ()) -> None:
        """Repaint only if something differs."""
        if self.app.ascii_only:  # type: ignore[attr-defined]
            left, right = _ascii(left), _ascii(right)
        left, right = tuple(left), tuple(right)
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    @property
    def text(self) -> str:
        """What stands at the left, without its margins."""
        return "".join(text for text, _ in self.left).strip()

    def style_of(self, token: str) -> Style:
        """The theme's style of a token."""
        return self.app.look[token]  # type: ignore[attr-defined,no-any-return]

    def line_token(self) -> str:
        """The token that the whole line lies on."""
        return self.token

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style + self.style_of(self.line_token())
        ends = list(self.right)
        room = width - sum(cell_len(text) for text, _ in ends)
        wanted = min(sum(cell_len(text) for text, _ in self.left), width)
        while ends and room < wanted:  # what stands at the right is the lesser half
            text, _ = ends.pop(0)
            room += cell_len(text)
        left = Strip(_based(clip(self.left, 0, room, self.style_of), base)).adjust_cell_length(room, base)
        right = Strip(_based(clip(ends, 0, width, self.style_of), base))
        return Strip.join([left, right]).adjust_cell_length(width, base)


def _ascii(spans: Sequence[Span]) -> list[Span]:
    return [(to_ascii(text), token) for text, token in spans]


def _based(segments: list[Segment], base: Style) -> list[Segment]:
    return [Segment(text, base + style if style else base) for text, style, _ in segments]


class Rule(OneLine):
    """Between two panes side by side: a stripe, or a line where the theme has no background of its own."""

    def render_line(self, y: int) -> Strip:
        text: str = self.app.glyphs.down if self.app.look.theme.ansi else " "  # type: ignore[attr-defined]
        return Strip([Segment(text, self.rich_style + self.style_of("plot-axis"))])


class PaneTitle(OneLine):
    """Heads a pane; lit while the pane has the focus."""

    lit = False

    def line_token(self) -> str:
        return "title-on" if self.lit else "title"

    def light(self, lit: bool) -> None:
        """Show whether the pane has the focus."""
        if lit != self.lit:
            self.lit = lit
            self.refresh()

    def style_of(self, token: str) -> Style:
        if self.lit and token not in ("title", "title-on"):
            return self.app.look["title-on"]  # type: ignore[attr-defined,no-any-return]
        return super().style_of(token)
