"""Remarks on C++ and CUDA source, by its tokens.

Names that only a cheat needs are refused wherever they stand; names that honest code also uses as its own (`open`,
`read`, `time`) are notes here and judged in the binary, where an import is an import.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from kerneltui.evaluator.cpp_rules import LIBRARY_HEADERS, NOTED_HEADERS, REFUSED_HEADERS, RULES
from kerneltui.evaluator.findings import Finding
from kerneltui.evaluator.tokens import Token, directive_lines, matching, tokens, unquoted
from kerneltui.records import Candidate, Language, Policy

REFUSED_ATTRIBUTES = re.compile(
    r"_*(constructor|destructor|init_priority|ifunc|section|alias|weakref|symver|naked|used_section)_*"
)
REFUSED_PRAGMAS = re.compile(r"weak|redefine_extname|comment|init_seg|init")
CLOCK_ASM = re.compile(r"%?(globaltimer|clock(64|_hi)?\b)|\brdtscp?\b|\brdpmc\b|cntvct", re.I)
SYSTEM_ASM = re.compile(r"\b(syscall|sysenter|svc|int\s+\$?0x80|vmcall|wrpkru|rdfsbase|wrfsbase|wrgsbase)\b", re.I)
FILE_ASM = re.compile(r"\.\s*(incbin|include)\b", re.I)
RAW_ASM = re.compile(
    r"\.\s*(byte|2byte|4byte|8byte|short|long|quad|octa|ascii|asciz|string|section|pushsection|init_array|symver|weak|globl|global|type|set|equ|macro|rept|irp|altmacro)\b",
    re.I,
)
PTX_RAW = re.compile(  # in device code a dot begins a modifier nearly everywhere: only what begins a statement counts
    r"(?:^|[;{}\n])\s*\.\s*(byte|2byte|4byte|8byte|short|long|quad|octa|ascii|asciz|string|section|pushsection|init_array|"
    r"symver|globl|set|equ|macro|rept|irp|altmacro)\b",
    re.I,
)
REACH = 5000  # tokens of one assembly block
CALL = 300  # tokens of one use of a macro
PASTES = 500
ASM = {"asm", "__asm__", "__asm"}
SUSPICIOUS_PATH = re.compile(r"^/(proc|dev|etc|sys|home|root|tmp|var)\b|LD_PRELOAD|lib(cuda|cudart|c|dl|torch\w*)\.so")


def cpp_findings(candidate: Candidate, policy: Policy) -> list[Finding]:
    """Remarks on one source."""
    found = tokens(candidate.source)
    lines = directive_lines(found)
    cuda = candidate.language is Language.CUDA
    return [
        *_headers(lines, policy),
        *_names(found, policy),
        *_pasted(found, lines, policy),
        *_attributes(found),
        *_assembly(found, cuda),
        *_pragmas(found, lines),
        *_strings(found),
        *(_launches(found) if cuda else ()),
        *_defines(candidate, policy),
    ]


def _refuse(line: int | None, reason: str) -> Finding:
    return Finding(line=line, reason=reason, refused=True)


def _note(line: int | None, reason: str) -> Finding:
    return Finding(line=line, reason=reason, refused=False)


# --------------------------------------------------------------------------- headers


def _headers(lines: list[list[Token]], policy: Policy) -> Iterator[Finding]:
    for line in lines:
        if not line:
            continue
        first = line[0]
        if first.directive in ("include", "include_next", "import", "embed"):
            yield from _header(first.directive, _header_name(line), first.line, policy)
        for index, token in enumerate(line):
            if token.text in ("__has_include", "__has_embed", "__has_include_next"):
                yield from _path(_header_name(line[index + 2 :]) or "", token.line)


def _header_name(line: list[Token]) -> str | None:
    """The name between <> or quotes; None when a macro hides it."""
    if line and line[0].kind == "string":
        return unquoted(line[0])
    if line and line[0].text == "<":
        texts = [token.text for token in line[1:]]
        return "".join(texts[: texts.index(">")]) if ">" in texts else None
    return None


def _header(directive: str, name: str | None, line: int, policy: Policy) -> Iterator[Finding]:
    if directive == "embed":
        yield _refuse(line, "#embed takes a file into the library")
    if name is None:
        yield _refuse(line, f"#{directive} hides its file behind a macro")
        return
    yield from _path(name, line)
    for pattern, reason in REFUSED_HEADERS:
        if re.fullmatch(pattern, name):
            yield _refuse(line, f"#include <{name}>: {reason}")
    for pattern, reason in NOTED_HEADERS:
        if re.fullmatch(pattern, name):
            yield _note(line, f"#include <{name}>: {reason}")
    if LIBRARY_HEADERS.fullmatch(name) and not policy.library_calls:
        yield _refuse(line, f"#include <{name}>: this session wants kernels, not library calls")


def _path(name: str, line: int) -> Iterator[Finding]:
    if name.startswith(("/", "~")) or ".." in name.split("/"):
        yield _refuse(line, f'"{name}" reaches outside the build folder')


# --------------------------------------------------------------------------- names


def _names(found: list[Token], policy: Policy) -> Iterator[Finding]:
    own = _own_functions(found)
    for index, token in enumerate(found):
        if token.kind != "word" or token.directive in ("include", "include_next"):
            continue
        before = found[index - 1].text if index else ""
        after = found[index + 1].text if index + 1 < len(found) else ""
        member = before in (".", "->")
        called = not member and token.text not in own and (after == "(" or token.directive == "define")
        yield from _name(token, policy, called=called)
        if before == "::" and index > 1 and found[index - 2].text == "std":
            yield from _first("std", token.text, token.line, f"std::{token.text}")


def _own_functions(found: list[Token]) -> set[str]:
    """Names that the source gives to things of its own: `auto kill = [](...)`, `static float kill(...) {...}`.

    What has C linkage, is only declared, or is given another symbol's name is not its own: an import says the rest.
    """
    own: set[str] = set()
    for index in range(1, len(found) - 1):
        token, before, after = found[index], found[index - 1].text, found[index + 1].text
        if token.kind != "word" or token.directive:
            continue
        if before == "auto" and after == "=" and index + 2 < len(found) and found[index + 2].text == "[":
            own.add(token.text)
        elif after == "(" and found[index - 1].kind == "word" and _is_static(found, index):
            end = matching(found, index + 1, CALL)
            if end + 1 < len(found) and found[end + 1].text == "{":
                own.add(token.text)
    return own


def _is_static(found: list[Token], index: int) -> bool:
    """Whether a definition's own words say that it stays within the file."""
    for token in reversed(found[max(0, index - 8) : index]):
        if token.text in (";", "}", "{", ")"):
            return False
        if token.text in ("static", "__device__"):
            return True
    return False


