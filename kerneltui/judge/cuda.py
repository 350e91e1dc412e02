"""Timing on a GPU: graphs and calls of both sides, and the anchor that both time."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from kerneltui.judge.bench import Set
from kerneltui.judge.blocks import ANCHOR_BYTES, PAGE_BYTES, CudaArena
from kerneltui.judge.claims import LIE_SHARE, Slice, claim_doubt, fastest_us
from kerneltui.judge.pairs import WAKING_S, Between, RunnerCalls, launches_for, number, visiting_order
from kerneltui.judge.runners import Runner
from kerneltui.records import Check, CheckResult

CHAIN_S = 0.0004  # replays of a chain this long hide the host's launch of the next one
CHAIN_MOST = 512
LEAD_LAUNCHES = 8  # before the clock starts
RUN_UP_LAUNCHES, RUN_UP_S = 8, 40e-6  # right before it starts, of calls that take less
LONG_S, LONG_MOST, LONG_TRIES = 0.008, 4000, 3  # of turns without a pause, which bound the claims
ANCHOR_EVERY, ANCHOR_LAUNCHES, ANCHOR_TRIES = 4, 8, 3
ANCHOR_OFF_BY = 0.01
CALLS_S, CALLS_MOST, CALLS_LIE_SHARE = 0.03, 4000, 0.03  # of calls without a pause
SHIM_PAGES = 64
SHIMS, SHIM_BYTES, SHIM_MOST = 16, 512, 128  # PyTorch's allocator gives multiples of 512 bytes
ANCHOR_WORDS = "work that both sides share took"


# --------------------------------------------------------------------------- sides of a pair


class GraphEager:
    """Eager captured as one graph over the ring, replayed."""

    method = "graph"

    def __init__(self, ring: Sequence[Set], each_s: float, call: Callable[[Set], Any] | None = None) -> None:
        run = call or eager_call
        launches = chain_length(each_s, len(ring))
        self.order = visiting_order(len(ring), launches, random.SystemRandom())
        self.graph = torch.cuda.CUDAGraph()
        self.kept: list[Any] = []
        warm_up(ring, run)
        with torch.no_grad(), torch.cuda.graph(self.graph):
            for entry in self.order:
                # Kept while capturing, so that outputs do not share memory: a candidate's do not either.
                self.kept.append(run(ring[entry]))
        self.events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))

    def slice(self, launches: int) -> Slice:
        repeat = max(1, round(launches / len(self.order)))
        first, last = self.events
        self.graph.replay()  # the device changes over to this process, see RunnerReplays
        torch.cuda.synchronize()
        start = time.perf_counter()
        self.graph.replay()  # not waited for: the clock does not start on an idle device
        first.record()
        for _ in range(repeat):
            self.graph.replay()
        last.record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
        return Slice(claimed_s=first.elapsed_time(last) / 1e3, wall_s=wall, launches=repeat * len(self.order))


def eager_call(filled: Set) -> Any:
    """The reference as PyTorch runs it."""
    return filled.module(*filled.arguments)


def warm_up(ring: Sequence[Set], run: Callable[[Set], Any]) -> None:
    """Lazy set-up of libraries may not happen under capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for filled in ring[:2]:
            run(filled)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


class CallsEager:
    """Eager calls: enqueued one after another, or each waited for."""

    method = "calls"

    def __init__(self, ring: Sequence[Set], *, waited: bool, call: Callable[[Set], Any] | None = None) -> None:
        self.ring = list(ring)
        self.waited = waited
        self.call = call or eager_call
        self.rng = random.SystemRandom()
        self.events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))

    def slice(self, launches: int) -> Slice:
        """The last entry leads in, the others are timed: no more than in a candidate's slice."""
        lead = len(self.ring) - 1
        order = visiting_order(lead, min(launches, lead), self.rng)
        first, last = self.events
        with torch.no_grad():
            self.call(self.ring[lead])  # the device changes over to this process, see RunnerReplays
            torch.cuda.synchronize()
            start = time.perf_counter()
            if not self.waited:
                self.call(self.ring[lead])  # the clock does not start on an idle device
            first.record()
            for entry in order:
                self.call(self.ring[entry])
                if self.waited:
                    torch.cuda.current_stream().synchronize()
            last.record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
        spent = wall if self.waited else first.elapsed_time(last) / 1e3
        return Slice(claimed_s=spent, wall_s=wall, launches=len(order))


