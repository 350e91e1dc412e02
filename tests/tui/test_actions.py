"""The action table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from kerneltui.cli import COMMANDS
from kerneltui.records import DecisionKind
from kerneltui.tui.actions import (
    ACTIONS,
    FOOTER,
    FOOTER_DETAIL,
    FOOTER_LAST,
    FORBIDDEN,
    by_id,
    commands,
    key_table,
    read_command,
)
from kerneltui.tui.screens.main import MainScreen


def test_no_key_is_bound_twice() -> None:
    keys = Counter(key for action in ACTIONS for key in action.keys)
    assert [key for key, count in keys.items() if count > 1] == []


def test_no_key_is_taken_by_a_multiplexer_or_the_terminal() -> None:
    keys = {key for action in ACTIONS for key in action.keys}
    assert keys & FORBIDDEN == set()
    assert [
        key for key in keys if key.startswith(("alt+", "f1")) or ("ctrl" in key and key not in ("ctrl+p", "ctrl+l"))
    ] == []


def test_every_action_can_be_carried_out() -> None:
    missing = [
        action.id
        for action in ACTIONS
        if action.decision is None
        and action.id[:-1] != "view.pane_"
        and not hasattr(MainScreen, "act_" + action.id.replace(".", "_"))
        and action.id not in ("edit.undo", "edit.redo", "engine.start")
    ]
    assert missing == []


def test_every_decision_of_a_person_has_a_key_or_a_command() -> None:
    covered = {action.decision for action in ACTIONS}
    assert set(DecisionKind) - covered == {DecisionKind.ANSWER}


def test_every_twin_is_a_command() -> None:
    twins = {action.id: action.twin.split()[0] for action in ACTIONS if action.twin}
    assert {id: word for id, word in twins.items() if word not in COMMANDS} == {}


def test_every_decision_has_a_twin() -> None:
    assert [action.id for action in ACTIONS if action.decision and not action.twin] == []


def test_footers_name_actions_with_a_short_title() -> None:
    assert [id for id in (*FOOTER, *FOOTER_DETAIL, *FOOTER_LAST) if not by_id(id).short or not by_id(id).keys] == []


@pytest.mark.parametrize(
    ("line", "id", "argument"),
    [("prune", "branch.prune", ""), ("goto best", "goto.best", ""), ("goto v00012", "goto.node", "v00012"),
     ("budget usd 40", "engine.budget", "usd 40"), ("retry signature", "group.retry", ""), ("filter state:ok", "view.filter", "state:ok")],
)  # fmt: skip
def test_palette_lines(line: str, id: str, argument: str) -> None:
    found = read_command(line)
    assert found is not None and (found[0].id, found[1]) == (id, argument)


def test_palette_names_are_unique() -> None:
    assert [name for name, count in Counter(action.command for action in commands()).items() if count > 1] == []


def test_every_bound_character_is_typed_into_an_input() -> None:
    """Letters reach a focused text before any binding: both widgets claim every printable key."""
    from textual.keys import _character_to_key

    bound = {key for action in ACTIONS for key in action.keys if len(key) == 1}
    characters = sorted(bound | set("/:?[]{}|+_"))
    line, text = Input(), TextArea()
    assert [c for c in characters if not line.check_consume_key(_character_to_key(c), c)] == []
    assert [c for c in characters if not text.check_consume_key(_character_to_key(c), c)] == []


def test_the_tour_has_the_keys_of_the_table() -> None:
    tour = (Path(__file__).resolve().parents[2] / "docs" / "tour.md").read_text("utf-8")
    assert key_table() in tour
