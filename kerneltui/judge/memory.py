"""What judging will need in memory, told before anything is allocated.

needed_bytes       inputs, state, outputs and the largest intermediate, on the meta device
advise             a sentence with a smaller size, when it does not fit
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kerneltui.errors import ProblemError
from kerneltui.judge.reference import Reference

SETS = 3  # a ring of two and a probe: the least that can be judged with
CHUNK_BYTES = 1 << 30  # temporaries of a comparison


class Largest(TorchDispatchMode):
    """The two largest results of any operation: what eager holds beside inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [0, 0]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, torch.Tensor):
                self.sizes = sorted([*self.sizes, bytes_of(value)])[-2:]
        return made


def bytes_of(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def needed_bytes(source: str, path: str) -> int | None:
    """Bytes to judge this reference; None when it cannot be followed without running it."""
    meta = torch.device("meta")
    try:
        reference = Reference(source, path, meta)
        inputs = reference.make_inputs(0, device=meta)
        module = reference.make_module(0, device=meta).eval()
        with Largest() as largest:
            outputs = reference.run(module, inputs)
    except (ProblemError, RuntimeError, NotImplementedError, TypeError, ValueError):
        return None  # its own run will say what is wrong, if anything is
    state = sum(bytes_of(value) for value in module.state_dict().values())
    one_set = sum(map(bytes_of, inputs)) + state + sum(map(bytes_of, outputs))
    return SETS * one_set + 2 * state + sum(largest.sizes) + min(CHUNK_BYTES, 4 * one_set)


def check_fits(source: str, path: str, free_bytes: int, where: str) -> None:
    """Raise a ProblemError with the remedy when it does not fit."""
    needed = needed_bytes(source, path)
    if needed is None or needed <= free_bytes:
        return
    advice = smaller(source, path, free_bytes)
    raise ProblemError(
        f"{path}: judging needs about {gib(needed)}, {gib(free_bytes)} are free on {where}: cannot be judged here"
        + (f"; try {advice}." if advice else "; choose smaller inputs.")
    )


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def smaller(source: str, path: str, free_bytes: int) -> str:
    """`NAME=value`: the largest module constant, halved until the rest fits."""
    for name, value in sorted(constants(source), key=lambda found: -found[1]):
        tried = value
        while tried > 1:
            tried = max(1, tried // 2)
            needed = needed_bytes(with_constant(source, name, tried), path)
            if needed is not None and needed <= free_bytes:
                return f"{name}={tried}"
    return ""


def constants(source: str) -> Iterator[tuple[str, int]]:
    """Whole numbers assigned at module level."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield from pairs(statement.targets[0], statement.value)


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, int]]:
    if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and type(value.value) is int:
        yield target.id, value.value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from pairs(one, other)


def with_constant(source: str, name: str, value: int) -> str:
    """The source with one more assignment after the constant's own line, so that what is derived follows."""
    lines = source.split("\n")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and re.search(
            rf"\b{re.escape(name)}\b", ast.unparse(statement.targets[0])
        ):
            end = statement.end_lineno or statement.lineno
            return "\n".join([*lines[:end], f"{name} = {value}", *lines[end:]])
    return source
