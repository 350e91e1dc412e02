"""Disassembly as records: the texts of nvdisasm, cuobjdump, nvcc and objdump taken apart by function. Pure.

read_sass      nvdisasm -g -c, or cuobjdump -sass
read_ptx       nvcc -ptx
read_host      objdump -d --no-show-raw-insn -C
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

SOURCE = re.compile(r"kernel\.(?:cu|cpp)$")


class Kind(StrEnum):
    """What is shown of a candidate."""

    SASS = "sass"  # machine code of the GPU
    PTX = "ptx"  # NVIDIA's intermediate code, before ptxas
    HOST = "host"  # machine code of the processor


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """One instruction, label or directive."""

    text: str
    source: int | None = None  # line of the candidate it came from
    address: str = ""  # hexadecimal; "" for labels and PTX


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One kernel or function."""

    name: str  # readable, without arguments
    symbol: str
    lines: tuple[CodeLine, ...]

    @property
    def opcodes(self) -> Counter[str]:
        """Instructions by their first word, without modifiers."""
        return Counter(opcode for line in self.lines if (opcode := opcode_of(line.text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disassembly:
    """Everything that was made of one candidate."""

    kind: Kind
    architecture: str
    tool: str  # which program said so
    functions: tuple[Function, ...]
    notes: tuple[str, ...] = ()  # what is missing, in words


def opcode_of(text: str) -> str:
    """`@P0 LDG.E.128 R4, ...` -> `LDG`; "" for labels, directives and padding."""
    words = text.split()
    while words and (words[0].startswith("@") or words[0] in ("lock", "rep", "repz", "notrack", "bnd", "{")):
        words = words[1:]
    if not words or words[0].endswith(":") or not words[0][0].isalpha():
        return ""
    return words[0].rstrip(";").partition(".")[0]


def select(functions: Sequence[Function], wanted: str) -> tuple[Function, ...]:
    """Functions whose name or symbol holds a text."""
    return tuple(each for each in functions if wanted in each.name or wanted in each.symbol)


# --------------------------------------------------------------------------- SASS

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*(?:/\* 0x[0-9a-f]{16} \*/)?\s*$")
FILE_LINE = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at "([^"]*)", line (\d+))?')
SECTION = re.compile(r"^\.text\.(\S+):$|^\s*Function : (\S+)$")
LABEL = re.compile(r"^(\.L\w+):$")
REFERENCE = re.compile(r"`\(([^)]*)\)")


def read_sass(text: str) -> tuple[Function, ...]:
    """Kernels by their mangled names, in the order of the text; what pads the end of each is left out."""
    found: list[tuple[str, list[CodeLine]]] = []
    source: int | None = None
    for line in text.splitlines():
        if head := SECTION.match(line):
            found.append((head[1] or head[2], []))
            source = None
        elif not found:
            continue
        elif place := FILE_LINE.search(line):
            source = _own_line(place, source)
        elif code := INSTRUCTION.match(line):
            words = REFERENCE.sub(r"\1", code[2])
            found[-1][1].append(CodeLine(text=" ".join(words.split()), source=source, address=code[1]))
        elif label := LABEL.match(line):
            found[-1][1].append(CodeLine(text=f"{label[1]}:"))
    return tuple(Function(name=name, symbol=name, lines=tuple(_without_padding(lines))) for name, lines in found)


def _own_line(place: re.Match[str], before: int | None) -> int | None:
    """A line of the candidate itself: of what is inlined from a header, the line that called it."""
    if SOURCE.search(place[1]):
        return int(place[2])
    return int(place[5]) if place[4] and SOURCE.search(place[4]) else before


def _without_padding(lines: list[CodeLine]) -> list[CodeLine]:
    """Without the NOPs that fill the last cache line, and the label of the end."""
    end = len(lines)
    while end and (lines[end - 1].text == "NOP" or lines[end - 1].text.endswith(":")):
        end -= 1
    return lines[:end]


# --------------------------------------------------------------------------- PTX

ENTRY = re.compile(r"^(?:\.(?:visible|weak|extern|noinline)\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)


def read_ptx(text: str) -> tuple[Function, ...]:
    """Kernels and device functions with their declarations; debug sections are left out."""
    own = {number for number, path in FILE.findall(text) if SOURCE.search(path)}
    found: list[tuple[str, list[CodeLine]]] = []
    inside, depth, source = False, 0, None
    for line in text.splitlines():
        if not inside and (entry := ENTRY.match(line)) and not line.rstrip().endswith(";"):
            found.append((entry[1], []))
            inside, depth, source = True, 0, None
        if not inside:
            continue
        if place := LOCATION.match(line):
            source = _ptx_line(place, own, source)
        elif line.strip() and not line.strip().startswith("//"):
            found[-1][1].append(CodeLine(text=line.rstrip().expandtabs(4), source=source))
            depth += line.count("{") - line.count("}")
            inside = depth > 0 or "}" not in line
    return tuple(Function(name=name, symbol=name, lines=tuple(lines)) for name, lines in found)


def _ptx_line(place: re.Match[str], own: set[str], before: int | None) -> int | None:
    if place[1] in own:
        return int(place[2])
    return int(place[4]) if place[3] in own else before


# --------------------------------------------------------------------------- host

HOST_HEAD = re.compile(r"^[0-9a-f]{8,} <(.*)>:$")
HOST_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
HOST_TARGET = re.compile(r"<([^+].*?)(?:\+0x[0-9a-f]+)?>$")


def read_host(text: str) -> tuple[Function, ...]:
    """Functions with readable names, in the order of the text."""
    found: list[tuple[str, list[CodeLine]]] = []
    for line in text.splitlines():
        if head := HOST_HEAD.match(line):
            found.append((head[1], []))
        elif found and (code := HOST_LINE.match(line)):
            found[-1][1].append(CodeLine(text=" ".join(code[2].split()), address=code[1]))
    return tuple(Function(name=name, symbol=name, lines=tuple(lines)) for name, lines in found)


def reachable(functions: Sequence[Function], start: str) -> tuple[Function, ...]:
    """The function of that name and all that it and its callees name, nearest first.

    An address that is taken counts as a call: OpenMP is handed its loop bodies so.
    """
    by_name = {function.name: function for function in functions}
    queue, seen = [start], {start}
    kept: list[Function] = []
    while queue:
        name = queue.pop(0)
        if name not in by_name:
            continue
        kept.append(by_name[name])
        for target in _targets(by_name[name].lines):
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return tuple(kept)


def _targets(lines: Iterable[CodeLine]) -> Iterator[str]:
    for line in lines:
        if found := HOST_TARGET.search(line.text):
            yield found[1]


WIDTHS = (("zmm", 512), ("ymm", 256), ("xmm", 128))
SCALAR = re.compile(r"^v?(?:\w*?s[sd]|\w*?sh)$")


def vector_widths(functions: Sequence[Function]) -> dict[int, int]:
    """Packed instructions by the width of their widest register, in bits; scalar arithmetic is width 0."""
    found: Counter[int] = Counter()
    for function in functions:
        for line in function.lines:
            width = next((bits for name, bits in WIDTHS if f"%{name}" in line.text), None)
            opcode = opcode_of(line.text)
            if width is None or opcode in ("vzeroupper", "vzeroall"):
                continue
            found[0 if width == 128 and SCALAR.match(opcode) else width] += 1
    return dict(found)
