"""Runners that start before their candidate comes: there in time, out of every clock's way, gone with the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psutil
import pytest
from judging import Bench

from kerneltui.judge.lanes import Spare
from kerneltui.judge.runners import Runner, RunnerEnded
from kerneltui.records import Outcome

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
"""
KERNEL = """#include "contract.h"
extern "C" int relu(const float* x, float* out, void*) {
    for (int64_t i = 0; i < x_numel; ++i) out[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}
"""
MODULE = REFERENCE.replace("class Model", "class ModelNew")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("spares"), REFERENCE, name="relu")
    yield made
    made.close()


def waiting(bench: Bench) -> psutil.Process:
    (found,) = bench.waiting()
    return found


def test_the_next_modules_process_waits_outlives_others_and_ends_with_its_judge(bench: Bench) -> None:
    assert Outcome.CORRECT == bench.judge_module(MODULE).outcome
    first = waiting(bench)
    assert Outcome.CORRECT == bench.judge(KERNEL, quick=True).outcome
    assert first == waiting(bench)
    assert Outcome.CORRECT == bench.judge_module(MODULE).outcome
    second = waiting(bench)
    assert second != first and not first.is_running()
    assert [] == bench.leftovers(spare=True)

    second.kill()
    between = bench.judge(KERNEL, quick=True)
    assert Outcome.CORRECT == between.outcome, between.message
    assert Outcome.CORRECT == bench.judge_module(MODULE).outcome
    last, folder = waiting(bench), bench.folder / "scratch"
    bench.run(bench.evaluator.aclose())
    _, alive = psutil.wait_procs([last], timeout=5)
    assert alive == [] or alive[0].status() == psutil.STATUS_ZOMBIE  # nobody is left to hear of its end
    assert [] == list(folder.glob("*/kerneltui-runner-*"))


class Waiting:
    """A runner as a spare sees it."""

    def __init__(self, *, dies: bool = False) -> None:
        self.alive, self.dies, self.warming, self.closed, self.kept = True, dies, True, False, False

    def is_alive(self) -> bool:
        return self.alive

    def wait_until_warm(self, deadline_s: float) -> None:
        if self.dies:
            raise RunnerEnded(-9)
        self.warming = False

    def keep_what_is_there(self) -> None:
        self.kept = True

    def close(self) -> None:
        self.closed = True


def makes(*runners: Waiting) -> Callable[[], Runner]:
    left = iter(runners)
    return lambda: next(left)  # type: ignore[arg-type, return-value]


def test_a_clock_waits_until_it_has_started() -> None:
    runner = Waiting()
    spare = Spare(makes(runner))
    spare.settle()
    spare.keep()
    assert runner.warming
    spare.settle()
    assert not runner.warming
    spare.keep()  # there is one already
    assert spare.take() is runner and runner.kept  # type: ignore[comparison-overlap]


def test_one_that_ends_while_it_starts_is_put_away() -> None:
    dying, next_one = Waiting(dies=True), Waiting()
    spare = Spare(makes(dying, next_one))
    spare.keep()
    spare.settle()
    assert dying.closed and spare.waiting == []
    assert spare.take() is next_one  # type: ignore[comparison-overlap]


def batches(*, most: int, waits: list[bool]) -> list[int]:
    """How many start together each time, when the first of them is, or is not, wanted before it has started."""
    made: list[Waiting] = []

    def make() -> Runner:
        made.append(Waiting())
        return made[-1]  # type: ignore[return-value]

    spare, sizes = Spare(make, most), list[int]()
    for wait in waits:
        spare.keep()
        sizes.append(len(spare.waiting))
        if not wait:
            spare.settle()
        while spare.waiting:
            spare.take()
            spare.settle()
    return sizes


def test_there_are_more_of_them_where_candidates_come_faster_than_they_start() -> None:
    assert [1, 2, 3, 3, 3] == batches(most=3, waits=[True] * 5)
    assert [1, 1, 1] == batches(most=1, waits=[True] * 3)
    assert [1, 2, 3, 2, 1, 1] == batches(most=4, waits=[True, True, False, False, False, False])