def _name(token: Token, policy: Policy, *, called: bool) -> Iterator[Finding]:
    text, line = token.text, token.line
    yield from _first("names", text, line, text)
    if called:
        yield from _first("calls", text, line, text)
        yield from _first("noted", text, line, text)
    if not policy.library_calls:
        yield from _first("library", text, line, text)


def _first(kind: str, name: str, line: int | None, shown: str) -> Iterator[Finding]:
    reason = _reason(kind, name)
    if reason:
        yield Finding(line=line, reason=f"{shown}: {reason}", refused=kind != "noted")


@functools.lru_cache(maxsize=16384)
def _reason(kind: str, name: str) -> str:
    """Why a rule of this kind applies to a name; "" when none does. A source says the same names over and over."""
    return next((reason for pattern, reason in RULES[kind] if re.fullmatch(pattern, name)), "")


def _defines(candidate: Candidate, policy: Policy) -> Iterator[Finding]:
    for name, value in candidate.defines:
        for finding in _name(Token("word", value, 0), policy, called=True):
            yield Finding(line=None, reason=f"define {name}: {finding.reason}", refused=finding.refused)


# --------------------------------------------------------------------------- pasted names


def _pasted(found: list[Token], lines: list[list[Token]], policy: Policy) -> Iterator[Finding]:
    """Names that `##` builds: each use of a pasting macro is carried out, one level deep."""
    macros = {name: (parameters, body) for name, parameters, body in _pasting_macros(lines)}
    uses = [index for index in range(len(found) - 1) if found[index].text in macros and found[index + 1].text == "("]
    uses = [index for index in uses if not _is_definition(found, index)]
    if len(uses) > PASTES:
        yield _refuse(found[uses[PASTES]].line, f"more than {PASTES} names pasted together: too many to read")
    for index in uses[:PASTES]:
        arguments = _arguments(found[index + 1 : matching(found, index + 1, CALL) + 1])
        parameters, body = macros[found[index].text]
        for name in _paste(body, dict(zip(parameters, arguments, strict=False))):
            for finding in _name(Token("word", name, found[index].line), policy, called=True):
                yield Finding(line=finding.line, reason=f"{finding.reason} (pasted together)", refused=finding.refused)


def _is_definition(found: list[Token], index: int) -> bool:
    return found[index].directive == "define" and found[index - 1].text == "define"


