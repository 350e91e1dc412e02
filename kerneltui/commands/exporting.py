"""export."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.commands.output import print_json
from kerneltui.errors import SessionError, UsageError
from kerneltui.records import Tree, Variant
from kerneltui.store import Store, find_session


def chosen_variant(folder: Path, tree: Tree, node: str) -> Variant:
    """A variant by id, or `best`.

    Raises:
        SessionError: there is none, or it has no source.
    """
    from kerneltui.commands.sessions import unknown_node

    if node == "best":
        best = tree.best()
        if best is None:
            raise SessionError(f"{folder.name}: no correct variant yet.")
        return best
    if node not in tree.variants:
        raise unknown_node(folder, tree, node)
    if tree.variants[node].candidate is None:
        raise SessionError(
            f"{folder.name}: {node} has no source: {tree.variants[node].author_error or 'not written yet'}."
        )
    return tree.variants[node]


@click.command()
@click.argument("session")
@click.argument("variant")
@click.option(
    "--to", "to", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write into."
)
@click.option("--unverified", is_flag=True, help="Export what was not found correct; every file says so.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def export(session: str, variant: str, to: Path, unverified: bool, as_json: bool) -> None:
    """Write VARIANT (an id, or `best`) of SESSION as plain source with a header and its provenance."""
    from kerneltui.export.source_tree import Winner, idea_path, write_source_tree

    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
        node = chosen_variant(folder, tree, variant)
        if node.candidate is None:
            raise UsageError(f"{node.id}: has no source.")
        winner = Winner(
            session=folder.name,
            problem=store.read_problem(),
            contract=store.read_contract(),
            variant=node,
            candidate=store.read_candidate(node.candidate),
            verdict=store.read_verdict(node.same_as or node.id) or store.read_verdict(node.id),
            path=idea_path(tree, node),
        )
    files = write_source_tree(winner, to, unverified=unverified)
    if as_json:
        print_json({"variant": node.id, "files": [str(path) for path in files]})
    else:
        for path in files:
            click.echo(str(path))
