"""sass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kerneltui.commands.output import print_json, printable
from kerneltui.errors import UsageError
from kerneltui.evaluator.build_cache import cache_folder
from kerneltui.store import Store, find_session

if TYPE_CHECKING:
    from kerneltui.evaluator.assembly import Disassembly, Function

MOST_OPCODES = 8


@click.command()
@click.argument("session")
@click.argument("variant")
@click.option("--ptx", is_flag=True, help="PTX instead of machine code; for CUDA variants.")
@click.option("--kernel", default="", metavar="NAME", help="Only functions whose name holds NAME.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def sass(session: str, variant: str, ptx: bool, kernel: str, as_json: bool) -> None:
    """The machine code of VARIANT, by kernel, with the source line of every instruction.

    SASS (or PTX) of a CUDA variant, host assembly of a C++ one. Needs no GPU.
    """
    from dataclasses import replace

    from kerneltui.evaluator.assembly import select

    found, source = read_disassembly(session, variant, ptx)
    if kernel:
        chosen = select(found.functions, kernel)
        if not chosen:
            raise UsageError(f"--kernel {kernel}: there is {', '.join(f.name for f in found.functions) or 'none'}.")
        found = replace(found, functions=chosen)
    if as_json:
        print_json({"session": session, "variant": variant, "disassembly": found})
        return
    for note in found.notes:
        click.echo(printable(note), err=True)
    for function in found.functions:
        click.echo(printable("\n".join(listing(function, source.splitlines(), found))))


def read_disassembly(session: str, variant: str, ptx: bool) -> tuple[Disassembly, str]:
    """Made, or read where it was made before; and the source it belongs to."""
    from kerneltui.commands.sessions import unknown_node
    from kerneltui.evaluator.disassembly import compiling_device, disassemble

    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
        if variant not in tree.variants:
            raise unknown_node(folder, tree, variant)
        row = tree.variants[variant]
        if row.candidate is None:
            raise UsageError(f"{variant} has no source: {row.author_error or row.state}.")
        candidate, contract = store.read_candidate(row.candidate), store.read_contract()
    device = compiling_device(tree.status.device, candidate.language)
    work = disassemble(candidate, contract, device, ptx=ptx, policy=tree.settings.policy, cache=cache_folder())
    return asyncio.run(work), candidate.source


def listing(function: Function, source: Sequence[str], found: Disassembly) -> list[str]:
    """A function as text: each source line before the instructions that came of it."""
    counts = ", ".join(f"{name} {count}" for name, count in function.opcodes.most_common(MOST_OPCODES))
    total = sum(function.opcodes.values())
    lines = [f"\n{function.name}  ({found.kind} for {found.architecture}, {total} instructions: {counts})"]
    before: int | None = None
    for line in function.lines:
        if line.source is not None and line.source != before and line.source <= len(source):
            lines.append(f"{line.source:>6} | {source[line.source - 1].strip()}")
        before = line.source
        lines.append(f"{line.address:>10}  {line.text}" if line.address else line.text)
    return lines
