"""The judge's workbench for one problem on one device: references, buffers, rings of inputs.

Workload    a reference at one choice of sizes
Bench       the block of memory with its slots, filled afresh for every candidate
"""

from __future__ import annotations

import copy
import functools
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.arena import GUARD_BYTES, Arena, Fingerprints, Guards, HostArena, Slot, secret_bytes, set_bytes
from kerneltui.judge.blocks import CudaArena
from kerneltui.judge.compare import Expected
from kerneltui.judge.reference import (
    Reference,
    Signature,
    Tensor,
    double_inputs,
    double_of,
    randomise,
)

if TYPE_CHECKING:
    from kerneltui.judge.compiled import Compiled
    from kerneltui.judge.controls import Controls
    from kerneltui.judge.precision import Classes

# Sets: a slice meets none twice, so that nothing which a launch leaves helps another. So many that a turn of the ring is
# long against what it takes to begin one: waking up on a host, changing over to another process on a GPU.
RING_MOST = 128
RING_LEAST = 2
TURN_BYTES_CUDA = 2 << 30  # half a millisecond of the fastest memory there is
TURN_SHARE = 8  # of free memory, at most, for that
RING_BYTES_HOST = 1536 << 20  # on a host, where memory is everybody's
FILLER_CACHES = 2
CACHES = 3  # a ring this many times the last-level cache finds nothing of itself there
WORKSPACE_SHARE = 4  # at most a quarter of free memory is a candidate's workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A reference at one choice of sizes."""

    reference: Reference
    module: torch.nn.Module  # in eval mode; copied for every slot
    signature: Signature
    symbols: tuple[int, ...]  # values of the symbolic sizes, in the contract's order

    @property
    def tensors(self) -> list[Tensor]:
        """In call order."""
        state = {tensor.name: tensor for tensor in (*self.signature.parameters, *self.signature.buffers)}
        ordered = [state[name] for name in self.signature.state]
        return [*self.signature.inputs, *ordered, *self.signature.outputs]

    @property
    def set_bytes(self) -> int:
        """Memory of one set with its guard bands."""
        return set_bytes(self.tensors)


@dataclass(slots=True)
class Set:
    """A filled slot: the module and the arguments that eager is called with lie in the same memory."""

    slot: Slot
    module: torch.nn.Module
    arguments: list[Any]  # of forward; tensors are views of the slot
    workload: Workload
    name: str = ""
    state: dict[str, torch.Tensor] | None = None  # the module's, kept once it was asked for

    def run(self) -> tuple[torch.Tensor, ...]:
        """Eager's answer."""
        return self.workload.reference.run(self.module, self.arguments)


