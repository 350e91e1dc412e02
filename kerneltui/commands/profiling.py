"""profile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from kerneltui.commands.judging import device_for, parse_pairs, parse_sizes, read_kernel
from kerneltui.commands.output import print_json, printable, table
from kerneltui.commands.steering import who
from kerneltui.errors import MachineError, SessionError, UsageError
from kerneltui.evaluator.build_cache import cache_folder
from kerneltui.records import Candidate, DecisionKind, Device, Language, Problem, Profile, Settings, Tree, Variant
from kerneltui.store import Store, find_session

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.argument("target", metavar="SESSION|FILE")
@click.argument("variant", required=False)
@click.option("--problem", "-p", default="", help="With a FILE: its problem, as `eval` takes it.")
@click.option("--device", default="auto", help="With a FILE: auto, cpu, cuda, an index or an id.")
@click.option("--define", "-D", multiple=True, metavar="NAME=VALUE", help="With a FILE: a tunable of the kernel.")
@click.option("--size", multiple=True, metavar="NAME=N", help="With a FILE: a module constant of the reference.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def profile(
    target: str,
    variant: str | None,
    problem: str,
    device: str,
    define: tuple[str, ...],
    size: tuple[str, ...],
    as_json: bool,
) -> None:
    """Count what VARIANT of SESSION does: with ncu on a GPU, with perf on a CPU. Or a kernel FILE with --problem.

    A variant's profile is kept in its session, for the screen and for later prompts. Exit status 2: nothing can count here.
    """
    if problem:
        if variant is not None:
            raise UsageError("profile: give SESSION VARIANT, or FILE with --problem, not both.")
        candidate = replace(read_kernel(Path(target)), defines=tuple(sorted(parse_pairs(define, "--define").items())))
        found = profile_file(candidate, problem, device, parse_sizes(size))
    elif variant is None:
        raise UsageError(f"profile: which variant of {target}? For a kernel file, name its problem with --problem.")
    else:
        found = profile_variant(find_session(target), variant)
    if as_json:
        print_json(found)
    else:
        print_profile(found)


def profile_file(candidate: Candidate, problem: str, device: str, sizes: dict[str, int]) -> Profile:
    """Of a kernel that is in no session."""
    from kerneltui.evaluator.devices import NO_GPU
    from kerneltui.problems import load_problem

    loaded = load_problem(problem)
    found = device_for(candidate.language, device)
    if found.id == NO_GPU:
        raise no_gpu("there is no GPU here")
    return asyncio.run(count(loaded, [found], Settings(problem=problem, sizes=sizes), candidate))


def profile_variant(folder: Path, id: str) -> Profile:
    """Counted here and now, by this process; then written into the session."""
    from kerneltui.commands.sessions import unknown_node

    with Store.open(folder) as store:
        tree, problem = store.read_tree(), store.read_problem()
        row = tree.variants.get(id)
        if row is None:
            raise unknown_node(folder, tree, id)
        if row.candidate is None:
            raise UsageError(f"{id} has no source: {row.author_error or row.state}.")
        candidate = store.read_candidate(row.candidate)
    found = asyncio.run(count(problem, session_devices(tree, candidate), tree.settings, candidate))
    keep(folder, row, found)
    return found


def session_devices(tree: Tree, candidate: Candidate) -> list[Device]:
    """The first of the session's devices."""
    from kerneltui.evaluator.devices import find_device

    name = (tree.settings.devices or (tree.settings.device,))[0]
    wanted = "cuda" if name == "auto" and candidate.language is Language.CUDA else name
    try:
        return [find_device(wanted)]
    except (MachineError, UsageError) as error:
        raise no_gpu(str(error)) if candidate.language is Language.CUDA else error from error


def no_gpu(words: str) -> MachineError:
    """The error of a CUDA kernel where nothing can run it."""
    return MachineError(
        f"{words.rstrip('.')}. A CUDA kernel is profiled where there is an NVIDIA GPU; `kerneltui sass` shows its machine code here."
    )


async def count(problem: Problem, devices: Sequence[Device], settings: Settings, candidate: Candidate) -> Profile:
    """One candidate through a fresh evaluator."""
    from kerneltui.evaluator.supervisor import Evaluator

    evaluator = Evaluator(problem, devices, settings=settings, cache=cache_folder())
    try:
        return await evaluator.profile(candidate)
    finally:
        await evaluator.aclose()


def keep(folder: Path, row: Variant, found: Profile) -> None:
    """Into the session: by the engine that runs it, or else by this process, which is its engine for a moment."""
    from kerneltui.engine.recovery import hold_lock

    try:
        with hold_lock(folder), Store.open(folder, write=True) as store, store.transaction():
            store.put_profile(row.candidate or "", found)
            store.add_event(who(), "profile", f"{row.id} was profiled with {found.tool}", row.id)
    except SessionError:
        with Store.open(folder) as store:
            store.add_decision(DecisionKind.PROFILE, row.id, {"profile": msgspec.to_builtins(found)}, who())


def print_profile(found: Profile) -> None:
    """A profile for people."""
    from kerneltui.evaluator.counters import figure_text

    where = f" on {found.device.name}" if found.device else ""
    click.echo(printable(f"counted with {found.tool}{where}"))
    for kernel in found.kernels:
        times = f", {kernel.launches} launches, means of them" if kernel.launches > 1 else ""
        click.echo(printable(f"\n{kernel.name}{times}"))
        click.echo(table(["", ""], [[f"  {each.name}", figure_text(each)] for each in kernel.figures]).lstrip("\n"))
    for words in found.missing:
        click.echo(printable(f"missing: {words}"), err=True)
