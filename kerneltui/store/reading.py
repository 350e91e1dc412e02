"""What is read from a session file: the tree, what changed in it, and what lies below its rows.

Reader              one connection
Changes, Newest     what `refresh` folded in; a tree without the variants of older rounds
Glance              of a variant what counts are made of
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.errors import SessionError
from kerneltui.records import (
    Badge,
    Call,
    CallState,
    Candidate,
    Contract,
    Decision,
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
from kerneltui.settings import parse_settings
from kerneltui.store.rows import SHARED_TEXTS, decision_of, share_texts

ROWS_A_STEP = 1000
PIECE = 500  # rows of one piece of a large session


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


class Reader:
    """One connection to one session, and all that is read through it. Use it from the thread that opened it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, write: bool) -> None:
        self.folder = folder
        self.write = write
        self._db = connection
        self._depth = 0
        self._last_event = 0
        self._settings: tuple[float, Settings] | None = None

    def close(self) -> None:
        """Close the connection; the session goes on without us."""
        self._db.close()

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
        return [decision_of(row) for row in rows]

    def reserved_calls(self) -> list[Call]:
        """Calls that were sent, or about to be, and never finished."""
        rows = self._db.execute("SELECT body FROM call WHERE state = ?", (str(CallState.RESERVED),)).fetchall()
        return [decode(row[0], Call) for row in rows]

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
            share_texts(fresh, SHARED_TEXTS.get(table, ()), kind, pool)
            found += fresh
        return found

    def _one(self, sql: str, key: str, noun: str) -> str:
        row = self._db.execute(sql, (key,)).fetchone()
        if row is None:
            raise SessionError(f"{self.folder.name}: no {noun} {key}.")
        return str(row[0])
