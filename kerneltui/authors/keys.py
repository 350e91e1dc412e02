"""API keys: from the environment only, and never seen again.

read_key      the key of an author, as a Secret
check_ready   a sentence with the remedy when an author cannot work here
hide_keys     text with every key of the environment replaced
KeyFilter     the same for log records and their tracebacks
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from kerneltui.records import AuthorSettings

USUAL = {"openai": ("OPENAI_API_KEY",), "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}
WHERE = {"openai": "https://platform.openai.com/api-keys", "gemini": "https://aistudio.google.com/apikey"}
SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.IGNORECASE)
SHORTEST = 8  # characters: anything shorter occurs in ordinary text
HIDDEN = "[key]"


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that no repr, log or traceback with locals shows."""

    text: str = field(repr=False)
    variable: str = ""  # where it came from

    def hide(self, text: str) -> str:
        """The text with the key replaced, as it stands and as URLs and JSON spell it."""
        if not self.text:
            return text
        for spelling in {self.text, quote(self.text, safe=""), json.dumps(self.text)[1:-1]}:
            text = text.replace(spelling, HIDDEN)
        return text


def variables(settings: AuthorSettings) -> tuple[str, ...]:
    """Environment variables that may hold this author's key, in order."""
    return (settings.api_key_env,) if settings.api_key_env else USUAL.get(settings.kind, ())


def read_key(settings: AuthorSettings) -> Secret:
    """The key of this author; empty when the environment has none."""
    for name in variables(settings):
        text = os.environ.get(name, "").strip()
        if text:
            return Secret(text, name)
    return Secret("")


def check_ready(settings: AuthorSettings) -> str | None:
    """What this author lacks here and what to do about it; None when it can start."""
    if settings.kind == "command":
        return check_command(settings)
    if settings.kind not in USUAL:
        return None
    if settings.kind == "openai" and settings.api not in ("responses", "chat"):
        return f'author {settings.label}: api = "{settings.api}" is unknown; it is "responses" or "chat"'
    key = read_key(settings)
    if not key.text:
        if settings.base_url and settings.kind == "openai" and not settings.api_key_env:
            return None  # a server of one's own asks for none
        names = " or ".join(variables(settings))
        return f"author {settings.label} has no key: set {names} (keys are made at {WHERE[settings.kind]})"
    if not key.text.isascii() or not key.text.isprintable() or " " in key.text:
        return f"author {settings.label}: {key.variable} holds characters that no key has; copy it again"
    return None


def check_command(settings: AuthorSettings) -> str | None:
    if not settings.command:
        return 'author command has no program: set command = ["claude", "-p"] in its table'
    if shutil.which(settings.command[0]) is None:
        return f"author {settings.label}: there is no program `{settings.command[0]}` in PATH"
    return None


def hide_keys(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with the value of every variable that is named like a secret replaced."""
    for name, value in (os.environ if environment is None else environment).items():
        value = value.strip()
        if len(value) >= SHORTEST and value in text and SECRET_NAME.search(name):
            text = text.replace(value, HIDDEN)
    return text


class KeyFilter(logging.Filter):
    """For a log handler: records and their tracebacks with every key replaced."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        hidden = hide_keys(message)
        if hidden != message:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            record.exc_text = hide_keys(record.exc_text or logging.Formatter().formatException(record.exc_info))
        return True