class RunnerReplays(RunnerCalls):
    """Replays of the candidate's graphs: none of its host code runs.

    A slice is one turn of the ring, each entry once and new before it: whatever a launch leaves on the device, in its
    outputs or its workspace, is gone when the same memory comes again.

    A GPU that changes over from one process to another takes 0.8 ms before the first launch of a slice is at full
    speed (seen on an H200: 800 µs a launch, where the same kernel alone takes 565). So each slice, on both sides, is
    led in by launches that are waited for and not timed. Others follow that are not waited for, so that the clock does
    not start on an idle device.
    """

    on_host = False

    def __init__(self, runner: Runner, ring: int, left_s: Callable[[], float], between: Between, each_s: float) -> None:
        super().__init__(runner, ring, left_s, between)
        # One entry is for leading in only: what the others hold is new when the clock starts.
        self.lead = ring - 1
        self.order = visiting_order(self.lead, self.lead, self.rng)
        self.run_up = RUN_UP_LAUNCHES if each_s < RUN_UP_S else 1
        answer = runner.ask(
            "chain",
            left_s(),
            order=self.order,
            lead=[self.lead] * LEAD_LAUNCHES,
            run_up=[self.lead] * self.run_up,
        )
        self.joined = bool(answer.get("chained"))

    def slice(self, launches: int) -> Slice:
        self.between.renew(self.order)
        self.timed("lead_in", LEAD_LAUNCHES)
        found = self.replay(1)
        self.between.audit()
        return found

    def replay(self, repeat: int) -> Slice:
        """The chain so many times; the run-up is time that passes and is not claimed."""
        found = self.timed("replay", repeat * len(self.order), repeat=repeat)
        return replace(found, waking_s=self.slack_s + max(0.0, self.run_up * found.each_us / 1e6))

    def long_doubt(self, each_us: float) -> str:
        """Many turns at once: so long that what passed by the judge's clock bounds what is claimed of a single one.

        They may be faster than single turns, since nothing is renewed in between; slower they cannot be.
        """
        if not math.isfinite(each_us) or each_us <= 0:
            return ""
        turn_s = each_us * len(self.order) / 1e6
        repeat = max(1, min(LONG_MOST, math.ceil(LONG_S / turn_s)))
        passed = min(self.replay(repeat).wall_s for _ in range(LONG_TRIES)) - self.run_up * each_us / 1e6
        claimed = repeat * turn_s
        if passed - claimed <= self.slack_s + LIE_SHARE * passed:
            return ""
        return (
            f"its clock is slow: {repeat} turns of {len(self.order)} launches took {passed * 1e3:.3f} ms by the judge's "
            f"clock, {claimed * 1e3:.3f} ms by what it claims of single turns"
        )

    def warm_us(self, each_us: float) -> float | None:
        """As in the lead-in, which meets one entry over and over."""
        return fastest_us([self.timed("lead_in", LEAD_LAUNCHES) for _ in range(LONG_TRIES)])

    def visit_last(self, each_us: float) -> list[int]:
        """The chain once more, and the entry that leads in."""
        self.between.renew([*self.order, self.lead], audit=False)
        self.timed("lead_in", LEAD_LAUNCHES)
        self.replay(1)
        return list(range(self.ring))


class RunnerEnqueued(RunnerCalls):
    """Plain calls of the candidate, one after another, led in like replays; a slice meets each ring entry once at most.

    Its own code reads its clock. Many calls without a pause bound what that can hide; they meet entries more than once,
    so they bound the claim and are no sample of it.
    """

    on_host = False

    def slice(self, launches: int) -> Slice:
        """The last entry leads in, the others are timed."""
        lead = self.ring - 1
        order = visiting_order(lead, min(launches, lead), self.rng)
        self.between.renew(order)
        self.shift_scratch()
        found = self.calls(lead, order)
        self.between.audit()
        return found

    def shift_scratch(self) -> None:
        """Let what is set aside for a call lie elsewhere; nothing of ours is."""

    def calls(self, lead: int, order: Sequence[int]) -> Slice:
        """The entry that leads in also keeps the device busy while the others are enqueued."""
        self.lined_up("slice", [lead])
        self.runner.ask("line_up", self.left_s(), order=[lead, *order])
        found = self.timed("slice", len(order), run_up=1)
        return replace(found, waking_s=self.slack_s + WAKING_S + max(0.0, found.each_us / 1e6))

    def long_doubt(self, each_us: float) -> str:
        """Whether the judge's clock ran on longer than was claimed, of these calls and of those in single turns."""
        if not math.isfinite(each_us) or each_us <= 0:
            return ""
        entries = self.ring - 1
        order = [entry % entries for entry in range(min(CALLS_MOST, launches_for(each_us, CALLS_S)))]
        tries = [self.calls(entries, order) for _ in range(LONG_TRIES)]
        impossible = next(filter(None, map(claim_doubt, tries)), "")
        if impossible:  # what it claims is taken off what passed: no number will do
            return impossible
        found = min(tries, key=lambda each: each.wall_s - each.claimed_s)
        spare_s = self.slack_s + found.each_us / 1e6  # of its start, and of the call that leads in
        passed_s, claimed_s = found.wall_s - spare_s, len(order) * each_us / 1e6
        words = (
            f"its clock is slow: {len(order)} calls without a pause took {passed_s * 1e3:.3f} ms by the judge's clock"
        )
        if passed_s - found.claimed_s > CALLS_LIE_SHARE * found.wall_s:
            return f"{words}, {found.claimed_s * 1e3:.3f} ms by its own"
        if passed_s - claimed_s > LIE_SHARE * found.wall_s:
            return f"{words}, {claimed_s * 1e3:.3f} ms by what it claims of single turns"
        return ""


