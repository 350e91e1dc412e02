"""Verdicts an hour: 100 candidates of mixed quality through one evaluator at once, as a search sends them.

    python bench/throughput.py [--device cpu|cuda] [--quick] [--problem NAME] [--deadline S] [--json]

60 correct, 25 that do not compile, 10 wrong, 5 that never end. Each is screened against the fourth best so far; one
that is not given up and is among the four best is judged once more in full. The last line with --json is one JSON object.

    idle       share of the time from the first job on the device to the last in which no candidate was on it; waiting for
               somebody else's job on the same device (its lock) is told apart
    hang       how much longer than its own deadline an endless candidate kept the device
    wrong      verdicts that are not what they must be
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixture import Entry, make
from stages import hear_waits

from kerneltui.errors import MachineError
from kerneltui.evaluator.devices import find_device
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.problems import load_problem
from kerneltui.records import Device, Language, Outcome, Settings, VariantState, Verdict

SIZES = {"cpu": {"ROWS": 64, "WIDTH": 4096}, "cuda": {"ROWS": 4096, "WIDTH": 8192}}
DEADLINE_S = {"cpu": 2.0, "cuda": 4.0}
BEAM = 4
SHARES = {"right": 60, "broken": 25, "wrong": 10, "endless": 5}
QUICK = {"right": 6, "broken": 3, "wrong": 2, "endless": 1}


@dataclass(slots=True)
class Job:
    """One visit to the device."""

    entry: str
    outcome: Outcome
    start: float
    end: float = 0.0

    @property
    def spent_s(self) -> float:
        return self.end - self.start


@dataclass(slots=True)
class Tally:
    """All that is counted."""

    jobs: list[Job] = field(default_factory=list)
    verdicts: list[tuple[Entry, Verdict]] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)  # of each first verdict, from the start
    best_us: list[float] = field(default_factory=list)
    screened: int = 0
    machine_faults: list[str] = field(default_factory=list)
    lock_waits: list[tuple[float, float]] = field(default_factory=list)  # start and end, while others had the device

    @property
    def beam_us(self) -> float | None:
        """What a candidate must come near to stay in."""
        return sorted(self.best_us)[BEAM - 1] if len(self.best_us) >= BEAM else None


def main() -> int:
    """Measure and report; 1 when an outcome is wrong."""
    options = read_options()
    device = find_device(options.device)
    scratch = Path(tempfile.mkdtemp(prefix="kerneltui-bench-"))
    load = os.getloadavg()[0]
    try:
        report = asyncio.run(measure(device, scratch, options))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report["load_before_and_after"] = [round(load, 2), round(os.getloadavg()[0], 2)]
    print(words_of(report), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(report))
    return 1 if report["wrong_outcomes"] or report["machine_faults"] else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Verdicts an hour on candidates of mixed quality.")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--problem", default="softmax", help="one that ships with kernels, one input, one output")
    parser.add_argument("--deadline", type=float, default=None, help="seconds on the device for each candidate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=f"{sum(QUICK.values())} candidates instead of 100")
    parser.add_argument("--json", action="store_true", help="a JSON object as the last line")
    return parser.parse_args()


async def measure(device: Device, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Send everything at once and wait for the last verdict."""
    language = Language.CUDA if device.kind == "cuda" else Language.CPP
    deadline_s = options.deadline or DEADLINE_S[device.kind]
    entries = make(options.problem, language, **(QUICK if options.quick else SHARES), seed=options.seed)
    settings = Settings(problem=options.problem, sizes=SIZES[device.kind], deadline_s=deadline_s)
    problem = load_problem(options.problem)
    evaluator = Evaluator(problem, [device], settings=settings, cache=scratch / "cache", scratch=scratch / "runs")
    tally = Tally()
    hear_waits(lambda start, end: tally.lock_waits.append((start, end)))
    try:
        start = time.perf_counter()
        await evaluator.prepare()
        prepared_s = time.perf_counter() - start
        start = time.perf_counter()
        await asyncio.gather(*(send(evaluator, entry, tally, start) for entry in entries))
        spent_s = time.perf_counter() - start
    finally:
        await evaluator.aclose()
    return {
        "bench": "throughput",
        "quick": options.quick,
        "machine": {"device": device.name, "id": device.id, "toolkit": device.toolkit, "cores": cores()},
        "problem": {"name": options.problem, "sizes": SIZES[device.kind], "deadline_s": deadline_s},
        "prepare_s": round(prepared_s, 2),
        "wall_s": round(spent_s, 2),
        **figures(tally, entries, spent_s, deadline_s),
    }


def cores() -> int:
    return len(os.sched_getaffinity(0))


