"""Which precision a candidate worked in, by its error: measured, not guessed from its text.

The reference in float64 with operands rounded to a narrower type has the error that working in that type would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.bench import Set
from kerneltui.judge.reference import double_inputs, double_of

MANTISSA_BITS = {"tf32": 11, "bf16": 8}  # with the hidden bit; fp16 has tf32's
NEAR = 0.3  # of a class's error: below that the candidate was more exact than the class allows
APART = 8.0  # a class whose error is not this much above eager's cannot be told from it
SURE = 0.9  # of a class's error: below that errors must be alike to show the class, where eager itself is no float32
ALIKE = 0.25  # of what rounding operands does; with one of two operands rounded it is half


@dataclass(slots=True)
class Classes:
    """Relative errors of each class on one problem, and eager's own.

    `cut` is TF32's error where operands are cut off and not rounded, as tensor cores do with what is not converted
    before: on inputs of one sign three times that of rounding, half way to bfloat16's.
    """

    eager: float
    errors: dict[str, float] = field(default_factory=dict)
    cut: float = 0.0

    def least(self, name: str) -> float:
        """The smallest error that shows this class."""
        typical = self.errors[name]
        between = math.sqrt(self.cut * typical) if name == "bf16" else 0.0
        return min(max(NEAR * typical, between), typical)

    def label(self, error: float, alike: Callable[[str], float] = lambda name: 1.0) -> str:
        """The coarsest class that this error is as large as; `alike` says how much of it is what rounding operands does.

        A library that works in TF32 has algorithms whose errors differ sixfold (cuDNN's, of one convolution in two
        processes: 2.4e-4 and 1.3e-3, with bfloat16's at 1.9e-3), so size alone shows nothing below a class's own error.
        """
        found = "fp32"
        for name, typical in self.errors.items():
            if typical <= APART * self.eager or error < self.least(name):
                continue
            if self.is_eager_fp32() or error >= SURE * typical or alike(name) >= ALIKE:
                found = name
        return found

    def is_eager_fp32(self) -> bool:
        """Whether eager's error is below what any narrower type would leave."""
        return all(self.eager < NEAR * typical for typical in self.errors.values())


def rounded(values: torch.Tensor, bits: int, *, cut: bool = False) -> torch.Tensor:
    """Float64 values to the nearest with so many bits of mantissa, or to the next towards zero."""
    mantissa, exponent = torch.frexp(values)
    scale = float(2**bits)
    whole = torch.trunc(mantissa * scale) if cut else torch.round(mantissa * scale)
    return torch.ldexp(whole / scale, exponent)


def relative_error(found: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> float:
    """Largest over outputs of |found - truth| / |truth|, in the 2-norm; nan when nothing is comparable."""
    worst = math.nan
    for one, exact in zip(found, truth, strict=True):
        size = float(torch.linalg.vector_norm(exact)) if exact.is_floating_point() else 0.0
        if size > 0 and math.isfinite(size):
            error = float(torch.linalg.vector_norm(one.double() - exact)) / size
            worst = error if math.isnan(worst) else max(worst, error)
    return worst


def likeness(
    found: Sequence[torch.Tensor], truth: Sequence[torch.Tensor], narrower: Sequence[torch.Tensor] | None
) -> float:
    """How much of narrower - truth is in found - truth: 1 for all of it, 0 for none. Largest over outputs; 0 if unknown."""
    if narrower is None:
        return 0.0
    most = 0.0
    for one, exact, rough in zip(found, truth, narrower, strict=True):
        if not exact.is_floating_point():
            continue
        apart = (rough - exact).flatten()
        size = float(apart @ apart)
        if size > 0 and math.isfinite(size):
            share = float((one.double() - exact).flatten() @ apart) / size
            most = max(most, abs(share)) if math.isfinite(share) else most
    return most


def true_answer(filled: Set, bits: int | None = None, *, cut: bool = False) -> tuple[torch.Tensor, ...] | None:
    """The float64 answer on a set, with operands rounded or cut off if asked; None where it does not work."""
    module, inputs = double_of(filled.module), double_inputs(filled.arguments)
    if bits is not None:
        doubles = [isinstance(value, torch.Tensor) and value.dtype is torch.float64 for value in inputs]
        inputs = [rounded(v, bits, cut=cut) if double else v for v, double in zip(inputs, doubles, strict=True)]
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dtype is torch.float64:
                    parameter.copy_(rounded(parameter, bits, cut=cut))
    try:
        return filled.workload.reference.run(module, inputs)
    except ProblemError:
        return None


def measure_classes(filled: Set) -> Classes | None:
    """The errors that each class has here; None for problems that are not float32 throughout."""
    kinds = {tensor.dtype for tensor in filled.workload.tensors if "float" in tensor.dtype}
    truth = true_answer(filled) if kinds == {"float32"} else None
    if truth is None:
        return None
    classes = Classes(eager=max(relative_error(filled.run(), truth), 2.0**-24))
    if math.isnan(classes.eager):
        return None
    for name, bits in MANTISSA_BITS.items():
        answer = true_answer(filled, bits)
        if answer is None:
            return None
        classes.errors[name] = relative_error(answer, truth)
    answer = true_answer(filled, MANTISSA_BITS["tf32"], cut=True)
    classes.cut = relative_error(answer, truth) if answer is not None else 0.0
    return classes
