"""The engine's process as a viewer sees it: is it there, and start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.records import EngineStatus

START_SLACK_S = 3.0  # clocks of the boot time and of the engine differ by so much


def is_running(status: EngineStatus) -> bool:
    """Whether the process that wrote this status lives, and is the same one."""
    if status.pid is None:
        return False
    import psutil  # the first paint does not wait for it

    try:
        process = psutil.Process(status.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        started = process.create_time()
    except psutil.Error:
        return False
    return status.pid_started is None or abs(started - status.pid_started) < START_SLACK_S


def log_path(folder: Path) -> Path:
    """Where a started engine's output goes."""
    return folder / "engine.log"


def start_engine(folder: Path) -> int:
    """Start the search in a process of its own that outlives the viewer and its terminal; its process id.

    Raises:
        MachineError: it could not be started.
    """
    try:
        with log_path(folder).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kerneltui", "run", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "KERNELTUI_DETACHED": "1"},
            )
    except OSError as error:
        raise MachineError(f"the engine could not be started: {error}. `kerneltui run {folder}` shows more.") from error
    return process.pid


def last_log_line(folder: Path) -> str:
    """The last thing an engine said before it ended; "" if it said nothing."""
    try:
        with log_path(folder).open("rb") as log:
            log.seek(max(0, log_path(folder).stat().st_size - 4096))
            tail = log.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return tail.rsplit("\n", 1)[-1]
