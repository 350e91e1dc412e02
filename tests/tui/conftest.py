"""What the screen tests share."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from textual.pilot import Pilot

import sessions
from kerneltui.tui.app import KernelTui


class OpenApp(Protocol):
    """Opens the program on a session, at a size."""

    def __call__(self, folder: Path | None, width: int = 160, height: int = 48, theme: str = "kt-dark",
                 ascii_only: bool = False) -> AbstractAsyncContextManager[Pilot[int]]: ...  # fmt: skip


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drafts and themes of the person who runs the tests are left alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KERNELTUI_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.delenv("TMUX", raising=False)
    yield


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Four rounds, with a living engine: this process."""
    return sessions.small_session(tmp_path / "sessions" / "softmax")


@pytest.fixture
def open_app() -> OpenApp:
    """The program under test, loaded and settled."""

    @asynccontextmanager
    async def opened(folder: Path | None, width: int = 160, height: int = 48, theme: str = "kt-dark",
                     ascii_only: bool = False) -> AsyncIterator[Pilot[int]]:  # fmt: skip
        app = KernelTui(folder, theme=theme, ascii_only=ascii_only)
        async with app.run_test(size=(width, height)) as pilot:
            if folder is not None:
                await wait_for(pilot, lambda: getattr(app.screen, "_model", None) is not None)
            await pilot.pause(0.3)
            yield pilot

    return opened


async def wait_for(pilot: Pilot[Any], condition: Any, seconds: float = 20.0) -> None:
    """Until something is so; a test that waits in vain fails here."""
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await pilot.pause(0.05)
    raise AssertionError(f"not so within {seconds} s")


def screen_text(pilot: Pilot[Any]) -> str:
    """Everything on the screen as plain lines."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)
