"""All keys, and all commands by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rapidfuzz import fuzz
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from kerneltui.tui.actions import ACTIONS, GROUP_TITLES, Action, commands, key_text, keys_of
from kerneltui.tui.clip import clip
from kerneltui.tui.screens.dialogs import QUIET_INPUT, make_room
from kerneltui.tui.widgets.linelist import Line, LineList, Span, TextLines
from kerneltui.tui.widgets.oneline import PaneTitle

KEY_CELLS, TITLE_CELLS = 14, 62
LEGEND = (  # a mark of the tree, and what it means in lines of at most 62 columns
    ("ok", ("correct and measured: speed-up, time, registers, shared memory",)),
    ("1.43\u00d7", ("so many times as fast as PyTorch eager; under 1 is slower",)),
    ("*1.43\u00d7", ("the best of the search",)),
    ("56r  96K", ("registers of a thread, bytes of shared memory of a block",)),
    ("10 ok 4f", ("of a round or an idea: fine, failed; 2r running, 3w waiting",)),
    ("FAIL", ("no usable kernel, and why: policy, compile, launch, wrong,", "timeout, memory")),
    ("SUSP", ("correct, but refused or too fast to believe: its Trust tab says",)),
    ("NONE", ("the author gave no code",)),
    ("n/a", ("compiled, where nothing can run it",)),
    ("WAIT WRIT", ("waits for an author; is being written",)),
    ("BLD QUE RUN", ("is being compiled; waits for a device; runs on it",)),
    ("CUT", ("cut off before it was finished",)),
    ("pinned human", ("kept as a parent whatever comes; made by a person",)),
    ("badge", ("measured, or certified: again in a fresh process, all checks",)),
)
TWINS_FROM = 132  # columns


class Help(ModalScreen[None]):
    """Every key, from the table."""

    DEFAULT_CSS = (
        "Help { align: center middle; }"
        " Help > Vertical { width: 94%; max-width: 130; height: 90%; background: $panel; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss(None)", show=False)]

    def __init__(self, screen: str = "", keys: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.here, self.keys = screen, keys  # a screen of its own, and what its keys do

    def compose(self) -> ComposeResult:
        with Vertical():
            yield PaneTitle(id="help-title")
            yield TextLines(id="help-lines")

    def on_resize(self, event: events.Resize) -> None:
        make_room(self, event.size)
        self.query_one("#help-lines", TextLines).show(self._lines(event.size.width), keep_place=True)

    def on_mount(self) -> None:
        self.query_one("#help-title", PaneTitle).set(
            [(" Keys", "")], [("G how to read the tree   j k ^d ^u scroll   esc closes ", "muted")]
        )
        self.query_one("#help-lines").focus()

    def _lines(self, width: int) -> list[Line]:
        own: list[Line] = [[(f"  {key:<{KEY_CELLS}}", "key"), (name, "")] for key, name in self.keys]
        head: list[Line] = [[(f" {self.here}", "round")], *own, "", [(" And in a session:", "muted")]] if own else []
        return [*head, *help_lines(width)]


def help_lines(width: int) -> list[Line]:
    """The action table as text, by group; with the command line where that fits."""
    found: list[Line] = []
    for group, title in GROUP_TITLES.items():
        found += [""] * bool(found) + [[(f" {title}", "round")]]
        if group == "move":
            moves = (
                ("j k", "down, up"),
                ("^d ^u", "half a page"),
                ("g G", "first, last"),
                ("0 25 j", "any motion 25 times; 0 25 G goes to line 25"),
                ("h l", "close or to the parent; open or into it; a text: sideways"),
            )
            found += [[(f"  {keys:<{KEY_CELLS}}", "key"), (text, "")] for keys, text in moves]
        found += [_help_line(action, width) for action in ACTIONS if action.group == group]
    found += ["", [(" How to read the tree", "round")]]
    for name, texts in LEGEND:
        marks = [name, *[""] * (len(texts) - 1)]
        found += [[(f"  {mark:<{KEY_CELLS}}", "key"), (text, "")] for mark, text in zip(marks, texts, strict=True)]
    return found


def _help_line(action: Action, width: int) -> Line:
    name: Span = (
        (f"  {' '.join(key_text(key) for key in keys_of(action)):<{KEY_CELLS}}", "key")
        if keys_of(action)
        else (f"  {':' + action.command:<{KEY_CELLS}}", "muted")
    )
    twin: list[Span] = [(f"  kerneltui {action.twin}", "muted")] if action.twin and width >= TWINS_FROM else []
    return [name, (f"{action.title:<{TITLE_CELLS}}", ""), *twin]


class Choices(LineList):
    """The palette's list."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.actions: list[Action] = []

    def show(self, actions: list[Action]) -> None:
        """Other matches."""
        self.actions, self.cursor = actions, 0
        self.resized()
        self.forget()

    def line_count(self) -> int:
        return len(self.actions)

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        action = self.actions[row]
        keys = " ".join(key_text(key) for key in keys_of(action))
        name = f" {action.command} {action.argument}"
        line: Line = [(f" {keys:<8}", "key"), (f"{name:<24} ", ""), (action.title, "muted")]
        return clip(line, left, width, self.style_of)


class Palette(ModalScreen[str | None]):
    """Every command by name; what is typed after a name is its argument."""

    DEFAULT_CSS = (
        "Palette { align: left bottom; }"
        " Palette > Vertical { height: 60%; max-height: 18; background: $panel; }" + QUIET_INPUT
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield PaneTitle(id="palette-title")
            yield Choices(id="palette-choices")
            line = Input(id="palette-input")
            line.cursor_blink = False
            yield line

    def on_mount(self) -> None:
        title: list[Span] = [("enter runs, tab completes, esc leaves ", "muted")]
        self.query_one("#palette-title", PaneTitle).set([(" Commands", "")], title)
        self.query_one("#palette-choices", Choices).show(match_commands(""))
        self.query_one("#palette-input").focus()

    @property
    def choices(self) -> Choices:
        """The list of matches."""
        return self.query_one("#palette-choices", Choices)

    def on_input_changed(self, message: Input.Changed) -> None:
        self.choices.show(match_commands(message.value))

    def action_step(self, by: int) -> None:
        self.choices.move_to(self.choices.cursor + by)

    def action_complete(self) -> None:
        if self.choices.actions:
            line = self.query_one("#palette-input", Input)
            line.value = self.choices.actions[self.choices.cursor].command + " "
            line.cursor_position = len(line.value)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        chosen = self.choices.actions[self.choices.cursor] if self.choices.actions else None
        typed = message.value.strip()
        is_whole = chosen is None or typed.startswith(chosen.command)
        self.dismiss(typed if is_whole or chosen is None else chosen.command)

    def on_line_list_chosen(self, message: LineList.Chosen) -> None:
        self.dismiss(self.choices.actions[message.row].command)


def match_commands(typed: str) -> list[Action]:
    """Commands that a text may mean, best first; all for none."""
    wanted = typed.strip().lower()
    if not wanted:
        return commands()
    named = [action for action in commands() if wanted.startswith(action.command + " ") or wanted == action.command]
    if named:
        return sorted(named, key=lambda action: -len(action.command))
    scored = [(fuzz.partial_ratio(wanted, f"{action.command} {action.title}".lower()), action) for action in commands()]
    found = [(score + 100 * action.command.startswith(wanted), action) for score, action in scored if score >= 75]
    return [action for _, action in sorted(found, key=lambda item: -item[0])]
