from __future__ import annotations

import multiprocessing
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from kerneltui.errors import SessionError
from kerneltui.migrations import SCHEMA_VERSION
from kerneltui.records import (
    Call,
    CallState,
    Candidate,
    DecisionKind,
    DecisionState,
    Idea,
    Language,
    Outcome,
    Problem,
    SessionState,
    Settings,
    Stage,
    Variant,
    VariantState,
    Verdict,
)
from kerneltui.store import Store, filesystem_kind, find_session, reading, writing

PROBLEM = Problem(name="relu", title="ReLU", source="class Model: ...", path="relu.py")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    Store.create(tmp_path / "s", Settings(problem="relu"), PROBLEM).close()
    return tmp_path / "s"


def test_a_new_session_holds_its_problem_and_settings(session: Path) -> None:
    with Store.open(session) as store:
        assert store.read_problem() == PROBLEM
        assert Settings(problem="relu") == store.settings()
        assert SessionState.NEW is store.read_tree().status.state


def test_what_the_engine_writes_a_reader_folds_in_once(session: Path) -> None:
    with Store.open(session, write=True) as engine, Store.open(session) as reader:
        tree = reader.read_tree()
        before = reader.data_version()
        idea = Idea(id=engine.next_idea_id(), round=1, title="vector loads")
        variant = Variant(id=engine.next_variant_id(), idea=idea.id, round=1)
        engine.put_ideas([idea])
        engine.put_variants([variant])
        assert before != reader.data_version()
        changes = reader.refresh(tree)
        assert ({"i001"}, {"v00001"}) == (changes.ideas, changes.variants)
        assert not reader.refresh(tree)
        engine.put_variants([Variant(id="v00001", idea="i001", round=1, state=VariantState.QUEUED)])
        assert {"v00001"} == reader.refresh(tree).variants
        assert VariantState.QUEUED is tree.variants["v00001"].state


def test_a_verdict_and_its_summary_arrive_together(session: Path) -> None:
    candidate = Candidate(source="int x;", language=Language.CPP)
    verdict = Verdict(outcome=Outcome.COMPILE_ERROR, stage=Stage.COMPILE, log="no", world="here")
    with Store.open(session, write=True) as engine:
        digest = engine.add_candidate(candidate)
        variant = Variant(id="v00001", idea=None, round=0, candidate=digest, outcome=verdict.outcome)
        engine.add_verdict(variant, verdict)
    with Store.open(session) as reader:
        assert verdict == reader.read_verdict("v00001")
        assert candidate == reader.read_candidate(digest)
        assert {digest} == reader.candidates_with(re.compile("int .;"))
        assert not reader.candidates_with(re.compile("float"))
        assert verdict == reader.find_verdict(digest, "here")
        assert reader.find_verdict(digest, "elsewhere") is None


def test_a_failed_transaction_leaves_nothing(session: Path) -> None:
    with Store.open(session, write=True) as engine:
        with pytest.raises(RuntimeError), engine.transaction():
            engine.put_ideas([Idea(id="i001", round=1)])
            raise RuntimeError("in the middle")
        assert engine.read_tree().ideas == {}


def test_calls_keep_prompt_and_answer_apart_from_the_tree(session: Path) -> None:
    with Store.open(session, write=True) as engine:
        call = engine.reserve_call(Call(id=0, purpose="ideas", node="", author="a", prompt="P", reserved_usd=0.5))
        assert [call.id] == [c.id for c in engine.reserved_calls()]
        engine.finish_call(
            Call(id=call.id, purpose="ideas", node="", author="a", state=CallState.DONE, answer="A", cost_usd=0.1)
        )
        assert engine.reserved_calls() == []
        assert (engine.read_call(call.id).prompt, engine.read_call(call.id).answer) == ("P", "A")
        assert engine.read_tree().calls[call.id].answer == ""


