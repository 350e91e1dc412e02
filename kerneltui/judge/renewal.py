"""Before every slice of a candidate: other inputs, fresh poison, another workspace, so that nothing from before helps.

Renewal     renews what a slice will visit, and now and then verifies what one slice left
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.bench import Bench, Set
from kerneltui.judge.eager import warm_alike
from kerneltui.judge.hard_inputs import is_sample

if TYPE_CHECKING:
    from kerneltui.judge.trial import Trial

AUDITS_FIRST = 3  # slices, each followed by a look at one of its outputs
AUDIT_SHARE = 0.2  # of the slices after those
AUDITS_S = 0.4  # for all of them together, once the first are through
SHRUNK = (0.9, 0.99)  # of the values as drawn: never above their range


class Renewal:
    """The ring while it is timed. Entries change places, values are rolled by secret amounts and scaled by secret factors.

    So no answer from before is right again, wherever it is kept and whatever it is found by. Eager runs on the same memory.
    """

    def __init__(self, trial: Trial, ring: Sequence[Set]) -> None:
        self.trial = trial
        self.ring = ring
        self.rng = random.SystemRandom()
        self.factors = [1.0] * len(ring)
        self.movable = movable(trial.bench, ring)
        self.audits = 0
        self.audited_s = 0.0
        self.chosen: int | None = None
        self.before: list[torch.Tensor] = []
        self.fingerprints: list[list[torch.Tensor]] = []  # of the whole ring, before its last slice

    def renew(self, entries: Sequence[int], *, audit: bool = True) -> None:
        """Make these entries new, those that are visited first at first: all are equally long out of the caches."""
        entries = list(dict.fromkeys(entries))
        self.move_on(entries)
        self.chosen = self.rng.choice(entries) if audit and self.is_audited() else None
        if not audit:
            self.fingerprints = [self.trial.bench.fingerprints.of(filled.slot) for filled in self.ring]
        if self.chosen is not None:
            self.before = self.trial.bench.fingerprints.of(self.ring[self.chosen].slot)
        self.push_out(entries)

    def renew_for_eager(self, entries: Sequence[int]) -> None:
        """As before a slice of the candidate, so that the device comes to both from the same work; nothing is audited."""
        entries = list(dict.fromkeys(entries))
        self.move_on(entries)
        self.push_out(entries)

    def move_on(self, entries: Sequence[int]) -> None:
        held, held_factor = [view.clone() for view in self.ring[entries[0]].slot.read], self.factors[entries[0]]
        shifts: dict[torch.Size, int] = {}
        for place, entry in enumerate(entries):
            last = place + 1 == len(entries)
            source = held if last else self.ring[entries[place + 1]].slot.read
            found = held_factor if last else self.factors[entries[place + 1]]
            self.factors[entry] = self.rng.uniform(*SHRUNK)
            shifts.clear()
            move(source, self.ring[entry].slot.read, self.movable, self.factors[entry] / found, shifts, self.rng)
            self.ring[entry].slot.poison()
        self.trial.bench.poison_workspace()

    def push_out(self, entries: Sequence[int]) -> None:
        if self.trial.bench.device.type == "cpu":
            warm_alike(self.ring, entries)
        self.trial.bench.push_out()
        self.trial.lane.settle()

    def is_audited(self) -> bool:
        if self.audits < AUDITS_FIRST:
            return True
        return self.audited_s < AUDITS_S and self.rng.random() < AUDIT_SHARE

    def audit(self) -> None:
        """Look at the chosen output of the slice that has just ended.

        Raises:
            Fallen: it is wrong, or something that is not the candidate's was written.
        """
        if self.chosen is None:
            return
        start, entry = time.monotonic(), self.chosen
        self.chosen = None
        self.trial.audit_timed(entry, self.before)
        self.audits += 1
        self.audited_s += time.monotonic() - start


def movable(bench: Bench, ring: Sequence[Set]) -> tuple[bool, ...]:
    """Which tensors hold samples, whose elements may change places and shrink a little; asked once for a problem.

    Masks, indices and codes only change places from set to set, and so does all where the reference would not bear more.
    """
    if bench.movable is None:
        views = ring[-1].slot.read
        found = tuple(is_sample(view) for view in views)
        bench.movable = found if bears(bench, found) else (False,) * len(views)
    return bench.movable


def bears(bench: Bench, found: tuple[bool, ...]) -> bool:
    """Whether the reference's answer is as finite on such inputs as on its own."""
    probe = bench.probe(bench.main, "renewed")
    finite = is_finite(probe.run())
    read = probe.slot.read
    move([view.clone() for view in read], read, found, SHRUNK[0], {}, random.SystemRandom())
    try:
        return is_finite(probe.run()) or not finite
    except ProblemError:
        return False


def is_finite(outputs: Sequence[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(out).all()) for out in outputs if out.is_floating_point())


def move(
    source: Sequence[torch.Tensor],
    target: Sequence[torch.Tensor],
    movable: Sequence[bool],
    factor: float,
    shifts: dict[torch.Size, int],
    rng: random.Random,
) -> None:
    """Values of one set to another. Tensors of one shape are rolled alike: what belonged together still does."""
    for old, new, may_move in zip(source, target, movable, strict=True):
        if not may_move:
            new.copy_(old)
            continue
        shift = shifts.setdefault(old.shape, secret_shift(old, rng))
        flat, place = old.reshape(-1), new.view(-1)
        rest = flat.numel() - shift
        if old.element_size() < 4:  # scaled over and over, half types would drift
            place[:rest].copy_(flat[shift:])
            place[rest:].copy_(flat[:shift])
        else:
            torch.mul(flat[shift:], factor, out=place[:rest])
            torch.mul(flat[:shift], factor, out=place[rest:])


def secret_shift(values: torch.Tensor, rng: random.Random) -> int:
    """Not a whole number of rows: no row may be met again."""
    row = values.shape[-1] if values.dim() else 1
    while True:
        shift = rng.randrange(1, max(2, values.numel()))
        if shift % row or row >= values.numel() or row == 1:
            return shift
