"""The session file: a folder with session.toml and session.db. The only SQL.

    sessions/<name>/session.toml    settings, for people
    sessions/<name>/session.db      SQLite, WAL: everything else

One engine writes all but decisions; viewers read, and write only decisions. All sides poll `data_version`.
Rows that the Tree holds carry `seq`, the number of the change that last touched them, so that a reader folds in
only what is new. Bodies are JSON of the records; SQL columns exist only for what is looked up.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import SessionError
from kerneltui.migrations import SCHEMA_VERSION, STEPS
from kerneltui.records import (
    Badge,
    Call,
    CallState,
    Candidate,
    Contract,
    Decision,
    DecisionKind,
    DecisionState,
    EngineStatus,
    Event,
    Idea,
    Outcome,
    Problem,
    Profile,
    Settings,
    Tree,
    Variant,
    VariantState,
    Verdict,
    decode,
    encode,
)
from kerneltui.settings import dump_settings, parse_settings

BUSY_TIMEOUT_S = 10.0  # a writer holds the lock for milliseconds; ten seconds is a stuck disk
ROWS_A_STEP = 1000
PIECE = 500  # rows of one piece of a large session
SHARED_TEXTS = {
    "variant": ("idea", "author", "name", "candidate", "source", "message", "device", "world"),
    "call": ("author", "node"),
}  # fields whose text many rows share
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "lustre", "gpfs", "beegfs", "fuse.sshfs", "ceph", "afs")


@dataclass(frozen=True, slots=True)
class Changes:
    """What `refresh` folded in."""

    ideas: set[str] = field(default_factory=set)
    variants: set[str] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)
    status: bool = False
    events: bool = False

    def __bool__(self) -> bool:
        return bool(self.ideas or self.variants or self.calls or self.status or self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A tree of which older variants are missing, and how many there are up to which row of the session file."""

    tree: Tree
    count: int
    last_row: int


class GlanceSpeedup(msgspec.Struct, frozen=True, gc=False):
    """The paired speed-up of a glance."""

    ratio: float


