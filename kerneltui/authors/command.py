"""Any program as an author: the prompt on its stdin, the answer on its stdout."""

from __future__ import annotations

import asyncio
import codecs
import ctypes
import os
import shlex
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.faults import one_line
from kerneltui.authors.keys import check_ready, hide_keys
from kerneltui.authors.mending import mend_text
from kerneltui.authors.money import cost_usd, find_price, worst_case
from kerneltui.authors.parsing import read_answer
from kerneltui.authors.prompt import build_prompt
from kerneltui.errors import AuthorError, AuthorStopped, AuthorUnavailable
from kerneltui.records import AuthorSettings

__all__ = ["CommandAuthor", "check_ready"]

ANSWER_BYTES = 4 << 20  # of stdout; a program that writes more is ended
STDERR_BYTES = 64 << 10
POLL_S = 0.05  # Process.wait() also waits for the pipes, so the exit status is looked for instead
LINGER_S = 1.0  # for pipes that something the program left behind holds open
FAILURES_IN_A_ROW = 3  # then the program is taken for broken
CANNOT_RUN = (126, 127)  # a shell's words for "not executable" and "not found"


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """An engine that is killed cannot end its programs, and they would go on and cost money."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@dataclass(slots=True, kw_only=True)
class Output:
    """What one stream of the program brought."""

    limit: int
    data: bytearray = field(default_factory=bytearray)
    too_much: bool = False

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class CommandAuthor:
    """A program and its arguments.

    Raises:
        AuthorStopped: there is no such program.
    """

    def __init__(self, settings: AuthorSettings) -> None:
        self.settings = settings
        self.name = settings.label
        self.failures = 0
        missing = check_ready(settings)
        if missing:
            raise AuthorStopped(missing)
        find_price(self.settings)  # a price table that cannot be read is found before the start

    def prepare(self, ask: Ask) -> Ask:
        """The same question with its prompt; what a program costs is unknown unless the settings call it free."""
        prompt = build_prompt(ask)
        # A cap would not reach the program, so it bounds nothing.
        tokens, usd = worst_case(prompt, replace(self.settings, max_tokens=None))
        return replace(ask, prompt=prompt, worst_tokens=tokens, worst_usd=usd)

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        """Answer a prepared question; see the protocol."""
        started = time.monotonic()
        out, err = Output(limit=ANSWER_BYTES), Output(limit=STDERR_BYTES)
        try:
            status = await self.run(ask.prompt, out, err, on_text)
        except AuthorError as error:
            error.reply = self.reply(out, started, "failed")
            raise
        reply = self.reply(out, started, "stop" if status == 0 else f"exit {status}")
        if status != 0:
            raise self.failed(status, err, reply)
        self.failures = 0
        if not reply.text.strip():
            said = last_line(err)
            why = f"; stderr ends with: {said}" if said else ""
            return Answer(
                problem=f"{self.settings.command[0]} wrote nothing to stdout (exit status 0){why}", reply=reply
            )
        # Whether the answer is whole is the program's secret: "" lets the parser look for loose ends.
        return replace(read_answer(ask, replace(reply, finish_reason="")), reply=reply)

    def waits_s(self) -> float:
        """No provider holds it up."""
        return 0.0

    async def aclose(self) -> None:
        """Nothing is held between calls."""

    # ----------------------------------------------------------------------- one run

    async def run(self, prompt: str, out: Output, err: Output, on_text: Callable[[str], None] | None) -> int:
        """Exit status of the program; it and all it started in its group are gone afterwards."""
        command = self.settings.command
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True, preexec_fn=die_with_parent
            )
        except OSError as error:
            raise AuthorStopped(f"{self.name}: `{command[0]}` cannot be started: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return await self.converse(process, prompt, out, err, on_text)
        except TimeoutError:
            raise AuthorUnavailable(
                f"{self.name}: no whole answer within {self.settings.timeout_s:g} s; it was ended after"
                f" {len(out.text):,} characters; raise timeout_s in session.toml"
            ) from None
        finally:
            await end(process)

    async def converse(
        self, process: Process, prompt: str, out: Output, err: Output, on_text: Callable[[str], None] | None
    ) -> int:
        assert process.stdin and process.stdout and process.stderr
        tell = streamed(on_text)
        pipes = [
            asyncio.ensure_future(feed(process.stdin, prompt)),
            asyncio.ensure_future(drain(process.stdout, out, tell)),
            asyncio.ensure_future(drain(process.stderr, err, None)),
        ]
        try:
            while process.returncode is None and not out.too_much:
                await asyncio.wait(pipes[1:2], timeout=POLL_S)
                await asyncio.sleep(POLL_S if pipes[1].done() else 0)
            if out.too_much:
                raise AuthorUnavailable(
                    f"{self.name}: the answer is longer than {ANSWER_BYTES >> 20} MiB; it was ended"
                )
            await asyncio.wait(pipes, timeout=LINGER_S)
            return process.returncode or 0
        finally:
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)

    def failed(self, status: int, err: Output, reply: Reply) -> AuthorError:
        """The sentence for an exit status other than 0."""
        self.failures += 1
        how = f"ended by {signal_name(-status)}" if status < 0 else f"exit status {status}"
        said = last_line(err)
        why = f"; stderr ends with: {said}" if said else ""
        sentence = f"{self.name}: `{shlex.join(self.settings.command)}` failed ({how}){why}"
        if status in CANNOT_RUN or self.failures >= FAILURES_IN_A_ROW:
            times = f", {self.failures} times in a row" if self.failures > 1 else ""
            error: AuthorError = AuthorStopped(f"{sentence}{times}; run it by hand to see why")
        else:
            error = AuthorUnavailable(sentence)
        error.reply = reply
        return error

    def reply(self, out: Output, started: float, finish: str) -> Reply:
        return Reply(
            text=hide_keys(out.text),
            model=self.settings.model or self.settings.command[0],
            finish_reason=finish,
            cost_usd=cost_usd(find_price(self.settings), None, None, None),
            latency_s=time.monotonic() - started,
        )


# --------------------------------------------------------------------------- pipes and processes


async def feed(pipe: asyncio.StreamWriter, prompt: str) -> None:
    try:
        pipe.write(prompt.encode("utf-8", "replace"))
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        pass  # a program may answer without reading all of its prompt


async def drain(pipe: asyncio.StreamReader, output: Output, tell: Callable[[bytes], None] | None) -> None:
    while chunk := await pipe.read(1 << 16):
        room = output.limit - len(output.data)
        output.data += chunk[:room]
        if tell is not None:
            tell(chunk[:room])
        if len(chunk) > room:
            output.too_much = True
            if tell is not None:
                return


def streamed(on_text: Callable[[str], None] | None) -> Callable[[bytes], None]:
    """Bytes to whole lines for the listener, so that a key in one is seen whole and hidden."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = ""

    def tell(chunk: bytes) -> None:
        nonlocal held
        held += decoder.decode(chunk)
        end = held.rfind("\n") + 1
        if on_text is not None and end:
            on_text(hide_keys(held[:end]))
        held = held[end:]

    return tell


async def end(process: Process) -> None:
    """Kill the whole group, which the program leads, whether or not the program itself still runs."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nobody of the group is left
    except PermissionError:
        pass  # the rest of the group belongs to another user: not ours to end
    while process.returncode is None:
        await asyncio.sleep(POLL_S)
    # asyncio keeps the pipes until their other ends are closed, which something left behind may never do.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def last_line(err: Output) -> str:
    """What stderr ends with, readable on one line."""
    text, _ = mend_text(err.text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return one_line(hide_keys(lines[-1])) if lines else ""


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
