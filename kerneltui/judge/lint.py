"""Whether a reference is a yardstick at all, before any candidate is charged with its faults.

check_reference     runs it, raises ProblemError with a sentence, or returns remarks
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.compare import BITS, describe_pattern, is_plainly_right
from kerneltui.judge.operations import OperationMode
from kerneltui.judge.reference import Reference, Signature, double_inputs, double_of, first_line
from kerneltui.judge.tolerance import PROFILES, Tolerance
from kerneltui.records import Check, CheckResult

BYTES = (0xA5, 0x4B)  # -2.9e-16 and 1.3e7 as float32
ZEROS_PASS = 0.95  # share of elements for which zero is within the plain bound: then that bound is no yardstick


@dataclass(slots=True)
class Lint:
    """What was learnt of a reference."""

    signature: Signature
    module: torch.nn.Module  # in eval mode
    checks: list[Check] = field(default_factory=list)
    eager_s: float = 0.0  # one warm call
    truth_s: float | None = None  # one call in float64; None where that does not work

    def note(self, name: str, detail: str, result: CheckResult = CheckResult.NOTE) -> None:
        """Keep a remark."""
        self.checks.append(Check(name=name, result=result, detail=detail))


def check_reference(reference: Reference, tolerance: Tolerance, *, allow_nan: bool) -> Lint:
    """Every check on the reference itself."""
    seed = secrets.randbits(63)
    inputs = reference.make_inputs(seed)
    module = reference.make_module(seed)
    outputs = agree(reference, module, inputs, seed)
    module.eval()
    judged = reference.run(module, clones(inputs))
    signature = reference.sign(module, inputs, judged)
    lint = Lint(signature=signature, module=module)
    if reference.was_strided:
        lint.note(
            "contiguous", "get_inputs() makes a tensor that is not contiguous; candidates and eager get it contiguous"
        )
    note_mode(lint, module, outputs, judged, tolerance)
    check_unchanged(reference, module, inputs, signature)
    other = reference.run(module, clones(reference.make_inputs(seed + 1)))
    check_worth(lint, reference, judged, other, tolerance, allow_nan)
    note_ignored_inputs(lint, reference, module, inputs, judged)
    time_reference(lint, reference, module, inputs)
    return lint


def clones(values: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


class Unwritten(OperationMode):
    """Fills memory that an operation hands out unwritten (`torch.empty` and its kin), so that it shows."""

    def __init__(self, byte: int) -> None:
        super().__init__()
        self.byte = byte

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if "empty" in function.__name__ and isinstance(made, torch.Tensor) and made.is_contiguous():
            made.reshape(-1).view(torch.uint8).fill_(self.byte)
        return made


def agree(reference: Reference, module: torch.nn.Module, inputs: Sequence[Any], seed: int) -> tuple[torch.Tensor, ...]:
    """Two runs on equal inputs, as the constructor left the module, over differently poisoned memory.

    The generators are not reset in between: whatever is random must show.
    """
    first = reference.run(module, clones(inputs))
    runs = []
    for byte in BYTES:
        copies = clones(inputs)
        with Unwritten(byte):
            runs.append([output.clone() for output in reference.run(module, copies)])
    for index, (one, two) in enumerate(zip(*runs, strict=True)):
        if one.shape != two.shape:
            raise ProblemError(
                f"{reference.path}: output {index} has another shape on equal inputs: {one.shape}, {two.shape}."
            )
        apart = differ(one, two)
        if bool(apart.any()):
            raise ProblemError(disagreement(reference, module, index, len(first), apart, one, two))
    return first


def differ(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Elements that differ by more than the order of a sum can explain."""
    if not one.dtype.is_floating_point:
        return one != two
    both_nan = torch.isnan(one) & torch.isnan(two)
    size = torch.maximum(one.abs(), two.abs())
    scale = torch.nan_to_num(size, nan=0.0, posinf=0.0).double().mean()
    limit = (1e-3 if one.element_size() >= 4 else 2e-2) * (size.double() + scale)
    near = (one.double() - two.double()).abs() <= limit
    return ~(near | both_nan | (one == two))


