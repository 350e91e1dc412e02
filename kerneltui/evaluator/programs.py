"""Programs of others: what they may know and see, how they are started and how they are ended.

keeper            argv prefix that puts the keeper (`confine.py`) in front of a program
kill_tree         end a process and all below it
clean_environment what a child may know of ours
run_briefly       a short question to a tool, without asyncio; `processes.run_killable` is for all else
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.confine import descendants

CONFINE = str(Path(__file__).with_name("confine.py"))
FILE_LIMIT_BYTES = 4 << 30  # one file: more than any build writes, less than a disk
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TZ", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a program ended, and what it said."""

    returncode: int  # negative: minus the signal
    stdout: bytes
    stderr: bytes
    timed_out: bool
    elapsed_s: float

    @property
    def text(self) -> str:
        """Both outputs, decoded with replacement marks."""
        return (self.stdout + self.stderr).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a program may see: nothing but these paths."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = False


def clean_environment(extra: Mapping[str, str] | None = None, *, home: str = "/nonexistent") -> dict[str, str]:
    """An allow-list of our environment, in plain English and UTF-8; keys and tokens never pass."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    return kept | {"HOME": home, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"} | dict(extra or {})


def keeper(
    *,
    memory_bytes: int | None = None,
    file_bytes: int | None = FILE_LIMIT_BYTES,
    processes: int | None = None,
    sandbox: Sandbox | None = None,
    report_fd: int | None = None,
) -> list[str]:
    """Words to put before a program's argv, so that all of it ends with it, and with us.

    The keeper is the process whose id one sees; `kill_tree` on it ends everything.
    """
    words = [sys.executable, "-I", "-S", CONFINE, "--parent", str(os.getpid())]
    numbers = {"memory": memory_bytes, "file": file_bytes, "processes": processes, "report": report_fd}
    for name, number in numbers.items():
        if number is not None:
            words += [f"--{name}", str(number)]
    if sandbox is not None:
        words += [word for path in sandbox.read for word in ("--read", path)]
        words += [word for path in sandbox.write for word in ("--write", path)]
        words += [] if sandbox.network else ["--no-network"]
    return [*words, "--"]


def kill_tree(pid: int) -> None:
    """End a process, all below it, and its group. Nothing happens where it is gone already."""
    for _ in range(50):
        below = descendants(pid)
        if not below:
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):  # a frozen fork bomb cannot outrun us
            for victim in below:
                _signal(victim, number)
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def run_briefly(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    sandbox: Sandbox | None = None,
) -> Finished:
    """The same for short questions to a tool (its version, a trial build), without asyncio.

    Raises:
        MachineError: the program could not be started.
    """
    started = time.monotonic()
    report_read, report_write = os.pipe()
    words = [*keeper(sandbox=sandbox, report_fd=report_write), *argv]
    environment = dict(env) if env is not None else clean_environment()
    with (
        os.fdopen(report_read, "rb") as report,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            pass_fds=(report_write,),
        ) as process,
    ):
        os.close(report_write)
        timed_out = False
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_tree(process.pid)
            stdout, stderr = process.communicate()
        refusal = report.read()
    if refusal:
        raise MachineError(f"cannot start {argv[0]}: {refusal.decode('utf-8', 'replace')}")
    return Finished(
        returncode=process.returncode,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
        elapsed_s=time.monotonic() - started,
    )
