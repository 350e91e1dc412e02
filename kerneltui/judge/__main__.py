"""Commands in, answers out, one JSON object a line: prepare, judge, quit."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any

import torch

from kerneltui.errors import DeviceLost, MachineError, ProblemError
from kerneltui.judge.desk import Desk
from kerneltui.judge.reference import first_line
from kerneltui.judge.runners import adopt_orphans
from kerneltui.judge.wire import Wire

log = logging.getLogger(__name__)


def answer_of(desk: Desk, command: dict[str, Any]) -> dict[str, Any]:
    """The answer to one command; each kind of failure says whose it is."""
    try:
        return {"ok": True, **desk.carry_out(command)}
    except ProblemError as error:
        return {"ok": False, "kind": "problem", "message": str(error)}
    except DeviceLost as error:
        return {"ok": False, "kind": "device", "message": str(error)}
    except torch.OutOfMemoryError as error:
        return {"ok": False, "kind": "machine", "message": f"the judge ran out of device memory: {first_line(error)}"}
    except MachineError as error:
        return {"ok": False, "kind": "machine", "message": str(error)}


def main() -> int:
    """Serve until the supervisor closes the pipe."""
    wire = Wire()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    os.umask(0o077)
    adopt_orphans()
    desk = Desk()
    while (command := wire.read_command()) is not None:
        if command["op"] == "quit":
            break
        try:
            answer = answer_of(desk, command)
        except Exception as error:  # the program's main: one bad command may not end the judge silently
            traceback.print_exc()
            answer = {"ok": False, "kind": "judge", "message": f"{type(error).__name__}: {error}"}
        wire.write({"id": command["id"], **answer})
        try:
            desk.get_ready()
        except OSError as error:
            log.warning("no runner could be started ahead of its candidate: %s", error)
    desk.close()
    return 0


if __name__ == "__main__":
    status = main()
    # Interpreter shutdown with torch loaded takes most of a second and can say nothing more.
    sys.stderr.flush()
    os._exit(status)
