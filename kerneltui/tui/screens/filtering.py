"""The line that a filter is typed into, and putting it in force."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, cast

from textual import events
from textual.timer import Timer
from textual.widgets import Input
from textual.worker import get_current_worker

from kerneltui.errors import KernelTuiError
from kerneltui.store import Store
from kerneltui.tui import words
from kerneltui.tui.arrange import Pane
from kerneltui.tui.filters import NAMES, Filter, FilterProblem, parse_filter
from kerneltui.tui.render import one_line
from kerneltui.tui.widgets.oneline import OneLine

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

LARGE = 5000  # variants; a filter on more takes long enough to wait for the end of a word
TYPING_S = 0.25


HINT = "words, or state: stage: idea: round: by: is: since: code: speed> us<"
BEGUN_FROM = 3  # letters of a name


def names_begun(text: str) -> list[str]:
    """Filters whose name the last word may be the start of: as a word it would match nothing, and empty the tree meanwhile."""
    last = text.rpartition(" ")[2].removeprefix("!")
    return [name for name in NAMES if len(last) >= BEGUN_FROM and name.startswith(last)]


class Filtering:
    """A part of the main screen."""

    _place = ""  # the node under the cursor when a filter was begun: esc goes back to it
    _typing: Timer | None = None  # runs while the rest of a filter on a large session may still be typed

    @property
    def _filtered(self) -> MainScreen:
        return cast("MainScreen", self)

    def on_input_changed(self, message: Input.Changed) -> None:
        screen = self._filtered
        if message.input.id != "filter":
            return
        self._stop_waiting()
        if begun := names_begun(message.value):
            screen.say(f"{', '.join(f'{name}:' for name in begun)}? enter takes it as a word", "muted")
            return
        if len(screen.model.tree.variants) <= LARGE:
            screen.set_filter(message.value)
        else:
            screen.say("filtering", "muted")
            self._typing = screen.set_timer(TYPING_S, lambda: screen.set_filter(message.value))

    def open_filter(self) -> None:
        """The line to type into, with what is in force."""
        screen = self._filtered
        row = screen.current
        self._place = row.id if row is not None else self._place
        screen.query_one("#filter-line").add_class("-shown")
        line = screen.query_one("#filter", Input)
        line.value = screen._filter_text
        line.focus()
        screen.say(HINT, "muted")

    def _stop_waiting(self) -> None:
        if self._typing is not None:
            self._typing.stop()
            self._typing = None

    def on_input_submitted(self, message: Input.Submitted) -> None:
        screen = self._filtered
        if message.input.id == "filter":
            if self._typing is not None or names_begun(message.value):
                self._stop_waiting()
                screen.set_filter(message.value)
            screen.close_filter()

    def on_key(self, event: events.Key) -> None:
        screen = self._filtered
        if event.key == "escape" and isinstance(screen.focused, Input):
            event.stop()
            screen.query_one("#filter", Input).value = ""
            self._stop_waiting()
            screen.set_filter("")
            screen.close_filter()
            screen.say("")
            if self._place and screen.tree_list.go_to(self._place):
                screen.show_detail()

    def close_filter(self) -> None:
        """Back to the tree; the filter stays in force."""
        screen = self._filtered
        screen.query_one("#filter-line").remove_class("-shown")
        screen.go_to_pane(Pane.TREE)

    def set_filter(self, text: str) -> None:
        """Put a filter in force; a broken one changes nothing and says where."""
        screen = self._filtered
        try:
            found = parse_filter(text, calls=screen.model.tree.calls)
        except FilterProblem as problem:
            screen._point_at(problem)
            return
        if found is not None and found.codes:
            screen.say("searching the sources", "muted")
            wanted = found
            screen.run_worker(lambda: screen.find_code(wanted), thread=True, exclusive=True, group="filter")
        else:
            screen.workers.cancel_group(screen, "filter")
            screen.put_in_force(found)

    def find_code(self, found: Filter) -> None:
        """In a thread: whose sources match, then the filter is put in force, unless another one has come."""
        screen, worker = self._filtered, get_current_worker()
        try:
            with Store.open(screen.feed.folder, migrate=False) as store:
                for term in found.codes:
                    term.found = store.candidates_with(term.pattern)
        except (KernelTuiError, sqlite3.Error) as error:
            text = f"the sources cannot be searched: {error}; the filter is as it was"
            screen.app.call_from_thread(screen.say, text, "error")
            return
        if not worker.is_cancelled:
            screen.app.call_from_thread(screen.put_in_force, found)

    def put_in_force(self, found: Filter | None) -> None:
        """Show what a filter lets through."""
        screen = self._filtered
        outline, tree = screen.model.outline, screen.model.tree
        screen._filter_text = found.text.strip() if found is not None else ""
        outline.wanted = None if found is None else lambda v: found.test(v, tree.ideas.get(v.idea or ""))
        title = found.title if found else None
        outline.idea_wanted = None if title is None else lambda id: title(f"{id} {tree.ideas[id].title}")
        outline.touch()
        screen.tree_list.sync(())
        screen.tree_list.restyle()
        if screen.query_one("#filter-line").has_class("-shown") and outline.index(self._place) is not None:
            screen.tree_list.go_to(self._place)  # a filter half typed may have hidden it
        screen.paint_panels(time.time())
        screen.show_detail()
        if found is not None:
            ends = "es" if outline.matches == 1 else ""
            none = f"0 of {words.count_text(len(tree.variants), 'variant')} match; backspace edits, esc clears"
            screen.say(f"{outline.matches:,} match{ends}" if outline.matches else none, "muted")

    def _point_at(self, problem: FilterProblem) -> None:
        """What is wrong, with a caret under its place in the line above."""
        screen = self._filtered
        column, text = problem.column + 1, one_line(str(problem))
        if not screen.query_one("#filter-line").has_class("-shown"):
            screen.say(text, "error")
            return
        fits = column + len(text) + 3 <= screen.size.width
        line = f"{' ' * column}^ {text}" if fits else f"{text:>{max(0, column - 1)}} ^"
        screen.query_one("#message", OneLine).set([(line, "error")])
