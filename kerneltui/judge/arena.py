"""The judge's buffers: one block of memory per problem, every tensor between guard bands, lent by offset.

Layout      where each tensor lies
HostArena   a memfd without a name: a runner maps its descriptor
Slot        one input set with its outputs, as tensors over the block
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kerneltui.judge.compare import BITS
from kerneltui.judge.reference import DTYPES, Tensor

GUARD_BYTES = 4096
ALIGN_BYTES = 256
TORCH = {word: dtype for dtype, word in DTYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one tensor lies in the block."""

    tensor: Tensor
    offset: int
    size_bytes: int


class Arena(Protocol):
    """A block of memory that a runner can open."""

    block: torch.Tensor  # all of it, as bytes
    size_bytes: int

    @property
    def grant(self) -> dict[str, Any]:
        """What a runner needs to open the workspace, where that is not in the block."""

    def workspace(self, size_bytes: int) -> tuple[torch.Tensor, int]:
        """Memory for a workspace with a guard band on both sides; the offset that a runner is told."""

    def forget(self, workspace_bytes: int) -> None:
        """Clear what a runner can write to and no buffer covers."""

    def close(self) -> None:
        """Give the memory back."""


class HostArena:
    """Anonymous shared memory; the workspace lies behind the sets, and memory that nobody touches costs nothing."""

    grant: dict[str, Any] = {}  # noqa: RUF012  # nothing to hand over, ever

    def __init__(self, sets_bytes: int, workspace_bytes: int) -> None:
        self.sets_bytes = sets_bytes
        self.workspace_start = round_up(max(sets_bytes, 1), mmap.PAGESIZE)
        self.size_bytes = round_up(self.workspace_start + workspace_bytes + 2 * GUARD_BYTES, mmap.PAGESIZE)
        self.descriptor = os.memfd_create("kerneltui-arena", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, self.size_bytes)
        self.memory = mmap.mmap(self.descriptor, self.size_bytes, flags=mmap.MAP_SHARED)
        self.block = torch.frombuffer(self.memory, dtype=torch.uint8)

    def workspace(self, size_bytes: int) -> tuple[torch.Tensor, int]:
        """A part of the same block."""
        end = self.workspace_start + size_bytes + 2 * GUARD_BYTES
        return self.block[self.workspace_start : end], self.workspace_start + GUARD_BYTES

    def forget(self, workspace_bytes: int) -> None:
        """Between the sets and the workspace, and behind it: pages are given back, parts of pages cleared."""
        used = workspace_bytes + 2 * GUARD_BYTES if workspace_bytes else 0
        end = self.workspace_start + used
        page = round_up(end, mmap.PAGESIZE)
        self.block[self.sets_bytes : self.workspace_start].zero_()
        self.block[end:page].zero_()
        if page < self.size_bytes:
            self.memory.madvise(mmap.MADV_REMOVE, page, self.size_bytes - page)

    def close(self) -> None:
        """The mapping goes with its last tensor; the descriptor goes now."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def bytes_of(tensor: Tensor) -> int:
    """Bytes of a contiguous tensor."""
    count = 1
    for size in tensor.shape:
        count *= size
    return count * TORCH[tensor.dtype].itemsize


def lay_out(tensors: Sequence[Tensor], start: int) -> tuple[list[Place], int]:
    """Places from `start`, each aligned, with a guard band before, between and after; and the end."""
    places: list[Place] = []
    cursor = start
    for tensor in tensors:
        offset = round_up(cursor + GUARD_BYTES, ALIGN_BYTES)
        places.append(Place(tensor=tensor, offset=offset, size_bytes=bytes_of(tensor)))
        cursor = offset + places[-1].size_bytes
    return places, round_up(cursor + GUARD_BYTES, ALIGN_BYTES)


def set_bytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of one set with its guard bands."""
    return lay_out(tensors, 0)[1]