async def send(evaluator: Evaluator, entry: Entry, tally: Tally, start: float) -> None:
    """Screened first; in full when it is among the best."""
    verdict = await ask(evaluator, entry, tally, full=tally.beam_us is None)
    if verdict is None:
        return
    tally.verdicts.append((entry, verdict))
    tally.ends_s.append(time.perf_counter() - start)
    if len(tally.ends_s) % 10 == 0:
        print(f"  {len(tally.ends_s)} verdicts after {tally.ends_s[-1]:.0f} s", file=sys.stderr, flush=True)
    if verdict.outcome is not Outcome.CORRECT or verdict.measurement is None:
        return
    if verdict.measurement.screened:
        tally.screened += 1
        return
    before = tally.beam_us
    tally.best_us.append(verdict.measurement.median_us)
    if before is not None and verdict.measurement.median_us < before:
        again = await ask(evaluator, entry, tally, full=True)
        if again is not None and again.outcome is not entry.outcome:
            tally.verdicts.append((entry, again))


async def ask(evaluator: Evaluator, entry: Entry, tally: Tally, *, full: bool) -> Verdict | None:
    """A verdict, and when its candidate was on the device; None where this machine failed."""
    visits: list[Job] = []

    def on_state(state: VariantState, worker: str) -> None:
        if state is VariantState.RUNNING:
            visits.append(Job(entry=entry.name, outcome=entry.outcome, start=time.perf_counter()))

    try:
        return await evaluator.judge(entry.candidate, full=full, beam_us=tally.beam_us, on_state=on_state)
    except MachineError as error:
        tally.machine_faults.append(f"{entry.name}: {error}")
        return None
    finally:
        for job in visits[-1:]:
            job.end = time.perf_counter()
            tally.jobs.append(job)


# --------------------------------------------------------------------------- figures


def figures(tally: Tally, entries: list[Entry], spent_s: float, deadline_s: float) -> dict[str, Any]:
    """Everything that is reported."""
    wrong = [
        f"{entry.name}: {verdict.outcome} ({verdict.message}) where {entry.outcome} was expected"
        for entry, verdict in tally.verdicts
        if verdict.outcome is not entry.outcome
    ]
    hangs = [job.spent_s for job in tally.jobs if job.outcome is Outcome.TIMEOUT]
    others = [job.spent_s for job in tally.jobs if job.outcome is not Outcome.TIMEOUT]
    return {
        "candidates": len(entries),
        "expected": dict(Counter(str(entry.outcome) for entry in entries)),
        "verdicts_an_hour": round(len(tally.ends_s) / spent_s * 3600),
        "device_jobs": len(tally.jobs),
        "screened": tally.screened,
        "device_idle_share": round(idle_share(tally.jobs, tally.lock_waits), 4),
        "lock_wait_share": round(idle_share(tally.jobs, []) - idle_share(tally.jobs, tally.lock_waits), 4),
        "hang_device_s": [round(value, 2) for value in hangs],
        "hang_over_deadline_s": round(max(hangs, default=0.0) - deadline_s, 2),
        "other_device_s": spread(others),
        "build_s": spread([verdict.compile_s for _, verdict in tally.verdicts if verdict.compile_s]),
        "wrong_outcomes": len(wrong),
        "wrong": wrong,
        "machine_faults": tally.machine_faults,
    }


def idle_share(jobs: list[Job], waits: list[tuple[float, float]]) -> float:
    """Time without a candidate on the device, nor waited for others on it, from the first job's start to the last end."""
    if not jobs:
        return 0.0
    first, last = min(job.start for job in jobs), max(job.end for job in jobs)
    idle, reached = 0.0, first
    for start, end in sorted([*((job.start, job.end) for job in jobs), *waits]):
        idle += max(0.0, min(start, last) - reached)
        reached = max(reached, min(end, last))
    return idle / (last - first)


def spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, 3) for name, value in found.items()}


def words_of(report: dict[str, Any]) -> str:
    """For a person."""
    machine = report["machine"]
    lines = [
        f"{machine['device']}, {machine['cores']} cores; {report['problem']['name']} {report['problem']['sizes']}",
        f"{report['candidates']} candidates in {report['wall_s']:.0f} s: {report['verdicts_an_hour']} verdicts an hour",
        f"device: {report['device_jobs']} jobs, idle {report['device_idle_share']:.1%} "
        f"(and {report['lock_wait_share']:.1%} taken by others), {report['screened']} screened, "
        f"{report['other_device_s'].get('median', 0):.2f} s each",
        f"endless: {report['hang_device_s']} s on the device, deadline {report['problem']['deadline_s']:g} s",
        f"wrong outcomes: {report['wrong_outcomes']}; machine faults: {len(report['machine_faults'])}",
    ]
    return "\n".join([*lines, *report["wrong"], *report["machine_faults"]])


if __name__ == "__main__":
    sys.exit(main())
