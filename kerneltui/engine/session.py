"""The state of a running engine: the store, the tree as it stands, and what is under way.

Everything that happened is committed before anything else happens; the tree in memory is folded from what was
committed, never the other way round.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kerneltui.authors import Author
from kerneltui.records import (
    Candidate,
    Check,
    Contract,
    Device,
    EngineStatus,
    Event,
    Language,
    Problem,
    Profile,
    SessionState,
    Settings,
    Tree,
    Variant,
    VariantState,
    Verdict,
    Worker,
)
from kerneltui.store import Store

log = logging.getLogger(__name__)

Key = tuple[str, ...]  # what a task is at: ("judge", variant), ("write", variant), ("ideas", round, parent, author)

NO_AUTHOR = "no author is left"  # how the reason of that pause begins
ROOM_POLL_S = 0.5  # how often a full disk is tried again
DISK_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR")
ROOM_BYTES = 2**20  # an I/O error with less room than this is a full disk


class Prepared(Protocol):
    """What an evaluator's preparation finds out."""

    @property
    def contract(self) -> Contract | None: ...
    @property
    def device(self) -> Device: ...
    @property
    def baselines_us(self) -> Mapping[str, float]: ...
    @property
    def floor_us(self) -> float | None: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def checks(self) -> Sequence[Check]: ...
    @property
    def facts(self) -> Mapping[str, str]: ...


class Evaluator(Protocol):
    """Judges candidates on one problem."""

    async def prepare(self) -> Prepared:
        """Start the judge; raises ProblemError or MachineError."""

    async def judge(
        self,
        candidate: Candidate,
        *,
        full: bool = True,
        beam_us: float | None = None,
        on_state: Callable[[VariantState, str], None] | None = None,
    ) -> Verdict:
        """The finding on a candidate; raises MachineError for a fault that is not its own."""

    def worlds(self) -> tuple[str, ...]:
        """Worlds of its verdicts, once it has prepared."""

    async def certify(self, candidate: Candidate) -> Verdict:
        """Measure again in a fresh process, with every check."""

    async def profile(self, candidate: Candidate) -> Profile:
        """Count what it does; raises UsageError where there is nothing to count, MachineError where nothing can count."""

    async def aclose(self) -> None:
        """Leave no process behind."""


@dataclass(slots=True)
class Trouble:
    """Passing trouble with one author."""

    failures: int = 0
    since: float = 0.0  # a call begun before is part of the same trouble
    until: float = 0.0  # not asked before


