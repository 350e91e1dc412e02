"""What is searched, and its C signature."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerneltui.records.closed import Language
from kerneltui.records.text import FrozenDict, sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reference in KernelBench form and what is known about it. `source` is text, never imported here."""

    name: str  # folder or file stem, as the person wrote it
    title: str
    source: str  # a Python file with Model, get_inputs, get_init_inputs
    path: str  # where `source` was read, for messages
    folder: str | None = None  # kernels/<problem>, where starters and the playbook lie
    dtype: str = "float32"
    tolerance: str = "kernelbench"  # name of the tolerance profile
    licence: str = "unknown"
    provenance: str = ""
    notes: str = ""
    # device kind -> module constant -> value
    sizes: FrozenDict[str, FrozenDict[str, int]] = field(default_factory=dict)
    symbolic: FrozenDict[str, tuple[int, ...]] = field(default_factory=dict)  # module constant -> values it takes
    allow_nan: bool = False  # a person said that NaN in the reference is meant

    @property
    def digest(self) -> str:
        """Identity of the problem: sha256 over everything that decides a verdict."""
        sizes = sorted((kind, sorted(values.items())) for kind, values in self.sizes.items())
        return sha256(repr((self.source, self.tolerance, sizes, sorted(self.symbolic.items()), self.allow_nan)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One tensor of a contract."""

    name: str  # a legal C identifier
    role: str  # "input", "parameter", "buffer" or "output"
    dtype: str  # torch's word: float32, float16, bfloat16, int64, bool...
    shape: tuple[int, ...]  # at the largest sizes
    origin: str = ""  # name in Python: forward's argument or the state-dict key
    symbols: tuple[str | None, ...] = ()  # per dimension: the symbolic size it equals, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The C signature of a problem on one kind of device."""

    function: str  # the C name
    language: Language  # cuda or cpp
    tensors: tuple[TensorSpec, ...]  # inputs, parameters, buffers, outputs: in call order
    constants: tuple[tuple[str, str, str], ...] = ()  # (C type, name, C literal)
    symbols: tuple[str, ...] = ()  # int64_t arguments, after the tensors
    header: str = ""  # the text of contract.h

    @property
    def digest(self) -> str:
        """Identity of the generated header."""
        return sha256(self.header)
