"""replay."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from kerneltui.commands.output import print_json, printable
from kerneltui.engine.replaying import Replayed, replay
from kerneltui.store import Store, find_session


@click.command("replay")
@click.argument("session")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the replayed session in this new folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def replay_session(session: str, keep: Path | None, as_json: bool) -> None:
    """Run SESSION's stored answers and verdicts through the search again; no network, no device, nothing is paid.

    Exit status: 0 the same tree came out, 1 not: the first difference is told.
    """
    with Store.open(find_session(session)) as store, tempfile.TemporaryDirectory() as scratch:
        found = replay(store, keep or Path(scratch) / "replay")
    if as_json:
        print_json(found)
    else:
        say(found)
    sys.exit(1 if found.difference else 0)


def say(found: Replayed) -> None:
    """Rounds with their selections, then what came out."""
    for number, parents in found.rounds:
        click.echo(f"round {number}: from {', '.join(parent or 'the reference' for parent in parents)}")
    counts = f"{found.ideas} ideas, {found.variants} variants, {found.calls} questions"
    if found.difference:
        click.echo(printable(f"different after {found.happenings} happenings ({counts}): {found.difference}"))
    else:
        click.echo(f"the same tree: {counts}, {found.happenings} happenings")
