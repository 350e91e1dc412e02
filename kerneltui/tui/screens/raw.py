"""Text alone on the screen: no borders, nothing beside it, for the terminal's own selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from kerneltui.tui.widgets.linelist import Line, TextLines


class RawScreen(Screen[None]):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,vertical_line", "dismiss(None)", show=False),
    ]

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        yield TextLines(id="raw")

    def on_mount(self) -> None:
        self.query_one("#raw", TextLines).show(self.lines)
        self.query_one("#raw").focus()
