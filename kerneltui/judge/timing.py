"""From paired slices to a Measurement.

measure             the pairs of one candidate: device time, and on a GPU what a call costs
check_census        what the captured graphs hold
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from kerneltui import stats
from kerneltui.judge.bench import Set
from kerneltui.judge.beside import RunnerEager
from kerneltui.judge.blocks import CudaArena
from kerneltui.judge.compiled import compile_reference
from kerneltui.judge.controls import Controls, control
from kerneltui.judge.cuda import (
    Anchor,
    CallsEager,
    GraphEager,
    RunnerEnqueued,
    RunnerModule,
    RunnerReplays,
    RunnerWaited,
    eager_call,
)
from kerneltui.judge.eager import HostEager
from kerneltui.judge.fallen import Fallen
from kerneltui.judge.lanes import ModuleLane
from kerneltui.judge.pairs import Pairs, RunnerCalls, Side, is_disturbed, race
from kerneltui.judge.watch import Watch
from kerneltui.records import Badge, CheckResult, Measurement, Outcome, Speedup, Stage

if TYPE_CHECKING:
    from kerneltui.judge.renewal import Renewal
    from kerneltui.judge.trial import Trial

BUDGET_S = {"cpu": 0.6, "cuda": 3.0}
COMPILED_BUDGET_S = 1.0
CALL_BUDGET_S = 0.15  # for the second number
WIDTH, CERTIFIED_WIDTH = 0.005, 0.0025  # half of the interval, where pairs may end
CONTROL_EAGER_MOST_S = 0.5
STREAM_WORDS = "launch on the stream you were given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both sides of the pairs, and how they are timed."""

    method: str
    baseline: Side
    candidate: RunnerCalls
    baseline_method: str = ""


def measure(trial: Trial, ring: Sequence[Set], renewal: Renewal) -> tuple[Measurement, list[int]]:
    """Time the candidate against eager on the ring; which entries its last slice visited."""
    prepared = trial.ask(
        "prepare",
        ring=[filled.slot.offsets for filled in ring],
        symbols=list(trial.bench.main.symbols),
        workspace=trial.workspace,
    )
    if trial.request.module:
        sides = module_sides(trial, ring, renewal)
    elif trial.bench.device.type == "cpu":
        sides = host_sides(trial, ring, renewal)
    else:
        sides = cuda_sides(trial, ring, prepared, renewal)
    controls = controls_of(trial, ring)
    watch = getattr(trial.lane, "watch", None)
    if watch is not None:
        watch.begin()
    anchor = anchor_of(trial)
    pairs = race(
        sides.baseline,
        sides.candidate,
        budget_s=BUDGET_S[trial.bench.device.type],
        beam_us=None if trial.request.full else trial.request.beam_us,
        width=CERTIFIED_WIDTH if trial.request.certify else WIDTH,
        near_longer=isinstance(sides.candidate, RunnerModule),
        disturbed=lambda: (watch.disturbed() if watch else "") or (anchor.disagreement() if anchor else ""),
    )
    if not pairs.doubt and not pairs.screened:
        pairs.doubt = sides.candidate.long_doubt(stats.median(pairs.candidate_us or [math.nan]))
    if sides.candidate.code:
        words = f"{trial.request.function} returned {sides.candidate.code} while it was timed"
        raise Fallen(Outcome.LAUNCH_ERROR, Stage.TIME, words)
    result = CheckResult.FAIL if pairs.doubt else CheckResult.PASS
    trial.note("wall clock", result, pairs.doubt or "every claim agrees with the judge's own clock")
    if anchor is not None and (check := anchor.check()) is not None:
        trial.at.checks.append(check)
    calls = more = warm_us = None
    if not pairs.doubt and not pairs.screened:
        calls = call_pairs(trial, ring, sides, renewal)
        more = compiled_pairs(trial, ring, sides)
        warm_us = sides.candidate.warm_us(stats.median(pairs.candidate_us or [math.nan]))
    measurement = write_measurement(trial, pairs, calls, sides, len(ring), watch)
    measurement = replace(measurement, warm_us=warm_us)
    if controls.fault and not pairs.doubt:
        measurement = without_ratio(measurement, controls.fault)
    # The slice whose outputs are verified.
    last = [] if pairs.doubt else sides.candidate.visit_last(stats.median(pairs.candidate_us or [math.nan]))
    return with_compiled(trial, measurement, more), last


