"""What no kernel for this problem can be faster than on this device, as far as that is known.

Rates           measured once: bandwidth, and products of matrices by type
floor_us        bytes that must move and operations that must happen, at those rates

It is a note beside a number, never a verdict: masked attention, Winograd and structured operands undercut it legally.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kerneltui.judge.arena import bytes_of
from kerneltui.judge.bench import Workload
from kerneltui.judge.operations import Operations

COPY_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}
SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices multiplied
REPEATS = 5


@dataclass(slots=True)
class Rates:
    """The best rates seen on a device."""

    device: torch.device
    bytes_s: float = 0.0
    products_s: dict[torch.dtype, float] = field(default_factory=dict)

    def bandwidth(self, free_bytes: int) -> float:
        """Bytes a second of a large copy, read and written."""
        if not self.bytes_s:
            count = min(COPY_BYTES[self.device.type], free_bytes // 8)
            source = torch.ones(count, dtype=torch.uint8, device=self.device)
            target = torch.empty_like(source)
            self.bytes_s = 2 * count / self.best_s(lambda: target.copy_(source))
        return self.bytes_s

    def products(self, dtype: torch.dtype) -> float:
        """Floating-point operations a second of a large product of matrices."""
        if dtype not in self.products_s:
            side = SIDE[self.device.type] // (4 if dtype is torch.float64 else 1)
            one = torch.randn(side, side, device=self.device).to(dtype)
            self.products_s[dtype] = 2.0 * side**3 / self.best_s(lambda: one @ one)
        return self.products_s[dtype]

    def best_s(self, work: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(REPEATS):
            self.idle()
            start = time.perf_counter()
            work()
            self.idle()
            best = min(best, time.perf_counter() - start)
        return best

    def idle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def operations(workload: Workload) -> int:
    """Floating-point operations of products and convolutions; everything else counts by its bytes."""
    reference = workload.reference
    inputs = reference.make_inputs(0)
    with Operations() as counter:
        reference.run(workload.module, inputs)
    return counter.count


def moved_bytes(workload: Workload, cache_bytes: int) -> int:
    """Inputs and state read once, outputs written once, less what may still lie in the cache at the end."""
    read = sum(bytes_of(tensor) for tensor in workload.tensors[: -len(workload.signature.outputs)])
    written = sum(map(bytes_of, workload.signature.outputs))
    return read + max(0, written - cache_bytes)


def floor_us(workload: Workload, rates: Rates, *, cache_bytes: int, free_bytes: int) -> float:
    """The larger of both bounds."""
    moving = moved_bytes(workload, cache_bytes) / rates.bandwidth(free_bytes)
    count = operations(workload)
    kinds = {tensor.dtype for tensor in workload.signature.inputs}
    half = next((kind for kind in (torch.float16, torch.bfloat16) if str(kind).removeprefix("torch.") in kinds), None)
    computing = count / rates.products(half or torch.float32) if count else 0.0
    return max(moving, computing) * 1e6
