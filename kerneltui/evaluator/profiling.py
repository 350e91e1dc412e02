"""Counters of a candidate, on request: ncu on a GPU, perf on a host, /proc where perf may not count.

What runs is the judge's runner on the judge's buffers, as for a verdict, with a tool in front of it.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneltui.errors import KernelTuiError, MachineError, ToolchainMissing, UsageError
from kerneltui.evaluator.assembly import vector_widths
from kerneltui.evaluator.compile import Build, build
from kerneltui.evaluator.counters import (
    EVENTS,
    UNKNOWN_METRIC,
    figure_text,
    host_figures,
    ncu_trouble,
    read_ncu,
    read_perf,
)
from kerneltui.evaluator.disassembly import disassemble
from kerneltui.records import Candidate, Contract, Device, Figure, KernelProfile, Language, Profile, Verdict

if TYPE_CHECKING:
    from kerneltui.evaluator.supervisor import Evaluator

PROFILE_S = 420.0  # of a judge's silence: ncu runs a kernel forty times, and saves what it wrote in between
DEADLINE_S = 300.0  # of the candidate under the tool
LAUNCHES = 32  # kernels of one call that are counted, at most
SECTIONS = (
    "SpeedOfLight",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "WarpStateStats",
    "Occupancy",
    "LaunchStats",
)
EXTRA_METRICS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
NO_NCU = (
    "ncu was not found: it is part of the CUDA toolkit (package cuda-nsight-compute or nsight-compute); put it on PATH, "
    "or set CUDA_HOME"
)
HARDWARE = "cycles, instructions, cache and branch misses"
NO_PERF = (
    f"{HARDWARE}: perf was not found (Debian: `apt install linux-perf`, Ubuntu: `apt install linux-tools-generic`)"
)
NO_COUNTERS = f"{HARDWARE}: this machine shows none (a virtual machine without a PMU, most often); a bare one would"
WORDS_KERNELS = 3  # described to an author; the rest takes little time


async def profile(evaluator: Evaluator, candidate: Candidate) -> Profile:
    """Count what a candidate does, alone on a device.

    Raises:
        UsageError: it does not build, is a module, or was refused by policy.
        MachineError: no device, no tool, no permission; or the judge failed.
    """
    if candidate.language is Language.PYTHON:
        raise UsageError("a module is not profiled: what it launches is made as it runs, most of it by torch")
    ncu = find_ncu() if evaluator.device.kind == "cuda" else None
    if evaluator.device.kind == "cuda" and ncu is None and not evaluator.why_not_run(candidate):
        raise ToolchainMissing(NO_NCU)
    if evaluator.prepared is None:
        await evaluator.prepare()
    contract, built = await _built(evaluator, candidate)
    if ncu is not None:
        return await _on_gpu(evaluator, contract, built, ncu)
    return await _on_host(evaluator, candidate, contract, built)


async def _built(evaluator: Evaluator, candidate: Candidate) -> tuple[Contract, Build]:
    reason = evaluator.why_not_run(candidate)
    if reason:
        raise MachineError(f"{reason}; `kerneltui sass` shows its machine code without one")
    contract = evaluator.contract_for(candidate.language)
    target = evaluator.target_of(candidate)
    async with evaluator.compiling:
        built = await build(candidate, contract, target, policy=evaluator.settings.policy, cache=evaluator.cache)
    if isinstance(built, Verdict):
        raise UsageError(f"there is nothing to profile, for it does not build: {built.message}")
    if built.refusal is not None:
        raise UsageError(f"it is not profiled, for policy refuses it: {built.refusal.message}")
    assert contract is not None  # only modules have none
    return contract, built


async def _run(
    evaluator: Evaluator, contract: Contract, built: Build, prefix: Sequence[str], *, filter: bool
) -> tuple[Device, dict[str, Any]]:
    request = {
        "library": str(built.library),
        "function": contract.function,
        "deadline_s": DEADLINE_S,
        "filter": filter,
        "resources": [asdict(kernel) for kernel in built.resources],
    }
    async with evaluator.bay(lambda words: None) as bay:
        if not (bay.ready and bay.judge.running):
            await evaluator.make_ready(bay)
        bay.used = True
        return bay.device, await bay.judge.ask("profile", PROFILE_S, request=request, prefix=list(prefix))


# --------------------------------------------------------------------------- a GPU


def find_ncu() -> str | None:
    """On PATH, in the toolkit, or where Nsight Compute installs itself."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [os.path.join(home, "bin") for home in homes if home]
    folders += sorted(glob.glob("/opt/nvidia/nsight-compute/*"), reverse=True)
    return shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(folders))


def ncu_words(ncu: str, metrics: Sequence[str]) -> list[str]:
    """ncu before the runner: clocks as they are, the report as CSV in base units."""
    words = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    words += ["--target-processes", "all", "--launch-count", str(LAUNCHES), "--log-file", "{folder}/report.csv"]
    words += [word for section in SECTIONS for word in ("--section", section)]
    return words + (["--metrics", ",".join(metrics)] if metrics else [])


