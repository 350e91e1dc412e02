"""The schema of session.db, and the steps from each older one to the next.

`user_version` in the file is the number of steps it has been through. A step is never edited once released.
"""

from __future__ import annotations

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES ('seq', '0');
    CREATE TABLE idea (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE TABLE variant (
        id TEXT PRIMARY KEY, seq INTEGER NOT NULL, idea TEXT, candidate TEXT, state TEXT NOT NULL, body TEXT NOT NULL
    );
    CREATE TABLE candidate (digest TEXT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE verdict (
        id INTEGER PRIMARY KEY AUTOINCREMENT, variant TEXT NOT NULL, candidate TEXT NOT NULL, world TEXT NOT NULL,
        created REAL NOT NULL, body TEXT NOT NULL
    );
    CREATE TABLE call (
        id INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL, node TEXT NOT NULL, state TEXT NOT NULL,
        body TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL, reasoning TEXT NOT NULL
    );
    CREATE TABLE decision (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, target TEXT NOT NULL, payload TEXT NOT NULL,
        who TEXT NOT NULL, state TEXT NOT NULL, answer TEXT NOT NULL, created REAL NOT NULL
    );
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT, created REAL NOT NULL, who TEXT NOT NULL, kind TEXT NOT NULL,
        text TEXT NOT NULL, node TEXT NOT NULL
    );
    CREATE INDEX idea_seq ON idea (seq);
    CREATE INDEX variant_seq ON variant (seq);
    CREATE INDEX call_seq ON call (seq);
    CREATE INDEX verdict_variant ON verdict (variant, id);
    CREATE INDEX verdict_world ON verdict (candidate, world);
    CREATE INDEX decision_state ON decision (state);
    """,
)

SCHEMA_VERSION = len(STEPS)
