"""Cards dealt from a playbook, refinements when there are none left, and files that cannot be followed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import DEVICE, PLAYBOOK, TUNED, problem_folder

from kerneltui.authors import Answer, Ask, Material
from kerneltui.authors.playbook import PlaybookAuthor
from kerneltui.errors import SettingsError
from kerneltui.records import AuthorSettings, Contract, Idea, Language, Problem, Variant

SETTINGS = AuthorSettings(kind="playbook")


def material(problem: Problem, **changes: Any) -> Material:
    contract = Contract(function="fake", language=Language.CPP, tensors=())
    plain = Material(problem=problem, contract=contract, device=DEVICE, language=Language.CPP, round=1)
    return replace(plain, **changes)


async def ideas(problem: Problem, count: int = 4, **changes: Any) -> Answer:
    author = PlaybookAuthor(SETTINGS, problem)
    ask = author.prepare(Ask(purpose="ideas", material=material(problem, **changes), count=count))
    assert (0.0, 0) == (ask.worst_usd, ask.worst_tokens)
    return await author.answer(ask)


async def write(problem: Problem, key: str, index: int, **changes: Any) -> Answer:
    author = PlaybookAuthor(SETTINGS, problem)
    idea = Idea(id="i1", round=1, key=key)
    return await author.answer(Ask(purpose="write", material=material(problem, **changes), idea=idea, index=index))


async def test_cards_without_ground_are_dealt_to_the_reference(tmp_path: Path) -> None:
    answer = await ideas(problem_folder(tmp_path))
    assert ["tiles", "wide"] == [draft.key for draft in answer.ideas]
    assert 0.0 == answer.reply.cost_usd


async def test_a_card_is_dealt_to_a_parent_that_came_from_its_ground(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path)
    used = frozenset({"tiles", "wide"})
    answer = await ideas(problem, used_keys=used, lineage=("tiles",), round=2)
    assert ["wide-tiles"] == [draft.key for draft in answer.ideas]
    elsewhere = await ideas(
        problem, used_keys=used, lineage=("wide",), round=2, round_keys=frozenset({"tiles", "wide"})
    )
    assert () == elsewhere.ideas
    assert "every card is dealt, and no tunable of this parent has an untried setting" == elsewhere.problem
    lost = await ideas(problem, used_keys=used, lineage=("wide",), round=2, round_keys=frozenset({"wide"}))
    assert ["wide-tiles"] == [draft.key for draft in lost.ideas]
    early = await ideas(
        problem,
        used_keys=used,
        new_keys=frozenset({"tiles"}),
        lineage=("wide",),
        round_keys=frozenset({"wide"}),
        round=2,
    )
    assert () == early.ideas


async def test_kernels_of_a_card_are_written_one_by_one(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path)
    first, second = await write(problem, "wide", 0), await write(problem, "wide", 1)
    assert (TUNED, (), "wide") == (first.source, first.defines, first.name)
    assert ((("BLOCK", "64"),), "BLOCK=64") == (second.defines, second.name)
    assert "no further variant on this card" == (await write(problem, "wide", 2)).problem


async def test_another_language_has_no_kernels(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path)
    assert "no further variant on this card" == (await write(problem, "wide", 0, language=Language.CUDA)).problem
    assert () == (await ideas(problem, language=Language.CUDA)).ideas


async def test_when_cards_are_dealt_tunables_are_refined(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path)
    parent = Variant(id="v7", idea="i2", round=1, defines=(("BLOCK", "128"),))
    known: dict[str, Any] = {
        "used_keys": frozenset({"tiles", "wide", "wide-tiles"}),
        "parent": parent,
        "parent_source": TUNED,
        "tried_settings": frozenset({(("BLOCK", "128"),)}),
        "round": 2,
    }
    (draft,) = (await ideas(problem, **known)).ideas
    assert "refine BLOCK around 128" == draft.title
    first, second = await write(problem, draft.key, 0, **known), await write(problem, draft.key, 1, **known)
    assert {(("BLOCK", "64"),), (("BLOCK", "256"),)} == {first.defines, second.defines}
    assert TUNED == first.source
    assert "no further setting in this refinement" == (await write(problem, draft.key, 2, **known)).problem
    known["used_keys"] |= {draft.key}
    assert () == (await ideas(problem, **known)).ideas


async def test_several_tunables_are_refined_alone_then_in_pairs(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path, playbook="")
    source = "// tune: A = 1, 2\n// tune: B = 1, 2\n#define A 1\n#define B 1\n"
    parent = Variant(id="v7", idea="i2", round=1)
    answer = await ideas(problem, parent=parent, parent_source=source)
    assert ["refine A around 1", "refine B around 1", "refine A and B around 1 and 1"] == [
        draft.title for draft in answer.ideas
    ]


async def test_a_problem_without_a_playbook_says_so(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path, playbook="")
    assert "fake has no playbook; only its starters can be measured without it" == (await ideas(problem)).problem


async def test_a_playbook_does_not_repair(tmp_path: Path) -> None:
    problem = problem_folder(tmp_path)
    answer = await PlaybookAuthor(SETTINGS, problem).answer(Ask(purpose="repair", material=material(problem)))
    assert answer.problem.startswith("a playbook cannot repair")


@pytest.mark.parametrize(
    ("playbook", "words"),
    [
        ("[[idea", "not valid TOML"),
        ("[[ideas]]\nkey='a'", "`ideas` is not known; did you mean `idea`?"),
        ("[[idea]]\nkey='a'\ntitel='A'", "idea a: `titel` is not known; did you mean `title`?"),
        ("[[idea]]\nkey='a'", "idea a: `title` is missing"),
        ("[[idea]]\ntitle='a'", "idea 1: `key` is missing"),
        ("[[idea]]\nkey='a'\ntitle='A'\n[[idea]]\nkey='a'\ntitle='B'", "two ideas have the key `a`"),
        ("[[idea]]\nkey='a'\ntitle='A'\nbuilds_on='b'", "idea `a`: builds_on names `b`, which is no other idea"),
        ("[[idea]]\nkey='refine:a'\ntitle='A'", "a key cannot begin with `refine:`"),
        ("[[idea]]\nkey=3\ntitle='A'", "`key` is 3; a text is expected"),
        ("idea = 3", "`idea` is written as tables"),
    ],
)
def test_a_playbook_that_cannot_be_followed_is_named(tmp_path: Path, playbook: str, words: str) -> None:
    problem = problem_folder(tmp_path, playbook=playbook)
    with pytest.raises(SettingsError) as caught:
        PlaybookAuthor(SETTINGS, problem)
    assert words in str(caught.value)
    assert "playbook.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("language='cpp'\nfile='cpp/none.cpp'", "cannot be read: No such file"),
        ("language='c++'\nfile='cpp/wide.cpp'", "language is `c++`"),
        ("language='cpp'\nfile='../../etc/passwd'", "a kernel inside"),
        ("language='cpp'\nfile='cpp/wide.cpp'\ndefines={BLOCK=1.5}", "BLOCK is 1.5; a whole number is expected"),
        ("language='cpp'\nfile='cpp/wide.cpp'\ndefines={'A B'=1}", "`A B` is not a C name"),
        ("language='cpp'\nfile='cpp/wide.cpp'\nflags='-O3'", "`flags` is not known"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_named(tmp_path: Path, variant: str, words: str) -> None:
    playbook = f"[[idea]]\nkey='a'\ntitle='A'\n[[idea.variant]]\n{variant}"
    problem = problem_folder(tmp_path, playbook=playbook)
    with pytest.raises(SettingsError) as caught:
        PlaybookAuthor(SETTINGS, problem)
    assert words in str(caught.value)
    assert "idea a, variant 1" in str(caught.value)


def test_the_test_playbook_itself_reads(tmp_path: Path) -> None:
    cards = PlaybookAuthor(SETTINGS, problem_folder(tmp_path)).cards
    assert PLAYBOOK.count("[[idea]]") == len(cards)
    assert ["", "", "tiles"] == [card.builds_on for card in cards]
