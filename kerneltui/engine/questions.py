"""What authors are asked for, and what becomes of their answers: ideas, attempts, repairs."""

from __future__ import annotations

import time
from dataclasses import replace

from kerneltui.authors import Answer, Ask, Author, IdeaDraft
from kerneltui.authors.sweep import declared
from kerneltui.engine.asking import ask, finished
from kerneltui.engine.material import gather
from kerneltui.engine.session import Session
from kerneltui.records import (
    Call,
    Candidate,
    Idea,
    IdeaStatus,
    Variant,
    VariantKind,
    VariantState,
    sha256,
)
from kerneltui.search.duplicates import same_idea
from kerneltui.search.plan import SCRIPTED
from kerneltui.search.steps import Propose, Repair, Write

# --------------------------------------------------------------------------- ideas


async def propose(session: Session, step: Propose) -> None:
    """Ask for ideas on a parent."""
    parent = session.tree.variants.get(step.parent or "")
    question = Ask(purpose="ideas", material=gather(session, parent), count=step.count)

    def record(call: Call, answer: Answer) -> None:
        add_ideas(session, answer.ideas, parent=step.parent, round=step.round, author=step.author, call=call.id)
        if answer.problem:
            session.say(step.author, "author", f"no ideas on {step.parent or 'the reference'}: {answer.problem}")

    await ask(session, session.authors[step.author], question, step.parent or "", record, round=step.round)


def add_ideas(
    session: Session,
    drafts: tuple[IdeaDraft, ...],
    *,
    parent: str | None,
    round: int,
    author: str,
    call: int | None = None,
    human: bool = False,
) -> list[Idea]:
    """Write ideas down; what was said before is merged, visibly. To be called inside of `commit`."""
    status = IdeaStatus.PROPOSED if session.settings.review and not human else IdeaStatus.APPROVED
    made: list[Idea] = []
    for draft in drafts:
        idea = Idea(
            id=session.store.next_idea_id(),
            round=round,
            parent=parent,
            author=author,
            title=draft.title,
            text=draft.text,
            bottleneck=draft.bottleneck,
            technique=draft.technique,
            expected=draft.expected,
            risk=draft.risk,
            key=draft.key,
            status=status,
            call=call,
            human=human,
            created=time.time(),
        )
        before = None if human else same_idea(session.tree, idea, made)
        if before is not None:
            idea = replace(idea, status=IdeaStatus.MERGED, merged_into=before.id)
            session.say(
                author, "merge", f"{idea.id} says what {before.id} says; restore it to try it all the same", idea.id
            )
        session.store.put_ideas([idea])
        made.append(idea)
    return made


# --------------------------------------------------------------------------- variants


async def write(session: Session, step: Write) -> None:
    """Ask for variants of an idea: all at once, or one after the other where the author reads them off a card."""
    idea, author = session.tree.ideas[step.idea], session.authors[step.author]
    if author.settings.kind in SCRIPTED:
        for _ in range(step.count):
            if not await _read_off(session, idea, author):
                return
        return
    rows = await _take_rows(session, idea, author, step.count)
    for index, row in rows:
        session.begin(("write", row.id), _fill(session, row, author, _write_question(session, idea, index)))


async def _read_off(session: Session, idea: Idea, author: Author) -> bool:
    """The next kernel of a card; without one, the idea is on record as used up and no row is made."""
    attempts = _attempts(session, idea)
    waiting = next((v for v in attempts if v.state is VariantState.WAITING and not v.pruned), None)
    index = attempts.index(waiting) if waiting else len(attempts)

    def record(call: Call, answer: Answer) -> None:
        if answer.source or waiting:
            row = waiting or _new_row(session, idea, author)
            session.put(filled(session, row, call, answer))
            session.store.finish_call(replace(finished(call, answer), node=row.id))

    answer = await ask(session, author, _write_question(session, idea, index), idea.id, record)
    return answer is not None and bool(answer.source)


