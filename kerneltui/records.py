"""Every noun of the program: frozen, slotted, keyword-only records and enums. No I/O, no clock.

Problem   -> Contract                 what is searched, and its C signature
Settings                              what session.toml holds
Idea      -> Variant -> Candidate     the tree: hypothesis, attempt, source
Verdict   -> Check, ErrorReport, KernelResources, Measurement -> Speedup
Profile   -> KernelProfile -> Figure  what counters say of a candidate, beside its verdict
Device                                where a verdict holds
Call                                  one question to an author and what it cost
Decision, Event                       what people did; what happened
Tree                                  the session as read

`encode` and `decode` turn any of them into JSON text and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

FrozenDict = dict  # read-only by convention: records are shared between threads and never edited


# --------------------------------------------------------------------------- closed sets


class Outcome(StrEnum):
    """The finding on a candidate."""

    COMPILE_ERROR = "compile_error"  # the compiler refused it
    LAUNCH_ERROR = "launch_error"  # it did not load, or crashed, or a launch was refused
    MISMATCH = "mismatch"  # its outputs are wrong, unwritten, or it wrote elsewhere
    TIMEOUT = "timeout"  # it did not end within its deadline
    OUT_OF_MEMORY = "out_of_memory"  # it asked for more memory than there is
    SUSPECT = "suspect"  # a cheat, refused by policy, or a timing that cannot be believed
    CORRECT = "correct"  # verified, and timed where timing was asked for
    NOT_RUN = "not_run"  # compiled where no device can run it


class Stage(StrEnum):
    """Where on its way a candidate was when the verdict fell."""

    POLICY = "policy"  # static checks on source and binary
    COMPILE = "compile"
    LOAD = "load"  # opening the library, finding the function
    LAUNCH = "launch"
    CHECK = "check"  # comparison with the reference
    TIME = "time"
    DONE = "done"  # nothing is left to do


class Language(StrEnum):
    """What a candidate is written in."""

    CUDA = "cuda"  # CUDA C++ behind the contract
    CPP = "cpp"  # C++ for the host, behind the contract
    PYTHON = "python"  # a module candidate: a file with `ModelNew`


class IdeaStatus(StrEnum):
    """What is to become of an idea."""

    PROPOSED = "proposed"  # waits for a person (review = true)
    APPROVED = "approved"  # variants are written from it
    REJECTED = "rejected"  # a person said no before any code was written
    PRUNED = "pruned"  # a person cut it off, with all below it
    MERGED = "merged"  # said before by another idea; `merged_into` names it


class VariantKind(StrEnum):
    """How a variant came to be."""

    STARTER = "starter"  # shipped with the problem
    ATTEMPT = "attempt"  # written from an idea
    REPAIR = "repair"  # a failed variant, written again with its log
    SWEEP = "sweep"  # the same source under other tunables
    HAND = "hand"  # a person's


class VariantState(StrEnum):
    """How far a variant is."""

    WAITING = "waiting"  # to be written
    WRITING = "writing"  # an author is at it
    WRITTEN = "written"  # has a candidate, nothing done yet
    COMPILING = "compiling"
    QUEUED = "queued"  # built, waits for a device
    RUNNING = "running"  # on a device
    DONE = "done"  # has a verdict, or `author_error` says why it has no candidate
    CANCELLED = "cancelled"  # pruned before it was finished


class DecisionKind(StrEnum):
    """An act of a person."""

    APPROVE = "approve"
    REJECT = "reject"
    MOVE = "move"  # a proposed idea among those of its round; payload: before (an idea; "" is the end)
    PRUNE = "prune"
    RESTORE = "restore"  # payload: proposed (true: an idea is to be decided on again)
    EDIT = "edit"  # an idea's text; payload: title, text
    ADD_IDEA = "add_idea"  # payload: title, text, parent
    INJECT = "inject"  # payload: source, language, name, parent
    ANSWER = "answer"  # a pasted answer to a prompt; payload: text
    PIN = "pin"
    UNPIN = "unpin"
    RETRY = "retry"
    NOTE = "note"  # payload: text
    EXPAND = "expand"  # write more variants of one idea; payload: count
    CERTIFY = "certify"
    PROFILE = "profile"  # count what it does; payload: profile, where a command has counted it already
    PAUSE = "pause"
    RESUME = "resume"
    BUDGET = "budget"  # payload: any field of Budget, or rounds
    STOP = "stop"  # payload: drain (true: once what runs is finished)


class DecisionState(StrEnum):
    """Whether the engine has carried a decision out."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"  # `answer` says why


