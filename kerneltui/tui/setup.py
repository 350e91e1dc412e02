"""A new session while its settings are typed: fields, faults, what it may take, the same on the command line."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerneltui.authors.keys import check_ready
from kerneltui.authors.money import worst_cases
from kerneltui.authors.prompt import first_prompt
from kerneltui.errors import KernelTuiError, SettingsError
from kerneltui.problems import load_problem
from kerneltui.records import Settings
from kerneltui.search.forecast import before_start, words_on_all
from kerneltui.settings import CHOICES, author_word, cap_answers, parse_author, parse_settings, read_value
from kerneltui.tui.widgets.linelist import Line

LABEL = 10  # columns
OPEN_CAPS = ("usd", "tokens", "evaluations", "wall_s", "target_speedup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One line of the form."""

    key: str
    label: str
    hint: str
    begins: bool = False  # a group


FIELDS = (
    Field(key="name", label="name", hint="a folder under the sessions"),
    Field(key="problem", label="problem", hint="a known name, or a .py file"),
    Field(key="device", label="device", hint="auto, cuda, cpu; cpu:0 cpu:1 share"),
    Field(key="authors", label="authors", hint="playbook, openai:MODEL, gemini:..."),
    Field(key="rounds", label="rounds", hint="of ideas", begins=True),
    Field(key="ideas", label="ideas", hint="from each parent"),
    Field(key="variants", label="variants", hint="of each idea"),
    Field(key="beam", label="survivors", hint="of each round, the next parents"),
    Field(key="review", label="review", hint="yes: ideas wait for approval"),
    Field(key="usd", label="dollars", hint="at most; empty is no cap", begins=True),
    Field(key="tokens", label="tokens", hint="at most"),
    Field(key="evaluations", label="evaluations", hint="at most"),
    Field(key="wall_s", label="minutes", hint="at most"),
    Field(key="target_speedup", label="target", hint="end at this speed-up over eager"),
)
LABELS = {field.key: field.label for field in FIELDS}


def form_values(settings: Settings, name: str) -> dict[str, str]:
    """The settings as they stand in the form."""
    caps = {key: getattr(settings.budget, key) for key in OPEN_CAPS}
    caps["wall_s"] = None if caps["wall_s"] is None else caps["wall_s"] / 60
    return {
        "name": name,
        "problem": settings.problem,
        "device": " ".join(settings.devices or (settings.device,)),
        "authors": ", ".join(map(author_word, settings.authors)),
        **{key: str(getattr(settings, key)) for key in ("rounds", "ideas", "variants", "beam")},
        "review": "yes" if settings.review else "no",
        **{key: "" if cap is None else f"{cap:g}" if cap < 1e6 else str(int(cap)) for key, cap in caps.items()},
    }


def read_form(
    values: Mapping[str, str], base: Settings, check_name: Callable[[str], str]
) -> tuple[Settings, dict[str, str]]:
    """The settings that the form makes of `base`, and what is wrong by field; a faulty field leaves `base` as it is."""
    faults: dict[str, str] = {}
    found: dict[str, Any] = {}
    caps: dict[str, Any] = {}
    for key, text in values.items():
        try:
            if key == "name":
                if fault := check_name(text):
                    faults[key] = fault
            elif key in OPEN_CAPS:
                caps[key] = _cap(key, text)
            else:
                found |= _READERS[key](text.strip(), base)
        except KernelTuiError as error:
            faults[key] = _in_the_words_of_the_form(str(error))
    budget = replace(base.budget, **caps)
    if budget.usd is not None and "authors" in found:
        found["authors"] = tuple(map(cap_answers, found["authors"]))
    return replace(base, budget=budget, **found), faults


def _in_the_words_of_the_form(text: str) -> str:
    """The sentence without the file or option that a command line would name, and with the labels of the form."""
    text = text.removeprefix("--author ")
    for key, label in LABELS.items():
        text = text.replace(f"`{key}`", f"`{label}`")
    return text


def _cap(key: str, text: str) -> float | None:
    text = text.strip().replace(",", "").removeprefix("$")
    if not text:
        return None
    hint = int | None if key in ("tokens", "evaluations") else float | None
    found: float | None = read_value(key, _number(text, key) * (60 if key == "wall_s" else 1), hint, "")
    return found


def _number(text: str, key: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"{LABELS[key]} is {text!r}; a number is expected.") from None


