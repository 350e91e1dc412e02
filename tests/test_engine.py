"""Whole sessions on real SQLite files, with a scripted evaluator and authors: searching, steering, failing, resuming."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import DEVICE, FakeAuthor, FakeEvaluator, device, problem_folder

from kerneltui.authors import Answer, Ask, IdeaDraft
from kerneltui.authors.command import CommandAuthor
from kerneltui.engine import asking, decisions, judging, loop, run_session
from kerneltui.engine.material import profile_of
from kerneltui.engine.roster import Roster
from kerneltui.engine.session import Session
from kerneltui.errors import AuthorStopped, AuthorUnavailable, JudgeFailed, ProblemError, SessionError
from kerneltui.records import (
    AuthorSettings,
    Badge,
    Budget,
    Call,
    CallState,
    Candidate,
    DecisionKind,
    EngineStatus,
    Event,
    IdeaStatus,
    Language,
    Outcome,
    SessionState,
    Settings,
    Tree,
    Variant,
    VariantKind,
    VariantState,
    Verdict,
    Worker,
    in_order,
)
from kerneltui.search.spending import spend
from kerneltui.store import Store

LLM = AuthorSettings(kind="openai", model="fake")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are long on purpose are short here."""
    monkeypatch.setattr(judging, "BACK_OFF_S", 0.01)
    monkeypatch.setattr(asking, "BACK_OFF_S", 0.01)
    monkeypatch.setattr(loop, "REPLAN_S", 0.1)
    monkeypatch.setattr(loop, "TURN_S", 0.02)


def make(tmp_path: Path, *, playbook: str | None = None, **changes: Any) -> Path:
    """A new session on the fake problem."""
    problem = problem_folder(tmp_path) if playbook is None else problem_folder(tmp_path, playbook=playbook)
    defaults: dict[str, Any] = {"problem": "fake", "rounds": 2, "ideas": 2, "variants": 2, "beam": 2, "wildcard": 0.0}
    folder = tmp_path / "session"
    Store.create(folder, Settings(**{**defaults, **changes}), problem).close()
    return folder


def read(folder: Path) -> Tree:
    with Store.open(folder) as store:
        return store.read_tree()


@dataclass
class Viewer:
    """What a person at a screen sees and does."""

    store: Store
    task: asyncio.Task[EngineStatus]
    events: list[Event] = field(default_factory=list)

    def tree(self) -> Tree:
        return self.store.read_tree()

    async def until(self, holds: Callable[[Tree], Any], seconds: float = 60.0) -> Tree:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            tree = self.tree()
            if holds(tree):
                return tree
            if self.task.done():
                await self.task
                assert holds(self.tree()), f"the engine ended: {self.tree().status}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"never came true; {self.tree().status}")

    async def decide(self, kind: DecisionKind, target: str = "", **payload: Any) -> tuple[str, str]:
        number = self.store.add_decision(kind, target, payload, who="ada")
        for _ in range(3000):
            (found,) = [d for d in self.store.read_decisions() if d.id == number]
            if found.state != "pending":
                return str(found.state), found.answer
            await asyncio.sleep(0.02)
        raise AssertionError("never answered")


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Viewer]:
    """An engine in this loop with a viewer beside it; it is cancelled at the end."""
    options.setdefault("evaluator", FakeEvaluator())
    events: list[Event] = []
    task = asyncio.create_task(run_session(folder, on_event=events.append, **options))
    store = Store.open(folder)
    try:
        yield Viewer(store, task, events)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


def finished(tree: Tree) -> bool:
    return tree.status.state in (SessionState.FINISHED, SessionState.STOPPED)


# --------------------------------------------------------------------------- searching


async def test_a_playbook_search_runs_to_its_end(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=3)
    events: list[Event] = []
    evaluator = FakeEvaluator()
    status = await run_session(folder, on_event=events.append, evaluator=evaluator)
    tree = read(folder)
    assert SessionState.FINISHED == status.state == tree.status.state
    assert {0, 1, 2} <= {variant.round for variant in tree.variants.values() if variant.outcome is Outcome.CORRECT}
    best = tree.best()
    assert best is not None and (best.id, 150.0) == (status.best, best.median_us)
    assert ["wide-tiles"] == [idea.key for idea in tree.ideas.values() if idea.round == 2]
    assert {"start", "machine", "verdict", "best", "round", "finish"} <= {event.kind for event in events}
    with Store.open(folder) as store:
        assert [event.id for event in events] == [event.id for event in store.read_events()]
        assert {"eager": 1000.0} == store.read_prepared()["baselines_us"]
        contract = store.read_contract()
        assert contract is not None and "fake" == contract.function
    assert evaluator.closed
    assert "engine ended" not in (folder / "engine.log").read_text()


async def test_once_the_beam_is_full_others_are_screened_against_it(tmp_path: Path) -> None:
    evaluator = FakeEvaluator()
    await run_session(make(tmp_path, rounds=3, beam=1), evaluator=evaluator)
    assert evaluator.beams_us[0] is None
    assert any(beam is not None for beam in evaluator.beams_us)
    best = read(tmp_path / "session").best()
    assert best is not None and not best.screened


