"""ledger."""

from __future__ import annotations

from typing import Any

import click

from kerneltui.commands.output import print_json, table
from kerneltui.records import Tree
from kerneltui.search.expectation import Expectation
from kerneltui.search.ledger import Gain, Kept, Row, expected_text, forecast_text, gain_text, outcomes
from kerneltui.search.ledger import ledger as rows_of
from kerneltui.store import Store, find_session


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--ideas", is_flag=True, help="A line per idea instead: what was expected and what came.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def ledger(sessions: tuple[str, ...], ideas: bool, as_json: bool) -> None:
    """Which techniques paid in SESSION, or in several together.

    A gain is the time of an idea's parent over the time of its variant, both measured on the same device.
    """
    trees = {name: _read(name) for name in dict.fromkeys(sessions)}
    if as_json:
        cards = {name: [idea_json(kept) for kept in outcomes(tree)] for name, tree in trees.items()}
        print_json({"techniques": [row_json(row) for row in rows_of(trees.values())], "ideas": cards})
    elif ideas:
        for name, tree in trees.items():
            lead = [name] if len(trees) > 1 else []
            print_table(
                [*(["session"] if lead else []), "idea", "correct", "gain over parent", "expected", "", "title"],
                [[*lead, *idea_cells(kept)] for kept in outcomes(tree)],
            )
    else:
        found = rows_of(trees.values())
        several = len({row.device for row in found}) > 1
        print_table(
            [*(["device"] if several else []), "technique", "ideas", "correct", "median gain", "best", "expected", ""],
            [[*([row.device] if several else []), *row_cells(row)] for row in found],
        )


def _read(name: str) -> Tree:
    with Store.open(find_session(name)) as store:
        return store.read_tree()


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A table, or a word on stderr that there is nothing to show."""
    if rows:
        click.echo(table(header, rows))
    else:
        click.echo("No idea was tried yet.", err=True)


def row_cells(row: Row) -> list[str]:
    """One technique."""
    return [
        row.technique,
        str(row.ideas),
        f"{row.correct}/{row.variants}",
        gain_text(row.median) if row.median else "",
        f"{row.best.ratio:.2f}x" if row.best else "",
        expected_text(row.expected_low, row.expected_high),
        forecast_text(row.words),
    ]


def idea_cells(kept: Kept) -> list[str]:
    """One idea."""
    expected = kept.expected
    return [
        kept.idea,
        f"{kept.correct}/{kept.variants}",
        gain_text(kept.gain) if kept.gain else "",
        expected_text(expected.low, expected.high) if expected else "",
        kept.word,
        kept.title,
    ]


def row_json(row: Row) -> dict[str, Any]:
    """A row of the ledger with its share."""
    plain = {name: getattr(row, name) for name in Row.__slots__}
    return {**plain, "correct_share": row.share, "best": gain_json(row.best), "median": gain_json(row.median)}


def idea_json(kept: Kept) -> dict[str, Any]:
    """An idea card beside its outcome."""
    plain = {name: getattr(kept, name) for name in Kept.__slots__ if name != "gains"}
    return {**plain, "gain": gain_json(kept.gain), "expected": expectation_json(kept.expected)}


def gain_json(gain: Gain | None) -> dict[str, float] | None:
    """Ratio and interval."""
    return None if gain is None else {"ratio": gain.ratio, "low": gain.low, "high": gain.high}


def expectation_json(expected: Expectation | None) -> dict[str, Any] | None:
    """Bounds, and over what."""
    return None if expected is None else {"low": expected.low, "high": expected.high, "against": expected.against}
