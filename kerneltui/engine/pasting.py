"""Questions that people carry to an author by hand, and the answers they bring back. Targets and texts of decisions.

open_to_look    a session as the engine would see it, without an engine
question_on     node -> the Ask that an author would get, prompt included
take_answer     a pasted answer, read against that question
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.parsing import read_answer
from kerneltui.authors.prompt import build_prompt
from kerneltui.engine.material import gather
from kerneltui.engine.questions import add_ideas, to_candidate, with_candidate
from kerneltui.engine.session import Session
from kerneltui.errors import UsageError, nearest
from kerneltui.records import (
    Check,
    Contract,
    Decision,
    Device,
    Idea,
    Outcome,
    Tree,
    Variant,
    VariantKind,
    VariantState,
)
from kerneltui.search.plan import REPAIRABLE
from kerneltui.store import Store

REFERENCE = ("", "reference")
MOST_IDEAS = 64  # in one pasted answer: a person may bring more than was asked for
PURPOSES = ("ideas", "write", "repair")


def idea_of(session: Session, decision: Decision) -> Idea:
    """The idea that a decision is about."""
    idea = session.tree.ideas.get(decision.target)
    if idea is None:
        raise UsageError(
            f"there is no idea `{decision.target}`{nearest(decision.target, list(session.tree.ideas)[:50])}"
        )
    return idea


def variant_of(session: Session, decision: Decision) -> Variant:
    """The variant that a decision is about."""
    variant = session.tree.variants.get(decision.target)
    if variant is None:
        raise UsageError(
            f"there is no variant `{decision.target}`; `kerneltui show {session.store.folder.name}` lists them"
        )
    return variant


def word_of(decision: Decision, key: str, needed: bool = True) -> str:
    """A text of its payload."""
    value = decision.payload.get(key) or ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise UsageError(f"`{key}` is missing, or not a text")
    return value


def hand_row(session: Session, decision: Decision, parent: str | None) -> Variant:
    """A new row for what a person wrote."""
    return Variant(
        id=session.store.next_variant_id(),
        idea=None,
        round=session.status.round,
        parent=parent,
        kind=VariantKind.HAND,
        author=decision.who or "hand",
        human=True,
        created=time.time(),
    )


# --------------------------------------------------------------------------- the question


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the evaluator's preparation found out, as the session file holds it."""

    contract: Contract | None
    device: Device
    baselines_us: dict[str, float] = field(default_factory=dict)
    floor_us: float | None = None
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


def open_to_look(store: Store) -> Session:
    """The session of a store, prepared as it was when its engine last ran.

    Raises:
        UsageError: no engine has prepared it yet.
    """
    tree = store.read_tree()
    name = store.folder.name
    if tree.status.device is None:
        raise UsageError(
            f"{name}: its problem was not prepared yet, so there is no contract to write for; `kerneltui run {name}` "
            "does that."
        )
    facts: dict[str, Any] = store.read_prepared()
    prepared = Recorded(
        contract=store.read_contract(),
        device=tree.status.device,
        baselines_us=facts.get("baselines_us") or {},
        floor_us=facts.get("floor_us"),
    )
    return Session(
        store=store,
        tree=tree,
        settings=tree.settings,
        problem=store.read_problem(),
        prepared=prepared,
        status=tree.status,
    )


def purpose_on(tree: Tree, node: str) -> str:
    """What a node wants next: an idea its variants, a failed variant a repair, anything that runs ideas.

    Raises:
        UsageError: it wants nothing from an author, or is not there.
    """
    if node in REFERENCE:
        return "ideas"
    if node in tree.ideas:
        return "write"
    variant = tree.variants.get(node)
    if variant is None:
        raise UsageError(f"there is no node `{node}`{nearest(node, [*tree.ideas, *tree.variants][-50:])}")
    if variant.outcome is Outcome.CORRECT:
        return "ideas"
    if variant.outcome in REPAIRABLE:
        return "repair"
    if variant.candidate is None and variant.kind is VariantKind.ATTEMPT and variant.idea in tree.ideas:
        return "write"
    said = variant.outcome or variant.state
    raise UsageError(f"{node} is {str(said).replace('_', ' ')}: there is nothing to ask an author about it now")


def question_on(session: Session, node: str, purpose: str = "") -> Ask:
    """The question that an author would get on a node, with its exact prompt.

    Raises:
        UsageError: no such node, or it does not fit the purpose.
    """
    asked = purpose or purpose_on(session.tree, node)
    if asked not in PURPOSES:
        raise UsageError(f"`{asked}` is no purpose{nearest(asked, PURPOSES)}")
    making = {"ideas": _ideas_question, "write": _write_question, "repair": _repair_question}[asked]
    question = making(session, "" if node in REFERENCE else node)
    return replace(question, prompt=build_prompt(question))


