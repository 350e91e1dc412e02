"""What the judge asks a candidate's process, and what becomes of a process that does not answer.

Conversation    commands under one deadline; failures become verdicts
"""

from __future__ import annotations

import time
from typing import Any

from kerneltui.errors import MachineError
from kerneltui.judge.bench import Bench, Workload
from kerneltui.judge.deaths import death_of
from kerneltui.judge.fallen import Fallen
from kerneltui.judge.lanes import Lane
from kerneltui.judge.request import Progress, Request
from kerneltui.judge.runners import Runner, RunnerEnded, RunnerFailure
from kerneltui.records import Check, CheckResult, Outcome, Stage

START_S = 10.0
BUILD_S = 150.0  # a module that compiles with torch's own tools: a minute on a slow machine, twice that for two files


class Conversation:
    """With the one process of one candidate."""

    def __init__(self, bench: Bench, request: Request, lane: Lane) -> None:
        self.bench = bench
        self.request = request
        self.lane = lane  # what differs between devices
        self.at = Progress(left_s=request.deadline_s)
        self.runner: Runner | None = None

    def ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        """One command under what is left of the deadline; failures become verdicts."""
        assert self.runner is not None
        start = time.monotonic()
        try:
            return self.runner.ask(operation, self.at.left_s, **fields)
        except RunnerFailure as error:
            raise self.fall(error) from error
        finally:
            self.at.left_s -= time.monotonic() - start

    def fall(self, error: Exception) -> Fallen:
        assert self.runner is not None
        ended = isinstance(error, RunnerEnded)
        output = self.runner.output.last_words() if ended else self.runner.output.text()
        self.lose()
        outcome, message = death_of(error, output, self.at.stage, self.request.deadline_s)
        stage = Stage.LAUNCH if self.at.stage is Stage.CHECK else self.at.stage
        return Fallen(outcome, stage, message)

    def lose(self) -> None:
        """Kill the runner first: a kernel without an end would keep the device from answering."""
        assert self.runner is not None
        self.runner.close()
        self.lane.still_answers()

    def finish(self) -> str:
        """End the runner; what it printed."""
        if self.runner is None:
            return ""
        self.runner.close()
        return self.runner.output.text()

    def note(self, name: str, result: CheckResult, detail: str = "") -> None:
        self.at.checks.append(Check(name=name, result=result, detail=detail))

    # ------------------------------------------------------------------ loading

    def open(self) -> None:
        """Load the library and learn what workspace it wants."""
        # Our own start is not the candidate's time; a module may compile first.
        self.at.left_s += BUILD_S if self.request.module else START_S
        runner = self.wait_for_warmth()
        answer = self.ask("open", **self.lane.spec(self.bench, self.request, runner))
        self.at.left_s = min(self.at.left_s, self.request.deadline_s)
        if answer.get("refusal"):
            raise Fallen(Outcome.LAUNCH_ERROR, Stage.LOAD, str(answer["refusal"]))
        missing = [str(words) for words in answer.get("notes", [])]
        self.note(
            "confinement",
            CheckResult.NOTE if missing else CheckResult.PASS,
            "; ".join(missing) or "own user, no new processes, no network, limited memory",
        )

    def wait_for_warmth(self) -> Runner:
        """What a runner does before it is given a candidate is no candidate's fault."""
        assert self.runner is not None
        try:
            self.runner.wait_until_warm(BUILD_S)
        except RunnerFailure as error:
            said = self.runner.output.last_words()
            self.lose()
            raise MachineError(
                f"a runner does not start: {str(error) or type(error).__name__} {said[-300:]}"
            ) from error
        return self.runner

    def workspace_for(self, workload: Workload) -> int | None:
        """Offset of the workspace at these sizes; None when the candidate wants none."""
        wanted = self.ask("workspace", symbols=list(workload.symbols)).get("bytes")
        if not isinstance(wanted, int) or wanted < 0:
            raise Fallen(
                Outcome.LAUNCH_ERROR, Stage.LOAD, f"{self.request.function}_workspace gave {wanted!r}, no size"
            )
        self.at.workspace_bytes = wanted
        if wanted == 0:
            self.bench.workspace = None
            return None
        if wanted > self.bench.workspace_most:
            raise Fallen(
                Outcome.OUT_OF_MEMORY,
                Stage.LOAD,
                f"it asks for {wanted / 2**20:,.0f} MiB of workspace; {self.bench.workspace_most / 2**20:,.0f} MiB "
                "can be had here",
            )
        offset = self.bench.lay_workspace(wanted)
        if self.bench.arena.grant:
            self.ask("lend", **self.bench.arena.grant)
        return offset