class Bench:
    """Buffers for one problem: a ring of sets at the largest sizes, and one probe for everything else."""

    def __init__(
        self, workloads: Sequence[Workload], device: torch.device, *, cache_bytes: int, free_bytes: int
    ) -> None:
        self.device = device
        self.workloads = list(workloads)
        self.main = self.workloads[-1]
        self.ring_size = ring_size(self.main.set_bytes, cache_bytes, free_bytes, device)
        self.cache_bytes = cache_bytes
        each = self.main.set_bytes
        probe_bytes = max(workload.set_bytes for workload in self.workloads)
        self.probe_start = self.ring_size * each
        self.sets_bytes = self.probe_start + probe_bytes
        self.workspace_most = max(0, (free_bytes - self.sets_bytes) // WORKSPACE_SHARE)
        self.arena = self.open_arena()
        self.slots = [self.slot(self.main, index * each) for index in range(self.ring_size)]
        self.guards = Guards(device)
        self.fingerprints = Fingerprints(device)
        self.example = without_values(self.main.reference.make_inputs(0))  # which arguments are tensors
        self.classes: Classes | None = None  # errors of precision classes, once measured
        self.movable: tuple[bool, ...] | None = None  # which inputs are samples, once asked
        self.compiled: Compiled | None = None  # the second baseline, once built
        self.controls: Controls | None = None  # once they came out right
        self.filler: torch.Tensor | None = None  # what pushes everything else out of a GPU's cache
        self.workspace: torch.Tensor | None = None  # of the candidate at hand, with its guard bands
        self.workspace_guards: tuple[torch.Tensor, ...] = ()  # what lies in them

    def open_arena(self) -> Arena:
        if self.device.type == "cuda":
            return CudaArena(self.sets_bytes)
        return HostArena(self.sets_bytes, self.workspace_most)

    @property
    def flush(self) -> str:
        """How caches are made cold, in words."""
        total = self.ring_size * self.main.set_bytes
        words = f"ring of {self.ring_size} input sets, {total / 2**20:.0f} MiB"
        if total >= CACHES * self.cache_bytes:
            return f"cold: {words}, more than {CACHES} times the last-level cache"
        if total > self.cache_bytes:
            return f"partly cold: {words}, more than the last-level cache"
        return f"warm: {words}, fits in the last-level cache"

    def push_out(self) -> None:
        """What was written just before a slice is in a GPU's cache no more, where the ring as a whole does not fit it."""
        if self.device.type == "cpu" or self.ring_size * self.main.set_bytes <= self.cache_bytes:
            return
        if self.filler is None:
            self.filler = torch.empty(FILLER_CACHES * self.cache_bytes, dtype=torch.uint8, device=self.device)
        self.filler.fill_(secrets.randbits(8))

    def slot(self, workload: Workload, start: int) -> Slot:
        return Slot(self.arena, workload.tensors, len(workload.signature.outputs), start)

    def fill(self, slot: Slot, workload: Workload, name: str, values: list[Any] | None = None) -> Set:
        """Fresh secret inputs (or `values`) and fresh secret parameters in a slot; outputs poisoned, guards laid."""
        seed = secrets.randbits(63)
        inputs = workload.reference.make_inputs(seed) if values is None else values
        generator = torch.Generator(device=self.device)
        generator.manual_seed(secrets.randbits(63))
        template = workload.module
        randomise(template, generator)
        arguments = place_inputs(slot, inputs, workload)
        module = place_state(slot, template, workload)
        slot.poison()
        self.guards.lay([slot])
        return Set(slot=slot, module=module, arguments=arguments, workload=workload, name=name)

    def probe(self, workload: Workload, name: str, values: list[Any] | None = None) -> Set:
        """The probe slot, filled."""
        return self.fill(self.slot(workload, self.probe_start), workload, name, values)

    def expect(self, filled: Set, *, truth: bool, loose: bool = False) -> list[Expected]:
        """What a set's outputs should be; the float64 answer is worked out when somebody asks, once for all outputs."""
        eager = filled.run()
        names = [tensor.name for tensor in filled.workload.signature.outputs]
        exact: list[tuple[torch.Tensor, ...] | None] = []

        def answer(index: int) -> torch.Tensor | None:
            if not exact:
                exact.append(self.double_answer(filled) if truth else None)
            return None if exact[0] is None else usable(exact[0][index], eager[index])

        return [
            Expected(name=name, eager=value, truth=functools.partial(answer, index), loose=loose)
            for index, (name, value) in enumerate(zip(names, eager, strict=True))
        ]

    def double_answer(self, filled: Set) -> tuple[torch.Tensor, ...] | None:
        """The float64 answer; None where the operators or the memory do not allow it."""
        try:
            return filled.workload.reference.run(double_of(filled.module), double_inputs(filled.arguments))
        except ProblemError:
            return None

    # ------------------------------------------------------------------ workspace

    def lay_workspace(self, size_bytes: int) -> int:
        """A workspace of this size between guard bands; the offset that a runner is told."""
        self.workspace, offset = self.arena.workspace(size_bytes)
        self.workspace_guards = secret_bytes(2 * GUARD_BYTES, self.device).split(GUARD_BYTES)
        for band, laid in zip(
            (self.workspace[:GUARD_BYTES], self.workspace[-GUARD_BYTES:]), self.workspace_guards, strict=True
        ):
            band.copy_(laid)
        return offset

    def poison_workspace(self) -> None:
        """Other garbage for every call: what an earlier call left there is gone."""
        if self.workspace is None:
            self.arena.forget(0)
            return
        self.workspace[GUARD_BYTES:-GUARD_BYTES].fill_(secrets.randbits(8) | 1)
        self.arena.forget(self.workspace.numel() - 2 * GUARD_BYTES)

    def broken_guards(self, slots: Sequence[Slot]) -> str:
        """The first broken guard band in words; "" when all are intact."""
        found = self.guards.broken(slots)
        if found or self.workspace is None:
            return found
        before, after = self.workspace_guards
        for band, laid, words in (
            (self.workspace[:GUARD_BYTES], before, "before the start"),
            (self.workspace[-GUARD_BYTES:], after, "past the end"),
        ):
            wrong = int((band != laid).sum())
            if wrong:
                return f"{wrong} bytes {words} of the workspace were overwritten"
        return ""

    def close(self) -> None:
        """Give the memory back."""
        self.slots.clear()
        self.arena.close()


def usable(truth: torch.Tensor, eager: torch.Tensor) -> torch.Tensor | None:
    """A float64 answer counts where it has the shape of eager's and eager's is floating."""
    if truth.shape != eager.shape or not eager.dtype.is_floating_point:
        return None
    return truth.double()


def ring_size(set_bytes: int, cache_bytes: int, free_bytes: int, device: torch.device) -> int:
    """Sets in the ring: more than the cache holds three times, on a GPU enough for a turn, within the memory."""
    on_host = device.type == "cpu"
    most = min(free_bytes // 3, RING_BYTES_HOST) if on_host else free_bytes // 2
    turn = 0 if on_host else min(TURN_BYTES_CUDA, free_bytes // TURN_SHARE)
    wanted = max(CACHES * cache_bytes, turn) // max(set_bytes, 1) + 1
    return max(RING_LEAST, min(wanted, RING_MOST, most // max(set_bytes, 1)))


def without_values(arguments: Sequence[Any]) -> list[Any]:
    """The same arguments, tensors without their memory."""
    return [torch.empty(0) if isinstance(value, torch.Tensor) else value for value in arguments]


def place_inputs(slot: Slot, inputs: Sequence[Any], workload: Workload) -> list[Any]:
    """Copy tensors into the slot; the arguments of forward with views in their place."""
    arguments: list[Any] = []
    views = iter(slot.read)
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            arguments.append(value)
            continue
        view = next(views)
        if view.shape != value.shape:
            raise ProblemError(
                f"{workload.reference.path}: get_inputs() returned a tensor of shape {tuple(value.shape)} where it "
                f"returned {tuple(view.shape)} before; shapes that change from call to call have no C signature."
            )
        view.copy_(value)
        arguments.append(view)
    return arguments


def place_state(slot: Slot, template: torch.nn.Module, workload: Workload) -> torch.nn.Module:
    """A copy of the module whose parameters and buffers lie in the slot."""
    views = dict(zip(workload.signature.state, slot.read[len(workload.signature.inputs) :], strict=True))
    state = template.state_dict(keep_vars=True)
    memo: dict[int, Any] = {}
    for name, view in views.items():
        view.copy_(state[name].detach())
        own = state[name]
        held = torch.nn.Parameter(view, requires_grad=False) if isinstance(own, torch.nn.Parameter) else view
        memo[id(own)] = held
    return copy.deepcopy(template, memo)


def free_host_bytes() -> int:
    """Memory that can be had without pushing anything out."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, container_bytes())
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def container_bytes() -> int:
    """What the memory limit of this control group leaves."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit, encoding="ascii") as first, open(used, encoding="ascii") as second:
                word = first.read().strip()
                return int(word) - int(second.read()) if word != "max" else 1 << 62
        except (OSError, ValueError):
            continue
    return 1 << 62