class SessionState(StrEnum):
    """What the engine says of itself."""

    NEW = "new"  # never run
    RUNNING = "running"
    PAUSED = "paused"  # by a person, or because it cannot go on; `reason` says which
    FINISHED = "finished"  # `reason` says on what
    STOPPED = "stopped"  # by a person


class CallState(StrEnum):
    """What became of a question to an author."""

    RESERVED = "reserved"  # about to be sent; the worst case is reserved in the budget
    DONE = "done"
    FAILED = "failed"  # `error` says how; what it cost is counted


class CheckResult(StrEnum):
    """The finding of one check."""

    PASS = "pass"
    FAIL = "fail"
    NOTE = "note"  # worth knowing, decides nothing
    SKIPPED = "skipped"  # could not be made here; the detail says why


class Badge(StrEnum):
    """How far a number can be trusted."""

    CERTIFIED = "certified"  # measured again in a fresh process, sanitizers passed
    MEASURED = "measured"  # paired, verified, undisturbed
    UNTRUSTED = "untrusted"  # too disturbed for a ratio
    SUSPECT = "suspect"


# --------------------------------------------------------------------------- problem


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


# --------------------------------------------------------------------------- candidate and verdict


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


# --------------------------------------------------------------------------- the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """An optimisation hypothesis in plain words."""

    id: str  # "i001"
    round: int  # from 1
    parent: str | None = None  # variant it starts from; None: the reference
    author: str = ""
    title: str = ""
    text: str = ""
    bottleneck: str = ""
    technique: str = ""
    expected: str = ""  # the author's own forecast
    risk: str = ""
    status: IdeaStatus = IdeaStatus.APPROVED
    merged_into: str | None = None
    note: str = ""  # a person's
    call: int | None = None  # the Call it came from
    key: str = ""  # the author's own name for it: a playbook card
    human: bool = False  # added or edited by a person
    created: float = 0.0  # seconds since 1970
    place: int | None = None  # among the ideas of its round, once a person moved one; code is written in that order


