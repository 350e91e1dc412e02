"""Profiles: recorded texts of ncu and perf, the way through the judge on this host, and what is said where nothing counts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from judging import Bench

from kerneltui.cli import group
from kerneltui.commands.profiling import keep
from kerneltui.engine.recovery import hold_lock
from kerneltui.errors import MachineError, ToolchainMissing, UsageError
from kerneltui.evaluator import profiling
from kerneltui.evaluator.compile import Build
from kerneltui.evaluator.counters import figure_text, host_figures, ncu_trouble, read_ncu, read_perf
from kerneltui.evaluator.profiling import perf_trouble, profile_words
from kerneltui.records import (
    Candidate,
    DecisionKind,
    Figure,
    KernelProfile,
    Language,
    Problem,
    Profile,
    Settings,
    Variant,
)
from kerneltui.store import Store

STALLED = "smsp__average_warps_issue_stalled"
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    '"gpu__time_duration.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",'
    '"sm__warps_active.avg.pct_of_peak_sustained_active","launch__registers_per_thread","launch__shared_mem_per_block",'
    f'"{STALLED}_long_scoreboard_per_issue_active.ratio","{STALLED}_barrier_per_issue_active.ratio",'
    f'"{STALLED}_wait_per_issue_active.ratio","{STALLED}_short_scoreboard_per_issue_active.ratio",'
    f'"{STALLED}_selected_per_issue_active.ratio","{STALLED}_long_scoreboard_not_issued_per_issue_active.ratio",'
    '"dram__bytes.sum.per_second"\n'
    '"","","","","","","","","","","","ns","%","%","register/thread","byte/block",'
    '"inst","inst","inst","inst","inst","inst","byte/s"\n'
)
FIRST = '"0","42","python3","127.0.0.1","void (anonymous namespace)::rows<float>(float4 const *, float (*)(int))","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0",'
NCU = (
    "==PROF== Connected to process 42 (/usr/bin/python3.11)\n"
    '==PROF== Profiling "rows": 0%....50%....100% - 38 passes\n'
    + HEADER
    + FIRST
    + '"1,412,000","83.25","61.5","40","1,024","9.5","1.25","2","0.5","1","30","3,321,000,000,000"\n'
    + FIRST.replace('"0","42"', '"1","42"')
    + '"1,512,000","81.25","61.5","40","1,024","10.5","1.25","2","0.5","1","30","n/a"\n'
    + '"2","42","python3","127.0.0.1","sum(float *)","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","2,000","1","2","16","0","0","0","0","0","1","0","1"\n'
)
DENIED = """==PROF== Connected to process 113001 (/usr/bin/python3.11)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 113001
==WARNING== No kernels were profiled.
"""
PERF = """# started on Tue Dec  1 07:10:00 2026

