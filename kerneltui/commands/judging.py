"""eval, problems, contract."""

from __future__ import annotations

import asyncio
import codecs
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneltui.commands.output import exit_status, print_json, print_verdict, table, verdict_json
from kerneltui.errors import UsageError
from kerneltui.evaluator.build_cache import cache_folder
from kerneltui.records import Badge, Candidate, Language, Outcome, Problem, Settings

if TYPE_CHECKING:
    from kerneltui.records import Device, Verdict

LANGUAGES = {
    ".cu": Language.CUDA,
    ".cpp": Language.CPP,
    ".cc": Language.CPP,
    ".cxx": Language.CPP,
    ".py": Language.PYTHON,
}
LARGEST_SOURCE_BYTES = 2 * 1024 * 1024  # a kernel of 2 MB is a mistake, not a kernel


def read_kernel(path: Path) -> Candidate:
    """A kernel file as a candidate.

    Raises:
        UsageError: missing, empty, binary, too large, or of an unknown kind.
    """
    language = LANGUAGES.get(path.suffix.lower())
    if language is None:
        raise UsageError(f"{path}: what language is this? Name it .cu (CUDA C++), .cpp (C++) or .py (a ModelNew file).")
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= LARGEST_SOURCE_BYTES else b""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    if size > LARGEST_SOURCE_BYTES:
        raise UsageError(f"{path}: {size / 1e6:.0f} MB is no kernel source; at most {LARGEST_SOURCE_BYTES >> 20} MiB.")
    if not data.strip():
        raise UsageError(
            f"{path}: the file is empty. `kerneltui contract PROBLEM --skeleton` prints one to start from."
        )
    if b"\0" in data:
        raise UsageError(f"{path}: this is a binary file; give the source.")
    source = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    return Candidate(source=source, language=language)


def parse_pairs(pairs: tuple[str, ...], what: str) -> dict[str, str]:
    """`NAME=value` options as a dict.

    Raises:
        UsageError: one of them is not of that form.
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise UsageError(f"{what} {pair!r}: expected NAME=value.")
        found[name] = value
    return found


def parse_sizes(pairs: tuple[str, ...]) -> dict[str, int]:
    """`--size NAME=number` options.

    Raises:
        UsageError: not a number above zero.
    """
    sizes = {}
    for name, value in parse_pairs(pairs, "--size").items():
        if not value.isdecimal() or int(value) < 1:
            raise UsageError(f"--size {name}={value}: expected a whole number above zero.")
        sizes[name] = int(value)
    return sizes


def device_for(language: Language, wanted: str) -> Device:
    """The device to judge on: what was asked for, else the one that the language needs."""
    from kerneltui.errors import MachineError
    from kerneltui.evaluator.devices import find_device, offline_cuda_device

    if wanted != "auto":
        return find_device(wanted)
    if language is Language.CPP:
        return find_device("cpu")
    if language is Language.CUDA:
        try:
            return find_device("cuda")
        except (MachineError, UsageError):
            return offline_cuda_device()
    return find_device("auto")


async def judge_once(problem: Problem, device: Device, settings: Settings, candidate: Candidate) -> Verdict:
    """One candidate through a fresh evaluator."""
    from kerneltui.evaluator.supervisor import Evaluator

    evaluator = Evaluator(problem, [device], settings=settings, cache=cache_folder())
    try:
        verdict = await evaluator.judge(candidate)
        measured = verdict.measurement
        if verdict.outcome is Outcome.CORRECT and measured is not None and measured.badge is Badge.UNTRUSTED:
            verdict = await evaluator.judge(candidate)  # too much went on beside it: once more
        return verdict
    finally:
        await evaluator.aclose()


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--problem", "-p", required=True, help="A name from `kerneltui problems`, or a file in KernelBench form.")
@click.option("--device", default="auto", help="auto, cpu, cuda, an index or an id from `kerneltui doctor`.")
@click.option("--define", "-D", multiple=True, metavar="NAME=VALUE", help="A tunable of the kernel.")
@click.option("--size", multiple=True, metavar="NAME=N", help="A module constant of the reference.")
@click.option("--tolerance", default="", help="kernelbench, crfm or strict; default: the problem's own.")
@click.option("--deadline", default=20.0, show_default=True, help="Seconds for one run on the device.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def evaluate(
    file: Path,
    problem: str,
    device: str,
    define: tuple[str, ...],
    size: tuple[str, ...],
    tolerance: str,
    deadline: float,
    as_json: bool,
) -> None:
    """Judge one kernel FILE: compile, verify against PyTorch, time beside it.

    Exit status: 0 correct, 1 the kernel failed, 2 usage or this machine, 3 suspect.
    """
    from kerneltui.problems import load_problem

    candidate = replace(read_kernel(file), defines=tuple(sorted(parse_pairs(define, "--define").items())))
    loaded = load_problem(problem)
    settings = Settings(problem=problem, sizes=parse_sizes(size), tolerance=tolerance, deadline_s=deadline)
    verdict = asyncio.run(judge_once(loaded, device_for(candidate.language, device), settings, candidate))
    if as_json:
        print_json(verdict_json(verdict))
    else:
        print_verdict(verdict)
    sys.exit(exit_status(verdict.outcome))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
def problems(as_json: bool) -> None:
    """List the problems that can be searched by name."""
    from kerneltui.problems import list_problems, starters

    found = list_problems()
    if as_json:
        print_json(
            [{"name": p.name, "title": p.title, "dtype": p.dtype, "path": p.path, "licence": p.licence} for p in found]
        )
        return
    rows = []
    for problem in found:
        languages = [lang for lang in (Language.CUDA, Language.CPP) if starters(problem, lang)]
        rows.append([problem.name, problem.dtype, ", ".join(languages), problem.title])
    click.echo(table(["problem", "dtype", "starters", "title"], rows))
    click.echo("Any file in KernelBench form (Model, get_inputs, get_init_inputs) works too, by its path.", err=True)


@click.command()
@click.argument("problem")
@click.option("--device", default="auto", help="auto, cpu or cuda: decides sizes and language.")
@click.option("--size", multiple=True, metavar="NAME=N", help="A module constant of the reference.")
@click.option("--skeleton", is_flag=True, help="Print an empty kernel to start from instead of the header.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def contract(problem: str, device: str, size: tuple[str, ...], skeleton: bool, as_json: bool) -> None:
    """Print contract.h: the C signature that every candidate of PROBLEM has."""
    from kerneltui.contract import skeleton as empty_kernel
    from kerneltui.evaluator.devices import find_device
    from kerneltui.evaluator.supervisor import Evaluator
    from kerneltui.problems import load_problem

    loaded = load_problem(problem)
    settings = Settings(problem=problem, sizes=parse_sizes(size))

    async def describe() -> tuple[object, tuple[str, ...]]:
        evaluator = Evaluator(loaded, [find_device(device)], settings=settings, cache=cache_folder())
        try:
            prepared = await evaluator.prepare()
            return prepared.contract, prepared.notes
        finally:
            await evaluator.aclose()

    made, notes = asyncio.run(describe())
    from kerneltui.records import Contract

    if not isinstance(made, Contract):
        raise UsageError(f"{problem}: has no C signature; only ModelNew files can be candidates. {' '.join(notes)}")
    if as_json:
        print_json(made)
    else:
        click.echo(empty_kernel(made) if skeleton else made.header)