def disagreement(
    reference: Reference,
    module: torch.nn.Module,
    index: int,
    count: int,
    apart: torch.Tensor,
    one: torch.Tensor,
    two: torch.Tensor,
) -> str:
    name = "out" if count == 1 else f"out{index}"
    pattern = describe_pattern(apart)
    where = f" ({pattern})" if pattern else ""
    remedy = random_parts(module) or (
        "it is random, counts its calls, or returns memory that it never wrote (`torch.empty`); make every element follow "
        "from the inputs"
    )
    return (
        f"{reference.path}: the reference does not agree with itself: on equal inputs {int(apart.sum()):,} of "
        f"{apart.numel():,} elements of `{name}` differ between two runs{where}: {remedy}."
    )


def random_parts(module: torch.nn.Module) -> str:
    live = [
        f"self.{name} ({type(part).__name__})"
        for name, part in module.named_modules()
        if part.training and getattr(part, "p", 0) and "Dropout" in type(part).__name__
    ]
    if not live:
        return ""
    return f"{', '.join(live)} draws anew in training mode; call self.eval() in the constructor, or leave it out"


def note_mode(
    lint: Lint,
    module: torch.nn.Module,
    outputs: Sequence[torch.Tensor],
    judged: Sequence[torch.Tensor],
    tolerance: Tolerance,
) -> None:
    same = all(passes(one, two, tolerance) for one, two in zip(outputs, judged, strict=True))
    if not same:
        lint.note("eval mode", "judged in eval mode; in training mode the reference gives other values")


def check_unchanged(reference: Reference, module: torch.nn.Module, inputs: Sequence[Any], signature: Signature) -> None:
    """A reference that works in place has no signature with const inputs."""
    used = clones(inputs)
    state = {name: value.clone() for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    reference.run(module, used)
    names = iter(tensor.name for tensor in signature.inputs)
    for before, after in zip(inputs, used, strict=True):
        if isinstance(before, torch.Tensor):
            name = next(names)
            if not same_bits(before, after):
                raise ProblemError(
                    f"{reference.path}: forward changes its input `{name}` in place; a candidate's inputs are const. "
                    "Let it work on a copy."
                )
    for name, value in module.state_dict().items():
        if name in state and not same_bits(state[name], value):
            raise ProblemError(
                f"{reference.path}: forward changes `{name}` from call to call; the second call gives another answer."
            )


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    kind = BITS[one.element_size()]
    return torch.equal(one.contiguous().reshape(-1).view(kind), two.contiguous().reshape(-1).view(kind))


def check_worth(
    lint: Lint,
    reference: Reference,
    outputs: Sequence[torch.Tensor],
    other: Sequence[torch.Tensor],
    tolerance: Tolerance,
    allow_nan: bool,
) -> None:
    """Whether right answers can be told from no work."""
    if not any(one.numel() for one in outputs):
        raise ProblemError(f"{reference.path}: the outputs have no elements; nothing can be compared.")
    check_shapes(lint, reference, outputs, other)
    for tensor, one in zip(lint.signature.outputs, outputs, strict=True):
        note_nan(lint, tensor.name, one, allow_nan)
        if not one.dtype.is_floating_point or one.numel() < 2:
            continue
        finite = one[torch.isfinite(one)].double()
        if finite.numel() < 2:
            raise ProblemError(
                f"{reference.path}: no element of `{tensor.name}` is a finite number; nothing can be compared."
            )
        note_scale(lint, tensor.name, finite, one.dtype, tolerance)
        check_constant(reference, tensor.name, one, finite, tolerance)
    if lint.signature.inputs and all(passes(one, two, tolerance) for one, two in zip(outputs, other, strict=True)):
        raise ProblemError(
            f"{reference.path}: other inputs give the same outputs within the tolerance, so a stored answer would "
            "pass. Choose inputs or an operation whose answer depends on them."
        )


def check_shapes(
    lint: Lint, reference: Reference, outputs: Sequence[torch.Tensor], other: Sequence[torch.Tensor]
) -> None:
    """Answers to other values must have the shapes of the first."""
    for tensor, one, two in zip(lint.signature.outputs, outputs, other, strict=True):
        if one.shape != two.shape:
            raise ProblemError(
                f"{reference.path}: the shape of `{tensor.name}` depends on the values of the inputs: {tuple(one.shape)}, then "
                f"{tuple(two.shape)}. A kernel's outputs are laid out before it runs; let the answer have a fixed shape (a "
                "mask, or the largest size with a count)."
            )


def passes(expected: torch.Tensor, found: torch.Tensor, tolerance: Tolerance) -> bool:
    """Whether one would be taken for the other, where both are numbers."""
    if expected.dtype.is_floating_point:
        expected, found = (torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0) for value in (expected, found))
    plain = PROFILES["kernelbench"] if tolerance.name == "strict" else tolerance
    return is_plainly_right(found.contiguous(), expected.contiguous(), plain)


