"""Questions carried by hand: the prompt that an author would get, and what becomes of the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fakes import DEVICE, FakeEvaluator, problem_folder

from kerneltui.cli import group
from kerneltui.engine import run_session
from kerneltui.engine.pasting import open_to_look, purpose_on, question_on
from kerneltui.errors import UsageError
from kerneltui.records import AuthorSettings, Idea, Outcome, Settings, Tree, VariantKind
from kerneltui.store import Store

FAILED = "int fake;  // wrong by intent\n// outcome: mismatch\n"
PLAYBOOK = """
[[idea]]
key = "tiles"
title = "Tiles"
text = "Work on tiles."
[[idea.variant]]
language = "cpp"
file = "cpp/tiles.cpp"
[[idea.variant]]
language = "cpp"
file = "cpp/wrong.cpp"
"""
KERNEL = 'Here it is.\n```cpp\n// time_us: 77\nextern "C" int fake(const float* x) { return 0; }\n```\nGood luck!\n'
IDEAS = 'Sure:\n```json\n[{"title": "Wide loads", "text": "16 bytes at once"}, {"title": "Tiles", "text": "so"}]\n```'


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """v00001 the starter, v00002 correct, v00003 wrong, both from i001."""
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    problem = problem_folder(tmp_path / "problem")
    (tmp_path / "problem/fake/cpp/wrong.cpp").write_text(FAILED)
    (tmp_path / "problem/fake/playbook.toml").write_text(PLAYBOOK)
    folder = tmp_path / "s"
    settings = Settings(problem="fake", rounds=1, ideas=1, variants=2, notes="Keep it readable.")
    Store.create(folder, settings, problem).close()
    await run_session(folder, evaluator=FakeEvaluator())
    return folder


def read(folder: Path) -> Tree:
    with Store.open(folder) as store:
        return store.read_tree()


def cli(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(group, list(words), input=stdin)


def refused(*words: str, stdin: str | bytes = "") -> str:
    done = cli(*words, stdin=stdin)
    assert isinstance(done.exception, UsageError), done.output  # a SessionError is one
    assert "" == done.stdout
    return str(done.exception)


async def carry_out(folder: Path) -> list[tuple[str, str]]:
    await run_session(folder, evaluator=FakeEvaluator(), stay=False)
    with Store.open(folder) as store:
        asked = [decision for decision in store.read_decisions() if decision.who != "engine"]
        return [(str(decision.state), decision.answer) for decision in asked]


# --------------------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("node", "purpose", "held"),
    [
        ("reference", "ideas", "class Model: ..."),
        ("v00002", "ideas", "// tiles"),
        ("i001", "write", "Work on tiles."),
        ("v00003", "repair", "// wrong by intent"),
    ],
)
async def test_each_node_has_the_prompt_of_what_it_wants_next(
    session: Path, node: str, purpose: str, held: str
) -> None:
    done = cli("prompt", "s", node)
    assert (0, "") == (done.exit_code, done.stderr)
    assert held in done.stdout
    assert "Keep it readable." in done.stdout
    assert DEVICE.name in done.stdout
    with Store.open(session) as store:
        assert (purpose, done.stdout) == ((asked := question_on(open_to_look(store), node)).purpose, asked.prompt)
    assert done.stdout == cli("prompt", "s", node).stdout
    as_json = json.loads(cli("prompt", "s", node, "--json").stdout)
    assert {"node": node, "purpose": purpose, "prompt": done.stdout} == as_json


async def test_a_template_of_the_session_is_used(session: Path) -> None:
    (session / "prompts").mkdir()
    (session / "prompts/ideas.md").write_text("Only this: ${count}.")
    assert "Only this: one idea.\n" == cli("prompt", "s").stdout


async def test_what_was_sent_is_shown_as_it_was(session: Path) -> None:
    assert "playbook of fake: kernel 1 of `tiles`" == cli("prompt", "s", "v00002", "--sent").stdout
    assert "playbook of fake: next 1 ideas for the reference" == cli("prompt", "s", "reference", "--sent").stdout
    with Store.open(session) as store:
        store.put_ideas([Idea(id="i002", round=1, title="mine")])
    assert "no author was asked for it" in refused("prompt", "s", "i002", "--sent")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("v9",), "no node `v9`"),
        (("i001", "--for", "ideas"), "ideas start from a variant"),
        (("i001", "--for", "repair"), "no variant with a source"),
        (("v00001", "--for", "write"), "is none and has none"),
    ],
)
async def test_questions_that_make_no_sense_are_refused_in_words(
    session: Path, words: tuple[str, ...], told: str
) -> None:
    assert told in refused("prompt", "s", *words)


def test_a_session_that_never_ran_says_how_to_prepare_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    Store.create(tmp_path / "s", Settings(problem="fake"), problem_folder(tmp_path)).close()
    assert "`kerneltui run s` does that" in refused("prompt", "s")


# --------------------------------------------------------------------------- answers


async def test_ideas_come_back(session: Path) -> None:
    done = cli("answer", "s", "reference", "--json", stdin=IDEAS)
    assert (0, "answer", "") == (done.exit_code, json.loads(done.stdout)["kind"], json.loads(done.stdout)["target"])
    assert [("done", "2 ideas: i002, i003")] == await carry_out(session)
    ideas = read(session).ideas
    assert [("Wide loads", "hand", None), ("Tiles", "hand", None)] == [
        (idea.title, idea.author, idea.parent) for idea in ideas.values() if idea.id != "i001"
    ]


async def test_a_kernel_for_an_idea_is_judged(session: Path) -> None:
    done = cli("answer", "s", "i001", stdin=KERNEL)
    assert 0 == done.exit_code, done.output
    ((state, words),) = await carry_out(session)
    assert ("done", "written as v00004") == (state, words.split(";")[0])
    made = read(session).variants["v00004"]
    assert (77.0, "i001", VariantKind.ATTEMPT, "hand") == (made.median_us, made.idea, made.kind, made.author)


async def test_a_repair_hangs_below_what_failed(session: Path) -> None:
    assert 0 == cli("answer", "s", "v00003", stdin=KERNEL).exit_code
    await carry_out(session)
    made = read(session).variants["v00004"]
    assert ("v00003", VariantKind.REPAIR, Outcome.CORRECT) == (made.parent, made.kind, made.outcome)


async def test_a_chosen_block_is_taken(session: Path) -> None:
    two = KERNEL + KERNEL.replace("77", "66")
    assert 0 == cli("answer", "s", "i001", "--block", "1", stdin=two).exit_code
    await carry_out(session)
    assert 66.0 == read(session).variants["v00004"].median_us


async def test_a_check_writes_nothing(session: Path) -> None:
    done = cli("answer", "s", "reference", "--check", stdin=IDEAS)
    assert "Wide loads\nTiles\n" == done.stdout
    with Store.open(session) as store:
        assert [] == [decision for decision in store.read_decisions() if decision.who != "engine"]


async def test_a_file_in_utf_16_is_read(session: Path, tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_bytes(KERNEL.encode("utf-16"))
    done = cli("answer", "s", "i001", str(tmp_path / "answer.txt"), "--check")
    assert "2 lines of source\n" == done.stdout


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        ("", "is empty"),
        (b"\x7fELF\0\0", "is binary"),
        ("I'm sorry, I can't help with that.", "no"),
        ("x" * (4 * 2**20 + 1), "larger than 4 MiB"),
    ],
)
async def test_an_answer_without_use_is_refused_at_once(session: Path, stdin: Any, told: str) -> None:
    assert told in refused("answer", "s", "i001", stdin=stdin)
    with Store.open(session) as store:
        assert [] == [decision for decision in store.read_decisions() if decision.who != "engine"]


async def test_the_screens_way_goes_through_the_same_reading(session: Path) -> None:
    """A decision that was written without the command is refused by the engine in the same words."""
    from kerneltui.records import DecisionKind

    with Store.open(session) as store:
        store.add_decision(DecisionKind.ANSWER, "i001", {"text": "Sorry."}, "ada")
        store.add_decision(DecisionKind.ANSWER, "i001", {"text": KERNEL, "block": "x"}, "ada")
        store.add_decision(DecisionKind.ANSWER, "i001", {"text": KERNEL, "purpose": "poem"}, "ada")
    states = await carry_out(session)
    assert ["refused"] * 3 == [state for state, _ in states]
    assert "`poem` is no purpose" in states[2][1]


async def test_a_row_that_waits_is_filled(session: Path) -> None:
    from kerneltui.records import DecisionKind

    with Store.open(session) as store:
        store.write_settings(Settings(problem="fake", rounds=1, ideas=1, authors=(AuthorSettings(kind="openai"),)))
        store.add_decision(DecisionKind.EXPAND, "i001", {"count": 1}, "ada")
        store.add_decision(DecisionKind.ANSWER, "v00004", {"text": KERNEL}, "ada")
    assert ["done", "done"] == [state for state, _ in await carry_out(session)]
    assert 77.0 == read(session).variants["v00004"].median_us
    assert "ideas" == purpose_on(read(session), "v00004")
