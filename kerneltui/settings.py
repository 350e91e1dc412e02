"""session.toml <-> Settings. Nothing is ignored: an unknown key, a wrong type or range is a sentence with key and remedy."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import tomli_w

from kerneltui.errors import SettingsError, UsageError, nearest
from kerneltui.records import AuthorSettings, Budget, Policy, Settings

Record = TypeVar("Record", AuthorSettings, Budget, Policy)

HEAD = "# Settings of this search. Edit it while the search is stopped; unknown keys are refused, not ignored.\n\n"
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": ("openai", "gemini", "command", "playbook"),
    "api": ("responses", "chat"),
    "shares": ("fixed", "bandit"),
    "tolerance": ("", "kernelbench", "crfm", "strict"),
}
LARGEST = 2**63 - 1  # what SQLite and C can hold
# Smallest and largest value, both allowed.
RANGES: dict[str, tuple[float, float]] = {
    "rounds": (1, LARGEST),
    "ideas": (1, LARGEST),
    "variants": (1, LARGEST),
    "beam": (1, LARGEST),
    "per_idea": (1, LARGEST),
    "per_lineage": (1, LARGEST),
    "wildcard": (0, 1),
    "close_at": (0, 1),
    "max_tokens": (1, LARGEST),
    "evaluations": (1, LARGEST),
    "tokens": (1, LARGEST),
    "plateau_rounds": (1, LARGEST),
}
POSITIVE = frozenset({"deadline_s", "timeout_s", "target_speedup", "wall_s"})  # 0 would end everything at once
TABLES = {"author": "authors", "budget": "budget", "policy": "policy", "sizes": "sizes"}


# --------------------------------------------------------------------------- reading


def parse_settings(text: str, path: str) -> Settings:
    """Settings from TOML text; `path` is named in messages.

    Raises:
        SettingsError: the text is not TOML, or a key, type or value in it cannot be followed.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}. Correct the file and try again.") from error
    known = [TABLES_BACK.get(field.name, field.name) for field in fields(Settings)]
    check_keys(table, known, path)
    if "problem" not in table:
        raise SettingsError(f'{path}: `problem` is missing; name a problem, as in problem = "softmax".')
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: "
        if key == "author":
            values["authors"] = read_authors(value, path)
        elif key == "budget":
            values[key] = read_table(value, Budget, f"{path}: [budget] ")
        elif key == "policy":
            values[key] = read_table(value, Policy, f"{path}: [policy] ")
        else:
            values[key] = read_value(key, value, hints[key], where)
    if not values["problem"].strip():
        raise SettingsError(f"{path}: `problem` is empty; name a problem or the path of a .py file.")
    return Settings(**values)


TABLES_BACK = {name: table for table, name in TABLES.items()}


def read_authors(value: Any, path: str) -> tuple[AuthorSettings, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise SettingsError(f"{path}: `author` is {show(value)}; tables headed [[author]] are expected.")
    found = []
    for number, entry in enumerate(value, start=1):
        where = f"{path}: [[author]] {number}: "
        author = read_table(entry, AuthorSettings, where)
        if author.kind == "command" and not author.command:
            raise SettingsError(f'{where}`command` is missing; give the program, as in command = ["claude", "-p"].')
        if author.api_key_env and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", author.api_key_env):
            # The value may be the key itself, so it is not shown.
            raise SettingsError(
                f"{where}`api_key_env` is not the name of an environment variable; keys never belong in this file."
            )
        found.append(author)
    return tuple(found)


def read_table(value: Any, record: type[Record], where: str) -> Record:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}is {show(value)}; a table is expected.")
    hints = get_type_hints(record)
    check_keys(value, hints, where)
    for field in fields(record):
        if field.name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise SettingsError(f"{where}`{field.name}` is missing; {expected(field.name, hints[field.name])}.")
    return record(**{key: read_value(key, item, hints[key], where) for key, item in value.items()})


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    words = list(known)
    for key in table:
        if key not in words:
            separator = "" if where.endswith(" ") else ": "
            raise SettingsError(f"{where}{separator}`{key}` is no setting{nearest(key, words)}")


