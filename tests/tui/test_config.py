"""config.toml: what is in force, and the sentence for every mistake in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import OpenApp, screen_text, wait_for

from kerneltui.cli import group
from kerneltui.errors import SettingsError
from kerneltui.tui.actions import ACTIONS, by_id, keys_of, use_keys
from kerneltui.tui.app import KernelTui, pick_theme
from kerneltui.tui.config import Config, config_path, load_config


def write(text: str) -> Path:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KERNELTUI_") and name != "KERNELTUI_SESSIONS"]:
        monkeypatch.delenv(name)


def test_nothing_said_is_the_default() -> None:
    assert Config() == load_config()
    assert "kt-dark" == pick_theme(None, Config())


def test_the_project_wins_over_the_person_and_the_environment_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = write('theme = "kt-light"\npaint_hz = 2\nmouse = false\n')
    Path("kerneltui.toml").write_text('theme = "kt-ember"\n')
    monkeypatch.setenv("KERNELTUI_PAINT_HZ", "8")
    found = load_config()
    assert ("kt-ember", 8.0, False) == (found.theme, found.paint_hz, found.mouse)
    assert {"theme": "kerneltui.toml", "paint_hz": "the environment", "mouse": str(mine)} == found.sources


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("theme = 3", "`theme` is 3; str is wanted"),
        ("[confirm]\nbulk = 3", "[confirm] has no setting `bulk`"),
        ("[confirm]\nbulk_over = true", "a number of variants is wanted"),
        ("paint_hz = 50", "from 1 to 10 paints a second"),
        ("paint_hz = true", "int or float is wanted"),
        ("thema = 'x'", "unknown setting `thema`. Did you mean `theme`?"),
        ('[keys]\n"branch.prun" = "x"', "[keys] has no action `branch.prun`. Did you mean `branch.prune`?"),
        ('[keys]\n"branch.prune" = "p"', "[keys] gives `p` to both `branch.prune` and `branch.pin`"),
        ('[keys]\n"branch.prune" = "j"', "that key moves in every list"),
        ('[keys]\n"branch.prune" = "ctrl+b"', "is taken by tmux, screen or the terminal"),
        ('[keys]\n"branch.prune" = 3', "a key such as"),
        ("theme = ", "cannot be read"),
    ],
)
def test_a_mistake_is_a_sentence_that_names_the_file(text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(SettingsError) as caught:
        load_config()
    assert said in str(caught.value) and str(path) in str(caught.value)


async def test_a_key_that_was_moved_works_and_is_shown(session: Path) -> None:
    write('[keys]\n"branch.prune" = "H"\n"view.filter" = ["I", "/"]\n')
    app = KernelTui(session, theme="kt-dark", config=load_config())
    try:
        async with app.run_test(size=(100, 30)) as pilot:
            await wait_for(pilot, lambda: getattr(app.screen, "_model", None) is not None)
            await pilot.pause(0.2)
            assert " H prune" in screen_text(pilot) and " I filter" in screen_text(pilot)
            await pilot.press("x")
            assert "pruned" not in screen_text(pilot)
            await pilot.press("H")
            await wait_for(pilot, lambda: "pruned v" in screen_text(pilot))
            await pilot.press("slash")
            assert "filter" == app.focused.id
    finally:
        use_keys({})
    assert ("x",) == keys_of(by_id("branch.prune"))


async def test_an_own_theme_is_shown_as_it_is_edited(session: Path, open_app: OpenApp) -> None:
    folder = config_path().parent / "themes"
    folder.mkdir(parents=True)
    theme = folder / "mine.toml"
    theme.write_text('inherit = "kt-dark"\n')
    async with open_app(session, theme="mine") as pilot:
        theme.write_text('inherit = "kt-dark"\n[colors]\nbackground = "#123456"\n[tokens]\nok = "#abcdef"\n')
        os.utime(theme, (time.time() + 5, time.time() + 5))
        await wait_for(pilot, lambda: str(pilot.app.look["ok"]) == "#abcdef")
        await wait_for(pilot, lambda: "#123456" == pilot.app.screen.styles.background.hex)


async def test_a_slow_line_is_painted_less_often(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        monkeypatch.setattr(pilot.app, "slowest_write_s", lambda: 0.5)
        for _ in range(4):
            screen.keep_pace()
        assert 1.0 == screen._paint_s
        await wait_for(pilot, lambda: "slow link: 1 paints a second" in screen_text(pilot))
        monkeypatch.setattr(pilot.app, "slowest_write_s", lambda: 0.0)
        await wait_for(pilot, lambda: screen._paint_s == pilot.app.paint_s)


def test_paths_says_where_everything_lies() -> None:
    path = write('theme = "kt-light"\n[keys]\n"branch.prune" = "H"\n')
    done = CliRunner().invoke(group, ["paths"])
    assert 0 == done.exit_code, done.output
    for wanted in (str(path), "kt-light", "keys.branch.prune", "sessions", "drafts", "themes"):
        assert wanted in done.output


def test_every_default_key_is_free_for_its_action() -> None:
    assert len(ACTIONS) == len({action.id for action in ACTIONS})
    assert load_config().keys == {}
