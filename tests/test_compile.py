from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from building import CPP_CONTRACT, CUDA_CONTRACT, CUDA_RELU, HAS_NVCC, RELU, cpp, cpu_with, cuda, script

from kerneltui.errors import ToolchainMissing
from kerneltui.evaluator import build_cache, compiler_log, sandbox
from kerneltui.evaluator.binary_policy import OWN_CALL
from kerneltui.evaluator.build_cache import alone, keep, load, place
from kerneltui.evaluator.compile import Build, build, build_key, compile_library
from kerneltui.evaluator.devices import find_device, offline_cuda_device
from kerneltui.evaluator.policy import Finding, check_binary, may_be_chance
from kerneltui.evaluator.recipes import LAYOUTS, toolchain_folders, vendor_libraries
from kerneltui.records import (
    Candidate,
    CheckResult,
    Contract,
    Device,
    KernelResources,
    Language,
    Outcome,
    Policy,
    Stage,
    Verdict,
)

needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")


@pytest.fixture(scope="module")
def cpu() -> Device:
    return find_device("cpu")


async def built(candidate: Candidate, device: Device, cache: Path, contract: Contract = CPP_CONTRACT) -> Build:
    found = await build(candidate, contract, device, policy=Policy(), cache=cache)
    assert isinstance(found, Build), found.message
    return found


async def refused(
    candidate: Candidate, device: Device, cache: Path, contract: Contract = CPP_CONTRACT, deadline_s: float = 120.0
) -> Verdict:
    found = await build(candidate, contract, device, policy=Policy(), cache=cache, deadline_s=deadline_s)
    assert isinstance(found, Verdict)
    return found


# --------------------------------------------------------------------------- host


async def test_a_library_is_built_and_computes(cpu: Device, tmp_path: Path) -> None:
    found = await built(cpp(RELU), cpu, tmp_path)
    library = ctypes.CDLL(str(found.library))
    x, out = (ctypes.c_float * 1024)(*([-1.0, 2.0] * 512)), (ctypes.c_float * 1024)()
    assert (library.relu(x, out, None), list(out)) == (0, [0.0, 2.0] * 512)
    assert [check.result for check in found.checks] == [CheckResult.PASS]
    assert "-march=native" in found.log


async def test_the_same_question_is_compiled_once(cpu: Device, tmp_path: Path) -> None:
    first = await built(cpp(RELU), cpu, tmp_path)
    second = await built(cpp(RELU), cpu, tmp_path)
    assert (first.cached, second.cached) == (False, True)
    assert replace(second, cached=False) == first


def test_the_key_holds_all_that_decides(cpu: Device) -> None:
    base = (cpp(RELU), CPP_CONTRACT, cpu)
    others = [
        (cpp(RELU + "\n"), CPP_CONTRACT, cpu),
        (cpp(RELU, defines=(("BLOCK", "2"),)), CPP_CONTRACT, cpu),
        (cpp(RELU, flags=("-O2",)), CPP_CONTRACT, cpu),
        (cpp(RELU), replace(CPP_CONTRACT, header=CPP_CONTRACT.header + "// "), cpu),
        (cpp(RELU), CPP_CONTRACT, replace(cpu, toolkit="g++ 99")),
        (cpp(RELU), CPP_CONTRACT, replace(cpu, compiler="/usr/bin/true")),
        (cpp(RELU), CPP_CONTRACT, replace(cpu, architecture="x86-64-v2")),
        (cpp(RELU), CPP_CONTRACT, replace(cpu, facts={"features": "another CPU"})),
    ]
    assert len({build_key(*question) for question in [base, *others]}) == len(others) + 1


async def test_a_library_that_was_changed_is_built_again(cpu: Device, tmp_path: Path) -> None:
    first = await built(cpp(RELU), cpu, tmp_path)
    first.library.write_bytes(first.library.read_bytes() + b"tampered")
    second = await built(cpp(RELU), cpu, tmp_path)
    assert (second.cached, b"tampered" in second.library.read_bytes()) == (False, False)
    shutil.rmtree(second.library.parent)
    assert (await built(cpp(RELU), cpu, tmp_path)).cached is False


async def test_many_at_once_build_once_and_leave_nothing(cpu: Device, tmp_path: Path) -> None:
    found = await asyncio.gather(*(built(cpp(RELU), cpu, tmp_path) for _ in range(8)))
    assert sorted(one.cached for one in found) == [False] + [True] * 7
    assert list((tmp_path / "incoming").iterdir()) == list((tmp_path / "locks").iterdir()) == []


