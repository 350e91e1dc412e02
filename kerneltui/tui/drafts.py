"""Texts that were not sent yet, kept on disk while they are typed."""

from __future__ import annotations

import os
from pathlib import Path

from kerneltui.records import sha256


def drafts_folder() -> Path:
    """$XDG_STATE_HOME/kerneltui/drafts, else ~/.local/state/kerneltui/drafts."""
    root = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(root).expanduser() / "kerneltui" / "drafts"


def draft_path(session: Path, name: str, suffix: str = ".txt") -> Path:
    """Where the draft of one text of one session lies."""
    place = sha256(str(session.resolve()))[:10]
    return drafts_folder() / f"{session.name}-{place}-{name}{suffix}"


def save_draft(path: Path, text: str) -> str:
    """Keep a text; "" or why it could not be kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        return f"the draft is not kept: {error}"
    return ""


def read_draft(path: Path) -> str:
    """The kept text, or ""."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def drop_draft(path: Path) -> None:
    """The text was sent."""
    path.unlink(missing_ok=True)
