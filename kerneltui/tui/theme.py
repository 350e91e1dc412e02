"""Themes from TOML: colours for Textual's own parts, and tokens for everything that we draw ourselves."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.color import ColorParseError
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from kerneltui.errors import SettingsError

DEFAULT = "kt-dark"
PLAIN = "kt-plain"  # for NO_COLOR: bold, reverse and underline only

COLOR_NAMES = (
    "primary", "secondary", "warning", "error", "success", "accent", "foreground", "background", "surface", "panel",
    "boost",
)  # fmt: skip

# Every token and what it falls back to: a theme need only say what it wants to be different.
TOKENS: dict[str, str] = {
    "text": "",
    "muted": "dim",
    "faint": "dim",
    "title": "bold",
    "title-on": "bold reverse",
    "key": "bold",
    "ok": "green",
    "fail": "red",
    "run": "yellow",
    "wait": "dim",
    "pinned": "bold",
    "pruned": "dim strike",
    "human": "magenta",
    "best": "bold green",
    "round": "bold",
    "idea": "",
    "number": "",
    "warning": "yellow",
    "error": "bold red",
    "diff-add": "green",
    "diff-del": "red",
    "diff-ctx": "",
    "diff-hunk": "cyan",
    "line-number": "dim",
    "match": "reverse",
    "marked": "bold",
    "cursor": "reverse",
    "cursor-off": "underline",
    "plot-line": "cyan",
    "plot-human": "magenta",
    "plot-axis": "dim",
    "bar": "cyan",
    "keyword": "bold",
    "type": "",
    "comment": "dim",
    "string": "",
    "literal": "",
    "preprocessor": "",
    "function": "",
    "operator": "",
    "builtin": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A theme as read: Textual's half, and the style of every token."""

    theme: Theme
    styles: Mapping[str, Style]
    problems: tuple[str, ...] = ()  # values that could not be used, in words
    path: Path | None = None

    def __getitem__(self, token: str) -> Style:
        return self.styles[token]


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    path: Path
    dark: bool
    ansi: bool
    colors: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)


def theme_folders() -> list[Path]:
    """Where themes lie: a person's own first, then those that ship."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    here = Path(__file__).resolve().parent.parent
    shipped = [here.parent / "themes", here / "_data" / "themes"]
    return [Path(home).expanduser() / "kerneltui" / "themes", *shipped]


def is_own(path: Path | None) -> bool:
    """Whether a theme is a person's own, which may be edited while it is shown."""
    return path is not None and path.parent == theme_folders()[0]


def theme_names() -> list[str]:
    """Every theme that can be chosen, those that ship first."""
    names: dict[str, None] = {}
    for folder in reversed(theme_folders()):
        for path in sorted(folder.glob("*.toml")):
            names.setdefault(path.stem)
    return list(names)


def load_look(name: str) -> Look:
    """The theme of that name.

    Raises:
        SettingsError: there is none, or its file is not TOML.
    """
    problems: list[str] = []
    table = _read_table(name, problems, ())
    styles = {token: _style(table, token, default, problems) for token, default in TOKENS.items()}
    return Look(theme=_textual_theme(table), styles=styles, problems=tuple(problems), path=table.path)


def _read_table(name: str, problems: list[str], above: tuple[str, ...]) -> _Table:
    path = _find(name)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: this theme cannot be read: {error}") from error
    parent = data.get("inherit")
    base = _Table(name, path, True, False)
    if isinstance(parent, str) and parent not in above:
        base = _read_table(parent, problems, (*above, name))
    problems.extend(_unknown(path, data))
    syntax = data.get("syntax", {})
    return _Table(
        name,
        path,
        bool(data.get("dark", base.dark)),
        bool(data.get("ansi", base.ansi)),
        {**base.colors, **{key: str(value) for key, value in data.get("colors", {}).items()}},
        {**base.tokens, **{key: str(value) for key, value in {**data.get("tokens", {}), **syntax}.items()}},
    )


def _find(name: str) -> Path:
    for folder in theme_folders():
        path = folder / f"{name}.toml"
        if path.is_file():
            return path
    raise SettingsError(f"no theme called {name!r}; there are {', '.join(theme_names()) or 'none at all'}")


def _unknown(path: Path, data: Mapping[str, object]) -> list[str]:
    """Keys that nothing reads."""
    known = {"inherit", "dark", "ansi", "title", "colors", "tokens", "syntax"}
    found = [f"{path}: unknown key {key!r}" for key in data if key not in known]
    for section, names in (("colors", COLOR_NAMES), ("tokens", TOKENS), ("syntax", TOKENS)):
        table = data.get(section, {})
        if isinstance(table, Mapping):
            found += [f"{path}: unknown key {key!r} in [{section}]" for key in table if key not in names]
    return found


def _style(table: _Table, token: str, default: str, problems: list[str]) -> Style:
    text = table.tokens.get(token, default)
    try:
        return Style.parse(text or "none")
    except (StyleSyntaxError, ColorParseError) as error:
        problems.append(f"{table.path}: {token} = {text!r} is no style ({error}); the default is used")
        return Style.parse(default or "none")


def _textual_theme(table: _Table) -> Theme:
    fallback = "ansi_default" if table.ansi else "#808080"
    colors: dict[str, str | None] = {
        name: table.colors.get(name, fallback if table.ansi else None) for name in COLOR_NAMES
    }
    primary = colors.pop("primary") or fallback
    panel, background = colors["panel"] or fallback, colors["background"] or fallback
    variables = {
        "scrollbar": panel,
        "scrollbar-hover": primary,
        "scrollbar-active": primary,
        "scrollbar-background": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
    }
    if table.ansi:  # names that only ansi themes define, and Textual's own style sheet then asks for
        variables = {**BUILTIN_THEMES["ansi-dark" if table.dark else "ansi-light"].variables, **variables}
    return Theme(
        name=table.name,
        primary=primary,
        secondary=colors["secondary"],
        warning=colors["warning"],
        error=colors["error"],
        success=colors["success"],
        accent=colors["accent"],
        foreground=colors["foreground"],
        background=colors["background"],
        surface=colors["surface"],
        panel=colors["panel"],
        boost=colors["boost"],
        dark=table.dark,
        ansi=table.ansi,
        variables=variables,
    )
