"""From source to verdict: kerneltui beside the usual way, the same kernels, alternating in one run.

    python bench/verdict.py [--device cpu|cuda] [--quick] [--repeat N] [--json]

kerneltui      a fresh candidate each time (its source ends in a comment that no cache has seen), a warm judge; time in
               which another session holds the device is left out
the usual way  a fresh process: import torch, load_inline into a fresh folder, 5 correctness and 100 timing trials

The last line with --json is one JSON object. Needs this checkout, torch, a compiler; ninja where load_inline is meant.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from stages import ROOT, Stopwatch, hear_waits, listen, watch

from kerneltui.evaluator.devices import find_device
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.problems import load_problem, size_sets, sized_source
from kerneltui.records import Candidate, Contract, Device, Language, Outcome, Problem, Settings, Verdict

CORRECTNESS_TRIALS = 5
TIMING_TRIALS = 100
OURS_EACH = 3  # verdicts of ours before each of the usual way's
USUAL_LIMIT_S = 900.0
RELU_SHAPE = {"cpu": (1024, 2048), "cuda": (4096, 4096)}
RELU = """import torch
import torch.nn as nn

ROWS, WIDTH = {rows}, {width}


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
"""
RELU_KERNEL = {
    "cpu": """#include "contract.h"
extern "C" int relu(const float* x, float* out, void*) {
#pragma omp parallel for
    for (int64_t i = 0; i < x_numel; ++i) out[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}
""",
    "cuda": """#include "contract.h"
namespace {
__global__ void positive(const float4* x, float4* out) {
    const int64_t i = blockIdx.x * 256L + threadIdx.x;
    if (i >= x_numel / 4) return;
    const float4 v = x[i];
    out[i] = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
}
}  // namespace
extern "C" int relu(const float* x, float* out, void*, cudaStream_t stream) {
    positive<<<(x_numel / 4 + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out));
    return cudaGetLastError();
}
""",
}
SHIPPED = {  # (problem, kernel)
    "cpu": (("softmax", "cpp/many_rows.cpp"), ("layernorm", "cpp/shifted_sums.cpp")),
    "cuda": (("softmax", "cuda/online.cu"), ("layernorm", "cuda/resident.cu")),
}
C_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel and its problem."""

    label: str
    problem: Problem
    source: str
    language: Language

    def fresh(self) -> Candidate:
        """The same kernel as nobody has seen it before."""
        return Candidate(source=f"{self.source}\n// {secrets.token_hex(8)}\n", language=self.language)


@dataclass(slots=True)
class Times:
    """Seconds, one entry a verdict."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)

    def add(self, wall_s: float, cpu_s: float, stages: dict[str, float]) -> None:
        self.wall_s.append(wall_s)
        self.cpu_s.append(cpu_s)
        self.stages.append(stages)

    def summary(self) -> dict[str, Any]:
        """Medians, spread, and medians of the parts."""
        names = dict.fromkeys(name for stage in self.stages for name in stage)
        parts = {name: statistics.median(stage.get(name, 0.0) for stage in self.stages) for name in names}
        return {
            "median_s": round(statistics.median(self.wall_s), 3),
            "least_s": round(min(self.wall_s), 3),
            "most_s": round(max(self.wall_s), 3),
            "cpu_median_s": round(statistics.median(self.cpu_s), 3),
            "verdicts": len(self.wall_s),
            "stages_s": {name: round(value, 3) for name, value in parts.items()},
        }


def main() -> int:
    """Measure and report."""
    options = read_options()
    device = find_device(options.device)
    scratch = Path(tempfile.mkdtemp(prefix="kerneltui-bench-"))
    try:
        chosen = cases(device, scratch, options)
        report = {"bench": "verdict", "quick": options.quick, "machine": machine_words(device)}
        load = os.getloadavg()[0]
        report["cases"] = [asyncio.run(compare(case, device, scratch, options)) for case in chosen]
        report["load_before_and_after"] = [round(load, 2), round(os.getloadavg()[0], 2)]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(table(report))
    if options.json:
        print(json.dumps(report))
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="From source to verdict, beside the usual way.")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="one kernel, one verdict of the usual way")
    parser.add_argument("--repeat", type=int, default=2, help="verdicts of the usual way for each kernel")
    parser.add_argument("--kernels", default="relu,softmax", help="of relu, softmax, layernorm")
    parser.add_argument("--json", action="store_true", help="a JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.repeat, options.kernels = 1, "relu"
    return options


def cases(device: Device, scratch: Path, options: argparse.Namespace) -> list[Case]:
    """Relu, written here, and kernels that ship."""
    language = Language.CUDA if device.kind == "cuda" else Language.CPP
    rows, width = RELU_SHAPE[device.kind]
    path = scratch / "relu.py"
    path.write_text(RELU.format(rows=rows, width=width))
    found = [Case(label="relu", problem=load_problem(path), source=RELU_KERNEL[device.kind], language=language)]
    for name, file in SHIPPED[device.kind]:
        source = (ROOT / "kernels" / name / file).read_text()
        found.append(Case(label=name, problem=load_problem(name), source=source, language=language))
    wanted = options.kernels.split(",")
    return [case for case in found if case.label in wanted]


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


# --------------------------------------------------------------------------- both ways


async def compare(case: Case, device: Device, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both ways to the same verdict, alternating."""
    heard: dict[str, float] = {}
    clock = watch_once()
    listen_once(heard)
    settings = Settings(problem=case.label)
    evaluator = Evaluator(case.problem, [device], settings=settings, cache=scratch / "cache", scratch=scratch / "runs")
    ours, usual = Times(), Times()
    try:
        start = time.perf_counter()
        prepared = await evaluator.prepare()
        prepare_s, prepare_stages = time.perf_counter() - start, dict(heard)
        assert prepared.contract is not None
        first_s = (await our_verdict(evaluator, case, clock, heard))[0]
        for _ in range(options.repeat):
            for _ in range(OURS_EACH):
                ours.add(*await our_verdict(evaluator, case, clock, heard))
            usual.add(*usual_verdict(case, prepared.contract, device, scratch))
    finally:
        await evaluator.aclose()
    mine, theirs = ours.summary(), usual.summary()
    return {
        "kernel": case.label,
        "kerneltui": mine,
        "usual": theirs,
        "ratio": round(theirs["median_s"] / mine["median_s"], 1),
        "cpu_ratio": round(theirs["cpu_median_s"] / max(mine["cpu_median_s"], 1e-3), 1),
        "prepare_s": round(prepare_s, 3),
        "prepare_stages_s": {name: round(value, 3) for name, value in prepare_stages.items()},
        "first_verdict_s": round(first_s, 3),
        "usual_built_by": BUILT_BY.get(case.label, ""),
    }


