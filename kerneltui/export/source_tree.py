"""A variant as plain source files that drop into any tree: <name>.cu or .cpp, <name>.h, <name>_provenance.json.

The header holds only the prototypes, so that two of them can be included by one file. Everything else of the source,
constants included, goes into a namespace of its own, so that two winners with equal helper names link together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.contract import describe, includes, prototype, rules, workspace_prototype
from kerneltui.errors import UsageError
from kerneltui.records import (
    Badge,
    Candidate,
    Contract,
    Idea,
    Language,
    Outcome,
    Problem,
    Tree,
    Variant,
    Verdict,
    sha256,
)

SUFFIXES = {Language.CUDA: ".cu", Language.CPP: ".cpp", Language.PYTHON: ".py"}
INCLUDE_CONTRACT = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"contract\.h".*$', re.MULTILINE)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """All that an export needs to know of a variant."""

    session: str
    problem: Problem
    contract: Contract | None
    variant: Variant
    candidate: Candidate
    verdict: Verdict | None
    path: tuple[Idea, ...] = ()  # ideas from the reference down to it

    @property
    def name(self) -> str:
        """Stem of the files."""
        return self.contract.function if self.contract else re.sub(r"\W+", "_", self.problem.name)


def idea_path(tree: Tree, variant: Variant) -> tuple[Idea, ...]:
    """The ideas from the reference down to `variant`."""
    found: list[Idea] = []
    seen: set[str] = set()
    node: Variant | None = variant
    while node is not None and node.id not in seen:
        seen.add(node.id)
        idea = tree.ideas.get(node.idea) if node.idea else None
        if idea is not None and (not found or found[-1] is not idea):
            found.append(idea)
        above = node.parent or (idea.parent if idea else None)
        node = tree.variants.get(above) if above else None
    return tuple(reversed(found))


def refuse_unverified(winner: Winner, unverified: bool) -> None:
    """Only what was found correct leaves without a word.

    Raises:
        UsageError: it was not found correct and `unverified` does not say that this is known.
    """
    verdict = winner.verdict
    if unverified or (verdict is not None and verdict.outcome is Outcome.CORRECT):
        return
    found = f"{verdict.outcome} ({verdict.message})" if verdict else "not judged yet"
    raise UsageError(
        f"{winner.variant.id} is {found}, not correct. --unverified exports it all the same, and says so in each file."
    )


def write_source_tree(winner: Winner, folder: Path, *, unverified: bool = False) -> list[Path]:
    """Write the files into `folder`, overwriting nothing; their paths.

    Raises:
        UsageError: not correct and not `unverified`; a file is there already; the folder cannot be written.
    """
    refuse_unverified(winner, unverified)
    files = render(winner, unverified=unverified)
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise UsageError(f"{folder}: {', '.join(there)} is there already and is not overwritten. Give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            # "x": another export at the same moment must not be overwritten either
            with open(folder / name, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}.") from error
    return [folder / name for name in files]


def render(winner: Winner, *, unverified: bool = False) -> dict[str, str]:
    """File name -> text."""
    name = winner.name
    head = heading(winner, unverified)
    provenance = msgspec.json.format(msgspec.json.encode(provenance_of(winner, unverified)), indent=2).decode() + "\n"
    files = {f"{name}_provenance.json": provenance}
    if winner.candidate.language is Language.PYTHON:
        commented = "".join(f"# {line}".rstrip() + "\n" for line in head)
        return {f"{name}.py": commented + winner.candidate.source} | files
    commented = "".join(f"// {line}".rstrip() + "\n" for line in head)
    suffix = SUFFIXES[winner.candidate.language]
    return {
        f"{name}{suffix}": commented + self_contained(winner),
        f"{name}.h": commented + header(winner),
    } | files


def heading(winner: Winner, unverified: bool) -> list[str]:
    """The first lines of every file."""
    verdict, measured = winner.verdict, winner.verdict.measurement if winner.verdict else None
    lines = [
        f"{winner.name}: {winner.problem.title}",
        f"Found by kerneltui, session {winner.session}, {winner.variant.id}.",
    ]
    if unverified and (verdict is None or verdict.outcome is not Outcome.CORRECT):
        lines.append("UNVERIFIED: this kernel was NOT found correct.")
    if measured and verdict and verdict.device and measured.speedup:
        gains = ", ".join(
            f"{gain.ratio:.2f}x {name}{' (a tie)' * gain.tie} [{gain.low:.3f}, {gain.high:.3f}]"
            for name, gain in measured.speedup.items()
        )
        lines.append(f"{measured.median_us:.4g} us on {verdict.device.name}: {gains}; {measured.badge}.")
    lines.append(f"Verified for the shapes and dtypes of {winner.name}.h only; see {winner.name}_provenance.json.")
    return lines


def header(winner: Winner) -> str:
    """The contract as a plain header: prototypes, with shapes, alignment, workspace and stream in words."""
    contract = winner.contract
    if contract is None:
        return ""
    guard = f"KERNELTUI_{contract.function.upper()}_H"
    visible = '__attribute__((visibility("default"))) '
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>"]
    lines += [line for line in includes(contract) if "cuda" in line]
    if contract.language is Language.CPP and any(tensor.dtype == "bool" for tensor in contract.tensors):
        lines.append("#include <stdbool.h>")
    lines += ["", *(f"// {tensor.name}: {describe(tensor, contract.language)}" for tensor in contract.tensors)]
    has_workspace = defines_workspace(winner)
    words = f"{contract.function}_workspace() bytes, contents do not matter" if has_workspace else "unused, may be null"
    lines += [f"// workspace: {words}", *(f"// {line}" for line in rules(contract))]
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", f"{visible}{prototype(contract)};"]
    lines += [f"{visible}{workspace_prototype(contract)};"] if has_workspace else []
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def defines_workspace(winner: Winner) -> bool:
    """Whether the source defines the workspace function."""
    return re.search(rf"\b{winner.name}_workspace\s*\(", strip_comments(winner.candidate.source)) is not None


def strip_comments(source: str) -> str:
    """Source without comments, good enough to look for a definition."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)


