"""Runner processes as the judge sees them: started, asked under a deadline, and killed with all they started.

Runner              one process and its two pipes
RunnerFailure       how asking can fail; each kind is the candidate's doing
kill_strays         every descendant that is not one of the judge's own
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RUNNER_FILE = Path(__file__).resolve().parent.parent / "runner" / "__main__.py"
KEPT_OUTPUT_BYTES = 64 * 1024  # at each end of what a candidate prints
ANSWER_LIMIT_BYTES = 8_000_000
PROCESS_LIMIT = 512  # of one candidate, before all of it is killed
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
WATCH_S = 0.25  # between looks at the number of processes while waiting


class RunnerFailure(Exception):
    """No usable answer."""


class RunnerEnded(RunnerFailure):
    """The process is gone. `status` is negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with {status}")
        self.status = status


class RunnerSilent(RunnerFailure):
    """No answer within the deadline."""


class RunnerGarbled(RunnerFailure):
    """An answer that is not one."""


class RunnerMultiplied(RunnerFailure):
    """More processes than any honest candidate needs."""


class RunnerRefused(RunnerFailure):
    """The runner's own answer is an error; its text is the message."""


def adopt_orphans() -> None:
    """Let orphans of runners become children of this process, so that they can be found and killed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def close_to_others() -> None:
    """Let no process of the same user read or trace this one. Memory that is shared by a GPU's driver still can be opened."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class Runner:
    """One single-use process. It never sees expected outputs, seeds or the reference."""

    def __init__(
        self,
        *,
        descriptors: Sequence[int],
        threads: int,
        module: bool = False,
        extra: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
        library: int = -1,
    ) -> None:
        """`library` is the descriptor from which a candidate will be loaded; it is the runner's from now on."""
        self.library = library
        self.folder = tempfile.TemporaryDirectory(prefix="kerneltui-runner-", ignore_cleanup_errors=True)
        os.chmod(self.folder.name, 0o777)
        self.kept = children_of(os.getpid())
        command_end, self.commands = os.pipe()
        self.answers, answer_end = os.pipe()
        self.printed, print_end = os.pipe()
        flags = ["-E", "-s"] if module else ["-I", "-S", "-E"]
        parent = 0 if prefix else os.getpid()  # under a tool the runner is the tool's child
        words = [*prefix, sys.executable, *flags, str(RUNNER_FILE), str(command_end), str(answer_end), str(parent)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=print_end,
            stderr=print_end,
            cwd=self.folder.name,
            env=runner_environment(self.folder.name, threads, extra or {}),
            pass_fds=(command_end, answer_end, *descriptors, *([library] if library >= 0 else [])),
            start_new_session=True,
        )
        for end in (command_end, answer_end, print_end):
            os.close(end)
        os.set_blocking(self.commands, False)
        self.buffer = b""
        self.output = Output(self.printed)
        self.closed = False
        self.warming = False  # whether the answer to a `warm` command is still to come

    def send(self, operation: str, deadline_s: float, **fields: Any) -> None:
        """Send a command; the answer is read by `receive`.

        Raises:
            RunnerEnded, RunnerSilent, RunnerGarbled: it is gone, does not read, or has spoken unasked.
        """
        self.must_be_quiet()
        data = (json.dumps({"op": operation, **fields}) + "\n").encode()
        end = time.monotonic() + deadline_s
        while data:
            _, ready, _ = select.select([], [self.commands], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise RunnerSilent
            try:
                data = data[os.write(self.commands, data) :]
            except BrokenPipeError:
                raise RunnerEnded(self.wait_status()) from None

    def must_be_quiet(self) -> None:
        """Nothing may come before it is asked for: what does was not written by the runner."""
        ready, _, _ = select.select([self.answers], [], [], 0)
        if ready:
            self.read_some()
        if self.buffer:
            raise RunnerGarbled("answers came before they were asked for")

    def receive(self, deadline_s: float, *, awake_s: float = 0.0) -> dict[str, Any]:
        """The answer to the last command; for so long it is looked for without sleeping.

        Raises:
            RunnerEnded, RunnerSilent, RunnerGarbled, RunnerRefused: as they say.
        """
        start = time.monotonic()
        while b"\n" not in self.buffer:
            spent = time.monotonic() - start
            if spent >= deadline_s:
                raise RunnerSilent
            awake = spent < awake_s
            ready, _, _ = select.select([self.answers], [], [], 0 if awake else min(deadline_s - spent, WATCH_S))
            if ready:
                self.read_some()
            elif not awake:
                self.watch()
        line, self.buffer = self.buffer.split(b"\n", 1)
        return parse_answer(line)

    def ask(self, operation: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        """One command and its answer."""
        start = time.monotonic()
        self.send(operation, deadline_s, **fields)
        return self.receive(deadline_s - (time.monotonic() - start))

    def warm_up(self, deadline_s: float, **fields: Any) -> None:
        """Have it open what every candidate needs, without waiting for it, nor for word that it cannot."""
        self.warming = True
        with contextlib.suppress(RunnerFailure):
            self.send("warm", deadline_s, **fields)

    def wait_until_warm(self, deadline_s: float) -> None:
        """The answer to `warm_up`, where it is still to come."""
        if self.warming:
            self.receive(deadline_s)
            self.warming = False

    def keep_what_is_there(self) -> None:
        """Before a candidate comes: all that this process has started since then is none of the candidate's."""
        self.kept = children_of(os.getpid()) - {self.process.pid}

    def is_alive(self) -> bool:
        """Whether a candidate can still be given to it."""
        return self.process.poll() is None

    def read_some(self) -> None:
        data = os.read(self.answers, 1 << 20)
        if not data:
            raise RunnerEnded(self.wait_status())
        self.buffer += data
        if len(self.buffer) > ANSWER_LIMIT_BYTES:
            raise RunnerGarbled("more than 8 MB without an end of line")

    def watch(self) -> None:
        """A process that died may leave a child that holds the pipe open; one that multiplies is stopped."""
        status = self.process.poll()
        if status is not None:
            raise RunnerEnded(status)
        if len(strays(self.kept)) > PROCESS_LIMIT:
            raise RunnerMultiplied(f"it started more than {PROCESS_LIMIT} processes")

    def wait_status(self) -> int:
        """How it ended; a runner that closed its pipes and lives on is killed."""
        try:
            return self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 0

    def hang_up(self) -> None:
        """Close the command pipe: a runner that is well ends by itself."""
        if self.commands >= 0:
            os.close(self.commands)
            self.commands = -1

    def close(self) -> None:
        """Kill it and everything that it started, and remove its folder; a second time does nothing."""
        if self.closed:
            return
        self.closed = True
        self.hang_up()
        os.close(self.answers)
        if self.library >= 0:
            os.close(self.library)
        kill_strays(self.kept, self.process)
        self.output.close()
        self.folder.cleanup()


def put_away(runner: Runner) -> None:
    """End one that met no candidate. What else runs is not its doing: it may be a candidate that is judged now."""
    runner.keep_what_is_there()
    runner.close()


def parse_answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        raise RunnerGarbled("an answer that is not JSON") from None
    if not isinstance(answer, dict):
        raise RunnerGarbled("an answer that is not an object")
    if "error" in answer:
        raise RunnerRefused(str(answer["error"]))
    return answer


THREAD_WORDS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_SPINCOUNT")  # as the judge has them: eager is the other side


def runner_environment(folder: str, threads: int, extra: dict[str, str]) -> dict[str, str]:
    """Nothing of the person's environment: no keys, no paths but the system's."""
    found = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        **{name: os.environ[name] for name in THREAD_WORDS if name in os.environ},
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_CACHE_DISABLE": "1",
        **extra,
    }
    # Caches are named relative to the folder, which is made last.
    private = {
        name: os.path.join(folder, found[name]) for name in found if name.endswith(("_CACHE_DIR", "_EXTENSIONS_DIR"))
    }
    return found | private


class Output:
    """What a process prints: drained by a thread, both ends of it kept."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.head, self.tail, self.total = b"", b"", 0
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self.drain, daemon=True)
        self.thread.start()

    def drain(self) -> None:
        while True:
            ready, _, _ = select.select([self.descriptor, self.stop_read], [], [])
            if self.descriptor not in ready:
                return  # told to stop; a stray may hold the other end for ever
            data = os.read(self.descriptor, 1 << 16)
            if not data:
                return
            self.keep(data)

    def keep(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT_OUTPUT_BYTES - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[room:])[-KEPT_OUTPUT_BYTES:] if room < len(data) else self.tail

    def last_words(self, patience_s: float = 0.3) -> str:
        """The same of a process that has just died: what is still in the pipe is waited for."""
        self.thread.join(patience_s)
        return self.text()

    def text(self) -> str:
        """Both ends, and how much was left out between them."""
        left_out = self.total - len(self.head) - len(self.tail)
        middle = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return (self.head + middle + self.tail).decode("utf-8", "replace")

    def close(self) -> None:
        os.write(self.stop_write, b".")
        self.thread.join(1.0)
        for descriptor in (self.descriptor, self.stop_read, self.stop_write):
            os.close(descriptor)


# --------------------------------------------------------------------------- processes


def children_of(parent: int) -> set[int]:
    """Direct children, from /proc; zombies too."""
    return {pid for pid, above in all_parents().items() if above == parent}


def all_parents() -> dict[int, int]:
    """Process -> its parent, for every process that can be seen."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command name is in brackets and may hold anything; the parent is second after it.
                found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # gone in the meantime
    return found


def strays(kept: set[int]) -> set[int]:
    """Every descendant of this process that is not one of `kept` or below it."""
    below: dict[int, list[int]] = {}
    for pid, parent in all_parents().items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = [pid for pid in below.get(os.getpid(), []) if pid not in kept]
    while queue:
        pid = queue.pop()
        found.add(pid)
        queue += below.get(pid, [])
    return found


def kill_strays(kept: set[int], process: subprocess.Popen[bytes], *, patience_s: float = 5.0) -> int:
    """Kill until none is left; returns how many still were when patience ended (in the kernel's hands: a device call).

    All are stopped before any is killed, so that what multiplies cannot outrun the killing.
    """
    end = time.monotonic() + patience_s
    left = strays(kept) if process.poll() is not None else strays(kept) | {process.pid}
    while left and time.monotonic() < end:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass  # gone already
        process.poll()
        reap(left - {process.pid})
        left = strays(kept)
        if left:
            time.sleep(0.002)
    process.poll()
    return len(left)


def reap(pids: set[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass  # not ours yet: its parent has not been killed, or was just now
