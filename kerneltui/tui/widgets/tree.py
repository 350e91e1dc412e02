"""The tree pane: rounds, ideas, variants in columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from textual.message import Message

from kerneltui.records import IdeaStatus, Outcome, Variant
from kerneltui.tui import words
from kerneltui.tui.model import Model
from kerneltui.tui.outline import NodeKind, Row
from kerneltui.tui.render import Glyphs, cut, one_line, right
from kerneltui.tui.tally import Tally
from kerneltui.tui.widgets.linelist import LineList, Span

SPEED_CELLS, TIME_CELLS, REGS_CELLS, SHARED_CELLS = 8, 10, 6, 7
WIDE = 70  # columns of the pane from which registers and shared memory are shown


class TreeList(LineList):
    """Rows of the outline. Set `model` first; call `sync` when it changed."""

    class Opened(Message):
        """A row was opened or closed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.model: Model | None = None
        self.glyphs: Glyphs = self.app.glyphs  # type: ignore[attr-defined]
        self._changes: dict[str, int] = {}  # node -> how often it changed since the start
        self._epoch = 0
        self._placed = False  # whether the cursor was brought into view
        self._starred = ""  # the best that was drawn last

    # ----------------------------------------------------------------- keeping up

    def show(self, model: Model) -> None:
        """Show a session; the cursor goes to the best variant."""
        self.model = model
        model.outline.layout()
        self.resized()
        best = self._starred = model.tree.status.best or ""
        if best in model.tree.variants:
            model.outline.reveal(best)
            model.outline.layout()
            self.resized()
            self.cursor = model.outline.index(best) or 0
        self.forget()
        self._placed = False
        self.on_resize()

    def on_resize(self) -> None:
        """The cursor stays in view; at first it stands in the middle, with what lies around it."""
        height = self.view.height
        if self.model is None or not height:
            return
        if self._placed:
            self._into_view(self.cursor, False)
        else:
            self._placed = True
            self.resized()
            self.scroll_to(y=self.cursor - height // 2, animate=False, immediate=True)

    def sync(self, nodes: Iterable[str]) -> None:
        """Lay out again and repaint what is seen of it; the cursor stays on its node."""
        if self.model is None:
            return
        outline, best = self.model.outline, self.model.tree.status.best or ""
        # The star leaves a row that nothing else has changed.
        nodes = {*nodes, *({self._starred, best} if self._starred != best else ())}
        self._starred = best
        nodes |= self._groups_of(nodes)
        for node in nodes:
            self._changes[node] = self._changes.get(node, 0) + 1
        old, at = outline.rows, self.current
        top, line = round(self.scroll_y), self.cursor - round(self.scroll_y)
        first = old[top].id if top < len(old) else None
        if not outline.layout():
            self.repaint_rows(row for node in nodes if (row := outline.index(node)) is not None)
            return
        if at is not None and (row := outline.index(at.id)) is not None:
            self.cursor = row
        self.resized(lazy=True)
        moved = self._hold_still(first, top)
        if 0 <= line < self.view.height and not 0 <= self.cursor - round(self.scroll_y) < self.view.height:
            self.scroll_to(y=self.cursor - line, animate=False, immediate=True)  # another order took it out of sight
            moved = True
        if moved:
            self.refresh(self.view.region)
            return
        before, after = (rows[top : top + self.view.height] for rows in (old, outline.rows))
        self.repaint_rows(top + y for y, pair in enumerate(zip_longest(before, after)) if pair[0] != pair[1])
        self.repaint_rows(row for node in nodes if (row := outline.index(node)) is not None)

    def _groups_of(self, nodes: Iterable[str]) -> set[str]:
        """Ideas and rounds whose figures count these."""
        assert self.model is not None
        tree, groups = self.model.tree, set[str]()
        for node in nodes:
            variant = tree.variants.get(node)
            idea = tree.ideas.get(variant.idea or "" if variant else node)
            if variant:
                groups.add(f"r{variant.round}")
            if idea:
                groups |= {idea.id, f"r{idea.round}"}
        return groups

    def _hold_still(self, first: str | None, top: int) -> bool:
        """Keep the first row that was on the screen where it was; whether rows were inserted above it."""
        row = self.model.outline.index(first) if self.model and first else None
        if row is None or row == top or top == 0:
            return False
        self.scroll_to(y=row, animate=False, immediate=True)
        return True

    def restyle(self) -> None:
        """Draw everything anew: another filter, sort, mark or theme."""
        self._epoch += 1
        self.forget()

    # ----------------------------------------------------------------- the cursor

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        rows = self.model.outline.rows if self.model else []
        return rows[self.cursor] if self.cursor < len(rows) else None

    def go_to(self, id: str) -> bool:
        """Open whatever hides a node and put the cursor on it."""
        if self.model is None:
            return False
        outline = self.model.outline
        if outline.index(id) is None:
            outline.reveal(id)
            outline.layout()
            self.resized()
            self.refresh()
        row = outline.index(id)
        if row is not None:
            self.move_to(row)
        return row is not None

    def toggle(self, row: Row, opened: bool | None = None) -> None:
        """Open or close a row."""
        if self.model is None:
            return
        outline = self.model.outline
        outline.set_open(row, not outline.is_open(row) if opened is None else opened)
        self._changes[row.id] = self._changes.get(row.id, 0) + 1
        self.sync(())
        self.refresh()

    def action_sideways(self, by: int) -> None:
        """Left closes or goes to the parent, right opens or goes to the first child."""
        row = self.current
        if row is None or self.model is None:
            return
        outline = self.model.outline
        openable, opened = outline.has_children(row), outline.is_open(row)
        if by < 0:
            if openable and opened and row.kind is not NodeKind.VARIANT:
                self.toggle(row, False)
            elif (above := outline.parent_index(self.cursor)) is not None:
                self.move_to(above)
        elif openable and not opened:
            self.toggle(row, True)
        elif openable:
            self.move_to(self.cursor + 1)

    # ----------------------------------------------------------------- drawing

    def line_count(self) -> int:
        return len(self.model.outline.rows) if self.model else 0

    def version(self, row: int) -> Hashable:
        assert self.model is not None
        outline = self.model.outline
        item = outline.rows[row]
        tally = outline.tallies.get(item.id)
        counts = (
            (tally.ok, tally.fail, tally.running, tally.waiting, tally.best.id if tally.best else "") if tally else ()
        )
        return (item, self._changes.get(item.id, 0), counts, self._epoch, item.id in self.model.marks,
                self.model.asked(item.id), self.model.doing(item.id) if item.kind is NodeKind.VARIANT else "", item.id == self.model.tree.status.best, outline.is_open(item))  # fmt: skip

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        assert self.model is not None
        item = self.model.outline.rows[row]
        spans = self.spans(item, width)
        if item.dimmed:
            spans = [(text, "faint") for text, _ in spans]
        return [Segment(text, self.style_of(token) if token else None) for text, token in spans]

    def spans(self, row: Row, width: int) -> list[Span]:
        """A row as coloured text."""
        if row.kind is NodeKind.ROUND:
            return self._round(row, width)
        if row.kind is NodeKind.IDEA:
            return self._idea(row, width)
        return self._variant(row, width)

    def _lead(self, row: Row) -> list[Span]:
        """Mark, indent and the triangle."""
        assert self.model is not None
        outline = self.model.outline
        mark = self.glyphs.mark if row.id in self.model.marks else " "
        sign = (
            (self.glyphs.opened if outline.is_open(row) else self.glyphs.closed) if outline.has_children(row) else " "
        )
        return [(mark, "marked"), ("  " * row.depth, ""), (sign + " ", "muted")]

    def _group(self, lead: list[Span], tally: Tally, note: Span | None, width: int) -> list[Span]:
        """A round's or an idea's row: its name, then figures in columns."""
        tail = TIME_CELLS + (REGS_CELLS + SHARED_CELLS + 1 if width >= WIDE else 1)
        figures = self._figures(tally, tail)
        room = width - tail - SPEED_CELLS
        spans = _fit_spans(lead, room - (cell_len(note[0]) + 1 if note else 0), self.glyphs.cut)
        if note:
            spans.append((" " + note[0], note[1]))
        used = sum(cell_len(text) for text, _ in spans)
        spans.append((" " * max(0, room - used), ""))
        ratio = words.ratio_text(tally.best, self.glyphs)
        is_best = tally.best is not None and self.model is not None and tally.best.id == self.model.tree.status.best
        spans.append((right(ratio, SPEED_CELLS), "best" if is_best else "number"))
        return spans + figures

    def _figures(self, tally: Tally, room: int) -> list[Span]:
        """Counts in words, in letters where there is no room for words; what is going on first to stay."""
        counts = ((tally.ok, "ok", "ok"), (tally.running, "run", "run"), (tally.fail, "fail", "muted" if tally.ok else "fail"),
                  (tally.waiting, "wait", "wait"))  # fmt: skip
        parts: list[Span] = []
        gap = "  " if room > 20 else " "
        for count, name, token in counts:
            texts = (f"{gap}{count} {name}", f"{gap}{count}{name[0]}") if count else ()
            text = next((text for text in texts if len(text) <= room), "")
            if text:
                parts.append((text, token))
                room -= len(text)
        return parts

    def _round(self, row: Row, width: int) -> list[Span]:
        assert self.model is not None
        tally = self.model.outline.tallies.get(row.id, Tally())
        number = int(row.id[1:])
        name = f"round {number}" if number else "start"
        lead = [*self._lead(row), (name, "round")]
        if tally.ideas:
            lead.append((f"  {words.count_text(tally.ideas, 'idea')}", "muted"))
        return self._group(lead, tally, None, width)

    def _idea(self, row: Row, width: int) -> list[Span]:
        assert self.model is not None
        idea = self.model.tree.ideas[row.id]
        tally = self.model.outline.tallies.get(row.id, Tally())
        gone = idea.status in (IdeaStatus.PRUNED, IdeaStatus.REJECTED, IdeaStatus.MERGED)
        asked = self.model.asked(row.id)
        note = words.idea_note(idea) or ("human" if idea.human else "")
        if asked:
            note = f"{asked} asked"
        token = "pruned" if gone else "idea"
        lead = [*self._lead(row), (idea.id + " ", "muted"), (words.idea_title(idea), token)]
        return self._group(
            lead, tally, (note, "human" if idea.human and not gone else "warning") if note else None, width
        )

    def _variant(self, row: Row, width: int) -> list[Span]:
        assert self.model is not None
        variant = self.model.tree.variants[row.id]
        word, token = words.state_word(variant), words.state_token(variant)
        gone = variant.pruned
        asked = self.model.asked(row.id)
        lead = [*self._lead(row), (variant.id + " ", "pruned" if gone else "muted"), (f"{word:<4} ", token)]
        remarks = [text for text, wanted in (
            (f"{asked} asked", asked), ("elsewhere", variant.world and not self.model.tree.is_here(variant)),
            (f"= {variant.same_as}", variant.same_as), ("pinned", variant.pinned), ("pruned", gone and not asked),
            ("human", variant.human), ("note", variant.note)) if wanted]  # fmt: skip
        note = " ".join(remarks if width >= WIDE else remarks[:1])
        name = self._label_of(variant)
        if variant.outcome is not Outcome.CORRECT:
            return self._told(lead, variant, name, note, width)
        columns = self._columns(variant, width)
        room = width - sum(cell_len(text) for text, _ in columns) - (cell_len(note) + 1 if note else 0)
        spans = _fit_spans([*lead, (name, "muted")], room, self.glyphs.cut)
        used = sum(cell_len(text) for text, _ in spans)
        spans.append((" " * max(0, room - used), ""))
        if note:
            spans.append((" " + note, "pinned" if variant.pinned else "human" if variant.human else "warning"))
        return spans + columns

    def _label_of(self, variant: Variant) -> str:
        if variant.defines and variant.kind == "sweep":
            return " ".join(f"{name}={value}" for name, value in variant.defines)
        return one_line(variant.name) or (str(variant.kind) if variant.kind != "attempt" else "")

    def _columns(self, variant: Variant, width: int) -> list[Span]:
        is_best = self.model is not None and variant.id == self.model.tree.status.best
        star = "*" if is_best else " "
        ratio = words.ratio_text(variant, self.glyphs)
        token = "best" if is_best else "warning" if variant.speedup and variant.speedup.tie else "ok"
        columns = [(right(star + ratio, SPEED_CELLS), token),
                   (right(words.time_text(variant.median_us, self.glyphs), TIME_CELLS), "number")]  # fmt: skip
        if width >= WIDE:
            regs = f"{variant.registers}r" if variant.registers else ""
            shared = words.bytes_text(variant.shared_bytes) if variant.shared_bytes else ""
            columns.append((right(regs, REGS_CELLS) + right(shared, SHARED_CELLS) + " ", "muted"))
        else:
            columns.append((" ", ""))
        return columns

    def _told(self, lead: list[Span], variant: Variant, name: str, note: str, width: int) -> list[Span]:
        """A variant without a time: what happened to it, in words, over the whole line."""
        token = "muted"
        if words.is_failure(variant):
            reason = one_line(variant.author_error or variant.message)
            lead.append((f"{words.outcome_text(variant):<8}", "fail"))
            text = reason or name
        elif variant.state in words.ACTIVE:
            doing = self.model.doing(variant.id) if self.model else ""
            text, token = f"{name}  {doing or variant.state}", "run"
        else:
            text = f"{name}  waits" if variant.state != "cancelled" else f"{name}  cut"
        room = width - (cell_len(note) + 2 if note else 0)
        spans = _fit_spans([*lead, (text, token)], room, self.glyphs.cut)
        if note:
            spans.append(("  " + note, "warning"))
        return spans


def _fit_spans(spans: list[Span], room: int, mark: str) -> list[Span]:
    """The spans, the last one cut so that all fit."""
    used = sum(cell_len(text) for text, _ in spans)
    if used <= room:
        return list(spans)
    fitted: list[Span] = []
    for text, token in spans:
        cells = cell_len(text)
        if cells > room:
            fitted.append((cut(text, room, mark) if room > 0 else "", token))
            break
        fitted.append((text, token))
        room -= cells
    return fitted
