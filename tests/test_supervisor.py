"""Candidates through the whole evaluator on this host: policy, build, judge, retries, cancelling, closing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kerneltui.errors import DeviceLost, JudgeFailed, ProblemError
from kerneltui.evaluator.devices import cpu_device
from kerneltui.evaluator.launches import stated_launches
from kerneltui.evaluator.locks import alone_on
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.records import Badge, Candidate, Language, Outcome, Stage, VariantState, Verdict
from tests.judging import Bench

REFERENCE = """
import torch
import torch.nn as nn

ROWS, WIDTH = 64, 96


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n, bias=False)
        self.second = nn.Linear(n, n, bias=False)

    def forward(self, x):
        return self.first(x) - self.second(x)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""
GOOD = """#include "contract.h"
extern "C" int two_weights(const float* x, const float* first, const float* second, float* out, void*) {
    for (int64_t r = 0; r < x_dim0; ++r)
        for (int64_t c = 0; c < x_dim1; ++c) {
            double sum = 0;
            for (int64_t k = 0; k < x_dim1; ++k)
                sum += double(x[r * x_dim1 + k]) * (first[c * x_dim1 + k] - second[c * x_dim1 + k]);
            out[r * x_dim1 + c] = float(sum);
        }
    return 0;
}
"""
ENDLESS = GOOD.replace("return 0;", "for (volatile long i = 0;; ++i) {}")
MODULE = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.second = nn.Linear(n, n, bias=False)
        self.NAME = nn.Parameter(torch.empty(n, n).uniform_(-0.1, 0.1))

    def forward(self, x):
        return x @ (self.NAME - self.second.weight).t()
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("supervisor"), REFERENCE, name="two_weights")
    yield made
    made.close()


def cpp(source: str) -> Candidate:
    return Candidate(source=source, language=Language.CPP)


def test_prepared_tells_signature_baseline_and_floor(bench: Bench) -> None:
    prepared = bench.prepared
    assert prepared.contract is not None
    names = [tensor.name for tensor in prepared.contract.tensors]
    assert ["x", "first_weight", "second_weight", "out"] == names
    assert prepared.baselines_us["eager"] > 0
    assert prepared.floor_us is not None and prepared.floor_us > 0
    assert "ring of" in prepared.facts["flush"]


def test_a_right_candidate_travels_to_its_verdict(bench: Bench) -> None:
    states: list[VariantState] = []
    verdict = bench.run(bench.evaluator.judge(cpp(GOOD), on_state=lambda state, worker: states.append(state)))
    assert (Outcome.CORRECT, Stage.DONE) == (verdict.outcome, verdict.stage), verdict.message
    assert [VariantState.COMPILING, VariantState.QUEUED] == states[:2]
    assert VariantState.RUNNING == states[-1]
    assert verdict.world.startswith(bench.device.world)
    assert bench.prepared.contract is not None and bench.prepared.contract.digest in verdict.world
    assert verdict.device == bench.device and verdict.compile_s is not None
    names = {check.name for check in verdict.checks}
    assert {
        "policy",
        "outputs",
        "deterministic",
        "guards intact",
        "inputs unchanged",
        "controls",
        "wall clock",
    } <= names
    assert verdict.measurement is not None
    assert "fp32" == verdict.measurement.precision


def test_certified_is_measured_again_by_a_fresh_judge(bench: Bench) -> None:
    bench.run(bench.evaluator.judge(cpp(GOOD + "// one that leaves its judge used\n")))
    before = bench.evaluator.bays[0].judge.process
    verdict = bench.run(bench.evaluator.certify(cpp(GOOD)))
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert verdict.measurement is not None
    # A machine busy with other things may leave too few pairs for a ratio; then nothing is certified.
    assert verdict.measurement.badge in (Badge.CERTIFIED, Badge.UNTRUSTED)
    assert (Badge.CERTIFIED == verdict.measurement.badge) == bool(verdict.measurement.speedup)
    after = bench.evaluator.bays[0].judge.process
    assert before is not None and after is not None and before.pid != after.pid


def test_weights_that_were_built_in_are_found_out(bench: Bench) -> None:
    wrong = GOOD.replace("first[c * x_dim1 + k] - second[c * x_dim1 + k]", "0.01f")
    verdict = bench.run(bench.evaluator.judge(cpp(wrong)))
    assert Outcome.MISMATCH == verdict.outcome


def test_compile_errors_and_refusals_are_verdicts(bench: Bench) -> None:
    broken = bench.run(bench.evaluator.judge(cpp(GOOD.replace("double sum", "doubel sum"))))
    assert (Outcome.COMPILE_ERROR, Stage.COMPILE) == (broken.outcome, broken.stage)
    forking = GOOD.replace("return 0;", "fork();\n  return 0;").replace("#include", "#include <unistd.h>\n#include", 1)
    refused = bench.run(bench.evaluator.judge(cpp(forking)))
    assert (Outcome.SUSPECT, Stage.POLICY) == (refused.outcome, refused.stage)