async def test_defines_and_flags_reach_the_compiler(cpu: Device, tmp_path: Path) -> None:
    source = RELU.replace("return 0", "return BLOCK")
    found = await built(cpp(source, defines=(("BLOCK", "7"),), flags=("-ffast-math",)), cpu, tmp_path)
    x = (ctypes.c_float * 1024)()
    assert ctypes.CDLL(str(found.library)).relu(x, x, None) == 7
    assert "-ffast-math -DBLOCK=7" in found.log


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (RELU.replace("std::max(x[i], 0.0f)", "y"), "line 5: 'y' was not declared in this scope"),
        (
            RELU.replace("const float* x", "const float* x, int n"),
            "line 3: conflicting declaration of C function 'int relu(const float*, int, float*, void*)'",
        ),
        (
            RELU.replace('extern "C" int relu(const float* x', "int relu(float* x"),
            "the contract's function relu is not defined; there is relu(float*, float*, void*) instead, "
            'without extern "C" or with other arguments',
        ),
        (
            RELU.replace('#include "contract.h"', "#include <cstdint>\nconstexpr int64_t N = 1024;"),
            'the contract\'s function relu is defined but hidden: include "contract.h"',
        ),
        ("#include <cmath>\n", "the contract's function relu is not defined"),
        (
            RELU.replace("return 0", "return helper()").replace("#include <a", "int helper();\n#include <a"),
            "undefined reference to `helper()'",
        ),
        ("", "the source is empty"),
        (" \n\n", "the source is empty"),
        ("int x;\n\0", "line 2: the source holds binary data (a NUL byte)"),
        ("x" * 20_000_000, "the source has 20.0 MB; at most 1 MB are compiled"),
        ("#error this is wrong", "line 1: #error this is wrong"),
        ('#include "nothing.h"', "line 1: nothing.h: No such file or directory"),
    ],
)  # fmt: skip
async def test_errors_are_said_in_one_line(source: str, message: str, cpu: Device, tmp_path: Path) -> None:
    found = await refused(cpp(source), cpu, tmp_path)
    assert (found.outcome, found.stage, found.message) == (Outcome.COMPILE_ERROR, Stage.COMPILE, message)


async def test_a_policy_finding_is_a_verdict_of_its_own(cpu: Device, tmp_path: Path) -> None:
    found = await refused(cpp(RELU + "#include <thread>\n"), cpu, tmp_path)
    assert (found.outcome, found.stage) == (Outcome.SUSPECT, Stage.POLICY)
    assert found.message == "line 8: #include <thread>: no threads of your own"
    assert [check.result for check in found.checks] == [CheckResult.FAIL]


async def test_a_finding_in_the_binary_keeps_the_log(cpu: Device, tmp_path: Path) -> None:
    source = RELU.replace("return 0", "extern int hidden(); return hidden()").replace(
        "#include <algorithm>", '#include <algorithm>\nextern "C" int clock_getres(int, void*);'
    )
    source = source.replace("extern int hidden(); return hidden()", "return clock_getres(0, 0)")
    for _ in range(2):  # a cached build is judged again
        found = await refused(cpp(source), cpu, tmp_path)
        assert found.message == "the library imports clock_getres, which kernels have no need of"
        assert (found.outcome, "-march=native" in found.log) == (Outcome.SUSPECT, True)


# --------------------------------------------------------------------------- odd paths, odd bytes


