"""The authors of a running session: opened at the start, later those that were added, changed or let back in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from kerneltui.authors import Author
from kerneltui.authors.opening import open_author
from kerneltui.engine.asking import put_out
from kerneltui.engine.session import Session
from kerneltui.errors import AuthorStopped
from kerneltui.records import AuthorSettings, Worker

SAME_S = 1.0  # clocks differ by less


class Roster:
    """Who is asked, and with which settings."""

    def __init__(self, session: Session, given: Mapping[str, Author]) -> None:
        self.session = session
        self.given = given
        self.settings: dict[str, AuthorSettings] = {}
        self.until: dict[str, float] = {}  # when those go on that wait for their providers
        self.retired: list[Author] = []  # replaced when their settings changed, closed at the end

    async def call(self) -> None:
        """Open those that are neither open as the session file wants them nor out."""
        session = self.session
        for settings in session.settings.authors:
            label = settings.label
            if label in session.out or (label in session.authors and self.is_as(settings)):
                continue
            self.settings[label] = settings
            try:
                opened = self.given.get(label) or open_author(settings, session.problem)
            except AuthorStopped as error:
                await put_out(session, label, str(error))
                continue
            if label in session.authors:
                self.retired.append(session.authors[label])  # it may be in the middle of an answer
                words = f"{label} is asked with its new settings from now on"
                await session.announce("engine", "author", words)
            session.authors[label] = opened

    def is_as(self, settings: AuthorSettings) -> bool:
        """Whether an open author has these settings; its share of the work is no setting of its own."""
        return replace(self.settings[settings.label], share=settings.share) == settings

    def at_work(self) -> tuple[Worker, ...]:
        """What every worker does; those of an author that waits for its provider say until when."""
        session, now = self.session, time.time()
        until: dict[str, float] = {}
        for label, author in session.authors.items():
            if (left := author.waits_s()) > 0:
                before = self.until.get(label, 0.0)
                until[label] = before if abs(before - now - left) < SAME_S else now + left
        self.until = until
        return tuple(replace(worker, until=until.get(author_of(worker), 0.0)) for worker in session.workers.values())

    @property
    def everyone(self) -> list[Author]:
        """All that has to be closed."""
        return [*self.session.authors.values(), *self.retired]


def author_of(worker: Worker) -> str:
    """The label in `author LABEL NUMBER`."""
    return worker.name.removeprefix("author ").rpartition(" ")[0] if worker.name.startswith("author ") else ""
