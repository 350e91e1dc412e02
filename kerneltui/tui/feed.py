"""The one thread: watches the session file and posts what changed."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from kerneltui.errors import KernelTuiError
from kerneltui.records import Tree
from kerneltui.store import Store
from kerneltui.tui.model import Changed, Loaded
from kerneltui.tui.outline import ROUNDS_OPEN, Outline
from kerneltui.tui.stored import StoredVariants
from kerneltui.tui.tally import Counts

POLL_S = 0.1  # a look at data_version takes microseconds
QUIET_POLL_S = 0.25  # after nobody has written for a while
QUIET_AFTER = 50  # looks
RETRY_S = 2.0  # after the file could not be read
EVENTS_FIRST = 500
WHOLE_UP_TO = 2000  # variants; of more, only those that are shown are read, and the others counted later
PATIENCE_S = 3.0  # counting waits so long for the first rows to be on the screen


class SessionLoaded(Message):
    """The session was read for the first time."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.loaded = loaded


class SessionCounted(Message):
    """The rounds that were not read are counted."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts


class SessionChanged(Message):
    """Somebody wrote to the session."""

    def __init__(self, changed: Changed) -> None:
        super().__init__()
        self.changed = changed


class FeedFailed(Message):
    """The session cannot be read now; `text` says why. It is tried again."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Feed(threading.Thread):
    """Polls, reads only what is new, posts one message. Its connection is its own."""

    def __init__(self, folder: Path, post: Callable[[Message], object]) -> None:
        super().__init__(name="feed", daemon=True)
        self.folder, self.post = folder, post
        self._stopped = threading.Event()
        self._last_event = 0
        self._loaded = False
        self._uncounted: StoredVariants | None = None
        self._seq = 0
        self.loaded = threading.Event()  # the first message is out
        self.shown = threading.Event()  # set by the screen once it is painted: counting would delay it

    def stop(self) -> None:
        """End after the current look."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                with Store.open(self.folder) as store:
                    self._follow(store)
            except (KernelTuiError, sqlite3.Error, OSError, ValueError) as error:
                self.post(FeedFailed(str(error)))
                self._stopped.wait(RETRY_S)

    def _follow(self, store: Store) -> None:
        version = store.data_version()
        if not self._loaded:
            self._load(store)
        else:
            self._look(store)
        self._count(store)
        quiet = 0
        while not self._stopped.wait(POLL_S if quiet < QUIET_AFTER else QUIET_POLL_S):
            quiet += 1
            if (now := store.data_version()) != version:
                version, quiet = now, 0
                self._look(store)

    def _load(self, store: Store) -> None:
        gc.disable()  # thousands of live records make every collection slow, and none is garbage
        try:
            tree = store.read_tree() if store.count_variants() <= WHOLE_UP_TO else self._newest(store)
            outline = Outline(tree, self._uncounted)
            outline.layout()
            events = store.read_events(limit=EVENTS_FIRST)
        finally:
            gc.freeze()
            gc.enable()
        self._last_event = events[-1].id if events else 0
        loaded = Loaded(
            outline=outline,
            events=events,
            pending=store.read_decisions(pending_only=True),
            problem=store.read_problem(),
            contract=store.read_contract(),
            prepared=store.read_prepared(),
        )
        self._seq, self._loaded = outline.tree.seq, True
        self.post(SessionLoaded(loaded))
        self.loaded.set()

    def _newest(self, store: Store) -> Tree:
        """What is shown first of a large session."""
        newest = store.read_newest(ROUNDS_OPEN)
        tree = newest.tree
        tree.variants = self._uncounted = StoredVariants(
            self.folder, tree, count=newest.count, last_row=newest.last_row
        )
        return tree

    def _count(self, store: Store) -> None:
        """Make the counts of the rounds that were not read."""
        variants = self._uncounted
        if variants is None:
            return
        self.shown.wait(PATIENCE_S)
        counts = Counts()
        for piece, glances in store.glances(variants.last_row):
            if self._stopped.is_set():
                return
            counts.add(piece, glances, variants.tree)
            time.sleep(0)  # a key that was pressed meanwhile goes first
        counts.name_best(variants.tree)
        self._uncounted = None
        self.post(SessionCounted(counts))

    def _look(self, store: Store) -> None:
        found = Tree(settings=store.settings(), seq=self._seq)  # starts empty: holds only what is new
        store.refresh(found)
        events = store.read_events(after=self._last_event)
        changed = Changed(
            tree=found,
            events=events,
            pending=store.read_decisions(pending_only=True),
            contract=store.read_contract(),
            prepared=store.read_prepared(),
        )
        self._seq = found.seq
        self._last_event = events[-1].id if events else self._last_event
        self.post(SessionChanged(changed))