def read_value(key: str, value: Any, hint: Any, where: str) -> Any:
    """A value of the type that a field is annotated with, in range."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if isinstance(hint, UnionType) else [hint]
    kind = kinds[0]
    if get_origin(kind) is tuple:
        good = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        found: Any = tuple(value) if good else None
    elif get_origin(kind) is dict:
        good = isinstance(value, dict) and all(is_int(item) and 1 <= item <= LARGEST for item in value.values())
        found = dict(value) if good else None
    elif kind is float:
        good = (is_int(value) or isinstance(value, float)) and math.isfinite(value) and abs(value) <= LARGEST
        found = float(value) if good else None
    elif kind is int:
        good, found = is_int(value) and abs(value) <= LARGEST, value
    else:
        good, found = isinstance(value, kind), value
    if not good or not in_range(key, found):
        raise SettingsError(f"{where}`{key}` is {show(value)}; {expected(key, hint)}.")
    return found


def in_range(key: str, value: Any) -> bool:
    if isinstance(value, str):
        return key not in CHOICES or value in CHOICES[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    if key in POSITIVE:
        return value > 0
    # Temperature apart, no number here has a meaning below zero; -1 asks some providers for a free thinking budget.
    low, high = RANGES.get(key, (-1 if key == "thinking_budget" else 0, math.inf))
    return low <= value <= high


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def expected(key: str, hint: Any) -> str:
    """What a value should have been, in words."""
    if key in CHOICES:
        return f"one of {', '.join(repr(choice) for choice in CHOICES[key])} is expected"
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if isinstance(hint, UnionType) else [hint]
    origin = get_origin(kinds[0])
    if origin is tuple:
        return "a list of texts is expected"
    if origin is dict:
        return "a table of NAME = whole number from 1 is expected"
    if kinds[0] in (int, float):
        what = "a whole number" if kinds[0] is int else "a number"
        if key in POSITIVE:
            return f"{what} above 0 is expected"
        low, high = RANGES.get(key, (-1 if key == "thinking_budget" else 0, math.inf))
        return f"{what} from {low:g}{'' if high >= LARGEST else f' to {high:g}'} is expected"
    return "true or false is expected" if kinds[0] is bool else "a text is expected"


def show(value: Any) -> str:
    """A value as TOML would say it, cut to a line."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --------------------------------------------------------------------------- authors in a word

ANSWER_TOKENS = 30_000  # thinking and one kernel file fit; a model's own maximum would reserve most of a small budget


def parse_author(text: str) -> AuthorSettings:
    """`kind`, `kind:model` or `command:PROGRAM ARGUMENTS`.

    Raises:
        UsageError: no such kind.
    """
    kind, _, model = text.partition(":")
    if kind not in CHOICES["kind"]:
        raise UsageError(f"--author {text}: no such author; there are openai, gemini, command and playbook.")
    if kind != "command":
        return AuthorSettings(kind=kind, model=model)
    try:
        words = tuple(shlex.split(model))
    except ValueError as error:
        raise UsageError(f"--author {text}: {error}.") from error
    if not words:
        raise UsageError('--author command: needs the program, as in --author "command:claude -p".')
    return AuthorSettings(kind=kind, command=words, name=f"command:{words[0]}")


def author_word(author: AuthorSettings) -> str:
    """What `parse_author` reads back to an author of this kind and model."""
    model = shlex.join(author.command) if author.command else author.model
    return f"{author.kind}:{model}" if model else author.kind


def cap_answers(author: AuthorSettings) -> AuthorSettings:
    """The author with a cap on each answer, so that the worst case of a call leaves room for others under the budget."""
    if author.kind not in ("openai", "gemini") or author.max_tokens is not None:
        return author
    return replace(author, max_tokens=ANSWER_TOKENS)


# --------------------------------------------------------------------------- writing


def dump_settings(settings: Settings) -> str:
    """TOML text that `parse_settings` reads back to the same settings; what is unset is left out."""
    table: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name not in TABLES_BACK:
            table[field.name] = list(value) if isinstance(value, tuple) else value
    table["sizes"] = dict(settings.sizes)
    table["budget"] = {key: value for key, value in plain(settings.budget).items() if value is not None}
    table["policy"] = plain(settings.policy)
    table["author"] = [dump_author(author) for author in settings.authors]
    if not table["sizes"]:
        del table["sizes"]
    return HEAD + tomli_w.dumps(table)


def dump_author(author: AuthorSettings) -> dict[str, Any]:
    """What differs from the defaults, so that a table stays readable."""
    defaults = plain(AuthorSettings(kind=author.kind))
    return {key: value for key, value in plain(author).items() if key == "kind" or value != defaults[key]}


def plain(record: AuthorSettings | Budget | Policy) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
