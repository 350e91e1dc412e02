"""Which precision a candidate worked in, by its error: measured, not guessed from its text.

The reference in float64 with operands rounded to a narrower type has the error that working in that type would have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.bench import Set
from kerneltui.judge.reference import double_inputs, double_of

MANTISSA_BITS = {"tf32": 11, "bf16": 8}  # with the hidden bit; fp16 has tf32's
NEAR = 0.3  # of a class's error: below that the candidate was more exact than the class allows
APART = 8.0  # a class whose error is not this much above eager's cannot be told from it
ORDER = ("fp32", "tf32", "bf16")


@dataclass(slots=True)
class Classes:
    """Relative errors of each class on one problem, and eager's own."""

    eager: float
    errors: dict[str, float] = field(default_factory=dict)

    def label(self, error: float) -> str:
        """The coarsest class that this error is as large as."""
        found = "fp32"
        for name, typical in self.errors.items():
            if typical > APART * self.eager and error >= NEAR * typical:
                found = name
        return found


def rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Float64 values to the nearest with so many bits of mantissa."""
    mantissa, exponent = torch.frexp(values)
    scale = float(2**bits)
    return torch.ldexp(torch.round(mantissa * scale) / scale, exponent)


def relative_error(found: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> float:
    """Largest over outputs of |found - truth| / |truth|, in the 2-norm; nan when nothing is comparable."""
    worst = math.nan
    for one, exact in zip(found, truth, strict=True):
        size = float(torch.linalg.vector_norm(exact)) if exact.is_floating_point() else 0.0
        if size > 0 and math.isfinite(size):
            error = float(torch.linalg.vector_norm(one.double() - exact)) / size
            worst = error if math.isnan(worst) else max(worst, error)
    return worst


def true_answer(filled: Set, bits: int | None = None) -> tuple[torch.Tensor, ...] | None:
    """The float64 answer on a set, with operands rounded if asked; None where it does not work."""
    module, inputs = double_of(filled.module), double_inputs(filled.arguments)
    if bits is not None:
        inputs = [rounded(v, bits) if isinstance(v, torch.Tensor) and v.dtype is torch.float64 else v for v in inputs]
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dtype is torch.float64:
                    parameter.copy_(rounded(parameter, bits))
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
    return classes