def self_contained(winner: Winner) -> str:
    """The source with its defines, its own header, and all names but the contract's in a hidden namespace of its own."""
    contract, candidate = winner.contract, winner.candidate
    defines = "".join(f"#define {name} {value}\n" for name, value in candidate.defines)
    if contract is None:
        return defines + candidate.source
    source = INCLUDE_CONTRACT.sub("", candidate.source.replace("\r\n", "\n"))
    used = set(re.findall(r"\w+", source))  # an unused constant is a warning in somebody's build
    constants = "".join(f"constexpr {kind} {name} = {lit};\n" for kind, name, lit in contract.constants if name in used)
    above, below = split_after_includes(source)
    top = f'\n#include "{winner.name}.h"\n\n#include <cstddef>\n#include <cstdint>\n{defines}'
    if below is None:  # a brace is open around its includes: it stays as it is
        return f"{top}\n{constants}\n{source}"
    space = f"kerneltui_{contract.function}_{sha256(candidate.digest)[:8]}"
    seen = [prototype(contract)] + ([workspace_prototype(contract)] if defines_workspace(winner) else [])
    visible = "".join(f'extern "C" __attribute__((visibility("default"))) {text};\n' for text in seen)
    opened = f"#pragma GCC visibility push(hidden)\nnamespace {space} {{\n\n{visible}"
    closed = f"}}  // namespace {space}\n#pragma GCC visibility pop\n"
    return f"{top}{above}\n{opened}\n{constants}\n{below.strip()}\n\n{closed}"


def split_after_includes(source: str) -> tuple[str, str | None]:
    """Source up to and with its last #include and the #endif that closes around it, and the rest.

    The rest is None where a brace is open at that point: such a source cannot be wrapped.
    """
    lines = source.splitlines(keepends=True)
    depth, cut, wanted = 0, 0, False
    for number, line in enumerate(lines, start=1):
        match = DIRECTIVE.match(line)
        word = match.group(1) if match else ""
        depth += word in ("if", "ifdef", "ifndef")
        depth -= word == "endif"
        wanted = wanted or word == "include"
        if wanted and depth == 0:
            cut, wanted = number, False
    above = "".join(lines[:cut])
    plain = strip_comments(above)
    if plain.count("{") != plain.count("}"):
        return source, None
    return above, "".join(lines[cut:])


def provenance_of(winner: Winner, unverified: bool) -> dict[str, Any]:
    """Where it comes from, what was found, and under which conditions."""
    verdict, contract = winner.verdict, winner.contract
    measured = verdict.measurement if verdict else None
    correct = verdict is not None and verdict.outcome is Outcome.CORRECT
    return {
        "verification": "unverified" if not correct else str(measured.badge if measured else Badge.UNTRUSTED),
        "unverified_export": unverified,
        "function": contract.function if contract else None,
        "problem": {
            "name": winner.problem.name,
            "title": winner.problem.title,
            "licence": winner.problem.licence,
            "provenance": winner.problem.provenance,
            "digest": winner.problem.digest,
        },
        "session": winner.session,
        "variant": winner.variant.id,
        "author": winner.variant.author,
        "ideas": [
            {"id": i.id, "round": i.round, "author": i.author, "title": i.title, "text": i.text} for i in winner.path
        ],
        "candidate": {
            "digest": winner.candidate.digest,
            "language": winner.candidate.language,
            "defines": dict(winner.candidate.defines),
            "flags": winner.candidate.flags,
        },
        "verdict": {
            "outcome": verdict.outcome if verdict else None,
            "tolerance": verdict.tolerance if verdict else None,
            "device": verdict.device if verdict else None,
            "checks": verdict.checks if verdict else (),
            "measurement": measured,
        },
        "tensors": contract.tensors if contract else (),
    }
