"""What is written to a session file: one engine writes all but decisions; viewers write only those."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import SessionError
from kerneltui.migrations import SCHEMA_VERSION
from kerneltui.records import (
    Call,
    CallState,
    Candidate,
    Contract,
    DecisionKind,
    DecisionState,
    EngineStatus,
    Event,
    Idea,
    Problem,
    Profile,
    Settings,
    Variant,
    Verdict,
    encode,
)
from kerneltui.settings import dump_settings
from kerneltui.store.files import connect, make_folder, migrate_file, remove
from kerneltui.store.places import refuse_network_filesystem
from kerneltui.store.reading import Reader


class Store(Reader):
    """A session that is written as well: by its engine, and by viewers who only add decisions."""

    @classmethod
    def create(cls, folder: Path, settings: Settings, problem: Problem) -> Store:
        """A new session; nothing is left behind when it cannot be made.

        Raises:
            SessionError: the folder exists, cannot be written, or lies on a network filesystem.
        """
        made = make_folder(folder)
        try:
            refuse_network_filesystem(folder)
            (folder / "session.toml").write_text(dump_settings(settings), encoding="utf-8")
            db = connect(folder / "session.db")
            db.execute("PRAGMA journal_mode = WAL")
            migrate_file(db, folder, 0)
            store = cls(folder, db, write=True)
            store._set_meta("problem", encode(problem))
            return store
        except BaseException:
            remove(made)
            raise

    @classmethod
    def open(cls, folder: Path, *, write: bool = False, migrate: bool = True, shared: bool = False) -> Store:
        """An existing session; `write` is the engine's, everybody else only adds decisions. A `shared` one may be used
        from several threads, one after the other.

        Raises:
            SessionError: no session there, not ours, or written by a newer program.
        """
        path = folder / "session.db"
        if not path.is_file():
            raise SessionError(f"{folder}: no session here (no session.db). `kerneltui ls` lists the sessions.")
        try:
            db = connect(path, shared=shared)
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error as error:
            hint = "Put a copy of it back, or open another session."
            raise SessionError(f"{path}: cannot be read as a session: {error}. {hint}") from error
        if version > SCHEMA_VERSION:
            db.close()
            raise SessionError(
                f"{path}: written by a newer kerneltui (schema {version}; this one knows {SCHEMA_VERSION}). "
                "Upgrade kerneltui to open it; nothing was changed."
            )
        if version < SCHEMA_VERSION:
            if not migrate or version == 0:
                db.close()
                raise SessionError(f"{path}: schema {version}, not a session of kerneltui (schema {SCHEMA_VERSION}).")
            migrate_file(db, folder, version)
        return cls(folder, db, write=write)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_settings(self, settings: Settings) -> None:
        """Rewrite session.toml on an explicit change; the text before it is kept as session.toml.bak."""
        path = self.folder / "session.toml"
        if path.exists():
            shutil.copy2(path, path.with_suffix(".toml.bak"))
        fresh = path.with_suffix(".toml.new")
        fresh.write_text(dump_settings(settings), encoding="utf-8")
        os.replace(fresh, path)

    def add_decision(
        self, kind: DecisionKind, target: str = "", payload: dict[str, Any] | None = None, who: str = ""
    ) -> int:
        """Ask the engine for something; it is carried out when an engine runs. The decision's id.

        Raises:
            SessionError: the session cannot be written.
        """
        try:
            return self.put_decision(kind, target, payload, who)
        except sqlite3.OperationalError as error:
            raise SessionError(f"{self.folder}: the decision could not be written: {error}.") from error

    def put_decision(
        self, kind: DecisionKind, target: str = "", payload: dict[str, Any] | None = None, who: str = ""
    ) -> int:
        """The same for the engine, which waits by itself where a disk is full."""
        body = msgspec.json.encode(clean(payload or {})).decode()
        with self.transaction():
            cursor = self._db.execute(
                "INSERT INTO decision (kind, target, payload, who, state, answer, created) VALUES (?, ?, ?, ?, ?, '', ?)",
                (str(kind), target, body, clean(who), str(DecisionState.PENDING), time.time()),
            )
        return int(cursor.lastrowid or 0)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; may be nested, the outermost commits."""
        if self._depth == 0:
            self._db.execute("BEGIN IMMEDIATE")
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            if self._depth == 0 and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._depth -= 1
        if self._depth == 0:
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:  # a full disk may be found out here only
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def put_contract(self, contract: Contract) -> None:
        """Keep the contract."""
        self._set_meta("contract", encode(contract))

    def put_prepared(self, prepared: dict[str, Any]) -> None:
        """Keep the facts of the evaluator's preparation."""
        self._set_meta("prepared", encode(prepared))

    def put_profile(self, digest: str, profile: Profile) -> None:
        """Keep what was counted of a candidate, in place of what was counted before."""
        self._set_meta(f"profile {digest}", encode(clean(profile)))

    def put_status(self, status: EngineStatus) -> None:
        """Say what the engine does."""
        self._set_meta("status", encode(clean(status)))

    def next_idea_id(self) -> str:
        """An id that no idea has had."""
        return f"i{self._count('idea'):03d}"

    def next_variant_id(self) -> str:
        """An id that no variant has had."""
        return f"v{self._count('variant'):05d}"

    def put_ideas(self, ideas: Iterable[Idea]) -> None:
        """Insert or replace, in one transaction."""
        with self.transaction():
            for idea in ideas:
                self._db.execute(
                    "INSERT INTO idea (id, seq, body) VALUES (?, ?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body",
                    (idea.id, self._next_seq(), encode(clean(idea))),
                )

    def put_variants(self, variants: Iterable[Variant]) -> None:
        """Insert or replace, in one transaction."""
        with self.transaction():
            for variant in variants:
                self._db.execute(
                    "INSERT INTO variant (id, seq, idea, candidate, state, body) VALUES (?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, idea = excluded.idea,"
                    " candidate = excluded.candidate, state = excluded.state, body = excluded.body",
                    (
                        variant.id,
                        self._next_seq(),
                        variant.idea,
                        variant.candidate,
                        str(variant.state),
                        encode(clean(variant)),
                    ),
                )

    def add_candidate(self, candidate: Candidate) -> str:
        """Keep a source; its digest."""
        with self.transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO candidate VALUES (?, ?)", (candidate.digest, encode(clean(candidate)))
            )
        return candidate.digest

    def add_verdict(self, variant: Variant, verdict: Verdict) -> None:
        """The verdict and the variant's summary of it, in one transaction."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO verdict (variant, candidate, world, created, body) VALUES (?, ?, ?, ?, ?)",
                (variant.id, variant.candidate or "", verdict.world, time.time(), encode(clean(verdict))),
            )
            self.put_variants([variant])

    def reserve_call(self, call: Call) -> Call:
        """Write a call down before it is sent; its id is given here, whatever `call.id` says."""
        with self.transaction():
            cursor = self._db.execute(
                "INSERT INTO call (seq, node, state, body, prompt, answer, reasoning) VALUES (0, ?, ?, '', ?, '', '')",
                (call.node, str(call.state), clean(call.prompt)),
            )
            numbered = replace(call, id=int(cursor.lastrowid or 0))
            self.finish_call(numbered)
        return numbered

    def finish_call(self, call: Call) -> None:
        """Write down what became of a call."""
        call = clean(call)
        if call.state is not CallState.RESERVED and call.finished is None:
            call = replace(call, finished=time.time())
        light = replace(call, prompt="", answer="", reasoning="")
        with self.transaction():
            self._db.execute(
                "UPDATE call SET seq = ?, node = ?, state = ?, body = ?, answer = ?, reasoning = ? WHERE id = ?",
                (self._next_seq(), call.node, str(call.state), encode(light), call.answer, call.reasoning, call.id),
            )

    def add_event(self, who: str, kind: str, text: str, node: str = "") -> Event:
        """Append to the event log."""
        now = time.time()
        row = (now, clean(who), kind, clean(text), node)
        with self.transaction():
            cursor = self._db.execute("INSERT INTO event (created, who, kind, text, node) VALUES (?, ?, ?, ?, ?)", row)
        return Event(id=int(cursor.lastrowid or 0), created=now, who=who, kind=kind, text=text, node=node)

    def finish_decision(self, decision: int, state: DecisionState, answer: str = "") -> None:
        """Say what became of a decision."""
        with self.transaction():
            self._db.execute(
                "UPDATE decision SET state = ?, answer = ? WHERE id = ?", (str(state), clean(answer), decision)
            )

    def _set_meta(self, key: str, value: str) -> None:
        with self.transaction():
            self._db.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
            )

    def _next_seq(self) -> int:
        row = self._db.execute("UPDATE meta SET value = value + 1 WHERE key = 'seq' RETURNING value").fetchone()
        return int(row[0])

    def _count(self, noun: str) -> int:
        key = f"last_{noun}"
        with self.transaction():
            number = int(self._meta(key) or 0) + 1
            self._set_meta(key, str(number))
        return number


def clean(value: Any) -> Any:
    """The same record with lone surrogates, which JSON and SQLite refuse, as replacement marks."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    try:
        msgspec.json.encode(value)
        return value
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return msgspec.convert(replace_surrogates(plain), type=type(value))


def replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(item) for item in value]
    return value
