"""Ideas, variants, calls, decisions and events, and the session as read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kerneltui.records.closed import (
    Badge,
    CallState,
    DecisionKind,
    DecisionState,
    IdeaStatus,
    Language,
    Outcome,
    SessionState,
    Stage,
    VariantKind,
    VariantState,
)
from kerneltui.records.settings import Settings
from kerneltui.records.text import FrozenDict
from kerneltui.records.verdict import Device, Speedup


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