def _ideas_question(session: Session, node: str) -> Ask:
    if node and node not in session.tree.variants:
        raise UsageError(f"ideas start from a variant or from the reference, not from `{node}`")
    parent = session.tree.variants.get(node)
    if parent is not None and parent.candidate is None:
        raise UsageError(f"{node} has no source to have ideas on yet")
    return Ask(purpose="ideas", material=gather(session, parent), count=session.settings.ideas)


def _write_question(session: Session, node: str) -> Ask:
    variant = session.tree.variants.get(node)
    idea = session.tree.ideas.get((variant.idea or "") if variant else node)
    if idea is None:
        raise UsageError(f"a kernel is written from an idea, and `{node}` is none and has none")
    attempts = [v for v in session.tree.of_idea(idea.id) if v.kind is VariantKind.ATTEMPT]
    written = sum(v.candidate is not None for v in attempts)
    index = attempts.index(variant) if variant in attempts else written
    parent = session.tree.variants.get(idea.parent or "")
    return Ask(purpose="write", material=gather(session, parent, idea), idea=idea, index=index)


def _repair_question(session: Session, node: str) -> Ask:
    failed = session.tree.variants.get(node)
    if failed is None or failed.candidate is None:
        raise UsageError(f"`{node}` is no variant with a source that could be mended")
    idea = session.tree.ideas.get(failed.idea or "")
    parent = session.tree.variants.get((idea.parent if idea else None) or "")
    return Ask(
        purpose="repair",
        material=gather(session, parent, idea),
        idea=idea,
        failed=failed,
        failed_source=session.source_of(failed),
        failed_verdict=session.store.read_verdict(failed.id),
    )


# --------------------------------------------------------------------------- the answer


def read_pasted(session: Session, node: str, text: str, purpose: str = "", block: int | None = None) -> Answer:
    """What a pasted answer holds, read as an author's answer to the same question is.

    Raises:
        UsageError: nothing usable; it says what was wrong.
    """
    question = replace(question_on(session, node, purpose), count=MOST_IDEAS)
    found = read_answer(question, Reply(text=text), block=block)
    if not found.ideas and not found.source:
        raise UsageError(found.problem)
    return found


def take_answer(session: Session, decision: Decision) -> str:
    """Ideas for the reference or a variant, a kernel for an idea or a row that waits for one, a repair."""
    text, purpose = word_of(decision, "text"), word_of(decision, "purpose", False)
    block = decision.payload.get("block")
    if block is not None and (not isinstance(block, int) or isinstance(block, bool) or block < 0):
        raise UsageError(f"block is {block!r}; a number from 0 is expected")
    found = read_pasted(session, decision.target, text, purpose, block)
    if found.ideas:
        parent = None if decision.target in REFERENCE else decision.target
        round_ = max(1, session.status.round)
        made = add_ideas(session, found.ideas, parent=parent, round=round_, author="hand")
        return f"{len(made)} ideas: {', '.join(idea.id for idea in made)}"
    asked = purpose or purpose_on(session.tree, decision.target)
    row = _repair_row(session, decision) if asked == "repair" else _attempt_row(session, decision)
    written = with_candidate(session, row, to_candidate(session, found), found.name)
    session.put(written)
    return "; ".join((f"written as {written.id}", *found.notes))


def _attempt_row(session: Session, decision: Decision) -> Variant:
    """The row that was named, else one of the idea's that waits, else a new one."""
    tree = session.tree
    named = tree.variants.get(decision.target)
    idea = tree.ideas[(named.idea or "") if named else decision.target]
    if named is not None and named.state is VariantState.WRITING:
        raise UsageError(f"{named.id} is being written by {named.author}; paste the answer to {idea.id} instead")
    waiting = [v for v in tree.of_idea(idea.id) if v.state is VariantState.WAITING and v.kind is VariantKind.ATTEMPT]
    empty = [named] if named is not None and named.candidate is None else waiting
    row = empty[0] if empty else replace(hand_row(session, decision, idea.parent), idea=idea.id, round=idea.round)
    return replace(row, kind=VariantKind.ATTEMPT, author="hand", call=None)


def _repair_row(session: Session, decision: Decision) -> Variant:
    failed = variant_of(session, decision)
    row = hand_row(session, decision, failed.id)
    return replace(row, idea=failed.idea, round=failed.round, kind=VariantKind.REPAIR)
