"""The real program on a pseudo-terminal: signals, stray bytes, NO_COLOR, bytes a second."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sessions

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = "import sys; from pathlib import Path; from kerneltui.tui.app import run; sys.exit(run(Path(sys.argv[1])))"
MODES_ON = re.compile(rb"\x1b\[\?(1049|1000|1003|1015|1006|1004|2004)h")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Program:
    """The viewer on a terminal of its own."""

    def __init__(self, folder: Path, width: int = 100, height: int = 30, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        full = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PYTHONPATH": str(ROOT),
            **environment,
        }
        if "NO_COLOR" not in environment:
            full.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=full,
            start_new_session=True,
        )
        os.close(slave)
        self.written = b""

    def read(self, seconds: float, until: bytes | None = None) -> int:
        end, count = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0 and (until is None or until not in self.written):
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            self.written += data
            count += len(data)
        return count

    def ready(self) -> None:
        self.read(60, until=b"v00021")
        self.read(1.0)
        assert b"v00021" in self.written

    def end(self) -> int:
        deadline = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.2)
        self.read(0.5)
        assert self.process.poll() is not None
        return self.process.returncode

    def left_on(self) -> set[bytes]:
        """Terminal modes that were switched on and not off again."""
        on = {match[1] for match in MODES_ON.finditer(self.written)}
        return {
            mode for mode in on if self.written.rfind(b"\x1b[?%sl" % mode) < self.written.rfind(b"\x1b[?%sh" % mode)
        }


@pytest.fixture
def program(session: Path) -> Iterator[Program]:
    started = Program(session)
    started.ready()
    yield started
    if started.process.poll() is None:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait()
    os.close(started.master)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_puts_the_terminal_right(program: Program, number: signal.Signals, status: int) -> None:
    program.process.send_signal(number)
    assert program.end() == status
    assert program.left_on() == set()
    assert program.written.rfind(b"\x1b[?25h") > program.written.rfind(b"\x1b[?25l")


def test_q_ends_with_0(program: Program) -> None:
    os.write(program.master, b"q")
    assert program.end() == 0
    assert program.left_on() == set()


def test_mouse_bytes_of_another_age_and_other_junk_are_survived(program: Program) -> None:
    """What a terminal sends after a tmux reattach: an X10 report beyond column 95; then bytes that are no UTF-8."""
    os.write(program.master, b"\x1b[M" + bytes([32, 32 + 130, 32 + 10]))
    os.write(program.master, b"\xff\xfe\x80")
    program.read(1.0)
    assert program.process.poll() is None
    os.write(program.master, b"q")
    assert program.end() == 0


def test_a_terminal_that_goes_away_ends_the_viewer(session: Path) -> None:
    started = Program(session)
    started.ready()
    os.close(started.master)
    assert started.process.wait(20) != 0


def test_no_color_sends_no_colour(session: Path) -> None:
    started = Program(session, NO_COLOR="1")
    started.ready()
    for typed in (b"/xy", b"\x1b", b"b", b"\x1b", b"a", b"\x1b", b"q"):  # a line, a dialog and an editor have cursors
        os.write(started.master, typed)
        started.read(0.7)
    started.end()
    os.close(started.master)
    codes = {
        code for match in COLOUR.findall(started.written.decode("utf-8", "replace")) for code in match[2:-1].split(";")
    }
    coloured = {
        code
        for code in codes
        if code.isdecimal() and (30 <= int(code) <= 38 or 40 <= int(code) <= 48 or 90 <= int(code) <= 107)
    }
    assert coloured == set()


def test_idle_sends_next_to_nothing(tmp_path: Path) -> None:
    from kerneltui.records import SessionState

    folder = sessions.small_session(tmp_path / "idle", state=SessionState.FINISHED)
    started = Program(folder, 160, 48)
    started.ready()
    started.read(6.0)
    assert started.read(4.0) <= 4 * 200
    os.write(started.master, b"q")
    assert started.end() == 0
    os.close(started.master)


def test_the_viewer_imports_nothing_heavy() -> None:
    """The first paint waits for every import: no torch, no provider's library, no evaluator."""
    code = "import sys, kerneltui.tui.app; print([n for n in ('torch', 'openai', 'google.genai', 'numpy', 'pynvml', 'pygments', 'psutil') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
