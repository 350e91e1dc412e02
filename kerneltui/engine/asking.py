"""One question to an author: prepare, reserve the worst case, ask, write down what came.

A call is in the store before it is sent, and its answer together with what was made of it before anything else
happens: no finished answer is bought twice, and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from kerneltui.authors import Answer, Ask, Author, Reply
from kerneltui.engine.session import Session, Trouble
from kerneltui.errors import AuthorError, AuthorUnavailable
from kerneltui.records import Call, CallState
from kerneltui.search.spending import refuse_call

log = logging.getLogger(__name__)

FAILURES = 3  # in a row, each after its own retries, until an author is out
BACK_OFF_S = 5.0  # doubled with each failure, where the provider says nothing
INTERRUPTED = "interrupted"  # finish reason of a call that we cut off

Record = Callable[[Call, Answer], None]  # what is written down together with the answer


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
        session.store.finish_call(finished(call, answer))
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


def finished(call: Call, answer: Answer) -> Call:
    """The call with its answer."""
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