class Glance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Of a variant what counts are made of, under the names that it has there: a third of the time and a tenth of the
    memory that the whole record takes."""

    id: str
    idea: str | None
    round: int
    state: VariantState
    author_error: str = ""
    outcome: Outcome | None = None
    median_us: float | None = None
    speedup: GlanceSpeedup | None = None
    badge: Badge | None = None
    world: str = ""
    pruned: bool = False


class Store:
    """One connection to one session. Use it from the thread that opened it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, write: bool) -> None:
        self.folder = folder
        self.write = write
        self._db = connection
        self._depth = 0
        self._last_event = 0
        self._settings: tuple[float, Settings] | None = None

    # ----------------------------------------------------------------- open and close

    @classmethod
    def create(cls, folder: Path, settings: Settings, problem: Problem) -> Store:
        """A new session; nothing is left behind when it cannot be made.

        Raises:
            SessionError: the folder exists, cannot be written, or lies on a network filesystem.
        """
        made = _make_folder(folder)
        try:
            refuse_network_filesystem(folder)
            (folder / "session.toml").write_text(dump_settings(settings), encoding="utf-8")
            db = _connect(folder / "session.db")
            db.execute("PRAGMA journal_mode = WAL")
            _migrate(db, folder, 0)
            store = cls(folder, db, write=True)
            store._set_meta("problem", encode(problem))
            return store
        except BaseException:
            _remove(made)
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
            db = _connect(path, shared=shared)
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
            _migrate(db, folder, version)
        return cls(folder, db, write=write)

    def close(self) -> None:
        """Close the connection; the session goes on without us."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ----------------------------------------------------------------- reading

    def data_version(self) -> int:
        """A number that moves when another connection has written."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def settings(self) -> Settings:
        """session.toml as it is now.

        Raises:
            SettingsError: it cannot be read.
        """
        path = self.folder / "session.toml"
        try:
            changed = path.stat().st_mtime
            if self._settings is None or self._settings[0] != changed:
                self._settings = (changed, parse_settings(path.read_text(encoding="utf-8"), str(path)))
        except FileNotFoundError as error:
            raise SessionError(f"{path}: the settings of this session are missing.") from error
        return self._settings[1]

    def write_settings(self, settings: Settings) -> None:
        """Rewrite session.toml on an explicit change; the text before it is kept as session.toml.bak."""
        path = self.folder / "session.toml"
        if path.exists():
            shutil.copy2(path, path.with_suffix(".toml.bak"))
        fresh = path.with_suffix(".toml.new")
        fresh.write_text(dump_settings(settings), encoding="utf-8")
        os.replace(fresh, path)

    def read_tree(self) -> Tree:
        """The whole session as one read model."""
        tree = Tree(settings=self.settings())
        self.refresh(tree)
        return tree

    def read_newest(self, rounds: int) -> Newest:
        """A tree with all but the variants of older rounds: those of the last `rounds`, and of the best one's, are in it.

        Rows of one round lie together but for stragglers; a reader who needs every one reads `glances` too.
        """
        tree = Tree(settings=self.settings())
        with self._snapshot():
            tree.seq = int(self._meta("seq") or 0)
            tree.ideas.update((idea.id, idea) for idea in self._changed("idea", 0, Idea))
            tree.calls.update((call.id, call) for call in self._changed("call", 0, Call))
            tree.status = decode(self._meta("status") or "{}", EngineStatus)
            found: dict[int, Variant] = {}
            last, count = self.last_row(), self.count_variants()
            shown = sorted({idea.round for idea in tree.ideas.values()})[-rounds:]
            self._read_around(found, last, set(shown))
            if tree.status.best and (row := self.row_of(tree.status.best)) is not None:
                best = next(variant for number, variant in self._read_rows(row, row) if number == row)
                self._read_around(found, row, {best.round})
            tree.variants.update((found[number].id, found[number]) for number in sorted(found))
        return Newest(tree=tree, count=count, last_row=last)

    def _read_around(self, found: dict[int, Variant], row: int, rounds: set[int]) -> None:
        """Add the variants of some rounds that lie near a row: both ways, up to a piece that has none."""
        for step in (-1, 1):
            piece = row // PIECE + max(0, step)
            while piece >= 0:
                rows = self._read_rows(piece * PIECE, (piece + 1) * PIECE - 1)
                fresh = [(number, variant) for number, variant in rows if variant.round in rounds]
                if not fresh:
                    break
                found.update(fresh)
                piece += step

    def _read_rows(self, first: int, last: int, ideas: str = "") -> list[tuple[int, Variant]]:
        """Variants by row number; those of some ideas, as a JSON list, and of no idea."""
        wanted = " AND (idea IS NULL OR idea IN (SELECT value FROM json_each(?)))" if ideas else ""
        rows = self._db.execute(
            f"SELECT rowid, body FROM variant WHERE rowid BETWEEN ? AND ?{wanted} ORDER BY rowid",
            (first, last, ideas) if ideas else (first, last),
        ).fetchall()
        fresh = msgspec.json.decode(f"[{','.join(body for _, body in rows)}]", type=list[Variant])
        return [(number, variant) for (number, _), variant in zip(rows, fresh, strict=True)]

    def last_row(self) -> int:
        """Number of the newest variant's row; rows are numbered in order of creation."""
        return int(self._db.execute("SELECT coalesce(max(rowid), 0) FROM variant").fetchone()[0])

    def row_of(self, variant: str) -> int | None:
        """Number of a variant's row."""
        row = self._db.execute("SELECT rowid FROM variant WHERE id = ?", (variant,)).fetchone()
        return int(row[0]) if row else None

    def count_variants(self) -> int:
        """How many there are."""
        return int(self._db.execute("SELECT count(*) FROM variant").fetchone()[0])

    def read_variant(self, id: str) -> Variant | None:
        """One variant as it is now."""
        row = self._db.execute("SELECT body FROM variant WHERE id = ?", (id,)).fetchone()
        return decode(row[0], Variant) if row else None

    def read_variants(self) -> list[Variant]:
        """All of them, in order of creation."""
        return self._changed("variant", 0, Variant)

    def variants_of(self, ideas: Iterable[str], pieces: Iterable[int] | None = None) -> list[Variant]:
        """Variants of some ideas, and those of none, in order of creation; in some pieces, or anywhere."""
        wanted = encode(list(ideas))
        if pieces is None:
            return [variant for _, variant in self._read_rows(0, self.last_row(), wanted)]
        rows = (self._read_rows(piece * PIECE, (piece + 1) * PIECE - 1, wanted) for piece in sorted(pieces))
        return [variant for part in rows for _, variant in part]

    def glances(self, last: int) -> Iterator[tuple[int, list[Glance]]]:
        """Every variant up to a row, by piece."""
        decoder = msgspec.json.Decoder(list[Glance])
        for piece in range(last // PIECE + 1):
            body = self._db.execute(
                "SELECT group_concat(body) FROM variant WHERE rowid BETWEEN ? AND ?",
                (piece * PIECE, min(last, (piece + 1) * PIECE - 1)),
            ).fetchone()[0]
            yield piece, decoder.decode(f"[{body or ''}]")

    def refresh(self, tree: Tree) -> Changes:
        """Fold what changed since `tree.seq` into `tree`."""
        with self._snapshot():
            seq = int(self._meta("seq") or 0)
            ideas = self._changed("idea", tree.seq, Idea)
            variants = self._changed("variant", tree.seq, Variant)
            calls = self._changed("call", tree.seq, Call)
            status = decode(self._meta("status") or "{}", EngineStatus)
            last = self._db.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0]
        tree.ideas.update((idea.id, idea) for idea in ideas)
        tree.variants.update((variant.id, variant) for variant in variants)
        tree.calls.update((call.id, call) for call in calls)
        changes = Changes(
            ideas={idea.id for idea in ideas},
            variants={variant.id for variant in variants},
            calls={call.id for call in calls},
            status=status != tree.status,
            events=last != self._last_event,
        )
        tree.status, tree.seq, self._last_event = status, seq, last
        return changes

    def read_status(self) -> EngineStatus:
        """What the engine last said of itself."""
        return decode(self._meta("status") or "{}", EngineStatus)

    def read_problem(self) -> Problem:
        """The problem as it was when the session was made."""
        return decode(self._meta("problem") or "", Problem)

    def read_contract(self) -> Contract | None:
        """The contract, once the judge has described the problem."""
        text = self._meta("contract")
        return decode(text, Contract) if text else None

    def read_prepared(self) -> dict[str, Any]:
        """Facts from the evaluator's preparation: baselines_us, floor_us, notes, facts."""
        found: dict[str, Any] = msgspec.json.decode(self._meta("prepared") or "{}")
        return found

    def candidates_with(self, pattern: re.Pattern[str]) -> frozenset[str]:
        """Digests of the candidates whose source matches; reads every source."""
        rows = self._db.execute("SELECT digest, body FROM candidate")
        return frozenset(digest for digest, body in rows if pattern.search(decode(body, Candidate).source))

    def read_candidate(self, digest: str) -> Candidate:
        """Source by digest.

        Raises:
            SessionError: not in this session.
        """
        return decode(self._one("SELECT body FROM candidate WHERE digest = ?", digest, "candidate"), Candidate)

    def read_verdict(self, variant: str) -> Verdict | None:
        """The latest verdict of a variant, with log and samples."""
        row = self._db.execute(
            "SELECT body FROM verdict WHERE variant = ? ORDER BY id DESC LIMIT 1", (variant,)
        ).fetchone()
        return decode(row[0], Verdict) if row else None

    def read_verdicts(self) -> list[tuple[str, Verdict]]:
        """Every verdict that fell, in order, with the variant it was on."""
        rows = self._db.execute("SELECT variant, body FROM verdict ORDER BY id").fetchall()
        return [(variant, decode(body, Verdict)) for variant, body in rows]

    def find_verdict(self, digest: str, world: str) -> Verdict | None:
        """A verdict on the same candidate that may be believed in `world`."""
        row = self._db.execute(
            "SELECT body FROM verdict WHERE candidate = ? AND world = ? ORDER BY id DESC LIMIT 1", (digest, world)
        ).fetchone()
        return decode(row[0], Verdict) if row else None

    def read_profile(self, digest: str) -> Profile | None:
        """The latest profile of a candidate."""
        text = self._meta(f"profile {digest}")
        return decode(text, Profile) if text else None

    def read_seconds(self) -> dict[str, tuple[float, float]]:
        """Device and compiler seconds of every variant that was judged, all its verdicts together."""
        rows = self._db.execute(
            "SELECT variant, total(json_extract(body, '$.run_s')), total(json_extract(body, '$.compile_s'))"
            " FROM verdict GROUP BY variant"
        )
        return {variant: (run_s, compile_s) for variant, run_s, compile_s in rows}

    def read_call(self, call: int) -> Call:
        """A call with its exact prompt and answer.

        Raises:
            SessionError: no such call.
        """
        row = self._db.execute("SELECT body, prompt, answer, reasoning FROM call WHERE id = ?", (call,)).fetchone()
        if row is None:
            raise SessionError(f"{self.folder.name}: no call {call}.")
        return replace(decode(row[0], Call), prompt=row[1], answer=row[2], reasoning=row[3])

    def read_events(self, after: int = 0, limit: int = 500) -> list[Event]:
        """Events with an id above `after`, oldest first; the last `limit` of them."""
        rows = self._db.execute(
            "SELECT id, created, who, kind, text, node FROM event WHERE id > ? ORDER BY id DESC LIMIT ?",
            (after, limit),
        ).fetchall()
        return [Event(id=r[0], created=r[1], who=r[2], kind=r[3], text=r[4], node=r[5]) for r in reversed(rows)]

    def read_decisions(self, pending_only: bool = False) -> list[Decision]:
        """Decisions in the order they were made."""
        where = "WHERE state = 'pending'" if pending_only else ""
        rows = self._db.execute(
            f"SELECT id, kind, target, payload, who, state, answer, created FROM decision {where} ORDER BY id"
        ).fetchall()
        return [_decision(row) for row in rows]

    # ----------------------------------------------------------------- the viewers' only write

    def add_decision(
        self, kind: DecisionKind, target: str = "", payload: dict[str, Any] | None = None, who: str = ""
    ) -> int:
        """Ask the engine for something; it is carried out when an engine runs. The decision's id.

        Raises:
            SessionError: the session cannot be written.
        """
        body = msgspec.json.encode(_clean(payload or {})).decode()
        try:
            with self.transaction():
                cursor = self._db.execute(
                    "INSERT INTO decision (kind, target, payload, who, state, answer, created)"
                    " VALUES (?, ?, ?, ?, ?, '', ?)",
                    (str(kind), target, body, _clean(who), str(DecisionState.PENDING), time.time()),
                )
        except sqlite3.OperationalError as error:
            raise SessionError(f"{self.folder}: the decision could not be written: {error}.") from error
        return int(cursor.lastrowid or 0)

    # ----------------------------------------------------------------- the engine's writes

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
        self._set_meta(f"profile {digest}", encode(_clean(profile)))

    def put_status(self, status: EngineStatus) -> None:
        """Say what the engine does."""
        self._set_meta("status", encode(_clean(status)))

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
                    (idea.id, self._next_seq(), encode(_clean(idea))),
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
                        encode(_clean(variant)),
                    ),
                )

    def add_candidate(self, candidate: Candidate) -> str:
        """Keep a source; its digest."""
        with self.transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO candidate VALUES (?, ?)", (candidate.digest, encode(_clean(candidate)))
            )
        return candidate.digest

    def add_verdict(self, variant: Variant, verdict: Verdict) -> None:
        """The verdict and the variant's summary of it, in one transaction."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO verdict (variant, candidate, world, created, body) VALUES (?, ?, ?, ?, ?)",
                (variant.id, variant.candidate or "", verdict.world, time.time(), encode(_clean(verdict))),
            )
            self.put_variants([variant])

    def reserve_call(self, call: Call) -> Call:
        """Write a call down before it is sent; its id is given here, whatever `call.id` says."""
        with self.transaction():
            cursor = self._db.execute(
                "INSERT INTO call (seq, node, state, body, prompt, answer, reasoning) VALUES (0, ?, ?, '', ?, '', '')",
                (call.node, str(call.state), _clean(call.prompt)),
            )
            numbered = replace(call, id=int(cursor.lastrowid or 0))
            self.finish_call(numbered)
        return numbered

    def finish_call(self, call: Call) -> None:
        """Write down what became of a call."""
        call = _clean(call)
        if call.state is not CallState.RESERVED and call.finished is None:
            call = replace(call, finished=time.time())
        light = replace(call, prompt="", answer="", reasoning="")
        with self.transaction():
            self._db.execute(
                "UPDATE call SET seq = ?, node = ?, state = ?, body = ?, answer = ?, reasoning = ? WHERE id = ?",
                (self._next_seq(), call.node, str(call.state), encode(light), call.answer, call.reasoning, call.id),
            )

    def reserved_calls(self) -> list[Call]:
        """Calls that were sent, or about to be, and never finished."""
        rows = self._db.execute("SELECT body FROM call WHERE state = ?", (str(CallState.RESERVED),)).fetchall()
        return [decode(row[0], Call) for row in rows]

    def add_event(self, who: str, kind: str, text: str, node: str = "") -> Event:
        """Append to the event log."""
        now = time.time()
        row = (now, _clean(who), kind, _clean(text), node)
        with self.transaction():
            cursor = self._db.execute("INSERT INTO event (created, who, kind, text, node) VALUES (?, ?, ?, ?, ?)", row)
        return Event(id=int(cursor.lastrowid or 0), created=now, who=who, kind=kind, text=text, node=node)

    def finish_decision(self, decision: int, state: DecisionState, answer: str = "") -> None:
        """Say what became of a decision."""
        with self.transaction():
            self._db.execute(
                "UPDATE decision SET state = ?, answer = ? WHERE id = ?", (str(state), _clean(answer), decision)
            )

    # ----------------------------------------------------------------- inside

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def _meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

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

    def _changed(self, table: str, since: int, kind: type[Any]) -> list[Any]:
        """Records that changed after `since`, in order of creation."""
        if since:
            # Asked plainly for rowid order, SQLite reads the whole table; the + makes it use the index on seq and sort.
            rows = self._db.execute(f"SELECT body FROM {table} WHERE seq > ? ORDER BY +rowid", (since,))
            decoder = msgspec.json.Decoder(kind)
            return [decoder.decode(body) for (body,) in rows]
        # SQLite lets other threads run at every step; a screen that starts up meanwhile would take its turn at each
        # row, so a step brings many.
        piece = (
            "SELECT max(number), group_concat(body) FROM"
            f" (SELECT rowid AS number, body FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {ROWS_A_STEP})"
        )
        decoder, found, last = msgspec.json.Decoder(list[kind]), [], 0  # type: ignore[valid-type]
        pool: dict[str, str] = {}
        while (row := self._db.execute(piece, (last,)).fetchone())[0] is not None:
            last, fresh = row[0], decoder.decode(f"[{row[1]}]")
            _share_texts(fresh, SHARED_TEXTS.get(table, ()), kind, pool)
            found += fresh
        return found

    def _one(self, sql: str, key: str, noun: str) -> str:
        row = self._db.execute(sql, (key,)).fetchone()
        if row is None:
            raise SessionError(f"{self.folder.name}: no {noun} {key}.")
        return str(row[0])


# --------------------------------------------------------------------------- where sessions live


def sessions_folder() -> Path:
    """$KERNELTUI_SESSIONS, else ./sessions."""
    return Path(os.environ.get("KERNELTUI_SESSIONS") or "sessions")


def list_sessions(folder: Path | None = None) -> list[Path]:
    """Session folders, last changed first."""
    root = folder or sessions_folder()
    found = [path.parent for path in root.glob("*/session.db")]
    return sorted(found, key=lambda path: (path / "session.db").stat().st_mtime, reverse=True)


def find_session(name: str) -> Path:
    """The folder of a session given by name or path.

    Raises:
        SessionError: there is none; the message names what there is.
    """
    for path in (Path(name), sessions_folder() / name):
        if (path / "session.db").is_file():
            return path
    known = [path.name for path in list_sessions()]
    there = f"There is: {', '.join(known[:8])}." if known else "There is none yet; `kerneltui new PROBLEM` makes one."
    raise SessionError(f"no session `{name}` here or in {sessions_folder()}/. {there}")


def refuse_network_filesystem(folder: Path) -> None:
    """SQLite's WAL needs memory that two hosts do not share.

    Raises:
        SessionError: `folder` lies on a network filesystem.
    """
    kind = filesystem_kind(folder)
    if kind.startswith(NETWORK_FILESYSTEMS):
        raise SessionError(
            f"{folder} lies on a network filesystem ({kind}), where a session file can be damaged. "
            "Choose a local folder: set KERNELTUI_SESSIONS=/tmp/kerneltui-sessions, or give a path."
        )


def filesystem_kind(folder: Path) -> str:
    """Type of the filesystem that holds `folder`, as /proc/self/mountinfo says; "" where unknown."""
    wanted = os.path.realpath(folder)
    best, kind = "", ""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split(" ")[4].encode().decode("unicode_escape", "replace")
        inside = wanted == mount or wanted.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split(" ")[0]
    return kind


# --------------------------------------------------------------------------- connections


def _connect(path: Path, *, shared: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=not shared)
    db.execute("PRAGMA synchronous = FULL")  # a paid answer survives a power cut
    db.execute("PRAGMA foreign_keys = OFF")
    return db


def _migrate(db: sqlite3.Connection, folder: Path, version: int) -> None:
    if version:
        with contextlib.closing(sqlite3.connect(folder / f"session.db.schema{version}.bak")) as copy:
            db.backup(copy)
    for number, step in enumerate(STEPS[version:], start=version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;")


def _make_folder(folder: Path) -> Path:
    """Make `folder` and what is missing above it; the topmost folder that was made."""
    if (folder / "session.db").exists():
        raise SessionError(f"{folder}: there is a session already. Choose another name, or `kerneltui attach` to it.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SessionError(f"{folder}: exists and is not an empty folder. Choose another name.")
    made = folder
    while not made.parent.exists():
        made = made.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SessionError(
            f"{folder}: cannot be written ({error.strerror}). Set KERNELTUI_SESSIONS to a folder of yours."
        ) from error
    return made


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _decision(row: tuple[Any, ...]) -> Decision:
    return Decision(
        id=row[0],
        kind=DecisionKind(row[1]),
        target=row[2],
        payload=msgspec.json.decode(row[3]),
        who=row[4],
        state=DecisionState(row[5]),
        answer=row[6],
        created=row[7],
    )


def _share_texts(records: list[Any], names: tuple[str, ...], kind: type[Any], pool: dict[str, str]) -> None:
    """Let equal texts of fresh records, which nobody else holds yet, be one object: a third of a large tree's memory."""
    for name in names:
        field_of = kind.__dict__[name]  # a slot's own setter goes past `frozen`
        for record in records:
            if text := field_of.__get__(record):
                field_of.__set__(record, pool.setdefault(text, text))


def _clean(value: Any) -> Any:
    """The same record with lone surrogates, which JSON and SQLite refuse, as replacement marks."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    try:
        msgspec.json.encode(value)
        return value
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return msgspec.convert(_replace_surrogates(plain), type=type(value))


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_surrogates(item) for item in value]
    return value
