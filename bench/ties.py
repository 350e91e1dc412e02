"""A against A: every problem's own PyTorch as a module candidate, through the whole path, again and again.

    python bench/ties.py [--device cpu|cuda] [--runs N] [--problems softmax,mine.py,...] [--sizes NAME=VALUE,...] [--json]

A ratio other than 1 is the evaluator's own error. Each run is a candidate that no cache has seen, in a fresh process, on
fresh secrets. Wanted on a GPU: at least 95 of 100 within 0.5 % of 1 (within 0.2 % where a call takes more than 20 µs), and
reported as a tie. The last line with --json is one JSON object; the exit status is 1 when fewer are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerneltui import stats
from kerneltui.evaluator.devices import find_device
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.problems import list_problems, load_problem
from kerneltui.records import Candidate, Device, Language, Outcome, Settings, Verdict

SHARE = 0.95
LONG_US, NEAR, NEARER = 20.0, 0.005, 0.002
AT_ONCE = 2  # asked for together: the next one's process starts while one is judged


def main() -> int:
    """Measure and report; 1 when too few are ties."""
    options = read_options()
    device = find_device(options.device)
    wanted = options.problems.split(",") if options.problems else [problem.name for problem in list_problems()]
    sizes = {name: int(value) for name, value in (pair.split("=") for pair in options.sizes.split(",") if pair)}
    scratch = Path(tempfile.mkdtemp(prefix="kerneltui-bench-"))
    rows = []
    try:
        for name in wanted:
            start = time.perf_counter()
            verdicts = asyncio.run(judge_all(name, sizes, device, scratch, options.runs))
            rows.append({"problem": name, "seconds": round(time.perf_counter() - start, 1), **figures(verdicts)})
            print(words_of(rows[-1]), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    runs, near, ties, faster = (sum(row[name] for row in rows) for name in ("runs", "near", "ties", "faster"))
    print(f"{near} of {runs} near enough to 1, {ties} ties, {faster} called faster", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"bench": "ties", "device": device.name, "id": device.id, "problems": rows}))
    return 0 if near >= SHARE * runs else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Every problem's own PyTorch against itself.")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--runs", type=int, default=15, help="of each problem")
    parser.add_argument("--problems", default="", help="names or files, with commas; all that ship when left out")
    parser.add_argument("--sizes", default="", help="NAME=VALUE, with commas, for the problems that have them")
    parser.add_argument("--json", action="store_true", help="a JSON object as the last line")
    return parser.parse_args()


async def judge_all(name: str, sizes: dict[str, int], device: Device, scratch: Path, runs: int) -> list[Verdict]:
    """So many verdicts on the reference as a candidate."""
    problem = load_problem(name)
    reference = problem.source
    sizes = {constant: value for constant, value in sizes.items() if f"\n{constant} = " in reference}
    source = as_candidate(reference, sizes)
    settings = Settings(problem=name, sizes=sizes, deadline_s=60.0)
    evaluator = Evaluator(problem, [device], settings=settings, cache=scratch / "cache", scratch=scratch / "runs")
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> Verdict:
        fresh = Candidate(source=f"{source}\n# {secrets.token_hex(8)}\n", language=Language.PYTHON)
        async with gate:
            return await evaluator.judge(fresh, full=True)

    try:
        await evaluator.prepare()
        return await asyncio.gather(*(one() for _ in range(runs)))
    finally:
        await evaluator.aclose()


def as_candidate(reference: str, sizes: dict[str, int]) -> str:
    """The reference with its class under the name that a candidate has."""
    for name, value in sizes.items():
        reference = re.sub(rf"(?m)^{name} = \d+$", f"{name} = {value}", reference)
    return re.sub(r"\bclass Model\b", "class ModelNew", reference)


def figures(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What one problem's runs came to."""
    wrong = [f"{found.outcome}: {found.message}" for found in verdicts if found.outcome is not Outcome.CORRECT]
    measured = [found.measurement for found in verdicts if found.measurement is not None]
    pairs = [(found.speedup["eager"], found.median_us) for found in measured if "eager" in found.speedup]
    ratios = sorted(speedup.ratio for speedup, _ in pairs)
    us = stats.median([each for _, each in pairs]) if pairs else 0.0
    bound = NEARER if us > LONG_US else NEAR
    return {
        "runs": len(verdicts),
        "us": round(us, 2),
        "bound": bound,
        "near": sum(abs(ratio - 1) <= bound for ratio in ratios),
        "ties": sum(speedup.tie for speedup, _ in pairs),
        "faster": sum(not speedup.tie and speedup.ratio > 1 for speedup, _ in pairs),
        "ratios": [round(ratio, 5) for ratio in ratios],
        "widths": sorted(round(speedup.high - speedup.low, 5) for speedup, _ in pairs),
        "untrusted": len(measured) - len(pairs),
        "disturbances": dict(Counter(word for found in measured if not found.speedup for word in found.disturbances)),
        "wrong": wrong,
    }


def words_of(row: dict[str, Any]) -> str:
    """For a person."""
    ratios = row["ratios"] or [0.0]
    middle = stats.median(ratios)
    lines = (
        f"{row['problem']}: {row['us']:.1f} us a call, {row['near']} of {row['runs']} within {row['bound']:.1%}, "
        f"{row['ties']} ties, {row['faster']} called faster; ratio {middle:.4f} [{ratios[0]:.4f}, {ratios[-1]:.4f}], {row['seconds']:.0f} s"
    )
    why = [f"{count} without a ratio: {word}" for word, count in row["disturbances"].items()]
    return "\n".join([lines, *why, *row["wrong"]])


if __name__ == "__main__":
    sys.exit(main())
