"""`run_session`: the engine of one session, from start to end.

Each turn: carry out decisions, drop what was pruned, begin what `next_steps` asks for, say how things are, wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from kerneltui.authors import Author
from kerneltui.engine.asking import may_be_asked
from kerneltui.engine.decisions import DRAINING, carry_out_all
from kerneltui.engine.forecasting import forecast_in
from kerneltui.engine.judging import ask_to_confirm, judge, say_cut_short, sweep
from kerneltui.engine.machine import facts_of, missing_words, open_evaluator
from kerneltui.engine.questions import propose, repair, write
from kerneltui.engine.recovery import add_starters, hold_lock, log_to, mend
from kerneltui.engine.roster import Roster
from kerneltui.engine.session import NO_AUTHOR, Evaluator, Key, Session
from kerneltui.errors import KernelTuiError, UsageError
from kerneltui.records import EngineStatus, Event, IdeaStatus, SessionState
from kerneltui.search.bandit import moved_words
from kerneltui.search.forecast import words
from kerneltui.search.plan import next_steps
from kerneltui.search.steps import Evaluate, Finish, Open, Propose, Repair, Step, Sweep, Write
from kerneltui.store import Store

log = logging.getLogger(__name__)

TURN_S = 0.1  # poll of decisions: a person waits no longer than that
BEAT_S = 1.0  # status while nothing changes
RESTING_BEAT_S = 5.0  # while paused
REPLAN_S = 5.0  # next_steps is asked at least so often: back-offs end by the clock alone
GRACE_S = 5.0  # what was pruned runs on so long
GOODBYE_S = 1.8  # all that is left ends within this time
ENDED = (SessionState.FINISHED, SessionState.STOPPED)
ASKED_FOR = ("certify", "profile")  # work that a person asked for and no plan knows of


async def run_session(
    folder: Path,
    *,
    on_event: Callable[[Event], None] | None = None,
    authors: Mapping[str, Author] | None = None,
    evaluator: Evaluator | None = None,
    stay: bool = True,
) -> EngineStatus:
    """Run the engine of a session until the search ends, is stopped, or a signal comes.

    `authors` by label and `evaluator` are opened from the session's settings where they are not given. Without
    `stay` it returns as soon as it has to pause by itself; with it, it waits for a person.

    Raises:
        SessionError: no session there, or another engine runs it.
        ProblemError: the reference cannot be searched.
        MachineError: the evaluator cannot be started.
    """
    with hold_lock(folder), Store.open(folder, write=True) as store, log_to(folder / "engine.log"):
        tree = store.read_tree()
        session = Session(
            store=store,
            tree=tree,
            settings=tree.settings,
            problem=store.read_problem(),
            hear=on_event,
            evaluator=evaluator,
            status=tree.status,
        )
        return await _Engine(session, dict(authors or {}), stay).run()


class _Engine:
    def __init__(self, session: Session, authors: dict[str, Author], stay: bool) -> None:
        self.session = session
        self.roster = Roster(session, authors)
        self.stay = stay
        self.signal = ""
        self.preparing: asyncio.Task[None] | None = None
        self.doomed: dict[Key, float] = {}
        self.seen_version = -1
        self.stale = True  # something changed since the last plan
        self.planned = 0.0
        self.plan_s = 0.0  # how long the last one took
        self.ticked = time.monotonic()
        self.beaten = 0.0
        self.said: EngineStatus | None = None

    # ----------------------------------------------------------------- start and end

    async def run(self) -> EngineStatus:
        try:
            with self.signals():
                await self.start()
                await self.turn_until_ended()
        finally:
            await self.end()
        return self.session.status

    async def start(self) -> None:
        session = self.session
        by_person = session.status.state is SessionState.PAUSED and session.status.reason.startswith("paused by ")
        now = time.time()
        # What an engine that was killed had in hand: the decision is done, so nobody else would say it.
        cut = [worker for worker in session.status.workers if worker.name in ASKED_FOR]
        session.status = replace(
            session.status,
            state=SessionState.PAUSED if by_person else SessionState.RUNNING,
            reason=session.status.reason if by_person else "preparing the reference",
            pid=os.getpid(),
            pid_started=psutil.Process().create_time(),
            started=session.status.started or now,
            heartbeat=now,
            workers=(),
        )

        def write() -> None:
            mended = mend(session)
            session.store.put_status(session.status)
            session.say("engine", "start", "engine started" + (f": {mended}" if mended else ""))
            for worker in cut:
                say_cut_short(session, worker.name, worker.node)

        await session.commit(write)
        await self.roster.call()
        self.preparing = asyncio.create_task(self.prepare())

    async def prepare(self) -> None:
        session = self.session
        if session.evaluator is None:
            session.evaluator = open_evaluator(session)
        prepared = await session.evaluator.prepare()
        session.prepared = prepared
        notices = (*missing_words(prepared.device), *prepared.notes)
        reason = "" if session.status.reason == "preparing the reference" else session.status.reason
        session.status = replace(
            session.status,
            device=prepared.device,
            notices=notices,
            worlds=session.evaluator.worlds(),
            best=None,
            reason=reason,
        )

        def write() -> None:
            if prepared.contract is not None:
                session.store.put_contract(prepared.contract)
            session.store.put_prepared(facts_of(prepared))
            add_starters(session)
            session.store.put_status(session.status)
            baselines = ", ".join(f"{name} {time_us:,.1f} µs" for name, time_us in prepared.baselines_us.items())
            session.say("engine", "machine", f"{prepared.device.name} is ready; reference: {baselines or 'not timed'}")
            for notice in notices:
                session.say("engine", "machine", notice)

        await session.commit(write)
        best = session.tree.best()
        await session.set_status(best=best.id if best else None)

    async def end(self) -> None:
        """Cancel what runs, put it back, let go of everything, within two seconds."""
        session = self.session
        session.ending = True
        tasks = [*session.work.values(), *([self.preparing] if self.preparing else [])]
        for task in tasks:
            task.cancel()
        closing = [asyncio.ensure_future(author.aclose()) for author in self.roster.everyone]
        if session.evaluator is not None:
            closing.append(asyncio.ensure_future(session.evaluator.aclose()))
        left = {*tasks, *closing}
        if left:
            done, late = await asyncio.wait(left, timeout=GOODBYE_S)
            for task in done:
                if not task.cancelled() and task.exception() is not None and task is not self.preparing:
                    log.error("on the way out: %r", task.exception())
            for task in late:
                log.error("did not end in time: %s", task)
        self.tick()
        session.status = replace(session.status, pid=None, pid_started=None, workers=(), heartbeat=time.time())

        def write() -> None:
            mend(session)
            session.store.put_status(session.status)
            if self.signal:
                session.say("engine", "stop", f"engine ended by {self.signal}; run or attach goes on from here")

        session.commit_last(write)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the engine; the session stays as it was."""
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.on_signal, number)
                caught.append(number)
            except (ValueError, RuntimeError):
                pass  # not in the main thread: whoever started us handles signals
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def on_signal(self, number: signal.Signals) -> None:
        self.signal = signal.Signals(number).name
        self.session.changed.set()

    # ----------------------------------------------------------------- turns

    async def turn_until_ended(self) -> None:
        session = self.session
        while not self.signal and session.status.state not in ENDED:
            self.tick()
            self.look_at_preparation()
            await self.decide()
            await self.drop_pruned()
            # Not before the preparation was looked at: what people asked for meanwhile comes first.
            if session.is_running() and self.preparing is None and self.is_time_to_plan():
                await self.plan()
            if session.status.state is SessionState.PAUSED and not session.work:
                if session.status.reason.startswith(DRAINING):
                    await session.set_status(state=SessionState.STOPPED, reason="drained: what ran was finished")
                if not self.stay:
                    return
            await self.beat()
            await self.wait()

    def tick(self) -> None:
        """Count the time spent running, over all runs."""
        now = time.monotonic()
        if self.session.status.state is SessionState.RUNNING:
            active_s = self.session.status.active_s + now - self.ticked
            self.session.status = replace(self.session.status, active_s=active_s)
            self.session.tree.status = self.session.status
        self.ticked = now

    async def decide(self) -> None:
        version = self.session.store.data_version()
        if version != self.seen_version and not self.session.disk_full:
            self.seen_version = version
            await carry_out_all(self.session)
            await self.reread_settings()
            self.session.changed.set()

    async def reread_settings(self) -> None:
        session = self.session
        try:
            settings = session.store.settings()
        except UsageError as error:
            if str(error) not in session.status.notices:
                await session.set_status(notices=(*session.status.notices, str(error)))
            return
        session.settings = session.tree.settings = settings

    def look_at_preparation(self) -> None:
        if self.preparing is not None and self.preparing.done():
            preparing, self.preparing = self.preparing, None
            try:
                preparing.result()
                self.seen_version = -1  # decisions that waited for the problem can be carried out now
            except KernelTuiError as error:
                words = str(error)
                state = replace(self.session.status, state=SessionState.PAUSED, reason=words)
                self.session.status = state
                self.session.commit_last(lambda: self.session.say("engine", "pause", words))
                raise

    async def drop_pruned(self) -> None:
        """Cancel work on pruned branches, some seconds after the prune so that restoring it loses nothing."""
        session, now = self.session, time.monotonic()
        for key in list(session.work):
            variant = session.tree.variants.get(key[-2] if key[0] == "ideas" else key[-1])
            idea = session.tree.ideas.get(key[-1])
            gone = idea is not None and idea.status in (IdeaStatus.PRUNED, IdeaStatus.REJECTED)
            if not gone and not (variant is not None and session.tree.is_pruned(variant)):
                self.doomed.pop(key, None)
            elif now >= self.doomed.setdefault(key, now + GRACE_S) and key not in session.dropped:
                session.dropped.add(key)
                session.work[key].cancel()
        for key in [key for key in self.doomed if key not in session.work]:
            del self.doomed[key]

    def is_time_to_plan(self) -> bool:
        limit = self.session.settings.budget.wall_s
        over = limit is not None and self.session.status.active_s >= limit
        if time.monotonic() - self.planned < 4 * self.plan_s:
            return False  # a tree of many thousands takes a while: leave most of the time to the work itself
        return self.stale or self.session.changed.is_set() or over or time.monotonic() - self.planned >= REPLAN_S

    async def beat(self) -> None:
        """Say how things are: at once when that changed, else now and then."""
        session, now = self.session, time.monotonic()
        status = replace(session.status, workers=self.roster.at_work())
        same = (
            self.said is not None
            and replace(status, active_s=self.said.active_s, heartbeat=self.said.heartbeat) == self.said
        )
        every = BEAT_S if session.status.state is SessionState.RUNNING and session.work else RESTING_BEAT_S
        if now - self.beaten < (every if same else TURN_S) or session.disk_full:
            return
        session.status = session.tree.status = self.said = replace(status, heartbeat=time.time())
        self.beaten = now
        try:
            session.store.put_status(session.status)
        except sqlite3.OperationalError as error:
            log.error("status was not written: %s", error)

    async def wait(self) -> None:
        """Until something changed, or for one turn; changes close together are taken as one."""
        try:
            async with asyncio.timeout(TURN_S):
                await self.session.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(TURN_S / 10)
        self.session.changed.clear()
        self.stale = True

    # ----------------------------------------------------------------- steps

    async def plan(self) -> None:
        session = self.session
        await self.roster.call()
        self.stale = False
        self.planned = time.monotonic()
        steps = next_steps(session.tree, session.settings, {*session.out, *session.broke})
        self.plan_s = time.monotonic() - self.planned
        for step in steps:
            await self.begin(step)
        if not steps and not session.work:
            await self.stand_still()

    async def begin(self, step: Step) -> None:
        session = self.session
        match step:
            case Finish(reason=reason):
                await self.finish(reason)
            case Open(round=number, parents=parents, shares=shares):
                await session.announce("engine", "forecast", words(forecast_in(session, parents)))
                moved = moved_words(session.tree, session.settings) if shares else ""
                await session.set_status(round=number, parents=parents, shares=shares)
                if moved:
                    await session.announce("engine", "shares", f"shares of round {number}: {moved}")
                names = ", ".join(parent or "the reference" for parent in parents)
                await session.announce("engine", "round", f"round {number} of {session.settings.rounds}: from {names}")
            case Evaluate(variant=variant):
                session.begin(("judge", variant), judge(session, step))
            case Sweep(variant=variant):
                session.begin(("sweep", variant), sweep(session, step))
            case Propose(author=author) if may_be_asked(session, author):
                session.begin(("ideas", str(step.round), step.parent or "", author), propose(session, step))
            case Write(author=author) if may_be_asked(session, author):
                session.begin(("write", author, step.idea), write(session, step))
            case Repair(author=author) if may_be_asked(session, author):
                session.begin(("repair", step.variant), repair(session, step))

    async def stand_still(self) -> None:
        """Nothing runs and nothing can be begun: say what it waits for, or that it cannot go on."""
        session = self.session
        waiting = sum(idea.status is IdeaStatus.PROPOSED for idea in session.tree.ideas.values())
        if waiting:
            reason = f"{waiting} ideas wait to be approved"
            if session.status.reason != reason:
                await session.set_status(reason=reason)
                await session.announce("engine", "review", f"{reason}; approve or reject them")
        elif session.broke:
            await self.finish("; ".join(f"{label}: {reason}" for label, reason in session.broke.items()))
        elif session.out:
            nothing_owed = next_steps(session.tree, session.settings, session.broke)
            if nothing_owed and isinstance(nothing_owed[0], Finish):
                await self.finish(nothing_owed[0].reason)
                return
            reasons = "; ".join(f"{label}: {reason}" for label, reason in session.out.items())
            await session.pause(f"{NO_AUTHOR}. {reasons} Put it right and resume, or paste answers in by hand.")

    async def finish(self, reason: str) -> None:
        """End the search, unless something that a person asked for is under way or the best is to be measured again."""
        session = self.session
        if any(key[0] in ASKED_FOR for key in session.work):
            return
        if await ask_to_confirm(session):
            self.seen_version = -1  # a decision of our own moves no version that we could see
            return
        best = session.tree.best()
        await session.set_status(state=SessionState.FINISHED, reason=reason)
        found = f"best is {best.id}" if best else "no correct variant was found"
        await session.announce("engine", "finish", f"finished: {reason}; {found}", best.id if best else "")
