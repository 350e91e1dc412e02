"""What happens to a ring before each slice: nothing of before is right again, and eager still has an answer to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from kerneltui.judge.bench import Bench, Set, Workload
from kerneltui.judge.lint import check_reference
from kerneltui.judge.reference import Reference
from kerneltui.judge.renewal import AUDITS_FIRST, Renewal, secret_shift
from kerneltui.judge.tolerance import PROFILES

CPU = torch.device("cpu")
SOURCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(24))

    def forward(self, x, chosen):
        return torch.where(chosen > 0, x * self.scale, -x)


def get_inputs():
    return [torch.randn(16, 24), torch.randint(0, 2, (16, 24))]


def get_init_inputs():
    return []
"""


class Lane:
    """Nothing is in flight on a host."""

    def settle(self) -> None:
        pass


@dataclass
class Hearer:
    """What a trial is to a renewal."""

    bench: Bench
    lane: Lane = field(default_factory=Lane)
    audited: list[int] = field(default_factory=list)

    def audit_timed(self, entry: int, before: Sequence[torch.Tensor]) -> None:
        self.audited.append(entry)


@pytest.fixture(scope="module")
def bench() -> Bench:
    reference = Reference(SOURCE, "r.py", CPU)
    lint = check_reference(reference, PROFILES["kernelbench"], allow_nan=False)
    work = Workload(reference=reference, module=lint.module, signature=lint.signature, symbols=())
    return Bench([work], CPU, cache_bytes=8 * work.set_bytes // 3, free_bytes=1 << 28)


def rings(bench: Bench) -> tuple[list[Set], Hearer]:
    return [bench.fill(slot, bench.main, "random") for slot in bench.slots], Hearer(bench)


def test_no_answer_from_before_is_right_again(bench: Bench) -> None:
    ring, trial = rings(bench)
    assert len(ring) > 4
    renewal = Renewal(trial, ring)  # type: ignore[arg-type]
    before = [filled.run()[0].clone() for filled in ring]
    for _ in range(3):
        order = list(range(len(ring)))
        random.Random(4).shuffle(order)
        renewal.renew(order)
        after = [filled.run()[0] for filled in ring]
        for new in after:
            assert all(float((new == old).float().mean()) < 0.1 for old in before)
        before += [new.clone() for new in after]


def test_masks_keep_their_values_and_samples_stay_within_their_range(bench: Bench) -> None:
    ring, trial = rings(bench)
    most = max(float(filled.slot.read[0].abs().max()) for filled in ring)
    renewal = Renewal(trial, ring)  # type: ignore[arg-type]
    for _ in range(20):
        renewal.renew(range(len(ring)))
    for filled in ring:
        assert {0, 1} == set(filled.slot.read[1].unique().tolist())
        assert 0.3 * most < float(filled.slot.read[0].abs().max()) <= most


def test_only_what_is_visited_is_renewed_and_its_outputs_are_poisoned(bench: Bench) -> None:
    ring, trial = rings(bench)
    untouched = [view.clone() for view in ring[-1].slot.read]
    for filled in ring:
        filled.slot.written[0].zero_()
    Renewal(trial, ring).renew([0, 1])  # type: ignore[arg-type]
    assert all(torch.equal(old, new) for old, new in zip(untouched, ring[-1].slot.read, strict=True))
    assert [False, False, True] == [not bool(ring[entry].slot.written[0].any()) for entry in (0, 1, 2)]


def test_the_first_slices_are_audited_and_the_last_one_leaves_fingerprints(bench: Bench) -> None:
    ring, trial = rings(bench)
    renewal = Renewal(trial, ring)  # type: ignore[arg-type]
    for _ in range(AUDITS_FIRST):
        renewal.renew([2, 3])
        renewal.audit()
    assert AUDITS_FIRST == len(trial.audited)
    assert {2, 3} >= set(trial.audited)
    renewal.renew([0, 1], audit=False)
    renewal.audit()
    assert AUDITS_FIRST == len(trial.audited)
    assert len(ring) == len(renewal.fingerprints)
    assert "" == bench.fingerprints.changed(ring[0].slot, renewal.fingerprints[0])
    ring[0].slot.read[0][3, 5] += 1
    assert "x" == bench.fingerprints.changed(ring[0].slot, renewal.fingerprints[0])


def test_a_shift_moves_every_element_out_of_its_column() -> None:
    dice = random.Random(7)
    assert all(secret_shift(torch.zeros(16, 24), dice) % 24 for _ in range(500))
    assert 1 == secret_shift(torch.zeros(2), dice)