def controls_of(trial: Trial, ring: Sequence[Set]) -> Controls:
    """Negative controls: made with the first candidate that is timed, and again until they come out right."""
    bench = trial.bench
    if trial.rules.eager_s > CONTROL_EAGER_MOST_S:
        trial.note("controls", CheckResult.SKIPPED, "eager alone takes too long here")
        return Controls(fault="", words="")
    if bench.controls is None:
        found = control(bench.device.type, lambda times: control_side(trial, ring, times), trial.rules.eager_s)
        bench.controls = None if found.fault else found
    else:
        found = bench.controls
    trial.note("controls", CheckResult.FAIL if found.fault else CheckResult.PASS, found.fault or found.words)
    return found


def anchor_of(trial: Trial) -> Anchor | None:
    """Where the candidate's process runs code of ours beside it: not a module's."""
    arena = trial.bench.arena
    if not isinstance(arena, CudaArena) or trial.request.module or trial.runner is None:
        return None
    return Anchor(arena, trial.runner, lambda: trial.at.left_s)


def control_side(trial: Trial, ring: Sequence[Set], times: int) -> Side:
    if trial.bench.device.type == "cpu":
        return HostEager(ring, times)
    return CallsEager(ring, waited=False, call=lambda filled: [eager_call(filled) for _ in range(times)])


def without_ratio(measurement: Measurement, reason: str) -> Measurement:
    """As untrusted as the machine is."""
    return replace(
        measurement,
        speedup={},
        call_speedup={},
        badge=Badge.UNTRUSTED,
        disturbances=(*measurement.disturbances, reason),
    )


# --------------------------------------------------------------------------- sides


def host_sides(trial: Trial, ring: Sequence[Set], renewal: Renewal) -> Sides:
    assert trial.runner is not None
    candidate = RunnerCalls(trial.runner, len(ring), lambda: trial.at.left_s, renewal)
    return Sides(method="calls", baseline=HostEager(ring), candidate=candidate)


def module_sides(trial: Trial, ring: Sequence[Set], renewal: Renewal) -> Sides:
    assert trial.runner is not None
    left = lambda: trial.at.left_s  # noqa: E731  # read anew at every slice
    if trial.bench.device.type == "cpu":
        baseline: Side = HostEager(ring, keep=True)
        candidate = RunnerCalls(trial.runner, len(ring), left, renewal, led=True)
    else:
        candidate = RunnerModule(trial.runner, len(ring), left, renewal)
        baseline = eager_beside(trial, ring, renewal)
    return Sides(method="module", baseline=baseline, candidate=candidate)


def eager_beside(trial: Trial, ring: Sequence[Set], renewal: Renewal) -> Side:
    """Eager in a process of its own, or in the judge where the reference cannot be loaded elsewhere."""
    assert isinstance(trial.lane, ModuleLane)
    process = trial.lane.open_eager(trial.bench)
    if process is not None and process.is_open:
        side = RunnerEager(process, len(ring), renewal)
        side.weigh_empty()
        return side
    reason = process.refusal if process is not None else "there is no process for it"
    words = f"eager is timed in the judge's process, which is less exact: elsewhere it does not load ({reason[:300]})"
    trial.note("baseline", CheckResult.NOTE, words)
    return CallsEager(ring, waited=False)


