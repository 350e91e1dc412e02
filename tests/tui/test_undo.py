"""What z takes back, when it is too late for that, and what a change of the budget means."""

from __future__ import annotations

import pytest

from kerneltui.records import (
    Budget,
    Call,
    Decision,
    DecisionKind,
    DecisionState,
    EngineStatus,
    Idea,
    Settings,
    Tree,
    Variant,
)
from kerneltui.tui import budgets
from kerneltui.tui.undo import Deed, History, Step, last_deed, made_node, too_late

K = DecisionKind


def test_undo_and_redo() -> None:
    history = History()
    deed = Deed(
        title="pruned i001",
        done=(Step(kind=DecisionKind.PRUNE, target="i001"),),
        undone=(Step(kind=DecisionKind.RESTORE, target="i001"),),
    )
    assert history.take_back() is None and history.do_again() is None
    history.add(deed)
    assert (history.take_back(), history.take_back(), history.do_again()) == (deed, None, deed)
    history.take_back()
    history.add(deed)
    assert history.do_again() is None


def test_what_an_inject_became_is_read_from_the_answer() -> None:
    answered = [
        Decision(id=1, kind=DecisionKind.INJECT, answer="injected as v00012"),
        Decision(id=2, kind=DecisionKind.ADD_IDEA, answer="added as i007; no author here"),
    ]
    assert [made_node(answered, id) for id in (1, 2, 3)] == ["v00012", "i007", None]


def decision(id: int, kind: DecisionKind, target: str, **fields: object) -> Decision:
    return Decision(**{"id": id, "kind": kind, "target": target, "who": "ada", "created": float(id), **fields})  # type: ignore[arg-type]


def test_a_second_viewer_finds_the_last_act_that_stands() -> None:
    log = [
        decision(1, K.PIN, "v00001"),
        decision(2, K.PRUNE, "i001"),
        decision(3, K.INJECT, "", answer="injected as v00009"),
        decision(4, K.PRUNE, "i002", who="bob"),
        decision(5, K.PRUNE, "i003", state=DecisionState.REFUSED),
        decision(6, K.PAUSE, ""),
    ]
    found = last_deed(log, "ada", 0.0)
    assert found is not None and (3, "inject") == (found.made_by, found.title)
    undone = [*log, decision(7, K.PRUNE, "v00009")]
    found = last_deed(undone, "ada", 0.0)
    assert found is not None and (Step(kind=K.RESTORE, target="i001"),) == found.undone
    found = last_deed([*undone, decision(8, K.RESTORE, "i001")], "ada", 0.0)
    assert found is not None and (Step(kind=K.UNPIN, target="v00001"),) == found.undone
    assert last_deed(log, "ada", 6.0) is None
    assert last_deed(undone, "ada", 2.0, {(K.PRUNE, "i001")}) is None
    decided = [decision(1, K.APPROVE, "i001"), decision(2, K.REJECT, "i002")]
    found = last_deed(decided, "ada", 0.0)
    assert found is not None and (Step(kind=K.RESTORE, target="i002", payload={"proposed": True}),) == found.undone
    found = last_deed([*decided, decision(3, K.RESTORE, "i002")], "ada", 0.0)
    assert found is not None and "approve i001" == found.title


SETTINGS = Settings(problem="softmax", rounds=5, budget=Budget(usd=25.0, evaluations=40))


def tree(round_: int = 3) -> Tree:
    """v00001 of i001 is where i002 of round 3 starts from."""
    ideas = [Idea(id="i001", round=2, title="a"), Idea(id="i002", round=3, title="b", parent="v00001")]
    variants = [Variant(id="v00001", idea="i001", round=2, candidate="abc"), Variant(id="v00002", idea="i002", round=3)]
    return Tree(settings=SETTINGS, status=EngineStatus(round=round_), ideas={i.id: i for i in ideas},
                variants={v.id: v for v in variants})  # fmt: skip


def deed(kind: DecisionKind, target: str, made_by: int | None = None) -> Deed:
    return Deed(title="", done=(Step(kind=kind, target=target),), undone=(), round=2, when=10.0, made_by=made_by)


@pytest.mark.parametrize(
    ("done", "made", "said"),
    [
        (deed(K.PRUNE, "i001"), "", "round 3 began without i001; X restores it for the rounds to come"),
        (deed(K.REJECT, "i001"), "", "round 3 began without i001; X restores it for the rounds to come"),
        (deed(K.APPROVE, "i001"), "", "code was written from i001; x prunes it, with that code"),
        (deed(K.APPROVE, "i002"), "", ""),
        (deed(K.PIN, "v00001"), "", "i002 of round 3 starts from v00001; p unpins it for the rounds to come"),
        (deed(K.PIN, "v00002"), "", ""),
        (deed(K.INJECT, "", 1), "v00001", "i002 of round 3 starts from v00001; x on v00001 prunes it with all that came of it"),
        (deed(K.ADD_IDEA, "", 1), "i001", "i002 of round 3 starts from i001; x on i001 prunes it with all that came of it"),
        (deed(K.INJECT, "", 1), "v00002", ""),
        (deed(K.EDIT, "i001"), "", ""),
    ],
)  # fmt: skip
def test_too_late_says_why_and_what_can_be_done(done: Deed, made: str, said: str) -> None:
    assert said == too_late(tree(), done, made)


def test_a_prune_can_be_undone_until_the_next_round_and_an_edit_until_it_was_written() -> None:
    assert "" == too_late(tree(2), deed(K.PRUNE, "i001"))
    written = tree()
    written.calls[1] = Call(id=1, purpose="write", node="i001", author="a", created=11.0)
    assert "code was written from the new words of i001" in too_late(written, deed(K.EDIT, "i001"))


def test_what_a_deed_was_too_late_for_is_not_asked_about_again() -> None:
    history = History()
    history.add(deed(K.PRUNE, "i001"))
    first = history.take_back()
    assert first is not None
    history.drop(first)
    assert ([], {(K.PRUNE, "i001")}) == (history.future, history.dropped)


def test_a_budget_says_old_new_and_used() -> None:
    spent = tree()
    spent.calls[1] = Call(id=1, purpose="write", node="i001", author="a", cost_usd=3.1)
    lines = budgets.change_lines(spent, {"usd": 40.0, "rounds": 7, "wall_s": None}, 754.0)
    assert [
        "dollars     $25.00 to $40.00, $3.10 used",
        "rounds      5 to 7, 3 used",
        "time        no cap to no cap, 12:34 used",
    ] == lines


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"usd": 40.0}, ""),
        ({"usd": 3.1}, "$3.10 of dollars are used"),
        ({"usd": None, "rounds": 3}, ""),
        ({"rounds": 2}, "3 rounds are used"),
        ({"wall_s": 60.0}, "12:34 of time is used"),
        ({"evaluations": 40}, ""),
    ],
)
def test_a_cap_below_what_is_used_ends_the_search(payload: dict[str, float | None], said: str) -> None:
    spent = tree()
    spent.calls[1] = Call(id=1, purpose="write", node="i001", author="a", cost_usd=3.1)
    assert said == budgets.ends_by(spent, payload, 754.0)


def test_the_forecast_is_one_of_the_changed_caps() -> None:
    line = budgets.forecast_line(tree(), {"evaluations": 2}, {"playbook": (0, 0.0)})
    assert line.startswith("round 4: at most") and "more than the 2 evaluations left" in line
