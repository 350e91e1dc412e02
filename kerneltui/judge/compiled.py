"""A second baseline: the reference under torch.compile, the best of its modes that this machine can build."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kerneltui.judge.bench import Set, Workload

MODES = ("default", "max-autotune-no-cudagraphs")
PATIENCE_S = 20.0  # a mode that takes longer is the last one tried
SAMPLES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled reference, or why there is none."""

    call: Callable[[Set], Any] | None
    words: str


def compile_reference(workload: Workload, ring: Sequence[Set]) -> Compiled:
    """The fastest mode on the ring's inputs."""
    best: tuple[float, str, Callable[[Set], Any]] | None = None
    said: list[str] = []
    for mode in MODES:
        start = time.monotonic()
        try:
            call = compiled_call(workload, mode)
            each = fastest(call, ring)
        except Exception as error:  # inductor raises types of its own, of triton and of the C compiler
            said.append(f"{mode}: {str(error).strip().splitlines()[0][:160] if str(error) else type(error).__name__}")
            continue
        if best is None or each < best[0]:
            best = (each, mode, call)
        if time.monotonic() - start > PATIENCE_S:
            break
    if best is None:
        return Compiled(call=None, words="torch.compile does not work here: " + "; ".join(said))
    return Compiled(call=best[2], words=f"torch.compile, mode {best[1]}")


def compiled_call(workload: Workload, mode: str) -> Callable[[Set], Any]:
    template = workload.module

    def forward(state: dict[str, torch.Tensor], *arguments: Any) -> Any:
        return torch.func.functional_call(template, state, arguments)

    run = torch.compile(forward, mode=mode, dynamic=False)

    def call(filled: Set) -> Any:
        if filled.state is None:
            filled.state = dict(filled.module.state_dict())
        return run(filled.state, *filled.arguments)

    return call


def fastest(call: Callable[[Set], Any], ring: Sequence[Set]) -> float:
    best = float("inf")
    with torch.no_grad():
        for index in range(SAMPLES):
            filled = ring[index % len(ring)]
            torch.cuda.synchronize()
            start = time.perf_counter()
            call(filled)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
    return best
