"""Paired timing: slices of baseline and candidate in random order, the other side idle.

Pair        one slice of each
race        pairs until the ratio is settled, the candidate is beaten, or time is up
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kerneltui import stats
from kerneltui.judge.claims import (
    Slice,
    busy_s,
    claim_doubt,
    delays_s,
    fastest_us,
    floor_doubt,
    is_short,
    is_taken,
    run_s,
    short_doubt,
    taken_s,
    together,
    waiting_s,
)
from kerneltui.judge.runners import Runner

SLICE_S = 0.006  # long enough that a clock of a microsecond's tick and a pipe's delay are below 0.1 %
LAUNCHES_MOST = 20_000
TURNS_MOST = 4  # of the ring in one slice, where every turn is renewed
LONG_S, LONG_TRIES = 0.03, 3  # calls without a pause: what a command costs is nothing beside them
WARM_S, WARM_LEAST, WARM_MOST, WARM_TRIES = 0.002, 2, 64, 2
LAST_S, LAST_LEAST = 0.05, 4  # the turn whose outputs are verified: time, and entries at least
SLACK_S = 0.0005  # of the judge's clock: waking up on both sides of a pipe
RUN_SPARE_S = 200e-6  # by which one command may cost more than another
EMPTY_SLICES = 5
EMPTY_MOST_S = 0.0003  # what an empty slice may cost: no candidate is forgiven more
EMPTY_TIMES, EMPTY_SPARE_S = 2, 50e-6  # of what an empty slice takes on a GPU: what a slice may take beyond its claim
WAKING_S = 0.0004  # by the judge's clock, for a command on a host: both sides wake up, on a machine that others use too
AWAKE_S = 0.02  # on a GPU: who slept for a millisecond on a pipe may wake 0.3 ms late, too much for a short slice
SPARE_CORE = len(os.sched_getaffinity(0)) > 1
IDLE_S = 0.001  # after which threads that spin for their next operation sleep: judges.SPIN_COUNT takes 0.3 to 0.5 ms
BUSY_SHARE = 0.1  # of a core, while the other side is timed: an idle thread pool uses none
LEAST_PAIRS = 3
SHORT = "the judge's clock ran on longer than was claimed"
TAKEN = "other work had its cores: let it end, or choose quieter ones (as in `--device cpu:0-3`)"
PAIRS_MOST = 200
DROPPED_MOST = 0.3  # of all pairs
NEAR = 0.02  # of 1: twice what is a tie on a GPU
NEAR_PAIRS, NEAR_WIDTH = 32, 0.001  # of a ratio near 1, where every pair finds its scratch memory elsewhere


@dataclass(slots=True)
class Pairs:
    """All that was sampled."""

    baseline_us: list[float] = field(default_factory=list)
    candidate_us: list[float] = field(default_factory=list)
    dropped: int = 0
    launches: int = 0
    warmup: int = 0
    screened: bool = False
    doubt: str = ""  # why the claims cannot be believed; "" when they can
    disturbances: set[str] = field(default_factory=set)


class Side(Protocol):
    """One side of a pair."""

    def slice(self, launches: int) -> Slice:
        """About so many launches (at least one), in an order that nobody could foresee."""


class Between(Protocol):
    """What the judge does around a slice of the candidate."""

    def renew(self, entries: Sequence[int], *, audit: bool = True) -> None:
        """Make ring entries new."""

    def audit(self) -> None:
        """Look at what a slice left."""


class RunnerCalls:
    """Slices of timed calls in a runner, on ring entries in random order.

    A process that has just been woken is slow for half a millisecond. Where the other side is not, `led`: one entry is kept
    for a call that is not timed and comes first.
    """

    on_host = True  # whether what is claimed is time of the runner's first thread

    def __init__(
        self, runner: Runner, ring: int, left_s: Callable[[], float], between: Between, *, led: bool = False
    ) -> None:
        self.runner = runner
        self.ring = ring
        self.led = led
        self.left_s = left_s
        self.between = between
        self.code = 0  # what the launcher returned, or-ed
        self.empty_s: float | None = None  # processor time of a slice without calls
        self.slack_s = SLACK_S  # of the judge's clock
        self.trip_s = 0.0  # what a command and its answer take that do nothing, by the judge's clock
        self.awake_s = 0.0  # how long an answer is looked for without sleeping
        self.rng = random.SystemRandom()

    def slice(self, launches: int) -> Slice:
        """Turns of the ring, each entry once in a turn and new before it."""
        left = min(launches, TURNS_MOST * (self.ring - self.led))
        turns: list[Slice] = []
        while left > 0:
            turns.append(self.turn("slice", min(left, self.ring - self.led)))
            left -= turns[-1].launches
        return together(turns)

    def turn(self, operation: str, launches: int) -> Slice:
        """Calls on ring entries in random order, from new inputs and fresh poison."""
        order = visiting_order(self.ring - self.led, launches, self.rng)
        self.between.renew(order)
        self.let_threads_sleep()
        if self.led:
            # A command of its own: what it costs is no part of what the kernel counts for the timed one.
            self.lined_up(operation, [self.ring - 1])
        found = self.lined_up(operation, order)
        self.between.audit()
        return found

    def let_threads_sleep(self) -> float:
        """So that what one side leaves spinning takes no core from the other; for how long."""
        if not self.on_host:
            return 0.0
        time.sleep(IDLE_S)
        return IDLE_S

    def lined_up(self, operation: str, order: Sequence[int]) -> Slice:
        """Calls in this order."""
        self.runner.ask("line_up", self.left_s(), order=list(order))
        return self.timed(operation, len(order))

    def visit_last(self, each_us: float) -> list[int]:
        """One more turn, and which entries it visited; nothing tells it from the others."""
        launches = max(LAST_LEAST, launches_for(each_us, LAST_S))
        order = visiting_order(self.ring, min(launches, self.ring), self.rng)
        self.between.renew(order, audit=False)
        self.let_threads_sleep()
        self.lined_up("slice", order)
        return order

    def long_doubt(self, each_us: float) -> str:
        """So many calls at once that what a command costs hides no slow clock from the kernel's count of processor time.

        Single slices may claim less a call than these: a core that has rested is faster for some milliseconds.
        """
        if self.empty_s is None or not math.isfinite(each_us) or each_us <= 0:
            return ""
        entries = self.ring - self.led
        order = [entry % entries for entry in range(launches_for(each_us, LONG_S))]
        return floor_doubt([self.lined_up("slice", order) for _ in range(LONG_TRIES)])

    def warm_us(self, each_us: float) -> float | None:
        """One call on inputs that it has just been called with: what it takes where they are in the cache."""
        order = [self.ring - 1] * max(WARM_LEAST, min(WARM_MOST, launches_for(each_us, WARM_S)))
        self.lined_up("slice", order[:1])
        return fastest_us([self.lined_up("slice", order) for _ in range(WARM_TRIES)])

    def timed(self, operation: str, launches: int, **fields: Any) -> Slice:
        """One command, between two looks at the judge's clock."""
        delays, ours = self.delays_s(), time.thread_time()
        limit, waited, ran = self.left_s(), self.waited_s(), self.run_s()
        # Before sending: this process may be put aside as soon as the runner wakes up.
        start = time.perf_counter()
        self.runner.send(operation, limit, **fields)
        answer = self.runner.receive(limit, awake_s=self.awake_s)
        wall = time.perf_counter() - start
        self.code |= whole(answer.get("code"))
        claimed = number(answer.get("elapsed_ns")) / 1e9
        waited = self.waited_s() - waited  # of this very slice: what comes next waits as well
        ran = self.run_s() - ran
        floor = self.floor_s(ran)
        # Both processes' first threads share a core: while the judge reads, the other one waits, and is not disturbed.
        pid = self.runner.process.pid
        taken = taken_s(delays, self.delays_s(), ours=pid, ours_s=time.thread_time() - ours)
        return Slice(
            claimed_s=claimed,
            wall_s=wall,
            launches=launches,
            waited_s=waited,
            floor_s=floor,
            taken_s=taken,
            waking_s=WAKING_S if self.on_host else 0.0,
        )

    def floor_s(self, ran_s: float) -> float:
        """What a slice must claim at least."""
        return 0.0 if self.empty_s is None else max(0.0, ran_s - self.empty_s - RUN_SPARE_S)

    def weigh_empty(self) -> None:
        """What a slice costs that holds no calls: processor time on a host, time by the judge's clock elsewhere."""
        self.runner.ask("line_up", self.left_s(), order=[])
        self.awake_s = 0.0
        if not self.on_host:
            walls = [self.timed("slice", 1).wall_s for _ in range(EMPTY_SLICES)]
            self.trip_s = stats.median(walls)
            self.slack_s = min(EMPTY_MOST_S, EMPTY_TIMES * self.trip_s + EMPTY_SPARE_S)
            # Not for the empty ones: the other process wakes up too, and what that takes is learned from ours.
            self.awake_s = AWAKE_S if SPARE_CORE else 0.0
            return
        costs: list[float] = []
        for _ in range(EMPTY_SLICES):
            ran = self.run_s()
            self.timed("slice", 1)
            costs.append(self.run_s() - ran)
        self.empty_s = min(stats.median(costs), EMPTY_MOST_S)

    def run_s(self) -> float:
        return run_s(self.runner.process.pid) if self.on_host else 0.0

    def busy_s(self) -> float:
        """Processor time of the candidate's process so far."""
        return busy_s(self.runner.process.pid)

    def delays_s(self) -> dict[int, float]:
        return delays_s(self.runner.process.pid) if self.on_host else {}

    def waited_s(self) -> float:
        return waiting_s(self.runner.process.pid) + waiting_s(os.getpid())


