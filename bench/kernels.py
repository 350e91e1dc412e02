"""Every kernel that ships, checked and timed against PyTorch eager on one GPU.

    python3 bench/kernels.py [--json FILE] [--sweep] [--starters] [PROBLEM ...]

Needs torch, nvcc and this checkout. Each problem runs in a process of its own; a variant that crashes or hangs is
left out of a second try and reported. Times are medians of interleaved graph replays over input sets that do not fit
in L2. `wrong64` counts elements of the first samples further from the same module in float64, `off` elements of the whole
output further from eager (TF32 off) and, in samples that are looked up, from float64, than the tolerance and four times eager's
own error allow, as in the judge.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_bed import ROOT, Bed, Kernel, capture, describe, errors, median, operations, say, time_graphs

from kerneltui.records import Contract

PROBLEMS = ("softmax", "layernorm", "conv2d", "conv2d_relu_maxpool", "matmul_fp32", "matmul_fp16", "attention_fp16")
START_S = 60.0  # importing torch and running eager may take so long
SILENCE_S = 20.0  # a child that says nothing for so long hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel under one set of defines."""

    problem: str
    file: Path
    defines: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        values = " ".join(f"{name}={value}" for name, value in self.defines)
        return f"{self.file.stem} {values}".strip()


# --------------------------------------------------------------------------- what there is


def find_cases(problem: str, *, sweep: bool, starters: bool) -> list[Case]:
    """Starter, the playbook's variants, kernels that no playbook names; with `sweep` every point of their tunables."""
    folder = ROOT / "kernels" / problem
    cases = [Case(problem=problem, file=folder / "starter.cu")] if starters else []
    files = sorted(folder.glob("cuda/*.cu"))
    for file in files:
        points = tune_points(file.read_text()) if sweep else playbook_points(folder, file) or [{}]
        cases += [Case(problem=problem, file=file, defines=tuple(sorted(point.items()))) for point in points]
    return list(dict.fromkeys(cases))


def playbook_points(folder: Path, file: Path) -> list[dict[str, int]]:
    path = folder / "playbook.toml"
    if not path.exists():
        return []
    ideas = tomllib.loads(path.read_text()).get("idea", [])
    variants = [variant for idea in ideas for variant in idea.get("variant", []) if variant["language"] == "cuda"]
    return [variant.get("defines", {}) for variant in variants if folder / variant["file"] == file]


def tune_points(source: str) -> list[dict[str, int]]:
    """All points of `// tune:` lines that satisfy the `// tune-if:` lines."""
    axes = {
        match[1]: [int(value) for value in match[2].split(",")]
        for match in re.finditer(r"^// tune: (\w+) = ([-\d, ]+)$", source, re.MULTILINE)
    }
    rules = re.findall(r"^// tune-if: (.+)$", source, re.MULTILINE)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [point for point in points if all(eval(rule, {"__builtins__": {}}, point) for rule in rules)]


# --------------------------------------------------------------------------- building


