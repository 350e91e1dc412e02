"""A large session of which only the newest rounds are read: it must say the same as one that was read whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import sessions
from kerneltui.records import SessionState, Tree, Variant, VariantKind
from kerneltui.store import Store
from kerneltui.tui.feed import WHOLE_UP_TO, Feed, SessionCounted, SessionLoaded
from kerneltui.tui.outline import NodeKind, Outline, Row
from kerneltui.tui.stored import StoredVariants
from kerneltui.tui.tally import Counts

VARIANTS = 5000  # twenty rounds
STRAGGLER = "v90001"  # a repair that was made many rounds later, far from its round's rows


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert VARIANTS > WHOLE_UP_TO
    folder = sessions.large_session(tmp_path_factory.mktemp("large") / "search", VARIANTS)
    with Store.open(folder, write=True) as store:
        first = store.read_variant("v00001")
        assert first is not None
        starter = Variant(id="v90000", idea=None, round=0, kind=VariantKind.STARTER)
        store.put_variants([starter, replace(first, id=STRAGGLER, kind=VariantKind.REPAIR, parent="v00001")])
        store.put_status(replace(store.read_status(), state=SessionState.FINISHED))
    return folder


@pytest.fixture(scope="module")
def whole(large: Path) -> Outline:
    with Store.open(large) as store:
        made = Outline(store.read_tree())
    made.layout()
    return made


@pytest.fixture
def newest(large: Path) -> Iterator[Outline]:
    """As a viewer has it once the older rounds are counted."""
    with Store.open(large) as store:
        made = opened(store)
        counts = Counts()
        for piece, glances in store.glances(store.last_row()):
            counts.add(piece, glances, made.tree)
        counts.name_best(made.tree)
    made.take_counts(counts)
    made.layout()
    yield made
    variants(made).close()


def opened(store: Store) -> Outline:
    found = store.read_newest(2)
    stored = StoredVariants(store.folder, found.tree, count=found.count, last_row=found.last_row)
    found.tree.variants = stored
    made = Outline(found.tree, stored)
    made.layout()
    return made


def variants(made: Outline) -> StoredVariants:
    assert isinstance(made.tree.variants, StoredVariants)
    return made.tree.variants


def held(made: Outline) -> int:
    """How many records are in memory."""
    return len(list(dict.values(made.tree.variants)))


def test_rows_and_counts_of_rounds_are_the_same(newest: Outline, whole: Outline) -> None:
    assert whole.rows == newest.rows
    rounds = [f"r{number}" for number in whole.round_numbers()]
    assert [whole.tallies[id] for id in rounds] == [newest.tallies[id] for id in rounds]
    assert len(whole.tree.variants) == len(newest.tree.variants)
    assert held(newest) < 1000


def test_before_it_is_counted_only_the_start_is_missing(large: Path, whole: Outline) -> None:
    with Store.open(large) as store:
        made = opened(store)
    assert whole.rows[1:] == made.rows
    assert not made.counted
    variants(made).close()


@pytest.mark.parametrize("round", ["r0", "r1", "r7"])
def test_an_older_round_is_read_when_it_is_opened(newest: Outline, large: Path, round: str) -> None:
    with Store.open(large) as store:
        expected = Outline(store.read_tree())
    for made in (expected, newest):
        made.set_open(Row(NodeKind.ROUND, round, 0), True)
        for idea in ("i001", "i100"):
            made.opened.add(idea)
        made.layout()
    assert expected.rows == newest.rows
    assert {id: expected.tallies[id] for id in newest.tallies} == newest.tallies
    assert held(newest) < 1500


def test_a_node_in_an_older_round_is_found(newest: Outline) -> None:
    newest.reveal("v00040")
    newest.layout()
    assert newest.index("v00040") is not None
    assert [STRAGGLER] == [below.id for below in newest.variants_below("v00001")][1:]


def test_a_filter_sees_all(newest: Outline, whole: Outline) -> None:
    newest.wanted = lambda variant: variant.id.endswith("00")
    newest.touch()
    newest.layout()
    assert VARIANTS // 100 + 1 == newest.matches
    assert list(whole.tree.variants) == list(newest.tree.variants)


def test_changes_of_an_older_round_are_counted_once(newest: Outline) -> None:
    before = newest.tallies["r1"].total
    old = newest.tree.variants["v00003"]
    new = replace(old, id="v90002")
    newest.tree.variants.update({old.id: replace(old, pruned=True), new.id: new})
    newest.fold((), [old.id])
    newest.layout()
    assert before == newest.tallies["r1"].total
    assert newest.tree.variants["v00003"].pruned


def test_it_is_a_dict_of_all(newest: Outline, whole: Outline) -> None:
    found = variants(newest)
    assert whole.tree.variants["v00009"] == found["v00009"]
    assert "v00010" in found
    assert "v99999" not in found
    assert found.get("v99999") is None
    with pytest.raises(KeyError):
        found["i001"]
    assert dict(whole.tree.variants) == dict(found)
    assert whole.tree.best() == newest.tree.best()


def test_the_feed_brings_rows_first_and_counts_when_they_are_shown(large: Path) -> None:
    posted: list[object] = []
    feed = Feed(large, posted.append)
    feed.start()
    try:
        assert feed.loaded.wait(20)
        assert [SessionLoaded] == [type(message) for message in posted]
        feed.shown.set()
        for _ in range(200):
            if len(posted) > 1:
                break
            feed.join(0.05)
        assert [SessionLoaded, SessionCounted] == [type(message) for message in posted]
    finally:
        feed.stop()
        feed.join(20)


def test_what_is_shown_first_takes_little_memory(large: Path) -> None:
    """Bytes grow with rounds and ideas, not with variants: a whole record takes 0.7 kB and more."""
    with Store.open(large) as store:
        tracemalloc.start()
        made = opened(store)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert isinstance(made.tree, Tree)
    assert kept < 2_000_000
    variants(made).close()