def in_order(ideas: Iterable[Idea]) -> list[Idea]:
    """As code is written from them: round by round, those with a place first."""
    return sorted(ideas, key=lambda idea: (idea.round, idea.place is None, idea.place or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A node of the tree: one attempt. A light row: source, log and samples are read on demand."""

    id: str  # "v00001"
    idea: str | None  # None: a starter, or injected without an idea
    round: int
    parent: str | None = None  # the variant it repairs, sweeps or starts from
    kind: VariantKind = VariantKind.ATTEMPT
    author: str = ""
    name: str = ""  # a word for the row: file name, tunables
    language: Language | None = None
    candidate: str | None = None  # digest; None until written
    source: str = ""  # sha256 of the text alone: variants that share it differ in tunables
    defines: tuple[tuple[str, str], ...] = ()
    state: VariantState = VariantState.WAITING
    author_error: str = ""  # why there is no candidate; the author's fault, not the idea's
    same_as: str | None = None  # variant with the same candidate that was judged before
    outcome: Outcome | None = None
    stage: Stage | None = None
    message: str = ""
    median_us: float | None = None
    speedup: Speedup | None = None  # against eager
    badge: Badge | None = None
    registers: int | None = None  # the largest of its kernels
    shared_bytes: int | None = None
    device: str | None = None  # device id
    world: str = ""  # the verdict's: where the numbers above may be believed
    screened: bool = False  # timed with a few pairs only: it was no contender then
    tunables: bool = False  # its source declares `// tune:` lines
    pruned: bool = False
    pinned: bool = False
    human: bool = False
    note: str = ""
    call: int | None = None
    attempts: int = 0  # times it was taken up; a retry adds one
    created: float = 0.0
    finished: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One question to an author. Money: `cost_usd` None is unknown, never 0."""

    id: int
    purpose: str  # "ideas", "write", "repair", "sweep"
    node: str  # idea or variant it serves; ideas: the parent, "" is the reference
    author: str
    round: int = 0  # of an "ideas" call
    model: str = ""
    state: CallState = CallState.RESERVED
    prompt: str = ""
    answer: str = ""
    reasoning: str = ""
    error: str = ""
    finish_reason: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    reserved_usd: float | None = None  # worst case; stands for the cost as long as that is unknown
    reserved_tokens: int | None = None  # worst case, likewise
    latency_s: float | None = None
    retries: int = 0
    created: float = 0.0
    finished: float | None = None  # when its answer, or its failure, was written down


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An act of a person, carried out by the engine."""

    id: int
    kind: DecisionKind
    target: str = ""  # idea or variant id; "" for the session
    payload: FrozenDict[str, Any] = field(default_factory=dict)
    who: str = ""
    state: DecisionState = DecisionState.PENDING
    answer: str = ""  # what the engine says it did, or why not
    created: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line of the event log."""

    id: int
    created: float
    who: str  # "engine", an author's name, or a person
    kind: str  # "best", "round", "verdict", "profile", "decision", "author", "pause", "finish", "machine"
    text: str
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What one process does now."""

    name: str  # "gpu0", "cpu 0-1", "compile 3", "author openai"
    doing: str = ""  # "" is idle
    node: str = ""
    since: float = 0.0
    until: float = 0.0  # when a provider's rate limit lets it go on; 0: it does not wait


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """What the engine last said of itself."""

    state: SessionState = SessionState.NEW
    reason: str = ""
    pid: int | None = None
    pid_started: float | None = None  # guards against a recycled process id
    heartbeat: float = 0.0
    round: int = 0
    parents: tuple[str, ...] = ()  # what the round starts from; "" is the reference
    shares: tuple[tuple[str, float], ...] = ()  # of the round's work by author, where settings say "bandit"
    best: str | None = None  # variant id
    started: float | None = None
    active_s: float = 0.0  # wall time spent running, over all runs
    workers: tuple[Worker, ...] = ()
    device: Device | None = None
    worlds: tuple[str, ...] = ()  # of verdicts that may be believed now; () believes all
    notices: tuple[str, ...] = ()  # standing remarks: what is missing, lint of the problem


# --------------------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorSettings:
    """One `[[author]]` table of session.toml."""

    kind: str  # openai, gemini, command, playbook
    model: str = ""
    name: str = ""  # shown; "" is kind or kind:model
    share: float = 1.0
    effort: str = ""  # reasoning effort; "" is not sent
    temperature: float | None = None  # None is not sent
    max_tokens: int | None = None  # cap on one answer; None is not sent
    base_url: str = ""
    api: str = "responses"  # or "chat"
    api_key_env: str = ""
    command: tuple[str, ...] = ()
    timeout_s: float = 900.0  # for one whole call, retries included
    thinking_budget: int | None = None
    price_in_usd: float | None = None  # per million tokens
    price_out_usd: float | None = None
    price_cached_usd: float | None = None

    @property
    def label(self) -> str:
        """The name that screen and tree know it by."""
        return self.name or (f"{self.kind}:{self.model}" if self.model else self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Caps. None is no cap. Whichever is hit first ends the search."""

    usd: float | None = None
    tokens: int | None = None
    evaluations: int | None = None
    wall_s: float | None = None
    target_speedup: float | None = None  # against eager
    plateau_rounds: int | None = None  # end after so many rounds with no gain above noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What candidates may do."""

    library_calls: bool = False  # cuBLAS, cuDNN
    lower_precision: bool = False  # may a lower measured class win
    fast_math: bool = True  # --use_fast_math / -ffast-math in a candidate's flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What session.toml holds."""

    problem: str  # a name under kernels/ or a path
    rounds: int = 5
    ideas: int = 4  # per parent
    variants: int = 3  # per idea
    beam: int = 4  # survivors a round
    repairs: int = 1
    per_idea: int = 2  # survivors from one idea
    per_lineage: int = 3  # survivors from one ancestor
    wildcard: float = 0.1  # chance that an older kernel joins a round
    close_at: float = 0.9  # share of a round's variants that closes it
    sweep_points: int = 12  # evaluations for one sweep; 0 is no sweep
    review: bool = False
    seed: int = 0
    shares: str = "fixed"  # or "bandit": each round, by what an author's variants achieved for their cost
    authors: tuple[AuthorSettings, ...] = (AuthorSettings(kind="playbook"),)
    budget: Budget = Budget()
    policy: Policy = Policy()
    device: str = "auto"  # auto, cuda, cpu, or a device id
    devices: tuple[str, ...] = ()  # more than one of the same kind
    sizes: FrozenDict[str, int] = field(default_factory=dict)  # module constants of the reference
    tolerance: str = ""  # "" is the problem's own profile
    deadline_s: float = 20.0  # for one run on a device
    notes: str = ""  # a person's, given to every author


# --------------------------------------------------------------------------- the read model


@dataclass(slots=True, kw_only=True)
class Tree:
    """The session as read: one read model for search, TUI, CLI and export.

    The one mutable record: `store.read_tree` fills it and `store.refresh` folds in what changed.
    """

    settings: Settings
    status: EngineStatus = field(default_factory=EngineStatus)
    ideas: dict[str, Idea] = field(default_factory=dict)  # in order of creation
    variants: dict[str, Variant] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)  # without prompt and answer
    seq: int = 0  # last change folded in

    def children(self, node: str | None) -> list[Variant]:
        """Variants whose parent is `node`: repairs and sweep points."""
        return [variant for variant in self.variants.values() if variant.parent == node]

    def of_idea(self, idea: str) -> list[Variant]:
        """Every variant under an idea, repairs and sweep points included."""
        return [variant for variant in self.variants.values() if variant.idea == idea]

    def correct(self) -> list[Variant]:
        """Verified and timed here, and not pruned; fastest first."""
        found = [v for v in self.variants.values() if is_ranked(v) and self.is_here(v) and not self.is_pruned(v)]
        return sorted(found, key=standing)

    def is_here(self, variant: Variant) -> bool:
        """Whether its verdict may be believed on the device that the session is on now."""
        return not self.status.worlds or variant.world in self.status.worlds

    def is_pruned(self, variant: Variant) -> bool:
        """Whether the variant, its idea, or anything above either was pruned or rejected."""
        seen: set[str] = set()
        node: Variant | None = variant
        while node is not None and node.id not in seen:
            if node.pruned:
                return True
            seen.add(node.id)
            idea = self.ideas.get(node.idea) if node.idea else None
            if idea is not None and idea.status in (IdeaStatus.PRUNED, IdeaStatus.REJECTED):
                return True
            above = node.parent or (idea.parent if idea else None)
            node = self.variants.get(above) if above else None
        return False

    def best(self) -> Variant | None:
        """The fastest correct variant."""
        ranked = self.correct()
        return ranked[0] if ranked else None


def standing(variant: Variant) -> tuple[int, float, str]:
    """Sort key, best first: by paired speed-up, which drift of the machine cannot touch; by time where there is none."""
    if variant.speedup is not None and variant.speedup.ratio > 0:
        return 0, 1 / variant.speedup.ratio, variant.id
    return 1, variant.median_us or 0.0, variant.id


def is_ranked(variant: Variant) -> bool:
    """Whether its time may be compared: correct, believable, above zero."""
    return (
        variant.outcome is Outcome.CORRECT
        and variant.median_us is not None
        and variant.median_us > 0
        and variant.badge not in (Badge.UNTRUSTED, Badge.SUSPECT)
    )


# --------------------------------------------------------------------------- JSON


def sha256(text: str) -> str:
    """Hex digest of UTF-8 text; lone surrogates are kept apart, not an error."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode(record: Any) -> str:
    """JSON text of a record."""
    return msgspec.json.encode(record).decode()


def decode(text: str | bytes, kind: type[T]) -> T:
    """The record that `encode` wrote. Unknown fields of a newer program are ignored.

    Raises:
        msgspec.ValidationError: the text is not such a record.
    """
    return msgspec.json.decode(text, type=kind)
