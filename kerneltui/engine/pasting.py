"""What people bring in by hand: targets and texts of their decisions, and answers pasted in for an author without API."""

from __future__ import annotations

import time
from dataclasses import replace

from kerneltui.authors import Ask, Reply
from kerneltui.authors.parsing import read_answer
from kerneltui.engine.material import gather
from kerneltui.engine.questions import add_ideas, to_candidate, with_candidate
from kerneltui.engine.session import Session
from kerneltui.errors import UsageError, nearest
from kerneltui.records import Decision, Idea, Variant, VariantKind, VariantState


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


def take_answer(session: Session, decision: Decision) -> str:
    """An answer that a person pasted in: ideas for the reference or a variant, a kernel for an idea, a repair."""
    text = word_of(decision, "text")
    purpose = decision.payload.get("purpose") or ("write" if decision.target in session.tree.ideas else "")
    if purpose == "write":
        return _pasted_variant(session, decision, text)
    if decision.target and purpose != "ideas":
        return _pasted_repair(session, decision, text)
    parent = variant_of(session, decision) if decision.target else None
    question = Ask(purpose="ideas", material=gather(session, parent), count=session.settings.ideas)
    found = read_answer(question, Reply(text=text))
    if not found.ideas:
        raise UsageError(found.problem)
    round_ = max(1, session.status.round)
    made = add_ideas(session, found.ideas, parent=decision.target or None, round=round_, author="hand")
    return f"{len(made)} ideas: {', '.join(idea.id for idea in made)}"


def _pasted_variant(session: Session, decision: Decision, text: str) -> str:
    idea = idea_of(session, decision)
    parent = session.tree.variants.get(idea.parent or "")
    found = read_answer(Ask(purpose="write", material=gather(session, parent, idea), idea=idea), Reply(text=text))
    if not found.source:
        raise UsageError(found.problem)
    waiting = [v for v in session.tree.of_idea(idea.id) if v.state is VariantState.WAITING]
    row = waiting[0] if waiting else replace(hand_row(session, decision, idea.parent), idea=idea.id, round=idea.round)
    row = replace(row, kind=VariantKind.ATTEMPT, author="hand")
    made = with_candidate(session, row, to_candidate(session, found), found.name)
    session.put(made)
    return f"written as {made.id}" + (f"; {'; '.join(found.notes)}" if found.notes else "")


def _pasted_repair(session: Session, decision: Decision, text: str) -> str:
    failed = variant_of(session, decision)
    idea = session.tree.ideas.get(failed.idea or "")
    material = gather(session, session.tree.variants.get((idea.parent if idea else None) or ""), idea)
    source = session.source_of(failed)
    question = Ask(purpose="repair", material=material, idea=idea, failed=failed, failed_source=source)
    found = read_answer(question, Reply(text=text))
    if not found.source:
        raise UsageError(found.problem)
    row = replace(hand_row(session, decision, failed.id), idea=failed.idea, round=failed.round, kind=VariantKind.REPAIR)
    made = with_candidate(session, row, to_candidate(session, found), found.name)
    session.put(made)
    return f"written as {made.id}"
