"""Commands as a person types them; those that judge kernels are in test_main_job.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneltui.cli import COMMANDS, group
from kerneltui.commands.output import EXIT_STATUS, exit_status, print_verdict, printable, table, time_text
from kerneltui.commands.sessions import free_name
from kerneltui.errors import UsageError
from kerneltui.records import (
    Badge,
    Idea,
    Measurement,
    Outcome,
    Problem,
    Settings,
    Stage,
    Variant,
    VariantState,
    Verdict,
)
from kerneltui.settings import parse_author
from kerneltui.store import Store

ROOT = Path(__file__).parent.parent


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path))
    problem = Problem(name="relu", title="ReLU", source="", path="relu.py")
    with Store.create(tmp_path / "s", Settings(problem="relu"), problem) as store:
        store.put_ideas([Idea(id="i001", round=1, title="vectors [/")])
        store.put_variants([Variant(id="v00001", idea="i001", round=1)])
        store.add_event("engine", "note", "hello \x1b]0;title\x07")
    return tmp_path


def kerneltui(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerneltui", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | environment)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(group, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["evl"], "Did you mean `eval`?"),
        (["show", "nowhere"], "no session `nowhere`"),
        (["show", "s", "v9"], "no node `v9`"),
        (["prune", "s", "i002"], "Near it: i001"),
        (["pin", "s", "i001"], "works on variants"),
        (["approve", "s", "v00001"], "works on ideas"),
        (["budget", "s"], "say what to change"),
        (["eval", "missing.cu", "-p", "relu"], "missing.cu"),
        (["eval", "x.txt", "-p", "relu"], "what language"),
        (["new", "no_such_problem"], "no_such_problem"),
        (["new", "softmax", "--author", "oracle"], "no such author"),
        (["new", "softmax", "--size", "ROWS=-1"], "whole number"),
        (["new", "softmax", "--device", "tpu"], "tpu"),
        (["export", "s", "best", "--to", "x"], "no correct variant"),
        (["export", "s", "v00001", "--to", "x"], "no source"),
        (["attach", "s"], "needs a terminal"),
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(sessions: Path, words: list[str], told: str) -> None:
    done = kerneltui(*words, KERNELTUI_SESSIONS=str(sessions))
    assert (2, "") == (done.returncode, done.stdout)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert ["s"] == [path.name for path in sessions.iterdir()]


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [("empty.cu", b" \n", "empty"), ("binary.cu", b"\x7fELF\0\0", "binary"), ("huge.cpp", b"/" * 20_000_000, "20 MB")],
    ids=["empty", "binary", "huge"],
)
def test_files_that_are_no_kernels(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(data)
    done = kerneltui("eval", str(tmp_path / name), "--problem", "softmax")
    assert 2 == done.returncode
    assert told in done.stderr


def test_an_unwritable_sessions_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = kerneltui("new", "softmax", "--no-check", KERNELTUI_SESSIONS=str(tmp_path / "file" / "sub"))
    assert 2 == done.returncode
    assert "cannot be written" in done.stderr


def test_show_json_has_what_scripts_rely_on(sessions: Path) -> None:
    shown = json.loads(kerneltui("show", "s", "--json", KERNELTUI_SESSIONS=str(sessions)).stdout)
    assert {"session", "state", "best", "ideas", "variants"} <= set(shown)
    assert {"id", "round", "parent", "author", "text", "status"} <= set(shown["ideas"][0])
    wanted = {
        "id",
        "idea",
        "parent",
        "author",
        "language",
        "outcome",
        "stage",
        "median_us",
        "speedup",
        "pruned",
        "pinned",
    }
    assert wanted <= set(shown["variants"][0])


def test_a_decision_waits_for_the_engine(sessions: Path) -> None:
    done = kerneltui("prune", "s", "i001", "--json", KERNELTUI_SESSIONS=str(sessions))
    assert {"decision": 1, "kind": "prune", "target": "i001", "engine": "new"} == json.loads(done.stdout)
    with Store.open(sessions / "s") as store:
        assert ["i001"] == [decision.target for decision in store.read_decisions(pending_only=True)]


def test_watch_sends_nothing_that_a_terminal_obeys(sessions: Path) -> None:
    done = kerneltui("watch", "s", "--no-follow", KERNELTUI_SESSIONS=str(sessions))
    assert "hello" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_a_closed_pipe_ends_quietly(sessions: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m kerneltui problems --json | head -c 1",
        shell=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert "" == done.stderr


def test_a_newer_session_does_not_hide_the_others(sessions: Path) -> None:
    import sqlite3

    (sessions / "t").mkdir()
    (sessions / "t" / "session.db").write_bytes((sessions / "s" / "session.db").read_bytes())
    with sqlite3.connect(sessions / "t" / "session.db") as db:
        db.execute("PRAGMA user_version = 9999")
    done = kerneltui("ls", "--json", KERNELTUI_SESSIONS=str(sessions))
    assert ["s"] == [row["session"] for row in json.loads(done.stdout)]
    assert "schema 9999" in done.stderr


def test_exit_statuses_tell_whose_fault_it_is() -> None:
    assert {Outcome.CORRECT: 0, Outcome.SUSPECT: 3, Outcome.NOT_RUN: 2} == EXIT_STATUS
    assert {1} == {exit_status(outcome) for outcome in Outcome if outcome not in EXIT_STATUS}


def test_times_carry_their_unit() -> None:
    assert ["1.25 us", "999 us", "2.5 ms", "1.2 s", ""] == [time_text(us) for us in (1.25, 999.4, 2500.0, 1.2e6, None)]


def test_tables_line_up() -> None:
    assert "a   b\nxx  y" == table(["a", "b"], [["xx", "y"]])


def test_control_sequences_become_visible() -> None:
    assert "a\ufffd[31mb\n" == printable("a\x1b[31mb\r\n")


def test_session_names_are_free_and_legal(tmp_path: Path) -> None:
    (tmp_path / "a-b").mkdir()
    assert ("a-b-2", "session") == (free_name(tmp_path, "a b"), free_name(tmp_path, "試し"))


def test_authors_on_the_command_line() -> None:
    assert ("openai", "o3") == (parse_author("openai:o3").kind, parse_author("openai:o3").model)
    assert ("claude", "-p", "x y") == parse_author("command:claude -p 'x y'").command
    with pytest.raises(UsageError, match="needs the program"):
        parse_author("command")


@pytest.fixture
def failed(sessions: Path) -> Path:
    with Store.open(sessions / "s", write=True) as store:
        for number, (outcome, message) in enumerate(
            [
                (Outcome.COMPILE_ERROR, "kernel.cpp:7: 'flaot' does not name a type"),
                (Outcome.COMPILE_ERROR, "kernel.cpp:90: 'doubel' does not name a type"),
                (Outcome.MISMATCH, "3 of 40 elements are wrong"),
                (Outcome.CORRECT, ""),
            ],
            start=2,
        ):
            row = Variant(id=f"v{number:05}", idea="i001", round=1, state=VariantState.DONE, outcome=outcome)
            stage = Stage.COMPILE if outcome is Outcome.COMPILE_ERROR else Stage.CHECK
            store.put_variants([replace(row, stage=stage, message=message, median_us=None if message else 5.0)])
    return sessions


def test_failures_come_in_groups(failed: Path) -> None:
    done = CliRunner().invoke(group, ["failures", "s"])
    assert 0 == done.exit_code, done.output
    lines = done.output.splitlines()
    assert ["compile", "2", "r1", "1", "v00003"] == lines[1].split()[:5]
    assert "does not name a type" in lines[1]
    found = json.loads(CliRunner().invoke(group, ["failures", "s", "--json"]).output)["failures"]
    assert [["v00002", "v00003"], ["v00004"]] == [each["variants"] for each in found]


def test_nothing_has_failed(sessions: Path) -> None:
    assert "nothing has failed\n" == CliRunner().invoke(group, ["failures", "s"]).output


def test_show_takes_the_filter_of_the_screen(failed: Path) -> None:
    shown = json.loads(CliRunner().invoke(group, ["show", "s", "--json", "--filter", "state:ok"]).output)
    assert ["v00005"] == [variant["id"] for variant in shown["variants"]]
    wrong = CliRunner().invoke(group, ["show", "s", "--filter", "speed>fast"])
    assert isinstance(wrong.exception, UsageError)
    assert "at column" in str(wrong.exception)


def test_a_verdict_without_a_ratio_says_what_disturbed_it(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measurement(
        method="calls",
        median_us=3.0,
        low_us=2.0,
        high_us=4.0,
        samples_us=(3.0,) * 4,
        baselines_us={"eager": 4.0},
        badge=Badge.UNTRUSTED,
        dropped=6,
        disturbances=("other work had its cores",),
    )
    print_verdict(Verdict(outcome=Outcome.CORRECT, stage=Stage.DONE, measurement=measured))
    said = capsys.readouterr().out
    assert "badge: untrusted\n" in said
    assert "disturbed: other work had its cores (6 of 10 pairs dropped)" in said