def number(value: Any) -> float:
    """A number from an untrusted answer; nan for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def launches_for(each_us: float, slice_s: float = SLICE_S) -> int:
    """Launches that fill a slice."""
    if not math.isfinite(each_us) or each_us <= 0:
        return LAUNCHES_MOST
    return max(1, min(LAUNCHES_MOST, math.ceil(slice_s / (each_us / 1e6))))


def visiting_order(ring: int, launches: int, rng: random.Random) -> list[int]:
    """Ring entries in random order; every entry before any a second time."""
    order: list[int] = []
    while len(order) < launches:
        turn = list(range(ring))
        rng.shuffle(turn)
        order += turn
    return order[:launches]


def calibrate(side: Side, pairs: Pairs) -> int:
    """Launches of a slice, found by doubling until one takes a while; they also warm up."""
    launches = 1
    while True:
        found = side.slice(launches)
        pairs.warmup += found.launches
        # The judge's clock ends it too: a claim of zero must not make slices endless.
        long_enough = found.claimed_s >= SLICE_S / 3 or found.wall_s >= 5 * SLICE_S
        if long_enough or launches >= LAUNCHES_MOST or found.launches < launches:
            believed = found.claimed_s if found.claimed_s >= found.wall_s / 4 else found.wall_s
            return launches_for(believed / found.launches * 1e6)
        launches *= 4


def race(
    baseline: Side,
    candidate: RunnerCalls,
    *,
    budget_s: float,
    beam_us: float | None,
    width: float,
    near_longer: bool = False,
    disturbed: Callable[[], str] = lambda: "",
) -> Pairs:
    """Measure pairs. A candidate far behind the beam is given up after three, one surely behind it after eight.

    With `near_longer`, a ratio near 1 is settled more finely if time allows.
    """
    pairs, rng = Pairs(), random.SystemRandom()
    start = time.monotonic()
    candidate.weigh_empty()
    slack_s = candidate.slack_s
    launches, base_launches = calibrate(candidate, pairs), calibrate(baseline, pairs)
    alone = Alone(baseline, candidate)
    slices: list[Slice] = []
    while len(pairs.candidate_us) + pairs.dropped < PAIRS_MOST:
        early = alone.slice(base_launches) if rng.random() < 0.5 else None
        mine = candidate.slice(launches)
        base = early or alone.slice(base_launches)
        pairs.launches = mine.launches
        pairs.doubt = claim_doubt(mine)
        slices.append(mine)
        if pairs.doubt:
            return pairs
        reason = why_dropped(mine, base, slack_s) or disturbed()
        if reason:
            pairs.dropped += 1
            pairs.disturbances.add(reason)
        else:
            pairs.baseline_us.append(base.each_us)
            pairs.candidate_us.append(mine.each_us)
        if is_enough(pairs, time.monotonic() - start, budget_s, beam_us, width, near_longer):
            break
    pairs.doubt = alone.doubt() or floor_doubt(slices) or short_doubt(slices, slack_s)
    return pairs


def why_dropped(mine: Slice, base: Slice, slack_s: float) -> str:
    """Why a pair says nothing of either side; "" when it does."""
    if is_taken(mine) or is_taken(base):
        return TAKEN
    return SHORT if is_short(mine, slack_s) else ""


class Alone:
    """Slices of the baseline, and whether the candidate's process slept meanwhile as it should."""

    def __init__(self, baseline: Side, candidate: RunnerCalls) -> None:
        self.baseline = baseline
        self.candidate = candidate
        self.busy_s = 0.0
        self.wall_s = 0.0

    def slice(self, launches: int) -> Slice:
        self.candidate.let_threads_sleep()
        before = self.candidate.busy_s()
        # Whoever wakes up on a core that others want has it for some milliseconds: what shares it must have had its turn.
        watched_s = self.candidate.let_threads_sleep()
        found = self.baseline.slice(launches)
        self.busy_s += self.candidate.busy_s() - before
        self.wall_s += watched_s + found.wall_s
        return found

    def doubt(self) -> str:
        """Work left for later slows the other side down and is never paid for.

        Over all slices together: some kernels bring a running thread's clock up to date only at every tick.
        """
        share = self.busy_s / self.wall_s if self.wall_s > 0 else 0.0
        if share <= BUSY_SHARE:
            return ""
        return (
            f"its process used {100 * share:.0f} % of a core while only the baseline was running: it works after its "
            "calls have returned"
        )


