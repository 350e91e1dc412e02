"""Every way in which a candidate can go wrong at run time: the right words for it, and no harm to the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerneltui.records import Outcome, Stage
from tests.judging import Bench

FAULTS = Path(__file__).parent / "faults"
REFERENCE = """
import torch
import torch.nn as nn

ROWS, WIDTH = 48, 333


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
"""
GOOD = (FAULTS / "good.cpp").read_text()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("faults"), REFERENCE, name="fault")
    yield made
    made.close()


CASES = [
    ("segfault", Outcome.LAUNCH_ERROR, r"crashed when it was called with SIGSEGV"),
    ("abort", Outcome.LAUNCH_ERROR, r"SIGABRT: it called abort"),
    ("exit_zero", Outcome.LAUNCH_ERROR, r"ended itself when it was called, with exit status 0, and gave no answer"),
    ("throws", Outcome.LAUNCH_ERROR, r"C\+\+ exception left its function .*std::runtime_error: no such tile"),
    ("stack_overflow", Outcome.LAUNCH_ERROR, r"SIGSEGV: .*ran out of stack"),
    ("division", Outcome.LAUNCH_ERROR, r"SIGFPE: a whole number was divided by zero"),
    ("constructor_crash", Outcome.LAUNCH_ERROR, r"crashed while it was loaded with SIGSEGV"),
    ("returns_an_error", Outcome.LAUNCH_ERROR, r"fault returned 3"),
    ("memory", Outcome.OUT_OF_MEMORY, r"more host memory than there is"),
    ("greedy_workspace", Outcome.OUT_OF_MEMORY, r"asks for 1,073,741,824 MiB of workspace"),
    ("imitates", Outcome.MISMATCH, r"15,984 elements of `out` were never written"),
    ("does_nothing", Outcome.MISMATCH, r"15,984 elements of `out` were never written \(everywhere\)"),
    ("kills_its_parent", Outcome.MISMATCH, r"never written"),
    ("misses_the_last", Outcome.MISMATCH, r"1 elements of `out` were never written"),
    ("one_past_the_end", Outcome.MISMATCH, r"outside its buffers: 4 bytes past the end of `out`"),
    ("one_before_the_start", Outcome.MISMATCH, r"outside its buffers: 4 bytes before the start of `out`"),
    ("workspace_past_the_end", Outcome.MISMATCH, r"outside its buffers: 1 bytes past the end of the workspace"),
    ("changes_input", Outcome.MISMATCH, r"wrote to its input `x`"),
    ("last_tile", Outcome.MISMATCH, r"\(last tile of 64 columns\)"),
    ("every_33rd", Outcome.MISMATCH, r"\(every 33rd column\)"),
    ("row_zero", Outcome.MISMATCH, r"\(row 0 only\)"),
    ("nan", Outcome.MISMATCH, r"1 of 15,984 elements of `out` are wrong .*found nan"),
    ("infinite", Outcome.MISMATCH, r"found inf"),
    ("first_call_only", Outcome.MISMATCH, r"on inputs: random 2"),
    ("same_inputs_twice", Outcome.MISMATCH, r"second one with equal inputs: it keeps state"),
    ("workspace_kept", Outcome.MISMATCH, r"wrong"),
    ("works_later", Outcome.SUSPECT, r"it works after its calls have returned"),
    ("lazy_later", Outcome.SUSPECT, r"right when checked, wrong when timed"),
]


@pytest.mark.parametrize(("name", "outcome", "words"), CASES, ids=[case[0] for case in CASES])
def test_fault_gets_its_own_words(bench: Bench, name: str, outcome: Outcome, words: str) -> None:
    verdict = bench.judge((FAULTS / f"{name}.cpp").read_text())
    assert (outcome, True) == (verdict.outcome, bool(re.search(words, verdict.message))), verdict.message
    assert [] == bench.leftovers()


def test_wrong_on_inputs_that_come_up_while_it_is_timed_is_a_mismatch(bench: Bench) -> None:
    source = (FAULTS / "some_inputs.cpp").read_text()
    for _ in range(12):  # one in three is found out by the checks already
        verdict = bench.judge(source)
        assert Outcome.MISMATCH == verdict.outcome, verdict.message
        if verdict.stage is Stage.TIME:
            break
    assert verdict.message.startswith("right on the inputs that were checked, wrong on others, timed or not: 1 of ")
    assert "worst at out[0, 7]" in verdict.message and 1 == verdict.errors[0].wrong
    assert [] == bench.leftovers()


@pytest.mark.parametrize("name", ["endless", "stubborn", "fork_bomb", "goes_silent"])
@pytest.mark.parametrize("filter", [True, False], ids=["filtered", "unfiltered"])
def test_what_never_ends_is_ended(bench: Bench, name: str, filter: bool) -> None:
    verdict = bench.judge((FAULTS / f"{name}.cpp").read_text(), filter=filter, deadline_s=1.0)
    silent = name == "goes_silent"
    wanted = (Outcome.LAUNCH_ERROR, Outcome.TIMEOUT) if silent else (Outcome.TIMEOUT,)
    assert verdict.outcome in wanted, verdict.message
    assert silent or verdict.message.startswith("no end within 1 s when it was called")
    assert verdict.run_s is not None and verdict.run_s < 5.0
    assert [] == bench.leftovers()


@pytest.mark.parametrize("filter", [True, False], ids=["filtered", "unfiltered"])
def test_orphans_are_found(bench: Bench, filter: bool) -> None:
    verdict = bench.judge((FAULTS / "orphan_then_exit.cpp").read_text(), filter=filter)
    assert Outcome.LAUNCH_ERROR == verdict.outcome
    assert [] == bench.leftovers()


def test_a_right_candidate_after_all_that(bench: Bench) -> None:
    verdict = bench.judge(GOOD)
    assert (Outcome.CORRECT, Stage.DONE, "") == (verdict.outcome, verdict.stage, verdict.message)
    assert verdict.measurement is not None and verdict.measurement.median_us > 0
    assert [] == bench.leftovers()


@pytest.mark.parametrize("name", ["talkative", "deletes_its_library"])
def test_odd_but_right_candidates_pass(bench: Bench, name: str) -> None:
    verdict = bench.judge((FAULTS / f"{name}.cpp").read_text(), quick=True)
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert len(verdict.log) < 200_000
    assert [] == bench.leftovers()


def test_made_up_answers_are_never_a_number(bench: Bench) -> None:
    verdict = bench.judge((FAULTS / "forges_answers.cpp").read_text())
    assert Outcome.CORRECT != verdict.outcome, verdict.message
    assert verdict.measurement is None or verdict.measurement.median_us == 0


def test_good_after_each_kind_of_death(bench: Bench) -> None:
    for name in ("segfault", "exit_zero", "memory", "one_past_the_end"):
        bench.judge((FAULTS / f"{name}.cpp").read_text())
        assert Outcome.CORRECT == bench.judge(GOOD, quick=True).outcome
