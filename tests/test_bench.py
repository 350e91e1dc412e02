"""The benches run end to end on the CPU and report what they promise. No figure is judged: the machine is shared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parent.parent


def run_bench(name: str) -> dict[str, Any]:
    """The last line of a quick run on the CPU."""
    words = [sys.executable, str(ROOT / "bench" / name), "--device", "cpu", "--quick", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=580)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.strip().split("\n")[-1])


@pytest.mark.slow
@pytest.mark.timeout(600)  # one build against torch's headers: 25 s alone, minutes where cores are shared
def test_verdict_bench_compares_both_ways_to_the_same_verdict() -> None:
    report = run_bench("verdict.py")
    case = report["cases"][0]
    assert "relu" == case["kernel"]
    assert 3 == case["kerneltui"]["verdicts"]
    assert 1 == case["usual"]["verdicts"]
    assert {"policy", "compile", "link", "runner start", "timing", "inputs"} <= set(case["kerneltui"]["stages_s"])
    assert {"import torch", "compile", "correctness"} <= set(case["usual"]["stages_s"])
    assert case["ratio"] == round(case["usual"]["median_s"] / case["kerneltui"]["median_s"], 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_throughput_bench_finds_every_outcome_right() -> None:
    report = run_bench("throughput.py")
    assert {"correct": 6, "compile_error": 3, "mismatch": 2, "timeout": 1} == report["expected"]
    assert [] == report["wrong"]
    assert [] == report["machine_faults"]
    assert 1 == len(report["hang_device_s"])
    assert report["verdicts_an_hour"] > 0
    assert 0 <= report["device_idle_share"] < 1


def test_a_part_within_a_part_counts_once() -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from stages import Stopwatch
    finally:
        sys.path.remove(str(ROOT / "bench"))
    clock = Stopwatch()
    with clock.part("outer"), clock.part("inner"):
        pass
    with clock.part("whole", whole=True), clock.part("hidden"):
        pass
    spent = clock.take()
    assert ["inner", "outer", "whole"] == sorted(spent)
    assert {} == clock.take()
