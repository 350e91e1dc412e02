"""The baseline: what the reference costs when PyTorch runs it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Any

import torch

from kerneltui.judge.bench import Set
from kerneltui.judge.claims import Slice, delays_s, taken_s
from kerneltui.judge.pairs import visiting_order


def stand_ins(ring: Sequence[Set]) -> list[Any]:
    """For results that are kept: memory has been had and written to before, however few calls there were.

    Zeros would not do: a host's allocator gives them as pages that nobody has touched.
    """
    return [[torch.empty_like(out).fill_(1) for out in filled.slot.written] for filled in ring]


def warm_alike(ring: Sequence[Set], entries: Sequence[int]) -> None:
    """Before a slice of either side, so that fewer sets than the ring are as far in the caches for one as for the other."""
    if len(entries) < len(ring):
        for entry in entries:
            for view in ring[entry].slot.read:
                view.sum()


class HostEager:
    """Eager calls on a host, one after another, on the ring's own inputs.

    Results are dropped as they come, as in use; or kept until the next of the same entry, as a module's are until they
    are verified: on small problems eager is twice as fast where each result takes the warm memory of the last.
    """

    method = "calls"

    def __init__(self, ring: Sequence[Set], times: int = 1, *, keep: bool = False) -> None:
        self.calls = [(filled.module, filled.arguments) for filled in ring]
        self.times = times  # of the work in one launch, for controls
        self.ring = ring
        self.kept: list[Any] | None = stand_ins(ring) if keep else None
        self.rng = random.SystemRandom()

    def slice(self, launches: int) -> Slice:
        """One slice."""
        order = visiting_order(len(self.calls), launches, self.rng)
        calls = [(entry, *self.calls[entry]) for entry in order for _ in range(self.times)]
        warm_alike(self.ring, order)
        with torch.no_grad():
            if self.kept is not None:  # as the other side is led in
                self.calls[-1][0](*self.calls[-1][1])
            before = delays_s(os.getpid())
            start = time.perf_counter()
            if self.kept is None:
                for _, module, arguments in calls:
                    module(*arguments)
            else:
                for entry, module, arguments in calls:
                    self.kept[entry] = module(*arguments)
            spent = time.perf_counter() - start
            taken = taken_s(before, delays_s(os.getpid()))
        return Slice(claimed_s=spent, wall_s=spent, launches=launches, taken_s=taken)