def cuda_sides(trial: Trial, ring: Sequence[Set], prepared: dict[str, Any], renewal: Renewal) -> Sides:
    """Graph against graph; calls against calls where the candidate cannot be captured."""
    assert trial.runner is not None
    census = prepared.get("census")
    graphs = isinstance(census, list) and check_census(trial, census, len(ring))
    left = lambda: trial.at.left_s  # noqa: E731  # read anew at every slice
    if not graphs:
        baseline: Side = CallsEager(ring, waited=False)
        candidate = RunnerEnqueued(trial.runner, len(ring), left, renewal)
        return Sides(method="calls", baseline=baseline, candidate=candidate)
    replays = RunnerReplays(trial.runner, len(ring), left, renewal, trial.call_s)
    try:
        baseline, method = GraphEager(ring, trial.rules.eager_s), "graph"
    except RuntimeError as error:
        torch.cuda.synchronize()
        trial.note(
            "baseline",
            CheckResult.NOTE,
            f"eager cannot be captured as a graph ({first_line(error)}); it is timed by calls",
        )
        baseline, method = CallsEager(ring, waited=False), "calls"
    return Sides(method="graph", baseline=baseline, candidate=replays, baseline_method=method)


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def check_census(trial: Trial, census: Sequence[Any], ring: int) -> bool:
    """Whether every ring entry was captured as the same work; False when capture is not possible at all.

    Raises:
        Fallen: work that capture shows to be missing, elsewhere, or not the same for every entry.
    """
    entries = [entry for entry in census if isinstance(entry, dict)]
    errors = [str(entry["error"]) for entry in entries if entry.get("error")]
    if errors:
        trial.note("graph capture", CheckResult.NOTE, capture_words(errors[0]))
        if "UNJOINED" in errors[0]:
            raise Fallen(Outcome.SUSPECT, Stage.TIME, capture_words(errors[0]))
        return False
    if len(entries) != ring:
        raise Fallen(Outcome.SUSPECT, Stage.TIME, "its process answered for fewer ring entries than it was asked for")
    kinds = [entry.get("kinds") or {} for entry in entries]
    if any(not entry for entry in kinds):
        words = f"nothing was launched on the stream it was given: its graph is empty; {STREAM_WORDS}"
        trial.note("graph capture", CheckResult.FAIL, words)
        raise Fallen(Outcome.SUSPECT, Stage.TIME, words)
    if any(entry.get("host") for entry in kinds):
        words = "its graph holds calls back to the host, which candidates may not make"
        trial.note("graph capture", CheckResult.FAIL, words)
        raise Fallen(Outcome.SUSPECT, Stage.TIME, words)
    work = {tuple(map(str, entry.get("kernels") or ())) for entry in entries}
    if len(work) > 1:
        words = "it launches other kernels for some inputs than for others: one call may do the work of several"
        trial.note("graph capture", CheckResult.FAIL, words)
        raise Fallen(Outcome.SUSPECT, Stage.TIME, words)
    other = ", ".join(f"{count} {kind}" for kind, count in kinds[0].items() if kind != "kernel")
    names = ", ".join(next(iter(work)))
    trial.note("graph capture", CheckResult.PASS, names + (f"; {other}" if other else ""))
    return True


def capture_words(error: str) -> str:
    if "UNJOINED" in error:
        return f"it forks work to another stream and does not join it; {STREAM_WORDS}"
    if "IMPLICIT" in error:
        return f"it uses the default stream; {STREAM_WORDS}"
    return f"it cannot be captured as a graph ({error}); it is timed by calls"


def call_pairs(trial: Trial, ring: Sequence[Set], sides: Sides, renewal: Renewal) -> Pairs | None:
    """What one call costs a user, each call waited for; on a host that is the same number."""
    if sides.method == "module" or trial.bench.device.type == "cpu" or trial.runner is None:
        return None
    candidate = RunnerWaited(trial.runner, len(ring), lambda: trial.at.left_s, renewal)
    found = race(CallsEager(ring, waited=True), candidate, budget_s=CALL_BUDGET_S, beam_us=None, width=2 * WIDTH)
    return None if found.doubt or not found.candidate_us else found


