"""Characters that are not what they seem, in answers and in the code taken from them.

mend_text        line ends, byte-order marks, terminal escapes, NUL, lone surrogates: anywhere
mend_code        typographic quotes, dashes and spaces: outside strings and comments
inline_headers   a header given as a second file -> put where it is included
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kerneltui.authors.cpp import regions
from kerneltui.records import Language

ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
QUOTE_MARKS = {"“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'", "＂": '"', "＇": "'"}
DASHES = {"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-"}
SPACES = dict.fromkeys(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
)
INVISIBLE = dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")
ODD = str.maketrans(QUOTE_MARKS | DASHES | SPACES | INVISIBLE)
SMART_STRING = re.compile(r"[“„]([^“”„\n]*)[”“]")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(?P<name>[^"\n]+)"[^\n]*$', re.MULTILINE)


def mend_text(text: str) -> tuple[str, list[str]]:
    """The text with plain line ends and printable characters, and what was changed, in words."""
    notes: list[str] = []

    def change(new: str, note: str) -> None:
        nonlocal text
        if new != text:
            text = new
            notes.append(note)

    change(text.replace("\r\n", "\n").replace("\r", "\n"), "line ends were CRLF")
    change(text.lstrip("\ufeff"), "a byte-order mark was removed")
    change(ESCAPE.sub("", text), "terminal escapes were removed")
    change(text.replace("\x00", ""), "NUL characters were removed")
    change(text.encode("utf-8", "replace").decode("utf-8"), "broken characters were replaced by ?")
    return text, notes


def mend_code(source: str, language: Language) -> tuple[str, list[str]]:
    """Plain quotes, dashes and spaces outside strings and comments; what strings and comments hold is left alone."""
    straight = "".join(
        SMART_STRING.sub(r'"\1"', text) if kind == "code" else text for kind, text in regions(source, language)
    )
    parts = [text.translate(ODD) if kind == "code" else text for kind, text in regions(straight, language)]
    mended = "".join(parts)
    if not mended.endswith("\n"):
        mended += "\n"
    changed = mended.rstrip("\n") != source.rstrip("\n")
    return mended, ["typographic quotes, dashes or spaces in the code were made plain"] if changed else []


def inline_headers(source: str, files: Mapping[str, str]) -> tuple[str, list[str]]:
    """The source with quoted includes of the given files replaced by their text, each once."""
    by_name = {name.rsplit("/", 1)[-1]: text for name, text in files.items()}
    inlined: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        name = match["name"].rsplit("/", 1)[-1]
        if name == "contract.h" or name not in by_name:
            return match.group()
        if name in inlined:
            return ""
        inlined.append(name)
        return INCLUDE.sub(
            replaced, re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*$", "", by_name[name], flags=re.MULTILINE)
        )

    return INCLUDE.sub(replaced, source), inlined
