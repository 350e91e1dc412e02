"""What a round will take: worst cases before anything was measured, the session's own rounds after."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes import FakeAuthor, FakeEvaluator, problem_folder
from hypothesis import given, settings
from test_search import LLM, OTHER, PLAYBOOK, asked, configs, correct, idea, setting, tree_of, trees

from kerneltui.cli import group
from kerneltui.engine import run_session
from kerneltui.engine.forecasting import forecast_of, worst_cases
from kerneltui.errors import UsageError
from kerneltui.records import AuthorSettings, Budget, CallState, Event, Settings, VariantKind
from kerneltui.search.forecast import HISTORY, WORST, forecast, words
from kerneltui.store import Store

CASES = {LLM.label: (1000, 0.1), OTHER.label: (2000, None), "playbook": (0, 0.0)}


def test_the_first_round_is_told_by_its_worst_case() -> None:
    config = setting(ideas=4, variants=3, repairs=1, beam=2, sweep_points=5)
    found = forecast(tree_of(round=0), config, CASES, parents=("", "v1"))
    assert (1, 2, 8, 2 + 24 + 24) == (found.round, found.parents, found.ideas, found.calls)
    assert 24 + 24 + 10 == found.evaluations
    assert (50_000, 5.0, 0, None, WORST) == (
        found.tokens,
        pytest.approx(found.usd),
        found.unknown_calls,
        found.wall_s,
        found.basis,
    )
    assert words(found).startswith("round 1: at most 50 questions, 50,000 tokens, $5.00, 58 evaluations, time unknown")


def test_an_unknown_price_is_counted_not_added() -> None:
    config = setting(ideas=3, variants=1, repairs=0, sweep_points=0, authors=(LLM, replace(OTHER, share=1.0)))
    found = forecast(tree_of(round=0), config, CASES, parents=("",))
    assert (5, 2, pytest.approx(0.3)) == (found.calls, found.unknown_calls, found.usd)
    assert "$0.30 and 2 questions of unknown cost" in words(found)
    nobody_knows = forecast(tree_of(round=0), replace(config, authors=(OTHER,)), CASES, parents=("",))
    assert "dollars unknown" in words(nobody_knows)
    assert 0.0 == nobody_knows.usd


def test_a_playbook_asks_nothing_that_costs() -> None:
    found = forecast(tree_of(round=0), setting(authors=(PLAYBOOK,), sweep_points=0, repairs=1), CASES, parents=("",))
    assert (0, 0, 0.0, 12) == (found.calls, found.tokens, found.usd, found.evaluations)


def test_later_rounds_are_told_by_those_before() -> None:
    config = setting(ideas=2, variants=2, repairs=2, beam=2, sweep_points=4)
    tree = tree_of(
        asked(1, cost_usd=0.2, tokens_in=10, tokens_out=10),
        idea("i1", call=1),
        *[correct(f"v{n}", 100 + n, idea="i1") for n in (1, 2)],
        correct("v3", 99, idea="i1", kind=VariantKind.REPAIR, parent="v2"),
        asked(2, cost_usd=0.02, tokens_in=50, tokens_out=50, purpose="write"),
        asked(3, cost_usd=0.04, tokens_in=100, tokens_out=100, purpose="write"),
        asked(4, cost_usd=9.0, purpose="write", state=CallState.FAILED),
        active_s=60.0,
    )
    found = forecast(tree, config, CASES, parents=("v1", "v2"))
    assert (2, 2, HISTORY) == (found.round, found.ideas, found.basis)  # one idea came of two asked for
    assert (2 + 4 + 2, 4 + 2) == (found.calls, found.evaluations)  # every second variant was mended
    any_call = (0.2 + 0.02 + 0.04) / 3  # no repair was asked for yet
    assert found.usd == pytest.approx(2 * 0.2 + 4 * 0.03 + 2 * any_call)
    assert 2 * 20 + 4 * 150 + round(2 * (20 + 100 + 200) / 3) == found.tokens
    assert found.wall_s == pytest.approx(60 / 3 * 6)


@pytest.mark.parametrize(
    ("budget", "remark"),
    [
        (Budget(usd=1.0), "more than the $1.00 left of $1.00"),
        (Budget(tokens=5), "more than the 5 tokens left"),
        (Budget(evaluations=3), "more than the 3 evaluations left"),
    ],
)
def test_what_does_not_fit_is_said(budget: Budget, remark: str) -> None:
    assert remark in words(forecast(tree_of(round=0), setting(budget=budget), CASES, parents=("",)))
    assert () == forecast(tree_of(round=0), setting(), CASES, parents=("",)).remarks


def test_authors_that_are_out_are_not_counted() -> None:
    found = forecast(tree_of(round=0), setting(), CASES, parents=("",), out=[LLM.label])
    assert (0, 0) == (found.calls, found.ideas)


@settings(max_examples=150, deadline=None)
@given(trees(), configs)
def test_any_tree_has_one_forecast_and_is_left_alone(tree: Any, config: Settings) -> None:
    before = copy.deepcopy(tree)
    found = forecast(tree, config, CASES)
    assert before == tree
    assert found == forecast(before, config, CASES)
    assert min(found.calls, found.ideas, found.evaluations, found.usd, found.unknown_calls) >= 0
    assert words(found).startswith(f"round {found.round}: ")


# --------------------------------------------------------------------------- in a session


async def test_it_is_said_before_each_round_opens(tmp_path: Path) -> None:
    config = Settings(problem="fake", rounds=2, ideas=1, variants=1, beam=1, sweep_points=0, authors=(LLM,))
    Store.create(tmp_path / "s", config, problem_folder(tmp_path)).close()
    events: list[Event] = []
    author = FakeAuthor(settings=LLM)
    await run_session(tmp_path / "s", evaluator=FakeEvaluator(), authors={LLM.label: author}, on_event=events.append)
    said = [(event.kind, event.text.split(":")[0]) for event in events if event.kind in ("forecast", "round")]
    assert [
        ("forecast", "round 1"),
        ("round", "round 1 of 2"),
        ("forecast", "round 2"),
        ("round", "round 2 of 2"),
    ] == said
    texts = [event.text for event in events if event.kind == "forecast"]
    assert "at most" in texts[0] and WORST in texts[0]
    assert "about" in texts[1] and "$0.0" in texts[1]


def test_the_command_tells_it_and_tells_it_before_a_cap_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    config = Settings(problem="fake", authors=(AuthorSettings(kind="openai", model="o3", max_tokens=1000),))
    Store.create(tmp_path / "s", config, problem_folder(tmp_path)).close()
    told = CliRunner().invoke(group, ["budget", "s", "--forecast"])
    assert told.stdout.startswith("forecast: round 1: at most ")
    assert 1 == json.loads(CliRunner().invoke(group, ["budget", "s", "--forecast", "--json"]).stdout)["round"]
    with Store.open(tmp_path / "s") as store:
        assert [] == store.read_decisions()
        assert forecast_of(store).usd > 0
    raised = CliRunner().invoke(group, ["budget", "s", "--usd", "9"])
    assert raised.stderr.startswith("forecast: round 1")
    assert "budget: decision 1" in raised.stdout
    both = CliRunner().invoke(group, ["budget", "s", "--usd", "9", "--forecast"])
    assert isinstance(both.exception, UsageError)


def test_worst_cases_know_what_is_free_and_what_nobody_knows() -> None:
    free = AuthorSettings(kind="openai", model="mine", price_in_usd=0, price_out_usd=0, max_tokens=100)
    unknown = AuthorSettings(kind="command", command=("x",), name="x")
    found = worst_cases((PLAYBOOK, free, unknown), "a prompt")
    assert ((0, 0.0), 0.0, (None, None)) == (found["playbook"], found[free.label][1], found["x"])
