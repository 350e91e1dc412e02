"""Copying out of a terminal: OSC 52, tmux's own buffer, and always a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kerneltui.tui.drafts import drafts_folder

OSC52_LIMIT_BYTES = 74_000  # terminals drop longer ones; xterm's and tmux's limits lie near 100 kB of base64
TMUX_TIMEOUT_S = 2.0


def to_tmux(text: str) -> bool:
    """Into tmux's buffer and on to the terminal's clipboard, where we run inside tmux."""
    if not os.environ.get("TMUX"):
        return False
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "replace"),
            capture_output=True,
            timeout=TMUX_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def to_file(text: str, name: str) -> Path | None:
    """The text in a file that can be fetched in any case; None where nothing can be written."""
    path = drafts_folder().parent / "yanked" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        return None
    return path
