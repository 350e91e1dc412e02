"""Tolerance profiles: how far an output may be from the reference.

The rule is |found - expected| <= atol + rtol * |expected|. Where outputs are small, atol shrinks with their scale:
an answer of zeros is never within the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """One profile."""

    name: str
    full: float  # atol and rtol of float32 and float64
    half: float  # atol and rtol of the half types

    def relative(self, dtype: torch.dtype) -> float:
        """rtol, and atol before scaling."""
        if not dtype.is_floating_point:
            return 0.0
        return self.half if dtype in HALF else self.full

    def absolute(self, dtype: torch.dtype, scale: float) -> float:
        """atol for outputs of this scale (root mean square)."""
        return self.relative(dtype) * (min(1.0, scale) if scale > 0 else 1.0)


PROFILES = {
    # KernelBench's own figures: 1e-4 for float32, 1e-2 for half types.
    "kernelbench": Tolerance(name="kernelbench", full=1e-4, half=1e-2),
    # The figure of the CRFM kernels' report: 1e-2 throughout.
    "crfm": Tolerance(name="crfm", full=1e-2, half=1e-2),
    # Twice eager's own error against float64 decides; these bounds hold only where there is no float64 answer.
    "strict": Tolerance(name="strict", full=1e-5, half=2e-3),
}
STRICT_FACTOR = 2.0


def unit_roundoff(dtype: torch.dtype) -> float:
    """Half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point else 0.0
