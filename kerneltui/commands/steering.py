"""Decisions from the command line: each is written into the session and carried out by its engine."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Any

import click

from kerneltui.commands.output import print_json
from kerneltui.errors import UsageError
from kerneltui.records import DecisionKind, Tree
from kerneltui.store import Store, find_session

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


def who() -> str:
    """The person, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"


def decide(
    session: str, kind: DecisionKind, target: str = "", payload: dict[str, Any] | None = None, as_json: bool = False
) -> None:
    """Write a decision, after making sure that its target exists."""
    folder = find_session(session)
    with Store.open(folder) as store:
        tree = store.read_tree()
        check_target(folder, tree, kind, target)
        number = store.add_decision(kind, target, payload, who())
    from kerneltui.commands.sessions import live_state

    state = live_state(tree)
    waits = "" if state in ("running", "paused") else "; carried out when its engine runs (`kerneltui run`)"
    if as_json:
        print_json({"decision": number, "kind": kind, "target": target, "engine": state})
    else:
        click.echo(f"{kind} {target}".rstrip() + f": decision {number}{waits}")


def check_target(folder: Path, tree: Tree, kind: DecisionKind, target: str) -> None:
    """Raises SessionError for a node that is not there."""
    from kerneltui.commands.sessions import unknown_node

    if target and target not in tree.ideas and target not in tree.variants:
        raise unknown_node(folder, tree, target)
    wants_idea = kind in (
        DecisionKind.APPROVE,
        DecisionKind.REJECT,
        DecisionKind.MOVE,
        DecisionKind.EDIT,
        DecisionKind.EXPAND,
    )
    if wants_idea and target not in tree.ideas:
        raise UsageError(f"{kind}: {target} is a variant; this works on ideas (i...).")
    wants_variant = kind in (
        DecisionKind.PIN,
        DecisionKind.UNPIN,
        DecisionKind.RETRY,
        DecisionKind.CERTIFY,
        DecisionKind.PROFILE,
    )
    if wants_variant and target not in tree.variants:
        raise UsageError(f"{kind}: {target} is an idea; this works on variants (v...).")


def node_command(kind: DecisionKind, words: str) -> click.Command:
    """A command of the form `kerneltui KIND SESSION NODE`."""

    @click.command(name=str(kind), help=words)
    @click.argument("session")
    @click.argument("node")
    @JSON
    def command(session: str, node: str, as_json: bool) -> None:
        decide(session, kind, node, as_json=as_json)

    return command


def session_command(kind: DecisionKind, words: str) -> click.Command:
    """A command of the form `kerneltui KIND SESSION`."""

    @click.command(name=str(kind), help=words)
    @click.argument("session")
    @JSON
    def command(session: str, as_json: bool) -> None:
        decide(session, kind, as_json=as_json)

    return command


approve = node_command(DecisionKind.APPROVE, "Let the proposed idea NODE be written.")
reject = node_command(DecisionKind.REJECT, "Turn the proposed idea NODE down.")


@click.command()
@click.argument("session")
@click.argument("idea")
@click.option("--before", default="", metavar="IDEA", help="Default: to the end.")
@JSON
def move(session: str, idea: str, before: str, as_json: bool) -> None:
    """Move a proposed IDEA among those of its round: code is written in that order."""
    decide(session, DecisionKind.MOVE, idea, {"before": before}, as_json)


prune = node_command(DecisionKind.PRUNE, "Cut off idea or variant NODE with all below it; `restore` undoes it.")


@click.command()
@click.argument("session")
@click.argument("node")
@click.option("--to-review", is_flag=True, help="An idea: back among those to decide on.")
@JSON
def restore(session: str, node: str, to_review: bool, as_json: bool) -> None:
    """Undo the prune, rejection or merge of NODE."""
    decide(session, DecisionKind.RESTORE, node, {"proposed": True} if to_review else None, as_json)


pin = node_command(DecisionKind.PIN, "Keep variant NODE among the survivors, whatever its time.")
unpin = node_command(DecisionKind.UNPIN, "Let variant NODE compete again.")
retry = node_command(DecisionKind.RETRY, "Judge variant NODE again; write it again when it has no source.")
certify = node_command(DecisionKind.CERTIFY, "Measure variant NODE again in a fresh process, with every check.")
pause = session_command(DecisionKind.PAUSE, "Start nothing new in SESSION; what runs is finished.")
resume = session_command(DecisionKind.RESUME, "Let SESSION go on after a pause.")


@click.command()
@click.argument("session")
@click.option("--drain", is_flag=True, help="Once what runs is finished.")
@JSON
def stop(session: str, drain: bool, as_json: bool) -> None:
    """End the search of SESSION; what was found stays, `run` takes it up again."""
    decide(session, DecisionKind.STOP, "", {"drain": True} if drain else None, as_json)


