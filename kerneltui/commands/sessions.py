"""new, ls, and what other commands ask of sessions."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kerneltui.commands.judging import parse_sizes
from kerneltui.commands.output import (
    print_json,
    printable,
    speedup_json,
    table,
    time_text,
)
from kerneltui.errors import KernelTuiError, SessionError, UsageError
from kerneltui.evaluator.build_cache import cache_folder
from kerneltui.records import Budget, Problem, Settings, Tree, Variant
from kerneltui.settings import cap_answers, parse_author
from kerneltui.store import Store, list_sessions, sessions_folder

NAME = re.compile(r"[^A-Za-z0-9._-]+")


def free_name(root: Path, wanted: str) -> str:
    """`wanted`, or with the first number that makes it new."""
    base = NAME.sub("-", wanted).strip("-.") or "session"
    name, number = base, 2
    while (root / name).exists():
        name, number = f"{base}-{number}", number + 1
    return name


async def prepare_problem(problem: Problem, settings: Settings) -> Any:
    """Let the judge look at the problem before anything is created.

    Raises:
        ProblemError: it cannot be searched.
    """
    from kerneltui.evaluator.devices import find_devices
    from kerneltui.evaluator.supervisor import Evaluator

    devices = find_devices(settings.devices or (settings.device,))
    evaluator = Evaluator(problem, devices, settings=settings, cache=cache_folder())
    try:
        return await evaluator.prepare()
    finally:
        await evaluator.aclose()


def create_session(problem: Problem, settings: Settings, name: str | None, *, check: bool = True) -> Path:
    """A new session folder; nothing is left behind when the problem or a key is wrong."""
    from kerneltui.authors.keys import check_ready
    from kerneltui.problems import lint_problem, sized_source

    if name is None:
        folder = sessions_folder() / free_name(sessions_folder(), problem.name)
    else:
        folder = Path(name) if "/" in name else sessions_folder() / name
    if (folder / "session.db").exists():
        raise SessionError(f"{folder}: there is a session already. Choose another --name.")
    sized_source(problem, "cpu", settings.sizes)  # a size that names no constant is found without running anything
    for note in lint_problem(problem):
        click.echo(f"note: {printable(note)}", err=True)
    missing = [words for words in map(check_ready, settings.authors) if words]
    if missing:
        raise UsageError(" ".join(missing))
    prepared = asyncio.run(prepare_problem(problem, settings)) if check else None
    with Store.create(folder, settings, problem) as store:
        if prepared is not None:
            for note in prepared.notes:
                store.add_event("engine", "machine", note)
                click.echo(f"note: {printable(note)}", err=True)
    return folder


@click.command()
@click.argument("problem")
@click.option("--name", help="Name or path of the session; default: the problem's name.")
@click.option(
    "--device", multiple=True, help="auto (the default), cuda, cpu, an index or an id; several of one kind share."
)
@click.option("--author", multiple=True, help="openai:MODEL, gemini:MODEL, command:PROGRAM or playbook; several share.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of ideas.")
@click.option("--ideas", type=click.IntRange(1), help="Ideas per parent.")
@click.option("--variants", type=click.IntRange(1), help="Variants per idea.")
@click.option("--beam", type=click.IntRange(1), help="Survivors of a round.")
@click.option("--review", is_flag=True, help="Ideas wait for approval before code is written.")
@click.option("--budget-usd", type=click.FloatRange(0), help="Cap on dollars.")
@click.option("--budget-tokens", type=click.IntRange(0), help="Cap on tokens.")
@click.option("--budget-evaluations", type=click.IntRange(1), help="Cap on evaluations.")
@click.option("--budget-minutes", type=click.FloatRange(0), help="Cap on wall time.")
@click.option("--target", type=click.FloatRange(0), help="Stop at this speed-up against eager.")
@click.option("--size", multiple=True, metavar="NAME=N", help="A module constant of the reference.")
@click.option("--tolerance", default="", help="kernelbench, crfm or strict.")
@click.option("--no-check", is_flag=True, help="Do not run the reference now; the engine will.")
@click.option("--start", is_flag=True, help="Start the engine in the background at once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def new(problem: str, name: str | None, author: tuple[str, ...], **options: Any) -> None:
    """Make a session for PROBLEM: a name from `kerneltui problems`, or a file in KernelBench form."""
    from kerneltui.problems import load_problem

    loaded = load_problem(problem)
    path = Path(problem)
    settings = Settings(
        problem=str(path.resolve()) if path.exists() else problem,
        device=options["device"][0] if options["device"] else "auto",
        devices=options["device"] if len(options["device"]) > 1 else (),
        review=options["review"],
        sizes=parse_sizes(options["size"]),
        tolerance=options["tolerance"],
        budget=Budget(
            usd=options["budget_usd"],
            tokens=options["budget_tokens"],
            evaluations=options["budget_evaluations"],
            wall_s=options["budget_minutes"] * 60 if options["budget_minutes"] else None,
            target_speedup=options["target"],
        ),
    )
    widths = {key: options[key] for key in ("rounds", "ideas", "variants", "beam") if options[key] is not None}
    if author:
        widths["authors"] = tuple(map(parse_author, author))
        if options["budget_usd"] is not None:
            widths["authors"] = tuple(cap_answers(one) for one in widths["authors"])
    folder = create_session(loaded, replace(settings, **widths), name, check=not options["no_check"])
    if options["start"]:
        from kerneltui.tui.engines import start_engine

        start_engine(folder)
    forecast, said = first_forecast(loaded, replace(settings, **widths))
    if options["as_json"]:
        print_json({"session": folder.name, "folder": str(folder), "forecast": forecast})
    else:
        click.echo(f"forecast: {said}")
        found_as = name if name and "/" in name else folder.name  # a session elsewhere is found by its path only
        click.echo(
            f"made {folder}; {'its engine runs' if options['start'] else f'start it with: kerneltui run {found_as}'}"
        )


def first_forecast(problem: Problem, settings: Settings) -> tuple[Any, str]:
    """What the whole search may take at most, as a record and in words."""
    from kerneltui.authors.money import worst_cases
    from kerneltui.authors.prompt import first_prompt
    from kerneltui.search.forecast import before_start, words_on_all

    found = before_start(settings, worst_cases(settings.authors, first_prompt(problem)))
    return found, words_on_all(found, settings)


def session_json(folder: Path, tree: Tree) -> dict[str, Any]:
    """One row of `ls --json`."""
    best = tree.best()
    return {
        "session": folder.name,
        "folder": str(folder),
        "problem": tree.settings.problem,
        "state": live_state(tree),
        "reason": tree.status.reason,
        "round": tree.status.round,
        "variants": len(tree.variants),
        "best": best.id if best else None,
        "best_us": best.median_us if best else None,
        "speedup": {"eager": speedup_json(best.speedup)} if best and best.speedup else {},
        "usd": spent_usd(tree),
        "calls_of_unknown_cost": sum(1 for call in tree.calls.values() if call.cost_usd is None),
        "last_activity": tree.status.heartbeat,
    }


def spent_usd(tree: Tree) -> float:
    """Dollars known to be spent; calls of unknown cost are counted beside it, not in it."""
    return sum(call.cost_usd for call in tree.calls.values() if call.cost_usd is not None)


def live_state(tree: Tree) -> str:
    """The engine's state, or `gone` when it says running and its process is not there."""
    from kerneltui.tui.engines import is_running

    if tree.status.state in ("running", "paused") and not is_running(tree.status):
        return "gone" if tree.status.state == "running" else "paused"
    return str(tree.status.state)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
