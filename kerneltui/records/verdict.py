"""A candidate, the device it ran on, and what was found out about it there."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerneltui.records.closed import Badge, CheckResult, Language, Outcome, Stage
from kerneltui.records.text import FrozenDict, sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Source, language, defines and flags; `digest` is its identity."""

    source: str
    language: Language
    defines: tuple[tuple[str, str], ...] = ()  # sorted (name, value), passed as -Dname=value
    flags: tuple[str, ...] = ()  # from the policy's allow-list only

    @property
    def digest(self) -> str:
        """sha256 over all four fields."""
        return sha256(repr((self.source, str(self.language), self.defines, self.flags)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where a verdict holds. Two devices with the same `world` may share facts."""

    id: str  # "cuda:GPU-1234..." (NVML's UUID) or "cpu:0-1" (cores)
    kind: str  # "cuda" or "cpu"
    name: str  # "NVIDIA H200", "Intel Xeon ..."
    architecture: str = ""  # "sm_90a"; a CPU: "x86-64-v4"
    driver: str = ""
    toolkit: str = ""  # nvcc's version, or the host compiler's
    compiler: str = ""  # path of nvcc or the host C++ compiler
    cores: int | None = None  # CPU cores, or SMs
    memory_bytes: int | None = None
    l2_bytes: int | None = None  # a CPU: last-level cache
    facts: FrozenDict[str, str] = field(default_factory=dict)  # shown and given to authors, decides nothing

    @property
    def world(self) -> str:
        """What a stored fact must agree on before it is believed here."""
        return "|".join((self.kind, self.name, self.architecture, self.driver, self.toolkit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of the trust panel."""

    name: str  # "inputs unchanged", "guards intact", "wall clock"...
    result: CheckResult
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """How wrong an output is."""

    output: str  # name of the tensor
    wrong: int  # elements outside the tolerance
    total: int
    max_abs: float | None = None  # None: not finite
    max_rel: float | None = None
    worst: tuple[int, ...] = ()  # index of the worst element
    expected: str = ""  # there, as text, since it may be nan or inf
    found: str = ""
    histogram: tuple[tuple[str, int], ...] = ()  # (error class, elements)
    pattern: str = ""  # "every 33rd column", "last tile of 64 columns", "row 0 only"
    input_set: str = ""  # which inputs showed it: "random 2", "large mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources:
    """What the compiler says of one kernel."""

    name: str
    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    constant_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Baseline time over candidate time, from paired slices: exp(median log-ratio) and its 95 % interval."""

    ratio: float
    low: float
    high: float
    tie: bool  # the interval includes 1, or what cannot be told from it
    pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Timing samples with what is needed to trust them. Times in µs."""

    method: str  # "graph" (captured, replayed), "calls" (timed calls), "module"
    median_us: float  # device time of one call
    low_us: float  # 95 % interval of the median
    high_us: float
    samples_us: tuple[float, ...] = ()  # one per slice: mean over its launches
    call_us: float | None = None  # what one call costs a user, launch included
    warm_us: float | None = None  # inputs in cache
    baselines_us: FrozenDict[str, float] = field(default_factory=dict)  # "eager", "compile"...: median
    speedup: FrozenDict[str, Speedup] = field(default_factory=dict)  # the same keys
    call_speedup: FrozenDict[str, Speedup] = field(default_factory=dict)  # call time against call time
    launches: int = 0  # per slice
    warmup: int = 0  # launches before the first sample
    dropped: int = 0  # disturbed pairs
    ring: int = 0  # input sets visited
    flush: str = ""  # how caches were made cold, in words
    clocks: FrozenDict[str, str] = field(default_factory=dict)  # as NVML says; "" where it will not
    disturbances: tuple[str, ...] = ()  # throttle reasons, foreign processes
    precision: str = ""  # measured class: "fp32", "tf32", "fp16"...
    baseline_precision: str = ""  # TF32 state and dtype of the baseline
    floor_us: float | None = None  # bytes and FLOPs that must happen, at measured rates
    noise: float | None = None  # 1.48 MAD / median of samples_us
    badge: Badge = Badge.MEASURED
    screened: bool = False  # few pairs only: not a contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The finding on a candidate on one device. About the candidate only; a fault of ours raises."""

    outcome: Outcome
    stage: Stage
    message: str = ""  # one sentence
    log: str = ""  # the whole compiler or runner output
    errors: tuple[ErrorReport, ...] = ()
    measurement: Measurement | None = None
    device: Device | None = None
    checks: tuple[Check, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    tolerance: str = ""  # profile that was applied
    world: str = ""  # device.world + contract, tolerance and evaluator version: where it may be believed
    compile_s: float | None = None
    run_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One counter of a profile."""

    name: str  # "DRAM throughput"
    value: float
    unit: str = ""  # "%" is of the device's peak, or of the whole that the name tells


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """What was counted of one kernel, or of a whole call on a CPU."""

    name: str
    launches: int = 1  # in one call; figures are means over them
    figures: tuple[Figure, ...] = ()  # in the order they are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What counters say of a candidate on one device. No verdict rests on it."""

    tool: str  # "ncu", "perf", "/proc"
    kernels: tuple[KernelProfile, ...] = ()  # in the order of their launches
    missing: tuple[str, ...] = ()  # what could not be counted, why, and the remedy
    device: Device | None = None
    created: float = 0.0  # seconds since 1970