def note_nan(lint: Lint, name: str, output: torch.Tensor, allow_nan: bool) -> None:
    if not output.dtype.is_floating_point:
        return
    nan = torch.isnan(output)
    count = int(nan.sum())
    if not count:
        return
    pattern = describe_pattern(nan)
    meant = (
        "NaN is expected there"
        if allow_nan
        else (
            "a candidate's NaN fails there all the same and any number passes; if NaN is meant, set allow_nan = true in problem.toml"
        )
    )
    lint.note(
        "NaN in the reference",
        f"{count:,} of {nan.numel():,} elements of `{name}` are NaN{f' ({pattern})' if pattern else ''}: {meant}",
    )


def note_scale(lint: Lint, name: str, finite: torch.Tensor, dtype: torch.dtype, tolerance: Tolerance) -> None:
    flat = tolerance.relative(dtype)
    size = finite.abs()
    if float((size <= flat + flat * size).double().mean()) >= ZEROS_PASS:
        lint.note(
            "tolerance",
            f"outputs of `{name}` are about {float(size.mean()):.2g}; this tolerance ({tolerance.name}, {flat:g}) would "
            "accept zeros; using a scale-relative bound",
        )


def check_constant(
    reference: Reference, name: str, output: torch.Tensor, finite: torch.Tensor, tolerance: Tolerance
) -> None:
    fill = torch.full_like(output, float(finite.median()))
    if passes(torch.nan_to_num(output, nan=float(finite.median())), fill, tolerance):
        raise ProblemError(
            f"{reference.path}: every element of `{name}` is about {float(finite.median()):.4g}, so a kernel that writes "
            "one constant would pass. Choose inputs whose answers differ."
        )


def note_ignored_inputs(
    lint: Lint, reference: Reference, module: torch.nn.Module, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]
) -> None:
    """Inputs on which nothing depends need not be read: said, so that nobody wonders at a time below the floor."""
    position = 0
    for index, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            continue
        name = lint.signature.inputs[position].name
        position += 1
        if not value.is_floating_point() or value.numel() == 0:
            continue
        changed = clones(inputs)
        changed[index] = changed[index].flip(0) * 0.5 + 0.25
        try:
            other = reference.run(module, changed)
        except ProblemError:
            continue  # it cares enough to refuse
        # Two draws can have as many values above a threshold by chance; these are spread otherwise.
        check_shapes(lint, reference, outputs, other)
        if all(same_bits(one, two) for one, two in zip(outputs, other, strict=True)):
            lint.note("ignored input", f"the outputs do not depend on `{name}`")


def time_reference(lint: Lint, reference: Reference, module: torch.nn.Module, inputs: Sequence[Any]) -> None:
    lint.eager_s = spent(reference, module, inputs)
    try:
        double, wide = double_of(module), double_inputs(inputs)
        lint.truth_s = spent(reference, double, wide, times=1)
    except ProblemError as error:
        lint.note("float64 answer", f"not available: {first_line(error)}", CheckResult.SKIPPED)


def spent(
    reference: Reference, module: torch.nn.Module, inputs: Sequence[Any], *, times: int = 20, budget_s: float = 0.3
) -> float:
    """Seconds of one call: the fastest of a few."""
    best, end = float("inf"), time.perf_counter() + budget_s
    for _ in range(times):
        start = time.perf_counter()
        outputs = reference.run(module, inputs)
        if outputs[0].is_cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            break
    return best