class Slot:
    """One set: inputs, parameters and buffers that a candidate reads, outputs that it writes."""

    def __init__(self, arena: Arena, tensors: Sequence[Tensor], outputs: int, start: int) -> None:
        self.places, self.end = lay_out(tensors, start)
        self.start = start
        self.arena = arena
        self.views = [self.view(place) for place in self.places]
        self.read = self.views[: len(self.views) - outputs]
        self.written = self.views[len(self.views) - outputs :]
        self.poisons = [0] * outputs
        self.guards = self.guard_bands()
        self.laid = torch.zeros(0, dtype=torch.uint8)  # what the guard bands hold, one after another

    @property
    def offsets(self) -> list[int]:
        """Pointers of a call, relative to the block."""
        return [place.offset for place in self.places]

    def view(self, place: Place) -> torch.Tensor:
        raw = self.arena.block[place.offset : place.offset + place.size_bytes]
        return raw.view(TORCH[place.tensor.dtype]).reshape(place.tensor.shape)

    def guard_bands(self) -> list[torch.Tensor]:
        edges = [self.start]
        for place in self.places:
            edges += [place.offset, place.offset + place.size_bytes]
        edges.append(self.end)
        return [self.arena.block[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]

    def poison(self) -> None:
        """Fill the outputs with a pattern that no earlier run has seen: NaN for floats."""
        self.poisons = [fill_poison(output) for output in self.written]


def fill_poison(values: torch.Tensor) -> int:
    """Poison a tensor and return the pattern as an integer of the element's size."""
    size = values.element_size()
    bits = secrets.randbits(8 * size - 1)
    if values.dtype.is_floating_point:
        # A quiet NaN: exponent and the first mantissa bit set, the rest secret.
        lead = {torch.float16: 0x7E00, torch.bfloat16: 0x7FC0, torch.float32: 0x7FC00000}
        mask = {torch.float16: 0x01FF, torch.bfloat16: 0x003F, torch.float32: 0x003FFFFF}
        wide = values.dtype is torch.float64
        bits = 0x7FF8 << 48 | bits & (1 << 51) - 1 if wide else lead[values.dtype] | bits & mask[values.dtype]
    if values.dtype is torch.bool:
        bits &= 1
    values.view(BITS[size]).fill_(bits)
    return bits


def secret_bytes(count: int, device: torch.device) -> torch.Tensor:
    """Bytes from the operating system."""
    return torch.frombuffer(bytearray(secrets.token_bytes(count)), dtype=torch.uint8).to(device)


def bands_of(slot: Slot) -> tuple[torch.Tensor, ...]:
    """What was laid, band by band."""
    return slot.laid.split([band.numel() for band in slot.guards])


class Guards:
    """Secret bytes in every guard band, no two bands alike, and who has broken them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def lay(self, slots: Sequence[Slot]) -> None:
        """Write other bytes than ever before."""
        for slot in slots:
            slot.laid = secret_bytes(sum(band.numel() for band in slot.guards), self.device)
            for band, laid in zip(slot.guards, bands_of(slot), strict=True):
                band.copy_(laid)

    def broken(self, slots: Sequence[Slot]) -> str:
        """The first broken band in words; "" when all are intact."""
        damage = [(torch.cat(slot.guards) != slot.laid).any().reshape(1) for slot in slots]
        if not damage or not bool(torch.cat(damage).any()):
            return ""
        for slot in slots:
            for index, (band, laid) in enumerate(zip(slot.guards, bands_of(slot), strict=True)):
                wrong = (band != laid).nonzero().reshape(-1)
                if wrong.numel():
                    return self.words(slot, index, wrong)
        return ""

    def words(self, slot: Slot, index: int, wrong: torch.Tensor) -> str:
        count, first, last = int(wrong.numel()), int(wrong[0]), int(wrong[-1])
        to_next = slot.guards[index].numel() - last
        follows = index < len(slot.places) and (index == 0 or to_next < first)
        if follows:
            name = slot.places[index].tensor.name
            return f"{count} bytes before the start of `{name}` were overwritten (from {to_next} bytes before it)"
        name = slot.places[index - 1].tensor.name
        return f"{count} bytes past the end of `{name}` were overwritten (from {first} bytes after it)"


# --------------------------------------------------------------------------- fingerprints

WEIGHTS = 1 << 20


class Fingerprints:
    """Whether tensors have changed, without keeping a copy: secret weighted sums modulo 2**64."""

    def __init__(self, device: torch.device) -> None:
        self.weights = torch.randint(-(2**62), 2**62, (WEIGHTS,), dtype=torch.int64, device=device) | 1

    def of(self, slot: Slot) -> list[torch.Tensor]:
        """One number per tensor that a candidate only reads; they stay on the device."""
        return [self.sum(place, slot) for place in slot.places[: len(slot.read)]]

    def sum(self, place: Place, slot: Slot) -> torch.Tensor:
        raw = slot.arena.block[place.offset : place.offset + round_up(place.size_bytes, 8)]
        # The last word may hold a few bytes of guard band: they do not change either.
        words = raw.view(torch.int64)
        total = torch.zeros((), dtype=torch.int64, device=words.device)
        for index in range(0, words.numel(), WEIGHTS):
            part = words[index : index + WEIGHTS]
            weights = self.weights[: part.numel()]
            # torch has no integer dot product on a GPU; on a host it spares a temporary of the same size.
            found = (part * weights).sum() if part.is_cuda else torch.dot(part, weights)
            total = total * 6364136223846793005 + found
        return total

    def changed(self, slot: Slot, before: Sequence[torch.Tensor]) -> str:
        """Name of the first tensor that has changed; "" for none."""
        for place, old, new in zip(slot.places, before, self.of(slot), strict=False):
            if not bool(old == new):
                return place.tensor.name
        return ""
