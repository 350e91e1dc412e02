"""The yardstick: a reference in KernelBench form, executed; its inputs, modules and outputs as tensors.

Reference           the executed file: makes inputs and modules from seeds
Signature           names, shapes and dtypes of what goes in and comes out
run                 one forward pass, as a tuple of tensors
"""

from __future__ import annotations

import copy
import inspect
import linecache
import random
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kerneltui.errors import ProblemError

DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of the signature."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def words(self) -> dict[str, Any]:
        """As the supervisor reads it."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What goes in and comes out, in call order."""

    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]
    buffers: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scalars: tuple[tuple[str, Any], ...] = ()
    state: tuple[str, ...] = ()  # parameters, then buffers: the order of the C signature

    def words(self) -> dict[str, Any]:
        """As the supervisor reads it."""
        return {
            "inputs": [tensor.words() for tensor in self.inputs],
            "parameters": [tensor.words() for tensor in self.parameters],
            "buffers": [tensor.words() for tensor in self.buffers],
            "outputs": [tensor.words() for tensor in self.outputs],
            "scalars": [{"name": name, "value": value} for name, value in self.scalars],
            "state": list(self.state),
        }


class Reference:
    """An executed reference file on one device."""

    def __init__(self, source: str, path: str, device: torch.device) -> None:
        self.source = source
        self.path = path
        self.device = device
        self.space = execute(source, path)
        self.signature: Signature | None = None
        self.was_strided = False  # whether get_inputs() made a tensor that lay otherwise

    def seed(self, seed: int) -> None:
        """Every generator that a reference may draw from."""
        if self.device.type == "cuda":
            torch.manual_seed(seed)
        else:
            # The other one keeps a traceback for every kind of device that is not here.
            torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)

    def make_inputs(self, seed: int, *, device: torch.device | None = None) -> list[Any]:
        """get_inputs() under a seed; tensors on the device, contiguous as a candidate gets them."""
        self.seed(seed)
        where = device or self.device
        with self.blamed("get_inputs()"), torch.device(where), torch.no_grad():
            made = self.space["get_inputs"]()
        if not isinstance(made, list | tuple):
            raise ProblemError(
                f"{self.path}: get_inputs() returned a {type(made).__name__}; it must return the list of forward's arguments."
            )
        tensors = [value for value in made if isinstance(value, torch.Tensor)]
        self.was_strided = not all(value.is_contiguous() for value in tensors)
        return [value.detach().to(where).contiguous() if isinstance(value, torch.Tensor) else value for value in made]

    def make_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Constructor arguments: a list, or KernelBench's pair of a list and a dictionary."""
        with self.blamed("get_init_inputs()"):
            made = self.space["get_init_inputs"]() if "get_init_inputs" in self.space else []
        if isinstance(made, dict):
            return [], made
        if not isinstance(made, list | tuple):
            raise ProblemError(
                f"{self.path}: get_init_inputs() returned a {type(made).__name__}; it must return a list."
            )
        if len(made) == 2 and isinstance(made[0], list | tuple) and isinstance(made[1], dict):
            return list(made[0]), dict(made[1])
        return list(made), {}

    def make_module(self, seed: int, *, device: torch.device | None = None) -> torch.nn.Module:
        """Model(...) under a seed, in the mode in which its constructor left it."""
        self.seed(seed)
        where = device or self.device
        arguments, named = self.make_arguments()
        with self.blamed("Model(...)"), torch.device(where):
            module = self.space["Model"](*arguments, **named)
        if not isinstance(module, torch.nn.Module):
            raise ProblemError(f"{self.path}: `Model` is a {type(module).__name__}, not a torch.nn.Module.")
        return module.to(where)

    def run(self, module: torch.nn.Module, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """One forward pass; the outputs as tensors."""
        with self.blamed("forward"), torch.no_grad():
            made = module(*inputs)
        return self.tensors_of(made)

    def tensors_of(self, made: Any) -> tuple[torch.Tensor, ...]:
        """The outputs of a forward pass as a flat tuple."""
        values = tuple(made) if isinstance(made, list | tuple) else (made,)
        for index, value in enumerate(values):
            if not isinstance(value, torch.Tensor):
                raise ProblemError(
                    f"{self.path}: output {index} of forward is a {type(value).__name__}; only tensors can be compared. "
                    "Return a tensor, or a tuple of tensors."
                )
            if value.dtype not in DTYPES:
                raise ProblemError(
                    f"{self.path}: output {index} of forward is {value.dtype}, which has no C type here."
                )
        if not values:
            raise ProblemError(f"{self.path}: forward returned nothing to compare.")
        return values

    def blamed(self, where: str) -> Blame:
        """A context in which an exception is the problem's fault."""
        return Blame(self.path, where)

    def sign(self, module: torch.nn.Module, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Signature:
        """Names, shapes and dtypes; kept for later."""
        names = argument_names(self.space["Model"].forward, len(inputs), skip=1)
        tensors = [(name, value) for name, value in zip(names, inputs, strict=True) if isinstance(value, torch.Tensor)]
        for name, value in tensors:
            if value.dtype not in DTYPES:
                raise ProblemError(f"{self.path}: input `{name}` is {value.dtype}, which has no C type here.")
        for name, value in zip(names, inputs, strict=True):
            if not isinstance(value, torch.Tensor) and not is_plain(value):
                raise ProblemError(
                    f"{self.path}: argument `{name}` of forward is {kind_of(value)}; a candidate can be given tensors, numbers, "
                    "texts, None and lists of those that are no tensors. Let forward take each tensor by itself."
                )
        # A tied weight has several names; each is an argument of its own.
        parameters = dict(module.named_parameters(remove_duplicate=False))
        state = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
        plain = [(n, v) for n, v in zip(names, inputs, strict=True) if not isinstance(v, torch.Tensor)]
        self.signature = Signature(
            inputs=tuple(described(name, value) for name, value in tensors),
            parameters=tuple(described(name, value) for name, value in state.items() if name in parameters),
            buffers=tuple(described(name, value) for name, value in state.items() if name not in parameters),
            outputs=tuple(described(name, value) for name, value in zip(output_names(outputs), outputs, strict=True)),
            scalars=tuple(scalars_of([*plain, *self.constructor_scalars()])),
            state=tuple(sorted(state, key=lambda name: name not in parameters)),
        )
        return self.signature

    def constructor_scalars(self) -> list[tuple[str, Any]]:
        arguments, named = self.make_arguments()
        names = argument_names(self.space["Model"].__init__, len(arguments), skip=1)
        return [*zip(names, arguments, strict=True), *named.items()]


class Blame:
    """Turns an exception inside into a ProblemError that names the reference's line."""

    def __init__(self, path: str, where: str) -> None:
        self.path, self.where = path, where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ProblemError | KeyboardInterrupt):
            return
        line = last_line(error, self.path)
        place = f"{self.path}:{line}" if line else self.path
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            raise ProblemError(f"{place}: {self.where} ran out of memory: {first_line(error)}") from error
        raise ProblemError(f"{place}: {self.where} raised {type(error).__name__}: {first_line(error)}") from error


def execute(source: str, path: str) -> dict[str, Any]:
    """The reference's names after running it as a module of its own."""
    module = types.ModuleType(f"reference_{abs(hash(source)):x}")
    module.__file__ = path
    # torch.compile and inspect look for the text of a function, and for its module.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    sys.modules[module.__name__] = module
    with Blame(path, "the file"):
        exec(compile(source, path, "exec"), module.__dict__)
    for name in ("Model", "get_inputs"):
        if name not in module.__dict__:
            raise ProblemError(f"{path}: there is no `{name}`; a reference defines `class Model` and `get_inputs()`.")
    return module.__dict__


def last_line(error: BaseException, path: str) -> int | None:
    """The deepest line of the reference itself in a traceback."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return frames[-1] if frames else None


def is_plain(value: Any) -> bool:
    """Whether a value travels as JSON."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def kind_of(value: Any) -> str:
    """`a list that holds a Tensor`."""
    if isinstance(value, list | tuple):
        part = next(part for part in value if not is_plain(part))
        return f"a {type(value).__name__} that holds {kind_of(part)}"
    return f"a {type(value).__name__}"


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:500]


