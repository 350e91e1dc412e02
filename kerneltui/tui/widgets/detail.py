"""The detail pane: one tab of what stands under the tree's cursor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from kerneltui.records import Candidate, Variant
from kerneltui.tui import details, diffs, profiles, syntax, timings, words
from kerneltui.tui.details import Tab
from kerneltui.tui.model import Model, Subject
from kerneltui.tui.outline import NodeKind, Row
from kerneltui.tui.render import Glyphs, lines, wrap
from kerneltui.tui.widgets.linelist import Line, Span, TextLines

TABS = tuple(Tab)
BESIDE_FROM = 100  # columns that a diff side by side needs
SOURCE_LINE = re.compile(r"\b[\w.-]+\.(?:cu|cpp|py)(?:\((\d+)\)|:(\d+))")  # kernel.cu(27), kernel.cpp:27:5
NUMBER_CELLS = 2  # the pane's number before its title
GAP_CELLS = 3  # what keeps both ends of a title apart, and the margin
WRAP_LIMIT = 20_000  # lines; more would hold up a key


class SlowLines(Message):
    """A thread has made lines that would have held up a key."""

    def __init__(self, key: object, lines: list[Line], hunks: list[int], numbers_after: int | None = None) -> None:
        super().__init__()
        self.key, self.lines, self.hunks, self.numbers_after = key, lines, hunks, numbers_after


@dataclass(slots=True)
class _Shown:
    """What is in the pane, to know whether it must be made again."""

    key: object = None
    stops: Sequence[int] = ()  # rows of errors or hunks, for n and { }


class Detail(TextLines):
    """Text of the chosen tab. The screen calls `show_node`."""

    class Remade(Message):
        """It has another width, or a thread has brought its lines: text or title no longer fit."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._width = 0
        self.glyphs: Glyphs = self.app.glyphs  # type: ignore[attr-defined]
        self.tab = Tab.CODE
        self.chosen = False  # a person chose the tab: then it stays
        self.shown_tab = ""  # of what stands in the pane; "" for a round or the session
        self.base = "parent"
        self.wrapped = False
        self.beside = False  # the diff side by side, where there is room
        self._shown = _Shown()

    def on_resize(self) -> None:
        if self.view.width != self._width:
            self._width = self.view.width
            self.post_message(self.Remade())

    # ----------------------------------------------------------------- choosing

    def tab_for(self, variant: Variant) -> Tab:
        """The chosen tab; by itself the log for a failure, else the code."""
        if self.chosen:
            return self.tab
        return Tab.LOG if words.is_failure(variant) else Tab.CODE

    def choose(self, tab: Tab) -> None:
        """Stay on a tab from now on."""
        self.tab, self.chosen = tab, True

    def step_tab(self, by: int, current: Tab) -> None:
        """The tab beside the current one."""
        self.choose(TABS[(TABS.index(current) + by) % len(TABS)])

    # ----------------------------------------------------------------- showing

    def show_node(self, model: Model, row: Row | None) -> tuple[list[Span], list[Span]]:
        """Fill the pane; the spans of its title, left and right."""
        width = self.view.width or 80
        self.shown_tab = ""
        if row is None:
            self._put(("none",), details.session_lines(model, self.glyphs, width), ())
            return [(" Session", "round")], []
        if row.kind is NodeKind.ROUND:
            number = int(row.id[1:])
            self._put(
                ("round", row.id, model.tree.seq, width), details.round_lines(model, number, self.glyphs, width), ()
            )
            return [(f" {'Round ' + str(number) if number else 'Start'}", "")], []
        if row.kind is NodeKind.IDEA:
            idea = model.tree.ideas[row.id]
            self.shown_tab = Tab.IDEA
            lines_ = details.idea_lines(model, idea, None, self.glyphs, width)
            if idea.call is not None and self.chosen and self.tab is Tab.PROMPT:
                lines_ = details.prompt_lines(model.call(idea.call), width)
            self._put(("idea", idea, model.outline.tallies.get(row.id), width, self.tab), lines_, ())
            return [(f" {idea.id} ", ""), ("idea", "")], []
        return self._show_variant(model, model.tree.variants[row.id], width)

    def _show_variant(self, model: Model, variant: Variant, width: int) -> tuple[list[Span], list[Span]]:
        subject = model.subject(variant)
        tab = self.shown_tab = self.tab_for(variant)
        key = (variant, subject.idea, tab, self.base, self.wrapped, self.beside, width, subject.verdict is None)
        if tab is Tab.PROFILE:  # what it shows may change while the variant's row does not
            self._put(key, profiles.tab_lines(model, variant, self.glyphs, width), ())
        else:
            self._fill(model, subject, tab, width, key)
        parent = f" {self.glyphs.arrow} {subject.parent.id}" if subject.parent else ""
        room = self.outer_size.width - NUMBER_CELLS
        for side in self._sides(tab):  # the first that leaves room for every tab
            left = room - len(side) - (GAP_CELLS if side else 0)
            title = self._title(f" {variant.id}", parent, tab, left)
            if sum(len(text) for text, _ in title) <= left:
                break
        return title, [(f"{side} ", "muted")] if side else []

    def _title(self, id: str, parent: str, current: Tab, room: int) -> list[Span]:
        """Whose tabs these are, and the tabs; closer together, without the parent, without the name, as room gets less."""
        wide = [(f"[{each}]" if each is current else f" {each} ", each is current) for each in TABS]
        close = [(f"[{each}]" if each is current else f" {each}", each is current) for each in TABS]
        for tabs, lead in ((wide, f"{id}{parent}  "), (close, f"{id}{parent} "), (close, f"{id} "), (close, " ")):
            if len(lead) + sum(len(text) for text, _ in tabs) <= room:
                break
        return [(lead, ""), *((text, "key" if chosen else "muted") for text, chosen in tabs)]

    def _sides(self, tab: Tab) -> Sequence[str]:
        """What may stand at the right of the title, the longest first."""
        if tab is Tab.DIFF:
            hunks = words.count_text(len(self._shown.stops), "hunk")
            return (f"{self.base}, {hunks}", hunks, "")
        if tab is Tab.LOG and self._shown.stops:
            errors = words.count_text(len(self._shown.stops), "error")
            enter = ("enter: its code",) if self.source_line() is not None else ()
            return (f"{errors}, n next, enter: its code" if enter else f"{errors}, n next", *enter, errors, "")
        return ("",)

    def _fill(self, model: Model, subject: Subject, tab: Tab, width: int, key: object) -> None:
        if key == self._shown.key:
            return
        if tab is Tab.CODE:
            self._code(subject, key)
        elif tab is Tab.DIFF:
            self._diff(model, subject, key)
        elif tab is Tab.LOG:
            found, errors = details.log_lines(subject, width)
            self._put(key, found, errors)
        elif tab is Tab.TIME:
            self._put(key, timings.time_lines(subject, self.glyphs, width), ())
        elif tab is Tab.TRUST:
            self._put(key, timings.trust_lines(subject, width), ())
        elif tab is Tab.IDEA:
            self._put(key, details.idea_lines(model, subject.idea, subject.variant, self.glyphs, width), ())
        else:
            self._put(key, details.prompt_lines(subject.call, width), ())

    def _put(self, key: object, lines: list[Line], stops: Sequence[int], *, numbers_after: int | None = None) -> None:
        if key == self._shown.key and lines == self.lines:
            return
        same_node = _node(key) == _node(self._shown.key)
        self._shown = _Shown(key, stops)
        self._show(lines, keep_place=same_node, numbers_after=numbers_after)

    def _show(self, lines: list[Line], *, keep_place: bool, numbers_after: int | None) -> None:
        if self.wrapped and len(lines) < WRAP_LIMIT:
            lines = [part for line in lines for part in _wrapped(line, self.view.width)]
            numbers_after = None
        self.show(lines, keep_place=keep_place, numbers_after=numbers_after)

    def _code(self, subject: Subject, key: object) -> None:
        candidate = subject.candidate
        if candidate is None:
            self._put(key, [[(f" {details.why_no_code(subject.variant)}", "muted")]], ())
            return
        head = details.defines_line(subject)
        known = syntax.cached(candidate.source, candidate.language)
        self._put(key, [*head, *(lines(candidate.source) if known is None else known)], (), numbers_after=len(head))
        if known is None and syntax.is_worth_colouring(candidate.source):
            self.run_worker(lambda: self._colour(candidate, head, key), thread=True, group="slow", exclusive=True)

    def _colour(self, candidate: Candidate, head: list[Line], key: object) -> None:
        """In a thread."""
        coloured = syntax.colour(candidate.source, candidate.language)
        self.post_message(SlowLines(key, [*head, *coloured], [], numbers_after=len(head)))

    def _diff(self, model: Model, subject: Subject, key: object) -> None:
        base = self._base(model, subject.variant)
        before, after = model.candidate(base), subject.candidate
        if after is None:
            self._put(key, [[(f" {details.why_no_code(subject.variant)}", "muted")]], ())
            return
        if base is None or before is None:
            self._put(
                key, [[(f" Nothing to compare with: no {self.base} with code. D takes another base.", "muted")]], ()
            )
            return
        old, new = before.source, after.source
        head: list[Line] = [[(f" {subject.variant.id} against {base.id}", "muted")]]
        if before.defines != after.defines:
            head += [[(f" - {_defines(before)}", "diff-del")], [(f" + {_defines(after)}", "diff-add")]]
        self._put(key, [*head, [(" comparing", "muted")]], ())
        columns = self.view.width if self.beside and self.view.width >= BESIDE_FROM else 0
        self.run_worker(lambda: self._compare(old, new, columns, head, key), thread=True, group="slow", exclusive=True)

    def _compare(self, old: str, new: str, columns: int, head: list[Line], key: object) -> None:
        """In a thread. `columns`: side by side in so many; 0 is one below the other."""
        diff = diffs.make_beside(old, new, columns) if columns else diffs.make_diff(old, new)
        count: Line = [(f" +{diff.added}", "diff-add"), (" ", ""), (f"-{diff.removed}", "diff-del")]
        first = len(head) + 1
        self.post_message(SlowLines(key, [*head, count, *diff.lines], [first + hunk for hunk in diff.hunks]))

    def _base(self, model: Model, variant: Variant) -> Variant | None:
        if self.base == "best":
            return model.tree.variants.get(model.tree.status.best or "")
        if self.base == "marked":
            others = [mark for mark in sorted(model.marks) if mark != variant.id and mark in model.tree.variants]
            return model.tree.variants[others[0]] if others else None
        return model.parent_of(variant)

    def on_slow_lines(self, message: SlowLines) -> None:
        if message.key == self._shown.key:
            self._shown.stops = message.hunks
            self._show(message.lines, keep_place=True, numbers_after=message.numbers_after)
            self.post_message(self.Remade())

    # ----------------------------------------------------------------- stepping

    def step(self, by: int) -> bool:
        """To the next or previous error or hunk; False where there is none."""
        stops = list(self._shown.stops)
        if not stops:
            return False
        here = self.marked if self.marked is not None else -1 if by > 0 else 10**9
        later = [row for row in stops if row > here] if by > 0 else [row for row in stops if row < here][::-1]
        self.show_row(later[0] if later else stops[0] if by > 0 else stops[-1])
        return True

    def source_line(self) -> int | None:
        """Line of the source that the marked error of a log speaks of, else the first error that names one."""
        stops = [self.marked] if self.marked in self._shown.stops else list(self._shown.stops)
        for row in stops:
            line = self.lines[row] if row is not None and row < len(self.lines) else ""
            text = line if isinstance(line, str) else "".join(part for part, _ in line)
            if found := SOURCE_LINE.search(text[:400]):
                return int(found[1] or found[2])
        return None

    def show_source_line(self, number: int) -> bool:
        """Mark a line of the code that is shown; False where it has no such line."""
        row = (self.numbers_after or 0) + number - 1
        if self.tab is not Tab.CODE or not 0 < number or row >= len(self.lines):
            return False
        self.show_row(row)
        return True

    def text(self) -> str:
        """What is shown, as plain text."""
        return "\n".join(line if isinstance(line, str) else "".join(part for part, _ in line) for line in self.lines)


def _node(key: object) -> object:
    """Variant id and tab of a key: a change of anything else keeps the place in the text."""
    if isinstance(key, tuple) and key and isinstance(key[0], Variant):
        return (key[0].id, key[2], key[3])
    return key[:2] if isinstance(key, tuple) else None


def _defines(candidate: Candidate) -> str:
    return " ".join(f"{name}={value}" for name, value in candidate.defines) or "(no defines)"


def _wrapped(line: Line, width: int) -> list[Line]:
    """A line broken to the width; colours are kept where it fits, dropped where it does not."""
    text = line if isinstance(line, str) else "".join(part for part, _ in line)
    if len(text) <= width:
        return [line]
    token = "" if isinstance(line, str) or not line else line[-1][1]
    return [[(part, token)] for part in wrap(text, max(20, width - 1))]
