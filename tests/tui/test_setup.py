"""What is said of a new session while its settings are typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneltui.cli import group
from kerneltui.records import AuthorSettings, Budget, Settings
from kerneltui.settings import dump_settings
from kerneltui.store import Store
from kerneltui.tui.setup import check_settings, command_line, setup_lines

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
