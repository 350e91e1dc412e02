"""JSON as models write it: comments, trailing commas, single quotes, raw line breaks, Python's words, cut off anywhere.

`read` never raises: it gives the value, where it ended, and whether the text broke off inside it. Containers that were
not closed are marked by `Cut` so that a half-finished object is told from a whole one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

SPACE = re.compile(r"(?:[\s\ufeff\u00a0]+|//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
WORD = re.compile(r"[\w$+.%-]+")
AFTER_STRING = re.compile(r"\s*(?:[,:;}\]=]|//|/\*|\#|\Z)|[^\S\n]*\n\s*[\"'“]")
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None, "nan": None, "undefined": None}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’"}
DEEPEST = 40  # nothing an author writes is nested deeper


class Cut(dict[str, Any]):
    """An object whose closing brace never came."""


@dataclass(slots=True)
class Reader:
    """A cursor over the text."""

    text: str
    at: int = 0
    cut: bool = False  # the text ended inside a value

    def skip(self) -> None:
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        self.skip()
        if self.at >= len(self.text):
            self.cut = True
            return ""
        return self.text[self.at]

    def value(self, depth: int = 0) -> Any:
        char = self.peek()
        if char == "{" and depth < DEEPEST:
            return self.members(depth)
        if char == "[" and depth < DEEPEST:
            return self.items(depth)
        if char in QUOTES and char:
            return self.string()
        return self.scalar()

    def members(self, depth: int) -> dict[str, Any]:
        found = Cut()
        self.at += 1
        while True:
            char = self.peek()
            if char == "" or char == "]":
                return found
            if char == "}":
                self.at += 1
                return dict(found)
            if char in ",;":
                self.at += 1
                continue
            before = self.at
            name = str(self.string() if char in QUOTES else self.scalar())
            if self.peek() in ("", "}", ","):
                continue
            if self.text[self.at] in ":=":
                self.at += 1
                found[name] = self.value(depth + 1)
            if self.at == before:
                self.at += 1

    def items(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while True:
            char = self.peek()
            if char == "" or char == "}":
                return found
            if char == "]":
                self.at += 1
                return found
            before = self.at
            if char != ",":
                found.append(self.value(depth + 1))
            if self.at == before:
                self.at += 1

    def string(self) -> str:
        closing = QUOTES[self.text[self.at]]
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == closing and self.ends_string():
                return "".join(parts)
            parts.append(self.escape() if char == "\\" else char)
        self.cut = True
        return "".join(parts)

    def ends_string(self) -> bool:
        """Whether the quote just read ends its string: one inside a sentence is followed by more of the sentence."""
        return AFTER_STRING.match(self.text, self.at) is not None

    def escape(self) -> str:
        if self.at >= len(self.text):
            self.cut = True
            return ""
        char = self.text[self.at]
        self.at += 1
        if char == "u":
            digits = self.text[self.at : self.at + 4]
            if re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                self.at += 4
                return chr(int(digits, 16))
            return "u"
        return ESCAPES.get(char, char)

    def scalar(self) -> Any:
        word = WORD.match(self.text, self.at)
        if word is None:
            return None
        self.at = word.end()
        if word.end() >= len(self.text):
            self.cut = True
        if word.group().lower() in WORDS:
            return WORDS[word.group().lower()]
        number = NUMBER.fullmatch(word.group())
        return float(number.group()) if number else word.group()


def read(text: str, start: int = 0) -> tuple[Any, int, bool]:
    """The value at `start`, the index after it, and whether the text ended inside it."""
    reader = Reader(text, start)
    value = reader.value()
    joined = join_surrogates(value)
    return joined, reader.at, reader.cut


def join_surrogates(value: Any) -> Any:
    """Make \\ud83d\\ude00 one character; a lone half becomes the replacement mark."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [join_surrogates(item) for item in value]
    if isinstance(value, Cut):
        return Cut({join_surrogates(name): join_surrogates(item) for name, item in value.items()})
    if isinstance(value, dict):
        return {join_surrogates(name): join_surrogates(item) for name, item in value.items()}
    return value
