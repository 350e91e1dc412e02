"""Judge processes as the evaluator sees them: started, asked under a deadline, killed with all below them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from kerneltui.errors import DeviceLost, JudgeFailed, MachineError, ProblemError
from kerneltui.evaluator.devices import device_cores, device_environment
from kerneltui.evaluator.processes import clean_environment, keeper, kill_tree
from kerneltui.records import Device

LINE_LIMIT_BYTES = 64_000_000
KEPT_WORDS_BYTES = 16_000
START_S = 120.0  # importing torch from a cold network disk
QUIT_S = 0.5
FOLDER = "kerneltui-judge-"
SPIN_COUNT = "10000"  # looks of a waiting thread: 0.3 to 0.5 ms


class JudgeDied(JudgeFailed):
    """It ended while it was asked something."""


class JudgeProcess:
    """One `python -m kerneltui.judge` on one device."""

    def __init__(self, device: Device, scratch: Path | None = None) -> None:
        self.device = device
        self.scratch = scratch
        self.folder: Path | None = None  # of this process: runners' folders lie in it, and go with it
        self.process: asyncio.subprocess.Process | None = None
        self.reader: asyncio.Task[None] | None = None
        self.said = b""  # the end of its stderr
        self.next_id = 0

    @property
    def running(self) -> bool:
        """Whether there is a process that could answer."""
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """A fresh process; it answers nothing yet."""
        await self.stop()
        self.said = b""
        self.folder = fresh_folder(self.scratch)
        self.process = await asyncio.create_subprocess_exec(
            # The keeper ends whatever the judge leaves behind, however either of them ends.
            *keeper(file_bytes=None),
            sys.executable,
            "-m",
            "kerneltui.judge",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=judge_environment(self.device, self.folder),
            limit=LINE_LIMIT_BYTES,
            start_new_session=True,
        )
        self.reader = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        """Keep the end of what it says on stderr."""
        assert self.process is not None and self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self.said = (self.said + data)[-KEPT_WORDS_BYTES:]

    async def ask(self, operation: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        """One command and its answer.

        Raises:
            ProblemError, MachineError, DeviceLost: what the judge found.
            JudgeFailed: it died, went silent or broke its protocol; it is stopped.
        """
        if not self.running:
            if operation != "prepare":
                raise await self.failure("ended between two candidates")
            await self.start()
        self.next_id += 1
        try:
            answer = await asyncio.wait_for(self.exchange({"id": self.next_id, "op": operation, **fields}), deadline_s)
        except TimeoutError:
            raise await self.failure(f"gave no answer to `{operation}` within {deadline_s:.0f} s") from None
        except ConnectionError as error:
            raise JudgeDied(str(await self.failure(f"ended while it was asked to `{operation}`"))) from error
        except (OSError, ValueError, asyncio.LimitOverrunError) as error:
            raise await self.failure(f"broke its protocol on `{operation}` ({error})") from error
        except BaseException:
            await self.stop()  # cancelled: whatever it runs ends with it
            raise
        return opened(answer)

    async def exchange(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write((json.dumps(command) + "\n").encode())
        await self.process.stdin.drain()
        line = await self.process.stdout.readline()
        if not line:
            raise ConnectionError("it ended")
        answer = json.loads(line)
        if not isinstance(answer, dict) or answer.get("id") != command["id"]:
            raise ValueError("an answer to another question")
        return answer

    async def failure(self, what: str) -> JudgeFailed:
        """Stop it; the error with its last words."""
        await self.stop()
        words = self.said.decode("utf-8", "replace").strip().split("\n")[-1][:300]
        return JudgeFailed(f"The judge on {self.device.id} {what}." + (f" Its last words: {words}" if words else ""))

    async def stop(self) -> None:
        """End it and everything below it."""
        process, reader, folder = self.process, self.reader, self.folder
        self.process = self.reader = self.folder = None
        if process is not None:
            await end(process, reader)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


async def end(process: asyncio.subprocess.Process, reader: asyncio.Task[None] | None) -> None:
    """Kill a judge's tree and let go of its pipes."""
    if process.returncode is None:
        kill_tree(process.pid)
        await process.wait()
    if reader is not None:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(reader, QUIT_S)
    transport = getattr(process, "_transport", None)
    if transport is not None:  # asyncio leaves the pipes open until garbage collection
        transport.close()


def fresh_folder(scratch: Path | None) -> Path:
    """A temporary folder with our process in its name; those of processes that are gone are removed."""
    place = Path(tempfile.gettempdir()) if scratch is None else scratch
    try:
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob(f"{FOLDER}*"):
            owner = old.name.removeprefix(FOLDER).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(old, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=place))
        folder.chmod(0o711)  # a runner of another user passes through to its own folder, and sees nothing on the way
        folder.chmod(0o711)  # runners, who are other users, pass through to their own
    except OSError as error:
        raise MachineError(f"cannot make a temporary folder in {place}: {error.strerror or error}") from error
    return folder


def opened(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, or the error that it carries."""
    if answer.get("ok"):
        return answer
    kinds = {"problem": ProblemError, "machine": MachineError, "device": DeviceLost}
    raise kinds.get(str(answer.get("kind")), JudgeFailed)(str(answer.get("message", "no reason given")))


def thread_environment(device: Device) -> dict[str, str]:
    """How threads of OpenMP wait and where they run, here and in runners on a host.

    PyTorch's threads spin between two operations. Were they to sleep, small operations of eager would take twice as long or
    not, as two threads happen to lie, and any kernel with one thread would look fast. So they spin, each on a core of its
    own, and for so short a time that the other side of a pair, which waits for them, does not meet them.
    """
    cores = device_cores(device)
    if not cores:
        return {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))), "OMP_WAIT_POLICY": "passive"}
    return {
        "OMP_NUM_THREADS": str(len(cores)),
        "OMP_WAIT_POLICY": "passive",
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": ",".join(f"{{{core}}}" for core in cores),
        "GOMP_SPINCOUNT": SPIN_COUNT,
    }


def judge_environment(device: Device, folder: Path | None = None) -> dict[str, str]:
    """What a judge needs to know, and no keys."""
    package = Path(__file__).resolve().parent.parent.parent
    # The judge is ours: it finds its packages where this process does.
    path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
    extra = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if folder is not None:
        extra["TMPDIR"] = str(folder)
    extra |= thread_environment(device)
    # glibc's malloc keeps what is freed, here and in modules' runners: otherwise one side of a pair pays for every large
    # output in page faults, and the other does not.
    extra |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 50)}
    return clean_environment(extra | device_environment(device), home=os.environ.get("HOME", "/nonexistent"))
