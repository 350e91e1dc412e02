"""Slices of replayed graphs as the judge takes them, with a runner that a test writes: no GPU is asked."""

from __future__ import annotations

import math
import os
import select
import time
from typing import Any

import pytest
import torch

from kerneltui.judge.bench import RING_LEAST, RING_MOST, TURN_BYTES_CUDA, ring_size
from kerneltui.judge.claims import Slice
from kerneltui.judge.cuda import (
    ANCHOR_EVERY,
    LEAD_LAUNCHES,
    SHIM_BYTES,
    Anchor,
    RunnerEnqueued,
    RunnerModule,
    RunnerReplays,
    RunnerWaited,
)
from kerneltui.judge.pairs import EMPTY_MOST_S, TAKEN, is_disturbed, race
from kerneltui.judge.runners import Runner, RunnerSilent

CUDA = torch.device("cuda")
RING = 9
EACH_S = 0.0002


class Device:
    """What a runner says and how long it takes: launches of EACH_S, of which it claims a share."""

    def __init__(self, share: float, *, again: float = 1.0, share_of_many: float | None = None) -> None:
        self.share = share
        self.share_of_many = share_of_many or share  # where it is asked for more launches than there are entries
        self.shims: list[list[int]] = []
        self.again = again  # of the time, for entries that were visited since they were renewed
        self.process = type("Process", (), {"pid": 1 << 27})()
        self.order: list[int] = []
        self.lined: list[int] = []
        self.visited: set[int] = set()
        self.answer: dict[str, Any] = {}

    def ask(self, operation: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        self.send(operation, deadline_s, **fields)
        return self.answer

    def send(self, operation: str, deadline_s: float, **fields: Any) -> None:
        self.answer = {}
        if operation == "chain":
            self.order, self.answer = fields["order"], {"chained": True}
        elif operation == "shift_scratch":
            self.shims.append(fields["sizes"])
        elif operation == "line_up":
            self.lined = fields["order"]
        elif operation == "replay":
            self.answer = self.spend(self.order * fields["repeat"])
        elif operation == "slice":
            run_up = fields.get("run_up", 0)
            self.spend(self.lined[:run_up])
            self.answer = self.spend(self.lined[run_up:])
        elif operation == "calls":
            self.answer = self.spend(self.lined)
        elif operation == "lead_in":
            self.answer = self.spend([RING - 1] * LEAD_LAUNCHES)

    def receive(self, deadline_s: float, *, awake_s: float = 0.0) -> dict[str, Any]:
        return self.answer

    def spend(self, entries: list[int]) -> dict[str, Any]:
        spent = 0.0
        for entry in entries:
            spent += EACH_S * (self.again if entry in self.visited else 1.0)
            self.visited.add(entry)
        end = time.perf_counter() + spent
        while time.perf_counter() < end:
            pass
        share = self.share if len(entries) <= RING else self.share_of_many
        return {"elapsed_ns": spent * share * 1e9, "code": 0}


class Between:
    """What is renewed is new to the device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.audits = 0

    def renew(self, entries: Any, *, audit: bool = True) -> None:
        self.device.visited -= set(entries)

    def audit(self) -> None:
        self.audits += 1


def replays(device: Device) -> RunnerReplays:
    return RunnerReplays(device, RING, lambda: 10.0, Between(device), EACH_S)  # type: ignore[arg-type]


def test_a_slice_meets_every_entry_once_and_new() -> None:
    lazy = Device(1.0, again=0.01)
    side = replays(lazy)
    for _ in range(3):
        found = side.slice(1000)
        assert RING - 1 == found.launches
        assert pytest.approx(EACH_S * 1e6) == found.each_us, "what is kept from the last turn helps nobody"
    assert sorted(side.order) == list(range(RING - 1))


@pytest.mark.parametrize("kind", [RunnerEnqueued, RunnerWaited])
def test_calls_meet_no_entry_twice(kind: type[RunnerEnqueued]) -> None:
    lazy = Device(1.0, again=0.01)
    side = kind(lazy, RING, lambda: 10.0, Between(lazy))  # type: ignore[arg-type]
    assert RING - 1 == side.slice(1000).launches
    assert pytest.approx(EACH_S * 1e6) == side.slice(1000).each_us


def test_many_turns_at_once_tell_a_slow_clock() -> None:
    honest, slow = replays(Device(1.0)), replays(Device(0.6))
    for side in (honest, slow):
        side.weigh_empty()
    assert "" == honest.long_doubt(honest.slice(1).each_us)
    assert "its clock is slow" in slow.long_doubt(slow.slice(1).each_us)


@pytest.mark.parametrize("kind", [RunnerEnqueued, RunnerModule])
def test_many_calls_without_a_pause_tell_a_slow_clock(kind: type[RunnerEnqueued]) -> None:
    def doubt_of(device: Device) -> str:
        side = kind(device, RING, lambda: 10.0, Between(device))  # type: ignore[arg-type]
        side.weigh_empty()
        return side.long_doubt(side.slice(RING).each_us)

    assert "" == doubt_of(Device(1.0))
    assert "" == doubt_of(Device(1.0, again=0.5)), "what is faster the second time is no lie"
    assert "by its own" in doubt_of(Device(0.93)), "a slice of one turn is too short to show this"
    assert "of single turns" in doubt_of(Device(0.75, share_of_many=1.0)), "honest only where it is watched"
    assert "no clock can measure" in doubt_of(Device(0.93, share_of_many=math.nan))
    assert "yet only" in doubt_of(Device(0.93, share_of_many=9.0)), "what it claims too much hides nothing"
    assert "" == kind(Device(1.0), RING, lambda: 10.0, Between(Device(1.0))).long_doubt(math.nan)  # type: ignore[arg-type]


def test_a_module_finds_its_scratch_memory_elsewhere_in_every_slice() -> None:
    device = Device(1.0)
    side = RunnerModule(device, RING, lambda: 10.0, Between(device))  # type: ignore[arg-type]
    for _ in range(3):
        side.slice(RING)
    assert 3 == len({tuple(sizes) for sizes in device.shims})
    assert all(size > 0 and size % SHIM_BYTES == 0 for sizes in device.shims for size in sizes)


@pytest.mark.parametrize(("share", "pairs"), [(1.0, 32), (0.5, 8)])
def test_ratios_near_one_are_looked_at_longer(share: float, pairs: int) -> None:
    """`share` of what eager takes is what the candidate takes; both are honest."""
    candidate = Device(1.0)

    class Eager:
        def slice(self, launches: int) -> Slice:
            spent = launches * EACH_S / share
            return Slice(claimed_s=spent, wall_s=spent, launches=launches)

    side = RunnerModule(candidate, RING, lambda: 10.0, Between(candidate))  # type: ignore[arg-type]
    found = race(Eager(), side, budget_s=20.0, beam_us=None, width=0.005, near_longer=True)
    assert pairs == len(found.candidate_us)
    assert "" == found.doubt


class Uneven:
    """A side that takes EACH_S a launch, off by up to `share` and a little more with every slice."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.slices = 0

    def slice(self, launches: int) -> Slice:
        self.slices += 1
        spent = launches * EACH_S * (1 + self.share * (-1) ** self.slices * (1 + self.slices / 1000))
        return Slice(claimed_s=spent, wall_s=spent, launches=launches)


def test_an_uneven_ratio_near_one_is_looked_at_until_it_is_fine() -> None:
    device = Device(1.0)
    side = RunnerModule(device, RING, lambda: 10.0, Between(device))  # type: ignore[arg-type]
    found = race(Uneven(0.004), side, budget_s=1.0, beam_us=None, width=0.005, near_longer=True)
    assert len(found.candidate_us) > 32
    found = race(Uneven(0.004), side, budget_s=1.0, beam_us=None, width=0.005)
    assert 8 == len(found.candidate_us)


def test_pairs_go_on_until_those_that_count_are_most() -> None:
    device, looks = Device(1.0), 0

    def disturbed() -> str:
        nonlocal looks
        looks += 1
        return "a neighbour" if looks <= 5 else ""

    side = replays(device)
    found = race(Uneven(0.0), side, budget_s=20.0, beam_us=None, width=0.005, disturbed=disturbed)
    assert 5 == found.dropped
    assert 12 == len(found.candidate_us), "eight would be settled, with more than 30 % dropped"
    assert not is_disturbed(found)


@pytest.mark.parametrize("whose", ["baseline", "candidate"])
def test_pairs_in_which_others_had_the_cores_are_dropped(whose: str) -> None:
    """Every third slice of one side takes three times as long, and the kernel says why."""

    class Sharing:
        def __init__(self, shares: bool) -> None:
            self.shares = shares
            self.slices = 0

        def slice(self, launches: int) -> Slice:
            self.slices += 1
            spent = launches * EACH_S
            lost = 2 * spent if self.shares and self.slices % 3 == 0 else 0.0
            return Slice(claimed_s=spent + lost, wall_s=spent + lost, launches=launches, taken_s=lost)

    class Candidate(RunnerModule):
        def slice(self, launches: int) -> Slice:
            return sharing.slice(launches)

    sharing, device = Sharing(whose == "candidate"), Device(1.0)
    side = Candidate(device, RING, lambda: 10.0, Between(device))  # type: ignore[arg-type]
    found = race(Sharing(whose == "baseline"), side, budget_s=20.0, beam_us=None, width=0.005)
    assert {TAKEN} == found.disturbances
    assert 0 < found.dropped < len(found.candidate_us)
    assert [1.0] * len(found.candidate_us) == pytest.approx(
        [base / mine for base, mine in zip(found.baseline_us, found.candidate_us, strict=True)]
    )


def test_an_answer_is_looked_for_without_sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waking up late would pass for time of a short slice."""
    read, write = os.pipe()
    runner = Runner.__new__(Runner)
    runner.buffer, runner.answers, runner.watch = b"", read, lambda: None  # type: ignore[method-assign]
    waits: list[float] = []
    wait = select.select

    def counting(*arguments: Any) -> Any:
        waits.append(arguments[3])
        return wait(*arguments)

    monkeypatch.setattr(select, "select", counting)
    try:
        with pytest.raises(RunnerSilent):
            runner.receive(0.02, awake_s=1.0)
        assert {0} == set(waits)
        waits.clear()
        with pytest.raises(RunnerSilent):
            runner.receive(0.02, awake_s=0.01)
        assert 0 < waits[-1] <= 0.01, "it sleeps for what is left"
        os.write(write, b'{"elapsed_ns": 3}\n')
        assert {"elapsed_ns": 3} == runner.receive(1.0, awake_s=1.0)
    finally:
        os.close(read)
        os.close(write)


def test_what_is_faster_the_second_time_is_no_lie() -> None:
    side = replays(Device(1.0, again=0.3))
    assert "" == side.long_doubt(side.slice(1).each_us)


def test_an_empty_slice_says_how_much_may_pass_unclaimed() -> None:
    side = replays(Device(1.0))
    side.weigh_empty()
    assert 0 < side.slack_s <= EMPTY_MOST_S


@pytest.mark.parametrize(("set_bytes", "sets"), [(4 << 10, RING_MOST), (128 << 20, 17), (2 << 30, 2), (20 << 30, 2)])
def test_a_ring_on_a_gpu_is_long_enough_for_a_turn(set_bytes: int, sets: int) -> None:
    found = ring_size(set_bytes, 60 << 20, 120 << 30, CUDA)
    assert sets == found
    assert found >= RING_LEAST
    assert found * set_bytes >= TURN_BYTES_CUDA or found == RING_MOST


def test_a_small_gpu_keeps_most_of_its_memory() -> None:
    assert 8 << 30 >= 7 * (64 << 20) * ring_size(64 << 20, 40 << 20, 8 << 30, CUDA)


def test_a_warm_time_is_believed_only_where_it_can_be_true() -> None:
    warm, lying, broken = Device(1.0, again=0.5), Device(3.0), Device(math.nan)
    assert pytest.approx(EACH_S * 0.5e6) == replays(warm).warm_us(EACH_S * 1e6)
    assert replays(lying).warm_us(EACH_S * 1e6) is None, "it claims more than passed"
    assert replays(broken).warm_us(EACH_S * 1e6) is None


class Times(Anchor):
    """An anchor whose two sides take what a test says."""

    def __init__(self, theirs: list[float]) -> None:
        self.asked, self.found, self.ratios, self.answers = 0, "", [], iter(theirs)

    def ours_s(self) -> float:
        return 1.0

    def theirs_s(self) -> float:
        return next(self.answers)


def test_pairs_are_disturbed_until_both_sides_agree_again() -> None:
    anchor = Times([1.003, 1.2, math.nan, 0.999])
    found = [bool(anchor.disagreement()) for _ in range(4 * ANCHOR_EVERY)]
    assert [False] * ANCHOR_EVERY + [True] * 2 * ANCHOR_EVERY + [False] * ANCHOR_EVERY == found


@pytest.mark.parametrize(("theirs", "result"), [([1.003, 0.998], "pass"), ([0.8, 0.8], "fail"), ([math.nan], "fail")])
def test_clocks_that_do_not_agree_are_a_failed_check(theirs: list[float], result: str) -> None:
    anchor = Times(theirs)
    assert anchor.check() is None
    for _ in range(ANCHOR_EVERY * (len(theirs) - 1) + 1):
        anchor.disagreement()
    check = anchor.check()
    assert check is not None
    assert result == check.result
