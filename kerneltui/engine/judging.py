"""Variants on their way through the evaluator: verdicts, twins, machine faults, sweeps, certification, profiles."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from kerneltui.authors.sweep import declared, next_points
from kerneltui.engine.material import settings_tried
from kerneltui.engine.questions import with_candidate
from kerneltui.engine.session import Evaluator, Session
from kerneltui.errors import MachineError, UsageError
from kerneltui.records import (
    Badge,
    Call,
    CallState,
    Candidate,
    DecisionKind,
    Outcome,
    Profile,
    Variant,
    VariantKind,
    VariantState,
    Verdict,
)
from kerneltui.search.steps import ON_DEVICE, Evaluate, Sweep

log = logging.getLogger(__name__)

MACHINE_TRIES = 3  # a fault of the machine is tried so often before the session pauses
BACK_OFF_S = 1.0
TWIN_POLL_S = 0.1
CONFIRMED_MOST = 3  # variants that are measured again at the end of a search


async def judge(session: Session, step: Evaluate) -> None:
    """Get a verdict and write it down; an equal candidate that was judged here before shares its own."""
    variant = session.tree.variants[step.variant]
    if variant.candidate is None:
        raise AssertionError(f"{variant.id} is to be judged but was not written")
    while session.judging.get(variant.candidate, variant.id) != variant.id:
        await asyncio.sleep(TWIN_POLL_S)  # an equal candidate is being judged: its verdict will do
    session.judging[variant.candidate] = variant.id
    try:
        may_share = not variant.attempts and not variant.screened
        if not (may_share and await _share_twin(session, variant)):
            await _judge_itself(session, variant, step)
    finally:
        del session.judging[variant.candidate]


async def _judge_itself(session: Session, variant: Variant, step: Evaluate) -> None:
    candidate = session.store.read_candidate(variant.candidate or "")
    verdict = await _ask_evaluator(session, variant, candidate, step)
    if verdict is not None and is_disturbed(verdict):
        verdict = await _ask_evaluator(session, variant, candidate, step)  # the machine's fault: once more
    if verdict is not None:
        await record_verdict(session, variant.id, verdict, final=step.full)


def is_disturbed(verdict: Verdict) -> bool:
    """Whether a correct candidate has no ratio because of what else went on."""
    measured = verdict.measurement
    return verdict.outcome is Outcome.CORRECT and measured is not None and measured.badge is Badge.UNTRUSTED


async def _ask_evaluator(session: Session, variant: Variant, candidate: Candidate, step: Evaluate) -> Verdict | None:
    """The evaluator's verdict; None when the machine failed too often, and then the session is paused."""
    evaluator = _evaluator(session)
    for attempt in range(1, MACHINE_TRIES + 1):
        on_state, workers = _follow(session, variant.id)
        try:
            return await evaluator.judge(candidate, full=step.full, beam_us=step.beam_us, on_state=on_state)
        except MachineError as error:
            await session.commit(lambda: session.put(_put_back(session, variant.id)))
            words = f"{variant.id} was not judged: {error}"
            if attempt == MACHINE_TRIES:
                await session.announce("engine", "machine", words, variant.id)
                await session.pause(f"{error} Tried {attempt} times; put it right and resume.")
                return None
            await session.announce("engine", "machine", f"{words} Tried again.", variant.id)
        except BaseException:
            session.commit_last(lambda: session.put(_put_back(session, variant.id)))
            raise
        finally:
            for worker in workers:
                session.show(worker)
        await asyncio.sleep(BACK_OFF_S * 2 ** (attempt - 1))
    return None


def _evaluator(session: Session) -> Evaluator:
    if session.evaluator is None:
        raise AssertionError("nothing is judged before the evaluator has prepared")
    return session.evaluator


def _follow(session: Session, variant: str) -> tuple[Callable[[VariantState, str], None], set[str]]:
    """Hears how far a variant is; the workers that were at it."""
    workers: set[str] = set()

    def on_state(state: VariantState, worker: str) -> None:
        for left in workers - {worker}:
            session.show(left)
        if worker:
            workers.add(worker)
            session.show(worker, str(state), variant)
        now = session.tree.variants[variant]
        if state in ON_DEVICE and now.state is not state:
            session.commit_last(lambda: session.put(replace(now, state=state)))

    return on_state, workers


def _put_back(session: Session, variant: str) -> Variant:
    """As it was before it was taken up; cancelled when a person pruned it."""
    now = session.tree.variants[variant]
    if now.state not in ON_DEVICE and now.state is not VariantState.WRITTEN:
        return now
    if ("judge", variant) in session.dropped:
        return replace(now, state=VariantState.CANCELLED)
    return replace(now, state=VariantState.WRITTEN if now.outcome is None else VariantState.DONE)