def test_decisions_travel_and_come_back_answered(session: Path) -> None:
    with Store.open(session) as viewer, Store.open(session, write=True) as engine:
        number = viewer.add_decision(DecisionKind.PRUNE, "i001", {"why": "[/ slow"}, who="anna")
        (decision,) = engine.read_decisions(pending_only=True)
        assert (decision.target, decision.payload, decision.who) == ("i001", {"why": "[/ slow"}, "anna")
        engine.finish_decision(number, DecisionState.DONE, "pruned 3")
        assert engine.read_decisions(pending_only=True) == []
        assert viewer.read_decisions()[0].answer == "pruned 3"


def test_lone_surrogates_are_replaced_not_fatal(session: Path) -> None:
    with Store.open(session, write=True) as engine:
        engine.put_ideas([Idea(id="i001", round=1, title="bad \ud800 half")])
        engine.add_event("engine", "note", "\udcff")
        assert engine.read_tree().ideas["i001"].title == "bad ? half"


def test_events_come_in_order_after_a_number(session: Path) -> None:
    with Store.open(session, write=True) as engine:
        for number in range(5):
            engine.add_event("engine", "note", str(number))
        assert [event.text for event in engine.read_events(after=1, limit=2)] == ["3", "4"]


def test_a_newer_schema_is_refused_by_name_and_left_alone(session: Path) -> None:
    db = sqlite3.connect(session / "session.db")
    db.execute("PRAGMA user_version = 9999")
    db.close()
    with pytest.raises(SessionError, match=rf"schema 9999; this one knows {SCHEMA_VERSION}"):
        Store.open(session)


def test_a_file_that_is_no_session_is_refused(tmp_path: Path) -> None:
    (tmp_path / "session.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(SessionError, match="cannot be read as a session"):
        Store.open(tmp_path)


def test_nothing_is_half_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(settings: Settings) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "dump_settings", full)
    with pytest.raises(OSError, match="No space"):
        Store.create(tmp_path / "deep" / "s", Settings(problem="relu"), PROBLEM)
    assert not (tmp_path / "deep").exists()


def test_a_session_is_never_overwritten(session: Path) -> None:
    with pytest.raises(SessionError, match="there is a session already"):
        Store.create(session, Settings(problem="relu"), PROBLEM)


def test_unknown_session_names_those_there_are(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(session.parent))
    assert session == find_session("s")
    with pytest.raises(SessionError, match="There is: s"):
        find_session("t")


def test_filesystem_of_the_root_is_known() -> None:
    assert filesystem_kind(Path("/proc")) == "proc"


def _read_once(folder: str, results: multiprocessing.Queue) -> None:
    with Store.open(Path(folder)) as store:
        results.put(len(store.read_tree().ideas))


def test_thirty_readers_at_once_beside_a_writer(session: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with Store.open(session, write=True) as engine:
        engine.put_ideas([Idea(id="i001", round=1)])
        readers = [context.Process(target=_read_once, args=(str(session), results)) for _ in range(30)]
        for reader in readers:
            reader.start()
        for number in range(2, 40):
            engine.put_ideas([Idea(id=f"i{number:03d}", round=1)])
        counts = [results.get(timeout=30) for _ in readers]
        for reader in readers:
            reader.join()
    assert len(counts) == 30
    assert min(counts) >= 1


def test_a_copied_session_opens_elsewhere(session: Path, tmp_path: Path) -> None:
    shutil.copytree(session, tmp_path / "copy")
    with Store.open(tmp_path / "copy") as store:
        assert store.read_problem() == PROBLEM


def test_a_large_tree_keeps_its_order_and_holds_equal_texts_once(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ROWS_A_STEP", 3)
    ids = [f"v{number:05d}" for number in (5, 3, 9, 1, 2, 8, 4)]
    with Store.open(session, write=True) as engine:
        engine.put_variants([Variant(id=id, idea="i001", round=1, author="playbook", name="a name") for id in ids])
        engine.put_variants([Variant(id="v00009", idea="i001", round=1, author="playbook", name="a name", note="new")])
        found = list(engine.read_tree().variants.values())
    assert ids == [variant.id for variant in found]
    assert "new" == found[2].note
    assert len({id(variant.author) for variant in found}) == 1
    assert len({id(variant.name) for variant in found}) == 1
