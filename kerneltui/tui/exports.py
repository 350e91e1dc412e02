"""Exporting from the screen: files are written by the export functions, in a thread, over nothing that is there."""

from __future__ import annotations

from pathlib import Path

from kerneltui.export.source_tree import Winner, idea_path, refuse_unverified, render, write_source_tree
from kerneltui.records import Tree, Variant
from kerneltui.store import Store


def read_winner(store: Store, tree: Tree, variant: Variant) -> Winner:
    """All that an export needs.

    Raises:
        SessionError: its source is not in the session.
    """
    return Winner(
        session=store.folder.name,
        problem=store.read_problem(),
        contract=store.read_contract(),
        variant=variant,
        candidate=store.read_candidate(variant.candidate or ""),
        verdict=store.read_verdict(variant.same_as or variant.id) or store.read_verdict(variant.id),
        path=idea_path(tree, variant),
    )


def free_folder(wanted: Path, names: list[str]) -> Path:
    """The folder, else `wanted-002` and so on: the first that holds none of these files."""
    folder, number = wanted, 1
    while any((folder / name).exists() for name in names):
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number:03d}")
    return folder


def export_variant(session: Path, tree: Tree, variant: Variant, wanted: Path) -> list[Path]:
    """Write a variant's files; their paths.

    Raises:
        UsageError: it is not correct, or the folder cannot be written.
        SessionError: its source cannot be read.
    """
    with Store.open(session) as store:
        winner = read_winner(store, tree, variant)
    refuse_unverified(winner, False)
    return write_source_tree(winner, free_folder(wanted, list(render(winner, unverified=False))))
