"""The baseline: what the reference costs when PyTorch runs it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import torch

from kerneltui.judge.bench import Set
from kerneltui.judge.pairs import Slice, visiting_order


class HostEager:
    """Eager calls on a host, one after another, on the ring's own inputs."""

    method = "calls"

    def __init__(self, ring: Sequence[Set], times: int = 1) -> None:
        self.calls = [(filled.module, filled.arguments) for filled in ring]
        self.times = times  # of the work in one launch, for controls
        self.read = [filled.slot.read for filled in ring]
        self.rng = random.SystemRandom()

    def slice(self, launches: int) -> Slice:
        """One slice; results are dropped as they come, as in use."""
        order = visiting_order(len(self.calls), launches, self.rng)
        calls = [self.calls[entry] for entry in order for _ in range(self.times)]
        if launches < len(self.calls):
            # A candidate's inputs have been written just before, and fewer sets than the ring may stay in the caches.
            for entry in order:
                for view in self.read[entry]:
                    view.sum()
        with torch.no_grad():
            start = time.perf_counter()
            for module, arguments in calls:
                module(*arguments)
            spent = time.perf_counter() - start
        return Slice(claimed_s=spent, wall_s=spent, launches=launches)