@dataclass(slots=True)
class Session:
    """One open session and the work on it."""

    store: Store
    tree: Tree
    settings: Settings
    problem: Problem
    hear: Callable[[Event], None] | None = None
    authors: dict[str, Author] = field(default_factory=dict)
    evaluator: Evaluator | None = None
    prepared: Prepared | None = None
    status: EngineStatus = field(default_factory=EngineStatus)
    out: dict[str, str] = field(default_factory=dict)  # authors that are out, and why
    broke: dict[str, str] = field(default_factory=dict)  # authors whose next call the budget forbids, and why
    trouble: dict[str, Trouble] = field(default_factory=dict)
    work: dict[Key, asyncio.Task[None]] = field(default_factory=dict)
    judging: dict[str, str] = field(default_factory=dict)  # candidate -> the variant that is being judged with it
    dropped: set[Key] = field(default_factory=set)  # cancelled because a person pruned, not because we end
    confirmed: set[str] = field(default_factory=set)  # variants that were measured again because they were the best
    workers: dict[str, Worker] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ending: bool = False
    disk_full: str = ""
    unheard: list[Event] = field(default_factory=list)

    # ----------------------------------------------------------------- writing

    async def commit(self, write: Callable[[], None]) -> None:
        """Run `write` in one transaction; while the disk is full, wait with everything in hand."""
        while True:
            try:
                self.commit_now(write)
                self.disk_full = ""
                return
            except sqlite3.OperationalError as error:
                words = disk_full_words(error, self.store)
                if not words:
                    raise
                if not self.disk_full:
                    log.error("%s", words)
                    self._tell(Event(id=0, created=time.time(), who="engine", kind="pause", text=words))
                self.disk_full = words
                await asyncio.sleep(ROOM_POLL_S)

    def commit_now(self, write: Callable[[], None]) -> None:
        """Run `write` in one transaction, fold it into the tree, tell who listens."""
        self.unheard.clear()
        with self.store.transaction():
            write()
        self.fold()
        heard, self.unheard = self.unheard, []
        for event in heard:
            self._tell(event)

    def commit_last(self, write: Callable[[], None]) -> None:
        """As `commit_now`, on the way out: what cannot be written is mended at the next start."""
        try:
            self.commit_now(write)
        except sqlite3.OperationalError as error:
            log.error("not written on the way out: %s", error)

    def fold(self) -> None:
        """Take in what was committed."""
        self.store.refresh(self.tree)
        self.tree.status = self.status
        self.changed.set()

    def put(self, *variants: Variant) -> None:
        """Write variants down; inside or outside of `commit`."""
        self.store.put_variants(variants)

    def say(self, who: str, kind: str, text: str, node: str = "") -> None:
        """Add to the event log; to be called inside of `commit`."""
        self.unheard.append(self.store.add_event(who, kind, text, node))

    async def announce(self, who: str, kind: str, text: str, node: str = "") -> None:
        """Add to the event log."""
        log.info("%s: %s", who, text)
        await self.commit(lambda: self.say(who, kind, text, node))

    async def set_status(self, **changes: Any) -> None:
        """Change what the engine says of itself and write it down."""
        self.status = replace(self.status, **changes)
        await self.commit(lambda: self.store.put_status(self.status))

    async def pause(self, reason: str) -> None:
        """Stop beginning anything new until a person says so."""
        if self.status.state is SessionState.PAUSED:
            return
        await self.set_status(state=SessionState.PAUSED, reason=reason)
        await self.announce("engine", "pause", reason)

    def _tell(self, event: Event) -> None:
        if self.hear is not None:
            self.hear(event)

    # ----------------------------------------------------------------- tasks

    def begin(self, key: Key, work: Coroutine[Any, Any, None]) -> None:
        """Start a task unless the same one is under way."""
        if key in self.work or self.ending:
            work.close()
            return
        task = asyncio.create_task(self._guard(key, work), name=" ".join(key))
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before its first step never ran
        self.work[key] = task

    async def _guard(self, key: Key, work: Coroutine[Any, Any, None]) -> None:
        """The step boundary: what nobody expected pauses the session with a trace in the log."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("while at %s", " ".join(key))
            await self.pause(
                f"kerneltui failed while at {' '.join(key)} ({type(error).__name__}: {error}). The trace is in "
                f"{self.store.folder / 'engine.log'}; resume to try again."
            )
        finally:
            self.work.pop(key, None)
            self.dropped.discard(key)
            self.changed.set()

    def show(self, name: str, doing: str = "", node: str = "") -> None:
        """Say what a worker does; nothing is idle."""
        if not doing:
            self.workers.pop(name, None)
        elif name in self.workers and self.workers[name].node == node:
            self.workers[name] = replace(self.workers[name], doing=doing)
        else:
            self.workers[name] = Worker(name=name, doing=doing, node=node, since=time.time())

    # ----------------------------------------------------------------- looking

    def source_of(self, variant: Variant) -> str:
        """Its text; "" while it has none."""
        return self.store.read_candidate(variant.candidate).source if variant.candidate else ""

    @property
    def language(self) -> Language:
        """What candidates are written in here."""
        contract = self.prepared.contract if self.prepared else None
        return contract.language if contract else Language.PYTHON

    def is_running(self) -> bool:
        """Whether new work may be begun."""
        return self.status.state is SessionState.RUNNING and not self.ending and not self.disk_full


def disk_full_words(error: sqlite3.OperationalError, store: Store) -> str:
    """A sentence when the error is a full disk, else ""."""
    name = getattr(error, "sqlite_errorname", "")
    if not name.startswith(DISK_ERRORS):
        return ""
    room = os.statvfs(store.folder)
    free, total = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    if not name.startswith("SQLITE_FULL") and free > ROOM_BYTES:
        return ""
    return (
        f"disk full: {free / 2**20:.0f} of {total / 2**20:.0f} MB free at {store.folder}; continues when there is room"
    )
