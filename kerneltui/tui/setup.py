"""What is said of a new session while its settings are typed: faults, what it may take, the same on the command line."""

from __future__ import annotations

import shlex
import textwrap

from kerneltui.authors.money import worst_cases
from kerneltui.authors.prompt import first_prompt
from kerneltui.errors import KernelTuiError
from kerneltui.problems import load_problem
from kerneltui.records import Settings
from kerneltui.search.forecast import before_start, words_on_all
from kerneltui.settings import parse_settings
from kerneltui.tui.widgets.linelist import Line

LABEL = 10  # columns


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
        problem = load_problem(settings.problem)
        worst = worst_cases(settings.authors, first_prompt(problem))
    except KernelTuiError as error:
        return labelled("", "error", str(error), width)
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
        command = f":{shlex.join(author.command)}" if author.command else f":{author.model}" if author.model else ""
        said += ["--author", f"{author.kind}{command}"]
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
