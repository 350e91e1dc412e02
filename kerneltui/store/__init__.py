"""The session file: a folder with session.toml and session.db. The only SQL.

    sessions/<name>/session.toml    settings, for people
    sessions/<name>/session.db      SQLite, WAL: everything else

One engine writes all but decisions; viewers read, and write only decisions. All sides poll `data_version`.
Rows that the Tree holds carry `seq`, the number of the change that last touched them, so that a reader folds in
only what is new. Bodies are JSON of the records; SQL columns exist only for what is looked up.
"""

from __future__ import annotations

from kerneltui.store.places import (
    filesystem_kind,
    find_session,
    list_sessions,
    refuse_network_filesystem,
    sessions_folder,
)
from kerneltui.store.reading import Changes, Glance, GlanceSpeedup, Newest, Reader
from kerneltui.store.writing import Store

__all__ = [
    "Changes",
    "Glance",
    "GlanceSpeedup",
    "Newest",
    "Reader",
    "Store",
    "filesystem_kind",
    "find_session",
    "list_sessions",
    "refuse_network_filesystem",
    "sessions_folder",
]
