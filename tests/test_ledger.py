"""Which techniques paid: forecasts read as figures, gains over parents, rows that derive from the tree alone."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes import FakeAuthor, FakeEvaluator, problem_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.authors import Answer, Ask, IdeaDraft
from kerneltui.cli import group
from kerneltui.engine import run_session
from kerneltui.records import (
    AuthorSettings,
    Badge,
    Device,
    EngineStatus,
    Idea,
    IdeaStatus,
    Language,
    Outcome,
    Settings,
    Speedup,
    Tree,
    Variant,
    VariantKind,
    VariantState,
)
from kerneltui.search.expectation import Expectation, parse_expectation
from kerneltui.search.ledger import NOT_NAMED, ledger, lines, outcomes, stems
from kerneltui.store import Store

# --------------------------------------------------------------------------- forecasts


@pytest.mark.parametrize(
    ("text", "low", "high", "against"),
    [
        ("1.5-4x", 1.5, 4, "parent"),
        ("1.5–4x over a scalar library call", 1.5, 4, "a scalar library call"),
        ("1.5x to 2x", 1.5, 2, "parent"),
        ("about 2×, since half the traffic goes", 2, 2, "parent"),
        ("up to 1.2x", 1, 1.2, "parent"),
        ("at least 2x", 2, None, "parent"),
        ("2x+", 2, None, "parent"),
        ("2.5-fold", 2.5, 2.5, "parent"),
        ("3 times faster than PyTorch", 3, 3, "eager"),
        ("2x vs eager", 2, 2, "eager"),
        ("1.3x over the parent", 1.3, 1.3, "parent"),
        ("20-30 % faster", 1.2, 1.3, "parent"),
        ("+15%", 1.15, 1.15, "parent"),
        ("5% slower", 0.95, 0.95, "parent"),
        ("50% less time", 2, 2, "parent"),
        ("reduces the time by about 50%", 2, 2, "parent"),
        ("speedup of 1.3", 1.3, 1.3, "parent"),
        ("twice as fast", 2, 2, "parent"),
        ("a few percent, seldom more", 1.01, 1.05, "parent"),
        ("an order of magnitude", 10, 10, "parent"),
        ("no change on this shape", 1, 1, "parent"),
        ("1,5x", 1.5, 1.5, "parent"),
    ],
)
def test_forecasts_are_read_as_figures(text: str, low: float, high: float | None, against: str) -> None:
    found = parse_expectation(text)
    assert found is not None
    assert (pytest.approx(low), high if high is None else pytest.approx(high), against) == (
        found.low,
        found.high,
        found.against,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nearly the number of cores",
        "80-90% of a tuned library",
        "64 to 128 threads",
        "0x",
        "9999999x",
        "1.2",
        "saves memory traffic by 30%",
        "up to a third less traffic",
        "100% less time",
    ],
)
def test_what_states_no_gain_is_no_forecast(text: str) -> None:
    assert parse_expectation(text) is None


@given(st.text(max_size=80) | st.from_regex(r"[\d.,x%× to-]{0,20}( over | than )?[a-z ]{0,10}"))
def test_no_text_breaks_the_reader_of_forecasts(text: str) -> None:
    found = parse_expectation(text)
    assert found is None or (found.low > 0 and (found.high is None or found.high >= found.low))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Vectorised loads", "vector loads"),
        ("load vectorization", "Vectorized load"),
        ("Tiling", "tiles"),
        ("loop unrolling", "unroll the loops"),
        ("warp shuffles", "using warp-shuffle"),
    ],
)
def test_one_technique_has_many_spellings(one: str, other: str) -> None:
    assert stems(one) == stems(other)


# --------------------------------------------------------------------------- rows


def made(id_: str, idea: str | None, ratio: float | None, spread: float = 0.01, **changes: Any) -> Variant:
    speedup = Speedup(ratio=ratio, low=ratio / (1 + spread), high=ratio * (1 + spread), tie=False) if ratio else None
    plain = Variant(
        id=id_,
        idea=idea,
        round=1,
        language=Language.CPP,
        candidate=id_,
        state=VariantState.DONE,
        outcome=Outcome.CORRECT if ratio else Outcome.MISMATCH,
        median_us=1000 / ratio if ratio else None,
        speedup=speedup,
        badge=Badge.MEASURED if ratio else None,
        world="w",
    )
    return replace(plain, **changes)


def card(id_: str, technique: str, expected: str = "", **changes: Any) -> Idea:
    return Idea(id=id_, round=1, title=f"title {id_}", technique=technique, expected=expected, **changes)


def tree_of(*nodes: Idea | Variant) -> Tree:
    device = Device(id="cpu:0", kind="cpu", name="Some CPU")
    tree = Tree(settings=Settings(problem="p"), status=EngineStatus(device=device, worlds=("w",)))
    for node in nodes:
        (tree.ideas if isinstance(node, Idea) else tree.variants)[node.id] = node  # type: ignore[index]
    return tree


def test_a_row_gathers_what_one_technique_achieved() -> None:
    tree = tree_of(
        made("v0", None, 2.0),
        card("i1", "Vector loads", "1.2-1.6x", parent="v0"),
        made("v1", "i1", 3.0, parent="v0"),
        made("v2", "i1", None, parent="v0"),
        card("i2", "vectorised load", "4x", parent="v0"),
        made("v3", "i2", 2.2, parent="v0"),
        made("v4", "i2", 2.4, parent="v3", kind=VariantKind.SWEEP),
        card("i3", "tiles"),
        made("v5", "i3", None),
        made("v6", "i3", 1.5, parent="v5", kind=VariantKind.REPAIR),
    )
    vector, tiles = sorted(ledger([tree]), key=lambda row: -row.ideas)
    assert ("Vector loads", 2, 3, 2, "Some CPU") == (
        vector.technique,
        vector.ideas,
        vector.variants,
        vector.correct,
        vector.device,
    )
    assert vector.best is not None and vector.median is not None
    assert (1.5, 1.3) == (pytest.approx(vector.best.ratio), pytest.approx(vector.median.ratio))
    assert (pytest.approx(1.1), pytest.approx(1.5)) == (vector.median.low, vector.median.high)
    assert math.log(vector.best.high / vector.best.ratio) == pytest.approx(math.hypot(*[math.log(1.01)] * 2))
    assert (2.6, 2.8, {"met": 1, "short": 1}) == (vector.expected_low, vector.expected_high, vector.words)
    assert ("tiles", 1, 1, 1.0) == (tiles.technique, tiles.variants, tiles.correct, tiles.share)
    assert tiles.median is not None
    assert 1.5 == tiles.median.ratio  # from the reference: the gain is over eager
    assert (
        "Vector loads: 2 ideas, 2 of 3 variants correct, median 1.30x [1.10, 1.50], best 1.50x over the parent,"
        " forecasts: 1 met, 1 short"
    ) in lines(ledger([tree]))


@pytest.mark.parametrize(
    ("expected", "ratio", "spread", "word"),
    [
        ("1.4-1.6x", 1.5, 0.01, "met"),
        ("1.4x", 1.2, 0.01, "short"),
        ("1.4x", 1.3, 0.2, "met"),  # too noisy to deny it
        ("1.1x", 1.5, 0.01, "beyond"),
        ("at least 1.1x", 9.0, 0.01, "met"),
        ("2x over PyTorch", 1.0, 0.01, "met"),  # the parent is twice as fast as eager already
        ("2x over a scalar loop", 1.5, 0.01, "not comparable"),
        ("much", 1.5, 0.01, "no forecast"),
        ("2x", None, 0.01, "failed"),
    ],
)
def test_forecasts_are_held_against_what_came(expected: str, ratio: float | None, spread: float, word: str) -> None:
    own = made("v1", "i1", ratio * 2 if ratio else None, spread, parent="v0")
    tree = tree_of(made("v0", None, 2.0, 0.001), card("i1", "t", expected, parent="v0"), own)
    assert word == outcomes(tree)[0].word


def test_what_is_under_way_is_open() -> None:
    waiting = replace(made("v1", "i1", None), state=VariantState.RUNNING, outcome=None)
    assert "open" == outcomes(tree_of(card("i1", "t", "2x"), waiting))[0].word


def test_merged_untried_and_foreign_count_for_nothing() -> None:
    tree = tree_of(
        card("i1", "a", status=IdeaStatus.MERGED),
        made("v1", "i1", 2.0),
        card("i2", "b"),
        card("i3", "c"),
        made("v3", "i3", 2.0, world="elsewhere"),
    )
    (row,) = ledger([tree])
    assert ("c", 1, 0, None) == (row.technique, row.variants, row.correct, row.best)


def test_sessions_on_one_device_share_rows_and_others_do_not() -> None:
    one = tree_of(card("i1", "tiling"), made("v1", "i1", 2.0))
    other = tree_of(card("i1", "tiles"), made("v1", "i1", 3.0))
    gpu = tree_of(card("i1", "tiles"), made("v1", "i1", 3.0))
    gpu.status = replace(gpu.status, device=Device(id="cuda:0", kind="cuda", name="Some GPU"))
    assert [("Some CPU", 2), ("Some GPU", 1)] == [(row.device, row.ideas) for row in ledger([one, other, gpu])]


names = st.sampled_from(["", "tiling", "Tiles", "vector loads", "vectorised loads", "fusion", "µ", "a", "the"])
ratios = st.none() | st.floats(0.01, 100)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(names, st.lists(ratios, max_size=4), st.sampled_from(["", "2x", "1-2x"])), max_size=8))
def test_any_tree_adds_up_and_is_left_alone(ideas: list[tuple[str, list[float | None], str]]) -> None:
    tree = tree_of()
    for number, (technique, found, expected) in enumerate(ideas):
        tree.ideas[f"i{number}"] = card(f"i{number}", technique, expected)
        for ratio in found:
            id_ = f"v{len(tree.variants)}"
            tree.variants[id_] = made(id_, f"i{number}", ratio)
    before = copy.deepcopy(tree)
    rows = ledger([tree])
    assert before == tree
    assert sum(len(found) for _, found, _ in ideas) == sum(row.variants for row in rows)
    assert sum(bool(found) for _, found, _ in ideas) == sum(row.ideas for row in rows)
    for row in rows:
        assert row.correct <= row.variants
        assert row.ideas == sum(row.words.values())
        assert row.median is None or row.median.low <= row.median.ratio <= row.median.high
        assert row.best is None or row.median is None or row.best.ratio >= row.median.ratio * (1 - 1e-9)
    assert not any(line.startswith(NOT_NAMED) for line in lines(rows))


# --------------------------------------------------------------------------- in a session


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Ask]:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    llm = AuthorSettings(kind="openai", model="fake")
    config = Settings(problem="fake", rounds=2, ideas=1, variants=1, beam=1, sweep_points=0, authors=(llm,))
    Store.create(tmp_path / "s", config, problem_folder(tmp_path)).close()
    author = FakeAuthor(script=answer)
    await run_session(tmp_path / "s", evaluator=FakeEvaluator(), authors={llm.label: author})
    return author.asked


def answer(ask: Ask, number: int) -> Answer:
    if ask.purpose == "ideas":
        topic = f"{ask.material.round} {ask.material.parent.id if ask.material.parent else ''}"
        return Answer(ideas=(IdeaDraft(title=topic, technique="tiling", expected="up to 1.1x"),))
    return Answer(source=f"// time_us: {400 / number}\nint k;", language=Language.CPP)


async def test_later_prompts_carry_the_ledger(session: list[Ask]) -> None:
    first = [ask for ask in session if ask.material.round == 1 and ask.purpose == "ideas"]
    later = [ask for ask in session if ask.material.round == 2 and ask.purpose == "ideas"]
    assert {()} == {ask.material.ledger for ask in first}
    assert all(ask.material.ledger[0].startswith("tiling: 2 ideas, 2 of 2 variants correct") for ask in later)


async def test_the_command_prints_rows_ideas_and_json(session: list[Ask]) -> None:
    rows = CliRunner().invoke(group, ["ledger", "s"]).stdout
    assert ("technique", "tiling") == tuple(line.split()[0] for line in rows.splitlines())
    ideas = CliRunner().invoke(group, ["ledger", "s", "--ideas"]).stdout
    assert ["i001", "beyond"] == [word for word in ideas.splitlines()[1].split() if word in ("i001", "beyond")]
    found = json.loads(CliRunner().invoke(group, ["ledger", "s", "s", "--json"]).stdout)
    assert ["techniques", "ideas"] == list(found)
    assert (1.0, 3) == (found["techniques"][0]["correct_share"], found["techniques"][0]["ideas"])
    assert Expectation(**found["ideas"]["s"][0]["expected"]) == parse_expectation("up to 1.1x")
