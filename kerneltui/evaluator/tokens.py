"""C++ and CUDA source as tokens with their lines: what the compiler sees, not what the text looks like.

Comments are gone, continued lines joined, strings whole (raw ones too). Preprocessor lines are told apart.
Source: ISO C++20, clauses 5.2 to 5.5.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

SCANNER = re.compile(
    r"""
      (?P<space>[^\S\n]+)
    | (?P<newline>\n)
    | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)
        | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z))
    | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<mark><<<|>>>|\#\#|%:%:|%:|::|->|\[\[|.)
    """,
    re.X | re.S,
)
DIGRAPHS = {"%:": "#", "%:%:": "##"}
CONTINUED = re.compile(r"\\[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `kind` is word, number, string, char or mark."""

    kind: str
    text: str
    line: int
    directive: str = ""  # the preprocessor line it is part of: "define", "include", "pragma"...


def tokens(source: str) -> list[Token]:
    """All tokens of a source, preprocessor lines included."""
    text, lines = _joined(source.replace("\r\n", "\n"))
    found: list[Token] = []
    directive, at_start = "", True
    pending_hash = False
    for match in SCANNER.finditer(text):
        kind = str(match.lastgroup if match.lastgroup != "delimiter" else "string")
        word = match.group()
        if kind == "newline":
            directive, at_start, pending_hash = "", True, False
            continue
        if kind in ("space", "comment"):
            continue
        line = lines.line_of(match.start())
        word = DIGRAPHS.get(word, word) if kind == "mark" else word
        if at_start and word == "#":
            directive, pending_hash = "#", True
        elif pending_hash:
            directive, pending_hash = word, False
        found.append(Token(kind, word, line, directive))
        at_start = False
    return found


class _Lines:
    """Line numbers in the source of positions in the joined text."""

    def __init__(self, starts: list[int], numbers: list[int]) -> None:
        self._starts = starts
        self._numbers = numbers

    def line_of(self, position: int) -> int:
        return self._numbers[bisect_right(self._starts, position) - 1]


def _joined(source: str) -> tuple[str, _Lines]:
    """The text with continued lines joined, and where each physical line begins in it."""
    starts, numbers, pieces = [0], [1], []
    position, number = 0, 1
    for piece, ends_line in _pieces(source):
        pieces.append(piece)
        position += len(piece)
        if ends_line:
            number += 1
            starts.append(position)
            numbers.append(number)
    return "".join(pieces), _Lines(starts, numbers)


def _pieces(source: str) -> Iterator[tuple[str, bool]]:
    """(text, whether a physical line ends behind it)."""
    for line in re.split(r"(?<=\n)", source):
        continued = CONTINUED.search(line)
        if continued:
            yield line[: continued.start()], True
        elif line:
            yield line, line.endswith("\n")


def unquoted(token: Token) -> str:
    """The characters of a string token; escapes are left as they are."""
    start = token.text.index('"') + 1
    body = token.text[start:].removesuffix('"')
    if token.text[: start - 1].endswith("R"):
        body = body.partition("(")[2].rpartition(")")[0]
    return body


def directive_lines(found: list[Token]) -> list[list[Token]]:
    """The preprocessor lines, each without its hash and name; the name is on every token."""
    lines: list[list[Token]] = []
    for token in found:
        if token.directive == "#":
            lines.append([])
        elif token.directive and lines:
            lines[-1].append(token)
    return [line[1:] for line in lines]


def matching(found: list[Token], start: int, reach: int) -> int:
    """Index of the bracket that closes the one at `start`; where none does within `reach`, the last looked at."""
    pairs = {"(": ")", "[": "]", "{": "}", "[[": "]"}
    opening, closing, depth = found[start].text, pairs[found[start].text], 0
    end = min(len(found), start + reach)
    for index in range(start, end):
        text = found[index].text
        depth += (text == opening) - (text == closing)
        if depth == 0:
            return index
    return end - 1
