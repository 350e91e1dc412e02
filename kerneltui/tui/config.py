"""A person's settings of the screen: config.toml, the project's kerneltui.toml, the environment, in that order.

theme = "kt-dark"     paint_hz = 4     mouse = true     ascii = false     editor = ""
[keys]
"branch.prune" = "x"
[confirm]
bulk_over = 50
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kerneltui.errors import SettingsError
from kerneltui.tui.actions import ACTIONS, FORBIDDEN, KEY_TEXT

KINDS: dict[str, tuple[type, ...]] = {
    "theme": (str,), "paint_hz": (int, float), "mouse": (bool,), "ascii": (bool,), "editor": (str,), "keys": (dict,),
    "confirm": (dict,),
}  # fmt: skip
VARIABLES = {"theme": "KERNELTUI_THEME", "editor": "KERNELTUI_EDITOR", "mouse": "KERNELTUI_MOUSE",
             "ascii": "KERNELTUI_ASCII", "paint_hz": "KERNELTUI_PAINT_HZ"}  # fmt: skip
BULK_OVER = 50
SLOWEST_HZ, FASTEST_HZ = 1.0, 10.0
# Keys of the lists themselves, which no action can take over.
TAKEN = frozenset({"j", "k", "g", "G", "h", "l", "0", "up", "down", "left", "right", "home", "end", "pageup", "pagedown",
                   "ctrl+d", "ctrl+u", "ctrl+c", "ctrl+z"})  # fmt: skip
NAMES = {text: name for name, text in KEY_TEXT.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What is in force, and which file said it."""

    theme: str = ""  # "" is the default one
    paint_hz: float = 4.0
    mouse: bool = True
    ascii: bool = False
    editor: str = ""  # "" is $VISUAL, else $EDITOR, else vi
    keys: Mapping[str, str] = field(default_factory=dict)  # action -> keys, with commas
    confirm: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # setting -> where it was said

    @property
    def bulk_over(self) -> int:
        """More variants than this are asked about before they are pruned."""
        return int(self.confirm.get("bulk_over", BULK_OVER))


def config_path() -> Path:
    """$KERNELTUI_CONFIG, else kerneltui/config.toml under $XDG_CONFIG_HOME or ~/.config."""
    asked = os.environ.get("KERNELTUI_CONFIG")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    return (Path(asked) if asked else home / "kerneltui" / "config.toml").expanduser()


def project_path() -> Path:
    """The file beside the sessions."""
    return Path("kerneltui.toml")


def load_config() -> Config:
    """Everything that is set, the last word winning: the person's file, the project's, the environment.

    Raises:
        SettingsError: a file that is not TOML, an unknown setting or action, a wrong value, two actions on one key.
    """
    found = Config()
    for path in (config_path(), project_path()):
        if path.is_file():
            found = _merged(found, _read(path), str(path))
    found = _merged(found, _from_environment(), "the environment")
    check_keys(found.keys, found.sources.get("keys", ""))
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}.") from error


def _from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        text = os.environ.get(variable)
        if not text:
            continue
        if KINDS[name] == (bool,):
            found[name] = text not in ("0", "false", "no")
        elif name == "paint_hz":
            try:
                found[name] = float(text)
            except ValueError as error:
                raise SettingsError(f"{variable}={text}: a number from 1 to 10 is wanted.") from error
        else:
            found[name] = text
    return found


def _merged(config: Config, values: Mapping[str, Any], source: str) -> Config:
    for name, value in values.items():
        if name not in KINDS:
            raise SettingsError(f"{source}: unknown setting `{name}`.{_near(name, list(KINDS))}")
        if not isinstance(value, KINDS[name]) or (isinstance(value, bool) and bool not in KINDS[name]):
            wanted = " or ".join(kind.__name__ for kind in KINDS[name])
            raise SettingsError(f"{source}: `{name}` is {value!r}; {wanted} is wanted.")
    if not SLOWEST_HZ <= values.get("paint_hz", SLOWEST_HZ) <= FASTEST_HZ:
        raise SettingsError(f"{source}: `paint_hz` is {values['paint_hz']}; from 1 to 10 paints a second are possible.")
    for name, number in values.get("confirm", {}).items():
        if name != "bulk_over":
            raise SettingsError(f"{source}: [confirm] has no setting `{name}`.{_near(name, ['bulk_over'])}")
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise SettingsError(f"{source}: [confirm] `bulk_over` is {number!r}; a number of variants is wanted.")
    changed = {name: value for name, value in values.items() if name != "keys"}
    keys = {**config.keys, **_read_keys(values.get("keys", {}), source)}
    sources = {**config.sources, **dict.fromkeys(values, source)}
    return replace(config, **changed, keys=keys, sources=sources)


def _read_keys(table: Mapping[str, Any], source: str) -> dict[str, str]:
    """Keys by action, in Textual's names; a list gives an action several."""
    known = [action.id for action in ACTIONS]
    found: dict[str, str] = {}
    for id, value in table.items():
        if id not in known:
            raise SettingsError(f"{source}: [keys] has no action `{id}`.{_near(id, known)}")
        names: list[str] = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name for name in names):
            raise SettingsError(f'{source}: [keys] "{id}" is {value!r}; a key such as "x" or a list of keys is wanted.')
        found[id] = ",".join(NAMES.get(name) or name for name in names)
    return found


def check_keys(keys: Mapping[str, str], source: str) -> None:
    """Every key does one thing.

    Raises:
        SettingsError: two actions on one key, or a key that a list, tmux or the terminal has.
    """
    owners: dict[str, str] = {}
    for action in ACTIONS:
        for key in keys[action.id].split(",") if action.id in keys else action.keys:
            if action.id in keys and (key in FORBIDDEN or key in TAKEN):
                why = "moves in every list" if key in TAKEN else "is taken by tmux, screen or the terminal"
                raise SettingsError(f'{source}: [keys] "{action.id}" = "{key}": that key {why}. Choose another.')
            if key in owners:
                shown = KEY_TEXT.get(key, key)
                raise SettingsError(f"{source}: [keys] gives `{shown}` to both `{owners[key]}` and `{action.id}`.")
            owners[key] = action.id


def _near(name: str, known: list[str]) -> str:
    import difflib  # only for a mistake

    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean `{near[0]}`?" if near else f" There are {', '.join(sorted(known)[:8])} and others."


def setting_lines(config: Config) -> list[tuple[str, str, str]]:
    """Name, value and source of every setting."""
    names = [each.name for each in fields(Config) if each.name not in ("sources", "keys")]
    found = [(name, str(getattr(config, name)), config.sources.get(name, "default")) for name in names]
    return found + [(f"keys.{id}", keys, config.sources.get("keys", "")) for id, keys in config.keys.items()]
