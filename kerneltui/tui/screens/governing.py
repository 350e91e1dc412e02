"""What a person does to the search as a whole: pause, start, change its budget, end it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kerneltui.authors.money import worst_cases
from kerneltui.authors.prompt import first_prompt
from kerneltui.errors import KernelTuiError
from kerneltui.records import DecisionKind, SessionState
from kerneltui.search.forecast import WorstCases
from kerneltui.tui import budgets, panels, words
from kerneltui.tui.engines import is_running, start_engine
from kerneltui.tui.render import one_line
from kerneltui.tui.screens.deciding import Deciding
from kerneltui.tui.typed import read_budget
from kerneltui.tui.undo import Step
from kerneltui.tui.widgets.linelist import Span

JOBS_NAMED = 3  # in the question whether to stop


class Governing(Deciding):
    """Part of the hands."""

    def pause(self, on: bool | None = None) -> None:
        """Pause, or resume."""
        paused = self.screen.model.tree.status.state is SessionState.PAUSED
        kind = DecisionKind.RESUME if (paused if on is None else not on) else DecisionKind.PAUSE
        self.do(
            "resume asked" if kind is DecisionKind.RESUME else "pause asked: what runs is finished",
            [Step(kind=kind)],
            [],
        )

    def start(self) -> None:
        """Start an engine where none runs."""
        model = self.screen.model
        if is_running(model.tree.status):
            self.say(f"an engine runs already (pid {model.tree.status.pid})", "muted")
            return
        try:
            pid = start_engine(model.folder)
        except KernelTuiError as error:
            self.say(str(error), "error")
            return
        self.say(f"engine started, pid {pid}; its log is {model.folder / 'engine.log'}", "human")

    # ----------------------------------------------------------------- budgets

    def budget(self, text: str = "") -> None:
        """Other caps, with what they mean while they are typed."""
        from kerneltui.tui.screens.dialogs import Ask

        if text:
            self._take_budget(text)
            return
        settings = self.screen.model.tree.settings
        hint = (
            "rounds, usd, tokens, evaluations, wall, target, plateau; such as: rounds +2, usd 40, wall 2h, tokens off"
        )
        worst = worst_cases(settings.authors, first_prompt(self.screen.model.problem))
        title = f"Budget, now {settings.rounds} rounds, {words.budget_text(settings.budget)}"
        ask = Ask(title, "", hint, self._check_budget, remarks=partial(self._budget_remarks, worst))
        self.screen.app.push_screen(ask, lambda typed: self._take_budget(typed) if typed is not None else None)

    def _read(self, text: str) -> dict[str, Any]:
        settings = self.screen.model.tree.settings
        return read_budget(text, settings.rounds, settings.budget)

    def _check_budget(self, text: str) -> str:
        try:
            self._read(text)
        except ValueError as error:
            return str(error)
        return ""

    def _budget_remarks(self, worst: WorstCases, text: str) -> list[Span]:
        """Old and new, and what the next round may take; a fault as it is typed."""
        if not text.strip():
            return []
        try:
            payload = self._read(text)
        except ValueError as error:
            return [(str(error), "error")]
        tree, ends = self.screen.model.tree, self._ends_by(payload)
        found: list[Span] = [(line, "") for line in budgets.change_lines(tree, payload, self._active_s())]
        last = f"stops now: {ends}" if ends else budgets.forecast_line(tree, payload, worst)
        return [*found, (last, "warning" if ends else "muted")]

    def _active_s(self) -> float:
        return panels.active_s(self.screen.model, time.time())

    def _ends_by(self, payload: dict[str, Any]) -> str:
        return budgets.ends_by(self.screen.model.tree, payload, self._active_s())

    def _take_budget(self, text: str) -> None:
        settings = self.screen.model.tree.settings
        try:
            payload = self._read(text)
        except ValueError as error:
            self.say(str(error), "error")
            return
        before = {key: settings.rounds if key == "rounds" else getattr(settings.budget, key) for key in payload}
        done, undone = Step(kind=DecisionKind.BUDGET, payload=payload), Step(kind=DecisionKind.BUDGET, payload=before)
        ends = "" if self.screen.model.is_resting() else self._ends_by(payload)
        if ends:
            self.screen.confirm(f"the search stops now: {ends}. Change the budget?",
                                lambda: self.do(f"budget: {text}", [done], [undone]))  # fmt: skip
        else:
            self.do(f"budget: {text}", [done], [undone])

    # ----------------------------------------------------------------- the end

    def stop(self) -> None:
        """End the search and close, or let it end once what runs is finished."""
        from kerneltui.tui.screens.dialogs import Confirm

        if self.screen.model.is_resting():
            self.say("no engine is at work here; q closes the viewer", "muted")
            return
        busy = [worker for worker in self.screen.model.tree.status.workers if worker.doing]
        jobs = ", ".join(one_line(f"{worker.node} {worker.doing}").strip() for worker in busy[:JOBS_NAMED])
        more = f" and {len(busy) - JOBS_NAMED} more" if len(busy) > JOBS_NAMED else ""
        question = f"Stop the search and close? It cuts off {jobs}{more}" if busy else "Stop the search and close?"

        def take(answer: str | None) -> None:
            if answer == "d":
                self.drain()
            elif answer and self.send([Step(kind=DecisionKind.STOP)]):
                self.screen.app.exit(0)

        self.screen.app.push_screen(Confirm(question, also=(("d", "drain: once they are done"),) if busy else ()), take)

    def drain(self) -> None:
        """Begin nothing new, and end once what runs is finished."""
        if self.screen.model.is_resting():
            self.say("no engine is at work here", "muted")
            return
        step = Step(kind=DecisionKind.STOP, payload={"drain": True})
        self.do("drain asked: what runs is finished, then the search stops; P goes on after all", [step], [])