async def test_a_finished_session_goes_on_when_its_rounds_are_raised(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    await run_session(folder, evaluator=FakeEvaluator())
    before = read(folder)
    assert "all 1 rounds are done" == before.status.reason
    with Store.open(folder) as store:
        store.write_settings(replace(store.settings(), rounds=2))
    status = await run_session(folder, evaluator=FakeEvaluator())
    assert (2, "all 2 rounds are done") == (status.round, status.reason)
    assert set(before.variants) < set(read(folder).variants)
    assert status.active_s > before.status.active_s > 0


async def test_language_models_search_in_rounds_and_every_call_is_on_record(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=2)
    author = FakeAuthor()
    await run_session(folder, evaluator=FakeEvaluator(), authors={LLM.label: author})
    tree = read(folder)
    assert len(author.asked) == len(tree.calls)
    assert spend(tree).usd == pytest.approx(0.01 * len(author.asked))
    kinds = {variant.kind for variant in tree.variants.values()}
    assert {VariantKind.STARTER, VariantKind.ATTEMPT, VariantKind.REPAIR} == kinds
    assert all(v.parent in tree.variants for v in tree.variants.values() if v.kind is VariantKind.REPAIR)
    attempts = [sum(v.kind is VariantKind.ATTEMPT for v in tree.of_idea(id_)) for id_ in tree.ideas]
    assert {2} == set(attempts)
    with Store.open(folder) as store:
        call = store.read_call(min(tree.calls))
    assert ("ideas  0", "an answer", "stop", 100, 200) == (
        call.prompt,
        call.answer,
        call.finish_reason,
        call.tokens_in,
        call.tokens_out,
    )


async def test_equal_candidates_share_one_verdict(tmp_path: Path) -> None:
    same = Answer(source="// time_us: 300\nint same;", language=Language.CPP)

    def script(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=(IdeaDraft(title=f"idea {number}", text=f"words {number}"),))
        return same

    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1)
    evaluator = FakeEvaluator(delay_s=0.05)
    await run_session(folder, evaluator=evaluator, authors={LLM.label: FakeAuthor(script=script)})
    tree = read(folder)
    written = [v for v in tree.variants.values() if v.kind is VariantKind.ATTEMPT]
    assert 4 == len(written)
    assert 1 == sum(v.same_as is None for v in written)
    assert {300.0} == {v.median_us for v in written}
    assert 2 == len(evaluator.judged)  # the starter and this one
    assert 2 == spend(tree).evaluations


async def test_the_same_idea_again_is_merged_and_can_be_restored(tmp_path: Path) -> None:
    def script(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=(IdeaDraft(title="Use float4 loads", text="Load four floats at once."),) * 2)
        return Answer(source=f"// time_us: {400 - number}\nint k;", language=Language.CPP)

    folder = make(tmp_path, authors=(LLM,), rounds=2)
    async with running(folder, authors={LLM.label: FakeAuthor(script=script)}) as viewer:
        tree = await viewer.until(finished)
        merged = [idea for idea in tree.ideas.values() if idea.status is IdeaStatus.MERGED]
        assert merged and all(idea.merged_into in tree.ideas for idea in merged)
        assert all(not tree.of_idea(idea.id) for idea in merged)
    folder_idea = merged[0].id
    with Store.open(folder) as store:
        store.add_decision(DecisionKind.RESTORE, folder_idea)
        store.write_settings(replace(store.settings(), rounds=3))
    await run_session(folder, evaluator=FakeEvaluator(), authors={LLM.label: FakeAuthor(script=script)})
    assert read(folder).of_idea(folder_idea)


async def test_what_was_judged_on_another_machine_is_not_best_here(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    await run_session(folder, evaluator=FakeEvaluator())
    assert read(folder).best() is not None
    elsewhere = FakeEvaluator(device=device("Other CPU"))
    await run_session(folder, evaluator=elsewhere)
    tree = read(folder)
    judged_here = [v for v in tree.variants.values() if v.world == elsewhere.device.world]
    assert {variant.candidate for variant in judged_here} == {candidate.digest for candidate in elsewhere.judged}
    best = tree.best()
    assert best is not None and best in judged_here
    with Store.open(folder) as store:
        old = [v.id for v in tree.variants.values() if v.world == DEVICE.world]
        assert all(store.read_verdict(id_) is not None for id_ in old)


# --------------------------------------------------------------------------- budgets


async def test_dollars_hold_with_many_calls_in_flight(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=3, ideas=8, variants=3, budget=Budget(usd=0.05))
    author = FakeAuthor(cost_usd=0.02, delay_s=0.02)
    status = await run_session(folder, evaluator=FakeEvaluator(), authors={LLM.label: author})
    used = spend(read(folder))
    assert used.usd <= 0.05
    assert used.usd == pytest.approx(0.02 * len(author.asked))
    assert SessionState.FINISHED == status.state
    assert "left, the next call may cost $0.02" in status.reason


async def test_an_author_without_a_price_is_not_asked_under_a_dollar_cap(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), budget=Budget(usd=5.0))
    author = FakeAuthor(worst_usd=None, cost_usd=None)
    status = await run_session(folder, evaluator=FakeEvaluator(), authors={LLM.label: author})
    assert [] == author.asked
    assert "the dollar cap cannot hold" in status.reason


async def test_evaluations_end_the_search(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=3, budget=Budget(evaluations=3))
    evaluator = FakeEvaluator()
    status = await run_session(folder, evaluator=evaluator)
    assert 3 == len(evaluator.judged)
    assert "3 of 3 evaluations are used" == status.reason


async def test_wall_time_ends_the_search_and_what_ran_can_go_on(tmp_path: Path) -> None:
    folder = make(tmp_path, budget=Budget(wall_s=0.5))
    status = await run_session(folder, evaluator=FakeEvaluator(hold=asyncio.Event()))
    assert status.reason.endswith("minutes are used")
    assert {VariantState.WRITTEN} == {variant.state for variant in read(folder).variants.values()}


# --------------------------------------------------------------------------- steering


async def test_review_waits_for_a_person(tmp_path: Path) -> None:
    folder = make(tmp_path, review=True, rounds=1)
    async with running(folder) as viewer:
        tree = await viewer.until(lambda t: "wait to be approved" in t.status.reason)
        assert {IdeaStatus.PROPOSED} == {idea.status for idea in tree.ideas.values()}
        first, *others = tree.ideas
        await viewer.decide(DecisionKind.REJECT, first)
        state, said = await viewer.decide(DecisionKind.RESTORE, first, proposed=True)
        assert ("done", "to be decided on again: `Tiles`") == (state, said)
        assert IdeaStatus.PROPOSED == viewer.tree().ideas[first].status
        assert ("done", "approved `Tiles`") == await viewer.decide(DecisionKind.APPROVE, first)
        for other in others:
            await viewer.decide(DecisionKind.REJECT, other)
        tree = await viewer.until(finished)
    assert {first} == {variant.idea for variant in tree.variants.values()} - {None}


