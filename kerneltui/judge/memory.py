"""What judging will need in memory, told before anything is allocated.

needed_bytes       inputs, state, outputs and the largest intermediate, on the meta device
advise             a sentence with a smaller size, when it does not fit
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kerneltui.errors import ProblemError
from kerneltui.judge.operations import Largest, tensor_bytes
from kerneltui.judge.reference import Reference

SETS = 3  # a ring of two and a probe: the least that can be judged with
CLOSER = 24  # inputs and state beyond this share of free memory are looked at before they are made
FACTORIES = frozenset("rand randn randint zeros ones empty full randperm arange".split())  # noqa: SIM905
CHUNK_BYTES = 1 << 30  # temporaries of a comparison


class TooMuch(Exception):
    """Stops a reference before it allocates what may not fit."""


class Factories(TorchFunctionMode):
    """Adds up what `torch.randn` and its kin are asked for, and stops before too much of it."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self.left_bytes = limit_bytes

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in FACTORIES:
            self.left_bytes -= 4 * math.prod(numbers_in(args[-1:] if name == "randint" else args))
            if self.left_bytes < 0:
                raise TooMuch
        return function(*args, **(kwargs or {}))


def numbers_in(values: Any) -> list[int]:
    """Every whole number, also inside lists: a size, or at worst more than one."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += numbers_in(value)
    return found


def may_not_fit(source: str, path: str, free_bytes: int) -> bool:
    """Whether inputs and state are large enough to look closer, which takes the compiler's shape rules and seconds."""
    for device in ("meta", "cpu"):  # without memory; what looks at its values cannot be made so
        try:
            reference = Reference(source, path, torch.device(device))
            with Factories(free_bytes // CLOSER):
                reference.make_module(0)
                reference.make_inputs(0)
        except TooMuch:
            return True
        except ProblemError as error:
            if isinstance(error.__cause__, TooMuch):
                return True
            continue  # anything else its own run will say, with its line
        return False
    return False


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
    state = sum(tensor_bytes(value) for value in module.state_dict().values())
    one_set = sum(map(tensor_bytes, inputs)) + state + sum(map(tensor_bytes, outputs))
    return SETS * one_set + 2 * state + sum(largest.sizes) + min(CHUNK_BYTES, 4 * one_set)


def check_fits(source: str, path: str, free_bytes: int, where: str) -> None:
    """Raise a ProblemError with the remedy when it does not fit."""
    if not may_not_fit(source, path, free_bytes):
        return
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
