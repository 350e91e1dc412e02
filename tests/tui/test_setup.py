"""What is said of a new session while its settings are typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneltui.cli import group
from kerneltui.records import AuthorSettings, Budget, Settings
from kerneltui.settings import author_word, dump_settings
from kerneltui.store import Store
from kerneltui.tui.setup import check_settings, command_line, form_values, read_form, setup_lines

PLAIN = Settings(problem="softmax", device="cpu")
MODELS = replace(
    PLAIN,
    rounds=2,
    review=True,
    authors=(AuthorSettings(kind="openai", model="o3", max_tokens=1000), AuthorSettings(kind="gemini", model="new")),
    budget=Budget(usd=5.0, wall_s=3600.0),
    sizes={"ROWS": 64},
)


def text_of(settings: Settings, width: int = 200) -> str:
    lines = setup_lines(dump_settings(settings), "s", width)
    return "\n".join(line if isinstance(line, str) else "".join(text for text, _ in line) for line in lines)


def test_the_forecast_follows_the_settings_and_never_calls_the_unknown_nothing() -> None:
    assert "forecast  all 5 rounds: at most 456 evaluations" in text_of(PLAIN)
    said = text_of(MODELS)
    assert "all 2 rounds: at most" in said
    assert "questions of unknown cost" in said
    assert "tokens unknown" in said
    assert "$0.00" not in said


def test_a_fault_stands_in_its_place() -> None:
    broken = dump_settings(PLAIN).replace("rounds = 5", "rouns = 5")
    (line, *_) = setup_lines(broken, "s", 200)
    assert "rouns" in "".join(text for text, _ in line)
    assert "rouns" in check_settings(broken)
    assert "" == check_settings(dump_settings(PLAIN))


def no_fault(_: str) -> str:
    return ""


def test_the_form_gives_back_what_it_was_filled_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-long")
    monkeypatch.setenv("GEMINI_API_KEY", "a-key-that-is-long")
    settings = replace(MODELS, repairs=3, devices=("cpu:0", "cpu:1"), device="cpu:0")
    made, faults = read_form(form_values(settings, "s"), settings, no_fault)
    assert {} == faults
    assert (("o3", 1000), ("new", 30_000)) == tuple((author.model, author.max_tokens) for author in made.authors)
    assert replace(settings, authors=()) == replace(made, authors=())


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("rounds", "0", "`rounds` is 0; a whole number from 1 is expected."),
        ("beam", "x", "survivors is 'x'; a number is expected."),
        ("beam", "1.5", "`survivors` is 1.5; a whole number from 1 is expected."),
        ("usd", "-1", "`dollars` is -1; a number from 0 is expected."),
        ("tokens", "2.5", "`tokens` is 2.5; a whole number from 1 is expected."),
        ("wall_s", "0", "`minutes` is 0; a number above 0 is expected."),
        ("authors", "", "at least one: playbook, openai:MODEL, gemini:MODEL or command:PROGRAM."),
        ("authors", "playbok", "playbok: no such author; there are openai, gemini, command and playbook."),
        ("device", " ", "auto, cuda, cpu, or ids such as cuda:0; several of one kind share the search."),
        ("review", "perhaps", "yes or no is expected."),
        ("name", "a/b", "no slashes"),
    ],
)
def test_a_fault_stands_at_its_field_and_leaves_the_rest(key: str, text: str, said: str) -> None:
    values = form_values(PLAIN, "s") | {key: text}
    made, faults = read_form(values, PLAIN, lambda name: "no slashes" if "/" in name else "")
    assert ({key: said}, PLAIN) == (faults, made)


def test_the_form_reads_authors_with_commas_and_caps_with_marks() -> None:
    command = "command:sh -c 'echo a, b'"
    values = form_values(PLAIN, "s") | {
        "authors": f"playbook, {command}",
        "usd": "$1,000",
        "wall_s": "90",
        "review": "y",
    }
    made, faults = read_form(values, PLAIN, no_fault)
    assert {} == faults
    assert ["playbook", command] == [author_word(author) for author in made.authors]
    assert (1000, 5400, True) == (made.budget.usd, made.budget.wall_s, made.review)


def test_lines_keep_to_the_width() -> None:
    assert all(len(line) <= 60 for line in text_of(MODELS, 60).splitlines())


def test_the_command_makes_the_same_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    settings = replace(MODELS, authors=PLAIN.authors)
    words = shlex.split(command_line(settings, "same"))
    assert ["kerneltui", "new"] == words[:2]
    done = CliRunner().invoke(group, [*words[1:], "--no-check"])
    assert 0 == done.exit_code, done.output
    assert "forecast: all 2 rounds" in done.output
    with Store.open(tmp_path / "same") as store:
        assert settings == store.settings()
    authors = command_line(MODELS, "s")
    assert "--author openai:o3 --author gemini:new" in authors
