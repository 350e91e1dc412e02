"""The one list widget: rows are drawn on demand, one strip each, and only what changed is repainted.

Everything that is longer than the screen stands on it: tree, code, diff, log, events. It never sees markup.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from math import ceil
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from kerneltui.tui.clip import Line as Line
from kerneltui.tui.clip import Span as Span
from kerneltui.tui.clip import clip_marked, measure
from kerneltui.tui.render import to_ascii

STRIPS_KEPT = 2000
PLAIN_CURSOR = Style(reverse=True)


class LineList(ScrollView, can_focus=True):
    """Lines of one cell height with a cursor row. Subclasses give `line_count` and `draw`."""

    DEFAULT_CSS = """
    LineList { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: scroll; overflow-y: scroll; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+d", "page(0.5)", show=False),
        Binding("ctrl+u", "page(-0.5)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("g,home", "first", show=False),
        Binding("G,end", "last", show=False),
        Binding("h,left", "sideways(-8)", show=False),
        Binding("l,right", "sideways(8)", show=False),
        Binding("enter", "choose", show=False),
    ]
    show_cursor: ClassVar[bool] = True
    auto_links = False

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, lines: LineList, row: int) -> None:
            super().__init__()
            self.lines, self.row = lines, row

        @property
        def control(self) -> LineList:
            return self.lines

    class Chosen(Message):
        """Enter, or a second click on the cursor row."""

        def __init__(self, lines: LineList, row: int) -> None:
            super().__init__()
            self.lines, self.row = lines, row

        @property
        def control(self) -> LineList:
            return self.lines

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor = 0
        self.content_width = 0  # widest line, where a list scrolls sideways
        self._strips: OrderedDict[Hashable, Strip] = OrderedDict()
        self._count: str | None = None  # digits after a 0: how often the next motion is made

    # ----------------------------------------------------------------- for subclasses

    def line_count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        """The cells of a row from column `left`; the caller cuts and pads."""
        raise NotImplementedError

    def version(self, row: int) -> Hashable:
        """Changes whenever `draw` would answer differently."""
        return row

    # ----------------------------------------------------------------- painting

    @property
    def view(self) -> Size:
        """Columns and rows of text: what is left beside the scrollbar."""
        return self.scrollable_content_region.size

    def style_of(self, token: str) -> Style:
        """The theme's style of a token."""
        return self.app.look[token]  # type: ignore[attr-defined,no-any-return]

    def base_style(self) -> Style:
        """Foreground and background of the widget."""
        return self.rich_style

    def render_lines(self, crop: Region) -> list[Strip]:
        """As Textual does it for a widget without border and padding, which this is, at a third of the time: strips are
        kept as they go out, and all that it looks up for each line is looked up once."""
        if self.styles.gutter:
            return super().render_lines(crop)
        strips = self._strips_of(crop.line_range)
        background = self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, background) for strip in strips]
        left, right = crop.column_span
        return strips if (left, right) == (0, self.size.width) else [strip.crop(left, right) for strip in strips]

    def render_line(self, y: int) -> Strip:
        return self._strips_of((y,))[0]

    def _strips_of(self, lines: Iterable[int]) -> list[Strip]:
        """Strips as wide as the widget, the column below its scrollbar included."""
        width, full, count = self.view.width, self.size.width, self.line_count()
        left, top, base = round(self.scroll_x), round(self.scroll_y), self.base_style()
        found: list[Strip] = []
        for row in (top + y for y in lines):
            at_cursor = self.show_cursor and row == self.cursor
            version = self.version(row) if row < count else None
            key = (row if row < count else -1, version, self.has_focus if at_cursor else None, left, width, full)
            strip = self._strips.get(key)
            if strip is None:
                strip = self._make(row, left, width, base, at_cursor) if row < count else Strip([])
                strip = self._strips[key] = strip.adjust_cell_length(full, base).apply_offsets(left, row)
                if len(self._strips) > STRIPS_KEPT:
                    self._strips.popitem(last=False)
            found.append(strip)
        return found

    def _make(self, row: int, left: int, width: int, base: Style, at_cursor: bool) -> Strip:
        segments = self.draw(row, left, width)
        if self.app.ascii_only:  # type: ignore[attr-defined]
            segments = [Segment(to_ascii(text), style) for text, style, _ in segments]
        strip = Strip([Segment(text, base + style if style else base) for text, style, _ in segments])
        strip = strip.adjust_cell_length(width, base)
        if not at_cursor:
            return strip
        if self.has_focus:
            # One flat reversed bar: it is the only cue that survives sixteen colours.
            return Strip([Segment(strip.text, base + self.style_of("cursor"))], width)
        return strip.apply_style(self.style_of("cursor-off"))

    def forget(self) -> None:
        """Drop what was drawn and repaint."""
        self._strips.clear()
        self.refresh()

    def resized(self, *, lazy: bool = False) -> None:
        """Call when `line_count` or `content_width` changed.

        A lazy call leaves the scrollbar alone while the change would not be seen in it: in a long list a row more is
        less than a cell of the thumb, and its repaint costs more than everything else.
        """
        size = Size(max(self.content_width, 1), self.line_count())
        self.cursor = max(0, min(self.cursor, self.line_count() - 1))
        if size != self.virtual_size and not (lazy and self._is_unseen(size)):
            # Set past the reactive, which would lay out the whole screen again.
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def _is_unseen(self, size: Size) -> bool:
        old, new, rows = self.virtual_size.height, size.height, self.view.height
        top = round(self.scroll_y)
        if not old or not rows or top + 2 * rows > min(old, new):
            return False
        return abs(rows * rows / old - rows * rows / new) < 0.5 and abs(rows * top / old - rows * top / new) < 0.5

    def repaint_rows(self, rows: Iterable[int]) -> None:
        """Repaint rows that are on the screen; nothing for those that are not."""
        top = round(self.scroll_y)
        for row in rows:
            y = row - top
            if 0 <= y < self.view.height:
                self.refresh(Region(0, y, self.view.width, 1))

    def on_focus(self, _: events.Focus) -> None:
        self.repaint_rows([self.cursor])

    def on_blur(self, _: events.Blur) -> None:
        self.repaint_rows([self.cursor])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The text is painted anew, the scrollbar only where its thumb looks different: it takes as long as the text."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.set_reactive(ScrollBar.position, int(8 * new_value) / 8)
            if changed := self._thumb_rows(old_value, new_value):
                self.vertical_scrollbar.refresh(*changed)
        if round(old_value) != round(new_value):
            self.refresh(self.view.region)

    def _thumb_rows(self, *scrolled: float) -> list[Region]:
        """Cells of the scrollbar in which its thumb begins or ends, where it looks different."""
        rows, shown = self.virtual_size.height, self.view.height
        if rows <= shown:
            return []
        length = max(1, shown * shown / rows)
        before, after = (int(8 * (shown - length) * each / (rows - shown)) for each in scrolled)
        if before == after:
            return []
        width, first = self.vertical_scrollbar.size.width, min(before, after) // 8
        last = (max(before, after) + ceil(8 * length)) // 8
        return [Region(0, first, width, min(shown, last + 1) - first)]

    # ----------------------------------------------------------------- moving

    def on_key(self, event: events.Key) -> None:
        """0 begins a number, since 1 to 6 alone go to panes: 025j moves down by 25."""
        if self._count is None and event.key != "0":
            return
        if not event.key.isdecimal():
            return
        self._count = (self._count or "") + event.key
        event.stop()
        event.prevent_default()

    def _times(self) -> int:
        """The number typed before this motion, 0 if none was."""
        count, self._count = self._count, None
        return min(int(count or 0), 10**9)

    def move_to(self, row: int, *, top: bool = False) -> None:
        """Put the cursor on a row and bring it into view; `top` shows it as high as it goes."""
        row = max(0, min(row, self.line_count() - 1))
        before, self.cursor = self.cursor, row
        self._into_view(row, top)
        if before != row:
            self.repaint_rows([before, row])
            self.post_message(self.Moved(self, row))

    def _into_view(self, row: int, top: bool) -> None:
        self.resized()
        y, height = round(self.scroll_y), max(1, self.view.height)
        wanted = y
        if top or row < y:
            wanted = row
        elif row >= y + height:
            wanted = row - height + 1
        if wanted != y:
            self.scroll_to(y=wanted, animate=False, immediate=True)

    def action_move(self, by: int) -> None:
        by *= self._times() or 1
        if self.show_cursor:
            self.move_to(self.cursor + by)
        else:
            self.scroll_to(y=round(self.scroll_y) + by, animate=False, immediate=True)

    def action_page(self, share: float) -> None:
        share *= self._times() or 1
        by = int(share * max(1, self.view.height - 1)) or (1 if share > 0 else -1)
        if self.show_cursor:
            self.scroll_to(y=round(self.scroll_y) + by, animate=False, immediate=True)
        self.action_move(by)

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False, immediate=True)
        if self.show_cursor:
            self.move_to(0)

    def action_last(self) -> None:
        self.resized()
        if row := self._times():
            self.move_to(row - 1) if self.show_cursor else self.scroll_to(y=row - 1, animate=False, immediate=True)
            return
        self.scroll_to(y=self.line_count(), animate=False, immediate=True)
        if self.show_cursor:
            self.move_to(self.line_count() - 1)

    def action_sideways(self, by: int) -> None:
        self.scroll_to(x=round(self.scroll_x) + by, animate=False, immediate=True)

    def action_choose(self) -> None:
        if self.line_count():
            self.post_message(self.Chosen(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        row = round(self.scroll_y) + event.y
        if row >= self.line_count():
            return
        again = row == self.cursor and event.chain > 1
        if self.show_cursor:
            self.move_to(row)
        if again:
            self.post_message(self.Chosen(self, row))


class TextLines(LineList):
    """A text that scrolls both ways, with no cursor: code, diff, log, tables."""

    show_cursor = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: Sequence[Line] = ()
        self.marked: int | None = None  # a line that a search has found
        self.numbers_after: int | None = (
            None  # lines from here on have numbers, which stay when the text moves sideways
        )
        self._number = 0
        self._bumps: dict[int, int] = {}

    def show(self, lines: Sequence[Line], *, keep_place: bool = False, numbers_after: int | None = None) -> None:
        """Replace the text; the view starts at the top unless it is the same text, grown."""
        if keep_place and len(lines) == len(self.lines) and numbers_after == self.numbers_after:
            self.update_lines(lines)
            return
        self.lines, self.numbers_after = lines, numbers_after
        self._number += 1
        self._strips.clear()
        self.content_width = max((measure(line) for line in lines), default=0)
        self.marked = self.marked if keep_place else None
        self.resized()
        if not keep_place:
            self.scroll_to(x=0, y=0, animate=False, immediate=True)
        self.refresh()

    def update_lines(self, lines: Sequence[Line]) -> None:
        """Replace the text where only some lines differ: those are repainted, and the view stays."""
        if len(lines) != len(self.lines):
            self.show(lines, keep_place=True, numbers_after=self.numbers_after)
            return
        changed = [row for row, line in enumerate(lines) if line != self.lines[row]]
        self.lines = lines
        for row in changed:
            self._bumps[row] = self._bumps.get(row, 0) + 1
        self.repaint_rows(changed)

    def show_row(self, row: int, *, mark: bool = True) -> None:
        """Bring a line to the upper third, marked."""
        before, self.marked = self.marked, row if mark else None
        self.repaint_rows([row for row in (before, self.marked) if row is not None])
        self.scroll_to(y=max(0, row - self.view.height // 3), animate=False, immediate=True)
        self.refresh()

    def line_count(self) -> int:
        return len(self.lines)

    def version(self, row: int) -> Hashable:
        return (self._number, self._bumps.get(row, 0), row == self.marked)

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        gutter, line = self._gutter(row), self.lines[row]
        room = width - sum(len(part.text) for part in gutter)
        mark: str = self.app.glyphs.cut  # type: ignore[attr-defined]
        segments = [*gutter, *clip_marked(line, left, room, self.style_of, mark)]
        if row == self.marked:
            return [Segment(text, self.style_of("match")) for text, _, _ in segments] or [
                Segment(" ", self.style_of("match"))
            ]
        return segments

    def _gutter(self, row: int) -> list[Segment]:
        if self.numbers_after is None or row < self.numbers_after:
            return []
        width = max(3, len(str(len(self.lines) - self.numbers_after)))
        return [Segment(f"{row - self.numbers_after + 1:>{width}} ", self.style_of("line-number"))]
