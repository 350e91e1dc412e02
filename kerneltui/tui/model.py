"""What the main screen shows: the tree as last read, its rows, events, open decisions, and single facts on demand."""

from __future__ import annotations

import getpass
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerneltui.errors import SessionError
from kerneltui.records import (
    Call,
    Candidate,
    Contract,
    Decision,
    DecisionKind,
    Event,
    Idea,
    Problem,
    SessionState,
    Tree,
    Variant,
    Verdict,
)
from kerneltui.store import Store
from kerneltui.tui.engines import is_running
from kerneltui.tui.outline import Outline
from kerneltui.tui.stored import StoredVariants

EVENTS_KEPT = 2000
SUBJECTS_KEPT = 32
LAG_SHOWN_S = 3.0  # a heartbeat older than this is said in the header
LAG_GONE_S = 10.0  # and older than this, with its process away, means that the engine is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The session as the feed read it first."""

    outline: Outline
    events: list[Event]
    pending: list[Decision]
    problem: Problem
    contract: Contract | None
    prepared: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What the feed found new."""

    tree: Tree  # holds only what changed
    events: list[Event]
    pending: list[Decision]
    contract: Contract | None
    prepared: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One variant with all that belongs to it; parts that do not exist are None."""

    variant: Variant
    idea: Idea | None = None
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    parent: Variant | None = None
    call: Call | None = None


@dataclass(slots=True)
class Model:
    """State of one open session. Lives in the UI thread."""

    folder: Path
    outline: Outline
    store: Store
    problem: Problem
    contract: Contract | None
    prepared: dict[str, Any]
    events: list[Event]
    pending: list[Decision]
    marks: set[str] = field(default_factory=set)
    who: str = field(default_factory=lambda: user_name())
    engine_alive: bool = True
    _subjects: OrderedDict[tuple[object, ...], Subject] = field(default_factory=OrderedDict)

    @classmethod
    def open(cls, folder: Path, loaded: Loaded) -> Model:
        """A model on a connection of its own."""
        model = cls(
            folder=folder,
            outline=loaded.outline,
            store=Store.open(folder),
            problem=loaded.problem,
            contract=loaded.contract,
            prepared=loaded.prepared,
            events=loaded.events,
            pending=loaded.pending,
        )
        model.check_engine()
        return model

    def close(self) -> None:
        """Give the session file back."""
        self.store.close()
        if isinstance(self.tree.variants, StoredVariants):
            self.tree.variants.close()

    @property
    def tree(self) -> Tree:
        """The session as last read."""
        return self.outline.tree

    def fold(self, changed: Changed) -> None:
        """Take in what the feed found."""
        tree, new = self.tree, changed.tree
        tree.ideas.update(new.ideas)
        tree.variants.update(new.variants)
        tree.calls.update(new.calls)
        tree.status, tree.seq, tree.settings = new.status, new.seq, new.settings
        self.outline.fold(new.ideas, new.variants)
        self.events = [*self.events, *changed.events][-EVENTS_KEPT:]
        self.pending, self.contract, self.prepared = changed.pending, changed.contract, changed.prepared

    def doing(self, node: str) -> str:
        """What a process does with a node now, in words; "" if none has it."""
        for worker in self.tree.status.workers:
            if worker.node == node and worker.doing:
                on_device = worker.name.startswith(("gpu", "cpu", "cuda"))
                return f"{worker.doing} on {worker.name}" if on_device else ""
        return ""

    # ----------------------------------------------------------------- single facts

    def subject(self, variant: Variant) -> Subject:
        """Everything on one variant, read from the session and kept for a while."""
        judged = (variant.outcome, variant.badge, variant.median_us, variant.finished)  # differs after each verdict
        key = (variant.id, variant.candidate, str(variant.state), variant.call, *judged)
        found = self._subjects.get(key)
        if found is None:
            found = self._subjects[key] = self._read_subject(variant)
            if len(self._subjects) > SUBJECTS_KEPT:
                self._subjects.popitem(last=False)
        idea = self.tree.ideas.get(variant.idea or "")
        return Subject(
            variant=variant,
            idea=idea,
            candidate=found.candidate,
            verdict=found.verdict,
            parent=self.parent_of(variant),
            call=found.call,
        )

    def _read_subject(self, variant: Variant) -> Subject:
        return Subject(
            variant=variant,
            candidate=self.candidate(variant),
            verdict=self.store.read_verdict(variant.id) or self._twin_verdict(variant),
            call=self.call(variant.call),
        )

    def _twin_verdict(self, variant: Variant) -> Verdict | None:
        return self.store.read_verdict(variant.same_as) if variant.same_as else None

    def candidate(self, variant: Variant | None) -> Candidate | None:
        """Its source, if it has one."""
        if variant is None or variant.candidate is None:
            return None
        try:
            return self.store.read_candidate(variant.candidate)
        except SessionError:
            return None

    def call(self, id: int | None) -> Call | None:
        """A call with prompt and answer."""
        if id is None:
            return None
        try:
            return self.store.read_call(id)
        except SessionError:
            return None

    def parent_of(self, variant: Variant) -> Variant | None:
        """The variant it started from: its own parent, else its idea's."""
        idea = self.tree.ideas.get(variant.idea or "")
        above = variant.parent or (idea.parent if idea else None)
        return self.tree.variants.get(above) if above else None

    def lineage(self, variant: Variant) -> list[Variant]:
        """From the first ancestor down to the variant itself."""
        path, seen = [variant], {variant.id}
        while (above := self.parent_of(path[-1])) is not None and above.id not in seen:
            path.append(above)
            seen.add(above.id)
        return path[::-1]

    # ----------------------------------------------------------------- decisions

    def decide(self, kind: DecisionKind, target: str = "", payload: dict[str, Any] | None = None) -> int:
        """Ask the engine for something.

        Raises:
            SessionError: the session cannot be written.
        """
        return self.store.add_decision(kind, target, payload, self.who)

    def asked(self, node: str) -> DecisionKind | None:
        """The last open decision on a node."""
        for decision in reversed(self.pending):
            if decision.target == node:
                return decision.kind
        return None

    # ----------------------------------------------------------------- the engine

    def check_engine(self) -> None:
        """Look whether the engine's process is there."""
        status = self.tree.status
        at_work = status.state in (SessionState.RUNNING, SessionState.PAUSED)
        self.engine_alive = at_work and (self.lag_s() <= LAG_SHOWN_S or is_running(status))

    def lag_s(self, now: float | None = None) -> float:
        """Age of the heartbeat."""
        return max(0.0, (now or time.time()) - self.tree.status.heartbeat)

    def engine_gone(self, now: float | None = None) -> bool:
        """Whether it ought to run and does not: no heartbeat and no process."""
        wanted = self.tree.status.state in (SessionState.RUNNING, SessionState.PAUSED)
        return wanted and not self.engine_alive and self.lag_s(now) > LAG_GONE_S

    def is_empty(self) -> bool:
        """Whether nothing stands in the tree yet."""
        return not self.tree.ideas and not self.tree.variants

    def is_resting(self) -> bool:
        """Whether nobody is at work: never started, finished, stopped or gone."""
        status = self.tree.status
        return status.state in (SessionState.NEW, SessionState.FINISHED, SessionState.STOPPED) or self.engine_gone()

    def who_text(self, who: str) -> str:
        """`you` for ourselves."""
        return "you" if who == self.who else who

    def selection(self, ids: Sequence[str]) -> list[str]:
        """The marked nodes, else the given ones."""
        return sorted(self.marks) if self.marks else list(ids)


def user_name() -> str:
    """Name of the person at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "you"