def test_parameters_of_a_module_go_by_name(bench: Bench) -> None:
    lost = Candidate(source=MODULE.replace("NAME", "w_first"), language=Language.PYTHON)
    verdict = bench.run(bench.evaluator.judge(lost))
    assert (Outcome.LAUNCH_ERROR, Stage.LOAD) == (verdict.outcome, verdict.stage)
    assert "parameter `w_first` has no counterpart; expected first.weight, second.weight" == verdict.message


def test_a_module_with_other_creation_order_is_right(bench: Bench) -> None:
    source = MODULE.replace(
        "self.NAME = nn.Parameter(torch.empty(n, n).uniform_(-0.1, 0.1))", "self.first = nn.Linear(n, n, bias=False)"
    ).replace("NAME", "first.weight")
    verdict = bench.run(bench.evaluator.judge(Candidate(source=source, language=Language.PYTHON)))
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert verdict.measurement is not None and "module" == verdict.measurement.method


NOSY = """
import ctypes
import os

import torch
import torch.nn as nn

libc = ctypes.CDLL(None, use_errno=True)


def try_to_read(pid):
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
        return "open"
    except OSError as error:
        return os.strerror(error.errno)


def try_to_trace(pid):
    return "open" if libc.ptrace(16, pid, 0, 0) == 0 else os.strerror(ctypes.get_errno())


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n, bias=False)
        self.second = nn.Linear(n, n, bias=False)
        print("memory:", try_to_read(os.getppid()), "tracing:", try_to_trace(os.getppid()), flush=True)

    def forward(self, x):
        return self.first(x) - self.second(x)
"""


def test_a_module_cannot_look_into_its_judge(bench: Bench) -> None:
    verdict = bench.judge_module(NOSY)
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert "memory: Permission denied tracing: Operation not permitted" in verdict.log


def test_eager_against_itself_is_not_twice_as_slow_in_a_module(bench: Bench) -> None:
    verdict = bench.judge_module(REFERENCE.replace("class Model", "class ModelNew"))
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert verdict.measurement is not None and verdict.measurement.warm_us is not None
    assert 0.7 < verdict.measurement.speedup["eager"].ratio < 1.4


def test_an_exception_in_a_module_is_its_own(bench: Bench) -> None:
    source = MODULE.replace("NAME", "first.weight").replace("return x @", "raise KeyError('tile')\n        return x @")
    source = source.replace(
        "self.first.weight = nn.Parameter(torch.empty(n, n).uniform_(-0.1, 0.1))",
        "self.first = nn.Linear(n, n, bias=False)",
    )
    verdict = bench.run(bench.evaluator.judge(Candidate(source=source, language=Language.PYTHON)))
    assert Outcome.LAUNCH_ERROR == verdict.outcome
    assert "KeyError: 'tile'" in verdict.message
    assert "Traceback" in verdict.log


def test_a_killed_judge_costs_a_retry_and_nothing_else(bench: Bench) -> None:
    async def kill_then_judge() -> Outcome:
        process = bench.evaluator.bays[0].judge.process
        assert process is not None
        for child in psutil.Process(process.pid).children():
            os.kill(child.pid, signal.SIGKILL)
        return (await bench.evaluator.judge(cpp(GOOD), full=False, beam_us=1e-6)).outcome

    assert Outcome.CORRECT == bench.run(kill_then_judge())
    assert [] == bench.leftovers()


def test_a_judge_that_always_dies_is_the_machine_s_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dying(operation: str, deadline_s: float, **fields: object) -> dict[str, object]:
        raise JudgeFailed("The judge on cpu:0 ended.")

    monkeypatch.setattr(bench.evaluator.bays[0].judge, "ask", dying)
    with pytest.raises(JudgeFailed, match="the candidate is not judged"):
        bench.run(bench.evaluator.judge(cpp(GOOD)))


def test_cancelling_ends_the_work(bench: Bench) -> None:
    async def cancel() -> float:
        running = asyncio.Event()
        work = bench.evaluator.judge(
            cpp(ENDLESS), on_state=lambda state, worker: running.set() if state is VariantState.RUNNING else None
        )
        task = asyncio.create_task(work)
        await running.wait()
        await asyncio.sleep(0.5)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - start

    assert bench.run(cancel()) < 2.0
    assert bench.evaluator.bays[0].judge.process is None
    verdict = bench.run(bench.evaluator.judge(cpp(GOOD), full=False, beam_us=1e-6))
    assert Outcome.CORRECT == verdict.outcome
    assert [] == bench.leftovers()


