"""Compilers that hang, flood, eat memory, are killed or vanish: right outcome, nothing left, and the next build works."""

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
from building import (
    CPP_CONTRACT,
    CUDA_CONTRACT,
    CUDA_RELU,
    HAS_NVCC,
    RELU,
    cpp,
    cpu_with,
    cuda,
    processes_named,
    script,
)

from kerneltui.errors import MachineError
from kerneltui.evaluator import compile as compiling
from kerneltui.evaluator.compile import Build, build
from kerneltui.evaluator.devices import find_device, offline_cuda_device
from kerneltui.records import Device, Outcome, Policy, Stage, Verdict

ROOT = Path(__file__).parents[2]


async def judge(device: Device, cache: Path, source: str = RELU, deadline_s: float = 120.0) -> Build | Verdict:
    return await build(cpp(source), CPP_CONTRACT, device, policy=Policy(), cache=cache, deadline_s=deadline_s)


@pytest.fixture
def next_build_works(tmp_path: Path):
    """After the fault: no build folder of ours, and the next candidate is built."""
    before = set(build_folders())
    yield
    assert [folder for folder in build_folders() if folder not in before] == []
    assert isinstance(asyncio.run(judge(find_device("cpu"), tmp_path / "cache")), Build)


def build_folders() -> list[Path]:
    """Build folders of this process (others may be at work beside us)."""
    mine = []
    for owner in Path("/tmp").glob("kerneltui-build-*/.owner"):
        if any(os.path.samefile(f"/proc/self/fd/{fd}", owner) for fd in os.listdir("/proc/self/fd") if _is_file(fd)):
            mine.append(owner.parent)
    return mine


def _is_file(fd: str) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")


@pytest.mark.usefixtures("next_build_works")
async def test_a_compiler_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    hangs = script(tmp_path / mark, "trap '' TERM; setsid sleep 600 & echo half a message >&2; sleep 600")
    started = time.monotonic()
    found = await judge(cpu_with(hangs), tmp_path / "cache", deadline_s=2)
    assert isinstance(found, Verdict)
    assert (found.outcome, found.stage) == (Outcome.TIMEOUT, Stage.COMPILE)
    assert found.message == f"{mark} did not end within 2 s"
    assert "half a message" in found.log
    assert time.monotonic() - started < 15
    assert processes_named(mark) == []


@pytest.mark.usefixtures("next_build_works")
async def test_a_log_of_50_mb_is_kept_whole(tmp_path: Path) -> None:
    floods = script(
        tmp_path / "c++",
        "echo 'kernel.cpp:3:1: error: first of many' >&2; head -c 50000000 /dev/zero | tr '\\0' x >&2; exit 1",
    )
    found = await judge(cpu_with(floods), tmp_path / "cache")
    assert isinstance(found, Verdict)
    assert (found.outcome, found.message) == (Outcome.COMPILE_ERROR, "line 3: first of many")
    assert len(found.log) > 50_000_000


@pytest.mark.usefixtures("next_build_works")
async def test_a_log_without_end_is_cut_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "LOG_LIMIT_BYTES", 1 << 20)
    floods = script(tmp_path / "c++", "yes 'kernel.cpp:3:1: error: again' >&2")
    found = await judge(cpu_with(floods), tmp_path / "cache", deadline_s=2)
    assert isinstance(found, Verdict)
    assert found.outcome is Outcome.TIMEOUT
    assert "bytes left out" in found.log
    assert len(found.log) < 3 << 20


@pytest.mark.usefixtures("next_build_works")
async def test_a_compiler_that_eats_memory_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_memory_limit", lambda: 1 << 29)
    # Each macro is ten times the one before: 10^9 numbers to hold.
    levels = "".join(f"#define M{n + 1} {f'M{n} ' * 10}\n" for n in range(9))
    source = f'#include "contract.h"\n#define M0 1,\n{levels}long big[] = {{ M9 }};\n'
    found = await judge(find_device("cpu"), tmp_path / "cache", source=source)
    assert isinstance(found, Verdict)
    assert (found.outcome, found.stage) == (Outcome.OUT_OF_MEMORY, Stage.COMPILE)
    assert "needs more memory than" in found.message


async def test_a_compiler_that_somebody_kills_is_not_the_candidates_fault(tmp_path: Path) -> None:
    killed = script(tmp_path / "c++", "kill -9 $$")
    with pytest.raises(MachineError, match=r"c\+\+ was killed \(SIGKILL\) by somebody else"):
        await judge(cpu_with(killed), tmp_path / "cache")