async def _on_gpu(evaluator: Evaluator, contract: Contract, built: Build, ncu: str) -> Profile:
    device, answer = await _run(evaluator, contract, built, ncu_words(ncu, EXTRA_METRICS), filter=False)
    missing: tuple[str, ...] = ()
    if UNKNOWN_METRIC.search(answer["report"] + answer["output"]):
        missing = ("bank conflicts and bytes of DRAM: this ncu has other names for them",)
        device, answer = await _run(evaluator, contract, built, ncu_words(ncu, ()), filter=False)
    kernels = read_ncu(answer["report"])
    if not kernels:
        said = answer["report"] + "\n" + answer["output"]
        raise MachineError(_trouble(said, answer["failure"]))
    return Profile(tool="ncu", kernels=kernels, missing=missing, device=device, created=time.time())


def _trouble(said: str, failure: str) -> str:
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return (
        ncu_trouble(said) or failure or (f"ncu wrote no counters; it said last: {last[:200]}" if last else "no report")
    )


# --------------------------------------------------------------------------- a host


def perf_words(perf: str) -> list[str]:
    """perf before the runner: nothing is counted until the judge opens the gate."""
    words = [perf, "stat", "-x", ",", "-o", "{folder}/report.csv", "-e", ",".join(EVENTS)]
    return [*words, "-D", "-1", "--control", "fifo:{folder}/control,{folder}/answer", "--"]


async def _on_host(evaluator: Evaluator, candidate: Candidate, contract: Contract, built: Build) -> Profile:
    perf = shutil.which("perf")
    missing: tuple[str, ...] = (NO_PERF,)
    counted: dict[str, float] = {}
    if perf is not None:
        device, answer = await _run(evaluator, contract, built, perf_words(perf), filter=True)
        counted, absent = read_perf(answer["report"])
        missing = (NO_COUNTERS,) if "cycles" in absent else tuple(_rest(absent))
        if not counted:
            missing = (perf_trouble(answer["output"] + answer["report"]),)
    if not counted:
        device, answer = await _run(evaluator, contract, built, (), filter=True)
        counted, perf = answer.get("usage") or {}, None
    if answer["failure"]:
        raise UsageError(f"a call of it fails: {answer['failure']}")
    figures = host_figures(counted, int(answer["calls"]), float(answer["elapsed_ns"]), device.cores)
    whole = KernelProfile(name=contract.function, launches=1, figures=(*figures, *await _widths(evaluator, candidate)))
    tool = "perf" if perf is not None else "/proc"
    return Profile(tool=tool, kernels=(whole,), missing=missing, device=device, created=time.time())


def _rest(absent: Sequence[str]) -> list[str]:
    return [f"{', '.join(absent)}: this processor does not count them"] if absent else []


def perf_trouble(said: str) -> str:
    """Why perf counted nothing."""
    level = Path("/proc/sys/kernel/perf_event_paranoid")
    value = level.read_text().strip() if level.exists() else "?"
    if "paranoid" in said or "ermission" in said or "ccess to performance" in said:
        return f"{HARDWARE}: perf may not count here; `sysctl kernel.perf_event_paranoid=2` (now {value}) lets it"
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "no output")
    return f"{HARDWARE}: perf failed: {last[:200]}"


async def _widths(evaluator: Evaluator, candidate: Candidate) -> list[Figure]:
    """How wide the vectors in the machine code are; nothing where it cannot be read."""
    contract, target = evaluator.contract_for(candidate.language), evaluator.target_of(candidate)
    policy, cache = evaluator.settings.policy, evaluator.cache
    try:
        found = await disassemble(candidate, contract, target, policy=policy, cache=cache)
    except KernelTuiError:
        return []
    widths = vector_widths(found.functions)
    total = sum(widths.values())
    names = {0: "scalar arithmetic in the code"} | {bits: f"{bits}-bit vectors in the code" for bits in (128, 256, 512)}
    return [
        Figure(name=names[bits], value=100 * widths[bits] / total, unit="%") for bits in sorted(widths, reverse=True)
    ]


# --------------------------------------------------------------------------- words


def profile_words(found: Profile) -> dict[str, str]:
    """Figures by name for a prompt: of the kernels that take longest, with their names where there are several."""
    ranked = sorted(found.kernels, key=lambda kernel: -_duration(kernel) * kernel.launches)[:WORDS_KERNELS]
    words: dict[str, str] = {}
    for kernel in ranked:
        lead = f"{kernel.name}, " if len(found.kernels) > 1 else ""
        words |= {f"{lead}{figure.name}": figure_text(figure) for figure in kernel.figures}
    return words


def _duration(kernel: KernelProfile) -> float:
    return next((figure.value for figure in kernel.figures if figure.name == "duration"), 0.0)
