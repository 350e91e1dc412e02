"""From paired slices to a Measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneltui import stats
from kerneltui.judge.bench import Set
from kerneltui.judge.pairs import Pairs, race, runner_slice
from kerneltui.records import Badge, CheckResult, Measurement, Outcome, Stage

if TYPE_CHECKING:
    from kerneltui.judge.trial import Trial

BUDGET_S = {"cpu": 1.5, "cuda": 3.0}
WIDTH = 0.005
DROPPED_MOST = 0.3


def measure(trial: Trial, ring: Sequence[Set]) -> tuple[Measurement, set[int]]:
    """Time the candidate against eager on the ring; which entries were visited."""
    from kerneltui.judge.trial import Fallen

    bench = trial.bench
    prepared = trial.ask(
        "prepare",
        ring=[filled.slot.offsets for filled in ring],
        symbols=list(bench.main.symbols),
        workspace=trial.workspace,
    )
    baseline = trial.lane.baseline(ring)
    seen: dict[str, int] = {}
    assert trial.runner is not None
    pairs = race(
        baseline.slice,
        runner_slice(trial.runner, lambda: trial.at.left_s, seen),
        ring=len(ring),
        budget_s=BUDGET_S[bench.device.type],
        beam_us=None if trial.request.full else trial.request.beam_us,
        width=WIDTH,
    )
    if seen.get("code"):
        raise Fallen(Outcome.LAUNCH_ERROR, Stage.TIME, f"{trial.request.function} returned {seen['code']} while timed")
    result = CheckResult.FAIL if pairs.doubt else CheckResult.PASS
    trial.note("wall clock", result, pairs.doubt or "every claim agrees with the judge's own clock")
    return write_measurement(trial, pairs, str(prepared.get("method", "calls")), len(ring)), pairs.visited


def write_measurement(trial: Trial, pairs: Pairs, method: str, ring: int) -> Measurement:
    """The record. A claim that cannot be believed leaves no number that could be ranked."""
    if pairs.doubt or not pairs.candidate_us:
        badge = Badge.SUSPECT if pairs.doubt else Badge.UNTRUSTED
        return Measurement(
            method=method,
            median_us=0.0,
            low_us=0.0,
            high_us=0.0,
            launches=pairs.launches,
            ring=ring,
            badge=badge,
            flush=trial.bench.flush,
            disturbances=(pairs.doubt,) if pairs.doubt else (),
        )
    low, high = stats.median_interval(pairs.candidate_us)
    found = stats.speedup(pairs.baseline_us, pairs.candidate_us)
    taken = len(pairs.candidate_us) + pairs.dropped
    disturbed = pairs.dropped > DROPPED_MOST * taken
    median = stats.median(pairs.candidate_us)
    host = trial.bench.device.type == "cpu"
    return Measurement(
        method=method,
        median_us=median,
        low_us=low,
        high_us=high,
        samples_us=tuple(pairs.candidate_us),
        call_us=median if host else None,
        baselines_us={"eager": stats.median(pairs.baseline_us)},
        speedup={"eager": found} if found and not disturbed else {},
        call_speedup={"eager": found} if found and host and not disturbed else {},
        launches=pairs.launches,
        warmup=pairs.warmup,
        dropped=pairs.dropped,
        ring=ring,
        flush=trial.bench.flush,
        noise=stats.noise(pairs.candidate_us),
        badge=Badge.UNTRUSTED if disturbed else Badge.MEASURED,
        screened=pairs.screened,
    )