# --------------------------------------------------------------------------- verdicts


async def record_verdict(session: Session, variant: str, verdict: Verdict, *, final: bool = True) -> None:
    """The verdict, what it changes and what there is to say of it, in one transaction."""
    before = session.tree.best()

    def write() -> None:
        judged = summarise(session.tree.variants[variant], verdict, final=final)
        session.store.add_verdict(judged, verdict)
        session.say("engine", "verdict", describe(judged), judged.id)

    await session.commit(write)
    await note_best(session, before)


def summarise(variant: Variant, verdict: Verdict, *, final: bool = True) -> Variant:
    """The variant's row with what the verdict says."""
    measured = verdict.measurement
    registers = [kernel.registers for kernel in verdict.resources if kernel.registers is not None]
    shared = [kernel.shared_bytes for kernel in verdict.resources if kernel.shared_bytes is not None]
    return replace(
        variant,
        state=VariantState.DONE,
        outcome=verdict.outcome,
        stage=verdict.stage,
        message=verdict.message,
        median_us=measured.median_us if measured else None,
        speedup=measured.speedup.get("eager") if measured else None,
        badge=measured.badge if measured else None,
        screened=bool(measured and measured.screened and not final),
        registers=max(registers, default=None),
        shared_bytes=max(shared, default=None),
        device=verdict.device.id if verdict.device else None,
        world=verdict.world,
        finished=time.time(),
    )


def describe(variant: Variant) -> str:
    """One line on a judged variant."""
    name = f"{variant.id} {variant.name}".rstrip()
    if variant.outcome is not Outcome.CORRECT or variant.median_us is None:
        outcome = str(variant.outcome).replace("_", " ")
        return f"{name}: {outcome}{f': {variant.message}' if variant.message else ''}"
    ratio = f", {variant.speedup.ratio:.3f} times eager" if variant.speedup else ""
    if variant.badge is Badge.UNTRUSTED:
        ratio = ", too disturbed for a ratio: its Time tab, or `kerneltui show`, says by what"
    tie = " (tie)" if variant.speedup and variant.speedup.tie else ""
    screened = " (screened)" if variant.screened else ""
    return f"{name}: correct, {variant.median_us:,.2f} µs{ratio}{tie}{screened}"


async def note_best(session: Session, before: Variant | None) -> None:
    """Say so when another variant is the best now."""
    best = session.tree.best()
    if best is None or (before is not None and best.id == before.id and session.status.best == best.id):
        return
    await session.set_status(best=best.id)
    if before is None or best.id != before.id:
        await session.announce("engine", "best", f"best: {describe(best)}", best.id)


async def _share_twin(session: Session, variant: Variant) -> bool:
    """Take over the verdict on an equal candidate. Costs nothing."""
    verdict = known_verdict(session, variant.candidate or "")
    if verdict is None:
        return False
    twin = judged_twin(session, variant)
    before = session.tree.best()

    def write() -> None:
        summary = summarise(session.tree.variants[variant.id], verdict, final=False)
        if twin is not None:
            summary = replace(summary, same_as=twin.id, screened=twin.screened)
        session.put(summary)
        words = f"the same as {twin.id}, its verdict is shared" if twin else "judged here before"
        session.say("engine", "verdict", f"{describe(summary)} ({words})", summary.id)

    await session.commit(write)
    await note_best(session, before)
    return True


def known_verdict(session: Session, candidate: str) -> Verdict | None:
    found = (session.store.find_verdict(candidate, world) for world in session.status.worlds)
    return next((verdict for verdict in found if verdict is not None), None)


def judged_twin(session: Session, variant: Variant) -> Variant | None:
    for other in session.tree.variants.values():
        same = other.candidate == variant.candidate and other.id != variant.id
        if same and other.same_as is None and other.outcome is not None and session.tree.is_here(other):
            return other
    return None


# --------------------------------------------------------------------------- sweeps and certificates


async def sweep(session: Session, step: Sweep) -> None:
    """Children of a variant with other tunables; when none is left, that is put on record."""
    await session.commit(lambda: put_sweep(session, step))


