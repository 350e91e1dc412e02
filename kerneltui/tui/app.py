"""The terminal app: theme, keys, guards, and which screen comes first."""

from __future__ import annotations

import locale
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from textual.app import App, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.screen import Screen

from kerneltui.errors import SettingsError
from kerneltui.tui import theme as themes
from kerneltui.tui.actions import use_keys
from kerneltui.tui.config import Config, load_config
from kerneltui.tui.drafts import save_draft
from kerneltui.tui.driver import Driver, run_guarded
from kerneltui.tui.render import ASCII, UNICODE
from kerneltui.tui.screens.main import MainScreen

SWITCH_S = 0.001  # a key waits no longer for the thread that reads the session
RELOAD_S = 1.0  # how often a person's own theme is looked at


class KernelTui(App[int]):
    """The program."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "nothing", show=False, priority=True),  # Textual quits on it; hands meant flow control
        Binding("ctrl+c", "explain_quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(
        self, folder: Path | None, *, theme: str, ascii_only: bool = False, config: Config | None = None
    ) -> None:
        self.config = config or Config()
        self.paint_s = 1 / self.config.paint_hz
        use_keys(self.config.keys)
        self.look = themes.load_look(theme)
        self.ascii_only = ascii_only
        self.glyphs = ASCII if ascii_only else UNICODE
        # In a browser the driver is textual-serve's, which that names in the environment.
        super().__init__(driver_class=None if os.environ.get("TEXTUAL_DRIVER") else Driver)
        self.folder = folder
        self.animation_level = "none"
        self.register_theme(self.look.theme)
        self.theme = self.look.theme.name
        self.set_keymap(dict(self.config.keys))

    def on_mount(self) -> None:
        self._theme_changed = self._theme_time()
        if themes.is_own(self.look.path):
            self.set_interval(RELOAD_S, self._reload_theme)
        if self.folder is None:
            self.go_home()
        else:
            self.open_session(self.folder)

    def open_session(self, folder: Path) -> None:
        """Show a session in place of what is shown."""
        self._show(MainScreen(folder))

    def go_home(self) -> None:
        """Show all sessions in place of what is shown."""
        from kerneltui.tui.screens.home import HomeScreen

        self._show(HomeScreen())

    def _show(self, screen: Screen[None]) -> None:
        if len(self.screen_stack) > 1:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def slowest_write_s(self) -> float:
        """How long the terminal made us wait at most since this was last asked."""
        return self._driver.slowest_write_s() if isinstance(self._driver, Driver) else 0.0

    def _theme_time(self) -> float:
        try:
            return self.look.path.stat().st_mtime if self.look.path else 0.0
        except OSError:  # an editor replaces the file
            return self._theme_changed

    def _reload_theme(self) -> None:
        """A person's own theme is shown as it is edited."""
        changed = self._theme_time()
        if changed != self._theme_changed:
            self._theme_changed = changed
            self.choose_theme(self.look.theme.name)

    def choose_theme(self, name: str) -> None:
        """Another theme, at once."""
        try:
            self.look = themes.load_look(name)
        except SettingsError as error:
            self.tell(str(error))
            return
        self.register_theme(self.look.theme)
        if self.theme == self.look.theme.name:
            self._invalidate_css()
            self.call_next(self.refresh_css, animate=False)
        self.theme = self.look.theme.name
        for widget in self.screen.query("LineList"):
            widget.forget()  # type: ignore[attr-defined]
        self.screen.refresh(layout=True)
        self.tell("; ".join(self.look.problems) or f"theme {name}")

    def tell(self, text: str) -> None:
        """A sentence on whatever screen is up."""
        say = getattr(self.screen, "say", None)
        if callable(say):
            say(text)

    def action_nothing(self) -> None:
        """A key that must not do what the library means by it."""

    def action_explain_quit(self) -> None:
        self.tell("q closes the viewer; the search goes on")

    def edit_outside(self, text: str, path: Path) -> tuple[str | None, str]:
        """$VISUAL or $EDITOR on a text: what came of it, or why nothing did."""
        command = shlex.split(self.config.editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        problem = save_draft(path, text)
        if problem:
            return None, problem
        try:
            with self.suspend():
                status = subprocess.call([*command, str(path)])
        except SuspendNotSupported:
            return None, "no terminal to lend to an editor here"
        except OSError as error:
            return None, f"{command[0]}: {error.strerror}; set $VISUAL or $EDITOR"
        if status:
            return None, f"{command[0]} ended with {status}: the text is as it was"
        try:
            return path.read_text(encoding="utf-8", errors="replace"), ""
        except OSError as error:
            return None, f"the edited file is gone ({error.strerror}); the text is as it was"

    def _handle_exception(self, error: Exception) -> None:
        self._return_code = 2
        super()._handle_exception(error)
        self._return_code = 2


def pick_theme(asked: str | None, config: Config) -> str:
    """The asked one; without colour where NO_COLOR is set; else the configured or the default one."""
    if os.environ.pop("NO_COLOR", "") and not asked:  # Textual would turn our colours into greys
        return themes.PLAIN
    return asked or config.theme or themes.DEFAULT


def run(folder: Path | None, *, theme: str | None = None, ascii_only: bool = False) -> int:
    """Open the screen on a session, or on all of them; the exit status.

    Raises:
        SettingsError: no such theme, or a configuration that cannot be used.
    """
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    sys.setswitchinterval(SWITCH_S)
    config = load_config()
    narrow = "utf" not in (locale.getpreferredencoding(False) or "").lower()
    chosen, plain = pick_theme(theme, config), ascii_only or config.ascii or narrow
    return run_guarded(KernelTui(folder, theme=chosen, ascii_only=plain, config=config), mouse=config.mouse)
