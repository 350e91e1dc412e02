"""Rows of the tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sessions
from kerneltui.records import Idea, IdeaStatus, Outcome, Settings, Speedup, Tree, Variant, VariantKind, VariantState
from kerneltui.store import Store
from kerneltui.tui.outline import NodeKind, Outline, Row, Sort


def variant(number: int, idea: str | None = "i001", us: float | None = None, **more: object) -> Variant:
    row = Variant(id=f"v{number:05d}", idea=idea, round=1, name=f"n{9 - number}")
    if us is not None:
        speed = Speedup(ratio=100 / us, low=1, high=2, tie=False)
        row = replace(row, state=VariantState.DONE, outcome=Outcome.CORRECT, median_us=us, speedup=speed)
    return replace(row, **more)  # type: ignore[arg-type]


def outline(*variants: Variant, ideas: tuple[Idea, ...] = (Idea(id="i001", round=1, title="one"),)) -> Outline:
    tree = Tree(settings=Settings(problem="softmax"))
    tree.ideas.update({idea.id: idea for idea in ideas})
    tree.variants.update({each.id: each for each in variants})
    made = Outline(tree)
    made.layout()
    return made


def names(made: Outline) -> list[str]:
    return ["  " * row.depth + row.id for row in made.rows]


def test_fastest_first_then_what_runs_then_what_failed() -> None:
    failed = variant(1, state=VariantState.DONE, outcome=Outcome.MISMATCH)
    made = outline(failed, variant(2, us=50.0), variant(3, state=VariantState.RUNNING), variant(4, us=40.0))
    assert names(made) == ["r1", "  i001", "    v00004", "    v00002", "    v00003", "    v00001"]


def test_repairs_lie_below_what_they_repair() -> None:
    made = outline(variant(1, us=9.0), variant(2, us=8.0, parent="v00001", kind=VariantKind.REPAIR))
    assert names(made) == ["r1", "  i001", "    v00001", "      v00002"]


def test_counts_of_an_idea_and_its_round() -> None:
    failed = variant(3, state=VariantState.DONE, outcome=Outcome.TIMEOUT)
    made = outline(variant(1, us=9.0), variant(2, state=VariantState.COMPILING), failed, variant(4))
    for node in ("i001", "r1"):
        tally = made.tallies[node]
        assert (tally.ok, tally.running, tally.fail, tally.waiting, tally.best and tally.best.id) == (
            1,
            1,
            1,
            1,
            "v00001",
        )


def test_a_pruned_idea_has_no_best() -> None:
    made = outline(variant(1, us=9.0), ideas=(Idea(id="i001", round=1, status=IdeaStatus.PRUNED),))
    assert made.tallies["i001"].best is None


def test_new_variants_are_folded_in_without_touching_other_rounds() -> None:
    made = outline(variant(1, us=9.0))
    made.tree.ideas["i002"] = Idea(id="i002", round=2, title="two", parent="v00001")
    made.tree.variants["v00002"] = variant(2, idea="i002", us=5.0, round=2)
    made.fold({"i002"}, {"v00002"})
    assert made.layout()
    assert names(made) == ["r1", "  i001", "    v00001", "r2", "  i002", "    v00002"]
    assert not made.layout()


def test_closing_and_opening() -> None:
    made = outline(variant(1, us=9.0))
    made.set_open(Row(NodeKind.IDEA, "i001", 1), False)
    made.layout()
    assert names(made) == ["r1", "  i001"]
    made.reveal("v00001")
    made.layout()
    assert made.index("v00001") == 2
    made.close_all()
    made.layout()
    assert names(made) == ["r1"]


def test_a_filter_keeps_ancestors_dimmed() -> None:
    made = outline(variant(1, us=9.0), variant(2, us=8.0, parent="v00001", kind=VariantKind.REPAIR), variant(3))
    made.wanted = lambda each: each.id == "v00002"
    made.touch()
    made.layout()
    assert [(row.id, row.dimmed) for row in made.rows] == [
        ("r1", True),
        ("i001", True),
        ("v00001", True),
        ("v00002", False),
    ]
    assert made.matches == 1


def test_orders() -> None:
    made = outline(variant(1, us=9.0), variant(2, us=8.0), variant(3, us=7.0))
    found = {}
    for sort in Sort:
        made.sort = sort
        made.touch()
        made.layout()
        found[sort] = [row.id[-1] for row in made.rows if row.kind is NodeKind.VARIANT]
    assert found == {
        Sort.BEST: ["3", "2", "1"],
        Sort.NEWEST: ["3", "2", "1"],
        Sort.NAME: ["3", "2", "1"],
        Sort.COST: ["1", "2", "3"],
    }


def test_starters_stand_before_the_first_round() -> None:
    made = outline(variant(1, idea=None, us=20.0, round=0, kind=VariantKind.STARTER), variant(2, us=9.0))
    assert names(made) == ["r0", "  v00001", "r1", "  i001", "    v00002"]


def test_a_parent_cycle_does_not_hang_the_lineage(tmp_path: Path) -> None:
    from kerneltui.tui.model import Loaded, Model

    folder = sessions.small_session(tmp_path / "s")
    with Store.open(folder, write=True) as store:
        tree = store.read_tree()
        first, second = list(tree.variants.values())[:2]
        store.put_variants([replace(first, parent=second.id), replace(second, parent=first.id)])
        made = Outline(store.read_tree())
        loaded = Loaded(outline=made, events=[], pending=[], problem=store.read_problem(), contract=None, prepared={})
        model = Model.open(folder, loaded)
        assert [step.id for step in model.lineage(made.tree.variants[first.id])] == [second.id, first.id]
        model.store.close()


def test_a_hundred_thousand_rows_are_folded_per_round(tmp_path: Path) -> None:
    tree = Tree(settings=Settings(problem="softmax"))
    for number in range(20_000):
        idea = f"i{number // 16:04d}"
        if idea not in tree.ideas:
            tree.ideas[idea] = Idea(id=idea, round=number // 256)
        row = variant(number, idea=idea, us=100.0 + number % 7)
        tree.variants[row.id] = replace(row, round=number // 256)
    made = Outline(tree)
    made.layout()
    touched: list[int] = []
    original = made._lay_out
    made._lay_out = lambda part: (touched.append(part.number), original(part))[1]  # type: ignore[method-assign]
    tree.variants["v00000"] = replace(tree.variants["v00000"], pinned=True)
    made.fold((), {"v00000"})
    made.layout()
    assert touched == [0]
