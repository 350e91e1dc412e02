"""The folder and the database of a session: made, opened, brought up to date."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from kerneltui.errors import SessionError
from kerneltui.migrations import STEPS

BUSY_TIMEOUT_S = 10.0  # a writer holds the lock for milliseconds; ten seconds is a stuck disk


def connect(path: Path, *, shared: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=not shared)
    db.execute("PRAGMA synchronous = FULL")  # a paid answer survives a power cut
    db.execute("PRAGMA foreign_keys = OFF")
    return db


def migrate_file(db: sqlite3.Connection, folder: Path, version: int) -> None:
    if version:
        with contextlib.closing(sqlite3.connect(folder / f"session.db.schema{version}.bak")) as copy:
            db.backup(copy)
    for number, step in enumerate(STEPS[version:], start=version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;")


def make_folder(folder: Path) -> Path:
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


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
