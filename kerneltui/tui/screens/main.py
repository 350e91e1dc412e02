"""The main screen: tree, detail, plot, workers, budget, events; paint clock, focus and keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from kerneltui.tui.actions import ACTIONS
from kerneltui.tui.arrange import Arrangement, Pane, arrange, too_small
from kerneltui.tui.compositor import use_rows
from kerneltui.tui.details import Tab
from kerneltui.tui.engines import last_log_line
from kerneltui.tui.feed import Feed, FeedFailed, SessionChanged, SessionCounted, SessionLoaded
from kerneltui.tui.model import Model
from kerneltui.tui.outline import NodeKind, Row
from kerneltui.tui.render import one_line
from kerneltui.tui.screens.deeds import Deeds
from kerneltui.tui.screens.filtering import Filtering
from kerneltui.tui.screens.painting import Painting
from kerneltui.tui.widgets.detail import Detail
from kerneltui.tui.widgets.events import EventList
from kerneltui.tui.widgets.linelist import LineList, TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle, Rule
from kerneltui.tui.widgets.plot import Plot
from kerneltui.tui.widgets.tree import TreeList

if TYPE_CHECKING:
    from kerneltui.tui.screens.hands import Hands

RESTING_S = 5  # how often a search that rests is looked at: nothing in it goes by the clock
FIRST_ROWS_S = 0.3  # the first paint waits so long for the session, and comes without it where its disk is slow
HANDS_S = 0.5  # after the first rows, what decisions need is loaded: no key waits for it
SETTLE_S = 0.1  # the detail follows the cursor after it has stood still for so long: past the repeat of a key


class MainScreen(Deeds, Painting, Filtering, Screen[None]):
    """One open session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"act({action.id!r})", action.title, show=False, id=action.id)
        for action in ACTIONS
        for key in action.keys
    ]
    AUTO_FOCUS = "#tree"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        use_rows(self)
        self.feed = Feed(folder, self._take)
        self._listens = threading.Event()
        self.feed.start()  # reads while the screen is made
        self._model: Model | None = None
        self.pane, self.lower, self.zoomed = Pane.TREE, Pane.PLOT, False
        self.frozen = False
        self.trouble = ""
        self._dirty: set[str] = set()
        self._stale = False
        self._last_words = ""
        self._second = 0
        self._arrangement: Arrangement | None = None
        self._filter_text = ""

    @cached_property
    def hands(self) -> Hands:
        """Turns keys into decisions. Loaded once the first rows are on the screen: it needs half as much as the rest."""
        from kerneltui.tui.screens.hands import Hands

        return Hands(self)

    # ----------------------------------------------------------------- parts

    def compose(self) -> ComposeResult:
        yield OneLine(id="header")
        yield TextLines(id="banner")
        with Horizontal(id="panes"):
            with Vertical(id="tree-pane"):
                yield PaneTitle(id="tree-title")
                yield TreeList(id="tree")
            yield Rule(id="rule", classes="rule")
            with Vertical(id="detail-pane"):
                yield PaneTitle(id="detail-title")
                yield Detail(id="detail")
        yield TextLines(id="strip")
        with Horizontal(id="bottom"):
            with Vertical(id="plot-pane"):
                yield PaneTitle(id="plot-title")
                yield Plot(id="plot")
            yield Rule(id="rule-2", classes="rule")
            with Vertical(id="side-pane"):
                with Vertical(id="workers-pane"):
                    yield PaneTitle(id="workers-title")
                    yield TextLines(id="workers")
                with Vertical(id="budget-pane"):
                    yield PaneTitle(id="budget-title")
                    yield TextLines(id="budget")
        with Vertical(id="events-pane"):
            yield PaneTitle(id="events-title")
            yield EventList(id="events")
        with Horizontal(id="filter-line"):
            line = Input(id="filter", placeholder="state:fail  speed>1.2  idea:i003  words", select_on_focus=False)
            line.cursor_blink = False
            yield line
        yield OneLine(id="message")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        self.tree_list = self.query_one("#tree", TreeList)
        self.detail = self.query_one("#detail", Detail)
        self.plot = self.query_one("#plot", Plot)
        self.log_list = self.query_one("#events", EventList)
        for pane, number in zip(Pane, range(1, 7), strict=True):
            self.title_of(pane).set([(f" {number} {pane.capitalize()}", "")])
        self.query_one("#header", OneLine).set([(f" {one_line(self.feed.folder.name)}  reading the session", "muted")])
        self.arrange_panes()
        self._paint_s: float = self.app.paint_s  # type: ignore[attr-defined]
        self._paint_timer = self.set_interval(self._paint_s, self.paint)
        self.set_interval(RESTING_S, self.paint)
        self._settle_timer = self.set_timer(SETTLE_S, self.show_detail, pause=True)
        self._listens.set()
        self.feed.loaded.wait(FIRST_ROWS_S)  # to paint once with rows is quicker than twice

    def on_unmount(self) -> None:
        self.feed.stop()
        if self._model is not None:
            self._model.close()

    @property
    def model(self) -> Model:
        """The session; only after it was loaded."""
        assert self._model is not None
        return self._model

    @property
    def current(self) -> Row | None:
        """The row under the tree's cursor."""
        return self.tree_list.current

    def title_of(self, pane: Pane) -> PaneTitle:
        """The line above a pane."""
        return self.query_one(f"#{pane}-title", PaneTitle)

    def list_of(self, pane: Pane) -> LineList:
        """What a pane shows."""
        return self.query_one(f"#{pane}", LineList)

    # ----------------------------------------------------------------- news from the feed

    def _take(self, message: Message) -> None:
        """Called by the feed, which may be ready before the screen is."""
        self._listens.wait()
        self.post_message(message)

    def on_session_loaded(self, message: SessionLoaded) -> None:
        self._model = Model.open(self.feed.folder, message.loaded)
        self._last_words = last_log_line(self.feed.folder)
        self.tree_list.show(self.model)
        self.trouble = ""
        self.paint_all()
        self.show_detail()
        self.call_after_refresh(self._first_rows_shown)

    def _first_rows_shown(self) -> None:
        self.feed.shown.set()
        self.set_timer(HANDS_S, lambda: self.hands)

    def on_session_counted(self, message: SessionCounted) -> None:
        """A large session: older rounds have their counts now, and the plot its points."""
        outline = self.model.outline
        outline.take_counts(message.counts)
        self.tree_list.sync({f"r{number}" for number in message.counts.tallies})
        self.paint_panels(time.time())
        row = self.current
        if row is None or row.kind is NodeKind.ROUND:
            self.show_detail()

    def on_session_changed(self, message: SessionChanged) -> None:
        if self._model is None:
            return
        asked = {decision.target for decision in self.model.pending}
        self.model.fold(message.changed)
        asked ^= {decision.target for decision in self.model.pending}
        new = message.changed.tree
        self._dirty |= asked | set(new.ideas) | set(new.variants)
        self._dirty |= {variant.idea for variant in new.variants.values() if variant.idea}
        self._stale = True
        self._paint_timer.resume()
        self.trouble = ""

    def on_feed_failed(self, message: FeedFailed) -> None:
        self.trouble = message.text
        self.paint_banner(time.time())

    # ----------------------------------------------------------------- painting

    def paint(self) -> None:
        """The paint clock: what is dirty, four times a second; clocks, once a second."""
        if self._model is None or self.frozen or not self.is_current:
            return
        now = time.time()
        self.keep_pace()
        resting = self.model.is_resting()
        if due := int(now) - self._second >= (RESTING_S if resting else 1):
            self._second = int(now)
            self.model.check_engine()
        if not self._stale:
            if due:
                self.paint_clocks(now)
            if resting:
                self._paint_timer.pause()  # until there is news
            return
        dirty, self._dirty, self._stale = self._dirty, set(), False
        self.tree_list.sync(dirty | {f"r{number}" for number in self.model.outline.round_numbers()[-1:]})
        self.call_later(self._paint_rest, dirty)  # a key that came meanwhile goes first

    def _paint_rest(self, dirty: set[str]) -> None:
        self.paint_panels(time.time())
        row = self.current
        if row is None or row.id in dirty or row.kind is NodeKind.ROUND:
            self.show_detail()

    # ----------------------------------------------------------------- size and focus

    def on_resize(self, _: events.Resize) -> None:
        self.arrange_panes()
        self.call_after_refresh(self._after_resize)

    def _after_resize(self) -> None:
        self.paint_all()
        self.show_detail()

    def arrange_panes(self) -> None:
        """Show what fits."""
        width, height = self.size
        small = too_small(width, height)
        found = arrange(width, height, self.pane, zoomed=self.zoomed, lower=self.lower)
        for pane in Pane:
            self.query_one(f"#{pane}-pane").display = pane in found.shown and not small
        upper = found.shown & {Pane.TREE, Pane.DETAIL}
        self.query_one("#panes").display = bool(upper) and not small
        self.query_one("#rule").display = len(upper) == 2
        self.query_one("#strip").display = found.strip and not small
        bottom = self.query_one("#bottom")
        lower = found.shown & {Pane.PLOT, Pane.WORKERS, Pane.BUDGET}
        bottom.display = bool(lower) and not small
        self.query_one("#rule-2").display = Pane.PLOT in lower and len(lower) > 1
        self.query_one("#side-pane").display = bool(lower - {Pane.PLOT})
        bottom.styles.height = found.bottom_rows if found.bottom_rows > 0 else "1fr"
        self.query_one("#budget-pane").styles.height = 6 if Pane.WORKERS in lower else "1fr"
        events_pane = self.query_one("#events-pane")
        events_pane.styles.height = found.events_rows if found.events_rows > 0 else "1fr"
        for id in ("#footer", "#banner"):
            self.query_one(id).display = not small and (
                id == "#footer" or bool(self.query_one("#banner", TextLines).lines)
            )
        if small:
            self.say(f"needs 60x16, have {width}x{height}", "warning")
        elif self._arrangement is None or not self.focused:
            self.list_of(self.pane).focus()
        self._arrangement = found

    def go_to_pane(self, pane: Pane) -> None:
        """Focus a pane, and show it where it is hidden."""
        if self.zoomed and pane is not self.pane:
            self.zoomed = False
        self.pane = pane
        if pane not in (Pane.TREE, Pane.DETAIL):
            self.lower = pane
        self.arrange_panes()
        self.list_of(pane).focus()
        self.call_after_refresh(self._after_resize)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in Pane:
            focused = event.widget is self.list_of(pane)
            self.title_of(pane).light(focused)
            if focused:
                self.pane = pane
        self.paint_footer()

    # ----------------------------------------------------------------- messages of the parts

    def on_line_list_moved(self, message: LineList.Moved) -> None:
        if message.lines is self.tree_list:
            self._settle_timer.stop()
            self._settle_timer = self.set_timer(SETTLE_S, self.show_detail)

    def on_detail_remade(self, _: Detail.Remade) -> None:
        self.show_detail()

    def on_line_list_chosen(self, message: LineList.Chosen) -> None:
        if message.lines is self.tree_list:
            self.act_node_open()
        elif message.lines is self.detail:
            self.show_error_source()
        elif message.lines is self.log_list:
            event = self.log_list.current
            if event is not None and event.node and self.tree_list.go_to(event.node):
                self.go_to_pane(Pane.TREE)
                self.show_detail()

    def show_error_source(self) -> None:
        """From an error in the Log tab to its line in the Code tab."""
        row = self.current
        variant = self.model.tree.variants.get(row.id) if row else None
        if variant is None or self.detail.tab_for(variant) is not Tab.LOG:
            return
        number = self.detail.source_line()
        if number is None:
            self.say("no error here names a line of the source", "muted")
            return
        self.detail.wrapped = False
        self.show_tab(Tab.CODE)
        if self.detail.show_source_line(number):
            self.say(f"line {number}; [ goes back to the log", "muted")
        else:
            self.say(f"the source has no line {number}", "muted")

    # ----------------------------------------------------------------- asking

    def ask(self, title: str, take: Callable[[str], None], *, value: str = "", hint: str = "",
            check: Callable[[str], str] | None = None) -> None:  # fmt: skip
        """One line of text."""
        from kerneltui.tui.screens.dialogs import Ask

        self.app.push_screen(Ask(title, value, hint, check), lambda text: take(text) if text is not None else None)

    def confirm(self, question: str, yes: Callable[[], None]) -> None:
        """A yes or no; no unless y."""
        from kerneltui.tui.screens.dialogs import Confirm

        self.app.push_screen(Confirm(question), lambda answer: yes() if answer else None)

    def show_tab(self, tab: Tab) -> None:
        """A tab of the detail pane, which is brought up."""
        self.detail.choose(tab)
        if not self.query_one("#detail-pane").display:
            self.go_to_pane(Pane.DETAIL)
        self.show_detail()
