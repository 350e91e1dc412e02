"""Two variants side by side: verdicts, times, registers, then the difference of their code."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from kerneltui.records import Variant, is_ranked, standing
from kerneltui.tui import diffs, words
from kerneltui.tui.model import Subject
from kerneltui.tui.render import Glyphs, fit, one_line
from kerneltui.tui.screens.listing import HELP_KEY, fitting_keys
from kerneltui.tui.widgets.linelist import Line, TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle


class Compared(Message):
    """A thread has compared the sources."""

    def __init__(self, diff: diffs.Diff) -> None:
        super().__init__()
        self.diff = diff


class CompareScreen(Screen[None]):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("right_curly_bracket,n", "hunk(1)", show=False),
        Binding("left_curly_bracket,N", "hunk(-1)", show=False),
        Binding("x", "swap", show=False),
        Binding("question_mark", "help", show=False),
    ]
    keys = (("j k", "scroll"), ("{ }", "hunk of the code"), ("x", "swap the two"), ("esc", "back"))

    def __init__(self, left: Subject, right: Subject) -> None:
        super().__init__()
        self.left, self.right = left, right
        self._hunks: list[int] = []
        self._at = -1

    def compose(self) -> ComposeResult:
        yield PaneTitle(id="compare-title")
        yield TextLines(id="compare")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        self.query_one("#compare").focus()
        self.query_one("#footer", OneLine).set(
            fitting_keys((*self.keys[:-1], HELP_KEY, self.keys[-1]), self.app.size.width)
        )

    def on_resize(self) -> None:
        self.fill()

    def action_help(self) -> None:
        from kerneltui.tui.screens.finding import Help

        self.app.push_screen(Help("Compare", self.keys))

    def fill(self) -> None:
        """Show the facts; the difference of the code follows from a thread."""
        glyphs: Glyphs = self.app.glyphs  # type: ignore[attr-defined]
        title = f" {self.left.variant.id} and {self.right.variant.id}"
        self.query_one("#compare-title", PaneTitle).set([(title, "")])
        self.query_one("#compare-title", PaneTitle).light(True)
        self._facts = fact_lines(self.left, self.right, glyphs, self.app.size.width)
        self.query_one("#compare", TextLines).show([*self._facts, "", [(" comparing the code", "muted")]])
        old = self.left.candidate.source if self.left.candidate else ""
        new = self.right.candidate.source if self.right.candidate else ""
        self.run_worker(lambda: self._compare(old, new), thread=True, exclusive=True)

    def _compare(self, old: str, new: str) -> None:
        """In a thread."""
        self.post_message(Compared(diffs.make_diff(old, new)))

    def on_compared(self, message: Compared) -> None:
        head: Line = [
            (" code ", "round"),
            (f" +{message.diff.added}", "diff-add"),
            (" ", ""),
            (f"-{message.diff.removed}", "diff-del"),
        ]
        first = len(self._facts) + 2
        self._hunks = [first + hunk for hunk in message.diff.hunks]
        self.query_one("#compare", TextLines).show([*self._facts, "", head, *message.diff.lines], keep_place=True)

    def action_hunk(self, by: int) -> None:
        if self._hunks:
            self._at = (self._at + by) % len(self._hunks)
            self.query_one("#compare", TextLines).show_row(self._hunks[self._at])

    def action_swap(self) -> None:
        self.left, self.right = self.right, self.left
        self.fill()


def fact_lines(left: Subject, right: Subject, glyphs: Glyphs, width: int) -> list[Line]:
    """Facts in two columns; what differs stands out."""
    shared = set(left.variant.defines) & set(right.variant.defines)
    rows: tuple[tuple[str, Callable[[Subject], str]], ...] = (
        ("state", lambda s: f"{words.state_word(s.variant)} {words.outcome_text(s.variant)}"),
        ("message", lambda s: one_line(s.variant.author_error or s.variant.message)),
        ("idea", lambda s: f"{s.idea.id} {words.idea_title(s.idea)}" if s.idea else str(s.variant.kind)),
        ("author", lambda s: s.variant.author),
        ("parent", lambda s: s.parent.id if s.parent else "the reference"),
        ("defines", lambda s: _defines(s.variant, shared)),
        ("time", lambda s: words.time_text(s.variant.median_us, glyphs, 4)),
        ("interval", lambda s: _interval(s, glyphs)),
        ("against eager", lambda s: _against_eager(s.variant, glyphs)),
        ("one call", lambda s: _measured(s, "call_us", glyphs)),
        ("warm cache", lambda s: _measured(s, "warm_us", glyphs)),
        ("registers", lambda s: str(s.variant.registers or "")),
        ("shared memory", lambda s: words.bytes_text(s.variant.shared_bytes)),
        ("badge", lambda s: words.badge_text(s.variant.badge)),
        ("checks", lambda s: _checks(s)),
    )
    column = max(16, (width - 18) // 2)
    found: list[Line] = [[(" " * 16, ""), (fit(left.variant.id, column), "round"), (right.variant.id, "round")]]
    found += in_short(left.variant, right.variant, glyphs)
    for name, read in rows:
        a, b = read(left), read(right)
        if not a and not b:
            continue
        token = "" if a == b else "warning"
        found.append([(f" {name:<15}", "muted"), (fit(fit(a, column - 2), column), token), (fit(b, column), token)])
    return found


def in_short(left: Variant, right: Variant, glyphs: Glyphs) -> list[Line]:
    """Which is faster and how much, as the search ranks them, and what speaks against it."""
    timed = [variant for variant in (left, right) if is_ranked(variant)]
    if len(timed) < 2:
        return []
    fast, slow = sorted(timed, key=standing)
    fast_us, slow_us = fast.median_us or 0.0, slow.median_us or 0.0
    if fast.speedup is None or slow.speedup is None:
        said = f"{fast.id} is {slow_us / fast_us:.2f}{glyphs.times} as fast as {slow.id}"
        return [[(f" {'in short':<15}", "muted"), (said, "round")]]
    ratio = fast.speedup.ratio / slow.speedup.ratio
    said = f"{fast.id} is {ratio:.2f}{glyphs.times} as fast as {slow.id}, each in pairs with eager"
    doubts = ["times alone say otherwise: the machine's pace has changed"] * (fast_us > slow_us)
    doubts += ["the intervals overlap: it may be chance"] * (fast.speedup.low <= slow.speedup.high)
    return [
        [(f" {'in short':<15}", "muted"), (said, "round")],
        *([(" " * 16, ""), (doubt, "warning")] for doubt in doubts),
    ]


def _against_eager(variant: Variant, glyphs: Glyphs) -> str:
    ratio = words.ratio_text(variant, glyphs)
    return f"{ratio}, {variant.speedup.low:.2f} to {variant.speedup.high:.2f}" if ratio and variant.speedup else ratio


def _defines(variant: Variant, shared: Collection[tuple[str, str]]) -> str:
    """Those that differ first: they may be all that fits."""
    ordered = sorted(variant.defines, key=lambda pair: pair in shared)
    return " ".join(f"{name}={value}" for name, value in ordered)


def _interval(subject: Subject, glyphs: Glyphs) -> str:
    measurement = subject.verdict.measurement if subject.verdict else None
    if measurement is None:
        return ""
    return f"{words.time_text(measurement.low_us, glyphs, 4)} to {words.time_text(measurement.high_us, glyphs, 4)}"


def _measured(subject: Subject, name: str, glyphs: Glyphs) -> str:
    measurement = subject.verdict.measurement if subject.verdict else None
    value: float | None = getattr(measurement, name) if measurement else None
    return words.time_text(value, glyphs, 4)


def _checks(subject: Subject) -> str:
    counts: dict[str, int] = {}
    for check in subject.verdict.checks if subject.verdict else ():
        counts[str(check.result)] = counts.get(str(check.result), 0) + 1
    return ", ".join(f"{count} {name}" for name, count in counts.items())