async def test_proposed_ideas_are_moved_among_those_of_their_round(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=3, variants=1, review=True)
    author = FakeAuthor()
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(lambda t: len(t.ideas) >= 6)  # from the reference and from the starter
        first, second, third, *_ = names = list(tree.ideas)
        assert ("done", f"moved before {first}") == await viewer.decide(DecisionKind.MOVE, third, before=first)
        assert [third, first, second] == [i.id for i in in_order(read(folder).ideas.values())][:3]
        assert "done" == (await viewer.decide(DecisionKind.MOVE, third, before=""))[0]
        assert third == in_order(read(folder).ideas.values())[-1].id
        state, words = await viewer.decide(DecisionKind.MOVE, third, before="i999")
        assert ("refused", "`i999` is no other idea of round 1") == (state, words)
        await viewer.decide(DecisionKind.PAUSE)
        for id in names:
            await viewer.decide(DecisionKind.APPROVE, id)
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(finished)
    written = [ask.idea.id for ask in author.asked if ask.purpose == "write" and ask.idea]
    assert third == written[-1]


async def test_pause_holds_and_resume_goes_on(tmp_path: Path) -> None:
    folder = make(tmp_path)
    hold = asyncio.Event()
    async with running(folder, evaluator=FakeEvaluator(hold=hold)) as viewer:
        await viewer.until(lambda t: any(v.state is VariantState.RUNNING for v in t.variants.values()))
        assert "done" == (await viewer.decide(DecisionKind.PAUSE))[0]
        hold.set()
        tree = await viewer.until(lambda t: all(v.state is VariantState.DONE for v in t.variants.values()))
        await asyncio.sleep(0.3)
        assert (0, "paused by ada") == (viewer.tree().status.round, tree.status.reason)
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(finished)


async def test_a_pause_outlives_the_engine(tmp_path: Path) -> None:
    folder = make(tmp_path)
    async with running(folder) as viewer:
        await viewer.decide(DecisionKind.PAUSE)
    async with running(folder) as viewer:
        await viewer.until(lambda t: t.status.device is not None)
        await asyncio.sleep(0.2)
        assert SessionState.PAUSED == viewer.tree().status.state
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(finished)


async def test_drain_ends_the_engine_once_what_runs_is_finished(tmp_path: Path) -> None:
    folder = make(tmp_path)
    hold = asyncio.Event()
    async with running(folder, evaluator=FakeEvaluator(hold=hold)) as viewer:
        await viewer.until(lambda t: any(v.state is VariantState.RUNNING for v in t.variants.values()))
        await viewer.decide(DecisionKind.STOP, drain=True)
        assert SessionState.PAUSED == viewer.tree().status.state
        hold.set()
        status = await viewer.task
    assert (SessionState.STOPPED, "drained: what ran was finished") == (status.state, status.reason)
    assert {VariantState.DONE} == {variant.state for variant in read(folder).variants.values()}


async def test_stop_ends_the_engine_and_run_goes_on(tmp_path: Path) -> None:
    folder = make(tmp_path)
    async with running(folder, evaluator=FakeEvaluator(hold=asyncio.Event())) as viewer:
        await viewer.until(lambda t: any(v.state is VariantState.RUNNING for v in t.variants.values()))
        await viewer.decide(DecisionKind.STOP)
        status = await viewer.task
    assert (SessionState.STOPPED, "stopped by ada") == (status.state, status.reason)
    assert {VariantState.WRITTEN} == {variant.state for variant in read(folder).variants.values()}
    assert SessionState.FINISHED == (await run_session(folder, evaluator=FakeEvaluator())).state


async def test_a_prune_can_be_undone_before_anything_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "GRACE_S", 60)
    folder, hold = make(tmp_path), asyncio.Event()
    evaluator = FakeEvaluator(hold=hold)
    async with running(folder, evaluator=evaluator) as viewer:
        await viewer.until(lambda t: any(v.state is VariantState.RUNNING for v in t.variants.values()))
        await viewer.decide(DecisionKind.PRUNE, "v00001")
        await viewer.decide(DecisionKind.RESTORE, "v00001")
        hold.set()
        await viewer.until(lambda t: t.variants["v00001"].outcome is Outcome.CORRECT)
    assert 0 == evaluator.cancelled


async def test_pruned_work_is_cancelled_and_restored_work_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "GRACE_S", 0.1)
    folder, hold = make(tmp_path), asyncio.Event()
    evaluator = FakeEvaluator(hold=hold)
    async with running(folder, evaluator=evaluator) as viewer:
        await viewer.until(lambda t: any(v.state is VariantState.RUNNING for v in t.variants.values()))
        await viewer.decide(DecisionKind.PRUNE, "v00001")
        await viewer.until(lambda t: t.variants["v00001"].state is VariantState.CANCELLED)
        assert 1 == evaluator.cancelled
        hold.set()
        await viewer.decide(DecisionKind.RESTORE, "v00001")
        await viewer.until(lambda t: t.variants["v00001"].outcome is Outcome.CORRECT)


