"""Eager in a process of its own, as a module on a GPU meets it: the real process, on a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from kerneltui.errors import MachineError
from kerneltui.judge import lanes, timing
from kerneltui.judge.bench import Bench, Set, Workload
from kerneltui.judge.beside import EagerProcess, RunnerEager
from kerneltui.judge.lanes import ModuleLane
from kerneltui.judge.lint import check_reference
from kerneltui.judge.reference import Reference
from kerneltui.judge.runners import children_of
from kerneltui.judge.tolerance import PROFILES
from kerneltui.runner import module

CPU = torch.device("cpu")
REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(16, 32)]


def get_init_inputs():
    return [32]
"""
SHY = 'if __name__ == "candidate":\n    raise RuntimeError("not here")\n'


class Here:
    """A problem, its ring and the lane of its modules."""

    def __init__(self, source: str) -> None:
        reference = Reference(source, "reference.py", CPU)
        lint = check_reference(reference, PROFILES["crfm"], allow_nan=False)
        work = Workload(reference=reference, module=lint.module, signature=lint.signature, symbols=())
        self.bench = Bench([work], CPU, cache_bytes=1 << 15, free_bytes=1 << 26)
        self.ring: list[Set] = [self.bench.fill(slot, work, "random") for slot in self.bench.slots]
        self.lane = ModuleLane(1, CPU, self.bench.arena, None)
        self.process = EagerProcess(self.lane.fresh)

    def open(self) -> None:
        self.process.settle()
        spec = self.lane.words(self.bench, self.bench.main.reference.source, "Model")
        self.process.open(spec, [slot.offsets for slot in self.bench.slots])

    def side(self) -> RunnerEager:
        return RunnerEager(self.process, len(self.ring), Renewals())  # type: ignore[arg-type]

    def close(self) -> None:
        self.process.close()
        self.bench.close()


class Renewals:
    """Nothing is renewed."""

    def renew_for_eager(self, entries: Sequence[int]) -> None:
        pass


@pytest.fixture
def here(request: pytest.FixtureRequest) -> Iterator[Here]:
    made = Here(getattr(request, "param", "") + REFERENCE)
    yield made
    made.close()


def test_eager_in_its_own_process_is_eager(here: Here) -> None:
    here.process.begin()
    here.open()
    assert here.process.is_open, here.process.refusal
    side = here.side()
    side.weigh_empty()
    found = side.slice(1000)
    assert len(here.ring) - 1 == found.launches, "each entry once, and one that leads in"
    assert 0 < found.claimed_s <= found.wall_s
    entries = list(range(len(here.ring)))
    assert "" == side.runner.ask("deliver", 10.0, entries=entries)["wrong"]
    for filled in here.ring:
        (expected,) = filled.run()
        torch.testing.assert_close(filled.slot.written[0], expected)


def test_it_stays_until_it_is_closed_and_takes_nobody_with_it(here: Here) -> None:
    before = children_of(os.getpid())
    here.process.begin()
    runner = here.process.runner
    here.process.begin()
    assert runner is here.process.runner is not None
    other = here.lane.fresh()  # a candidate's, which started later
    here.open()
    here.open()
    here.process.close()
    assert other.is_alive()
    assert not psutil.pid_exists(runner.process.pid)
    other.close()
    assert before == children_of(os.getpid())


def test_it_is_closed_to_processes_of_the_same_user() -> None:
    """A candidate's is one, on a GPU."""
    words = "from kerneltui.runner.__main__ import warm_up; import ctypes; kind = {'kind': 'module', 'device': 'cpu'}; "
    ask = "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    program = f"{words}\nwarm_up(kind)\n{ask}warm_up({{**kind, 'closed': True}})\n{ask}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ["1", "0"] == done.stdout.split()


def test_eager_on_a_gpu_is_closed_and_candidates_are_not(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    monkeypatch.setattr(lanes, "most_spares", lambda: 1)
    monkeypatch.setattr(ModuleLane, "fresh", lambda lane, *, closed=False: made.append(closed))
    lane = ModuleLane(1, torch.device("cuda"), here.bench.arena, None)
    assert lane.eager is not None
    lane.eager.begin()
    lane.spare.take()
    assert [True, False] == made


@pytest.mark.parametrize("here", [SHY], indirect=True)
def test_a_reference_that_cannot_be_loaded_there_is_timed_in_the_judge(here: Here) -> None:
    here.process.begin()
    here.open()
    assert not here.process.is_open
    assert "not here" in here.process.refusal
    assert here.process.runner is None
    here.process.begin()
    assert here.process.runner is None, "it would end the same way"


@pytest.mark.parametrize("when", ["while it is timed", "between two candidates"])
def test_a_process_that_was_killed_is_the_machines_fault_and_comes_again(here: Here, when: str) -> None:
    def kill() -> None:
        assert here.process.runner is not None
        here.process.runner.process.send_signal(signal.SIGKILL)
        here.process.runner.process.wait()

    here.process.begin()
    here.open()
    side = here.side()
    kill()
    if when == "while it is timed":
        with pytest.raises(
            MachineError, match=r"eager beside a module failed \(its own process ended with -9\).*judge this one again"
        ):
            side.slice(4)
    here.process.begin()
    here.open()
    assert here.process.is_open
    assert here.side().slice(4).launches


def test_a_trial_says_where_eager_was_timed(here: Here) -> None:
    notes: list[Any] = []
    here.lane.eager = here.process
    here.process.refusal = "it has only one home"
    trial: Any = type(
        "Trial", (), {"lane": here.lane, "bench": here.bench, "note": lambda self, *words: notes.append(words)}
    )()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "CallsEager", lambda ring, waited: (ring, waited))
        assert (here.ring, False) == timing.eager_beside(trial, here.ring, Renewals())  # type: ignore[arg-type]
    assert "it has only one home" in notes[0][2]


@pytest.mark.parametrize(("line", "clears"), [("", 1), ("# uses a CUDA Graph\n", 0), ("# calls cublasGemmEx\n", 0)])
def test_a_workspace_whose_address_may_be_kept_stays(
    line: str, clears: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cleared: list[int] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "clear_workspaces", lambda: cleared.append(1))
    for name in ("open_block", "step_down"):
        monkeypatch.setattr(module, name, lambda *words: [])
    monkeypatch.setattr(module.confinement, "limit", lambda **words: [])
    monkeypatch.setattr(module.confinement, "forbid_nosy_calls", list)
    spec = {"device": "cpu", "tensors": [], "threads": torch.get_num_threads(), "memory_bytes": None, "file_bytes": 0}
    source = line + "import torch\nclass Model(torch.nn.Module): pass\n"
    lane = module.ModuleLane(
        {**spec, "user": None, "source": source, "name": "Model", "arguments": [], "named": {}, "state": []}
    )
    lane.shift_scratch([512])
    assert clears == len(cleared)
    monkeypatch.setattr(module, "captured", [True])
    lane.shift_scratch([512])
    assert clears == len(cleared), "PyTorch captured a graph meanwhile"