def is_enough(
    pairs: Pairs, spent_s: float, budget_s: float, beam_us: float | None, width: float, near_longer: bool
) -> bool:
    """Whether more pairs would change nothing that matters."""
    count = len(pairs.candidate_us)
    if beam_us is not None and stats.is_beaten(pairs.candidate_us, beam_us):
        pairs.screened = True
        return True
    # Where many pairs are dropped, time is given twice.
    scarce = count < LEAST_PAIRS or is_disturbed(pairs)
    if spent_s >= (2 * budget_s if scarce else budget_s) and count + pairs.dropped >= LEAST_PAIRS:
        return True
    # Resampling after every pair would take a tenth of the time that there is.
    if count % 4 or is_disturbed(pairs):
        return False
    if not stats.is_settled(pairs.baseline_us, pairs.candidate_us, width=width):
        return False
    if not near_longer or not stats.is_near(pairs.baseline_us, pairs.candidate_us, NEAR):
        return True
    return count >= NEAR_PAIRS and stats.is_settled(pairs.baseline_us, pairs.candidate_us, width=NEAR_WIDTH)


def is_disturbed(pairs: Pairs) -> bool:
    """Whether so many pairs were dropped that those which are left are no ratio to be believed."""
    return pairs.dropped > DROPPED_MOST * (len(pairs.candidate_us) + pairs.dropped)
