"""The event log, newest at the bottom."""

from __future__ import annotations

from collections.abc import Hashable

from rich.segment import Segment

from kerneltui.records import Event
from kerneltui.tui import panels
from kerneltui.tui.model import Model
from kerneltui.tui.widgets.linelist import LineList, clip


class EventList(LineList):
    """Follows the newest line while the cursor stands on it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.model: Model | None = None
        self.events: list[Event] = []

    def sync(self, model: Model) -> None:
        """Show what is new."""
        self.model = model
        if model.events and self.events and model.events[-1].id == self.events[-1].id:
            return
        at_end = self.cursor >= len(self.events) - 1
        self.events = model.events
        self.resized()
        if at_end:
            self.cursor = max(0, len(self.events) - 1)
            self.call_after_refresh(self._to_end)
        self.refresh()

    def on_resize(self) -> None:
        if self.cursor >= len(self.events) - 1:
            self._to_end()

    def _to_end(self) -> None:
        self.scroll_to(y=len(self.events), animate=False, immediate=True)

    @property
    def current(self) -> Event | None:
        """The event under the cursor."""
        return self.events[self.cursor] if self.cursor < len(self.events) else None

    def line_count(self) -> int:
        return len(self.events)

    def version(self, row: int) -> Hashable:
        return self.events[row].id

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        assert self.model is not None
        return clip(panels.event_line(self.events[row], self.model), left, width, self.style_of)
