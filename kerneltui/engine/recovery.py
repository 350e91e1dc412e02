"""What an engine does when it starts: take the lock, open the log, and tell the truth about what the last one left."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kerneltui.authors.keys import KeyFilter
from kerneltui.engine.asking import INTERRUPTED
from kerneltui.engine.questions import with_candidate
from kerneltui.engine.session import Session
from kerneltui.errors import SessionError
from kerneltui.problems import starters
from kerneltui.records import CallState, Candidate, Variant, VariantKind, VariantState
from kerneltui.search.steps import ON_DEVICE


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """The session's engine.lock, held as long as this process lives.

    Raises:
        SessionError: another engine holds it, or it cannot be written.
    """
    path = folder / "engine.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SessionError(f"{path}: cannot be written ({error.strerror}); an engine needs to write there.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            raise SessionError(
                f"{folder.name}: an engine runs already ({holder}). `kerneltui attach {folder.name}` opens the "
                f"screen on it, `kerneltui stop {folder.name}` ends it."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Our log lines go into a file of the session meanwhile."""
    handler = logging.FileHandler(path, encoding="utf-8", errors="replace", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(KeyFilter())
    root = logging.getLogger("kerneltui")
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()


def mend(session: Session) -> str:
    """Put back what was under way when the last engine ended; what was mended, in words. To be called in `commit`."""
    rows = [fresh for v in session.tree.variants.values() if (fresh := _put_back(v)) is not v]
    session.put(*rows)
    calls = session.store.reserved_calls()
    for call in calls:
        lost = "the engine ended before the answer was recorded: possibly billed"
        session.store.finish_call(replace(call, state=CallState.FAILED, error=lost, finish_reason=INTERRUPTED))
    said = [f"{len(rows)} variants are taken up again"] if rows else []
    paid = [call for call in calls if call.reserved_usd != 0.0]
    said += [f"{len(paid)} questions had no answer yet and are possibly billed"] if paid else []
    return "; ".join(said)


def _put_back(variant: Variant) -> Variant:
    if variant.state is VariantState.WRITING:
        return replace(variant, state=VariantState.WAITING)
    if variant.state in ON_DEVICE:
        return replace(variant, state=VariantState.WRITTEN if variant.outcome is None else VariantState.DONE)
    return variant


def add_starters(session: Session) -> None:
    """The problem's own simple kernels as variants of round 0, once. To be called in `commit`."""
    if any(variant.kind is VariantKind.STARTER for variant in session.tree.variants.values()):
        return
    for name, source in starters(session.problem, session.language):
        row = Variant(
            id=session.store.next_variant_id(),
            idea=None,
            round=0,
            kind=VariantKind.STARTER,
            author="starter",
            name=name,
        )
        candidate = Candidate(source=source, language=session.language)
        session.put(with_candidate(session, row, candidate, name))