async def test_nothing_grows_on_a_pruned_branch(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    await run_session(folder, evaluator=FakeEvaluator())
    with Store.open(folder) as store:
        store.write_settings(replace(store.settings(), rounds=3))
        (tiles,) = [idea.id for idea in store.read_tree().ideas.values() if idea.key == "tiles"]
        store.add_decision(DecisionKind.PRUNE, tiles)
    await run_session(folder, evaluator=FakeEvaluator())
    tree = read(folder)
    assert all(tree.is_pruned(v) for v in tree.of_idea(tiles))
    below = [v for v in tree.variants.values() if tree.is_pruned(v)]
    assert {1} == {variant.round for variant in below}


async def test_a_kernel_can_be_injected_retried_pinned_noted_and_certified(tmp_path: Path) -> None:
    slow = FakeAuthor(delay_s=60.0)  # the search does not end before we do
    folder = make(tmp_path, rounds=1, authors=(AuthorSettings(kind="playbook"), LLM))
    evaluator = FakeEvaluator()
    async with running(folder, evaluator=evaluator, authors={LLM.label: slow}) as viewer:
        await viewer.until(lambda t: t.status.round == 1)
        source = "// time_us: 42\nint mine;"
        state, words = await viewer.decide(DecisionKind.INJECT, source=source, language="cpp", name="mine.cpp")
        assert "done" == state
        mine = words.removeprefix("injected as ")
        tree = await viewer.until(lambda t: t.variants[mine].outcome is Outcome.CORRECT)
        assert (VariantKind.HAND, 42.0, True, "ada") == (
            tree.variants[mine].kind,
            tree.variants[mine].median_us,
            tree.variants[mine].human,
            tree.variants[mine].author,
        )
        await viewer.decide(DecisionKind.PAUSE)
        await viewer.decide(DecisionKind.PIN, mine)
        await viewer.decide(DecisionKind.NOTE, mine, text="look at this")
        await viewer.decide(DecisionKind.CERTIFY, mine)
        await viewer.until(lambda t: evaluator.certified)
        await viewer.decide(DecisionKind.RETRY, mine)
        tree = viewer.tree()
        assert (True, "look at this", 1, None) == (
            tree.variants[mine].pinned,
            tree.variants[mine].note,
            tree.variants[mine].attempts,
            tree.variants[mine].outcome,
        )
        before = len(evaluator.judged)
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(lambda t: t.variants[mine].outcome is Outcome.CORRECT)
        assert before < len(evaluator.judged)


@pytest.mark.parametrize("kind", [DecisionKind.CERTIFY, DecisionKind.PROFILE])
async def test_what_a_finished_search_is_asked_for_is_done_before_it_ends(tmp_path: Path, kind: DecisionKind) -> None:
    folder = make(tmp_path, rounds=1)
    best = (await run_session(folder, evaluator=FakeEvaluator())).best
    assert best is not None
    with Store.open(folder) as store:
        store.add_decision(kind, best, {}, who="ada")
    evaluator = FakeEvaluator(delay_s=0.3)
    events: list[Event] = []
    status = await run_session(folder, on_event=events.append, evaluator=evaluator)
    assert SessionState.FINISHED == status.state
    if kind is DecisionKind.CERTIFY:
        assert 1 == len(evaluator.certified)
    assert ("finish", "verdict" if kind is DecisionKind.CERTIFY else "profile") == (events[-1].kind, events[-2].kind)


async def test_the_best_is_measured_again_before_a_search_ends_and_whatever_is_best_then(tmp_path: Path) -> None:
    """Flattered by their noise, the first two fall behind when they are measured again."""

    class Flattering(FakeEvaluator):
        async def certify(self, candidate: Candidate) -> Verdict:
            verdict = await super().certify(candidate)
            if verdict.measurement is None or len(self.certified) > 2:
                return verdict
            slow = replace(
                verdict.measurement.speedup["eager"], ratio=0.4 + 0.1 * len(self.certified), low=0.4, high=0.7
            )
            return replace(verdict, measurement=replace(verdict.measurement, speedup={"eager": slow}))

    folder, evaluator = make(tmp_path, rounds=2), Flattering()
    events: list[Event] = []
    await run_session(folder, on_event=events.append, evaluator=evaluator)
    tree = read(folder)
    best = tree.best()
    assert best is not None and Badge.CERTIFIED is best.badge
    assert 3 == len(evaluator.certified) == len({candidate.digest for candidate in evaluator.certified})
    assert 2 == sum(
        v.speedup is not None and v.speedup.ratio < 0.7 for v in tree.variants.values() if v.badge is Badge.CERTIFIED
    )
    assert "finish" == events[-1].kind and best.id in events[-1].text
    again = FakeEvaluator()
    await run_session(folder, evaluator=again)
    assert [] == again.certified, "once is enough"


async def test_a_busy_machine_takes_no_figures_away(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    evaluator = FakeEvaluator(disturbed=0)
    certify = evaluator.certify

    async def disturbed(candidate: Candidate) -> Verdict:
        evaluator.disturbed = 1
        return await certify(candidate)

    evaluator.certify = disturbed  # type: ignore[method-assign]
    events: list[Event] = []
    status = await run_session(folder, on_event=events.append, evaluator=evaluator)
    best = read(folder).best()
    assert SessionState.FINISHED is status.state and best is not None and Badge.MEASURED is best.badge
    assert 2 == len(evaluator.certified), "asked once more"
    words = (
        f"{best.id} was not certified: the machine was too disturbed (a neighbour); what was measured before stands, "
        "ask again later"
    )
    assert words in [event.text for event in events]


@pytest.mark.parametrize("kind", [DecisionKind.CERTIFY, DecisionKind.PROFILE])
async def test_what_is_cut_short_says_so(tmp_path: Path, kind: DecisionKind) -> None:
    folder = make(tmp_path, rounds=1)
    best = (await run_session(folder, evaluator=FakeEvaluator())).best
    assert best is not None
    async with running(folder, evaluator=FakeEvaluator(delay_s=60.0)) as viewer:
        assert "done" == (await viewer.decide(kind, best))[0]
        await viewer.until(lambda t: any(worker.node == best for worker in t.status.workers))
    word = "certified" if kind is DecisionKind.CERTIFY else "profiled"
    words = f"{best} was not {word}: cut short; ask for it again"
    with Store.open(folder) as store:
        assert 1 == [event.text for event in store.read_events()].count(words)
        # As an engine that was killed leaves it.
        killed = Worker(name=str(kind), doing="at it", node=best)
        store.put_status(replace(store.read_tree().status, workers=(killed,)))
    await run_session(folder, evaluator=FakeEvaluator())
    with Store.open(folder) as store:
        assert 2 == [event.text for event in store.read_events()].count(words)


async def test_a_profile_is_made_kept_and_told_to_authors(tmp_path: Path) -> None:
    slow = FakeAuthor(delay_s=60.0)  # the search does not end before we do
    folder = make(tmp_path, rounds=1, authors=(AuthorSettings(kind="playbook"), LLM))
    evaluator = FakeEvaluator()
    async with running(folder, evaluator=evaluator, authors={LLM.label: slow}) as viewer:
        await viewer.until(lambda t: t.status.round == 1)
        source = "// time_us: 42\nint mine;"
        _, words = await viewer.decide(DecisionKind.INJECT, source=source, language="cpp", name="mine.cpp")
        mine = words.removeprefix("injected as ")
        tree = await viewer.until(lambda t: t.variants[mine].outcome is Outcome.CORRECT)
        await viewer.decide(DecisionKind.PAUSE)
        candidate = tree.variants[mine].candidate or ""
        with Store.open(folder) as store:
            assert store.read_profile(candidate) is None
            assert ("done", "being profiled") == await viewer.decide(DecisionKind.PROFILE, mine)
            await viewer.until(lambda t: store.read_profile(candidate) is not None)
            found = store.read_profile(candidate)
            assert found is not None and "fake" == found.tool
            counted = msgspec.to_builtins(replace(found, tool="by a command"))
            assert "done" == (await viewer.decide(DecisionKind.PROFILE, mine, profile=counted))[0]
            kept = store.read_profile(candidate)
            assert kept is not None and "by a command" == kept.tool
            assert "refused" == (await viewer.decide(DecisionKind.PROFILE, mine, profile={"kernels": 1}))[0]
            evaluator.uncountable = "ncu was not found"
            await viewer.decide(DecisionKind.PROFILE, mine)
            told = f"{mine} was not profiled: ncu was not found"
            await viewer.until(lambda t: any(event.text == told for event in store.read_events()))
            session = Session(
                store=store,
                tree=store.read_tree(),
                settings=store.settings(),
                problem=store.read_problem(),
                prepared=await evaluator.prepare(),
            )
            assert {"DRAM throughput": "61.5 %"} == profile_of(session, session.tree.variants[mine])
            elsewhere = replace(evaluator.device, name="another")
            session.prepared = replace(await evaluator.prepare(), device=elsewhere)
            assert {} == profile_of(session, session.tree.variants[mine])


async def test_ideas_of_people_are_written_edited_and_expanded(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1, variants=1)
    evaluator = FakeEvaluator(hold=asyncio.Event())  # the search does not end before the person has done
    async with running(folder, authors={LLM.label: FakeAuthor()}, evaluator=evaluator) as viewer:
        await viewer.until(lambda t: t.status.device is not None)
        _, words = await viewer.decide(DecisionKind.ADD_IDEA, title="my own", text="do it so")
        mine = words.removeprefix("added as ")
        await viewer.until(lambda t: t.of_idea(mine))
        assert "done" == (await viewer.decide(DecisionKind.EDIT, mine, text="do it otherwise"))[0]
        assert ("done", "2 more to be written") == await viewer.decide(DecisionKind.EXPAND, mine, count=2)
        assert evaluator.hold is not None
        evaluator.hold.set()
        await viewer.until(lambda t: sum(v.kind is VariantKind.ATTEMPT for v in t.of_idea(mine)) == 3)
        tree = await viewer.until(finished)
    assert ("do it otherwise", True) == (tree.ideas[mine].text, tree.ideas[mine].human)
    assert all(v.state is VariantState.DONE for v in tree.of_idea(mine))


async def test_answers_can_be_pasted_in(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1, variants=1)
    author = FakeAuthor(failures=[AuthorStopped("no key")] * 9)
    async with running(folder, authors={LLM.label: author}) as viewer:
        await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
        pasted = '[{"title": "Use wide loads", "text": "Load 16 bytes at once."}]'
        assert ("done", "1 ideas: i001") == await viewer.decide(DecisionKind.ANSWER, text=pasted)
        code = """Here it is.\n```cpp\n// time_us: 77\nextern "C" int fake(const float* x) { return 0; }\n```\n"""
        state, words = await viewer.decide(DecisionKind.ANSWER, "i001", text=code)
        assert ("done", "written as v00002") == (state, words.split(";")[0])
        assert "refused" == (await viewer.decide(DecisionKind.ANSWER, "i001", text="I cannot do that."))[0]
        await viewer.decide(DecisionKind.RESUME)
        tree = await viewer.until(lambda t: t.variants["v00002"].outcome is Outcome.CORRECT)
    assert (77.0, "i001", "hand") == (
        tree.variants["v00002"].median_us,
        tree.variants["v00002"].idea,
        tree.variants["v00002"].author,
    )


async def test_decisions_made_while_no_engine_ran_are_carried_out(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    with Store.open(folder) as store:
        store.add_decision(DecisionKind.INJECT, "", {"source": "// time_us: 3\nint k;"}, who="ada")
    await run_session(folder, evaluator=FakeEvaluator())
    best = read(folder).best()
    assert best is not None
    assert (3.0, Language.CPP, "ada") == (best.median_us, best.language, best.author)


async def test_the_budget_is_changed_in_the_file(tmp_path: Path) -> None:
    folder = make(tmp_path, review=True)
    async with running(folder) as viewer:
        answer = await viewer.decide(DecisionKind.BUDGET, usd=2.5, rounds=7, evaluations=None)
        assert ("done", "usd = 2.5, rounds = 7, evaluations = no cap") == answer
        settings = viewer.store.settings()
    assert (7, 2.5) == (settings.rounds, settings.budget.usd)


@pytest.mark.parametrize(
    ("kind", "target", "payload", "words"),
    [
        (DecisionKind.PRUNE, "v9", {}, "there is no variant `v9`"),
        (DecisionKind.APPROVE, "i9", {}, "there is no idea `i9`"),
        (DecisionKind.EDIT, "i001", {}, "an edit needs a title or a text"),
        (DecisionKind.INJECT, "", {"source": "  "}, "`source` is missing"),
        (DecisionKind.INJECT, "", {"source": "int a;", "language": "rust"}, "language is `rust`"),
        (DecisionKind.INJECT, "", {"source": "int a;", "language": "cuda"}, "on a cpu device, which takes cpp"),
        (DecisionKind.INJECT, "", {"source": "int\0a;"}, "this is no kernel source"),
        (DecisionKind.BUDGET, "", {"dollars": 3}, "`dollars` is no budget"),
        (DecisionKind.BUDGET, "", {"usd": "much"}, "usd is 'much'"),
        (DecisionKind.BUDGET, "", {"rounds": 0}, "`rounds` is 0; a whole number from 1 is expected"),
        (DecisionKind.EXPAND, "i001", {"count": 0}, "count is 0"),
        (DecisionKind.ADD_IDEA, "", {"title": "t", "parent": "v9"}, "there is no variant `v9`"),
        (DecisionKind.RETRY, "v9", {}, "there is no variant"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_words(
    tmp_path: Path, kind: DecisionKind, target: str, payload: dict[str, Any], words: str
) -> None:
    folder = make(tmp_path, review=True)
    async with running(folder) as viewer:
        await viewer.until(lambda t: t.ideas)
        state, answer = await viewer.decide(kind, target, **payload)
    assert "refused" == state
    assert words in answer


def test_every_kind_of_decision_is_carried_out() -> None:
    assert set(DecisionKind) == set(decisions.ACTS)


# --------------------------------------------------------------------------- failing


async def test_a_machine_fault_is_tried_again_and_not_charged_to_the_candidate(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    evaluator = FakeEvaluator(faults=[JudgeFailed("the judge died"), JudgeFailed("the judge died")])
    async with running(folder, evaluator=evaluator) as viewer:
        tree = await viewer.until(finished)
        assert {Outcome.CORRECT} == {variant.outcome for variant in tree.variants.values()}
        assert 2 == sum(event.kind == "machine" and "was not judged" in event.text for event in viewer.events)


async def test_a_lasting_machine_fault_pauses_with_its_reason(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    evaluator = FakeEvaluator(faults=[JudgeFailed("the judge died")] * 3)
    async with running(folder, evaluator=evaluator) as viewer:
        tree = await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
        assert "the judge died Tried 3 times; put it right and resume." == tree.status.reason
        assert (VariantState.WRITTEN, None) == (tree.variants["v00001"].state, tree.variants["v00001"].outcome)
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(finished)


async def test_a_problem_that_cannot_be_searched_is_said_and_nothing_is_bought(tmp_path: Path) -> None:
    class Refusing(FakeEvaluator):
        async def prepare(self) -> Any:
            raise ProblemError("the reference gives NaN; see problem.toml")

    folder, author = make(tmp_path, authors=(LLM,)), FakeAuthor()
    with pytest.raises(ProblemError, match="the reference gives NaN"):
        await run_session(folder, evaluator=Refusing(), authors={LLM.label: author})
    status = read(folder).status
    assert (SessionState.PAUSED, None) == (status.state, status.pid)
    assert "the reference gives NaN; see problem.toml" == status.reason
    assert [] == author.asked


async def test_a_disturbed_timing_is_taken_once_more(tmp_path: Path) -> None:
    folder = make(tmp_path, playbook="")
    evaluator = FakeEvaluator(disturbed=1)
    await run_session(folder, evaluator=evaluator)
    assert (2, Badge.CERTIFIED) == (len(evaluator.judged), read(folder).variants["v00001"].badge)


async def test_an_author_that_stops_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM, AuthorSettings(kind="playbook")), rounds=1)
    author = FakeAuthor(failures=[AuthorStopped("bad key: set OPENAI_API_KEY")] * 9)
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(finished)
        assert 1 == sum("is out: bad key" in event.text for event in viewer.events)
    assert {"playbook"} == {idea.author for idea in tree.ideas.values()}
    assert {CallState.FAILED} == {call.state for call in tree.calls.values() if call.author == LLM.label}


async def test_with_no_author_left_the_session_pauses_and_says_what_to_do(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1)
    author = FakeAuthor(failures=[AuthorStopped("bad key: set OPENAI_API_KEY.")] * 2)
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
        assert "no author is left" in tree.status.reason and "OPENAI_API_KEY" in tree.status.reason
        author.failures.clear()
        await viewer.decide(DecisionKind.RESUME)
        tree = await viewer.until(finished)
    assert tree.ideas


async def test_it_returns_when_it_pauses_by_itself_and_nobody_stays(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1)
    author = FakeAuthor(failures=[AuthorStopped("bad key")] * 2)
    status = await run_session(folder, evaluator=FakeEvaluator(), authors={LLM.label: author}, stay=False)
    assert SessionState.PAUSED == status.state


async def test_passing_trouble_is_waited_out(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1)
    author = FakeAuthor(failures=[AuthorUnavailable("429", retry_after_s=0.05), AuthorUnavailable("503")])
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(finished)
    failed = [call for call in tree.calls.values() if call.state is CallState.FAILED]
    assert [0.0, 0.0] == [call.cost_usd for call in failed]  # nothing was sent
    assert all(v.state is VariantState.DONE and not v.author_error for v in tree.variants.values())


async def test_an_unusable_answer_is_the_authors_fault_and_can_be_retried(tmp_path: Path) -> None:
    bad = [True]

    def script(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=(IdeaDraft(title="one"),))
        return Answer(problem="no code") if bad[0] else Answer(source="// time_us: 9\nint k;", language=Language.CPP)

    folder = make(tmp_path, authors=(LLM,), rounds=2, ideas=1, variants=1)
    # Slow enough that the second round is still being asked for when the pause arrives, on a busy machine too.
    author = FakeAuthor(script=script, delay_s=2.0)
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(lambda t: any(v.author_error for v in t.variants.values()))
        await viewer.decide(DecisionKind.PAUSE)
        author.delay_s = 0.0
        (failed,) = [v for v in tree.variants.values() if v.author_error][:1]
        assert ("no code", None, VariantState.DONE) == (failed.author_error, failed.outcome, failed.state)
        bad[0] = False
        await viewer.decide(DecisionKind.RETRY, failed.id)
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(lambda t: t.variants[failed.id].outcome is Outcome.CORRECT)


async def test_our_own_fault_pauses_with_a_trace_in_the_log(tmp_path: Path) -> None:
    def script(ask: Ask, number: int) -> Answer:
        raise ZeroDivisionError("a bug of ours")

    folder = make(tmp_path, authors=(LLM,), rounds=1)
    async with running(folder, authors={LLM.label: FakeAuthor(script=script)}) as viewer:
        tree = await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
    assert "ZeroDivisionError: a bug of ours" in tree.status.reason
    assert "Traceback" in (folder / "engine.log").read_text()
    assert {CallState.FAILED} == {call.state for call in tree.calls.values()}


async def test_a_full_disk_holds_the_answer_and_buys_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Store] = []
    plain_open = Store.open.__func__  # type: ignore[attr-defined]

    def spy(cls: type[Store], folder: Path, **options: Any) -> Store:
        store: Store = plain_open(cls, folder, **options)
        if options.get("write"):
            opened.append(store)
        return store

    monkeypatch.setattr(Store, "open", classmethod(spy))

    def fill(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=(IdeaDraft(title=f"idea {number}"),))
        if not full:
            full.append(ask)
            pages = opened[0]._db.execute("PRAGMA page_count").fetchone()[0]
            opened[0]._db.execute(f"PRAGMA max_page_count = {pages}")
        return Answer(source=f"// time_us: {number}\nint k;\n" + "// padding\n" * 4000, language=Language.CPP)

    full: list[Ask] = []
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1, variants=1)
    author = FakeAuthor(script=fill)
    async with running(folder, authors={LLM.label: author}) as viewer:
        for _ in range(500):
            if any(event.text.startswith("disk full") for event in viewer.events):
                break
            await asyncio.sleep(0.02)
        (words,) = {event.text for event in viewer.events if event.text.startswith("disk full")}
        assert "continues when there is room" in words
        asked = len(author.asked)
        await asyncio.sleep(0.5)
        assert asked == len(author.asked)
        opened[0]._db.execute("PRAGMA max_page_count = 1000000")
        tree = await viewer.until(finished)
    assert len(author.asked) == len(tree.calls)
    assert {CallState.DONE} == {call.state for call in tree.calls.values()}
    assert all(v.outcome is Outcome.CORRECT for v in tree.variants.values())


# --------------------------------------------------------------------------- one engine, killed engines


async def test_only_one_engine_runs_a_session(tmp_path: Path) -> None:
    folder = make(tmp_path, review=True)
    async with running(folder) as viewer:
        await viewer.until(lambda t: t.status.device is not None)
        with pytest.raises(SessionError, match=rf"an engine runs already \(pid {os.getpid()} on"):
            await run_session(folder, evaluator=FakeEvaluator())


async def test_what_a_dead_engine_left_is_told_as_it_is(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), review=True)
    with Store.open(folder, write=True) as store:
        call = store.reserve_call(
            Call(id=0, purpose="write", node="v00001", author=LLM.label, reserved_usd=0.5, reserved_tokens=10)
        )
        rows = [VariantState.WRITING, VariantState.QUEUED, VariantState.RUNNING]
        candidate = store.add_candidate(judged_source())
        for state in rows:
            made = Variant(id=store.next_variant_id(), idea=None, round=0, state=state, candidate=candidate)
            store.put_variants([made if state is not VariantState.WRITING else replace(made, candidate=None)])
    async with running(folder, authors={LLM.label: FakeAuthor()}) as viewer:
        tree = await viewer.until(lambda t: t.status.device is not None)
        text = next(event.text for event in viewer.events if event.kind == "start")
    assert (
        "engine started: 3 variants are taken up again; 1 questions had no answer yet and are possibly billed" == text
    )
    assert (CallState.FAILED, None, 0.5) == (
        tree.calls[call.id].state,
        tree.calls[call.id].cost_usd,
        tree.calls[call.id].reserved_usd,
    )
    assert "possibly billed" in tree.calls[call.id].error


def judged_source() -> Any:
    from kerneltui.records import Candidate

    return Candidate(source="// time_us: 5\nint k;", language=Language.CPP)


ENGINE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes import FakeAuthor, FakeEvaluator
from kerneltui.engine import run_session
author = FakeAuthor(log=Path({log!r}), delay_s={delay})
status = asyncio.run(run_session(Path({folder!r}), evaluator=FakeEvaluator(delay_s={delay}), authors={{author.name: author}}))
print(status.state)
"""


def start_engine(folder: Path, log: Path, delay: float = 0.05) -> subprocess.Popen[str]:
    code = ENGINE.format(tests=str(Path(__file__).parent), log=str(log), folder=str(folder), delay=delay)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_killed_at_any_moment_no_answer_is_bought_twice_and_none_is_lost(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=3, ideas=3, variants=2)
    log, dice, kills = tmp_path / "requests.jsonl", random.Random(7), 0
    while kills < 15:
        process = start_engine(folder, log)
        wait_for(partial(has_begun, folder, process))
        time.sleep(dice.uniform(0.0, 0.6))
        over = process.poll() is not None
        process.kill()
        process.communicate()
        if over:
            break
        check_consistent(folder)
        kills += 1
    process = start_engine(folder, log, delay=0.0)
    out, _ = process.communicate(timeout=120)
    assert "finished" == out.strip()
    assert kills >= 5
    check_consistent(folder)
    tree = read(folder)
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    begun = sum(request["what"] == "asked" for request in requests)
    recorded = [call for call in tree.calls.values()]
    done = [call for call in recorded if call.state is CallState.DONE]
    assert begun <= len(recorded)  # each request that left was on record before it left
    assert len(done) == len({(call.purpose, call.node, call.round) for call in done})
    assert spend(tree).usd == pytest.approx(0.01 * len(done))
    per_idea = {
        idea.id: sum(v.kind is VariantKind.ATTEMPT for v in tree.of_idea(idea.id)) for idea in tree.ideas.values()
    }
    assert {2} == {per_idea[idea.id] for idea in tree.ideas.values() if idea.status is IdeaStatus.APPROVED}
    assert all(v.state is VariantState.DONE for v in tree.variants.values())


def has_begun(folder: Path, process: subprocess.Popen[str]) -> bool:
    return read(folder).status.pid == process.pid or process.poll() is not None


def check_consistent(folder: Path) -> None:
    """Every id that is named exists, and every candidate and verdict can be read."""
    with Store.open(folder) as store:
        tree = store.read_tree()
        for variant in tree.variants.values():
            assert variant.idea is None or variant.idea in tree.ideas
            assert variant.parent is None or variant.parent in tree.variants
            assert variant.call is None or variant.call in tree.calls
            assert variant.candidate is None or store.read_candidate(variant.candidate)
            assert variant.outcome is None or variant.same_as or store.read_verdict(variant.id)
        for idea in tree.ideas.values():
            assert idea.call is None or tree.calls[idea.call].state is CallState.DONE
    with closing(sqlite3.connect(folder / "session.db")) as database:
        assert [("ok",)] == database.execute("PRAGMA integrity_check").fetchall()


def wait_for(holds: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_engine_soon_and_the_session_stays_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    folder = make(tmp_path, authors=(LLM,))
    process = start_engine(folder, tmp_path / "log", delay=30)
    wait_for(lambda: any(v.state is VariantState.COMPILING for v in read(folder).variants.values()))
    process.send_signal(number)
    begun = time.monotonic()
    out, _ = process.communicate(timeout=30)
    assert time.monotonic() - begun < 10  # two seconds of ours, and a slow interpreter's exit
    assert "running" == out.strip()
    status = read(folder).status
    assert (SessionState.RUNNING, None) == (status.state, status.pid)
    assert {VariantState.WRITTEN} == {v.state for v in read(folder).variants.values()}


async def test_an_idle_engine_writes_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path, review=True)
    async with running(folder) as viewer:
        await viewer.until(lambda t: "wait to be approved" in t.status.reason)
        await asyncio.sleep(0.5)
        version = viewer.store.data_version()
        await asyncio.sleep(1.0)
        assert viewer.store.data_version() - version <= 1


async def test_what_is_pasted_in_is_judged_though_no_author_is_left(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1, variants=1)
    author = FakeAuthor(failures=[AuthorStopped("no key")] * 9)
    async with running(folder, authors={LLM.label: author}) as viewer:
        await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
        await viewer.decide(DecisionKind.INJECT, source="// time_us: 3\nint k;")
        await viewer.until(lambda t: t.status.state is SessionState.PAUSED and t.best() and t.best().median_us == 3.0)
    assert 2 == len(author.asked)  # about the reference and the starter, at once; nothing since


async def test_an_author_added_to_the_file_is_asked(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(LLM,), rounds=1, ideas=1, variants=1)
    late = AuthorSettings(kind="gemini", model="late")
    given = {LLM.label: FakeAuthor(failures=[AuthorStopped("no key")]), late.label: FakeAuthor(settings=late)}
    async with running(folder, authors=given) as viewer:
        await viewer.until(lambda t: t.status.state is SessionState.PAUSED)
        viewer.store.write_settings(replace(viewer.store.settings(), authors=(LLM, late)))
        await viewer.decide(DecisionKind.RESUME)
        await viewer.until(finished)
    assert {LLM.label, late.label} >= {call.author for call in read(folder).calls.values()} >= {late.label}


async def test_changed_settings_of_an_author_count_from_the_next_question_on(tmp_path: Path) -> None:
    program = AuthorSettings(kind="command", name="agent", command=("cat",))
    with Store.open(make(tmp_path, authors=(program,)), write=True) as store:
        tree = store.read_tree()
        session = Session(store=store, tree=tree, settings=tree.settings, problem=store.read_problem())
        roster = Roster(session, {})
        await roster.call()
        first = session.authors["agent"]
        session.settings = replace(tree.settings, authors=(replace(program, share=3.0),))
        await roster.call()
        assert first is session.authors["agent"]
        session.settings = replace(tree.settings, authors=(replace(program, timeout_s=5.0),))
        await roster.call()
        assert [session.authors["agent"], first] == roster.everyone
        changed = session.authors["agent"]
        assert isinstance(changed, CommandAuthor) and 5.0 == changed.settings.timeout_s
        said = "agent is asked with its new settings from now on"
        assert said in [event.text for event in store.read_events()]


async def test_an_author_that_waits_for_its_provider_says_until_when(tmp_path: Path) -> None:
    author = FakeAuthor(delay_s=60.0, limited_s=20.0)
    folder = make(tmp_path, authors=(LLM,), rounds=1)
    async with running(folder, authors={LLM.label: author}) as viewer:
        tree = await viewer.until(lambda t: any(worker.until for worker in t.status.workers))
        (waits, *_) = [worker for worker in tree.status.workers if worker.until]
        assert waits.name.startswith(f"author {LLM.label} ")
        assert 18 < waits.until - time.time() <= 21
        author.limited_s = 0.0
        await viewer.until(lambda t: t.status.workers and not any(worker.until for worker in t.status.workers))