async def _take_rows(session: Session, idea: Idea, author: Author, count: int) -> list[tuple[int, Variant]]:
    """Rows to write to: those that wait, then new ones."""
    attempts = _attempts(session, idea)
    rows = [v for v in attempts if v.state is VariantState.WAITING and not v.pruned][:count]
    taken: list[Variant] = []

    def write() -> None:
        new = [_new_row(session, idea, author) for _ in range(count - len(rows))]
        taken[:] = [replace(v, state=VariantState.WRITING, author=author.settings.label) for v in (*rows, *new)]
        session.put(*taken)

    await session.commit(write)
    order = [variant.id for variant in _attempts(session, idea)]
    return [(order.index(variant.id), variant) for variant in taken]


def _attempts(session: Session, idea: Idea) -> list[Variant]:
    return [v for v in session.tree.of_idea(idea.id) if v.kind is VariantKind.ATTEMPT]


def _new_row(session: Session, idea: Idea, author: Author) -> Variant:
    return Variant(
        id=session.store.next_variant_id(),
        idea=idea.id,
        round=idea.round,
        parent=idea.parent,
        author=author.settings.label,
        created=time.time(),
    )


def _write_question(session: Session, idea: Idea, index: int) -> Ask:
    parent = session.tree.variants.get(idea.parent or "")
    return Ask(purpose="write", material=gather(session, parent, idea), idea=idea, index=index)


async def repair(session: Session, step: Repair) -> None:
    """Ask for a failed variant to be mended; the answer is its child."""
    failed, author = session.tree.variants[step.variant], session.authors[step.author]
    idea = session.tree.ideas.get(failed.idea or "")
    made: list[Variant] = []

    def take() -> None:
        waiting = [v for v in session.tree.children(failed.id) if v.kind is VariantKind.REPAIR]
        row = waiting[0] if waiting else _new_repair(session, failed)
        fresh = replace(row, author=author.settings.label, state=VariantState.WRITING)
        made[:] = [fresh]
        session.put(fresh)

    await session.commit(take)
    parent = session.tree.variants.get((idea.parent if idea else None) or "")
    question = Ask(
        purpose="repair",
        material=gather(session, parent, idea),
        idea=idea,
        failed=failed,
        failed_source=session.source_of(failed),
        failed_verdict=session.store.read_verdict(failed.id),
    )
    await _fill(session, made[0], author, question)


def _new_repair(session: Session, failed: Variant) -> Variant:
    return Variant(
        id=session.store.next_variant_id(),
        idea=failed.idea,
        round=failed.round,
        parent=failed.id,
        kind=VariantKind.REPAIR,
        created=time.time(),
    )


async def _fill(session: Session, row: Variant, author: Author, question: Ask) -> None:
    """Ask for the source of a row; without an answer it waits again."""

    def record(call: Call, answer: Answer) -> None:
        session.put(filled(session, session.tree.variants[row.id], call, answer))

    try:
        answer = await ask(session, author, question, row.id, record)
    except BaseException:
        session.commit_last(lambda: session.put(let_go(session, row)))
        raise
    if answer is None:
        await session.commit(lambda: session.put(let_go(session, row)))


def let_go(session: Session, row: Variant) -> Variant:
    now = session.tree.variants[row.id]
    if now.state is not VariantState.WRITING:
        return now
    dropped = any(key[-1] == row.id for key in session.dropped)
    return replace(now, state=VariantState.CANCELLED if dropped else VariantState.WAITING)


def filled(session: Session, row: Variant, call: Call, answer: Answer) -> Variant:
    """The row with its candidate, or with the reason why it has none."""
    if not answer.source:
        problem = answer.problem or "the answer holds no source"
        return replace(row, call=call.id, state=VariantState.DONE, author_error=problem, finished=time.time())
    return with_candidate(session, replace(row, call=call.id), to_candidate(session, answer), answer.name)


def to_candidate(session: Session, answer: Answer) -> Candidate:
    """What an answer holds, in the language of the session unless it says another."""
    language = answer.language or session.language
    return Candidate(source=answer.source, language=language, defines=tuple(sorted(answer.defines)))


def with_candidate(session: Session, row: Variant, candidate: Candidate, name: str = "") -> Variant:
    """The row, written. To be called inside of `commit`."""
    return replace(
        row,
        candidate=session.store.add_candidate(candidate),
        language=candidate.language,
        source=sha256(candidate.source),
        defines=candidate.defines,
        name=name or row.name,
        state=VariantState.WRITTEN,
        author_error="",
        tunables=bool(declared(candidate.source)),
    )
