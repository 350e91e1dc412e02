"""Text alone on the screen: no borders, nothing beside it, for the terminal's own selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from kerneltui.tui.widgets.linelist import Line, LineList, TextLines


def text_of(shown: LineList, first: int, count: int, width: int) -> list[Line]:
    """Rows of a list as they would stand on a screen of their own."""
    rows = range(first, min(first + count, shown.line_count()))
    if isinstance(shown, TextLines):
        return [shown.lines[row] for row in rows]
    return ["".join(segment.text for segment in shown.draw(row, 0, width)).rstrip() for row in rows]


class RawScreen(Screen[None]):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,vertical_line", "dismiss(None)", show=False),
    ]

    def __init__(self, lines: Sequence[Line], at: int = 0) -> None:
        super().__init__()
        self.lines, self.at = lines, at

    def compose(self) -> ComposeResult:
        yield TextLines(id="raw")

    def on_mount(self) -> None:
        self.query_one("#raw", TextLines).show(self.lines)
        self.query_one("#raw").focus()
        self.call_after_refresh(self._go)

    def _go(self) -> None:
        lines = self.query_one("#raw", TextLines)
        if self.at >= lines.view.height:
            lines.show_row(self.at, mark=False)