def _width(key: str) -> Callable[[str, Settings], dict[str, Any]]:
    def read(text: str, _: Settings) -> dict[str, Any]:
        return {key: read_value(key, _number(text, key), int, "")}

    return read


def _problem(text: str, _: Settings) -> dict[str, Any]:
    load_problem(text)
    path = Path(text)
    return {"problem": str(path.resolve()) if path.exists() else text}


def _devices(text: str, _: Settings) -> dict[str, Any]:
    names = text.replace(",", " ").split()
    if not names:
        raise SettingsError("auto, cuda, cpu, or ids such as cuda:0; several of one kind share the search.")
    return {"device": names[0], "devices": tuple(names) if len(names) > 1 else ()}


def _authors(text: str, base: Settings) -> dict[str, Any]:
    """Those that were there keep what the form does not show."""
    kinds = "|".join(CHOICES["kind"])
    parts = [part.strip() for part in re.split(rf"[,;]\s*(?=(?:{kinds})\b|$)", text) if part.strip()]
    if not parts:
        raise SettingsError("at least one: playbook, openai:MODEL, gemini:MODEL or command:PROGRAM.")
    had = {author_word(author): author for author in base.authors}
    authors = tuple(had.get(part) or parse_author(part) for part in parts)
    lacking = [words for words in map(check_ready, authors) if words]
    if lacking:
        raise SettingsError("; ".join(lacking))
    return {"authors": authors}


def _review(text: str, _: Settings) -> dict[str, Any]:
    if text.lower() not in ("yes", "y", "no", "n", ""):
        raise SettingsError("yes or no is expected.")
    return {"review": text.lower().startswith("y")}


_READERS: dict[str, Callable[[str, Settings], dict[str, Any]]] = {
    "problem": _problem, "device": _devices, "authors": _authors, "review": _review,
    **{key: _width(key) for key in ("rounds", "ideas", "variants", "beam")},
}  # fmt: skip


def check_settings(text: str) -> str:
    """Why these settings make no session; "" when they do."""
    try:
        load_problem(parse_settings(text, "session.toml").problem)
    except KernelTuiError as error:
        return str(error)
    return ""


def setup_lines(text: str, name: str, width: int) -> list[Line]:
    """Lines under the text: the forecast and the command, or the fault."""
    try:
        settings = parse_settings(text, "session.toml")
        return forecast_lines(settings, name, width)
    except KernelTuiError as error:
        return labelled("", "error", str(error), width)


def forecast_lines(settings: Settings, name: str, width: int) -> list[Line]:
    """What the whole search may take at most, and the command that makes the same.

    Raises:
        KernelTuiError: its problem cannot be read.
    """
    worst = worst_cases(settings.authors, first_prompt(load_problem(settings.problem)))
    forecast = words_on_all(before_start(settings, worst), settings)
    return [
        *labelled("forecast", "", forecast, width),
        *labelled("the same", "muted", command_line(settings, name), width),
    ]


def labelled(label: str, token: str, text: str, width: int) -> list[Line]:
    """A text beside its label, in as many lines as it needs."""
    room = max(20, width - LABEL - 1)
    lines = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [[(f"{label if not row else '':<{LABEL}}", "key"), (line, token)] for row, line in enumerate(lines)]


def command_line(settings: Settings, name: str) -> str:
    """`kerneltui new` with what differs from its defaults; what it has no option for is in session.toml only."""
    plain, budget = Settings(problem=""), settings.budget
    said = ["kerneltui", "new", settings.problem, "--name", name]
    for device in settings.devices or ((settings.device,) if settings.device != plain.device else ()):
        said += ["--device", device]
    for author in settings.authors if settings.authors != plain.authors else ():
        said += ["--author", author_word(author)]
    for key in ("rounds", "ideas", "variants", "beam"):
        if getattr(settings, key) != getattr(plain, key):
            said += [f"--{key}", str(getattr(settings, key))]
    said += ["--review"] if settings.review else []
    caps = {"usd": budget.usd, "tokens": budget.tokens, "evaluations": budget.evaluations}
    caps["minutes"] = None if budget.wall_s is None else budget.wall_s / 60
    for key, cap in caps.items():
        said += [f"--budget-{key}", f"{cap:g}"] if cap is not None else []
    said += ["--target", f"{budget.target_speedup:g}"] if budget.target_speedup is not None else []
    for constant, value in settings.sizes.items():
        said += ["--size", f"{constant}={value}"]
    said += ["--tolerance", settings.tolerance] if settings.tolerance else []
    return shlex.join(said)
