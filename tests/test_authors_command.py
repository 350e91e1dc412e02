"""Programs as authors: real ones, small."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from author_material import make_ask
from provider_server import KERNEL

from kerneltui.authors import Answer
from kerneltui.authors.command import ANSWER_BYTES, CommandAuthor, check_ready
from kerneltui.errors import AuthorStopped, AuthorUnavailable
from kerneltui.records import AuthorSettings


def author(code: str, *, timeout_s: float = 30.0, **settings: object) -> CommandAuthor:
    command = (sys.executable, "-I", "-c", code)
    return CommandAuthor(AuthorSettings(kind="command", command=command, timeout_s=timeout_s, **settings))  # type: ignore[arg-type]


async def ask(code: str, **settings: object) -> Answer:
    program = author(code, **settings)  # type: ignore[arg-type]
    return await program.answer(program.prepare(make_ask()))


ECHO = f"import sys; prompt = sys.stdin.read(); print('```cpp'); print({KERNEL!r} + '```')"


async def test_prompt_in_answer_out() -> None:
    heard: list[str] = []
    program = author("import sys; print('seen', len(sys.stdin.read()));" + ECHO)
    prepared = program.prepare(make_ask())
    answer = await program.answer(prepared, heard.append)
    assert (answer.source, answer.problem) == (KERNEL, "")
    assert answer.reply.text.startswith(f"seen {len(prepared.prompt)}\n")
    assert "".join(heard) == answer.reply.text
    assert (answer.reply.tokens_in, answer.reply.cost_usd, prepared.worst_usd, prepared.worst_tokens) == (None,) * 4


async def test_a_program_called_free_is_free() -> None:
    program = author(ECHO, price_in_usd=0.0, price_out_usd=0.0)
    prepared = program.prepare(make_ask())
    answer = await program.answer(prepared)
    assert (prepared.worst_usd, answer.reply.cost_usd) == (0.0, 0.0)


async def test_exit_status_and_stderr_are_reported() -> None:
    program = author("import sys; print('half'); sys.stderr.write('a\\n\\x1b[31mno credit\\x1b[0m\\n'); sys.exit(3)")
    prepared = program.prepare(make_ask())
    with pytest.raises(AuthorUnavailable, match=r"failed \(exit status 3\); stderr ends with: no credit$") as caught:
        await program.answer(prepared)
    assert (caught.value.reply.text, caught.value.reply.finish_reason) == ("half\n", "exit 3")
    with pytest.raises(AuthorUnavailable):
        await program.answer(prepared)
    with pytest.raises(AuthorStopped, match="3 times in a row; run it by hand"):
        await program.answer(prepared)


async def test_a_signal_is_named() -> None:
    with pytest.raises(AuthorUnavailable, match=r"failed \(ended by SIGSEGV\)"):
        await ask("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")


async def test_nothing_written_is_no_answer() -> None:
    answer = await ask("import sys; sys.stderr.write('not logged in')")
    assert (
        answer.problem == f"{sys.executable} wrote nothing to stdout (exit status 0); stderr ends with: not logged in"
    )


async def test_the_deadline_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); print('begun', flush=True); time.sleep(60)"
    )
    started = time.monotonic()
    with pytest.raises(
        AuthorUnavailable, match=r"no whole answer within 2 s; it was ended after 6 characters"
    ) as caught:
        await ask(code, timeout_s=2.0)
    assert time.monotonic() - started < 10
    assert caught.value.reply.text == "begun\n"
    assert [alive(int(pid)) for pid in pids.read_text().split()] == [False, False]


def alive(pid: int) -> bool:
    for _ in range(50):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
        time.sleep(0.02)
    return True


async def test_a_pipe_held_open_by_something_left_behind_is_not_waited_for() -> None:
    code = ECHO + "; import subprocess; subprocess.Popen(['sleep', '5'], start_new_session=True)"
    started = time.monotonic()
    answer = await ask(code)
    assert (answer.source, time.monotonic() - started < 4.5) == (KERNEL, True)


async def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    task = asyncio.create_task(ask(code))
    while not pid.exists() or not pid.read_text():
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int(pid.read_text()))


def test_a_program_does_not_outlive_a_killed_engine(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    slow = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    asks = (
        "import asyncio, sys; sys.path.insert(0, 'tests')\n"
        "from test_authors_command import ask\n"
        f"asyncio.run(ask({slow!r}))\n"
    )
    engine = subprocess.Popen([sys.executable, "-c", asks], cwd=Path(__file__).parent.parent)
    deadline = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline and engine.poll() is None
        time.sleep(0.02)
    program = psutil.Process(int(pid_file.read_text()))
    engine.kill()
    engine.wait()
    psutil.wait_procs([program], timeout=5)
    assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE


async def test_an_endless_answer_is_ended() -> None:
    with pytest.raises(AuthorUnavailable, match="longer than 4 MiB"):
        await ask("while True: print('x' * 65536)")
    assert ANSWER_BYTES == 4 << 20


async def test_a_program_need_not_read_its_prompt() -> None:
    answer = await ask(f"print('```cpp'); print({KERNEL!r} + '```')")
    assert answer.source == KERNEL


async def test_bytes_that_are_no_text_do_not_matter() -> None:
    answer = await ask("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n'); " + ECHO)
    assert answer.source == KERNEL


async def test_a_half_answer_is_recognised_without_a_finish_reason() -> None:
    answer = await ask(f"print('```cpp'); print({KERNEL[:120]!r})")
    assert answer.problem == "the code ends in the middle: 1 brace left open at its end"


async def test_keys_of_the_environment_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VENDOR_TOKEN", "plainwords-9c1e")
    heard: list[str] = []
    program = author("import os; print('key', os.environ['SOME_VENDOR_TOKEN']);" + ECHO)
    answer = await program.answer(program.prepare(make_ask()), heard.append)
    assert "plainwords" not in answer.reply.text + "".join(heard)
    assert answer.reply.text.startswith("key [key]\n")


def test_a_missing_program_is_found_before_the_start(tmp_path: Path) -> None:
    settings = AuthorSettings(kind="command", command=("no-such-program-here", "-p"))
    sentence = "author command: there is no program `no-such-program-here` in PATH"
    assert check_ready(settings) == sentence
    assert check_ready(AuthorSettings(kind="command")) == (
        'author command has no program: set command = ["claude", "-p"] in its table'
    )
    with pytest.raises(AuthorStopped, match="there is no program"):
        CommandAuthor(settings)


async def test_a_program_that_cannot_start_stops_the_author(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    program = CommandAuthor(AuthorSettings(kind="command", command=(str(script),)))
    with pytest.raises(AuthorStopped, match="cannot be started"):
        await program.answer(program.prepare(make_ask()))