def put_sweep(session: Session, step: Sweep) -> None:
    """What a sweep tries next, as rows. To be called inside of `commit`."""
    root = session.tree.variants[step.variant]
    candidate = session.store.read_candidate(root.candidate or "")
    tunables = declared(candidate.source)
    tried = settings_tried(session, candidate.source)
    settings = next_points(tunables, tried, step.count, session.settings.seed)
    for setting in settings:
        defines = tuple(sorted((dict(candidate.defines) | dict(setting)).items()))
        row = Variant(
            id=session.store.next_variant_id(),
            idea=root.idea,
            round=session.status.round,
            parent=root.id,
            kind=VariantKind.SWEEP,
            author="sweep",
            human=root.human,
            created=time.time(),
        )
        name = " ".join(f"{key}={value}" for key, value in setting)
        session.put(with_candidate(session, row, replace(candidate, defines=defines), name))
    if not settings:
        reason = tunables.problems[0] if tunables.problems else f"all {len(tried)} settings within reach are tried"
        _close_sweep(session, root, reason)


def _close_sweep(session: Session, root: Variant, reason: str) -> None:
    call = Call(id=0, purpose="sweep", node=root.id, author="sweep", round=session.status.round, created=time.time())
    made = session.store.reserve_call(call)
    done = replace(made, state=CallState.DONE, error=reason, cost_usd=0.0, tokens_in=0, tokens_out=0)
    session.store.finish_call(done)


async def certify(session: Session, variant: str) -> None:
    """Measure again in a fresh process with every check."""
    candidate = session.store.read_candidate(session.tree.variants[variant].candidate or "")
    session.show("certify", "certifying", variant)
    try:
        verdict = await _evaluator(session).certify(candidate)
        if is_disturbed(verdict):
            verdict = await _evaluator(session).certify(candidate)  # the machine's fault: once more
    except MachineError as error:
        await session.announce("engine", "machine", f"{variant} was not certified: {error}", variant)
        return
    except asyncio.CancelledError:
        session.commit_last(lambda: say_cut_short(session, "certify", variant))
        raise
    finally:
        session.show("certify")
    if is_disturbed(verdict):
        why = "; ".join(verdict.measurement.disturbances) if verdict.measurement else ""
        words = f"{variant} was not certified: the machine was too disturbed{f' ({why})' if why else ''}"
        await session.announce(
            "engine", "machine", f"{words}; what was measured before stands, ask again later", variant
        )
        return
    await record_verdict(session, variant, verdict)


async def ask_to_confirm(session: Session) -> bool:
    """Before a search ends: have the best measured again in a fresh process, and whatever is best then; False: enough.

    The best of many noisy figures is flattered by its noise: only what comes out the second time is worth a word.
    """
    best, limit_s = session.tree.best(), session.settings.budget.wall_s
    if best is None or best.candidate is None or best.badge is not Badge.MEASURED:
        return False
    spent = limit_s is not None and session.status.active_s >= limit_s
    if spent or best.id in session.confirmed or len(session.confirmed) >= CONFIRMED_MOST:
        return False
    session.confirmed.add(best.id)

    def write() -> None:
        session.store.put_decision(DecisionKind.CERTIFY, best.id, who="engine")

    await session.commit(write)
    return True


# --------------------------------------------------------------------------- profiles


async def profile(session: Session, variant: str) -> None:
    """Count what a variant's kernel does, and keep it."""
    candidate = session.store.read_candidate(session.tree.variants[variant].candidate or "")
    session.show("profile", "profiling", variant)
    await session.commit(lambda: _say_of(session, variant, "profile", f"profiling {variant}"))
    try:
        found = await _evaluator(session).profile(candidate)
    except (MachineError, UsageError) as error:
        words = f"{variant} was not profiled: {error}"
        await session.commit(lambda: _say_of(session, variant, "machine", words))
        return
    except asyncio.CancelledError:
        session.commit_last(lambda: say_cut_short(session, "profile", variant))
        raise
    finally:
        session.show("profile")
    await session.commit(lambda: keep_profile(session, variant, found))


def keep_profile(session: Session, variant: str, found: Profile) -> None:
    """A profile belongs to the candidate: whatever shares its source shares it. To be called inside of `commit`."""
    session.store.put_profile(session.tree.variants[variant].candidate or "", found)
    _say_of(session, variant, "profile", f"{variant} was profiled with {found.tool}")


def say_cut_short(session: Session, what: str, variant: str) -> None:
    """That `certify` or `profile` came to nothing. To be called inside of `commit`."""
    done = {"certify": "certified", "profile": "profiled"}[what]
    if variant in session.tree.variants:
        _say_of(session, variant, "machine", f"{variant} was not {done}: cut short; ask for it again")


def _say_of(session: Session, variant: str, kind: str, text: str) -> None:
    """An event on a variant whose row is as it was: its number moves, so that viewers look at it again."""
    session.put(session.tree.variants[variant])
    session.say("engine", kind, text, variant)
