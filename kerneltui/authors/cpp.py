"""Just enough of C++ and Python to tell code from comments and strings: what a text defines, and whether it is whole.

regions     source -> runs of code, comments and strings
code_only   the same source with comments and strings blanked out
defines     whether a function (or ModelNew) is defined there
open_ends   what is left open at its end, in words
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from kerneltui.records import Language

CPP_TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
      | (?P<string>R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
                 | "(?:[^"\\\n]|\\.|\\\n)*(?:"|(?=\n)|\Z)
                 | (?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z))""",
    re.VERBOSE | re.DOTALL,
)
PYTHON_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>\"{3}.*?(?:\"{3}|\Z) | '{3}.*?(?:'{3}|\Z)
                 | "(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z) | '(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z))""",
    re.VERBOSE | re.DOTALL,
)
FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
MODEL_NEW = re.compile(r"^class[ \t]+ModelNew\b", re.MULTILINE)
NOT_FUNCTIONS = frozenset(
    ("if", "for", "while", "switch", "catch", "return", "sizeof", "alignof", "decltype", "asm", "__attribute__")
)
CODE_START = re.compile(
    r"^\s*(?:#\s*(?:include|define|pragma|if|ifdef|ifndef)\b|//|/\*|extern\b|static\b|template\s*<|using\b|namespace\b"
    r"|__global__|__device__|constexpr\b|typedef\b|struct\b|inline\b|import\s+\w|from\s+\w+\s+import|class\s+\w|int\s+\w+\s*\()"
)


def regions(source: str, language: Language) -> Iterator[tuple[str, str]]:
    """Runs of the source in order, as (kind, text): "code", "comment" or "string"."""
    token = PYTHON_TOKEN if language is Language.PYTHON else CPP_TOKEN
    at = 0
    for match in token.finditer(source):
        if match.start() > at:
            yield "code", source[at : match.start()]
        yield ("comment" if match["comment"] is not None else "string"), match.group()
        at = match.end()
    if at < len(source):
        yield "code", source[at:]


def code_only(source: str, language: Language) -> str:
    """The source with comments and strings blanked, character for character."""
    return "".join(text if kind == "code" else re.sub(r"[^\n]", " ", text) for kind, text in regions(source, language))


def defined_functions(source: str) -> list[str]:
    """Names of C++ functions with a body, in order."""
    code = code_only(source, Language.CPP)
    found = []
    for match in FUNCTION.finditer(code):
        if match[1] in NOT_FUNCTIONS:
            continue
        end = closing_parenthesis(code, match.end() - 1)
        if end is not None and re.match(
            r"\s*(?:noexcept\s*)?(?:__attribute__\s*\(\(.*?\)\)\s*)?\{", code[end : end + 400]
        ):
            found.append(match[1])
    return found


def closing_parenthesis(code: str, start: int, limit: int = 4000) -> int | None:
    """Index after the parenthesis that closes the one at `start`; None if it is not closed nearby."""
    depth = 0
    for match in re.compile(r"[()]").finditer(code, start, start + limit):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.end()
    return None


def defines(source: str, function: str, language: Language) -> bool:
    """Whether the source defines the contract's function, or ModelNew for a module."""
    if language is Language.PYTHON:
        return MODEL_NEW.search(code_only(source, language)) is not None
    if function not in source:
        return False
    return function in defined_functions(source)


def open_ends(source: str, language: Language) -> str:
    """What is still open at the end: "2 braces", "a comment"...; "" when nothing is."""
    kind, text = next(iter(deque(regions(source, language), maxlen=1)), ("code", ""))
    if kind == "comment" and text.startswith("/*") and not text.endswith("*/"):
        return "a comment"
    if language is Language.PYTHON:
        quotes = text[:3]
        unclosed = kind == "string" and quotes in ('"""', "'''") and (len(text) < 6 or not text.endswith(quotes))
        return "a string" if unclosed else ""
    code = code_only(source, language)
    braces = code.count("{") - code.count("}")
    return f"{braces} brace{'s' if braces > 1 else ''}" if braces > 0 else ""
