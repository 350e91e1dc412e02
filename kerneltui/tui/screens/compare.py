"""Two variants side by side: verdicts, times, registers, then the difference of their code."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from kerneltui.tui import diffs, words
from kerneltui.tui.model import Subject
from kerneltui.tui.render import Glyphs, fit, one_line
from kerneltui.tui.screens.listing import HELP_KEY, fitting_keys
from kerneltui.tui.widgets.linelist import Line, Span, TextLines
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
    rows: tuple[tuple[str, Callable[[Subject], str]], ...] = (
        ("state", lambda s: f"{words.state_word(s.variant)} {words.outcome_text(s.variant)}"),
        ("message", lambda s: one_line(s.variant.author_error or s.variant.message)),
        ("idea", lambda s: f"{s.idea.id} {words.idea_title(s.idea)}" if s.idea else str(s.variant.kind)),
        ("author", lambda s: s.variant.author),
        ("parent", lambda s: s.parent.id if s.parent else "the reference"),
        ("defines", lambda s: " ".join(f"{name}={value}" for name, value in s.variant.defines)),
        ("time", lambda s: words.time_text(s.variant.median_us, glyphs, 4)),
        ("interval", lambda s: _interval(s, glyphs)),
        ("against eager", lambda s: words.ratio_text(s.variant, glyphs)),
        ("one call", lambda s: _measured(s, "call_us", glyphs)),
        ("warm cache", lambda s: _measured(s, "warm_us", glyphs)),
        ("registers", lambda s: str(s.variant.registers or "")),
        ("shared memory", lambda s: words.bytes_text(s.variant.shared_bytes)),
        ("badge", lambda s: words.badge_text(s.variant.badge)),
        ("checks", lambda s: _checks(s)),
    )
    column = max(16, (width - 18) // 2)
    found: list[Line] = [[(" " * 16, ""), (fit(left.variant.id, column), "round"), (right.variant.id, "round")]]
    found += [summary] if (summary := _in_short(left, right, glyphs)) else []
    for name, read in rows:
        a, b = read(left), read(right)
        if not a and not b:
            continue
        token = "" if a == b else "warning"
        found.append([(f" {name:<15}", "muted"), (fit(fit(a, column - 2), column), token), (fit(b, column), token)])
    return found


def _in_short(left: Subject, right: Subject, glyphs: Glyphs) -> Line:
    """Which is faster and how much, and whether that may be chance."""
    timed = [each.variant for each in (left, right) if each.variant.median_us]
    if len(timed) < 2:
        return []
    fast, slow = sorted(timed, key=lambda variant: variant.median_us or 0.0)
    ratio = (slow.median_us or 0.0) / (fast.median_us or 1.0)
    said = f"{fast.id} is {ratio:.2f}{glyphs.times} as fast as {slow.id}"
    chance: list[Span] = [("; the intervals overlap: it may be chance", "warning")] if _overlap(left, right) else []
    return [(f" {'in short':<15}", "muted"), (said, "round"), *chance]


def _overlap(left: Subject, right: Subject) -> bool:
    """Whether the intervals of the two medians have a value in common."""
    one, other = (each.verdict.measurement if each.verdict else None for each in (left, right))
    return one is not None and other is not None and one.low_us <= other.high_us and other.low_us <= one.high_us


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
