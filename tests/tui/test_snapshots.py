"""Pictures of the screens that most depend on their layout. After a change that was meant: pytest --snapshot-update."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_for

import sessions
from kerneltui.records import Idea, IdeaStatus, Settings
from kerneltui.store import Store
from kerneltui.tui.app import KernelTui
from kerneltui.tui.screens.setup import SetupScreen

Pilot = Any
Snapshot = Callable[..., bool]


def keys(*pressed: str, until: str) -> Callable[[Pilot], Awaitable[None]]:
    """Press keys once the session is there, and wait until the screen shows what they lead to."""

    async def run(pilot: Pilot) -> None:
        await wait_for(pilot, lambda: getattr(pilot.app.screen, "_model", None) is not None)
        await pilot.press(*pressed)
        await wait_for(pilot, lambda: until in _text(pilot))
        await pilot.pause(0.3)

    return run


def _text(pilot: Pilot) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


def test_main_in_sixteen_colours_at_80_by_24(session: Path, snap_compare: Snapshot) -> None:
    app = KernelTui(session, theme="kt-ansi")
    assert snap_compare(app, terminal_size=(80, 24), run_before=keys("B", until="v00021"))


def test_failures(session: Path, snap_compare: Snapshot) -> None:
    app = KernelTui(session, theme="kt-dark")
    assert snap_compare(app, terminal_size=(100, 30), run_before=keys("f", until="Examples"))


def test_compare(session: Path, snap_compare: Snapshot) -> None:
    app = KernelTui(session, theme="kt-light")
    marks = keys("B", "space", "space", "c", until="#define BLOCK 128")
    assert snap_compare(app, terminal_size=(100, 36), run_before=marks)


@pytest.fixture
def reviewed(session: Path) -> Path:
    """A session in which three ideas wait for a yes."""
    with Store.open(session, write=True) as store:
        for number, (title, bottleneck, technique) in enumerate(sessions.TITLES[:3]):
            idea = Idea(id=f"i{20 + number:03d}", round=5, parent="v00021", author="playbook", title=title, text=sessions.TEXT,
                        bottleneck=bottleneck, technique=technique, expected="1.1 to 1.3 times faster",
                        status=IdeaStatus.PROPOSED)  # fmt: skip
            store.put_ideas([idea])
    return session


def test_review(reviewed: Path, snap_compare: Snapshot) -> None:
    app = KernelTui(reviewed, theme="kt-dark")
    assert snap_compare(app, terminal_size=(100, 30), run_before=keys("V", "j", until="float4 loads and stores"))


def test_setup_form_with_a_fault(snap_compare: Snapshot) -> None:
    app = KernelTui(None, theme="kt-light")

    async def run(pilot: Pilot) -> None:
        await pilot.pause(0.3)
        app.push_screen(SetupScreen(Settings(problem="softmax"), "softmax"))
        await pilot.pause(0.3)
        await pilot.press(*["tab"] * 4, "backspace", "0")
        await wait_for(pilot, lambda: "kerneltui new" in _text(pilot))
        await pilot.pause(1.0)

    assert snap_compare(app, terminal_size=(100, 30), run_before=run)