@pytest.mark.parametrize("lang", ["C", "zh_CN.UTF-8"])
async def test_no_path_and_no_locale_disturbs(lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", lang)
    monkeypatch.setenv("LC_ALL", lang)
    cache = tmp_path / "my kernels" / "試'$(touch x)\""
    found = await built(cpp("// ἀρχή 試\n" + RELU), find_device("cpu"), cache)
    assert found.library.is_relative_to(cache)
    assert ctypes.CDLL(str(found.library)).relu
    assert not Path("x").exists()


async def test_temporary_folders_with_odd_names_are_not_used(
    cpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "tmp $(touch y)"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    await built(cpp(RELU), cpu, tmp_path)
    assert list(odd.iterdir()) == []


async def test_bytes_that_are_no_utf8_reach_compiler_and_log(cpu: Device, tmp_path: Path) -> None:
    source = (
        b'#include "contract.h"\nextern "C" int relu(const float* x, float* out, void* w) { return y; } // na\xefve\n'
    )
    found = await refused(cpp(source.decode("utf-8", "surrogateescape")), cpu, tmp_path)
    assert (found.outcome, found.message) == (Outcome.COMPILE_ERROR, "line 2: 'y' was not declared in this scope")
    assert "na\ufffdve" in found.log


async def test_a_compiler_that_speaks_latin1_is_quoted_with_marks(tmp_path: Path) -> None:
    says = r"printf 'kernel.cpp:3:9: erreur: \253x\273 n\222est pas d\351clar\351\n\377\376\000 raw\n' >&2; exit 1"
    found = await refused(cpp(RELU), cpu_with(script(tmp_path / "odd c++", says)), tmp_path / "cache")
    assert found.outcome is Outcome.COMPILE_ERROR
    assert found.message == "line 3: \ufffdx\ufffd n\ufffdest pas d\ufffdclar\ufffd"
    assert "\0 raw" in found.log


# --------------------------------------------------------------------------- whose fault


async def test_no_compiler_is_the_machines_fault(cpu: Device, tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="apt install g"):
        await build(cpp(RELU), CPP_CONTRACT, replace(cpu, compiler=""), policy=Policy(), cache=tmp_path)


async def test_a_compiler_that_builds_nothing_is_the_machines_fault(tmp_path: Path) -> None:
    broken = script(tmp_path / "c++", "echo 'c++: fatal error: cannot execute cc1plus' >&2; exit 1")
    with pytest.raises(ToolchainMissing, match="it does not build an empty program"):
        await build(cpp(RELU), CPP_CONTRACT, cpu_with(broken), policy=Policy(), cache=tmp_path / "cache")


# --------------------------------------------------------------------------- the cage


@pytest.mark.parametrize("means", list(sandbox.Level))
async def test_every_cage_builds(
    means: sandbox.Level, cpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = {sandbox.Level.BUBBLEWRAP: sandbox._bubblewrap_works, sandbox.Level.LANDLOCK: sandbox._landlock_works}
    if means in works and not works[means]():
        pytest.skip(f"{means} does not work here")
    monkeypatch.setattr(sandbox, "best_level", lambda: means)
    await built(cpp(RELU), cpu, tmp_path)
    if HAS_NVCC:
        await built(cuda(CUDA_RELU), offline_cuda_device(), tmp_path, CUDA_CONTRACT)


@pytest.mark.parametrize("means", [sandbox.Level.BUBBLEWRAP, sandbox.Level.LANDLOCK])
def test_a_cage_shows_no_files_of_the_person(means: sandbox.Level, cpu: Device, tmp_path: Path) -> None:
    works = {sandbox.Level.BUBBLEWRAP: sandbox._bubblewrap_works, sandbox.Level.LANDLOCK: sandbox._landlock_works}
    if not works[means]():
        pytest.skip(f"{means} does not work here")
    from kerneltui.evaluator.processes import run_briefly

    folder = tmp_path / "build"
    folder.mkdir()
    (tmp_path / "key").write_text("secret")
    words, seen = sandbox.cage(folder, read=toolchain_folders(cpu), means=means)
    for path in ("/etc/passwd", str(tmp_path / "key"), os.path.expanduser("~/.bashrc")):
        read = run_briefly([*words, "cat", path], timeout_s=60, sandbox=seen)
        assert (read.stdout, read.returncode) == (b"", 1)
    assert run_briefly([*words, "touch", str(folder / "made")], timeout_s=60, sandbox=seen).returncode == 0
    outside = run_briefly([*words, "touch", "/usr/made"], timeout_s=60, sandbox=seen)
    assert (outside.returncode, Path("/usr/made").exists()) == (1, False)


def test_the_level_is_said_in_words() -> None:
    assert sandbox.level() in sandbox.WORDS.values()


# --------------------------------------------------------------------------- CUDA


@needs_nvcc
async def test_a_cuda_library_and_its_figures(tmp_path: Path) -> None:
    found = await built(cuda(CUDA_RELU), offline_cuda_device("sm_90a"), tmp_path, CUDA_CONTRACT)
    assert [(one.name, one.shared_bytes, one.spill_bytes, one.stack_bytes) for one in found.resources] == [
        ("positive<float>", 1024, 0, 0)
    ]
    assert found.resources[0].registers in range(4, 64)
    assert found.cubin is not None and found.cubin.read_bytes().startswith(b"\x7fELF")
    assert "code=sm_90a" in found.log
    again = await built(cuda(CUDA_RELU), offline_cuda_device("sm_90a"), tmp_path, CUDA_CONTRACT)
    assert (again.cached, again.resources) == (True, found.resources)
    other = await built(cuda(CUDA_RELU), offline_cuda_device("sm_80"), tmp_path, CUDA_CONTRACT)
    assert (other.cached, other.library == found.library) == (False, False)


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (CUDA_RELU.replace("x[i] : T(0)", "y : T(0)"), 'line 7: identifier "y" is undefined'),
        (
            CUDA_RELU.replace("tile[256]", "tile[100000]"),
            "Entry function 'positive<float>' uses too much shared data (400,000 bytes, 232,448 max)",
        ),
        (CUDA_RELU.replace('extern "C" int relu', "int other"), "the contract's function relu is not defined"),
        (CUDA_RELU.replace(", cudaStream_t stream)", ")"), None),
    ],
)
async def test_cuda_errors_are_said_in_one_line(source: str, message: str | None, tmp_path: Path) -> None:
    found = await refused(cuda(source), offline_cuda_device("sm_90a"), tmp_path, CUDA_CONTRACT)
    assert (found.outcome, found.stage) == (Outcome.COMPILE_ERROR, Stage.COMPILE)
    assert found.message == message or (message is None and found.message.startswith("line "))


# --------------------------------------------------------------------------- Python


async def test_a_module_is_read_and_not_built(cpu: Device, tmp_path: Path) -> None:
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"
    found = await build(Candidate(source=source, language=Language.PYTHON), None, cpu, policy=Policy(), cache=tmp_path)
    assert isinstance(found, Build)
    assert (found.library.name, found.library.read_text()) == ("module.py", source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class ModelNew(:", "line 1: invalid syntax"),
        (
            "class Model: pass",
            "no class ModelNew at the top level: a candidate in Python is a class of that name, made and called as Model is",
        ),
    ],
)
async def test_a_module_that_cannot_be_one(source: str, message: str, cpu: Device, tmp_path: Path) -> None:
    found = await build(Candidate(source=source, language=Language.PYTHON), None, cpu, policy=Policy(), cache=tmp_path)
    assert isinstance(found, Verdict)
    assert (found.outcome, found.message) == (Outcome.COMPILE_ERROR, message)


async def test_without_a_contract_only_modules_are_possible(cpu: Device, tmp_path: Path) -> None:
    found = await build(cpp(RELU), None, cpu, policy=Policy(), cache=tmp_path)
    assert isinstance(found, Verdict)
    assert found.message == "this problem has no C signature: write a Python module"


# --------------------------------------------------------------------------- logs


def test_figures_of_every_kernel_are_read() -> None:
    log = """ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_Z4copyPKfPf' for 'sm_90a'
ptxas info    : Function properties for _Z4copyPKfPf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for _Z6helperf
    99 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 544 bytes cmem[0], 8 bytes cmem[2]
"""
    assert compiler_log.kernel_resources(log) == (
        KernelResources(
            name="copy", registers=40, spill_bytes=20, stack_bytes=16, shared_bytes=2048, constant_bytes=552
        ),
    )


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("kernel.cu(3): error: identifier \"y\" is undefined", 'line 3: identifier "y" is undefined'),
        ("kernel.cu(3): error #20: identifier \"y\" is undefined", 'line 3: identifier "y" is undefined'),
        ("kernel.cpp:5:2: fatal error: x.h: No such file", "line 5: x.h: No such file"),
        ("contract.h:7:1: error: bad", "contract.h line 7: bad"),
        ("/usr/include/c++/12/a.h:9:1: error: bad", "a.h line 9: bad"),
        ("kernel.cpp:1:1: warning: odd\nkernel.cpp:2:1: error: bad", "line 2: bad"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_1'", "Unsupported gpu architecture 'compute_1'"),
        ("At end of source: error: expected a \"}\"", 'at the end of the source: expected a "}"'),
        ("ptxas kernel.ptx, line 9; error   : Illegal vector size", "Illegal vector size"),
        ("kernel.cpp:4:1: internal compiler error: Segmentation fault", "internal compiler error: Segmentation fault"),
        ("all is well", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_first_real_error_is_the_message(log: str, message: str) -> None:
    assert compiler_log.first_error(log) == message


@pytest.mark.parametrize("piece", ["x", "a/", "a:1", "kernel.cpp:1:1: ", "undefined ", "(", "error "])
def test_a_log_made_to_be_slow_is_read_in_time(piece: str) -> None:
    log = piece * (30_000_000 // len(piece))
    assert len(compiler_log.first_error(log)) <= compiler_log.MESSAGE_LIMIT
    assert compiler_log.kernel_resources(log) == ()
    assert len(compiler_log.first_error("\n".join([log[:1000]] * 3000))) <= compiler_log.MESSAGE_LIMIT


# --------------------------------------------------------------------------- the cache


async def test_a_long_wait_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cache, "SAY_AFTER_S", 0.05)
    said: list[str] = []

    async def wait(patience_s: float) -> None:
        async with alone(tmp_path, "key", patience_s=patience_s, say=said.append):
            pass

    async with alone(tmp_path, "key", patience_s=60, say=said.append):
        await wait(0.5)  # another that will not wait for ever
    assert said == [
        f"waiting for process {os.getpid()}, which builds the same kernel",
        f"no longer waiting for process {os.getpid()}, which builds the same kernel; building it here too",
    ]
    await wait(60)
    assert len(said) == 2


def test_what_killed_processes_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(build_cache, "_temporary_root", lambda: tmp_path)
    old = time.time() - 10_000
    abandoned, half_moved = tmp_path / "kerneltui-build-dead", tmp_path / "incoming" / "half"
    for folder in (abandoned, half_moved):
        folder.mkdir(parents=True)
    (abandoned / build_cache.OWNER).touch()
    for folder in (abandoned, half_moved):
        os.utime(folder, (old, old))
    with build_cache.private_folder() as alive:
        os.utime(alive, (old, old))
        assert build_cache.sweep(tmp_path) == 2
        assert (alive.exists(), abandoned.exists(), half_moved.exists()) == (True, False, False)
    assert not alive.exists()


def test_a_second_build_of_the_same_changes_nothing(tmp_path: Path) -> None:
    built = tmp_path / "built"
    built.mkdir()
    (built / build_cache.LIBRARY).write_bytes(b"one")
    digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    stored = build_cache.Stored(library_sha256=digest)
    keep(tmp_path, "abc", built, stored, "log")
    keep(tmp_path, "abc", built, stored, "other log")
    assert load(tmp_path, "abc") == stored
    assert (place(tmp_path, "abc") / build_cache.LOG).read_text() == "log"


def test_a_vendor_library_is_linked_for_its_header() -> None:
    source = '#include <cublas_v2.h>\n  # include "cublasLt.h"\n// #include <cufft.h>\n#include <cmath>\n'
    assert ["cublas", "cublasLt"] == vendor_libraries(source)
    assert [] == vendor_libraries('#include "contract.h"\n')


async def test_bytes_that_look_like_a_system_call_by_chance_are_built_away(
    cpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def look(library: Path, contract: Contract, policy: Policy, *, cubin: Path | None = None) -> list[Finding]:
        seen.append(library)
        chance = Finding(line=None, reason=f"{OWN_CALL} (at .text+0x88d)", refused=True)
        return [chance] if len(seen) == 1 else check_binary(library, contract, policy, cubin=cubin)

    monkeypatch.setattr("kerneltui.evaluator.compile.check_binary", look)
    found = await built(cpp(RELU), cpu, tmp_path)
    first, second = (path.read_bytes() for path in seen)
    assert first != second
    assert found.library == seen[1]
    assert found.refusal is None


async def test_a_system_call_that_is_there_in_every_layout_is_refused(cpu: Device, tmp_path: Path) -> None:
    call = 'long r; asm volatile("syscall" : "=a"(r) : "0"(39L) : "rcx", "r11", "memory"); out[0] = r;'
    source = RELU.replace("return 0;", f"{call} return 0;")
    library = await compile_library(cpp(source), CPP_CONTRACT, cpu, cache=tmp_path, layout=LAYOUTS - 1)
    assert isinstance(library, Build)
    assert any(map(may_be_chance, check_binary(library.library, CPP_CONTRACT, Policy())))
