"""show, failures, status, log."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneltui.commands.output import (
    VARIANT_HEADER,
    print_json,
    print_verdict,
    printable,
    speedup_text,
    table,
    time_text,
    variant_row,
    verdict_json,
)
from kerneltui.commands.sessions import live_state, session_json, tree_json, unknown_node, variant_json
from kerneltui.errors import UsageError
from kerneltui.records import Tree, Variant
from kerneltui.store import Store, find_session

if TYPE_CHECKING:
    from kerneltui.tui.signatures import Group


@click.command()
@click.argument("session")
@click.argument("node", required=False)
@click.option("--source", is_flag=True, help="Only the variant's source.")
@click.option("--filter", "wanted", default="", metavar="TEXT", help="As in the screen: state:ok speed>1.2 round:2..4.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def show(session: str, node: str | None, source: bool, wanted: str, as_json: bool) -> None:
    """Show SESSION, or one NODE of it: an idea (i001) or a variant (v00001)."""
    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
        if wanted:
            keep_matching(store, tree, wanted)
        if node is None:
            print_json(tree_json(folder, tree)) if as_json else print_tree(folder, tree)
        elif node in tree.variants:
            show_variant(store, tree.variants[node], source, as_json)
        elif node in tree.ideas:
            idea = tree.ideas[node]
            if as_json:
                print_json({"idea": idea, "variants": [variant_json(v) for v in tree.of_idea(node)]})
            else:
                click.echo(printable(f"{idea.id}  round {idea.round}  {idea.status}  {idea.title}\n\n{idea.text}\n"))
                click.echo(table(VARIANT_HEADER, [variant_row(v) for v in tree.of_idea(node)]))
        else:
            raise unknown_node(folder, tree, node)


def keep_matching(store: Store, tree: Tree, wanted: str) -> None:
    """Leave only the variants that a filter lets through, and the ideas that have some."""
    from kerneltui.tui.filters import FilterProblem, parse_filter

    try:
        found = parse_filter(wanted, calls=tree.calls)
    except FilterProblem as problem:
        raise UsageError(f"--filter: {problem}, at column {problem.column + 1} of `{wanted}`") from problem
    if found is None:
        return
    for term in found.codes:
        term.found = store.candidates_with(term.pattern)
    kept = [v for v in tree.variants.values() if found.test(v, tree.ideas.get(v.idea or ""))]
    tree.variants = {variant.id: variant for variant in kept}
    left = {variant.idea for variant in kept}
    tree.ideas = {id: idea for id, idea in tree.ideas.items() if id in left}


@click.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def failures(session: str, as_json: bool) -> None:
    """What went wrong in SESSION, grouped: stage, how often, in how many ideas, and one example of each."""
    from kerneltui.tui.signatures import group_failures

    with Store.open(find_session(session)) as store:
        tree = store.read_tree()
    groups = group_failures(tree.variants.values(), tree.ideas)
    if as_json:
        print_json({"failures": [group_json(group) for group in groups]})
        return
    rows = [
        [
            group.stage,
            str(len(group.variants)),
            f"r{group.last_round}",
            str(group.ideas),
            group.variants[-1].id,
            group.signature,
        ]
        for group in groups
    ]
    click.echo(
        table(["stage", "count", "last", "ideas", "example", "what went wrong"], rows) if rows else "nothing has failed"
    )


def group_json(group: Group) -> dict[str, Any]:
    """One group of failures."""
    return {
        "stage": group.stage,
        "signature": group.signature,
        "count": len(group.variants),
        "ideas": group.ideas,
        "last_round": group.last_round,
        "example": group.variants[-1].id,
        "variants": [variant.id for variant in group.variants],
    }


def print_tree(folder: Path, tree: Tree) -> None:
    """A session for people."""
    best = tree.best()
    words = f"{folder.name}: {live_state(tree)}"
    if tree.status.reason:
        words += f" ({tree.status.reason})"
    if best:
        words += f"; best {best.id} {time_text(best.median_us)}, {speedup_text(best.speedup) or '?'} vs eager"
    click.echo(printable(words))
    for notice in tree.status.notices:
        click.echo(f"note: {printable(notice)}")
    for idea in tree.ideas.values():
        click.echo(printable(f"r{idea.round} {idea.id} {idea.status:9} {idea.title}"))
    if tree.variants:
        click.echo(table(VARIANT_HEADER, [variant_row(variant) for variant in tree.variants.values()]))


def show_variant(store: Store, variant: Variant, source: bool, as_json: bool) -> None:
    """One variant with source and verdict."""
    candidate = store.read_candidate(variant.candidate) if variant.candidate else None
    verdict = store.read_verdict(variant.id)
    if source:
        click.echo(candidate.source if candidate else "", nl=False)
        return
    if as_json:
        print_json(
            {
                "variant": variant_json(variant),
                "source": candidate.source if candidate else None,
                "verdict": verdict_json(verdict) if verdict else None,
                "call": store.read_call(variant.call) if variant.call else None,
                "profile": store.read_profile(variant.candidate) if variant.candidate else None,
            }
        )
        return
    click.echo(table(VARIANT_HEADER, [variant_row(variant)]))
    if verdict:
        print_verdict(verdict)
    if candidate:
        click.echo("\n" + printable(candidate.source))


@click.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(session: str, as_json: bool) -> None:
    """What SESSION's engine does now; cheap, for scripts and prompts."""
    from kerneltui.tui.words import wait_text, waiting

    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
    row = session_json(folder, tree)
    row["workers"] = tree.status.workers
    if as_json:
        print_json(row)
        return
    click.echo(printable(f"{folder.name}: {row['state']} {tree.status.reason}".rstrip()))
    now = time.time()
    for label, held in waiting(tree.status, now).items():
        click.echo(printable(f"  {wait_text(label, held, now)} (rate limit)"))
    for worker in tree.status.workers:
        if worker.until <= now:
            click.echo(printable(f"  {worker.name:12} {worker.doing} {worker.node}".rstrip()))


@click.command()
@click.argument("session")
@click.argument("node")
def log(session: str, node: str) -> None:
    """The compile or run log of variant NODE, without anything a terminal would obey."""
    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
        if node not in tree.variants:
            raise unknown_node(folder, tree, node)
        verdict = store.read_verdict(node)
    if verdict is None:
        sys.stderr.write(f"{node}: no verdict yet.\n")
        return
    click.echo(printable(verdict.log))