def _pasting_macros(lines: list[list[Token]]) -> Iterator[tuple[str, list[str], list[Token]]]:
    for line in lines:
        if len(line) < 3 or line[0].directive != "define" or line[1].text != "(":
            continue
        close = matching(line, 1, CALL)
        body = line[close + 1 :]
        if any(token.text == "##" for token in body):
            yield line[0].text, [token.text for token in line[2:close] if token.kind == "word"], body


def _arguments(call: list[Token]) -> list[str]:
    """The texts between the brackets, split at commas of the first level."""
    arguments, depth = [""], 0
    for token in call[1:-1]:
        depth += (token.text in "([{") - (token.text in ")]}")
        if token.text == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += token.text
    return arguments


def _paste(body: list[Token], values: dict[str, str]) -> list[str]:
    names: list[str] = []
    joining = False
    for token in body:
        text = values.get(token.text, token.text)
        if token.text == "##":
            joining = True
        elif joining and names:
            names[-1] += text
            joining = False
        else:
            names.append(text)
    return names


# --------------------------------------------------------------------------- attributes, assembly, pragmas, strings


def _attributes(found: list[Token]) -> Iterator[Finding]:
    for inside in _bracketed(found, {"__attribute__", "__attribute", "[["}):
        for word in inside:
            if word.kind == "word" and REFUSED_ATTRIBUTES.fullmatch(word.text):
                yield _refuse(word.line, f"attribute {word.text.strip('_')}: code must run only when it is called")


def _assembly(found: list[Token], cuda: bool) -> Iterator[Finding]:
    for inside in _bracketed(found, ASM):
        text = "\n".join(unquoted(part) for part in inside if part.kind == "string")
        text = text.replace("\\n", "\n").replace("\\t", " ")
        yield from _assembly_text(text, inside[0].line, cuda)


def _bracketed(found: list[Token], names: set[str]) -> Iterator[list[Token]]:
    """Each of these words with what stands in the brackets behind it; nested ones are part of the outer."""
    index = 0
    while index < len(found):
        if found[index].text not in names:
            index += 1
            continue
        near = range(index, min(index + 6, len(found)))
        start = next((i for i in near if found[i].text in ("(", "{", "[[")), index)
        end = matching(found, start, REACH) if found[start].text in ("(", "{", "[[") else index
        yield found[index : end + 1]
        index = end + 1


def _assembly_text(text: str, line: int, cuda: bool) -> Iterator[Finding]:
    if CLOCK_ASM.search(text):
        yield _refuse(line, "assembly that reads a clock")
    if FILE_ASM.search(text):
        yield _refuse(line, "assembly that takes in a file")
    if SYSTEM_ASM.search(text):
        yield _refuse(line, "assembly that calls the system")
    raw = (PTX_RAW if cuda else RAW_ASM).search(text)
    if raw:
        yield _refuse(line, f"assembly directive {raw.group()}: instructions only")
    for word in set(re.findall(r"[A-Za-z_]\w+", text)):
        yield from _first("names", word, line, word)


def _pragmas(found: list[Token], lines: list[list[Token]]) -> Iterator[Finding]:
    for line in lines:
        if line and line[0].directive == "pragma" and REFUSED_PRAGMAS.fullmatch(line[0].text):
            yield _refuse(line[0].line, f"#pragma {line[0].text} changes how the library is linked")
    for index, token in enumerate(found[:-2]):
        if token.text == "_Pragma" and found[index + 2].kind == "string":
            word = unquoted(found[index + 2]).split()
            if word and REFUSED_PRAGMAS.fullmatch(word[0]):
                yield _refuse(token.line, f"_Pragma {word[0]} changes how the library is linked")


def _strings(found: list[Token]) -> Iterator[Finding]:
    texts = [(unquoted(token), token) for token in found if token.kind == "string" and token.directive != "include"]
    asks_driver = any(token.text.startswith("cudaGetDriverEntryPoint") for token in found)
    for text, token in texts:
        if SUSPICIOUS_PATH.search(text):
            yield _note(token.line, f"names {text[:60]!r}")
        if asks_driver and re.fullmatch(r"cu[A-Z]\w+", text) and not text.startswith("cuTensorMap"):
            yield _refuse(token.line, f"asks the driver for {text}")


def _launches(found: list[Token]) -> Iterator[Finding]:
    """`<<<grid, block>>>` without the stream: nothing of it would be timed."""
    start: int | None = None
    for index, token in enumerate(found):
        if token.text == "<<<":
            start = index
        elif token.text == ">>>" and start is not None:
            arguments = _arguments(found[start : index + 1])
            if len(arguments) < 4 or arguments[3] in ("0", "nullptr", "NULL"):
                line = found[start].line
                yield _note(line, "launches on the default stream: launch on the stream you were given")
            start = None
