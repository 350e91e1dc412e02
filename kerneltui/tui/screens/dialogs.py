"""Small screens over the main one: a line to type, a yes or no, a key out of a few, a text to edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input, TextArea

from kerneltui.tui import drafts
from kerneltui.tui.render import wrap
from kerneltui.tui.widgets.linelist import Line, Span, TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle

QUIET_INPUT = "Input { border: none; height: 1; padding: 0; background: $surface; }"


REMARK_LINES = 5
REMARK_S = 0.3  # after the last key, before remarks are made anew


class Ask(ModalScreen[str | None]):
    """One line of text at the foot of the screen. Enter gives it, escape gives None.

    `remarks` says in lines what the text would do, as it is typed; they stand in place of the hint.
    """

    DEFAULT_CSS = "Ask { align: left bottom; } Ask > Vertical { height: auto; background: $panel; }" + QUIET_INPUT
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(
        self,
        title: str,
        value: str = "",
        hint: str = "",
        check: Callable[[str], str] | None = None,
        remarks: Callable[[str], list[Span]] | None = None,
    ) -> None:
        super().__init__()
        self.heading, self.value, self.hint, self.check, self.remarks = title, value, hint, check, remarks
        self._remarking: Timer | None = None
        self._rows = 1

    def compose(self) -> ComposeResult:
        with Vertical():
            yield PaneTitle(id="ask-title")
            line = Input(self.value, select_on_focus=False)
            line.cursor_blink = False
            yield line
            hint = TextLines(id="ask-hint")
            hint.can_focus = False
            yield hint
            yield OneLine(id="ask-keys")

    def on_mount(self) -> None:
        self.query_one("#ask-title", PaneTitle).set([(f" {self.heading}", "")])
        self.remark()
        keys: list[Span] = [(" enter", "key"), (" takes it  ", "muted"), ("esc", "key"), (" leaves it", "muted")]
        self.query_one("#ask-keys", OneLine).set(keys)

    def remark(self) -> None:
        """What there is to say of the text as it stands, else the hint; in as many lines as it takes."""
        found = self.remarks(self.query_one(Input).value) if self.remarks else []
        self._say(found or [(self.hint, "muted")])

    def _say(self, sentences: Sequence[Span]) -> None:
        width = self.app.size.width - 2
        wrapped: list[Line] = [[(f" {part}", token)] for text, token in sentences for part in wrap(text, width)]
        shown = self.query_one("#ask-hint", TextLines)
        self._rows = max(self._rows, min(REMARK_LINES, len(wrapped)))  # never fewer: what is typed stays where it is
        shown.styles.height = self._rows
        shown.show(wrapped)

    def on_input_changed(self, _: Input.Changed) -> None:
        if self.remarks is not None:
            if self._remarking is not None:
                self._remarking.stop()
            self._remarking = self.set_timer(REMARK_S, self.remark)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        problem = self.check(message.value) if self.check else ""
        if problem:
            self._say([(problem, "error")])
        else:
            self.dismiss(message.value)


class Confirm(ModalScreen[str]):
    """A question that only y answers with yes; `also` offers other keys. What was pressed, "" for no."""

    DEFAULT_CSS = "Confirm { align: left bottom; } Confirm > TextLines { height: 1; background: $panel; }"

    def __init__(self, question: str, also: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.question, self.also = question, also

    def compose(self) -> ComposeResult:
        shown = TextLines(id="confirm")
        shown.can_focus = False  # every key is an answer
        yield shown

    def on_mount(self) -> None:
        answers: list[Span] = [(" y", "key"), (" yes  ", "muted")]
        for key, name in self.also:
            answers += [(key, "key"), (f" {name}  ", "muted")]
        answers += [("n", "key"), (" no, as any other key", "muted")]
        lines: list[Line] = [[(f" {part}", "warning")] for part in wrap(self.question, self.app.size.width - 2)]
        cells = len(self.question) + sum(len(text) for text, _ in answers) + 2
        lines = (
            [[*lines[0], (" ", ""), *answers]] if len(lines) == 1 and cells < self.app.size.width else [*lines, answers]
        )
        shown = self.query_one("#confirm", TextLines)
        shown.styles.height = len(lines)
        shown.show(lines)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key if event.key in ("y", *dict(self.also)) else "")


class Pick(ModalScreen[str | None]):
    """One key out of a few, such as y then c."""

    DEFAULT_CSS = "Pick { align: left bottom; } Pick > OneLine { background: $panel; }"

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.heading, self.choices = title, choices

    def compose(self) -> ComposeResult:
        yield OneLine(id="pick")

    def on_mount(self) -> None:
        spans: list[Span] = [(f" {self.heading}: ", "")]
        for key, name in self.choices:
            spans += [(f" {key}", "key"), (f" {name} ", "muted")]
        self.query_one("#pick", OneLine).set(spans)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key if event.key in dict(self.choices) else None)


class Editor(ModalScreen[str | None]):
    """A text to edit; kept as a draft while it is typed, so that escape loses nothing."""

    DEFAULT_CSS = (
        "Editor { align: center middle; }"
        " Editor > Vertical { width: 92%; height: 88%; background: $panel; }"
        " Editor TextArea { border: none; height: 1fr; padding: 0 1; }" + QUIET_INPUT
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False, priority=True),
        Binding("ctrl+o", "send", show=False, priority=True),
        Binding("ctrl+t", "outside", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        text: str,
        *,
        draft: Path,
        send: str = "takes it",
        hint: str = "",
        path_line: bool = False,
        read_path: Callable[[str], tuple[str, str]] | None = None,
        check: Callable[[str], str] | None = None,
        remarks: Callable[[str, int], list[Line]] | None = None,
    ) -> None:
        super().__init__()
        self.remarks = remarks  # lines under the text, which follow what is typed
        self.remarking: Timer | None = None
        self.heading, self.text, self.draft, self.send, self.hint = title, text, draft, send, hint
        self.path_line, self.read_path, self.check = path_line, read_path, check
        self.path = ""

    def compose(self) -> ComposeResult:
        kept = drafts.read_draft(self.draft)
        with Vertical():
            yield PaneTitle(id="editor-title")
            if self.path_line:
                line = Input(
                    placeholder="path of a file, then enter; or tab and write or paste below", id="editor-path"
                )
                line.cursor_blink = False
                yield line
            area = TextArea(kept or self.text, show_line_numbers=True, tab_behavior="indent", id="editor-text")
            area.cursor_blink = False
            yield area
            if self.remarks is not None:
                lines = TextLines(id="editor-remarks")
                lines.can_focus = False
                lines.styles.height, lines.styles.padding = REMARK_LINES, (0, 1)
                yield lines
            yield OneLine(id="editor-hint")
            yield OneLine(id="editor-keys")
        self._from_draft = bool(kept) and kept != self.text

    def on_resize(self, event: events.Resize) -> None:
        make_room(self, event.size)

    def on_mount(self) -> None:
        self.query_one("#editor-title", PaneTitle).set([(f" {self.heading}", "")])
        self.say("an unsent draft was found here; ctrl+z steps back" if self._from_draft else self.hint, "muted")
        keys: list[Span] = []
        for key, name in (("ctrl+o", self.send), ("ctrl+t", "in $EDITOR"), ("esc", "back, the draft is kept")):
            keys += [(f" {key}", "key"), (f" {name} ", "muted")]
        self.query_one("#editor-keys", OneLine).set(keys)
        self.query_one("#editor-path" if self.path_line else "#editor-text").focus()
        self.call_after_refresh(self.remark)

    def remark(self) -> None:
        """Say what there is to say of the text as it stands."""
        if self.remarks is not None:
            lines = self.query_one("#editor-remarks", TextLines)
            lines.show(self.remarks(self.area.text, lines.size.width or self.app.size.width - 8))

    def say(self, text: str, token: str = "error") -> None:
        """One line under the text."""
        self.query_one("#editor-hint", OneLine).set([(f" {text}", token)])

    @property
    def area(self) -> TextArea:
        """The text."""
        return self.query_one("#editor-text", TextArea)

    def on_text_area_changed(self, _: TextArea.Changed) -> None:
        if self.remarks is not None:
            if self.remarking is not None:
                self.remarking.stop()
            self.remarking = self.set_timer(REMARK_S, self.remark)
        if self.area.text not in ("", self.text):
            problem = drafts.save_draft(self.draft, self.area.text)
            if problem:
                self.say(problem)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        if self.read_path is None:
            return
        text, problem = self.read_path(message.value)
        if problem:
            self.say(problem)
            return
        self.path = message.value
        self.area.load_text(text)
        self.area.focus()
        self.say(f"read from {message.value}; ctrl+o {self.send}", "muted")

    def action_send(self) -> None:
        problem = self.check(self.area.text) if self.check else ""
        if problem:
            self.say(problem)
            return
        drafts.drop_draft(self.draft)
        self.dismiss(self.area.text)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_outside(self) -> None:
        edited, problem = self.app.edit_outside(self.area.text, self.draft)  # type: ignore[attr-defined]
        if problem:
            self.say(problem)
        elif edited is not None:
            self.area.load_text(edited)
            drafts.save_draft(self.draft, edited)


def make_room(screen: ModalScreen[Any], size: Size) -> None:
    """All of a small screen, for a margin would only show fragments of what lies below."""
    box = screen.query_one(Vertical)
    box.styles.width = "100%" if size.width < 120 else "92%"
    box.styles.height = "100%" if size.width < 120 or size.height < 36 else "88%"
