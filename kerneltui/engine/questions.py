"""Questions to authors: prepare, reserve the worst case, ask, write down what came.

A call is in the store before it is sent, and its answer together with what was made of it before anything else
happens: no finished answer is bought twice, and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from kerneltui.authors import Answer, Ask, Author, IdeaDraft, Reply
from kerneltui.authors.sweep import declared
from kerneltui.engine.material import gather
from kerneltui.engine.session import Session, Trouble
from kerneltui.errors import AuthorError, AuthorUnavailable
from kerneltui.records import (
    Call,
    CallState,
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
from kerneltui.search.spending import refuse_call
from kerneltui.search.steps import Propose, Repair, Write

log = logging.getLogger(__name__)

FAILURES = 3  # in a row, each after its own retries, until an author is out
BACK_OFF_S = 5.0  # doubled with each failure, where the provider says nothing
INTERRUPTED = "interrupted"  # finish reason of a call that we cut off

Record = Callable[[Call, Answer], None]  # what is written down together with the answer


# --------------------------------------------------------------------------- one question


async def ask(
    session: Session, author: Author, question: Ask, node: str, record: Record, *, round: int = 0
) -> Answer | None:
    """Put one question; None when there is no answer, and then it is on record why."""
    ready = author.prepare(question)
    refusal = refuse_call(session.tree, session.settings, ready.worst_usd, ready.worst_tokens)
    if refusal:
        await _cannot_pay(session, author, refusal)
        return None
    call = await _reserve(session, author, ready, node, round)
    begun = time.monotonic()
    worker = f"author {author.name} {call.id}"
    session.show(worker, _doing(ready), node)
    try:
        answer = await author.answer(ready, _counter(session, worker, ready, node))
    except AuthorError as error:
        failed = _failed(call, error)
        await session.commit(lambda: session.store.finish_call(failed))
        await _note_trouble(session, author, error, begun)
        return None
    except BaseException as error:
        reason = "cut off by kerneltui: possibly billed" if isinstance(error, asyncio.CancelledError) else repr(error)
        failed = replace(call, state=CallState.FAILED, error=reason, finish_reason=INTERRUPTED)
        session.commit_last(lambda: session.store.finish_call(failed))
        raise
    finally:
        session.show(worker)
    session.trouble.pop(author.name, None)

    def write() -> None:
        session.store.finish_call(_finished(call, answer))
        record(call, answer)

    await session.commit(write)
    return answer


async def _reserve(session: Session, author: Author, ready: Ask, node: str, round: int) -> Call:
    call = Call(
        id=0,
        purpose=ready.purpose,
        node=node,
        author=author.settings.label,
        round=round,
        model=author.settings.model,
        prompt=ready.prompt,
        reserved_usd=ready.worst_usd,
        reserved_tokens=ready.worst_tokens,
        created=time.time(),
    )
    made: list[Call] = []
    await session.commit(lambda: made.append(session.store.reserve_call(call)))
    return made[-1]


def _finished(call: Call, answer: Answer) -> Call:
    return replace(_with_reply(call, answer.reply), state=CallState.DONE, error=answer.problem)


def _failed(call: Call, error: AuthorError) -> Call:
    nothing_sent = Reply(cost_usd=0.0, tokens_in=0, tokens_out=0)
    kept = _with_reply(call, error.reply if isinstance(error.reply, Reply) else nothing_sent)
    return replace(kept, state=CallState.FAILED, error=str(error))


def _with_reply(call: Call, reply: Reply) -> Call:
    return replace(
        call,
        answer=reply.text,
        reasoning=reply.reasoning,
        model=reply.model or call.model,
        finish_reason=reply.finish_reason,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        tokens_reasoning=reply.tokens_reasoning,
        tokens_cached=reply.tokens_cached,
        cost_usd=reply.cost_usd,
        latency_s=reply.latency_s,
        retries=reply.retries,
    )


def _doing(ready: Ask) -> str:
    return {"ideas": "ideas", "write": "writing", "repair": "repairing"}.get(ready.purpose, ready.purpose)


def _counter(session: Session, worker: str, ready: Ask, node: str) -> Callable[[str], None]:
    """Hears text as it streams and keeps the worker's line true."""
    heard = 0

    def on_text(text: str) -> None:
        nonlocal heard
        heard += len(text)
        session.show(worker, f"{_doing(ready)}, {heard:,} characters", node)

    return on_text


# --------------------------------------------------------------------------- trouble with an author


async def _cannot_pay(session: Session, author: Author, refusal: str) -> None:
    if author.settings.label not in session.broke:
        session.broke[author.settings.label] = refusal
        await session.announce(author.name, "author", f"{author.name} is not asked any more: {refusal}")


async def _note_trouble(session: Session, author: Author, error: AuthorError, begun: float) -> None:
    """Passing: wait, and give up after some failures in a row. Permanent: out, said once."""
    label = author.settings.label
    if not isinstance(error, AuthorUnavailable):
        await put_out(session, label, str(error))
        return
    trouble = session.trouble.setdefault(label, Trouble())
    if begun < trouble.since:
        return  # asked together with one that failed before: the same trouble
    trouble.failures += 1
    if trouble.failures >= FAILURES:
        await put_out(session, label, f"{trouble.failures} failures in a row, the last: {error}")
        return
    wait_s = error.retry_after_s if error.retry_after_s is not None else BACK_OFF_S * 2 ** (trouble.failures - 1)
    trouble.since = time.monotonic()
    trouble.until = trouble.since + wait_s
    await session.announce(label, "author", f"{error} Asked again in {wait_s:.0f} s.")


async def put_out(session: Session, label: str, reason: str) -> None:
    """Ask an author nothing more; resuming lets it back in."""
    if label in session.out:
        return
    session.out[label] = reason
    session.trouble.pop(label, None)
    await session.announce(label, "author", f"{label} is out: {reason}")


def may_be_asked(session: Session, label: str) -> bool:
    """Whether an author is there, in, and not resting after a failure."""
    resting = session.trouble.get(label, Trouble()).until > time.monotonic()
    return label in session.authors and label not in session.out and label not in session.broke and not resting


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
            session.store.finish_call(replace(_finished(call, answer), node=row.id))

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
