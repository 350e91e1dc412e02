"""From an `[[author]]` table to the author that it names. A provider's SDK is imported when one is asked for."""

from __future__ import annotations

from kerneltui.authors import Author
from kerneltui.authors.playbook import PlaybookAuthor
from kerneltui.errors import SettingsError, nearest
from kerneltui.records import AuthorSettings, Problem

KINDS = ("playbook", "openai", "gemini", "command")


def open_author(settings: AuthorSettings, problem: Problem) -> Author:
    """An author ready to be asked.

    Raises:
        SettingsError: no such kind, or its table lacks something.
        AuthorStopped: it cannot work here: no key, no such program.
    """
    if settings.kind == "playbook":
        return PlaybookAuthor(settings, problem)
    if settings.kind == "openai":
        from kerneltui.authors.openai import OpenAIAuthor

        return OpenAIAuthor(settings)
    if settings.kind == "gemini":
        from kerneltui.authors.gemini import GeminiAuthor

        return GeminiAuthor(settings)
    if settings.kind == "command":
        from kerneltui.authors.command import CommandAuthor

        return CommandAuthor(settings)
    raise SettingsError(f"session.toml: there is no author of kind `{settings.kind}`{nearest(settings.kind, KINDS)}")
