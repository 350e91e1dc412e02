"""Edits in an answer (SEARCH/REPLACE blocks, unified diffs) applied to the parent's source.

White space at the ends of lines and a common change of indentation are forgiven; anything else must match, in exactly
one place. An edit that does not apply, or changes nothing, is the author's failure and says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SEARCH_START = re.compile(r"^\s{0,3}<{5,9}\s*(?:SEARCH|ORIGINAL|HEAD)?\s*$", re.IGNORECASE)
DIVIDER = re.compile(r"^\s{0,3}={5,9}\s*$")
REPLACE_END = re.compile(r"^\s{0,3}>{5,9}\s*(?:REPLACE|UPDATED|[\w/.-]*)?\s*$", re.IGNORECASE)
HUNK = re.compile(r"^@@(?: -(?P<line>\d+)(?:,\d+)? \+\d+(?:,\d+)? )?@@|^@@ .*@@|^@@$")


class EditFailed(Exception):
    """A sentence: which edit, and why it cannot be applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Lines to find and what stands there afterwards."""

    search: tuple[str, ...]
    replace: tuple[str, ...]
    near: int | None = None  # line in the parent, as a unified diff claims


def has_edits(text: str) -> bool:
    """Whether the text holds SEARCH/REPLACE markers or the hunks of a unified diff."""
    lines = text.split("\n")
    return any(SEARCH_START.match(line) and "<<<<<" in line for line in lines) or is_unified(lines)


def is_unified(lines: list[str]) -> bool:
    for number, line in enumerate(lines):
        if HUNK.match(line):
            return any(after[:1] in ("+", "-") for after in lines[number + 1 : number + 200])
    return False


def apply_edits(text: str, parent: str) -> tuple[str, int]:
    """The parent with every edit applied, in order, and how many there were.

    Raises:
        EditFailed: one does not apply, is not whole, or the result is the parent again.
    """
    lines = text.split("\n")
    marked = any(SEARCH_START.match(line) for line in lines)
    edits = list(marked_edits(lines) if marked else unified_edits(lines))
    if not edits:
        raise EditFailed("the answer has the marks of an edit but no whole edit")
    if not parent.strip():
        raise EditFailed("the answer edits a source, but there is none to edit: a whole file was asked for")
    source = parent.split("\n")
    for number, edit in enumerate(edits, 1):
        source = apply_edit(source, edit, f"edit {number} of {len(edits)}")
    result = "\n".join(source)
    if result.split() == parent.split():
        raise EditFailed("the edit changes nothing: the source is the parent's again")
    return result, len(edits)


def marked_edits(lines: list[str]) -> Iterator[Edit]:
    at = 0
    while at < len(lines):
        if not SEARCH_START.match(lines[at]):
            at += 1
            continue
        divider = find(lines, DIVIDER, at + 1)
        end = find(lines, REPLACE_END, (divider or at) + 1)
        another = find(lines, SEARCH_START, at + 1)
        if divider is None or (another is not None and another < divider):
            raise EditFailed(f"the edit at line {at + 1} of the answer has no ======= between its two halves")
        if end is None or (another is not None and another < end):
            raise EditFailed(f"the edit at line {at + 1} of the answer has no end marker (>>>>>>> REPLACE)")
        yield Edit(search=tuple(lines[at + 1 : divider]), replace=tuple(lines[divider + 1 : end]))
        at = end + 1


def find(lines: list[str], pattern: re.Pattern[str], start: int) -> int | None:
    return next((at for at in range(start, len(lines)) if pattern.match(lines[at])), None)


def unified_edits(lines: list[str]) -> Iterator[Edit]:
    search: list[str] = []
    replace: list[str] = []
    near: int | None = None
    inside = False
    for line in [*lines, "@@"]:
        hunk = HUNK.match(line)
        if hunk or (inside and not is_hunk_line(line)):
            if inside and search != replace:
                yield Edit(search=tuple(search), replace=tuple(replace), near=near)
            search, replace, inside = [], [], bool(hunk)
            near = int(hunk["line"]) if hunk and hunk["line"] else None
        elif inside and not line.startswith("\\"):
            if line[:1] != "+":
                search.append(line[1:])
            if line[:1] != "-":
                replace.append(line[1:])


def is_hunk_line(line: str) -> bool:
    return line[:1] in ("", " ", "+", "-", "\\", "\t") and not line.startswith(("--- ", "+++ "))


# --------------------------------------------------------------------------- matching


def apply_edit(source: list[str], edit: Edit, what: str) -> list[str]:
    search = trimmed(edit.search)
    if not search:
        raise EditFailed(f"{what} does not apply: it says nothing to search for")
    if search == trimmed(edit.replace):
        raise EditFailed(f"{what} changes nothing: both of its halves are the same")
    for key in (str, str.rstrip, flat):
        places = matches(source, search, key)
        if len(places) > 1 and edit.near is not None:
            places = sorted(places, key=lambda place: abs(place + 1 - (edit.near or 0)))[:1]
        if len(places) > 1:
            where = ", ".join(str(place + 1) for place in places[:5])
            raise EditFailed(f"{what} does not apply: its search text is found in {len(places)} places (lines {where})")
        if places:
            new = reindent(
                list(edit.replace if search == edit.search else trimmed(edit.replace)), search, source, places[0]
            )
            return source[: places[0]] + new + source[places[0] + len(search) :]
    raise EditFailed(f"{what} does not apply: {why_not(source, search)}")


def trimmed(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Without blank lines at either end."""
    kept = list(lines)
    while kept and not kept[0].strip():
        kept.pop(0)
    while kept and not kept[-1].strip():
        kept.pop()
    return tuple(kept)


def flat(line: str) -> str:
    return line.strip()


def matches(source: list[str], search: tuple[str, ...], key: object) -> list[int]:
    apply = key if callable(key) else str
    wanted = [apply(line) for line in search]
    have = [apply(line) for line in source]
    last = len(have) - len(wanted)
    return [at for at in range(last + 1) if have[at] == wanted[0] and have[at : at + len(wanted)] == wanted]


def reindent(new: list[str], search: tuple[str, ...], source: list[str], place: int) -> list[str]:
    """Shift the new lines by what the first matched line is indented more or less than it was searched for."""
    searched, found = margin(search[0]), margin(source[place])
    if searched == found:
        return new
    return [found + line[len(searched) :] if line.startswith(searched) and line.strip() else line for line in new]


def margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def why_not(source: list[str], search: tuple[str, ...]) -> str:
    """The first searched line that the parent lacks, and the line it resembles."""
    have = {flat(line) for line in source}
    missing = next((line for line in search if flat(line) and flat(line) not in have), None)
    if missing is None:
        return "its lines are in the parent, but not in one piece"
    squeezed = re.sub(r"\s+", "", missing)
    for number, line in enumerate(source, 1):
        if re.sub(r"\s+", "", line) == squeezed:
            return f"`{clip(missing)}` differs from line {number} of the parent in white space only: `{clip(line)}`"
    return f"the parent has no line `{clip(missing)}`"


def clip(line: str, limit: int = 80) -> str:
    line = line.strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
