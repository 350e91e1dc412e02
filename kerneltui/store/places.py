"""Where sessions live, and whether a session file is safe there."""

from __future__ import annotations

import os
from pathlib import Path

from kerneltui.errors import SessionError

NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "lustre", "gpfs", "beegfs", "fuse.sshfs", "ceph", "afs")


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