@click.command()
@click.argument("session")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--parent", default="", help="The idea or variant it belongs under.")
@click.option("--name", default="", help="A word for its row; default: the file's name.")
@click.option("--define", "-D", multiple=True, metavar="NAME=VALUE", help="A tunable of the kernel.")
@JSON
def inject(session: str, file: Path, parent: str, name: str, define: tuple[str, ...], as_json: bool) -> None:
    """Put the hand-written kernel FILE into SESSION; it is judged like any other and may become a parent."""
    from kerneltui.commands.judging import parse_pairs, read_kernel

    candidate = read_kernel(file)
    payload = {
        "source": candidate.source,
        "language": str(candidate.language),
        "name": name or file.name,
        "defines": parse_pairs(define, "--define"),
    }
    decide(session, DecisionKind.INJECT, parent, payload, as_json)


@click.command("add-idea")
@click.argument("session")
@click.argument("text")
@click.option("--title", default="", help="A short name; default: the first line of TEXT.")
@click.option("--parent", default="", help="The variant it starts from; default: the reference.")
@JSON
def add_idea(session: str, text: str, title: str, parent: str, as_json: bool) -> None:
    """Put an idea of your own into SESSION; TEXT of `-` is read from stdin."""
    words = sys.stdin.read() if text == "-" else text
    if not words.strip():
        raise UsageError("add-idea: the text is empty.")
    first = words.strip().splitlines()[0][:80]
    decide(session, DecisionKind.ADD_IDEA, parent, {"title": title or first, "text": words, "parent": parent}, as_json)


@click.command()
@click.argument("session")
@click.argument("idea")
@click.argument("text")
@click.option("--title", default="", help="A new title; default: as it is.")
@JSON
def edit(session: str, idea: str, text: str, title: str, as_json: bool) -> None:
    """Change the words of IDEA; TEXT of `-` is read from stdin. Variants written later follow the new words."""
    words = sys.stdin.read() if text == "-" else text
    payload = {"text": words} | ({"title": title} if title else {})
    decide(session, DecisionKind.EDIT, idea, payload, as_json)


@click.command()
@click.argument("session")
@click.argument("idea")
@click.option("--count", default=1, show_default=True, type=click.IntRange(1, 64), help="How many more.")
@JSON
def expand(session: str, idea: str, count: int, as_json: bool) -> None:
    """Have COUNT more variants written from IDEA."""
    decide(session, DecisionKind.EXPAND, idea, {"count": count}, as_json)


@click.command()
@click.argument("session")
@click.argument("text")
@click.option("--node", default="", help="The idea or variant it is about; default: the session.")
@JSON
def note(session: str, text: str, node: str, as_json: bool) -> None:
    """Leave a note; later prompts carry it."""
    decide(session, DecisionKind.NOTE, node, {"text": text}, as_json)


@click.command()
@click.argument("session")
@click.option("--usd", type=click.FloatRange(0), help="Dollars in all.")
@click.option("--tokens", type=click.IntRange(0), help="Tokens in all.")
@click.option("--evaluations", type=click.IntRange(1), help="Evaluations in all.")
@click.option("--minutes", type=click.FloatRange(0), help="Wall time in all.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds in all.")
@click.option("--target", type=click.FloatRange(0), help="Stop at this speed-up against eager.")
@click.option("--forecast", "only_forecast", is_flag=True, help="Only say what the next round will take.")
@JSON
def budget(
    session: str, minutes: float | None, target: float | None, only_forecast: bool, as_json: bool, **caps: Any
) -> None:
    """Change what SESSION may spend; raising a cap that was hit lets it go on.

    What the next round will take, old and new caps and what is used are said first.
    """
    payload = {key: value for key, value in caps.items() if value is not None}
    if minutes is not None:
        payload["wall_s"] = minutes * 60
    if target is not None:
        payload["target_speedup"] = target
    if only_forecast and payload:
        raise UsageError("budget: --forecast changes nothing; give it alone.")
    if payload or only_forecast:
        say_forecast(session, as_json=as_json and only_forecast, on_stdout=only_forecast)
    if only_forecast:
        return
    if not payload:
        raise UsageError("budget: say what to change, as in `kerneltui budget SESSION --usd 40`.")
    say_change(session, payload)
    decide(session, DecisionKind.BUDGET, "", payload, as_json)


def say_change(session: str, payload: dict[str, Any]) -> None:
    """Old and new caps beside what is used, and whether the search ends by it; on stderr."""
    from kerneltui.tui.budgets import change_lines, ends_by

    with Store.open(find_session(session)) as store:
        tree = store.read_tree()
    for line in change_lines(tree, payload, tree.status.active_s):
        click.echo(line, err=True)
    ends = ends_by(tree, payload, tree.status.active_s)
    if ends:
        click.echo(f"stops now: {ends}", err=True)


def say_forecast(session: str, *, as_json: bool, on_stdout: bool) -> None:
    """What the next round will take: the answer itself on stdout, a remark beside another act on stderr."""
    from kerneltui.engine.forecasting import forecast_of
    from kerneltui.search.forecast import words

    with Store.open(find_session(session)) as store:
        found = forecast_of(store)
    if as_json:
        print_json(found)
    else:
        click.echo(f"forecast: {words(found)}", err=not on_stdout)
