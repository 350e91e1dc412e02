"""Candidates of mixed quality, made from a problem's own kernels: right, refused by the compiler, wrong, endless.

Entry       a candidate and the outcome that it must have
make        so many of each, shuffled
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from stages import ROOT

from kerneltui.authors.sweep import declared, next_points
from kerneltui.records import Candidate, Language, Outcome

SETTINGS_MOST = 6  # of one kernel, so that no file crowds out the others

BROKEN = (  # what the compiler is to find, appended or put in place of something
    "int unfinished( {{",
    "int number_{n} = undeclared_{n};",
    '#error "not this one, {n}"',
    '#include "no_such_header_{n}.h"',
    'static_assert(sizeof(int) == {n}, "no");',
)

CPP_WRAPPER = """
extern "C" int {name}(const float* x, float* out, void* workspace) {{
    const int code = honest(x, out, workspace);
{deed}
    return code;
}}
"""
CPP_WRONG = (
    "    out[out_numel - 1] += 1.0f;",
    "    for (int64_t i = 0; i < out_numel; i += {odd}) out[i] = 0.5f;",
    "    for (int64_t i = 0; i < out_dim1; ++i) out[i] *= 1.{odd}f;",
    '    out[{odd}] = __builtin_nanf("");',
    "    out[out_numel / 2 + {odd}] = -out[out_numel / 2 + {odd}] - 1.0f;",
)
CPP_ENDLESS = "    for (volatile int64_t i = {odd}; i > 0;) i = i + 0;"

CUDA_WRAPPER = """
__global__ void afterwards_(float* out) {{
{deed}
}}
extern "C" int {name}(const float* x, float* out, void* workspace, cudaStream_t stream) {{
    const int code = honest(x, out, workspace, stream);
    if (code != 0) return code;
    afterwards_<<<1, 1, 0, stream>>>(out);
    return cudaGetLastError();
}}
"""
# It reads memory: a loop over a local variable alone is taken out by ptxas.
CUDA_ENDLESS = "    for (volatile float* p = out; p[0] != {odd}e30f;) {{}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A candidate and how it must end."""

    name: str
    candidate: Candidate
    outcome: Outcome


def make(
    problem: str, language: Language, *, right: int, broken: int, wrong: int, endless: int, seed: int
) -> list[Entry]:
    """So many of each kind in a random order; every source is one that no cache has seen."""
    rng = random.Random(seed)
    kernels = cycle(kernels_of(problem, language))
    function = problem
    entries: list[Entry] = []
    for _ in range(right):
        name, candidate = next(kernels)
        entries.append(Entry(name=name, candidate=candidate, outcome=Outcome.CORRECT))
    for number in range(broken):
        name, candidate = next(kernels)
        fault = BROKEN[number % len(BROKEN)].format(n=1000 + number)
        entries.append(changed(f"{name}, broken", candidate, candidate.source + f"\n{fault}\n", Outcome.COMPILE_ERROR))
    for number in range(wrong):
        name, candidate = next(kernels)
        deed = CPP_WRONG[number % len(CPP_WRONG)].format(odd=33 + 2 * number)
        entries.append(changed(f"{name}, wrong", candidate, wrapped(candidate, function, deed), Outcome.MISMATCH))
    for number in range(endless):
        name, candidate = next(kernels)
        deed = (CPP_ENDLESS if language is Language.CPP else CUDA_ENDLESS).format(odd=1 + number)
        entries.append(changed(f"{name}, endless", candidate, wrapped(candidate, function, deed), Outcome.TIMEOUT))
    rng.shuffle(entries)
    return [unseen(entry, rng) for entry in entries]


def kernels_of(problem: str, language: Language) -> list[tuple[str, Candidate]]:
    """The playbook's kernels at its own settings and at some others that they declare."""
    folder = ROOT / "kernels" / problem
    suffix = "cu" if language is Language.CUDA else "cpp"
    files = sorted((folder / ("cuda" if language is Language.CUDA else "cpp")).glob(f"*.{suffix}"))
    found = [kernel for file in files for kernel in settings_of(file, folder, language)]
    random.Random(len(found)).shuffle(found)
    return found


def settings_of(file: Path, folder: Path, language: Language) -> Iterator[tuple[str, Candidate]]:
    source = file.read_text()
    points = {defines for defines in playbook_settings(folder, file)} or {()}
    tried = [(point, None) for point in sorted(points)]
    points |= set(next_points(declared(source), tried, SETTINGS_MOST - 1, 0))
    for point in sorted(points)[:SETTINGS_MOST]:
        words = " ".join(f"{name}={value}" for name, value in point)
        yield f"{file.stem} {words}".strip(), Candidate(source=source, language=language, defines=point)


def playbook_settings(folder: Path, file: Path) -> Iterator[tuple[tuple[str, str], ...]]:
    ideas = tomllib.loads((folder / "playbook.toml").read_text()).get("idea", [])
    for variant in (variant for idea in ideas for variant in idea.get("variant", [])):
        if folder / variant["file"] == file:
            yield tuple(sorted((name, str(value)) for name, value in variant.get("defines", {}).items()))


def wrapped(candidate: Candidate, function: str, deed: str) -> str:
    """The kernel under another name, and a function of the contract that spoils what it did."""
    source = re.sub(rf'extern "C" int {function}\(', "static int honest(", candidate.source)
    if source == candidate.source:
        raise ValueError(f'no `extern "C" int {function}(` in the source')
    wrapper = CPP_WRAPPER if candidate.language is Language.CPP else CUDA_WRAPPER
    return source + wrapper.format(name=function, deed=deed)


def changed(name: str, candidate: Candidate, source: str, outcome: Outcome) -> Entry:
    made = Candidate(source=source, language=candidate.language, defines=candidate.defines)
    return Entry(name=name, candidate=made, outcome=outcome)


def unseen(entry: Entry, rng: random.Random) -> Entry:
    """With a comment that makes it a candidate of its own."""
    return changed(
        entry.name, entry.candidate, f"{entry.candidate.source}\n// {rng.getrandbits(64):x}\n", entry.outcome
    )
