"""A new session as a form: fields with their faults, what the search may take at most, the same on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from kerneltui.errors import KernelTuiError
from kerneltui.problems import load_problem
from kerneltui.records import Settings
from kerneltui.settings import dump_settings, parse_settings
from kerneltui.store import Store, sessions_folder
from kerneltui.tui import drafts, panels
from kerneltui.tui.render import one_line, wrap
from kerneltui.tui.screens.dialogs import REMARK_S, Editor
from kerneltui.tui.screens.listing import fitting_keys
from kerneltui.tui.setup import (
    FIELDS,
    LABELS,
    Field,
    check_settings,
    forecast_lines,
    form_values,
    read_form,
    setup_lines,
)
from kerneltui.tui.widgets.linelist import Line, TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle

TALL = 34  # rows from which groups stand apart
BELOW = 8  # rows under the fields


class SetupScreen(Screen[Path | None]):
    """Gives the folder of the session that was made, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("down,enter", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("ctrl+o", "make", show=False, priority=True),
        Binding("ctrl+t", "as_text", show=False, priority=True),
    ]
    keys = (("ctrl+o", "make the session"), ("enter", "next"), ("ctrl+t", "all settings"), ("esc", "back, kept"))

    def __init__(self, settings: Settings, name: str, *, copied: str = "") -> None:
        super().__init__()
        self.base, self.name_wanted, self.copied = settings, name, copied
        self._timer: Timer | None = None

    # ----------------------------------------------------------------- parts

    def compose(self) -> ComposeResult:
        self.values = form_values(self.base, self.name_wanted)
        kept = self._kept()
        self.from_draft = bool(kept) and kept != self.values
        self.values |= kept
        yield PaneTitle(id="setup-title")
        with VerticalScroll(id="fields", can_focus=False):
            for field in FIELDS:
                with Vertical(classes="field", id=f"field-{field.key}"):
                    with Horizontal(classes="field"):
                        yield OneLine(id=f"label-{field.key}", classes="label")
                        line = Input(self.values[field.key], id=f"input-{field.key}", select_on_focus=False)
                        line.cursor_blink = False
                        yield line
                        yield OneLine(id=f"hint-{field.key}", classes="hint")
                    fault = TextLines(id=f"fault-{field.key}", classes="fault")
                    fault.can_focus = False
                    yield fault
        yield PaneTitle(id="about-title")
        about = TextLines(id="about")
        about.can_focus = False
        yield about
        yield OneLine(id="message")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        title = f"  settings of {self.copied}" if self.copied else ""
        self.query_one("#setup-title", PaneTitle).set([(" New session", ""), (title, "")])
        self.query_one("#setup-title", PaneTitle).light(True)
        self.query_one("#footer", OneLine).set(fitting_keys(self.keys, self.app.size.width))
        for field in FIELDS:
            self._label(field)
        if self.from_draft:
            self.say("what was typed here before and not made; esc keeps it again", "muted")
        self.query_one("#input-name", Input).focus()
        self.call_after_refresh(self.look)

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#fields").styles.max_height = max(3, event.size.height - BELOW)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._mark(event.widget, ">")

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        self._mark(event.widget, " ")

    def _mark(self, widget: Widget, mark: str) -> None:
        """Without colours, fields look alike: the label says which one is being typed in."""
        key = (widget.id or "").removeprefix("input-")
        if key in LABELS:
            self.query_one(f"#label-{key}", OneLine).set([(f"{mark}{LABELS[key]}", "key")])

    def _label(self, field: Field) -> None:
        self.query_one(f"#label-{field.key}", OneLine).set([(f" {field.label}", "key")])
        self.query_one(f"#hint-{field.key}", OneLine).set([(f" {field.hint}", "muted")])
        if field.begins and self.app.size.height >= TALL:
            self.query_one(f"#field-{field.key}").styles.margin = (1, 0, 0, 0)

    def say(self, text: str, token: str = "") -> None:
        """The message line."""
        self.query_one("#message", OneLine).set(panels.message(one_line(text), token))

    # ----------------------------------------------------------------- what is typed

    def on_input_changed(self, message: Input.Changed) -> None:
        self.values[str(message.input.id).removeprefix("input-")] = message.value
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(REMARK_S, self.look)

    def look(self) -> None:
        """Faults under their fields, and the forecast of what stands there."""
        settings, faults = read_form(self.values, self.base, check_name)
        self.settings, self.faults = settings, faults
        width = self.app.size.width
        for field in FIELDS:
            shown = self.query_one(f"#fault-{field.key}", TextLines)
            sentence = faults.get(field.key, "")
            lines: list[Line] = [[(" " * 15 + part, "error")] for part in wrap(one_line(sentence), width - 17)]
            shown.display = bool(sentence)
            shown.styles.height = len(lines)
            shown.show(lines)
        try:
            about = forecast_lines(settings, self.values["name"].strip(), width - 2)
        except KernelTuiError:
            about = []  # its fault stands under the field
        without = [(f"without what is wrong in {', '.join(LABELS[key] for key in faults)} ", "")] if faults else []
        self.query_one("#about-title", PaneTitle).set([(" What it may take", "")], without)
        self.query_one("#about", TextLines).show(about)
        if self.values != form_values(self.base, self.name_wanted):
            drafts.save_draft(self._draft(), json.dumps(self.values))

    def _draft(self) -> Path:
        return drafts.draft_path(sessions_folder(), f"new-{self.copied or Path(self.base.problem).stem}", ".json")

    def _kept(self) -> dict[str, str]:
        try:
            found = json.loads(drafts.read_draft(self._draft()) or "{}")
        except ValueError:
            return {}
        known = isinstance(found, dict) and found.keys() <= self.values.keys()
        return {key: str(value) for key, value in found.items()} if known else {}

    # ----------------------------------------------------------------- acts

    def action_step(self, by: int) -> None:
        inputs = [f"input-{field.key}" for field in FIELDS]
        here = inputs.index(str(self.focused.id)) if self.focused is not None and self.focused.id in inputs else 0
        self.query_one(f"#{inputs[(here + by) % len(inputs)]}", Input).focus()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_make(self) -> None:
        self.look()
        if self.faults:
            key = next(field.key for field in FIELDS if field.key in self.faults)
            self.query_one(f"#input-{key}", Input).focus()
            self.say("not made: something is wrong above", "error")
        else:
            self._create(self.settings)

    def action_as_text(self) -> None:
        """Every setting, also those that the form does not show."""
        self.look()
        folder = sessions_folder() / (self.values["name"].strip() or "new")
        name = folder.name

        def take(text: str | None) -> None:
            if text is None:
                return
            self.base = parse_settings(text, "session.toml")
            for key, value in form_values(self.base, name).items():
                self.query_one(f"#input-{key}", Input).value = value
            self.look()

        editor = Editor(f"All settings of {name} (session.toml)", dump_settings(self.settings),
                        draft=drafts.draft_path(folder, "settings", ".toml"), send="back to the form", check=check_settings,
                        remarks=lambda text, width: setup_lines(text, name, width))  # fmt: skip
        self.app.push_screen(editor, take)

    def _create(self, settings: Settings) -> None:
        folder = sessions_folder() / self.values["name"].strip()
        try:
            Store.create(folder, settings, load_problem(settings.problem)).close()
        except KernelTuiError as error:
            self.say(str(error), "error")
            return
        drafts.drop_draft(self._draft())
        self.dismiss(folder)


def check_name(text: str) -> str:
    """Why a session cannot have this name; "" if it can."""
    name = text.strip()
    if not name or name.startswith((".", "-")) or "/" in name or not name.isprintable():
        return "a name without slashes, not beginning with a dot or a dash"
    return f"{name} exists already" if (sessions_folder() / name).exists() else ""
