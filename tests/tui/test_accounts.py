"""Spend, ledger, lineage and export: what the search has cost and brought, and taking it away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import OpenApp, screen_text, wait_for

from kerneltui.records import Call, CallState, Idea, Outcome, Settings, Speedup, Tree, Variant
from kerneltui.store import Store
from kerneltui.tui.accounts import By, accounts, total
from kerneltui.tui.exports import free_folder

SIZES = [(80, 24), (100, 30), (160, 48)]


def tree_of_two_rounds() -> Tree:
    tree = Tree(settings=Settings(problem="softmax"))
    tree.ideas = {"i001": Idea(id="i001", round=1), "i002": Idea(id="i002", round=2)}
    gain = Speedup(ratio=1.5, low=1.4, high=1.6, tie=False)
    tree.variants = {
        "v00001": Variant(id="v00001", idea="i001", round=1, author="a", outcome=Outcome.CORRECT, speedup=gain),
        "v00002": Variant(id="v00002", idea="i001", round=1, author="b", outcome=Outcome.MISMATCH),
        "v00003": Variant(id="v00003", idea="i002", round=2, author="a", outcome=Outcome.CORRECT),
    }
    tree.calls = {
        1: Call(id=1, purpose="ideas", node="", round=2, author="a", cost_usd=0.5, tokens_in=10, tokens_out=5),
        2: Call(id=2, purpose="write", node="i001", author="a", cost_usd=0.25),
        3: Call(id=3, purpose="repair", node="v00002", author="b", state=CallState.FAILED),
    }
    return tree


def test_every_dollar_and_second_is_in_one_line_of_each_account() -> None:
    tree, seconds = tree_of_two_rounds(), {"v00001": (2.0, 5.0), "v00003": (1.0, 1.0)}
    for by in By:
        sums = total(accounts(tree, by, seconds))
        assert (3, 1, 15, 0.75, 1) == (sums.calls, sums.failed, sums.tokens, sums.usd, sums.unknown)
        assert (3, 2, 3.0, 6.0, 1.5) == (sums.variants, sums.correct, sums.device_s, sums.compile_s, sums.best)
    assert [("r1", 0.25), ("r2", 0.5)] == [(line.name, line.usd) for line in accounts(tree, By.ROUND, seconds)]
    assert ["a", "b"] == [line.name for line in accounts(tree, By.AUTHOR, seconds)]
    assert ["(finding ideas)", "i001", "i002"] == [line.name for line in accounts(tree, By.IDEA, seconds)]
    assert 0.375 == accounts(tree, By.AUTHOR, seconds)[0].usd_a_correct


@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_spend_is_shown_by_author_round_and_idea(
    session: Path, open_app: OpenApp, width: int, height: int
) -> None:
    async with open_app(session, width, height) as pilot:
        await pilot.press("dollar_sign")
        await wait_for(pilot, lambda: "total" in screen_text(pilot) and "being added up" not in screen_text(pilot))
        assert "playbook" in screen_text(pilot)
        await pilot.press("o")
        assert "by round" in screen_text(pilot) and "r4" in screen_text(pilot)
        await pilot.press("o", "j", "enter")
        assert pilot.app.screen.tree_list.current.id.startswith("i")


@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_the_ledger_leads_to_the_ideas_of_a_technique(
    session: Path, open_app: OpenApp, width: int, height: int
) -> None:
    async with open_app(session, width, height) as pilot:
        await pilot.press("T")
        await wait_for(pilot, lambda: "cache hints" in screen_text(pilot))
        await pilot.press("enter")
        assert pilot.app.screen._filter_text.startswith("idea:i")


@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_lineage_has_every_step_with_its_gain(session: Path, open_app: OpenApp, width: int, height: int) -> None:
    async with open_app(session, width, height) as pilot:
        best = pilot.app.screen.model.tree.status.best
        steps = pilot.app.screen.model.lineage(pilot.app.screen.model.tree.variants[best])
        await pilot.press("L")
        text = screen_text(pilot)
        assert all(step.id in text for step in steps) and "1.05×" in text
        await pilot.press("k", "enter")
        assert pilot.app.screen.current.id == steps[-2].id


async def test_export_writes_and_never_overwrites(session: Path, open_app: OpenApp, tmp_path: Path) -> None:
    target = tmp_path / "out"
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        best = screen.model.tree.status.best
        for folder in ("out", "out-002"):
            screen.act("result.export", str(target))
            await wait_for(pilot, lambda folder=folder: list((tmp_path / folder).glob("*_provenance.json")))
        await wait_for(pilot, lambda: "out-002" in screen_text(pilot))
    found = json.loads(next(target.glob("*_provenance.json")).read_text())
    assert best == found["variant"]


async def test_a_failed_variant_is_not_exported_without_a_word(
    session: Path, open_app: OpenApp, tmp_path: Path
) -> None:
    async with open_app(session) as pilot:
        await pilot.press("n")
        pilot.app.screen.act("result.export", str(tmp_path / "out"))
        await wait_for(pilot, lambda: "not correct" in screen_text(pilot))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_other_files_is_used(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    assert tmp_path / "w" == free_folder(tmp_path / "w", ["a.h"])
    (tmp_path / "w" / "a.h").touch()
    assert tmp_path / "w-002" == free_folder(tmp_path / "w", ["a.h"])


def test_seconds_are_read_from_all_verdicts(session: Path) -> None:
    with Store.open(session) as store:
        tree, seconds = store.read_tree(), store.read_seconds()
        judged = [id for id in tree.variants if store.read_verdict(id) is not None]
        first = store.read_verdict(judged[0])
    assert sorted(judged) == sorted(seconds)
    assert first is not None and (first.run_s or 0.0, first.compile_s or 0.0) == seconds[judged[0]]
