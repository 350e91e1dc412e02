"""Small forms that the texts of the detail pane are made of. Pure."""

from __future__ import annotations

import re

from kerneltui.records import Variant
from kerneltui.tui import words
from kerneltui.tui.render import plain, wrap
from kerneltui.tui.widgets.linelist import Line

BLANK: Line = ""
# Not before a blank line, an indent, a list, a quote or a table; not after a colon or a fence.
_BROKEN = re.compile(r"(?<![\n:`])\r?\n(?=[^\W\d_]|[\"'(\d][^.)]|`[^`])")


def field_line(name: str, value: str, token: str = "", width: int = 13) -> Line:
    """A name in a column, and its value."""
    return [(f" {name:<{width}}", "muted"), (plain(value).replace("\n", " "), token)]


def field_lines(name: str, value: str, width: int) -> list[Line]:
    """The same, over as many lines as it takes."""
    first, *rest = wrap(value, max(20, width - 15)) or [""]
    return [[(f" {name:<13}", "muted"), (first, "")], *[[(" " * 14 + line, "")] for line in rest]]


def paragraph(text: str, width: int, token: str = "", indent: int = 1) -> list[Line]:
    """Wrapped text; lines that its writer broke flow together, lists and code stay as they are."""
    return [[(" " * indent + line, token)] for line in wrap(flowing(text), max(20, width - indent - 1))]


def flowing(text: str) -> str:
    """Single line breaks within prose as spaces."""
    return text if "```" in text else _BROKEN.sub(" ", text.strip())


def heading(text: str) -> Line:
    """A section's name."""
    return [(f" {text}", "round")]


def finding(variant: Variant, width: int) -> list[Line]:
    """How a variant ended, and why."""
    word, token = words.state_word(variant), words.state_token(variant)
    name = words.outcome_text(variant) or word.lower()
    stage = f" at {variant.stage}" if variant.stage and word == "FAIL" and variant.stage != name else ""
    head = f" {word} {name}{stage}" if word == "FAIL" else f" {name}"
    found: list[Line] = [[(head, token)]]
    text = variant.author_error or variant.message
    if text:
        found += paragraph(text, width)
    if variant.same_as:
        found.append(field_line("same as", variant.same_as))
    return found
