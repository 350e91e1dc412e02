"""Device memory that a runner can open, and whether the device still answers."""

from __future__ import annotations

from typing import Any

import torch

from kerneltui.errors import DeviceLost, MachineError
from kerneltui.judge.arena import GUARD_BYTES

ANCHOR_BYTES = 256 << 20  # far more than a cache
PAGE_BYTES = 2 << 20


def runtime() -> Any:
    """CUDA's runtime, bound."""
    try:
        from cuda.bindings import runtime as bound
    except ImportError as error:
        raise MachineError("cuda-bindings is missing: pip install 'kerneltui[cuda]'") from error
    return bound


def checked(answer: tuple[Any, ...]) -> Any:
    """The value of a runtime call."""
    status, *values = answer
    if int(status) == 2:
        raise MachineError("the GPU has no room for the judge's buffers; other processes may hold its memory")
    if int(status) != 0:
        raise MachineError(f"CUDA: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


class Block:
    """Device memory of its own allocation, as torch sees it and as another process opens it.

    Whole pages of 2 MiB: with a size that was no multiple of them, a kernel that reads again from L2 took 970 µs in the
    process that had opened the memory, where it takes 550 (softmax `online`, H200).
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
        self.address = int(checked(runtime().cudaMalloc(self.size_bytes)))
        self.handle = bytes(checked(runtime().cudaIpcGetMemHandle(self.address)).reserved).hex()
        self.bytes = torch.as_tensor(Interface(self.address, self.size_bytes), device="cuda")

    def close(self) -> None:
        """Free it; no view may be used afterwards."""
        if self.address:
            runtime().cudaFree(self.address)
            self.address = 0


class Interface:
    """Raw device memory as numba's array interface describes it."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


class CudaArena:
    """One allocation for all sets and the anchor, another for the workspace, made when a candidate asks for one."""

    def __init__(self, sets_bytes: int) -> None:
        self.anchor_start = -(-sets_bytes // PAGE_BYTES) * PAGE_BYTES
        self.sets_bytes = sets_bytes
        self.size_bytes = self.anchor_start + ANCHOR_BYTES
        self.own = Block(self.size_bytes)
        self.block = self.own.bytes
        self.extra: Block | None = None

    @property
    def grant(self) -> dict[str, Any]:
        """What a runner needs to open the workspace."""
        return {} if self.extra is None else {"handle": self.extra.handle}

    def workspace(self, size_bytes: int) -> tuple[torch.Tensor, int]:
        """Memory for a workspace with its guard bands, and the offset of the workspace in it."""
        wanted = size_bytes + 2 * GUARD_BYTES
        if self.extra is None or self.extra.size_bytes < wanted:
            if self.extra is not None:
                self.extra.close()
            self.extra = Block(wanted)
        return self.extra.bytes[:wanted], GUARD_BYTES

    def forget(self, workspace_bytes: int) -> None:
        """What an earlier candidate's larger workspace left behind this one's, and what lies behind the sets."""
        self.block[self.sets_bytes :].zero_()
        if workspace_bytes and self.extra is not None:
            self.extra.bytes[workspace_bytes + 2 * GUARD_BYTES :].zero_()

    def overwrite(self, times: int) -> None:
        """The anchor's memory, so many times, on torch's stream: the work that both sides are timed with."""
        stream = torch.cuda.current_stream().cuda_stream
        for _ in range(times):
            checked((*runtime().cudaMemsetAsync(self.own.address + self.anchor_start, 0, ANCHOR_BYTES, stream), None))

    def close(self) -> None:
        """Free both."""
        self.own.close()
        if self.extra is not None:
            self.extra.close()


def device_must_answer() -> None:
    """A small sum on the device.

    Raises:
        DeviceLost: it gives none.
    """
    try:
        if int(torch.ones(64, device="cuda").sum()) == 64:
            return
    except RuntimeError as error:
        raise DeviceLost(f"The GPU does not answer any more: {error}") from error
    raise DeviceLost("The GPU gives wrong answers to a sum of ones.")