def compiled_pairs(trial: Trial, ring: Sequence[Set], sides: Sides) -> Pairs | None:
    """Against torch.compile: built when something is certified, and used for every full measurement from then on."""
    bench = trial.bench
    if bench.device.type == "cpu" or sides.method != "graph" or not trial.request.full:
        return None
    if bench.compiled is None:
        if not trial.request.certify:
            return None
        bench.compiled = compile_reference(bench.main, ring)
    result = CheckResult.NOTE if bench.compiled.call else CheckResult.SKIPPED
    trial.note("compiled baseline", result, bench.compiled.words)
    if bench.compiled.call is None:
        return None
    try:
        baseline: Side = GraphEager(ring, trial.rules.eager_s, bench.compiled.call)
    except RuntimeError:
        torch.cuda.synchronize()
        baseline = CallsEager(ring, waited=False, call=bench.compiled.call)
    found = race(baseline, sides.candidate, budget_s=COMPILED_BUDGET_S, beam_us=None, width=WIDTH)
    return None if found.doubt or not found.candidate_us else found


def with_compiled(trial: Trial, measurement: Measurement, pairs: Pairs | None) -> Measurement:
    found = speedup_of(trial, pairs) if pairs else None
    if pairs is None or found is None or not measurement.speedup:
        return measurement
    return replace(
        measurement,
        baselines_us={**measurement.baselines_us, "compile": stats.median(pairs.baseline_us)},
        speedup={**measurement.speedup, "compile": found},
    )


# --------------------------------------------------------------------------- the record


def write_measurement(
    trial: Trial, pairs: Pairs, calls: Pairs | None, sides: Sides, ring: int, watch: Watch | None
) -> Measurement:
    """The record. A claim that cannot be believed leaves no number that could be ranked."""
    words = tuple(sorted(pairs.disturbances))
    if pairs.doubt or not pairs.candidate_us:
        return Measurement(
            method=sides.method,
            median_us=0.0,
            low_us=0.0,
            high_us=0.0,
            launches=pairs.launches,
            ring=ring,
            badge=Badge.SUSPECT if pairs.doubt else Badge.UNTRUSTED,
            flush=trial.bench.flush,
            disturbances=(*words, *((pairs.doubt,) if pairs.doubt else ())),
        )
    low, high = stats.median_interval(pairs.candidate_us)
    disturbed = is_disturbed(pairs)
    on_host = trial.bench.device.type == "cpu" or sides.method == "module"
    called = pairs if on_host else calls
    return Measurement(
        method=sides.method,
        median_us=stats.median(pairs.candidate_us),
        low_us=low,
        high_us=high,
        samples_us=tuple(pairs.candidate_us),
        call_us=stats.median(called.candidate_us) if called else None,
        baselines_us={"eager": stats.median(pairs.baseline_us)},
        speedup={} if disturbed else against_eager(trial, pairs),
        call_speedup={} if disturbed or called is None else against_eager(trial, called),
        launches=pairs.launches,
        warmup=pairs.warmup,
        dropped=pairs.dropped,
        ring=ring,
        flush=trial.bench.flush,
        clocks=watch.readings() if watch is not None else {},
        disturbances=words,
        precision=trial.precision,
        baseline_precision=trial.rules.baseline_precision,
        floor_us=trial.rules.floor_us,
        noise=stats.noise(pairs.candidate_us),
        badge=Badge.UNTRUSTED if disturbed else Badge.MEASURED,
        screened=pairs.screened,
    )


def against_eager(trial: Trial, pairs: Pairs) -> dict[str, Speedup]:
    found = speedup_of(trial, pairs)
    return {"eager": found} if found else {}


def speedup_of(trial: Trial, pairs: Pairs) -> Speedup | None:
    resolution = stats.RESOLUTION[trial.bench.device.type]
    return stats.speedup(pairs.baseline_us, pairs.candidate_us, resolution=resolution)
