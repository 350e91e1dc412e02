"""Runs one candidate: commands in, answers out, one JSON object a line, on the two pipes named on the command line.

The first command is `open`; it says where the judge's buffers are and which library to load. What this process
claims is believed only as far as the judge can check it: outputs, guard bands, wall clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any

if not __package__:  # started as a file, without site-packages: only what is named here can be imported
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]  # no file of ours may stand in for a library's
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from kerneltui.runner import confinement

LINE_LIMIT_BYTES = 4_000_000  # a ring of 1024 sets with 20 tensors each is half a megabyte


class Pipes:
    """The control pipes to the judge."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands = os.fdopen(commands, "rb")
        self.answers = answers

    def read_command(self) -> dict[str, Any] | None:
        """The next command; None when the judge has gone."""
        line = self.commands.readline(LINE_LIMIT_BYTES)
        return json.loads(line) if line else None

    def write_answer(self, answer: dict[str, Any]) -> None:
        """One line, whole: a pipe takes fewer bytes than asked when it is full."""
        data = (json.dumps(answer) + "\n").encode()
        while data:
            data = data[os.write(self.answers, data) :]


def open_lane(spec: dict[str, Any]) -> Any:
    """The half of this program that fits the candidate."""
    if spec["kind"] == "module":
        from kerneltui.runner.module import ModuleLane

        return ModuleLane(spec)
    if spec["kind"] == "cuda":
        from kerneltui.runner.gpu import CudaLane

        return CudaLane(spec)
    from kerneltui.runner.host import HostLane

    return HostLane(spec)


def warm_up(words: dict[str, Any]) -> dict[str, Any]:
    """What can be done before there is a candidate; `closed` is a process that runs none, and that none may reach."""
    if words.get("closed"):
        confinement.let_nobody_in()
    if words["kind"] == "module":
        from kerneltui.runner import module

        return module.warm(words["device"])
    from kerneltui.runner import gpu

    gpu.open_device(words["paths"])
    return {}


def serve(pipes: Pipes) -> int:
    """Carry out commands until the judge closes the pipe. Not one failure is hidden: the judge decides whose it is."""
    lane: Any = None
    while (command := pipes.read_command()) is not None:
        operation = command.pop("op")
        try:
            if operation == "warm":
                answer = warm_up(command)
            elif operation == "open":
                lane = open_lane(command)
                answer = lane.describe()
            else:
                answer = getattr(lane, operation)(**command)
        except (OSError, ValueError, AttributeError, RuntimeError, ImportError, MemoryError) as error:
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        pipes.write_answer(answer)
    return 0


def spread_out(places: str) -> None:
    """To all cores of the device, "{0},{1}": the judge's first thread keeps to one, and so would this process."""
    cores = {int(core) for core in places.replace("{", "").replace("}", "").split(",") if core.isdigit()}
    if cores:
        with contextlib.suppress(OSError):  # they may be another's by now; then those that were inherited do
            os.sched_setaffinity(0, cores)


def main() -> int:
    """Ends with the judge: closed pipes are the end of the work."""
    commands, answers, parent = (int(word) for word in sys.argv[1:4])
    confinement.die_with(parent)
    spread_out(os.environ.get("OMP_PLACES", ""))
    try:
        return serve(Pipes(commands, answers))
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    # No interpreter shutdown: a candidate's destructors and exit handlers have nothing left to say.
    os._exit(main())