BUILT_BY: dict[str, str] = {}
PATCHED: dict[str, Any] = {}


def watch_once() -> Stopwatch:
    """One stopwatch around the compiler, however many problems there are."""
    if "clock" not in PATCHED:
        PATCHED["clock"] = Stopwatch()
        watch(PATCHED["clock"])
        hear_waits(lambda start, end: PATCHED.update(waited_s=PATCHED.get("waited_s", 0.0) + end - start))
    return PATCHED["clock"]


def listen_once(heard: dict[str, float]) -> None:
    def hear(stages: dict[str, float]) -> None:
        target = PATCHED["heard"]
        target.clear()
        target.update(stages)

    first = "heard" not in PATCHED
    PATCHED["heard"] = heard
    if first:
        listen(hear)


async def our_verdict(
    evaluator: Evaluator, case: Case, clock: Stopwatch, heard: dict[str, float]
) -> tuple[float, float, dict[str, float]]:
    """Wall and CPU seconds, and their parts."""
    clock.take()
    heard.clear()
    PATCHED["waited_s"] = 0.0
    judge = evaluator.bays[0].judge
    before, start = cpu_seconds(judge.process), time.perf_counter()
    verdict = await evaluator.judge(case.fresh())
    # While another session has the device there is nothing to measure.
    wall_s = time.perf_counter() - start - PATCHED["waited_s"]
    cpu_s = cpu_seconds(judge.process) - before
    must_be_correct(case, verdict)
    stages = clock.take() | heard
    judge_s = stages.pop("all of it", 0.0)
    known = sum(stages.values())
    stages["rest"] = wall_s - known
    taken = f"; device taken by others for {PATCHED['waited_s']:.1f} s more" if PATCHED["waited_s"] > 0.1 else ""
    say(f"  {case.label}: kerneltui {wall_s:.2f} s (judge {judge_s:.2f} s, CPU {cpu_s:.2f} s){taken}")
    return wall_s, cpu_s, stages


def must_be_correct(case: Case, verdict: Verdict) -> None:
    if verdict.outcome is not Outcome.CORRECT:
        raise SystemExit(
            f"{case.label}: {verdict.outcome} where correct was expected: {verdict.message}\n{verdict.log}"
        )


def cpu_seconds(judge: Any) -> float:
    """Of this process, its finished children, the judge and all below it."""
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    if judge is None:
        return own
    keeper = psutil.Process(judge.pid)
    for process in (keeper, *keeper.children(recursive=True)):
        try:
            own += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue  # its parent has counted it
    return own


