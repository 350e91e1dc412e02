"""Recorded sessions through the search again: the same tree without network, clock or device, or the first difference."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes import FakeAuthor, FakeEvaluator, problem_folder

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.parsing import read_answer
from kerneltui.cli import group
from kerneltui.engine import asking, judging, loop, run_session
from kerneltui.engine.replaying import Replayed, replay
from kerneltui.errors import AuthorStopped, AuthorUnavailable
from kerneltui.records import (
    AuthorSettings,
    Budget,
    DecisionKind,
    IdeaStatus,
    SessionState,
    Settings,
    Tree,
    VariantKind,
    encode,
)
from kerneltui.store import Store

DATA = Path(__file__).parent / "data"
ONE = AuthorSettings(kind="openai", model="one")
TWO = AuthorSettings(kind="gemini", model="two", share=2.0)
TOPICS = ("vector loads", "shared tiles", "loop order", "prefetching", "fewer barriers", "warp shuffles", "loop order")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "BACK_OFF_S", 0.01)
    monkeypatch.setattr(judging, "TWIN_POLL_S", 0.01)
    monkeypatch.setattr(asking, "BACK_OFF_S", 0.01)
    monkeypatch.setattr(loop, "REPLAN_S", 0.05)
    monkeypatch.setattr(loop, "TURN_S", 0.01)


@dataclass
class Writer(FakeAuthor):
    """Answers in text, as a model does: repeats itself, fails, forgets the code, declares tunables; by a seed."""

    dice: random.Random = field(default_factory=lambda: random.Random(1))

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        self.asked.append(ask)
        await asyncio.sleep(self.dice.uniform(0, 0.02))
        if self.failures:
            raise self.failures.pop(0)
        text = self._ideas(ask) if ask.purpose == "ideas" else self._source(ask)
        reply = Reply(text=text, model="fake", finish_reason="stop", tokens_in=100, tokens_out=200, cost_usd=0.01)
        return read_answer(ask, reply)

    def _ideas(self, ask: Ask) -> str:
        ideas = [
            {"title": topic, "text": f"{topic} on {ask.material.parent_source[:20]!r}", "technique": topic}
            for topic in self.dice.choices(TOPICS, k=ask.count)
        ]
        return f"Here they are.\n```json\n{json.dumps({'ideas': ideas})}\n```"

    def _source(self, ask: Ask) -> str:
        if self.dice.random() < 0.1:
            return "I would rather not."
        outcome = "mismatch" if self.dice.random() < 0.3 else "correct"
        time_us = self.dice.choice([700, 500, 300, 200]) / ask.material.round
        tune = "// tune: BLOCK = 64, 128, 256\n// TIMES_BLOCK_64: 0.9\n" if self.dice.random() < 0.4 else ""
        code = f'// outcome: {outcome}\n// time_us: {time_us}\n{tune}extern "C" int fake(const float* x)\n{{ return 0; }}\n'
        return f"As asked:\n```cpp\n{code}```\n"


def make(tmp_path: Path, **changes: Any) -> Path:
    defaults = {"problem": "fake", "rounds": 3, "ideas": 3, "variants": 2, "beam": 2, "sweep_points": 3}
    folder = tmp_path / "s"
    settings = Settings(**{**defaults, "authors": (ONE, TWO), **changes})  # type: ignore[arg-type]
    Store.create(folder, settings, problem_folder(tmp_path)).close()
    return folder


def writers(seed: int, *authors: AuthorSettings) -> dict[str, Writer]:
    return {a.label: Writer(settings=a, dice=random.Random(f"{seed} {a.label}")) for a in authors}


def played(folder: Path, work: Path) -> Replayed:
    shutil.rmtree(work, ignore_errors=True)
    with Store.open(folder) as store:
        return replay(store, work)


def read(folder: Path) -> Tree:
    with Store.open(folder) as store:
        return store.read_tree()


def check_same(folder: Path, work: Path) -> Tree:
    """The replay finds the same tree, and the work folder holds it."""
    found = played(folder, work)
    assert not found.difference, found.difference
    then, now = read(folder), read(work)
    assert {i.id: (i.parent, i.status, i.merged_into) for i in then.ideas.values()} == {
        i.id: (i.parent, i.status, i.merged_into) for i in now.ideas.values()
    }
    assert {v.id: (v.parent, v.candidate, v.outcome) for v in then.variants.values()} == {
        v.id: (v.parent, v.candidate, v.outcome) for v in now.variants.values()
    }
    return then


# --------------------------------------------------------------------------- the same


@pytest.mark.parametrize("seed", range(4))
async def test_a_search_with_two_models_comes_out_the_same(tmp_path: Path, seed: int) -> None:
    shares = "bandit" if seed % 2 else "fixed"
    folder = make(tmp_path, seed=seed, wildcard=0.5, shares=shares, repairs=2)
    evaluator = FakeEvaluator(delay_s=0.005)
    status = await run_session(folder, evaluator=evaluator, authors=writers(seed, ONE, TWO))
    assert SessionState.FINISHED is status.state
    tree = check_same(folder, tmp_path / "again")
    kinds = {variant.kind for variant in tree.variants.values()}
    assert {VariantKind.STARTER, VariantKind.ATTEMPT, VariantKind.REPAIR} <= kinds


async def test_a_playbook_comes_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path, authors=(AuthorSettings(kind="playbook"),))
    await run_session(folder, evaluator=FakeEvaluator(delay_s=0.002))
    tree = check_same(folder, tmp_path / "again")
    assert any(variant.kind is VariantKind.SWEEP for variant in tree.variants.values())


async def test_failures_and_a_full_purse_come_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path, budget=Budget(usd=0.15), repairs=1)
    authors = writers(7, ONE, TWO)
    authors[ONE.label].failures = [AuthorUnavailable("later", retry_after_s=0.05)]
    authors[TWO.label].failures = [AuthorUnavailable("later", retry_after_s=0.05), AuthorStopped("no such model")]
    status = await run_session(folder, evaluator=FakeEvaluator(), authors=authors)
    assert "left, the next call may cost" in status.reason
    check_same(folder, tmp_path / "again")


async def test_a_target_and_evaluations_come_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path, budget=Budget(evaluations=12))
    await run_session(folder, evaluator=FakeEvaluator(), authors=writers(3, ONE, TWO))
    check_same(folder, tmp_path / "again")


async def test_what_people_did_comes_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path, review=True, rounds=2, authors=(ONE,))
    author = writers(5, ONE)
    source = '```cpp\n// time_us: 90\nextern "C" int fake(const float* x) { return 0; }\n```'
    with Store.open(folder) as store:
        task = asyncio.create_task(run_session(folder, evaluator=FakeEvaluator(delay_s=0.005), authors=author))

        async def until(holds: Callable[[Tree], Any]) -> Tree:
            for _ in range(3000):
                if holds(tree := store.read_tree()):
                    return tree
                assert not task.done(), await task
                await asyncio.sleep(0.01)
            raise AssertionError("never came true")

        async def decide(kind: DecisionKind, target: str = "", **payload: Any) -> None:
            number = store.add_decision(kind, target, payload, "ada")
            for _ in range(1000):
                (found,) = [d for d in store.read_decisions() if d.id == number]
                if found.state != "pending":
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("never answered")

        await decide(DecisionKind.INJECT, source="// time_us: 300\nint k;")
        tree = await until(lambda t: "wait to be approved" in t.status.reason)
        first, second, *_ = [i.id for i in tree.ideas.values() if i.status is IdeaStatus.PROPOSED]
        await decide(DecisionKind.EDIT, first, text="otherwise")
        await decide(DecisionKind.REJECT, second)
        await decide(DecisionKind.ADD_IDEA, title="mine", text="my own")
        await decide(DecisionKind.ANSWER, first, text=source)
        await decide(DecisionKind.ANSWER, first, text="nothing in it")
        await decide(DecisionKind.EXPAND, first, count=2)
        await decide(DecisionKind.PRUNE, "v00002")
        await decide(DecisionKind.RESTORE, "v00002")
        await decide(DecisionKind.PIN, "v00001")
        await decide(DecisionKind.CERTIFY, "v00001")
        for _ in range(12):
            waiting = [i.id for i in store.read_tree().ideas.values() if i.status is IdeaStatus.PROPOSED]
            for idea in waiting:
                await decide(DecisionKind.APPROVE, idea)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), 0.3)
            if task.done():
                break
        await task
    tree = check_same(folder, tmp_path / "again")
    assert any(v.kind is VariantKind.HAND for v in tree.variants.values())


async def test_an_engine_that_was_cut_off_comes_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path)
    for seed in range(6):
        task = asyncio.create_task(
            run_session(folder, evaluator=FakeEvaluator(delay_s=0.01), authors=writers(seed, ONE, TWO))
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.25)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        check_same(folder, tmp_path / "again")
    await run_session(folder, evaluator=FakeEvaluator(), authors=writers(9, ONE, TWO))
    check_same(folder, tmp_path / "again")


async def test_a_search_that_was_given_more_comes_out_the_same(tmp_path: Path) -> None:
    folder = make(tmp_path, rounds=1)
    await run_session(folder, evaluator=FakeEvaluator(), authors=writers(1, ONE, TWO))
    with Store.open(folder) as store:
        store.add_decision(DecisionKind.BUDGET, "", {"rounds": 2}, "ada")
    await run_session(folder, evaluator=FakeEvaluator(), authors=writers(2, ONE, TWO))
    assert 2 == read(folder).status.round
    check_same(folder, tmp_path / "again")


# --------------------------------------------------------------------------- recorded sessions


def unpack(name: str, tmp_path: Path) -> Path:
    """A session from tests/data: session.toml and session.db."""
    with tarfile.open(DATA / name) as archive:
        archive.extractall(tmp_path / "recorded", filter="data")
    (folder,) = (tmp_path / "recorded").iterdir()
    return folder


@pytest.mark.parametrize(
    ("name", "rounds", "variants"),
    [("softmax-on-a-cpu.tar.xz", 3, 18), ("two-models.tar.xz", 3, 36)],
)
def test_recorded_sessions_come_out_the_same(tmp_path: Path, name: str, rounds: int, variants: int) -> None:
    folder = unpack(name, tmp_path)
    check_same(folder, tmp_path / "again")
    done = CliRunner().invoke(group, ["replay", str(folder), "--json"])
    assert 0 == done.exit_code, done.output
    told = json.loads(done.stdout)
    assert (rounds, variants, "") == (len(told["rounds"]), told["variants"], told["difference"])
    words = CliRunner().invoke(group, ["replay", str(folder)])
    assert (0, rounds + 1) == (words.exit_code, len(words.stdout.splitlines()))
    assert "the same tree" in words.stdout


# --------------------------------------------------------------------------- not the same


def change(folder: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "session.db")) as database:
        assert database.execute(sql, values).rowcount > 0
        database.commit()


def spoil_answer(folder: Path) -> str:
    with Store.open(folder) as store:
        row = next(v for v in store.read_tree().variants.values() if v.call and v.candidate and v.outcome)
        text = store.read_call(row.call or 0).answer.replace("return 0", "return 1")
    change(folder, "UPDATE call SET answer = ? WHERE id = ?", text, row.call)
    return f"{row.id}: candidate was"


def lose_ideas(folder: Path) -> str:
    number = next(idea.call for idea in read(folder).ideas.values())
    change(folder, "UPDATE call SET answer = 'Sorry.' WHERE id = ?", number)
    return f"answer {number} gave the ideas"


def narrow_beam(folder: Path) -> str:
    with Store.open(folder) as store:
        store.write_settings(replace(store.settings(), beam=1))
    return "round 2 started from"


def more_rounds(folder: Path) -> str:
    with Store.open(folder) as store:
        store.write_settings(replace(store.settings(), rounds=9))
    return "it finished with: all 3 rounds are done; here the search asks for: open with round 4"


def fewer_variants(folder: Path) -> str:
    with Store.open(folder) as store:
        store.write_settings(replace(store.settings(), variants=1))
    return "recorded is write with"


def faster_verdict(folder: Path) -> str:
    slow = [variant for variant in read(folder).correct() if variant.round == 3][-1]
    was = f'"ratio":{slow.speedup.ratio}' if slow.speedup else ""
    change(folder, "UPDATE verdict SET body = replace(body, ?, '\"ratio\":99.0') WHERE variant = ?", was, slow.id)
    return f"the best was {read(folder).status.best}; here it is {slow.id}"


def lost_row(folder: Path) -> str:
    with Store.open(folder) as store:
        last = list(store.read_tree().variants)[-1]
    change(folder, "DELETE FROM variant WHERE id = ?", last)
    return last


SPOILT = [spoil_answer, lose_ideas, narrow_beam, more_rounds, fewer_variants, faster_verdict, lost_row]


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_the_first_difference_is_told(tmp_path: Path, spoil: Callable[[Path], str]) -> None:
    folder = unpack("two-models.tar.xz", tmp_path)
    told = spoil(folder)
    done = CliRunner().invoke(group, ["replay", str(folder)])
    assert 1 == done.exit_code, done.output
    assert told in done.stdout.splitlines()[-1]
    assert "different after" in done.stdout


def test_a_session_that_never_ran_has_nothing_to_replay(tmp_path: Path) -> None:
    done = CliRunner().invoke(group, ["replay", str(make(tmp_path))])
    assert "was not prepared yet" in str(done.exception)


def test_a_replay_can_be_kept(tmp_path: Path) -> None:
    folder = unpack("two-models.tar.xz", tmp_path)
    assert 0 == CliRunner().invoke(group, ["replay", str(folder), "--keep", str(tmp_path / "kept")]).exit_code
    assert read(folder).ideas.keys() == read(tmp_path / "kept").ideas.keys()


def record(folder: Path, archive: Path) -> None:
    """Pack a session as test data, without what only its machine knows: paths and the name of the host."""
    with Store.open(folder, write=True) as store:
        problem = store.read_problem()
        plain = replace(problem, path="reference.py", folder=None)
        store._set_meta("problem", encode(plain))
    with closing(sqlite3.connect(folder / "session.db")) as database:
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with tarfile.open(archive, "w:xz") as packed:
        for name in ("session.toml", "session.db"):
            packed.add(folder / name, f"{folder.name}/{name}", filter=_nobody)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
