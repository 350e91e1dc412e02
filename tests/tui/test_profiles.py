"""The Profile tab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from conftest import OpenApp, screen_text, wait_for

from kerneltui.records import DecisionKind, Figure, KernelProfile, Profile, Variant
from kerneltui.store import Store
from kerneltui.tui.profiles import profile_lines
from kerneltui.tui.render import ASCII
from kerneltui.tui.widgets.linelist import Line

ROWS = KernelProfile(
    name="rows<float>",
    launches=2,
    figures=(
        Figure(name="DRAM throughput", value=91.0, unit="%"),
        Figure(name="registers a thread", value=40.0),
    ),
)
FOUND = Profile(tool="ncu", kernels=(ROWS,), missing=("bank conflicts",), created=1e9)
ROW = Variant(id="v00001", idea=None, round=1, candidate="d")


def texts(lines: list[Line]) -> list[str]:
    return [line if isinstance(line, str) else "".join(part for part, _ in line) for line in lines]


def test_kernels_have_their_figures_and_bars() -> None:
    lines = profile_lines(ROW, FOUND, "", ASCII, 80)
    shown = texts(lines)
    assert " rows<float>  mean of 2 launches" in shown
    assert f"  {'DRAM throughput':<30} {'91 %':>14}  {ASCII.full * 22}{ASCII.empty * 2}" in shown
    assert f"  {'registers a thread':<30} {'40':>14}" in shown
    assert " Missing: bank conflicts" == shown[-1]
    narrow = texts(profile_lines(ROW, FOUND, "", ASCII, 40))
    assert max(map(len, narrow)) <= 40


def test_half_of_a_hundred_columns_has_room_for_a_name() -> None:
    long = Figure(name="512-bit vectors in the code", value=55.0, unit="%")
    found = replace(FOUND, kernels=(replace(ROWS, figures=(long,)),))
    shown = texts(profile_lines(ROW, found, "", ASCII, 48))
    assert any(long.name in line for line in shown)
    assert max(map(len, shown)) <= 48


def test_without_a_profile_the_key_is_named() -> None:
    assert "% counts what it does" in texts(profile_lines(ROW, None, "", ASCII, 80))[0]
    assert [" Nothing to profile: there is no code."] == texts(
        profile_lines(replace(ROW, candidate=None), None, "", ASCII, 80)
    )
    assert [" It is being profiled now."] == texts(profile_lines(ROW, None, "It is being profiled now.", ASCII, 80))


async def test_the_key_asks_and_the_tab_shows_what_came(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("B", "percent_sign")
        await wait_for(pilot, lambda: "A profile is asked for" in screen_text(pilot))
        with Store.open(session, write=True) as engine:
            asked = engine.read_decisions(pending_only=True)[-1]
            row = engine.read_tree().variants[asked.target]
            assert DecisionKind.PROFILE is asked.kind
            with engine.transaction():
                engine.finish_decision(asked.id, "done", "being profiled")
                engine.put_variants([row])
                engine.add_event("engine", "profile", f"profiling {row.id}", row.id)
            await wait_for(pilot, lambda: "It is being profiled now" in screen_text(pilot))
            with engine.transaction():
                engine.put_profile(row.candidate or "", FOUND)
                engine.put_variants([row])
                engine.add_event("engine", "profile", f"{row.id} was profiled with ncu", row.id)
            await wait_for(pilot, lambda: "DRAM throughput" in screen_text(pilot))
            with engine.transaction():
                engine.put_variants([row])
                engine.add_event("engine", "machine", f"{row.id} was not profiled: ncu was not found", row.id)
            await wait_for(pilot, lambda: "was not profiled: ncu was not" in screen_text(pilot))


async def test_the_tab_that_is_shown_is_named_in_a_narrow_pane(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 100, 30) as pilot:
        await pilot.press("B", *["right_square_bracket"] * 7)
        await wait_for(pilot, lambda: "[Prompt]" in screen_text(pilot))
