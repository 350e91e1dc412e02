"""Shares by merit: pure, the same on every machine, never starving anyone, and worth having."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeAuthor, FakeEvaluator, problem_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.authors import Answer, Ask, IdeaDraft
from kerneltui.engine import run_session
from kerneltui.errors import SettingsError
from kerneltui.records import (
    AuthorSettings,
    Badge,
    Call,
    CallState,
    EngineStatus,
    Event,
    Idea,
    Language,
    Outcome,
    Settings,
    Speedup,
    Tree,
    Variant,
    VariantKind,
    VariantState,
)
from kerneltui.search.bandit import LEAST, arms, moved_words, shares, with_shares
from kerneltui.search.plan import next_steps
from kerneltui.search.selection import share_out
from kerneltui.search.steps import Open, Propose
from kerneltui.settings import dump_settings, parse_settings
from kerneltui.store import Store

ONE = AuthorSettings(kind="openai", model="one")
TWO = AuthorSettings(kind="gemini", model="two")
CONFIG = Settings(problem="p", shares="bandit", authors=(ONE, TWO), wildcard=0.0)


def attempt(number: int, author: AuthorSettings, ratio: float | None, **changes: Any) -> Variant:
    speedup = Speedup(ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, tie=False) if ratio else None
    plain = Variant(
        id=f"v{number:05}",
        idea="i001",
        round=1,
        author=author.label,
        candidate=str(number),
        state=VariantState.DONE,
        outcome=Outcome.CORRECT if ratio else Outcome.COMPILE_ERROR,
        median_us=100 / ratio if ratio else None,
        speedup=speedup,
        badge=Badge.MEASURED if ratio else None,
    )
    return replace(plain, **changes)


def tree_of(*nodes: Variant | Call, round: int = 1) -> Tree:
    tree = Tree(settings=CONFIG, status=EngineStatus(round=round))
    tree.ideas["i001"] = Idea(id="i001", round=1, author=ONE.label)
    for node in nodes:
        (tree.calls if isinstance(node, Call) else tree.variants)[node.id] = node  # type: ignore[index]
    return tree


def call(number: int, author: AuthorSettings, usd: float | None) -> Call:
    return Call(id=number, purpose="write", node="i001", author=author.label, state=CallState.DONE, cost_usd=usd)


def share_of(tree: Tree, author: AuthorSettings, config: Settings = CONFIG) -> float:
    return dict(shares(tree, config))[author.label]


def test_without_evidence_the_settings_hold() -> None:
    weighted = replace(CONFIG, authors=(ONE, replace(TWO, share=3.0)))
    assert ((ONE.label, 0.25), (TWO.label, 0.75)) == shares(tree_of(), weighted)
    assert "" == moved_words(tree_of(), weighted)


def test_who_finds_faster_kernels_gets_more() -> None:
    tree = tree_of(*[attempt(n, ONE, 2.0) for n in range(6)], *[attempt(n + 6, TWO, 1.0) for n in range(6)])
    assert share_of(tree, ONE) > 0.55
    assert "openai:one" in moved_words(tree, CONFIG)


def test_wrong_kernels_and_answers_without_one_cost_their_author() -> None:
    wrong = [attempt(n, TWO, None) for n in range(3)]
    none = [replace(attempt(n + 3, TWO, None), outcome=None, candidate=None, author_error="no code") for n in range(3)]
    tree = tree_of(*[attempt(n + 6, ONE, 1.0) for n in range(6)], *wrong, *none)
    assert share_of(tree, ONE) > 0.6
    assert (6, 6) == tuple(arm.pulls for arm in arms(tree, CONFIG))


def test_a_repair_and_a_sweep_count_for_the_attempt() -> None:
    failed = attempt(1, ONE, None)
    mended = attempt(2, ONE, 1.5, kind=VariantKind.REPAIR, parent=failed.id)
    tuned = replace(attempt(3, ONE, 2.0), kind=VariantKind.SWEEP, parent=mended.id, author="sweep")
    (arm, _) = arms(tree_of(failed, mended, tuned), CONFIG)
    assert (1, (0.5 * 2 + 1) / 3) == (arm.pulls, pytest.approx(arm.reward))


def test_gains_are_over_the_best_before_the_round() -> None:
    first = attempt(1, ONE, 4.0)
    second = attempt(2, TWO, 4.0, round=2)
    one, two = arms(tree_of(first, second, round=2), CONFIG)
    assert (1.0, 0.5) == ((one.reward * 3 - 1), pytest.approx(two.reward * 3 - 1))


def test_of_equals_the_cheaper_gets_more_and_an_unknown_price_is_neither() -> None:
    pulls = [attempt(n, author, 1.5) for n, author in enumerate((ONE, TWO) * 4)]
    dear = [call(1, ONE, 0.8), call(2, TWO, 0.1)]
    assert share_of(tree_of(*pulls, *dear), TWO) > 0.6
    assert 0.5 == share_of(tree_of(*pulls, call(1, ONE, None), call(2, TWO, None)), ONE)
    assert 0.5 == share_of(tree_of(*pulls, call(1, ONE, 0.5), call(2, TWO, None)), ONE)


def test_curiosity_keeps_a_little_known_author_in_play() -> None:
    many = [attempt(n, ONE, 1.0) for n in range(40)]
    assert share_of(tree_of(*many, attempt(50, TWO, 1.0)), TWO) > 0.5


def test_the_round_opens_with_shares_and_keeps_them() -> None:
    good = [attempt(n, ONE, 3.0) for n in range(8)] + [attempt(n + 8, TWO, None) for n in range(8)]
    tree = tree_of(*good)
    config = replace(CONFIG, sweep_points=0, variants=1, repairs=0)
    assert [Open(2, ("v00000", "v00001"), shares(tree, config))] == next_steps(tree, config)
    assert () == next_steps(tree, replace(config, shares="fixed"))[0].shares  # type: ignore[union-attr]
    tree.status = replace(tree.status, round=2, parents=("v00000",), shares=((ONE.label, 0.75), (TWO.label, 0.25)))
    asked = {s.author: s.count for s in next_steps(tree, config) if isinstance(s, Propose)}
    assert {ONE.label: 3, TWO.label: 1} == asked
    fixed = {s.author: s.count for s in next_steps(tree, replace(config, shares="fixed")) if isinstance(s, Propose)}
    assert {ONE.label: 2, TWO.label: 2} == fixed


evidence = st.lists(
    st.tuples(st.booleans(), st.none() | st.floats(0.01, 100), st.integers(0, 3), st.none() | st.floats(0, 5)),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(evidence, st.floats(0.1, 10), st.floats(0, 10))
def test_shares_are_lawful_whatever_came(
    found: list[tuple[bool, float | None, int, float | None]], one: float, two: float
) -> None:
    config = replace(CONFIG, authors=(replace(ONE, share=one), replace(TWO, share=two)))
    tree = tree_of()
    for number, (first, ratio, number_of_round, usd) in enumerate(found):
        author = ONE if first else TWO
        variant = attempt(number, author, ratio, round=number_of_round)
        tree.variants[variant.id], tree.calls[number] = variant, call(number, author, usd)
    before = copy.deepcopy(tree)
    given_shares = shares(tree, config)
    assert before == tree
    assert given_shares == shares(before, config)
    assert [a.label for a in config.authors if a.share > 0] == [label for label, _ in given_shares]
    assert sum(share for _, share in given_shares) == pytest.approx(1.0, abs=0.001)
    for label, share in given_shares:
        own = next(author.share for author in config.authors if author.label == label)
        assert share >= LEAST * own / (one + two) - 0.0001
    assert with_shares(config.authors, given_shares)[0].share == given_shares[0][1]


def test_it_earns_more_than_fixed_shares() -> None:
    """Two authors, one better by a half: after a hundred variants the better one has most of the work."""
    dice = random.Random(3)
    tree = tree_of()
    for number_of_round in range(1, 11):
        authors = with_shares(CONFIG.authors, shares(tree, CONFIG))
        for label, count in share_out(authors, 10):
            for _ in range(count):
                good = dice.random() < (0.8 if label == ONE.label else 0.3)
                ratio = dice.uniform(1.0, 1.6) if good else None
                author = ONE if label == ONE.label else TWO
                number = len(tree.variants)
                tree.variants[f"v{number:05}"] = attempt(number, author, ratio, round=number_of_round)
    done = sum(variant.author == ONE.label for variant in tree.variants.values())
    assert done > 60


async def test_a_session_moves_its_shares_and_says_so(tmp_path: Path) -> None:
    def good(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=tuple(IdeaDraft(title=f"one {number} {n}") for n in range(ask.count)))
        return Answer(source=f"// time_us: {500 / (number + 1)}\nint k;", language=Language.CPP)

    def bad(ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            return Answer(ideas=tuple(IdeaDraft(title=f"two {number} {n}") for n in range(ask.count)))
        return Answer(source=f"// outcome: mismatch\n// {number}\n", language=Language.CPP)

    config = replace(CONFIG, problem="fake", rounds=3, ideas=2, variants=2, beam=2, repairs=0, sweep_points=0)
    Store.create(tmp_path / "s", config, problem_folder(tmp_path)).close()
    authors = {ONE.label: FakeAuthor(settings=ONE, script=good), TWO.label: FakeAuthor(settings=TWO, script=bad)}
    events: list[Event] = []
    await run_session(tmp_path / "s", evaluator=FakeEvaluator(), authors=authors, on_event=events.append)
    with Store.open(tmp_path / "s") as store:
        status = store.read_tree().status
    assert dict(status.shares)[ONE.label] > 0.55
    (first, *_) = [event.text for event in events if event.kind == "shares"]
    assert first.startswith("shares of round 2: openai:one ")
    assert "(was 50%)" in first


def test_the_setting_is_read_and_checked() -> None:
    assert "bandit" == parse_settings(dump_settings(CONFIG), "x").shares
    with pytest.raises(SettingsError, match="one of 'fixed', 'bandit'"):
        parse_settings('problem = "p"\nshares = "luck"\n', "x")
