"""Machine code as coloured lines, each source line before the instructions that came of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kerneltui.evaluator.assembly import CodeLine, Disassembly, Function, Kind, opcode_of, vector_widths
from kerneltui.tui import words
from kerneltui.tui.passages import BLANK
from kerneltui.tui.render import plain
from kerneltui.tui.widgets.linelist import Line, Span

MOST_OPCODES = 10
WIDEST = 4_000  # characters of one line; nothing honest is longer
# The first that fits: what moves data, what multiplies matrices, what waits or branches.
_CLASSES = {
    Kind.SASS: (
        (re.compile(r"[HIBDQ]G?MMA$|UTC\w*MMA|W?GMMA"), "best"),
        (re.compile(r"U?(LD|ST|ATOM|RED|BLK|TMA|CP|LDSM|STSM)(?!C$)"), "type"),
        (re.compile(r"BRA|BR[XK]|EXIT|RET|CALL|BS(SY|YNC)|BAR|SYNCS|WARP|DEPBAR|MEMBAR|FENCE|ERRBAR|NANOSLEEP|LDGDEPBAR"), "keyword"),
    ),
    Kind.PTX: (
        (re.compile(r"w?gmma|mma|tcgen05"), "best"),
        (re.compile(r"ld|st|atom|red|cp|prefetch"), "type"),
        (re.compile(r"bra|ret|exit|call|bar|mbarrier|fence|membar"), "keyword"),
    ),
    Kind.HOST: (
        (re.compile(r"v?p?(mova|movu|movdq|movnt|gather|scatter|broadcast|lddqu)|vmov|prefetch"), "type"),
        (re.compile(r"j\w+|call|ret|lock|pause|leave"), "keyword"),
        (re.compile(r"v\w+"), "best"),
    ),
}  # fmt: skip
_COMMENT = re.compile(r"(.*?)(\s*(?://|#|<).*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Lines to show, and the rows where functions begin."""

    lines: list[Line]
    starts: list[int]


def machine_lines(found: Disassembly, source: Sequence[str], *, with_source: bool = True) -> Listing:
    """All functions of a candidate."""
    lines: list[Line] = [[(f" {note}", "warning")] for note in found.notes]
    starts: list[int] = []
    if not found.functions:
        lines.append([(" There is no code for the device in it.", "muted")])
    for function in found.functions:
        if lines:
            lines.append(BLANK)
        starts.append(len(lines))
        lines += [*_head(function, found.kind), *_body(function, found.kind, source if with_source else ())]
    return Listing(lines=lines, starts=starts)


def _head(function: Function, kind: Kind) -> list[Line]:
    opcodes = function.opcodes
    total = words.count_text(sum(opcodes.values()), "instruction")
    counts = "  ".join(f"{name} {count}" for name, count in opcodes.most_common(MOST_OPCODES))
    lines: list[Line] = [[(f" {plain(function.name)}", "round"), (f"  {total}", "muted")], [(f"   {counts}", "number")]]
    if kind is Kind.HOST and (told := widths_text([function])):
        lines.append([(f"   {told}", "number")])
    return lines


def widths_text(functions: Sequence[Function]) -> str:
    """How wide the vectors are: `512 bit 210, 128 bit 3, scalar 40`."""
    widths = sorted(vector_widths(functions).items(), reverse=True)
    return ", ".join(f"{f'{bits} bit' if bits else 'scalar'} {count}" for bits, count in widths)


def _body(function: Function, kind: Kind, source: Sequence[str]) -> list[Line]:
    lines: list[Line] = []
    before: int | None = None
    for line in function.lines:
        if line.source is not None and line.source != before and 0 < line.source <= len(source):
            text = plain(source[line.source - 1].strip())[:WIDEST]
            lines.append([(f"{line.source:>6} ", "line-number"), (text, "comment")])
        before = line.source
        lines.append(_code(line, kind))
    return lines


def _code(line: CodeLine, kind: Kind) -> Line:
    text = plain(line.text)[:WIDEST]
    opcode = opcode_of(text)
    if not opcode:
        return [(f" {text}" if text.rstrip().endswith(":") else f"        {text}", "preprocessor")]
    lead, _, rest = text.partition(opcode)
    found = _COMMENT.match(rest) if kind is not Kind.SASS else None
    word, gap, operands = rest.partition(" ")
    if found:
        word, gap, operands = found[1].partition(" ")
    spans: list[Span] = [(f"  {line.address:>5} " if line.address else "        ", "line-number")]
    spans += [
        (lead.lstrip() if line.address else lead, "preprocessor"),
        (opcode, _token(opcode, kind)),
        (word, "muted"),
    ]
    spans.append((gap + operands, ""))
    if found:
        spans.append((found[2], "function" if "<" in found[2] else "comment"))
    return [span for span in spans if span[0]]


def _token(opcode: str, kind: Kind) -> str:
    return next((token for pattern, token in _CLASSES[kind] if pattern.match(opcode)), "builtin")


def matches(lines: Sequence[Line], wanted: str) -> list[int]:
    """Rows that hold a text, capitals or not."""
    text = wanted.casefold()
    return [row for row, line in enumerate(lines) if text in _text(line).casefold()]


def _text(line: Line) -> str:
    return line if isinstance(line, str) else "".join(part for part, _ in line)
