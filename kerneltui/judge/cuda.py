"""Timing on a GPU: graphs and calls of both sides, and what NVML says meanwhile."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kerneltui.judge.bench import Set
from kerneltui.judge.pairs import Between, RunnerCalls, Slice, visiting_order
from kerneltui.judge.runners import Runner

log = logging.getLogger(__name__)

CHAIN_S = 0.0004  # replays of a chain this long hide the host's launch of the next one
CHAIN_MOST = 512
LEAD_LAUNCHES = 8  # before the clock starts
THROTTLES = {  # bits of NVML's reasons that make a pair unlike the others
    0x8: "clock slowed by hardware",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


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
        sets = [self.ring[entry] for entry in visiting_order(len(self.ring), launches, self.rng)]
        first, last = self.events
        with torch.no_grad():
            self.call(sets[-1])  # the device changes over to this process, see RunnerReplays
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.no_grad():
            first.record()
            for filled in sets:
                self.call(filled)
                if self.waited:
                    torch.cuda.current_stream().synchronize()
            last.record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
        spent = wall if self.waited else first.elapsed_time(last) / 1e3
        return Slice(claimed_s=spent, wall_s=wall, launches=len(sets))


class RunnerReplays(RunnerCalls):
    """Replays of the candidate's graphs: none of its host code runs.

    A GPU that changes over from one process to another takes 0.8 ms before the first launch of a slice is at full
    speed (seen on an H200: 800 µs a launch, where the same kernel alone takes 565). So each slice, on both sides, is
    led in by launches that are waited for and not timed.
    """

    on_host = False

    def __init__(self, runner: Runner, ring: int, left_s: Callable[[], float], between: Between, each_s: float) -> None:
        super().__init__(runner, ring, left_s, between)
        # One entry is for leading in only: what the others hold is new when the clock starts.
        entries = ring - 1
        turns = visiting_order(entries, chain_length(each_s, entries), self.rng)
        self.lead, self.order = entries, turns
        answer = runner.ask("chain", left_s(), order=self.order, lead=[self.lead] * LEAD_LAUNCHES)
        self.joined = bool(answer.get("chained"))

    def slice(self, launches: int) -> Slice:
        repeat = max(1, round(launches / len(self.order)))
        self.between.renew(self.order)
        self.timed("lead_in", LEAD_LAUNCHES)
        found = self.timed("replay", repeat * len(self.order), repeat=repeat)
        self.between.audit()
        return found

    def visit_last(self, each_us: float) -> list[int]:
        """The chain once more, and the entry that leads in."""
        self.between.renew([*self.order, self.lead], audit=False)
        self.timed("lead_in", LEAD_LAUNCHES)
        self.timed("replay", len(self.order), repeat=1)
        return list(range(self.ring))


class RunnerEnqueued(RunnerCalls):
    """Plain calls of the candidate, one after another, led in like replays."""

    on_host = False
    operation = "slice"

    def slice(self, launches: int) -> Slice:
        """The last entry leads in, the others are timed."""
        order = visiting_order(self.ring - 1, launches, self.rng)
        self.between.renew(order)
        self.lined_up(self.operation, [self.ring - 1])
        found = self.lined_up(self.operation, order)
        self.between.audit()
        return found


class RunnerWaited(RunnerEnqueued):
    """Plain calls of the candidate, each waited for, led in like replays."""

    operation = "calls"


def chain_length(each_s: float, ring: int) -> int:
    """Launches of one chain: every ring entry, and long enough to hide what the host does between chains."""
    turns = max(1, round(CHAIN_S / max(each_s, 1e-7) / ring))
    return max(ring, min(CHAIN_MOST, turns * ring))


# --------------------------------------------------------------------------- NVML


class Watch:
    """What NVML says while pairs are taken; everything it withholds is left out, never 0."""

    def __init__(self, uuid: str) -> None:
        self.nvml: Any = None
        self.handle: Any = None
        self.known: set[int] = set()
        self.counted = 0
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self.nvml = pynvml
        except pynvml.NVMLError as error:
            log.warning("NVML does not answer for %s: %s", uuid, error)

    def ask(self, name: str, *arguments: Any) -> Any:
        """One reading; None where the driver withholds it."""
        if self.nvml is None:
            return None
        try:
            return getattr(self.nvml, name)(self.handle, *arguments)
        except self.nvml.NVMLError:
            return None

    def begin(self) -> None:
        """The processes that are there now are the judge, the runner, and whoever else was there before."""
        self.known = self.processes()

    def processes(self) -> set[int]:
        found = self.ask("nvmlDeviceGetComputeRunningProcesses")
        return {process.pid for process in found} if found else set()

    def disturbed(self) -> str:
        """Why the last pair may not be believed; "" when nothing is known against it."""
        reasons = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        words = [word for bit, word in THROTTLES.items() if reasons & bit]
        self.counted += 1
        if self.counted % 8 == 1:  # a millisecond each
            strangers = self.processes() - self.known
            if strangers:
                words.append(f"{len(strangers)} other processes came onto the device")
        return ", ".join(words)

    def readings(self) -> dict[str, str]:
        """Clocks and temperature, "" for what is withheld."""
        if self.nvml is None:
            return {}
        core = self.ask("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_SM)
        memory = self.ask("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_MEM)
        warmth = self.ask("nvmlDeviceGetTemperature", self.nvml.NVML_TEMPERATURE_GPU)
        return {
            "sm": f"{core} MHz" if core else "",
            "memory": f"{memory} MHz" if memory else "",
            "temperature": f"{warmth} °C" if warmth else "",
        }