class RunnerModule(RunnerEnqueued):
    """Calls of a module: what PyTorch sets aside for a call lies elsewhere in every slice.

    Where that lies makes a difference of 0.2 to 0.5 % (attention by cuDNN on an H200, eager against itself), and where cuBLAS's
    workspace lies one of 0.1 to 0.3 % (a product in half precision). A process that has found a place for it keeps it, so its
    pairs know nothing of the others.
    """

    def shift_scratch(self) -> None:
        self.runner.ask("shift_scratch", self.left_s(), sizes=shim_sizes(self.rng))


class RunnerWaited(RunnerEnqueued):
    """Plain calls of the candidate, each waited for."""

    def calls(self, lead: int, order: Sequence[int]) -> Slice:
        self.lined_up("calls", [lead])
        return self.lined_up("calls", order)


def shim_sizes(rng: random.Random) -> list[int]:
    """Bytes of blocks that push what PyTorch's allocator gives next to places that nobody foresees, and fill its gaps.

    A large one of whole pages and small ones: the allocator keeps the two apart.
    """
    return [
        PAGE_BYTES * rng.randrange(1, SHIM_PAGES),
        *(SHIM_BYTES * rng.randrange(1, SHIM_MOST) for _ in range(SHIMS)),
    ]


def chain_length(each_s: float, ring: int) -> int:
    """Launches of one chain: every ring entry, and long enough to hide what the host does between chains."""
    turns = max(1, round(CHAIN_S / max(each_s, 1e-7) / ring))
    return max(ring, min(CHAIN_MOST, turns * ring))


# --------------------------------------------------------------------------- anchor


class Anchor:
    """Work that we trust, timed by both processes on the same memory. Where they do not agree, neither do their ratios."""

    def __init__(self, arena: CudaArena, runner: Runner, left_s: Callable[[], float]) -> None:
        self.arena = arena
        self.runner = runner
        self.left_s = left_s
        self.asked = 0
        self.found = ""  # what the last comparison came to
        self.ratios: list[float] = []  # the runner's time over ours
        self.events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))

    def disagreement(self) -> str:
        """By how much both clocks differ, when that is too much; looked at every few pairs, and true until the next look."""
        self.asked += 1
        if self.asked % ANCHOR_EVERY == 1:
            ours, theirs = self.ours_s(), self.theirs_s()
            ratio = theirs / ours if ours > 0 else math.inf
            self.ratios.append(ratio)
            agree = abs(ratio - 1) <= ANCHOR_OFF_BY  # False for nan
            self.found = "" if agree else f"{ANCHOR_WORDS} {ratio:.3f} times as long in the candidate's process"
        return self.found

    def ours_s(self) -> float:
        first, last = self.events
        best = math.inf
        for _ in range(ANCHOR_TRIES):
            self.arena.overwrite(1)
            first.record()
            self.arena.overwrite(ANCHOR_LAUNCHES)
            last.record()
            torch.cuda.synchronize()
            best = min(best, first.elapsed_time(last) / 1e3)
        return best

    def theirs_s(self) -> float:
        where = {"offset": self.arena.anchor_start, "size_bytes": ANCHOR_BYTES, "repeat": ANCHOR_LAUNCHES}
        answers = [self.runner.ask("anchor", self.left_s(), **where) for _ in range(ANCHOR_TRIES)]
        return min(number(answer.get("elapsed_ns")) for answer in answers) / 1e9

    def check(self) -> Check | None:
        """For the list of checks: what the looks came to in the middle."""
        if not self.ratios:
            return None
        middle = sorted(self.ratios)[len(self.ratios) // 2]
        agree = abs(middle - 1) <= ANCHOR_OFF_BY
        detail = f"{ANCHOR_WORDS} {middle:.4f} times as long in the candidate's process as in the judge"
        return Check(name="anchor", result=CheckResult.PASS if agree else CheckResult.FAIL, detail=detail)
