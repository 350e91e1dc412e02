"""How the main screen's parts are filled from the model, and how often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from kerneltui.tui import panels, words
from kerneltui.tui.actions import FOOTER_EMPTY, FOOTER_UNREAD
from kerneltui.tui.arrange import Pane
from kerneltui.tui.render import cut, one_line, wrap
from kerneltui.tui.strip import strip_lines
from kerneltui.tui.widgets.linelist import Line, TextLines
from kerneltui.tui.widgets.oneline import OneLine

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

SLOW_WRITE_S = 0.1  # a write to the terminal that took longer halves the rate of painting
SLOWEST_PAINT_S = 1.0
STAMP_CELLS = 8  # the time before a message, and a margin


class Painting:
    """A third of the main screen."""

    @property
    def _painted(self) -> MainScreen:
        return cast("MainScreen", self)

    def keep_pace(self) -> None:
        """Half as many paints where the terminal is slow to take them, at least one a second; back again when it is not."""
        screen = self._painted
        wanted: float = screen.app.paint_s  # type: ignore[attr-defined]
        slowest: float = screen.app.slowest_write_s()  # type: ignore[attr-defined]
        pace = screen._paint_s
        if slowest > SLOW_WRITE_S:
            pace = min(max(SLOWEST_PAINT_S, wanted), 2 * pace)
        elif pace > wanted and int(time.monotonic()) % 5 == 0:
            pace = max(wanted, pace / 2)
        if pace != screen._paint_s:
            screen._paint_s = pace
            screen._paint_timer.stop()
            screen._paint_timer = screen.set_interval(pace, screen.paint)
            screen.say(
                f"slow link: {1 / pace:.0f} paints a second" if pace > wanted else "the link is fast again", "muted"
            )

    def paint_all(self) -> None:
        """Everything, as after a change of theme or size."""
        screen = self._painted
        now = time.time()
        if screen._model is not None:
            screen.paint_clocks(now)
            screen.paint_panels(now)
        screen.paint_footer()

    def paint_clocks(self, now: float) -> None:
        """What changes as time goes by."""
        screen = self._painted
        width = screen.size.width
        left, right = panels.header(screen.model, screen.glyphs, frozen=screen.frozen, now=now, width=width)
        screen.query_one("#header", OneLine).set(left, right)
        screen.paint_banner(now)
        for pane, make in ((Pane.WORKERS, panels.workers), (Pane.BUDGET, panels.budget)):
            body = screen.query_one(f"#{pane}", TextLines)
            lines = make(screen.model, screen.glyphs, now, body.view.width or 80)
            if pane is Pane.BUDGET and body.view.height > len(lines) + 3:
                lines = [*lines, *panels.spend_lines(screen.model)]
            body.update_lines(lines)

    def paint_banner(self, now: float) -> None:
        """Standing remarks above the panes."""
        screen = self._painted
        bar = screen.query_one("#banner", TextLines)
        lines: list[Line] = []
        if screen._model is not None:
            width = screen.size.width
            lines = panels.banner(screen.model, screen.trouble, screen.glyphs, now, width, screen._last_words)
        elif screen.trouble:
            lines = [[(" " + line, "error")] for line in wrap(one_line(screen.trouble), screen.size.width - 2)]
            lines.append(
                [(" It is read again every two seconds. ", "muted"), ("esc", "key"), (" shows all sessions", "")]
            )
            screen.query_one("#header", OneLine).set(
                [(f" {one_line(screen.feed.folder.name)} ", "round"), (" cannot be read", "error")]
            )
            screen.paint_footer()
        if screen.size.height < 30 and screen._model is not None:
            lines = lines[: 2 if screen.model.engine_gone() else 1]
        if len(lines) != len(bar.lines) or not bar.lines:
            bar.display = bool(lines)
            bar.styles.height = max(1, len(lines))
        bar.update_lines(lines)

    def paint_panels(self, now: float) -> None:
        """Titles, plot and events."""
        screen = self._painted
        outline = screen.model.outline
        count = words.count_text(len(screen.model.tree.variants), "variant")
        if screen._filter_text:
            count = f"{outline.matches:,} of {count}"
        marks = f"{len(screen.model.marks)} marked  " if screen.model.marks else ""
        queue = panels.queue_text(screen.model)
        tree_right = [(marks, "marked"), (f"{count}  by {outline.sort} ", "muted")]
        screen.title_of(Pane.TREE).set(
            [
                (" 1 Tree", ""),
                (
                    f"  {'/' if screen._filter_text else ''}{cut(screen._filter_text, max(12, screen.tree_list.size.width - 45), screen.glyphs.cut)}",
                    "key",
                ),
            ],
            tree_right,
        )
        screen.title_of(Pane.WORKERS).set([(" 4 Workers", "")], [(f"{queue} ", "muted")])
        screen.plot.sync(outline)
        room = screen.plot.size.width - len(screen.plot.note) - 30
        legends = ("+ its own best  o human  * pinned ", "o human  * pinned ", "")
        legend = next(each for each in legends if len(each) <= max(0, room))
        screen.title_of(Pane.PLOT).set(
            [(" 3 Best speed-up by round", "")], [(f"{screen.plot.note}  ", "warning"), (legend, "muted")]
        )
        screen.log_list.sync(screen.model)
        screen.paint_clocks(now)

    def paint_footer(self) -> None:
        """Keys that fit, of those that do something in the pane and its tab."""
        screen = self._painted
        only: tuple[str, ...] = ()
        if screen._model is None and screen.trouble:
            only = FOOTER_UNREAD
        elif screen._model is not None and screen.pane is Pane.TREE and screen.model.is_empty():
            only = FOOTER_EMPTY
        shown = panels.footer(screen.size.width, screen.pane, screen.detail.shown_tab, only=only)
        if screen.query_one("#filter-line").has_class("-shown"):  # letters go into it
            shown = [(" enter", "key"), (" keeps the filter ", "muted"), (" esc", "key"), (" drops it ", "muted")]
        screen.query_one("#footer", OneLine).set(shown)

    def say(self, text: str, token: str = "") -> None:
        """The one message line; nothing is said anywhere else."""
        screen = self._painted
        room = screen.size.width - STAMP_CELLS
        screen.query_one("#message", OneLine).set(panels.message(cut(one_line(text), room, screen.glyphs.cut), token))

    def show_detail(self) -> None:
        """The detail pane, or the strip that stands for it, on the row under the cursor."""
        screen = self._painted
        if screen._model is None:
            return
        row = screen.current
        if screen._arrangement is not None and screen._arrangement.strip:
            screen.query_one("#strip", TextLines).show(strip_lines(screen.model, row, screen.glyphs, screen.size.width))
        if screen.query_one("#detail-pane").display:
            left, right = screen.detail.show_node(screen.model, row)
            screen.title_of(Pane.DETAIL).set([(" 2", ""), *left], [("  ", ""), *right])
        screen.paint_footer()
