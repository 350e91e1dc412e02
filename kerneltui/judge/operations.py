"""Looking at every operation of a reference as it runs."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperationMode(TorchDispatchMode):
    """A dispatch mode that does not bring in the compiler: importing that takes longer than all the judge's checks."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Operations(OperationMode):
    """Counts floating-point operations of products and convolutions, by torch's own formulas."""

    def __init__(self) -> None:
        super().__init__()
        from torch.utils.flop_counter import flop_registry  # late: it takes a tenth of a second

        self.formulas: dict[Any, Any] = flop_registry
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        made = function(*args, **named)
        formula = self.formulas.get(function._overloadpacket)
        if formula is not None:
            self.count += int(formula(*args, **named, out_val=made))
        return made


class Largest(OperationMode):
    """The two largest results of any operation: what eager holds beside inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [0, 0]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for value in made if isinstance(made, tuple | list) else (made,):
            self.sizes = sorted([*self.sizes, tensor_bytes(value)])[-2:]
        return made


def tensor_bytes(value: Any) -> int:
    """Bytes of a tensor; 0 for anything else."""
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
