"""How a person's acts are sent, remembered, taken back and done again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneltui.errors import KernelTuiError
from kerneltui.records import DecisionKind
from kerneltui.tui.screens.selection import Selection
from kerneltui.tui.undo import CREATES, Deed, History, Step, last_deed, made_node, too_late

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen


class Deciding(Selection):
    """Decisions of one main screen, newest last."""

    def __init__(self, screen: MainScreen) -> None:
        super().__init__(screen)
        self.history = History()

    def say(self, text: str, token: str = "") -> None:
        """On the screen that is up, which may lie over the main one."""
        up = self.screen.app.screen
        say = getattr(up, "say", None)
        if up is not self.screen and callable(say):
            say(text, token)
        self.screen.say(text, token)

    def send(self, steps: Iterable[Step]) -> list[int]:
        """Write decisions; their ids, none if the session cannot be written."""
        try:
            return [self.screen.model.decide(step.kind, step.target, step.payload) for step in steps]
        except KernelTuiError as error:
            self.say(str(error), "error")
            return []

    def do(self, title: str, done: list[Step], undone: list[Step]) -> None:
        """Send, remember, and say so."""
        sent = self.send(done)
        if not sent:
            return
        creates = done[0].kind in CREATES
        if undone or creates:
            deed = Deed(title=title, done=tuple(done), undone=tuple(undone), made_by=sent[0] if creates else None)
            self.history.add(replace(deed, round=self.screen.model.tree.status.round, when=time.time()))
        waits = "  (waits for an engine: S starts it)" if self.screen.model.is_resting() else ""
        self.say(f"{title}{'; z undoes' if undone or creates else ''}{waits}", "human")

    def undo(self) -> None:
        """Take back the last deed, unless the search has built on it."""
        model = self.screen.model
        deed = self.history.take_back() or self._deed_of_another_viewer()
        if deed is None:
            self.say("nothing to undo in this round", "muted")
            return
        made = made_node(model.store.read_decisions(), deed.made_by) if deed.made_by is not None else ""
        if made is None:
            self.history.do_again()
            self.say(f"{deed.title}: the engine has not taken it up yet; undo it then", "warning")
            return
        refused = too_late(model.tree, deed, made)
        if refused:
            self.history.drop(deed)
            self.say(f"too late: {refused}", "warning")
            return
        steps = [Step(kind=DecisionKind.PRUNE, target=made)] if made else list(deed.undone)
        if self.send(steps):
            self.say(f"undone: {deed.title}; Z does it again", "human")

    def _deed_of_another_viewer(self) -> Deed | None:
        """Our own last act of this round, done in another viewer or on the command line."""
        model = self.screen.model
        began = max((event.created for event in model.events if event.kind == "round"), default=0.0)
        deed = last_deed(model.store.read_decisions(), model.who, began, self.history.dropped)
        if deed is None:
            return None
        deed = replace(deed, round=model.tree.status.round)
        self.history.future.append(deed)
        return deed

    def redo(self) -> None:
        """Do the last undone deed again."""
        deed = self.history.do_again()
        if deed is None:
            self.say("nothing to redo", "muted")
        elif self.send(deed.done):
            self.say(f"done again: {deed.title}", "human")