async def test_a_compiler_the_kernel_kills_for_memory_is_the_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter(["oom_kill 3", "oom_kill 4"])
    monkeypatch.setattr(compiling, "_oom_kills", lambda: next(counts))
    killed = script(tmp_path / "c++", "echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1")
    found = await judge(cpu_with(killed), tmp_path / "cache")
    assert isinstance(found, Verdict)
    assert (found.outcome, found.stage) == (Outcome.OUT_OF_MEMORY, Stage.COMPILE)


@pytest.mark.usefixtures("next_build_works")
async def test_a_compiler_that_crashes_on_one_source_is_a_compile_error(tmp_path: Path) -> None:
    crashes = script(tmp_path / "c++", 'case "$*" in *empty.cpp*) exec c++ "$@";; esac; kill -SEGV $$')
    found = await judge(cpu_with(crashes), tmp_path / "cache")
    assert isinstance(found, Verdict)
    assert (found.outcome, found.message) == (
        Outcome.COMPILE_ERROR,
        "c++ ended with status -11 and no error message",
    )


async def test_a_compiler_that_vanished_is_the_machines_fault(tmp_path: Path) -> None:
    compiler = script(tmp_path / "c++", "exit 0")
    device = cpu_with(compiler)
    compiler.unlink()
    with pytest.raises(MachineError, match="is no longer there"):
        await judge(device, tmp_path / "cache")


async def test_a_compiler_that_makes_nothing_did_not_succeed(tmp_path: Path) -> None:
    silent = script(tmp_path / "c++", "exit 0")
    with pytest.raises(MachineError, match="it does not build an empty program"):
        await judge(cpu_with(silent), tmp_path / "cache")


async def test_a_compiler_that_writes_rubbish_is_no_build(tmp_path: Path) -> None:
    rubbish = script(tmp_path / "c++", 'for last; do :; done; echo rubbish > "$last"')
    found = await judge(cpu_with(rubbish), tmp_path / "cache")
    assert isinstance(found, Verdict)
    assert found.message == "the compiler wrote no library: not a 64-bit ELF file"


async def test_a_cache_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(MachineError, match="cannot write to"):
        await judge(find_device("cpu"), tmp_path / "cache")


async def test_a_full_disk_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "FULL_DISK_BYTES", 1 << 60)
    full = script(tmp_path / "c++", "echo 'ld: final link failed: No space left on device' >&2; exit 1")
    with pytest.raises(MachineError, match="disk full"):
        await judge(cpu_with(full), tmp_path / "cache")


@pytest.mark.usefixtures("next_build_works")
async def test_cancelling_a_build_ends_its_compiler(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    hangs = script(tmp_path / mark, "sleep 600")
    task = asyncio.create_task(judge(cpu_with(hangs), tmp_path / "cache"))
    while not processes_named(mark):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_named(mark) == []


def test_a_build_killed_with_its_engine_blocks_nobody(tmp_path: Path) -> None:
    """SIGKILL in mid-build: no compiler lives on, no lock is held, and the same build succeeds at once."""
    mark = uuid.uuid4().hex
    compiler = script(tmp_path / mark, '[ -e "$0.go" ] && exec c++ "$@"; sleep 600')
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nsys.path[:0] = ['tests', 'tests/faults']\n"
        "from test_compile_faults import *\n"
        "asyncio.run(judge(cpu_with(sys.argv[1]), Path(sys.argv[2])))"
    )
    engine = subprocess.Popen([sys.executable, "-c", program, str(compiler), str(tmp_path / "cache")], cwd=ROOT)
    deadline = time.monotonic() + 60
    while len(processes_named(mark)) < 3 and time.monotonic() < deadline:  # engine, keeper, compiler
        time.sleep(0.05)
    assert list((tmp_path / "cache" / "locks").iterdir()) != []
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    while processes_named(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_named(mark) == []
    (tmp_path / f"{mark}.go").touch()
    again = asyncio.run(judge(cpu_with(compiler), tmp_path / "cache", deadline_s=60))
    assert isinstance(again, Build)
    assert list((tmp_path / "cache" / "locks").iterdir()) == []


@pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")
async def test_nvcc_past_its_deadline_leaves_no_cicc(tmp_path: Path) -> None:
    source = CUDA_RELU.replace(
        "return cudaGetLastError", "int v[] = {" + "1," * 10 + "}; return v[0] * cudaGetLastError"
    )
    found = await build(
        cuda(source), CUDA_CONTRACT, offline_cuda_device(), policy=Policy(), cache=tmp_path, deadline_s=0.2
    )
    assert isinstance(found, Verdict)
    assert (found.outcome, found.message) == (Outcome.TIMEOUT, "nvcc did not end within 0 s")
    assert list((tmp_path / "locks").iterdir()) == []
