"""Run a program to its end or its deadline, with its output, and leave nothing of it behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.programs import Finished, Sandbox, clean_environment, keeper, kill_tree, run_briefly

__all__ = ["Finished", "Sandbox", "clean_environment", "keeper", "kill_tree", "run_briefly", "run_killable"]

OUTPUT_LIMIT_BYTES = 8 << 20
PR_SET_DUMPABLE = 4
DRAIN_S = 0.3  # after the end, for what is still in the pipes


async def run_killable(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    memory_bytes: int | None = None,
    output_limit: int = OUTPUT_LIMIT_BYTES,
    sandbox: Sandbox | None = None,
) -> Finished:
    """Run a program to its end or its deadline; afterwards nothing that it started is alive.

    `memory_bytes` bounds the address space of each process; `output_limit` the bytes kept of each output.

    Raises:
        MachineError: the program could not be started.
    """
    started = time.monotonic()
    outputs = (_Pipe(output_limit), _Pipe(output_limit), _Pipe(4096))
    process: asyncio.subprocess.Process | None = None
    try:
        process = await _start(argv, outputs, cwd, env, stdin, memory_bytes, sandbox)
        timed_out = await _ended(process, outputs, started + timeout_s)
    finally:
        if process is not None and process.returncode is None:
            kill_tree(process.pid)
            await process.wait()
        for pipe in outputs:
            pipe.close()
    stdout, stderr, report = (pipe.output() for pipe in outputs)
    if report:
        raise MachineError(f"cannot start {argv[0]}: {report.decode('utf-8', 'replace')}")
    elapsed_s = time.monotonic() - started
    returncode = process.returncode if process.returncode is not None else -int(signal.SIGKILL)
    return Finished(returncode=returncode, stdout=stdout, stderr=stderr, timed_out=timed_out, elapsed_s=elapsed_s)


async def _start(
    argv: Sequence[str],
    outputs: tuple[_Pipe, _Pipe, _Pipe],
    cwd: str | Path | None,
    env: Mapping[str, str] | None,
    stdin: bytes | None,
    memory_bytes: int | None,
    sandbox: Sandbox | None,
) -> asyncio.subprocess.Process:
    report = outputs[2].write_fd
    words = [*keeper(memory_bytes=memory_bytes, sandbox=sandbox, report_fd=report), *argv]
    input_fd = _input(stdin)
    try:
        # Pipes of our own: asyncio's would keep wait() from returning while a grandchild holds them open.
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=input_fd,
            stdout=outputs[0].write_fd,
            stderr=outputs[1].write_fd,
            cwd=cwd,
            env=dict(env) if env is not None else clean_environment(),
            start_new_session=True,
            pass_fds=(report,),
        )
    except OSError as error:
        raise MachineError(f"cannot start {argv[0]}: {error}") from error
    finally:
        os.close(input_fd)
        for pipe in outputs:
            pipe.listen()


async def _ended(process: asyncio.subprocess.Process, outputs: tuple[_Pipe, ...], deadline: float) -> bool:
    """Wait for the end or the deadline; whether it was the deadline."""
    timed_out = False
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            await process.wait()
    except TimeoutError:
        timed_out = True
        kill_tree(process.pid)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            for pipe in outputs:
                await pipe.closed.wait()
    return timed_out


def close_to_others() -> None:
    """Let no process of the same user read this one's memory and environment, where keys are; not even a candidate."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _input(data: bytes | None) -> int:
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class _Pipe:
    """The reading end of a program's output: keeps the head and the tail."""

    def __init__(self, limit: int) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.closed = asyncio.Event()
        self._head_limit = limit - limit // 4
        self._tail_limit = limit // 4
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def listen(self) -> None:
        os.close(self.write_fd)
        asyncio.get_running_loop().add_reader(self.read_fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self.read_fd, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._keep(data)
        else:
            asyncio.get_running_loop().remove_reader(self.read_fd)
            self.closed.set()

    def _keep(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - self._tail_limit
        if surplus > 1 << 20:  # now and then: cutting the front moves all the rest
            self._cut(surplus)

    def _cut(self, surplus: int) -> None:
        del self._tail[:surplus]
        self._left_out += surplus

    def output(self) -> bytes:
        self._cut(max(0, len(self._tail) - self._tail_limit))
        if not self._left_out:
            return bytes(self._head + self._tail)
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % self._left_out + bytes(self._tail)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.read_fd)
        os.close(self.read_fd)
