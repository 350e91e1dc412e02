"""The whole way in a real terminal: from `kerneltui new` to an exported winner, with keys through tmux."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerneltui.store import Store

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = f"{shlex.quote(sys.executable)} -m kerneltui"
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is missing"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing: no kernel can be built"),
    pytest.mark.timeout(240),
]


class Tmux:
    """A server of its own with one window."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, folder / "tmux.sock"
        keep = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE", "NO_COLOR")}
        self.environment = keep | {
            "KERNELTUI_SESSIONS": str(folder / "sessions"), "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8",
        }  # fmt: skip

    def call(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=20, check=False)
        return done.stdout

    def start(self) -> None:
        self.call("new-session", "-d", "-x", "120", "-y", "36", "-c", str(self.folder), "sh")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.call("send-keys", key)
            time.sleep(0.15)

    def type(self, text: str) -> None:
        self.call("send-keys", "-l", text)
        self.call("send-keys", "Enter")

    def screen(self) -> str:
        return self.call("capture-pane", "-p")

    def wait_for(self, *words: str, seconds: float = PATIENCE_S) -> str:
        """Until all words are on the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.screen()
            if all(word in text for word in words):
                return text
            time.sleep(0.2)
        raise AssertionError(f"never saw {words}; the screen was:\n{self.screen()}")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    server.start()
    yield server
    server.call("kill-server")


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait for something outside of the screen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    raise AssertionError(f"never came: {what}")


def test_from_a_new_session_to_an_exported_winner(tmux: Tmux, tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "day"
    tmux.type(
        f"{PROGRAM} new softmax --name day --device cpu --no-check --size ROWS=64 --size WIDTH=2048"
        " --rounds 1 --ideas 2 --variants 1 && echo made"
    )
    tmux.wait_for("made\n")
    tmux.type(f"{PROGRAM} attach day; echo left $?")
    tmux.wait_for("No engine has run here yet")
    tmux.keys("S")
    tmux.wait_for("engine started")
    tmux.wait_for("best ", "×", "DONE", seconds=150)

    tmux.keys("B")
    best = Store.open(folder).read_status().best
    assert best is not None
    tmux.keys("x")
    tmux.wait_for(f"pruned {best}")
    tmux.keys("z")
    tmux.wait_for("undone")
    with Store.open(folder) as store:
        asked = [(d.kind, d.target) for d in store.read_decisions() if d.who != "engine"]
        assert [("prune", best), ("restore", best)] == asked

    tmux.keys("s")
    tmux.wait_for(f"Export {best} to")
    tmux.keys("Enter")
    tmux.wait_for("exported", "winners")
    until(lambda: list((tmp_path / "winners").glob("*_provenance.json")), "the exported files")
    assert {".cpp", ".h", ".json"} == {path.suffix for path in (tmp_path / "winners").iterdir()}
    tmux.keys("q")
    tmux.wait_for("left 0")
