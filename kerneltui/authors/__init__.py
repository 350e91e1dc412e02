"""Sources of ideas and variants behind one protocol, and the records that travel to and from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kerneltui.records import (
    AuthorSettings,
    Contract,
    Device,
    Idea,
    Language,
    Measurement,
    Policy,
    Problem,
    Speedup,
    Variant,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One line of what was tried before and how it ended."""

    idea: Idea
    outcomes: dict[str, int]  # outcome -> variants
    best: Speedup | None = None  # against eager
    median_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All that an author may know. Prompts are pure functions of it."""

    problem: Problem
    contract: Contract
    device: Device
    language: Language  # what to write
    round: int
    parent: Variant | None = None  # None: the reference itself
    parent_source: str = ""
    parent_verdict: Verdict | None = None
    baselines_us: dict[str, float] = field(default_factory=dict)
    floor_us: float | None = None
    best: Measurement | None = None
    tried: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = ()  # a person's, on session, idea and variant
    policy: Policy = field(default_factory=Policy)
    ledger: tuple[str, ...] = ()  # a line per technique: how often it was tried on this device, and what it paid
    profile: dict[str, str] = field(default_factory=dict)  # counters of the parent, where it was profiled
    templates: dict[str, str] = field(default_factory=dict)  # overrides from the session folder, by file name
    used_keys: frozenset[str] = frozenset()  # playbook cards that are in the tree already
    new_keys: frozenset[str] = frozenset()  # those of them that were dealt in this very round
    lineage: tuple[str, ...] = ()  # keys of the ideas from the reference down to the parent
    round_keys: frozenset[str] = frozenset()  # keys in the lineage of any parent of this round
    tried_settings: frozenset[tuple[tuple[str, str], ...]] = frozenset()  # tunables tried on the parent's source


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question. `Author.prepare` fills in prompt and worst case before anything is sent."""

    purpose: str  # "ideas", "write", "repair"
    material: Material
    count: int = 1  # ideas wanted
    idea: Idea | None = None  # for write and repair
    index: int = 0  # which of the idea's variants this will be, from 0
    failed: Variant | None = None  # for repair
    failed_source: str = ""
    failed_verdict: Verdict | None = None
    prompt: str = ""
    worst_usd: float | None = 0.0  # most this call can cost; None: no price is known
    worst_tokens: int | None = 0  # most it can use; None: no cap is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came over the wire, and what it cost. Unknown is None, never 0."""

    text: str = ""
    reasoning: str = ""
    model: str = ""
    finish_reason: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaDraft:
    """An idea before it has an id."""

    title: str
    text: str = ""
    bottleneck: str = ""
    technique: str = ""
    expected: str = ""
    risk: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an author made of an Ask. `problem` is set when there is nothing usable, and says why."""

    ideas: tuple[IdeaDraft, ...] = ()
    source: str = ""
    language: Language | None = None
    defines: tuple[tuple[str, str], ...] = ()
    name: str = ""  # a word for the row
    problem: str = ""
    notes: tuple[str, ...] = ()  # what the parser did: which block it took, what it mended
    reply: Reply = Reply()


class Author(Protocol):
    """A source of ideas and variants."""

    name: str
    settings: AuthorSettings

    def prepare(self, ask: Ask) -> Ask:
        """The same question with prompt and worst case filled in."""

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        """Answer a prepared question; `on_text` hears text as it streams.

        Raises:
            AuthorUnavailable: passing trouble outlasted its retries; the Call failed, its cost may be unknown.
            AuthorStopped: this author is out for the session.
        """

    def waits_s(self) -> float:
        """How long a rate limit still holds it up."""

    async def aclose(self) -> None:
        """Let go of connections."""