def usual_verdict(
    case: Case, contract: Contract, device: Device, scratch: Path
) -> tuple[float, float, dict[str, float]]:
    """Wall seconds from start to the line with its verdict; CPU seconds of all of it."""
    folder = Path(tempfile.mkdtemp(prefix="usual-", dir=scratch))
    task = {
        "name": f"usual_{secrets.token_hex(4)}",
        "folder": str(folder),
        "device": device.kind,
        "reference": sized_source(case.problem, device.kind, size_sets(case.problem, device.kind, {})[-1]),
        "kernel": case.source,
        "header": contract.header,
        "defines": [],
        "declaration": f"{FORWARD};",
        "binding": binding(contract, device),
        "correctness_trials": CORRECTNESS_TRIALS,
        "timing_trials": TIMING_TRIALS,
    }
    words = [sys.executable, str(Path(__file__).with_name("usual.py"))]
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}
    used, start = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), time.perf_counter()
    ended = subprocess.run(
        words, input=json.dumps(task), capture_output=True, text=True, timeout=USUAL_LIMIT_S, env=environment
    )
    wall_s = time.perf_counter() - start
    cpu_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - used
    lines = ended.stdout.strip().split("\n")
    if ended.returncode != 0 or not lines[-1].startswith("{"):
        raise SystemExit(f"{case.label}: the usual way failed:\n{ended.stdout[-2000:]}\n{ended.stderr[-6000:]}")
    answer = json.loads(lines[-1])
    if not answer["right"]:
        raise SystemExit(f"{case.label}: the usual way finds the kernel wrong")
    BUILT_BY[case.label] = answer["built_by"]
    stages: dict[str, float] = answer["stages"]
    shutil.rmtree(folder)
    say(f"  {case.label}: usual way {wall_s:.2f} s (CPU {cpu_s:.2f} s)")
    return wall_s, cpu_s, {**stages, "rest": wall_s - sum(stages.values())}


FORWARD = "std::vector<torch::Tensor> forward(std::vector<torch::Tensor> in)"


def binding(contract: Contract, device: Device) -> str:
    """The contract's function over torch tensors, as the usual way has it."""
    lines, pointers, results = [], [], []
    given = [tensor for tensor in contract.tensors if tensor.role != "output"]
    for index, tensor in enumerate(given):
        pointers.append(f"static_cast<const {C_TYPES[tensor.dtype]}*>(in[{index}].data_ptr())")
    for tensor in contract.tensors:
        if tensor.role == "output":
            shape = ", ".join(map(str, tensor.shape))
            lines.append(f"    auto {tensor.name}_ = torch::empty({{{shape}}}, in[0].options());")
            pointers.append(f"static_cast<{C_TYPES[tensor.dtype]}*>({tensor.name}_.data_ptr())")
            results.append(f"{tensor.name}_")
    tail = ["nullptr", "nullptr"] if device.kind == "cuda" else ["nullptr"]
    call = f"{contract.function}({', '.join([*pointers, *tail])})"
    lines += [f'    TORCH_CHECK({call} == 0, "it failed");', f"    return {{{', '.join(results)}}};"]
    return f"\n{FORWARD} {{\n" + "\n".join(lines) + "\n}\n"


# --------------------------------------------------------------------------- the report


def machine_words(device: Device) -> dict[str, Any]:
    import importlib.metadata

    return {
        "device": device.name,
        "id": device.id,
        "toolkit": re.sub(r"\s+", " ", device.toolkit),
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "torch": importlib.metadata.version("torch"),
    }


def table(report: dict[str, Any]) -> str:
    """For a person."""
    machine = report["machine"]
    lines = [f"{machine['device']}, {machine['cores']} cores, torch {machine['torch']}, {machine['toolkit']}"]
    for case in report["cases"]:
        mine, theirs = case["kerneltui"], case["usual"]
        lines.append(
            f"\n{case['kernel']}: kerneltui {mine['median_s']:.2f} s [{mine['least_s']:.2f}, {mine['most_s']:.2f}], "
            f"usual way {theirs['median_s']:.1f} s [{theirs['least_s']:.1f}, {theirs['most_s']:.1f}]: "
            f"{case['ratio']:.1f} times faster (by CPU seconds {case['cpu_ratio']:.1f}); "
            f"judge start {case['prepare_s']:.1f} s, first verdict {case['first_verdict_s']:.2f} s"
        )
        lines += [rows("kerneltui", mine["stages_s"]), rows("usual way", theirs["stages_s"])]
    return "\n".join(lines)


def rows(title: str, stages: dict[str, float]) -> str:
    ordered: Sequence[tuple[str, float]] = sorted(stages.items(), key=lambda found: -found[1])
    return f"  {title}: " + ", ".join(f"{name} {value:.3f}" for name, value in ordered)


if __name__ == "__main__":
    sys.exit(main())
