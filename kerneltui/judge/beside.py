"""Eager beside a module on a GPU, in a process of the same kind, asked the same things in the same order.

Whatever else differs between a judge and a candidate's process (how the judge's memory is mapped, where what PyTorch sets
aside lies, what the device did just before a slice, whether it has to change over to another process) would be measured as
a difference of kernels: 0.1 to 0.3 % of a product in half precision on an H200 (docs/performance.md).

EagerProcess    starts when the first module comes, and stays while the problem does
RunnerEager     its slices
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kerneltui.errors import MachineError
from kerneltui.judge.claims import Slice
from kerneltui.judge.cuda import RunnerModule
from kerneltui.judge.renewal import Renewal
from kerneltui.judge.runners import Runner, RunnerEnded, RunnerFailure, put_away

OPEN_S = 150.0  # to start, and to load what may compile
SLICE_MOST_S = 60.0  # of the judge's own work: none of it is a candidate's time


class EagerProcess:
    """The reference, loaded by a runner as a module candidate is."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self.make = make  # starts a runner and does not wait for it
        self.runner: Runner | None = None
        self.refusal = ""  # why this reference runs in the judge's process only
        self.is_open = False

    def begin(self) -> None:
        """Let it start, where none is well; nobody waits. Before a candidate's process is taken: it is none of its children."""
        if self.refusal or (self.runner is not None and self.runner.is_alive()):
            return
        self.close()
        self.runner = self.make()

    def settle(self) -> None:
        """Wait for the end of its start, before anything is timed."""
        if self.runner is not None:
            self.guarded(lambda runner: runner.wait_until_warm(OPEN_S))

    def open(self, spec: dict[str, Any], ring: Sequence[Sequence[int]]) -> None:
        """Load the reference and make it ready for the ring, unless it is; `refusal` says why that is not possible."""
        if self.is_open or self.runner is None:
            return
        if not self.refusal:
            answer = self.guarded(lambda runner: runner.ask("open", OPEN_S, **spec))
            self.refusal = self.refusal or str(answer.get("refusal") or "")
        if not self.refusal:
            offsets = [list(places) for places in ring]
            self.guarded(lambda runner: runner.ask("prepare", OPEN_S, ring=offsets, symbols=[], workspace=None))
        if self.refusal:
            self.close()
            return
        self.is_open = True

    def guarded(self, work: Callable[[Runner], Any]) -> dict[str, Any]:
        """What becomes of it before it is timed: eager can run in the judge as well."""
        assert self.runner is not None
        try:
            return work(self.runner) or {}
        except RunnerFailure as error:
            self.refusal = reason_of(error)
            return {}

    def close(self) -> None:
        """End it; nothing of the judge's goes with it."""
        runner, self.runner, self.is_open = self.runner, None, False
        if runner is not None:
            put_away(runner)


def reason_of(error: RunnerFailure) -> str:
    return f"its own process {error}" if isinstance(error, RunnerEnded) else str(error) or "no answer in time"


class Unaudited:
    """What the judge does around a slice of eager: the same work for the device, and nothing to look at."""

    def __init__(self, renewal: Renewal) -> None:
        self.renewal = renewal

    def renew(self, entries: Sequence[int], *, audit: bool = True) -> None:
        """As before a slice of the candidate."""
        self.renewal.renew_for_eager(entries)

    def audit(self) -> None:
        """Nobody doubts eager."""


class RunnerEager(RunnerModule):
    """Slices of eager, taken as a module's are."""

    def __init__(self, process: EagerProcess, ring: int, renewal: Renewal) -> None:
        assert process.runner is not None
        super().__init__(process.runner, ring, lambda: SLICE_MOST_S, Unaudited(renewal))
        self.process = process

    def slice(self, launches: int) -> Slice:
        """One slice.

        Raises:
            MachineError: its process has gone, which is no candidate's doing as far as anybody can tell.
        """
        try:
            return super().slice(launches)
        except RunnerFailure as error:
            said = self.runner.output.text()[-300:]
            self.process.close()
            raise MachineError(
                f"the process that runs eager beside a module failed ({reason_of(error)}); the next candidate has a new one, "
                f"so judge this one again. It said: {said or 'nothing'}"
            ) from error
