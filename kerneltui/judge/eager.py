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

    def __init__(self, ring: Sequence[Set]) -> None:
        self.calls = [(filled.module, filled.arguments) for filled in ring]
        self.rng = random.SystemRandom()

    def slice(self, launches: int) -> Slice:
        """One slice; results are dropped as they come, as in use."""
        calls = [self.calls[entry] for entry in visiting_order(len(self.calls), launches, self.rng)]
        with torch.no_grad():
            start = time.perf_counter()
            for module, arguments in calls:
                module(*arguments)
            spent = time.perf_counter() - start
        return Slice(claimed_s=spent, wall_s=spent, launches=launches)
