"""Inputs that a kernel right only for the benchmark's own values gets wrong.

Each recipe changes the floating inputs that look like samples of a bell curve or of an interval; masks, indices and
one-hot inputs stay as get_inputs() made them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Recipe = Callable[[torch.Tensor], torch.Tensor]
FEW_VALUES = 16  # a tensor of so few different values is a mask or a code, not a sample
HALF_SPREAD = 8.0  # half types overflow early
TAIL = 64  # elements of the last tile that an impulse may hit


def large_mean(values: torch.Tensor) -> torch.Tensor:
    """Far from zero: a variance taken as a difference of squares cancels."""
    return values + (100.0 if values.element_size() > 2 else HALF_SPREAD)


def large_magnitude(values: torch.Tensor) -> torch.Tensor:
    """An exponential without its maximum taken off overflows."""
    return values * (50.0 if values.element_size() > 2 else HALF_SPREAD)


def tiny(values: torch.Tensor) -> torch.Tensor:
    """Small values and a small variance: a constant added for safety shows."""
    return values * 1e-3


def constant(values: torch.Tensor) -> torch.Tensor:
    """All equal: no variance at all, every comparison a tie."""
    return torch.full_like(values, 0.75)


def impulse(values: torch.Tensor) -> torch.Tensor:
    """Zero but for one element of the last tile: a skipped tail shows."""
    made = torch.zeros_like(values)
    if values.numel():
        back = int(torch.randint(1, min(TAIL, values.numel()) + 1, (1,)))
        made.view(-1)[-back] = 3.0
    return made


RECIPES: dict[str, Recipe] = {
    "large mean": large_mean,
    "large magnitude": large_magnitude,
    "impulse in the last tile": impulse,
    "constant": constant,
    "tiny": tiny,
}


def is_sample(value: Any) -> bool:
    """Whether a floating input may be replaced by other values without changing what it means."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() < FEW_VALUES:
        return False
    head = value.reshape(-1)[: 16 * FEW_VALUES].float()
    return bool(torch.isfinite(head).all()) and int(head.unique().numel()) > min(FEW_VALUES, head.numel() // 2)


def is_signed(value: torch.Tensor) -> bool:
    """Whether values lie on both sides of zero."""
    head = value.reshape(-1)[:4096]
    return bool((head < 0).any()) and bool((head > 0).any())


def apply(recipe: str, inputs: Sequence[Any]) -> list[Any] | None:
    """The inputs under a recipe; None when no input may be changed."""
    if not any(is_sample(value) for value in inputs):
        return None
    change = RECIPES[recipe]
    return [change(value) if is_sample(value) else value for value in inputs]


def usable_recipes(inputs: Sequence[Any]) -> list[str]:
    """Recipes that fit: inputs that are never negative are probabilities or distances and are not moved or scaled."""
    samples = [value for value in inputs if is_sample(value)]
    if not samples:
        return []
    if all(is_signed(value) for value in samples):
        return list(RECIPES)
    return ["impulse in the last tile", "constant", "tiny"]