def test_a_stopped_runner_dies_with_its_judge_even_when_nobody_is_left_to_kill_it(bench: Bench) -> None:
    async def kill_the_keeper() -> list[psutil.Process]:
        running = asyncio.Event()
        work = bench.evaluator.judge(
            cpp(ENDLESS), on_state=lambda state, worker: running.set() if state is VariantState.RUNNING else None
        )
        task = asyncio.create_task(work)
        await running.wait()
        keeper = bench.evaluator.bays[0].judge.process
        runners: list[psutil.Process] = []
        while not runners:
            assert keeper is not None and not task.done()
            await asyncio.sleep(0.1)
            below = psutil.Process(keeper.pid).children(recursive=True)
            runners = [process for process in below if process.uids().real not in (0, os.getuid())]
        runners[0].suspend()
        os.kill(keeper.pid, signal.SIGKILL)
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return runners

    if os.getuid() != 0:
        pytest.skip("only root can run a candidate as another user, which undoes a parent-death signal")
    _, alive = psutil.wait_procs(bench.run(kill_the_keeper()), timeout=3)
    assert [] == alive
    assert Outcome.CORRECT == bench.run(bench.evaluator.judge(cpp(GOOD), full=False, beam_us=1e-6)).outcome


def test_a_second_session_waits_and_says_for_whom(bench: Bench) -> None:
    said: list[str] = []

    async def both() -> list[str]:
        async with alone_on(bench.device, said.append):
            waiting = asyncio.create_task(hold())
            await asyncio.sleep(2.6)
            assert not waiting.done()
        await waiting
        return said

    async def hold() -> None:
        async with alone_on(bench.device, said.append):
            pass

    # Whoever else has the device before is waited for as well, and named.
    (words,) = (words for words in bench.run(both()) if str(os.getpid()) in words)
    assert words.startswith(f"waiting for {bench.device.name}")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two devices need two cores")
def test_two_devices_share_the_work_and_one_that_is_lost_returns_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    said: list[str] = []
    bench = Bench(tmp_path, REFERENCE, name="two_weights", device=cpu_device(f"{cores[0]}"))
    evaluator = Evaluator(
        bench.problem,
        [cpu_device(f"{core}") for core in cores],
        settings=bench.evaluator.settings,
        cache=tmp_path / "cache",
        say=said.append,
    )
    running: set[str] = set()
    together: list[int] = []

    async def judge(number: int) -> Verdict:
        at = ""

        def hear(state: VariantState, worker: str) -> None:
            nonlocal at
            if state is VariantState.RUNNING:
                at = worker
                running.add(at)
                together.append(len(running))

        source = f"// {number}\n{GOOD}"
        try:
            return await evaluator.judge(cpp(source), full=False, beam_us=1e-6, on_state=hear)
        finally:
            running.discard(at)

    async def all_of_them(numbers: range) -> list[Verdict]:
        return await asyncio.gather(*map(judge, numbers))

    found = bench.run(all_of_them(range(3)))
    assert [Outcome.CORRECT] * 3 == [verdict.outcome for verdict in found]
    assert {f"cpu:{core}" for core in cores} == {verdict.device.id for verdict in found if verdict.device}
    assert 2 == max(together)
    lost = evaluator.bays[0]

    async def losing(operation: str, deadline_s: float, **fields: object) -> dict[str, object]:
        raise DeviceLost("It fell off the bus.")

    monkeypatch.setattr(lost.judge, "ask", losing)
    found = bench.run(all_of_them(range(3, 6)))
    assert [Outcome.CORRECT] * 3 == [verdict.outcome for verdict in found]
    assert {evaluator.bays[1].device.id} == {verdict.device.id for verdict in found if verdict.device}
    assert [f"{lost.device.id} is lost and its work goes to the others: It fell off the bus."] == said
    monkeypatch.setattr(evaluator.bays[1].judge, "ask", losing)
    with pytest.raises(DeviceLost):  # the last one is not given up, and says what happened each time
        bench.run(judge(6))
    bench.run(evaluator.aclose())
    bench.close()


def test_problems_that_are_no_yardstick_stop_everything(tmp_path: Path) -> None:
    random = REFERENCE.replace("return self.first(x)", "return torch.rand_like(x) + self.first(x)")
    with pytest.raises(ProblemError, match="does not agree with itself"):
        Bench(tmp_path, random, name="random_reference")


def test_closing_leaves_nothing(tmp_path: Path) -> None:
    made = Bench(tmp_path, REFERENCE, name="two_weights")
    process = made.evaluator.bays[0].judge.process
    assert process is not None
    start = time.monotonic()
    made.close()
    assert time.monotonic() - start < 2.0
    assert not psutil.pid_exists(process.pid)


def test_launch_sizes_are_read_from_the_source() -> None:
    source = """
#define BLOCK 256
constexpr int TILE = 4 * BLOCK;
k<<<(N + BLOCK - 1) / BLOCK, BLOCK, 200 * 1024, stream>>>(x, out);
tiled<float, 4><<<grid, dim3(32, 32), TILE * sizeof(float), stream>>>(x);
wide<<<1, 2048>>>(x);
"""
    found = [(launch["kernel"], launch["block"], launch["shared"]) for launch in stated_launches(source, {"N": 1000})]
    assert [("k", 256, 204800), ("tiled", 1024, None), ("wide", 2048, 0)] == found
