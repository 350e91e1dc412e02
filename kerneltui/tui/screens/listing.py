"""What failures, review and home share: a list above, text on its current row below, one message, one footer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from kerneltui.tui import panels
from kerneltui.tui.clip import clip
from kerneltui.tui.render import Glyphs, cut, one_line
from kerneltui.tui.widgets.linelist import Line, LineList, Span, TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle

HELP_KEY = ("?", "keys")
FRAME = 5  # titles, head, message and footer


def fitting_keys(keys: Sequence[tuple[str, str]], width: int) -> Sequence[Span]:
    """Keys that fit, the first ones and always the last: the way out."""
    cells = [len(key) + len(name) + 3 for key, name in keys]
    shown = [number for number in range(len(keys) - 1) if sum(cells[: number + 1]) + cells[-1] <= width]
    found = [*(keys[number] for number in shown), keys[-1]] if keys else []
    return [span for key, name in found for span in ((f" {key}", "key"), (f" {name} ", "muted"))]


class Lines(LineList):
    """Ready-made lines with a cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Other lines; the cursor stays where it is, as far as there are so many."""
        if lines != self.lines:
            self.lines = lines
            self.resized()
            self.forget()

    def line_count(self) -> int:
        return len(self.lines)

    def version(self, row: int) -> Hashable:
        return row

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        return clip(self.lines[row], left, width, self.style_of)


class Listing(Screen[Any]):
    """A screen of that form. Subclasses fill it in `refill` and name their keys in `keys`."""

    DEFAULT_CSS = "Listing #list { height: 1fr; } Listing #about { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "help", show=False)]
    keys: Sequence[tuple[str, str]] = ()
    _seq = -1  # of the tree that is shown, where a subclass keeps it

    def compose(self) -> ComposeResult:
        yield PaneTitle(id="listing-title")
        yield OneLine(id="listing-head")
        yield Lines(id="list")
        yield PaneTitle(id="about-title")
        yield TextLines(id="about")
        yield OneLine(id="message")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        self.query_one("#listing-title", PaneTitle).light(True)
        self.refill()
        self.list.focus()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#footer", OneLine).set(
            fitting_keys((*self.keys[:-1], HELP_KEY, self.keys[-1]), event.size.width)
        )
        self.call_after_refresh(self.fit)

    def fit(self) -> None:
        """Columns and paragraphs to the width there is now."""
        self._seq = -1
        self.refill()
        self.show_about()

    def action_help(self) -> None:
        from kerneltui.tui.screens.finding import Help

        self.app.push_screen(Help(self.query_one("#listing-title", PaneTitle).text, self.keys))

    @property
    def list(self) -> Lines:
        """The list."""
        return self.query_one("#list", Lines)

    @property
    def glyphs(self) -> Glyphs:
        """Characters to draw with."""
        found: Glyphs = self.app.glyphs  # type: ignore[attr-defined]
        return found

    def titles(self, left: Sequence[Span], right: Sequence[Span], head: Sequence[Span], about: Sequence[Span]) -> None:
        """The lines above the list and above the text."""
        self.query_one("#listing-title", PaneTitle).set(left, right)
        self.query_one("#listing-head", OneLine).set(head)
        self.query_one("#about-title", PaneTitle).set(about)

    def fill(self, lines: Sequence[Line], share: float = 0.5) -> None:
        """Show the lines, in no more room than they need and than this share of the screen; the rest is for the text."""
        self.list.styles.height = max(3, min(len(lines), int((self.app.size.height - FRAME) * share)))
        self.list.show(lines)

    def say(self, text: str, token: str = "") -> None:
        """The message line."""
        self.query_one("#message", OneLine).set(
            panels.message(cut(one_line(text), self.app.size.width - 8, self.glyphs.cut), token)
        )

    def refill(self) -> None:
        """Bring list and text up to date."""
        raise NotImplementedError

    def show_about(self) -> None:
        """The text on the current row."""
        raise NotImplementedError

    def on_line_list_moved(self, _: LineList.Moved) -> None:
        self.show_about()
