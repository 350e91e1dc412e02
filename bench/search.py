"""Our sweep against Kernel Tuner's strategies on recorded tuning spaces, at 50, 100 and 200 evaluations.

    search.py [--json] [--cache FILE...] [--kernel-tuner PYTHON | --rows FILE...] [--repeats N] [--quick]

FILE is a cache file of Kernel Tuner (.json or .json.gz, closed or not); without any, synthetic spaces are used. PYTHON is
an interpreter that can import kernel_tuner (no GPU is needed: its simulation mode reads the same files); --rows takes what
kernel_tuner_runs.py printed earlier on the same files instead, since its runs take long. Where there is neither, random
search is all there is to compare with, and the report says so.

A run's score is the best time of the whole space over the best that it found: 1 is the optimum. Failing settings cost an
evaluation and have no time; settings that were not recorded do not exist for anybody.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from spaces import Point, Space, dump_cache, read_cache, synthetic

from kerneltui.authors.tuning import choose

HERE = Path(__file__).parent
OURS, RANDOM = "kerneltui", "random"
STRATEGIES = [
    "random_sample",
    "greedy_ils",
    "greedy_mls",
    "ordered_greedy_mls",
    "mls",
    "genetic_algorithm",
    "simulated_annealing",
    "dual_annealing",
    "diff_evo",
    "pso",
    "firefly_algorithm",
    "basinhopping",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
]  # all that need no further package, with the defaults they come with
RESAMPLES = 2000
Scores = dict[tuple[str, int, str], list[float]]  # by space, budget and strategy: a score a repeat


def run_ours(space: Space, budget: int, repeat: int) -> float:
    """As a session sweeps: a batch is chosen, measured, and the next one chosen."""
    tried: dict[Point, float | None] = {}
    legal = list(space.times)
    while len(tried) < budget:
        batch = choose(legal, tried, budget - len(tried), repeat)
        if not batch:
            break
        tried.update((point, space.times[point]) for point in batch)
    return score(space, tried)


def run_random(space: Space, budget: int, repeat: int) -> float:
    """So many different settings by lot."""
    drawn = random.Random(f"lot {repeat}").sample(list(space.times), min(budget, len(space.times)))
    return score(space, {point: space.times[point] for point in drawn})


def score(space: Space, tried: dict[Point, float | None]) -> float:
    found = [time for time in tried.values() if time is not None]
    return space.best / min(found) if found else 0.0


RUNS = {OURS: run_ours, RANDOM: run_random}


def run_own(spaces: Sequence[Space], budgets: Sequence[int], repeats: int, workers: int) -> Scores:
    """Ours and random search."""
    scores: Scores = defaultdict(list)
    tasks = [(s, b, r, n) for s in spaces for b in budgets for n in RUNS for r in range(repeats)]
    with ProcessPoolExecutor(workers) as pool:
        for (space, budget, _, name), found in zip(tasks, pool.map(run_one, tasks), strict=True):
            scores[space.name, budget, name].append(found)
    return scores


def run_one(task: tuple[Space, int, int, str]) -> float:
    space, budget, repeat, name = task
    return RUNS[name](space, budget, repeat)


def run_kernel_tuner(
    python: str, spaces: Sequence[Space], budgets: Sequence[int], repeats: int, strategies: Sequence[str]
) -> Scores:
    """Kernel Tuner's strategies in its own interpreter, on the same spaces written as its cache files."""
    with tempfile.TemporaryDirectory() as folder:
        for space in spaces:
            dump_cache(space, Path(folder) / f"{space.name}.json")
        words = [python, str(HERE / "kernel_tuner_runs.py"), folder, ",".join(map(str, budgets)), str(repeats)]
        done = subprocess.run([*words, ",".join(strategies)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"search.py: Kernel Tuner failed: {done.stderr.strip().splitlines()[-1:]}")
    return read_rows(done.stdout.splitlines(), spaces, budgets)


def read_rows(lines: Iterable[str], spaces: Sequence[Space], budgets: Sequence[int]) -> Scores:
    """Scores from what kernel_tuner_runs.py prints."""
    scores: Scores = defaultdict(list)
    best = {space.name: space.best for space in spaces}
    for row in map(json.loads, lines):
        if row["space"] in best and row["budget"] in budgets:
            found = best[row["space"]] / row["best"] if row["best"] else 0.0
            scores[row["space"], row["budget"], row["strategy"]].append(found)
    return scores


# --------------------------------------------------------------------------- the report


def summarise(scores: Scores, budget: int, names: Sequence[str]) -> dict[str, Any]:
    """Means over all spaces, the best of the others, and how far ours is from it, with a 95 % interval."""
    strategies = sorted({strategy for _, _, strategy in scores})
    by_space = {n: {s: round(fmean(scores[n, budget, s]), 4) for s in strategies} for n in names}
    means = {s: round(fmean(by_space[n][s] for n in names), 4) for s in strategies}
    rival = max((s for s in strategies if s != OURS), key=lambda s: means[s])
    low, high = difference_interval(scores, budget, names, rival)
    return {
        "budget": budget,
        "ours": means[OURS],
        "best_other": rival,
        "best_other_score": means[rival],
        "difference": round(means[OURS] - means[rival], 4),
        "interval": [round(low, 4), round(high, 4)],
        "no_worse": high >= 0,
        "means": dict(sorted(means.items(), key=lambda item: -item[1])),
        "by_space": by_space,
    }


def difference_interval(scores: Scores, budget: int, names: Sequence[str], rival: str) -> tuple[float, float]:
    """Bootstrap over repeats, space by space: the spaces are what was asked for, the repeats are luck."""
    dice = random.Random(20240229)
    drawn = sorted(
        fmean(
            fmean(dice.choices(own := scores[n, budget, OURS], k=len(own)))
            - fmean(dice.choices(other := scores[n, budget, rival], k=len(other)))
            for n in names
        )
        for _ in range(RESAMPLES)
    )
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def read_spaces(paths: Sequence[Path], quick: bool) -> list[Space]:
    if paths:
        return [read_cache(path) for path in paths]
    return [synthetic(seed) for seed in range(1 if quick else 4)]


def find_kernel_tuner(named: str | None) -> str | None:
    if named:
        return named
    return sys.executable if importlib.util.find_spec("kernel_tuner") else None


def print_report(report: dict[str, Any]) -> None:
    print(f"compared with: {report['compared_with']}; {report['repeats']} repeats")
    for found in report["budgets"]:
        low, high = found["interval"]
        word = "no worse" if found["no_worse"] else "WORSE"
        print(f"\n{found['budget']} evaluations: ours {found['ours']:.4f}, best other {found['best_other']}"
              f" {found['best_other_score']:.4f}: {found['difference']:+.4f} [{low:+.4f}, {high:+.4f}], {word}")  # fmt: skip
        for name, row in found["by_space"].items():
            best = max((s for s in row if s != OURS), key=lambda s: row[s])
            print(f"  {name:32} ours {row[OURS]:.4f}  random {row[RANDOM]:.4f}  {best} {row[best]:.4f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", nargs="*", type=Path, default=[], metavar="FILE")
    parser.add_argument("--kernel-tuner", metavar="PYTHON")
    parser.add_argument("--rows", nargs="*", type=Path, default=[], metavar="FILE")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--budgets", default="50,100,200")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one small space, one budget, two repeats")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", help="taken for the sake of the other benches; nothing here runs on one")
    options = parser.parse_args()
    budgets = [30] if options.quick else [int(word) for word in options.budgets.split(",")]
    repeats = 2 if options.quick else options.repeats
    try:
        spaces = read_spaces(options.cache, options.quick)
    except (OSError, ValueError) as error:
        raise SystemExit(f"search.py: {error}") from error
    python = None if options.rows else find_kernel_tuner(options.kernel_tuner)
    scores = run_own(spaces, budgets, repeats, options.workers)
    if options.rows:
        lines = [line for path in options.rows for line in path.read_text(encoding="utf-8").splitlines()]
        scores |= read_rows(lines, spaces, budgets)
    if python:
        scores |= run_kernel_tuner(python, spaces, budgets, repeats, options.strategies.split(","))
    names = [space.name for space in spaces]
    report = {
        "compared_with": "Kernel Tuner's strategies"
        if python or options.rows
        else "random search only: kernel_tuner is not installed",
        "repeats": repeats,
        "spaces": {
            space.name: {"settings": len(space.times), "failing": sum(t is None for t in space.times.values())}
            for space in spaces
        },
        "budgets": [summarise(scores, budget, names) for budget in budgets],
    }
    if options.json:
        print(json.dumps(report))
    else:
        print_report(report)
    return 0 if all(found["no_worse"] for found in report["budgets"]) else 1


if __name__ == "__main__":
    sys.exit(main())
