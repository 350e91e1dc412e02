"""prompt, answer: questions carried by hand to a model that has no API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from kerneltui.commands.output import print_json, printable
from kerneltui.commands.sessions import unknown_node
from kerneltui.commands.steering import JSON, decide
from kerneltui.engine.pasting import PURPOSES, REFERENCE, open_to_look, question_on, read_pasted
from kerneltui.errors import UsageError
from kerneltui.records import Call, DecisionKind, Tree
from kerneltui.store import Store, find_session

LARGEST_ANSWER_BYTES = 4 * 2**20  # a source file has some thousand characters
FOR = click.option(
    "--for", "purpose", type=click.Choice(PURPOSES), help="What is asked for; default: what NODE wants next."
)


@click.command()
@click.argument("session")
@click.argument("node", default="reference")
@FOR
@click.option("--sent", is_flag=True, help="The prompt that an author was sent for NODE, as it was.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def prompt(session: str, node: str, purpose: str | None, sent: bool, as_json: bool) -> None:
    """Print what an author would be asked about NODE: nothing else on stdout, so it can be piped or copied.

    NODE is `reference` (ideas), an idea (a kernel for it), a failed variant (a repair) or a correct one (ideas on it).
    Give the answer back with `kerneltui answer SESSION NODE`.
    """
    with Store.open(find_session(session)) as store:
        check_node(store, node)
        text, asked = _sent_prompt(store, node) if sent else _next_prompt(store, node, purpose)
    if as_json:
        print_json({"node": node, "purpose": asked, "prompt": text})
    else:
        click.echo(text, nl=False)


def check_node(store: Store, node: str) -> None:
    """Raises SessionError for a node that is not there."""
    tree = store.read_tree()
    if node not in REFERENCE and node not in tree.ideas and node not in tree.variants:
        raise unknown_node(store.folder, tree, node)


def _next_prompt(store: Store, node: str, purpose: str | None) -> tuple[str, str]:
    question = question_on(open_to_look(store), node, purpose or "")
    return question.prompt, question.purpose


def _sent_prompt(store: Store, node: str) -> tuple[str, str]:
    call = _call_for(store.read_tree(), node)
    if call is None:
        raise UsageError(f"{node}: no author was asked for it; without --sent you see what one would be asked.")
    return store.read_call(call.id).prompt, call.purpose


def _call_for(tree: Tree, node: str) -> Call | None:
    """The call that a node came from; else the last one that was about it."""
    variant, idea = tree.variants.get(node), tree.ideas.get(node)
    number = variant.call if variant else idea.call if idea else None
    if number in tree.calls:
        return tree.calls[number]
    wanted = "" if node in REFERENCE else node
    about = [call for call in tree.calls.values() if call.node == wanted and call.author != "sweep"]
    return about[-1] if about else None


@click.command()
@click.argument("session")
@click.argument("node", default="reference")
@click.argument("file", type=click.Path(path_type=Path), default="-")
@FOR
@click.option("--block", type=click.IntRange(0), help="Take that fenced block (from 0), not the one that looks right.")
@click.option("--check", is_flag=True, help="Only say what would be taken from it.")
@JSON
def answer(
    session: str, node: str, file: Path, purpose: str | None, block: int | None, check: bool, as_json: bool
) -> None:
    """Bring back the answer to `kerneltui prompt SESSION NODE`, from stdin or FILE.

    It is read as every author's answer is: prose, fences and JSON may stand around what counts.
    """
    text = read_text(file)
    target = "" if node in REFERENCE else node
    with Store.open(find_session(session)) as store:
        check_node(store, node)
        found = read_pasted(open_to_look(store), target, text, purpose or "", block)
    for words in found.notes:
        click.echo(f"note: {printable(words)}", err=True)
    if check:
        taken = [idea.title for idea in found.ideas] or [f"{len(found.source.splitlines())} lines of source"]
        click.echo("\n".join(printable(words) for words in taken))
        return
    payload = {"text": text, "purpose": purpose, "block": block}
    decide(session, DecisionKind.ANSWER, target, {k: v for k, v in payload.items() if v is not None}, as_json)


def read_text(file: Path) -> str:
    """An answer as text, whatever its bytes; `-` is stdin.

    Raises:
        UsageError: missing, empty, binary or too large.
    """
    name = "stdin" if str(file) == "-" else str(file)
    try:
        data = _read_some(sys.stdin.buffer) if name == "stdin" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"answer: {name} cannot be read: {error.strerror}.") from error
    if len(data) > LARGEST_ANSWER_BYTES:
        raise UsageError(f"answer: {name} is larger than {LARGEST_ANSWER_BYTES >> 20} MiB; no answer of a model is.")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise UsageError(f"answer: {name} is binary; the text of the answer is wanted.")
    if not data.strip():
        raise UsageError(f"answer: {name} is empty; paste the whole answer, prose and all.")
    return data.decode("utf-8", "replace")


def _read_some(stream: BinaryIO) -> bytes:
    return stream.read(LARGEST_ANSWER_BYTES + 1)
