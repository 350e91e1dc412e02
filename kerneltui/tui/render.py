"""Text made safe and made to fit: control sequences out, cells counted, cut and padded. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

# Strings that a terminal obeys: OSC, DCS, SOS, PM and APC with their text, CSI, then any other escape.
# An unfinished string ends at the end of its line, so that it cannot swallow the rest of a log.
_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\n)|(?=\x1b)|\Z)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
# What is left over and must not reach a terminal: C0 and C1 controls, bidirectional and zero-width marks, surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_SUSPICIOUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)

TAB = 4  # columns; kernels are deeply indented


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The few characters beyond letters that the screen draws."""

    opened: str
    closed: str
    cut: str
    full: str
    empty: str
    across: str
    down: str
    corner: str
    times: str
    micro: str
    dot: str
    mark: str
    arrow: str
    plus_minus: str
    about: str  # before a ratio that is a tie
    sparks: str


UNICODE = Glyphs(
    opened="▾", closed="▸", cut="…", full="█", empty="░", across="─", down="│", corner="└", times="×", micro="µ",
    dot="·", mark="■", arrow="←", plus_minus="±", about="≈", sparks=" ▁▂▃▄▅▆▇█",
)  # fmt: skip
ASCII = Glyphs(
    opened="v", closed=">", cut="~", full="#", empty=".", across="-", down="|", corner="+", times="x", micro="u",
    dot=".", mark="#", arrow="<", plus_minus="+-", about="~", sparks=" .:-=+*%#",
)  # fmt: skip


# What the program itself writes beyond ASCII, for terminals that have nothing else.
_TO_ASCII = str.maketrans(
    {"…": "~", "–": "-", "×": "x", "µ": "u", "█": "#", "░": ".", "·": ".", "←": "<", "│": "|", "─": "-", "≈": "~"}
)


def to_ascii(text: str) -> str:
    """Our own characters replaced, cell by cell."""
    return text if text.isascii() else text.translate(_TO_ASCII)


def plain(text: str) -> str:
    """The text with every control sequence removed and every other control character made visible.

    A progress line that rewrites itself with carriage returns is left in its last state.
    """
    if _SUSPICIOUS.search(text) is None:
        return text
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return _UNSAFE.sub(_visible, text)


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    states = [state for state in line.split("\r") if state.strip()]
    return states[-1].rstrip() if states else ""


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return "^" + chr(code + 64)
    if code == 0x7F:
        return "^?"
    if 0xD800 <= code <= 0xDFFF:
        return "�"
    return f"<{code:02X}>" if code < 0x100 else f"<U+{code:04X}>"


def lines(text: str) -> list[str]:
    """Plain lines with tabs expanded. Only a line feed ends a line; a last empty line is not one."""
    found = plain(text).split("\n")
    if found and found[-1] == "":
        found.pop()
    return [line.expandtabs(TAB) if "\t" in line else line for line in found]


def one_line(text: str) -> str:
    """Plain text on one line, runs of white space as one space."""
    return " ".join(plain(text).split())


def cut(text: str, width: int, mark: str = "…") -> str:
    """At most `width` cells, with `mark` as the last where something is missing."""
    if width <= 0:
        return ""
    if len(text) > 4 * width:  # spares measuring a line of megabytes
        text = text[: 4 * width]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + mark


def fit(text: str, width: int, mark: str = "…") -> str:
    """Exactly `width` cells, left-aligned."""
    if width <= 0:
        return ""
    return set_cell_size(cut(text, width, mark), width)


def right(text: str, width: int) -> str:
    """At least `width` cells, right-aligned."""
    return " " * max(0, width - cell_len(text)) + text


def wrap(text: str, width: int) -> list[str]:
    """Plain text broken into lines of at most `width` cells, at spaces where there are any."""
    broken: list[str] = []
    for line in lines(text):
        while cell_len(line) > width > 0:
            end = _fitting(line, width)
            space = line.rfind(" ", 0, end + 1)
            indent = len(line) - len(line.lstrip())
            at = space if space > max(indent, width // 3) else end
            broken.append(line[:at].rstrip())
            line = " " * min(indent, width // 3) + line[at:].lstrip()
        broken.append(line)
    return broken


def _fitting(line: str, width: int) -> int:
    """How many characters fit into `width` cells, at least one."""
    if line[: width + 1].isascii():
        return max(1, width)
    cells = 0
    for index, character in enumerate(line):
        cells += cell_len(character)
        if cells > width:
            return max(1, index)
    return len(line)


def bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A horizontal bar; anything above nothing shows at least one cell."""
    share = min(1.0, max(0.0, share))
    filled = round(share * width)
    if share > 0:
        filled = max(1, filled)
    return glyphs.full * filled + glyphs.empty * (width - filled)
