"""The machine-code screen on a real build of a small C++ kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import OpenApp, screen_text, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from building import CPP_CONTRACT, RELU

from kerneltui.evaluator.assembly import CodeLine, Disassembly, Function, Kind
from kerneltui.records import Candidate, Language, Problem, Settings, Variant, VariantState
from kerneltui.store import Store
from kerneltui.tui.machine_code import machine_lines, matches


@pytest.fixture
def relu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One C++ variant, never judged."""
    monkeypatch.setenv("KERNELTUI_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "sessions" / "relu"
    problem = Problem(name="relu", title="ReLU", source="", path="relu.py")
    with Store.create(folder, Settings(problem="relu"), problem) as store:
        store.put_contract(CPP_CONTRACT)
        candidate = Candidate(source=RELU, language=Language.CPP)
        digest = store.add_candidate(candidate)
        row = Variant(id="v00001", idea=None, round=1, candidate=digest, language=Language.CPP, state=VariantState.DONE)
        store.put_variants([row])
    return folder


async def test_machine_code_opens_is_searched_and_left(relu: Path, open_app: OpenApp) -> None:
    async with open_app(relu, 100, 30) as pilot:
        await pilot.press("B", "j", "j", "M")
        await wait_for(pilot, lambda: "host assembly" in screen_text(pilot) and "objdump" in screen_text(pilot))
        assert "relu" in screen_text(pilot)
        await pilot.press("slash", *"GOMP", "enter")
        await wait_for(pilot, lambda: "match 1 of" in screen_text(pilot))
        await pilot.press("right_curly_bracket")
        assert "functions" in screen_text(pilot)
        await pilot.press("p")
        assert "PTX is of CUDA variants" in screen_text(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert "Tree" in screen_text(pilot)


def test_source_lines_stand_before_their_instructions() -> None:
    body = (
        CodeLine(text="@P0 LDG.E R1, [R2] // note", source=2, address="0010"),
        CodeLine(text="EXIT", source=2, address="0020"),
    )
    found = Disassembly(
        kind=Kind.SASS, architecture="sm_90a", tool="nvdisasm", functions=(Function(name="k", symbol="k", lines=body),)
    )
    listing = machine_lines(found, ["", "    y = x[i];"])
    texts = ["".join(part for part, _ in line) for line in listing.lines]
    assert [" k  2 instructions", "   LDG 1  EXIT 1", "     2 y = x[i];", "   0010 @P0 LDG.E R1, [R2] // note", "   0020 EXIT"] == texts  # fmt: skip
    assert [0] == listing.starts
    assert [3] == matches(listing.lines, "ldg.e")
    assert 4 == len(machine_lines(found, [], with_source=False).lines)
