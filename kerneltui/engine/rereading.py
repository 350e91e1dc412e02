"""Stored answers read once more, and records as they were when they were made."""

from __future__ import annotations

from dataclasses import fields

from kerneltui.authors import Answer, Ask, IdeaDraft, Material, Reply
from kerneltui.authors.parsing import read_answer
from kerneltui.engine.session import Session
from kerneltui.errors import UsageError
from kerneltui.records import Call, Idea, Variant


def reread(session: Session, recorded: Session, call: Call, count: int) -> Answer:
    """What the stored answer to a question holds, read with `session` as it stands; `count` ideas were asked for."""
    full = recorded.store.read_call(call.id)
    reply = Reply(text=full.answer, reasoning=full.reasoning, finish_reason=full.finish_reason)
    return read_answer(_question(session, call, count), reply)


def _question(session: Session, call: Call, count: int) -> Ask:
    """As much of it as reading an answer takes."""
    variants = session.tree.variants
    for_ideas = call.purpose == "ideas"
    row = None if for_ideas else variants.get(call.node)
    idea = session.tree.ideas.get((row.idea if row else None) or "")
    failed = variants.get((row.parent if row else None) or "") if call.purpose == "repair" else None
    parent = variants.get(call.node if for_ideas else (idea.parent if idea else None) or "")
    prepared = session.prepared
    if prepared is None or prepared.contract is None:
        raise UsageError("the contract is not on record")
    material = Material(
        problem=session.problem,
        contract=prepared.contract,
        device=prepared.device,
        language=session.language,
        round=call.round,
        parent=parent,
        parent_source=session.source_of(parent) if parent else "",
    )
    source = session.source_of(failed) if failed else ""
    return Ask(purpose=call.purpose, material=material, count=count, idea=idea, failed=failed, failed_source=source)


def bare_row(then: Variant) -> Variant:
    """A row as it was when it was made."""
    return Variant(
        id=then.id,
        idea=then.idea,
        round=then.round,
        parent=then.parent,
        kind=then.kind,
        author=then.author,
        name=then.name,
        created=then.created,
    )


def draft_of(idea: Idea) -> IdeaDraft:
    """An idea as its author stated it."""
    return IdeaDraft(**{field.name: getattr(idea, field.name) for field in fields(IdeaDraft)})
