"""The event log, newest at the bottom."""

from __future__ import annotations

from collections.abc import Hashable

from rich.segment import Segment

from kerneltui.records import Event
from kerneltui.tui import panels
from kerneltui.tui.clip import clip_marked
from kerneltui.tui.model import Model
from kerneltui.tui.widgets.linelist import LineList


class EventList(LineList):
    """Follows the newest line until the cursor is taken off it, and again once it is put back."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.model: Model | None = None
        self.events: list[Event] = []
        self.follows = True

    def sync(self, model: Model) -> None:
        """Show what is new."""
        self.model = model
        if model.events and self.events and model.events[-1].id == self.events[-1].id:
            return
        at = self.current
        self.events = model.events
        if not self.follows and at is not None:  # the oldest fall away: stay on the same event
            first = self.events[0].id
            self.cursor = max(0, min(at.id - first, len(self.events) - 1))
        self.resized()
        self._to_end()
        self.forget()

    def on_resize(self) -> None:
        self._to_end()
        self.call_after_refresh(self._to_end)  # a pane that was hidden has its rows only then

    def on_line_list_moved(self, message: LineList.Moved) -> None:
        self.follows = message.row >= len(self.events) - 1

    def _to_end(self) -> None:
        if self.follows:
            self.cursor = max(0, len(self.events) - 1)
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
        mark: str = self.app.glyphs.cut  # type: ignore[attr-defined]
        return clip_marked(panels.event_line(self.events[row], self.model), left, width, self.style_of, mark)
