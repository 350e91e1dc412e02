from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from building import processes_named

from kerneltui.errors import MachineError
from kerneltui.evaluator.processes import Sandbox, clean_environment, keeper, kill_tree, run_briefly, run_killable

PYTHON = sys.executable
# Ignores the polite signal and leaves a grandchild in a session of its own that holds the pipes.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print("up", flush=True)
time.sleep(600)
"""


async def test_output_status_and_input_arrive() -> None:
    finished = await run_killable(
        [PYTHON, "-c", "import sys; print(sys.stdin.read()[::-1]); print('e', file=sys.stderr); sys.exit(3)"],
        timeout_s=60,
        stdin=b"abc",
    )
    assert (finished.returncode, finished.stdout, finished.stderr, finished.timed_out) == (3, b"cba\n", b"e\n", False)


@pytest.mark.parametrize("word", ["a b", "試'$(touch x)\"", "`id`", "*", "-n", "", "\\", "é\udce9"])
async def test_no_shell_reads_the_words(word: str, tmp_path: Path) -> None:
    folder = tmp_path / "my kernels" / "試'$(x)\""
    folder.mkdir(parents=True)
    finished = await run_killable(
        [PYTHON, "-c", "import os,sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))", word],
        timeout_s=60,
        cwd=folder,
    )
    assert (finished.stdout, list(folder.iterdir())) == (os.fsencode(word), [])


async def test_deadline_ends_everything_that_was_started() -> None:
    mark = uuid.uuid4().hex
    started = time.monotonic()
    finished = await run_killable([PYTHON, "-c", STUBBORN, mark], timeout_s=2)
    assert (finished.timed_out, finished.stdout, processes_named(mark)) == (True, b"up\n", [])
    assert time.monotonic() - started < 10


async def test_what_a_program_leaves_behind_ends_with_it() -> None:
    mark = uuid.uuid4().hex
    leaves = "import os,sys,time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
    finished = await run_killable([PYTHON, "-c", leaves, mark], timeout_s=60)
    assert (finished.returncode, finished.timed_out, processes_named(mark)) == (0, False, [])


async def test_cancelling_kills() -> None:
    mark = uuid.uuid4().hex
    task = asyncio.create_task(run_killable([PYTHON, "-c", STUBBORN, mark], timeout_s=600))
    while not processes_named(mark):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_named(mark) == []


async def test_signals_are_reported_as_such() -> None:
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT):
        finished = await run_killable([PYTHON, "-c", f"import os; os.kill(os.getpid(), {int(number)})"], timeout_s=60)
        assert (finished.returncode, finished.timed_out) == (-number, False)


async def test_long_output_keeps_head_and_tail_and_says_what_is_cut() -> None:
    program = "import sys; sys.stdout.write('start' + 'x' * 9_999_990 + 'end..')"
    finished = await run_killable([PYTHON, "-c", program], timeout_s=60, output_limit=1000)
    assert finished.stdout.startswith(b"startxxx")
    assert finished.stdout.endswith(b"xxxend..")
    assert b"[... 9999000 bytes left out ...]" in finished.stdout


async def test_memory_is_bounded() -> None:
    finished = await run_killable([PYTHON, "-c", "bytearray(1 << 31)"], timeout_s=60, memory_bytes=1 << 29)
    assert finished.returncode == 1
    assert b"MemoryError" in finished.stderr


async def test_missing_program_is_the_machines_fault() -> None:
    with pytest.raises(MachineError, match=r"cannot start /nowhere/c\+\+: .*No such file"):
        await run_killable(["/nowhere/c++"], timeout_s=60)
    with pytest.raises(MachineError, match="cannot start no-such-program"):
        run_briefly(["no-such-program"], timeout_s=60)


async def test_odd_bytes_come_back_with_marks() -> None:
    finished = await run_killable([PYTHON, "-c", "import os; os.write(1, b'd\\351clar\\351')"], timeout_s=60)
    assert (finished.stdout, finished.text) == (b"d\xe9clar\xe9", "d\ufffdclar\ufffd")


async def test_landlock_hides_all_but_the_named_paths(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "secret").write_text("key")
    sandbox = Sandbox(read=("/usr", "/lib", "/lib64", "/bin"), write=(str(tmp_path / "seen"),))
    probe = await run_killable(["true"], timeout_s=60, sandbox=None)
    assert probe.returncode == 0
    try:
        denied = await run_killable(["cat", str(tmp_path / "secret")], timeout_s=60, sandbox=sandbox)
    except MachineError as error:
        pytest.skip(f"no Landlock here: {error}")
    assert (denied.stdout, denied.returncode) == (b"", 1)
    written = await run_killable(["touch", str(tmp_path / "seen" / "file")], timeout_s=60, sandbox=sandbox)
    assert (written.returncode, (tmp_path / "seen" / "file").exists()) == (0, True)


def test_everything_dies_with_an_engine_that_is_killed(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    engine = (
        "import asyncio,sys\nfrom kerneltui.evaluator.processes import run_killable\n"
        "asyncio.run(run_killable(sys.argv[1:], timeout_s=600))"
    )
    root = Path(__file__).parents[1]
    with subprocess.Popen([PYTHON, "-c", engine, PYTHON, "-c", STUBBORN, mark], cwd=root) as process:
        while len(processes_named(mark)) < 4:  # engine, keeper, program, grandchild
            time.sleep(0.05)
        process.kill()
    deadline = time.monotonic() + 20
    while processes_named(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_named(mark) == []


def test_kill_tree_ends_a_program_behind_the_keeper() -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen([*keeper(), PYTHON, "-c", STUBBORN, mark], start_new_session=True, stdout=-3) as process:
        while len(processes_named(mark)) < 3:
            time.sleep(0.05)
        kill_tree(process.pid)
        assert (process.wait(), processes_named(mark)) == (-signal.SIGKILL, [])


def test_keys_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "SOME_TOKEN", "LD_PRELOAD", "NVCC_APPEND_FLAGS", "CPATH"):
        monkeypatch.setenv(name, "secret")
    environment = clean_environment({"TMPDIR": "tmp"})
    assert "secret" not in environment.values()
    assert {name: environment[name] for name in ("LANG", "LC_ALL", "HOME", "TMPDIR")} == {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "HOME": "/nonexistent",
        "TMPDIR": "tmp",
    }


def test_briefly_ends_at_its_deadline_too() -> None:
    mark = uuid.uuid4().hex
    finished = run_briefly([PYTHON, "-c", STUBBORN, mark], timeout_s=2)
    assert (finished.timed_out, processes_named(mark)) == (True, [])
