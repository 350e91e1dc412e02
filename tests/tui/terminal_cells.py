"""What a terminal shows after some sequences: cell by cell, with all that can be seen of a style."""

from __future__ import annotations

import re

from rich.cells import cell_len

PART = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|\x1b\]8;([^\x1b]*)\x1b\\|(.)", re.DOTALL)
SEEN_ON_BLANKS = {"4", "7", "9", "21", "51", "52", "53"}

Cell = tuple[str, str, str, frozenset[str], str]


def cells(written: str) -> dict[tuple[int, int], Cell]:
    """(row, column) -> character, front, ground, attributes and link. Of a blank only what can be seen."""
    shown: dict[tuple[int, int], Cell] = {}
    row, column, front, ground, link = 1, 1, "39", "49", ""
    attributes: set[str] = set()
    for down, across, codes, url, character in PART.findall(written):
        if down:
            row, column = int(down), int(across)
        elif character == "\n":
            row, column = row + 1, 1
        elif character:
            seen = bool(attributes & SEEN_ON_BLANKS) or bool(link) or character != " "
            shown[row, column] = (character, front if seen else "", ground, frozenset(attributes if seen else ()), link)
            column += cell_len(character)
        elif codes:
            front, ground = _styled(codes.split(";"), attributes, front, ground)
        else:
            link = url.partition(";")[2]
    return shown


def _styled(codes: list[str], attributes: set[str], front: str, ground: str) -> tuple[str, str]:
    while codes:
        code = codes.pop(0)
        if code in ("38", "48"):
            rest = [codes.pop(0) for _ in range(4 if codes[0] == "2" else 2)]
            code = ";".join([code, *rest])
        if code == "0":
            attributes.clear()
            front, ground = "39", "49"
        elif re.match(r"3[0-79]|38|9\d$", code) and code != "9":
            front = code
        elif re.match(r"4[0-79]$|48|10\d$", code):
            ground = code
        else:
            attributes.add(code)
    return front, ground