def argument_names(function: Any, count: int, *, skip: int) -> list[str]:
    """Names of the first `count` positional arguments after self; a starred one gives name0, name1..."""
    names: list[str] = []
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{index}" for index in range(count - len(names))]
        elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"arg{index}" for index in range(len(names), count)]
    return names[:count]


def output_names(outputs: Sequence[torch.Tensor]) -> list[str]:
    return ["out"] if len(outputs) == 1 else [f"out{index}" for index in range(len(outputs))]


def described(name: str, value: torch.Tensor) -> Tensor:
    return Tensor(name=name, dtype=DTYPES.get(value.dtype, str(value.dtype)), shape=tuple(value.shape))


def scalars_of(values: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Those that C can hold: numbers, booleans, and tuples of whole numbers."""
    for name, value in values:
        if isinstance(value, bool | int | float):
            yield name, value
        elif isinstance(value, list | tuple) and value and all(type(part) is int for part in value):
            yield name, list(value)


# --------------------------------------------------------------------------- state


def randomise(module: torch.nn.Module, generator: torch.Generator) -> None:
    """Parameters and running statistics that no kernel can have built in: no weight of one, no bias of zero.

    Values keep their sign and scale, so that what the constructor made sensible stays so. Other buffers (masks,
    positions) are structure and stay.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                redraw(parameter, generator)
        for part in module.modules():
            redraw_statistics(part, generator)


def redraw(values: torch.Tensor, generator: torch.Generator) -> None:
    if values.numel() == 0:
        return
    low, high = values.min().item(), values.max().item()
    noise = torch.randn(values.shape, generator=generator, device=values.device, dtype=torch.float32)
    if low == high:
        # A constant: zero is a bias, anything else a scale around it.
        fresh = noise * 0.1 if low == 0 else low * (1 + 0.2 * noise.clamp(-2, 2))
    elif low >= 0 or high <= 0:
        fresh = low + (high - low) * torch.rand(values.shape, generator=generator, device=values.device)
    else:
        fresh = noise * float(values.float().std()) + float(values.float().mean())
    values.copy_(fresh)


def redraw_statistics(part: torch.nn.Module, generator: torch.Generator) -> None:
    mean, variance = getattr(part, "running_mean", None), getattr(part, "running_var", None)
    if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
        mean.copy_(torch.randn(mean.shape, generator=generator, device=mean.device) * 0.2)
        variance.copy_(torch.rand(variance.shape, generator=generator, device=variance.device) + 0.5)


def double_of(module: torch.nn.Module) -> torch.nn.Module:
    """A float64 copy."""
    return copy.deepcopy(module).double()


def double_inputs(inputs: Sequence[Any]) -> list[Any]:
    """Floating inputs in float64."""
    return [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in inputs
    ]