def build(case: Case, contract: Contract, folder: Path) -> Path | str:
    """A shared library, or what the compiler said."""
    name = re.sub(r"\W+", "_", f"{case.problem}_{case.label}")
    include = folder / f"{case.problem}_include"
    include.mkdir(exist_ok=True)
    (include / "contract.h").write_text(contract.header)
    library = folder / f"{name}.so"
    command = ["nvcc", "-std=c++17", "-O3", "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    command += ["-gencode=arch=compute_90a,code=sm_90a", "-lineinfo", f"-I{include}"]
    command += [f"-D{name}={value}" for name, value in case.defines] + ["-o", str(library), str(case.file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if result.returncode == 0 else (result.stderr + result.stdout)[-2000:]


# --------------------------------------------------------------------------- one problem, in its own process


def run_child(problem: str, built: list[tuple[str, str]], extra_sets: bool) -> None:
    """Checks and times what was built: (label, library) pairs. One JSON line per step."""
    import torch

    say(doing="eager")
    bed = Bed(problem)
    graphs: dict[str, Any] = {}
    outs: list[Any] = []
    kernels = []
    eager = capture(lambda i: bed.eager(bed.sets[i]), len(bed.sets))
    graphs["eager"] = eager
    if problem.startswith("conv2d"):
        torch.backends.cudnn.allow_tf32 = True  # what torch does unless told otherwise
        graphs["eager tf32"] = capture(lambda i: bed.eager(bed.sets[i]), len(bed.sets))
        torch.backends.cudnn.allow_tf32 = False
    if problem.startswith("attention"):
        graphs |= attention_rivals(bed)
    outs = [torch.empty_like(bed.expected) for _ in bed.sets]
    hard = ["mean 1000", "times 1e4", "times 1e-6"] if bed.dtype == "float32" and extra_sets else []
    for label, library in built:
        say(doing=label)
        try:
            kernel = Kernel(Path(library), bed.contract)
            found = {"plain": errors(bed, kernel, bed.sets[0])}
            found |= {how: errors(bed, kernel, bed.altered(how)) for how in hard}
            work = lambda i, kernel=kernel: kernel([*bed.sets[i], *bed.parameters], outs[i])  # noqa: E731
            graphs[label] = capture(work, len(bed.sets))
        except RuntimeError as exc:
            say(label=label, failed=str(exc)[:300])
            if "CUDA" in str(exc) or "cuda" in str(exc):
                raise
            continue
        kernels.append(kernel)
        say(label=label, errors=found)
    say(doing="timing")
    samples = time_graphs(graphs, len(bed.sets), budget_s=2.0 + 0.3 * len(graphs))
    for label, values in samples.items():
        say(label=label, us=median(values), low=min(values), high=max(values), rounds=len(values))
    say(bytes=bed.bytes, operations=operations(bed), sets=len(bed.sets), device=torch.cuda.get_device_name())


def attention_rivals(bed: Bed) -> dict[str, Any]:
    """The implementations that eager chooses from, those that take these inputs."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found: dict[str, Any] = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        with sdpa_kernel(backend):
            try:
                found[f"eager {name}"] = capture(lambda i: bed.eager(bed.sets[i]), len(bed.sets))
            except RuntimeError as exc:
                say(label=f"eager {name}", failed=str(exc)[:200])
    return found


def watch_child(problem: str, built: list[tuple[str, str]], extra_sets: bool) -> dict[str, Any]:
    """Runs children until one gets through; what crashed or hung is left out of the next."""
    lost: dict[str, str] = {}
    while True:
        left = [pair for pair in built if pair[0] not in lost]
        command = [sys.executable, __file__, "--child", problem, json.dumps([left, extra_sets])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines, doing, log = read_child(child)
        code = child.wait()
        if code == 0 or doing in lost or doing in ("eager", "timing", "") or len(lost) >= 3:
            if code != 0:
                lost[doing] = f"child ended with {code}: {log[-600:]}"
            return {"lines": lines, "lost": lost}
        lost[doing] = f"child ended with {code}: {log[-600:]}"


def read_child(child: subprocess.Popen[str]) -> tuple[list[dict[str, Any]], str, str]:
    said: queue.Queue[str | None] = queue.Queue()
    log: list[str] = []

    def read_output() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            said.put(line)
        said.put(None)

    def read_log() -> None:
        assert child.stderr is not None
        log.extend(child.stderr)

    readers = [threading.Thread(target=read_output, daemon=True), threading.Thread(target=read_log, daemon=True)]
    for reader in readers:
        reader.start()
    lines: list[dict[str, Any]] = []
    doing = ""
    while True:
        try:
            line = said.get(timeout=START_S if doing in ("", "eager") else SILENCE_S)
        except queue.Empty:
            child.kill()
            log.append("silent for too long, killed")
            break
        if line is None:
            break
        if line.startswith("{"):
            lines.append(json.loads(line))
            doing = lines[-1].get("doing", doing)
    readers[1].join(timeout=2)
    return lines, doing, "".join(log)


# --------------------------------------------------------------------------- the table


def report(problem: str, outcome: dict[str, Any], failures: dict[str, str]) -> list[dict[str, Any]]:
    """Prints the problem's table; the same as records."""
    facts: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}
    for line in outcome["lines"]:
        if "label" in line:
            rows.setdefault(line["label"], {"problem": problem}).update(line)
        elif "bytes" in line:
            facts = line
    eager_us = rows.get("eager", {}).get("us")
    print(
        f"\n== {problem}: {facts.get('bytes', 0) / 1e6:.0f} MB, {facts.get('operations', 0) / 1e9:.0f} GFLOP, "
        f"{facts.get('sets')} sets, {facts.get('device')}"
    )
    print(
        f"{'variant':44} {'us':>9} {'ratio':>6} {'GB/s':>5} {'TF/s':>6}  {'wrong64':12} {'off':12} {'err64/eager':20} max_abs"
    )
    for label, row in sorted(rows.items(), key=lambda item: item[1].get("us", 1e12)):
        if row.get("failed"):
            print(f"{label:44} FAILED {row['failed'][:120]}")
            continue
        us = row.get("us")
        found = row.get("errors", {})
        plain = found.get("plain", {})
        wrong = " ".join(str(each["wrong64"]) for each in found.values())
        off = " ".join(str(each["off"]) for each in found.values())
        worse = " ".join(f"{each['exact_norm'] / max(each['eager_norm'], 1e-30):.2f}" for each in found.values())
        if us is None or eager_us is None:
            print(f"{label:44} not timed; wrong64 {wrong}; off {off}; {worse}")
            continue
        rate = facts["bytes"] / us / 1e3
        flops = facts["operations"] / us / 1e6
        print(
            f"{label:44} {us:9.1f} {eager_us / us:6.2f} {rate:5.0f} {flops:6.1f}  {wrong:12} {off:12} {worse:20} "
            f"{plain.get('max_abs', 0):.1e}"
        )
    for label, text in {**failures, **outcome["lost"]}.items():
        print(f"{label:44} LOST {text.strip()[-400:]}")
        rows.setdefault(label, {"problem": problem, "label": label})["lost"] = text
    return [{**row, **{k: facts.get(k) for k in ("bytes", "operations", "device")}} for row in rows.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--sweep", action="store_true", help="every point of the tunables")
    parser.add_argument("--starters", action="store_true", help="the starters too")
    parser.add_argument("--only", default="", help="kernels whose file name contains this")
    parser.add_argument("--plain", action="store_true", help="no altered inputs")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        built, extra_sets = json.loads(options.child[1])
        run_child(options.child[0], [tuple(pair) for pair in built], extra_sets)
        return 0
    started = time.monotonic()
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        cases = [
            case
            for problem in options.problems
            for case in find_cases(problem, sweep=options.sweep, starters=options.starters)
            if options.only in case.file.stem
        ]
        contracts = {problem: describe(problem) for problem in options.problems}
        with ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda case: build(case, contracts[case.problem], Path(scratch)), cases))
        print(f"{len(cases)} kernels built in {time.monotonic() - started:.0f} s")
        for problem in options.problems:
            mine = [(case, result) for case, result in zip(cases, results, strict=True) if case.problem == problem]
            failures = {case.label: result for case, result in mine if isinstance(result, str)}
            built = [(case.label, str(result)) for case, result in mine if isinstance(result, Path)]
            records += report(problem, watch_child(problem, built, not options.plain), failures)
            print(f"({time.monotonic() - started:.0f} s)", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(records, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