612.50,msec,task-clock,612500000,100.00,1.950,CPUs utilized
40,,context-switches,612500000,100.00,65.3,/sec
0,,page-faults,612500000,100.00,0.000,/sec
2000000000,,cycles:u,612500000,100.00,3.27,GHz
3000000000,,instructions:u,612500000,100.00,1.50,insn per cycle
<not supported>,,cache-references,0,100.00,,
<not counted>,,cache-misses,0,0.00,,
"""

SQUARE = """import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x): return x * x
def get_inputs(): return [torch.randn(256, 256)]
def get_init_inputs(): return []
"""
KERNEL = """#include "contract.h"
extern "C" int square(const float* x, float* out, void*) {
#pragma omp parallel for
    for (int64_t i = 0; i < x_numel; ++i) out[i] = x[i] * x[i];
    return 0;
}
"""


def figures(kernel: KernelProfile) -> dict[str, str]:
    return {figure.name: figure_text(figure) for figure in kernel.figures}


# --------------------------------------------------------------------------- texts


def test_ncu_is_read_by_kernel_with_means_over_launches() -> None:
    rows, total = read_ncu(NCU)
    assert ("(anonymous namespace)::rows<float>", 2, "sum", 1) == (rows.name, rows.launches, total.name, total.launches)
    assert {
        "duration": "1.46 ms",
        "DRAM throughput": "82.2 %",
        "achieved occupancy": "61.5 %",
        "DRAM rate": "3,321 GB/s",
        "registers a thread": "40",
        "shared memory a block": "1,024 bytes",
        "stalled: long scoreboard": "10 warps",
        "stalled: wait": "2 warps",
        "stalled: barrier": "1.25 warps",
    } == figures(rows)
    assert [f.name for f in total.figures if f.name.startswith("stalled")] == [], "what is 0 stalls nobody"


@pytest.mark.parametrize("text", ["", "==ERROR== no such file\n", HEADER, '"ID"\n'])
def test_no_report_is_no_kernel(text: str) -> None:
    assert () == read_ncu(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [(DENIED, "NVreg_RestrictProfilingToAdminUsers=0"), ("==WARNING== No kernels were profiled.", "launches none"),
     ("==ERROR== Profiling failed because a driver resource was unavailable.", "dcgmi profile --pause"),
     ("==ERROR== Unknown option: x\n", "ncu says: Unknown option: x"), ("fine", "")],
)  # fmt: skip
def test_troubles_of_ncu_have_a_remedy(text: str, told: str) -> None:
    assert told in ncu_trouble(text)
    assert bool(told) == bool(ncu_trouble(text))


def test_perf_says_what_it_counted_and_what_not() -> None:
    counted, missing = read_perf(PERF)
    assert ("cache-references", "cache-misses") == missing
    assert (612.5e6, 2e9) == (counted["task-clock"], counted["cycles"])
    told = {each.name: figure_text(each) for each in host_figures(counted, 20, 400e6, 2)}
    assert {
        "duration": "20 ms",
        "cores at work": "1.53 of 2",
        "clock": "3.27 GHz",
        "instructions per cycle": "1.5",
        "instructions": "150,000,000",
        "page faults": "0",
        "context switches": "2",
    } == told


def test_perf_that_may_not_count_names_the_setting() -> None:
    assert "kernel.perf_event_paranoid=2" in perf_trouble("Access to performance monitoring operations is limited.")
    assert "perf failed: unknown option" in perf_trouble("Error:\nunknown option\n")


def test_prompts_are_told_of_the_kernels_that_take_longest() -> None:
    def kernel(name: str, us: float) -> KernelProfile:
        return KernelProfile(name=name, figures=(Figure(name="duration", value=us, unit="µs"),))

    one = Profile(tool="ncu", kernels=(kernel("k", 5.0),))
    assert {"duration": "5 µs"} == profile_words(one)
    many = replace(one, kernels=tuple(kernel(f"k{n}", float(n)) for n in range(1, 6)))
    assert ["k5, duration", "k4, duration", "k3, duration"] == list(profile_words(many))


def test_a_command_writes_a_profile_itself_or_hands_it_to_the_engine(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    row = Variant(id="v00001", idea=None, round=1, candidate="digest")
    with Store.create(folder, Settings(problem="relu"), Problem(name="r", title="", source="", path="r.py")) as store:
        store.put_variants([row])
        found = Profile(tool="perf", kernels=(KernelProfile(name="k", figures=(Figure(name="x", value=1.5),)),))
        with hold_lock(folder):  # as an engine does
            keep(folder, row, found)
        assert store.read_profile("digest") is None
        (asked,) = store.read_decisions(pending_only=True)
        assert (DecisionKind.PROFILE, "v00001") == (asked.kind, asked.target)
        assert found == msgspec.convert(asked.payload["profile"], Profile)
        keep(folder, row, found)
        assert found == store.read_profile("digest")
        assert "v00001 was profiled with perf" == store.read_events()[-1].text


# --------------------------------------------------------------------------- on this host


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("profiling"), SQUARE, name="square")
    yield made
    made.close()


def test_a_kernel_is_counted_on_this_host(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = Candidate(source=KERNEL, language=Language.CPP)
    found = bench.run(bench.evaluator.profile(candidate))
    assert ("perf" if shutil.which("perf") else "/proc") == found.tool or "perf" in found.missing[0]
    assert bench.device == found.device
    told = {each.name: each.value for each in found.kernels[0].figures}
    assert told["duration"] > 0
    assert 0 < told["cores at work"] <= (bench.device.cores or 1) * 1.1
    assert any(name.endswith("vectors in the code") for name in told)
    # Where perf is not here, the kernel's own books are read.
    monkeypatch.setattr(profiling.shutil, "which", lambda name, path=None: None)
    plain = bench.run(bench.evaluator.profile(candidate))
    assert ("/proc", True) == (plain.tool, "apt install linux-perf" in plain.missing[0])
    again = {each.name: each.value for each in plain.kernels[0].figures}
    assert 0 < again["cores at work"] <= (bench.device.cores or 1) * 1.1


def test_what_cannot_be_profiled_says_why(bench: Bench) -> None:
    crash = KERNEL.replace("return 0;", "*(volatile int*)8 = 1; return 0;")
    with pytest.raises(UsageError, match=r"a call of it fails: .*SIGSEGV"):
        bench.run(bench.evaluator.profile(Candidate(source=crash, language=Language.CPP)))
    with pytest.raises(UsageError, match="does not build"):
        bench.run(bench.evaluator.profile(Candidate(source="int", language=Language.CPP)))
    with pytest.raises(UsageError, match="a module is not profiled"):
        bench.run(bench.evaluator.profile(Candidate(source="import torch", language=Language.PYTHON)))
    refused = KERNEL.replace("return 0;", "system(0); return 0;").replace("#include", "#include <cstdlib>\n#include", 1)
    with pytest.raises(UsageError, match=r"polic|system"):
        bench.run(bench.evaluator.profile(Candidate(source=refused, language=Language.CPP)))


def test_a_cuda_kernel_needs_a_gpu_and_ncu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Candidate(source="x", language=Language.CUDA)
    with pytest.raises(MachineError, match="cannot run CUDA; `kerneltui sass`"):
        bench.run(bench.evaluator.profile(cuda))
    monkeypatch.setattr(profiling, "find_ncu", lambda: None)
    monkeypatch.setattr(type(bench.evaluator), "device", replace(bench.device, kind="cuda", id="cuda:0"))
    with pytest.raises(ToolchainMissing, match="ncu was not found"):
        bench.run(bench.evaluator.profile(cuda))


async def on_gpu(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, *answers: tuple[str, str]
) -> tuple[Profile, list[list[str]]]:
    """`_on_gpu` with recorded reports in place of a GPU, and the words that ncu was given."""
    given: list[list[str]] = []

    async def answered(_evaluator: Any, _contract: Any, _built: Any, prefix: Any, *, filter: bool) -> Any:
        given.append(list(prefix))
        report, failure = answers[len(given) - 1]
        return bench.device, {"report": report, "output": "", "failure": failure}

    monkeypatch.setattr(profiling, "_run", answered)
    contract = bench.prepared.contract
    assert contract is not None
    return await profiling._on_gpu(bench.evaluator, contract, Build(library=Path("x.so")), "/opt/ncu"), given


def test_ncu_is_asked_again_without_counters_that_it_does_not_know(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = "==ERROR== Failed to find metric regex:^sm__pipe$\n"
    found, given = asyncio.run(on_gpu(monkeypatch, bench, (unknown, ""), (NCU, "")))
    assert ("ncu", 2, ["/opt/ncu", "--clock-control", "none"]) == (found.tool, len(found.kernels), given[1][:3])
    assert (True, False) == ("--metrics" in given[0], "--metrics" in given[1])
    assert "other names" in found.missing[0]


def test_no_permission_is_one_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match="the driver keeps its counters for administrators"):
        asyncio.run(on_gpu(monkeypatch, bench, (DENIED, "")))


@pytest.mark.parametrize(
    ("words", "told"),
    [(["s"], "which variant of s?"), (["k.cpp", "v00001", "-p", "softmax"], "not both"),
     (["nowhere", "v00001"], "no session `nowhere`")],
)  # fmt: skip
def test_bad_usage_is_told(words: list[str], told: str) -> None:
    answer = CliRunner().invoke(group, ["profile", *words])
    assert isinstance(answer.exception, UsageError) and told in str(answer.exception)