def ls(as_json: bool) -> None:
    """List the sessions in ./sessions (or $KERNELTUI_SESSIONS)."""
    rows, broken = [], []
    for folder in list_sessions():
        try:
            with Store.open(folder, migrate=False) as store:
                rows.append(session_json(folder, store.read_tree()))
        except KernelTuiError as error:
            broken.append(str(error))
    for words in broken:
        click.echo(f"kerneltui: {words}", err=True)
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo(f"No session in {sessions_folder()}/ yet; `kerneltui new PROBLEM` makes one.", err=True)
        return
    cells = [
        [
            row["session"],
            Path(row["problem"]).name,
            row["state"],
            f"r{row['round']}",
            str(row["variants"]),
            time_text(row["best_us"]),
            f"{row['speedup']['eager']['ratio']:.2f}x" if row["speedup"] else "",
            f"${row['usd']:.2f}",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_activity"])) if row["last_activity"] else "",
        ]
        for row in rows
    ]
    click.echo(table(["session", "problem", "state", "round", "variants", "best", "vs eager", "spent", "last"], cells))


def tree_json(folder: Path, tree: Tree) -> dict[str, Any]:
    """What `show --json` prints."""
    best = tree.best()
    return {
        "session": folder.name,
        "state": live_state(tree),
        "reason": tree.status.reason,
        "round": tree.status.round,
        "best": best.id if best else None,
        "device": tree.status.device,
        "notices": tree.status.notices,
        "usd": spent_usd(tree),
        "ideas": [
            {
                "id": idea.id,
                "round": idea.round,
                "parent": idea.parent,
                "author": idea.author,
                "title": idea.title,
                "text": idea.text,
                "status": idea.status,
                "merged_into": idea.merged_into,
            }
            for idea in tree.ideas.values()
        ],
        "variants": [variant_json(variant) for variant in tree.variants.values()],
    }


def variant_json(variant: Variant) -> dict[str, Any]:
    """One variant of `show --json`."""
    return {
        "id": variant.id,
        "idea": variant.idea,
        "round": variant.round,
        "parent": variant.parent,
        "kind": variant.kind,
        "author": variant.author,
        "name": variant.name,
        "language": variant.language,
        "state": variant.state,
        "outcome": variant.outcome,
        "stage": variant.stage,
        "message": variant.message or variant.author_error,
        "median_us": variant.median_us,
        "speedup": {"eager": speedup_json(variant.speedup)} if variant.speedup else {},
        "badge": variant.badge,
        "pruned": variant.pruned,
        "pinned": variant.pinned,
        "same_as": variant.same_as,
        "candidate": variant.candidate,
        "defines": dict(variant.defines),
    }


def unknown_node(folder: Path, tree: Tree, node: str) -> SessionError:
    """The error for a node that is not there."""
    import difflib

    near = difflib.get_close_matches(node, [*tree.ideas, *tree.variants], n=3)
    hint = f"Near it: {', '.join(near)}." if near else f"It has {len(tree.ideas)} ideas, {len(tree.variants)} variants."
    return SessionError(f"{folder.name}: no node `{node}`. {hint}")
