"""What a node, a figure or a state is called on the screen. Pure."""

from __future__ import annotations

import time
from pathlib import Path

from kerneltui.records import (
    Badge,
    Budget,
    EngineStatus,
    Idea,
    IdeaStatus,
    Outcome,
    SessionState,
    Settings,
    Stage,
    Tree,
    Variant,
    VariantState,
    Worker,
)
from kerneltui.tui.render import Glyphs, one_line

ACTIVE = frozenset({VariantState.WRITING, VariantState.COMPILING, VariantState.QUEUED, VariantState.RUNNING})

_STATE_WORDS = {
    VariantState.WAITING: "WAIT",
    VariantState.WRITING: "WRIT",
    VariantState.WRITTEN: "WAIT",
    VariantState.COMPILING: "BLD",
    VariantState.QUEUED: "QUE",
    VariantState.RUNNING: "RUN",
    VariantState.CANCELLED: "CUT",
}

_OUTCOME_TEXT = {
    Outcome.COMPILE_ERROR: "compile",
    Outcome.LAUNCH_ERROR: "launch",
    Outcome.MISMATCH: "wrong",
    Outcome.TIMEOUT: "timeout",
    Outcome.OUT_OF_MEMORY: "memory",
    Outcome.SUSPECT: "suspect",
    Outcome.NOT_RUN: "not run",
    Outcome.CORRECT: "correct",
}

STATE_TITLES = {
    SessionState.NEW: "NEW",
    SessionState.RUNNING: "RUN",
    SessionState.PAUSED: "PAUSED",
    SessionState.FINISHED: "DONE",
    SessionState.STOPPED: "STOPPED",
}


def state_word(variant: Variant) -> str:
    """At most four letters: ok, FAIL, SUSP, NORU, AUTH, or what is being done with it."""
    if variant.state is not VariantState.DONE:
        return _STATE_WORDS[variant.state]
    if variant.author_error:
        return "NONE"
    if variant.outcome is Outcome.CORRECT:
        return "ok"
    if variant.outcome is Outcome.SUSPECT:
        return "SUSP"
    if variant.outcome is Outcome.NOT_RUN:
        return "n/a"
    return "FAIL"


def state_token(variant: Variant) -> str:
    """Name of the colour that goes with `state_word`."""
    word = state_word(variant)
    if word == "ok":
        return "ok"
    if word in ("FAIL", "SUSP"):
        return "fail"
    if word in ("RUN", "BLD", "WRIT"):
        return "run"
    return "wait"


def is_failure(variant: Variant) -> bool:
    """Whether it ended without a usable kernel."""
    return variant.state is VariantState.DONE and (
        bool(variant.author_error) or variant.outcome not in (Outcome.CORRECT, Outcome.NOT_RUN, None)
    )


def outcome_text(variant: Variant) -> str:
    """One word for how it ended."""
    if variant.author_error:
        return "author"
    return _OUTCOME_TEXT[variant.outcome] if variant.outcome else ""


def stage_word(variant: Variant) -> str:
    """The word of the filter's `stage:`."""
    if variant.author_error or variant.state in (VariantState.WAITING, VariantState.WRITING):
        return "author"
    if variant.stage in (Stage.POLICY, Stage.COMPILE):
        return str(variant.stage)
    if variant.stage in (Stage.LOAD, Stage.LAUNCH):
        return "run"
    if variant.stage is Stage.CHECK:
        return "check"
    return "bench" if variant.stage else str(variant.state)


def time_text(time_us: float | None, glyphs: Glyphs, digits: int = 3) -> str:
    """So many significant digits, in µs, ms or s."""
    if time_us is None:
        return ""
    unit, name = time_unit(time_us, glyphs)
    return f"{significant(time_us / unit, digits)} {name}"


def time_unit(time_us: float, glyphs: Glyphs) -> tuple[float, str]:
    """The unit that leaves at most three digits before the point, in µs, and its name."""
    if time_us < 999.5:
        return 1.0, glyphs.micro + "s"
    return (1e3, "ms") if time_us < 999.5e3 else (1e6, "s")


def significant(value: float, digits: int = 3) -> str:
    """So many significant digits, with no exponent."""
    whole = len(f"{abs(value):.0f}") if abs(value) >= 0.5 else 0
    decimals = max(0, digits - max(1, whole))
    text = f"{value:.{decimals}f}"
    return text if len(text.replace(".", "").lstrip("-")) <= max(digits, whole) else f"{value:.{max(0, decimals - 1)}f}"


def ratio_text(variant: Variant | None, glyphs: Glyphs) -> str:
    """Speed-up against eager, or nothing; a tie is marked as one."""
    if variant is None or variant.speedup is None or variant.outcome is not Outcome.CORRECT:
        return ""
    about = glyphs.about if variant.speedup.tie else ""
    return f"{about}{variant.speedup.ratio:.2f}{glyphs.times}"


def bytes_text(size: int | None) -> str:
    """Bytes as 512, 96K, 1.5M, 141G."""
    if size is None:
        return ""
    value = float(size)
    for unit in ("", "K", "M", "G"):
        if value < 1024 or unit == "G":
            return f"{value:.0f}{unit}" if value >= 10 or unit == "" or value == int(value) else f"{value:.1f}{unit}"
        value /= 1024
    return ""


def span_text(seconds: float) -> str:
    """A duration: 00:12, 14:03, 2:05:00, 3d 04:00."""
    seconds = max(0, int(seconds))
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def ago_text(seconds: float) -> str:
    """As coarse as it may be read at a glance: `now`, `12 min ago`, `5 h ago`, `3 d ago`."""
    if seconds < 60:
        return "now"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name} ago"
    return ""


def clock_text(when: float) -> str:
    """Local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(when))


def money_text(usd: float | None) -> str:
    """Dollars; None is unknown and says so."""
    return "?" if usd is None else f"${usd:.2f}" if usd < 100 else f"${usd:.0f}"


def path_text(path: str | Path) -> str:
    """As short as it can be said from here."""
    full = Path(path).absolute()
    for start, mark in ((Path.cwd(), ""), (Path.home(), "~/")):
        if full.is_relative_to(start) and full != start:
            return mark + str(full.relative_to(start))
    return str(full)


def count_text(count: int, noun: str) -> str:
    """`1 idea`, `4,236 variants`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def idea_title(idea: Idea) -> str:
    """Its title on one line, or the start of its text."""
    return one_line(idea.title or idea.text[:200]) or "(no title)"


def idea_note(idea: Idea) -> str:
    """A remark behind the title: who cut it, whose it is."""
    if idea.status is IdeaStatus.MERGED:
        return f"same as {idea.merged_into}" if idea.merged_into else "merged"
    words = {IdeaStatus.PROPOSED: "to review", IdeaStatus.REJECTED: "rejected", IdeaStatus.PRUNED: "pruned"}
    return words.get(idea.status, "")


def spend(tree: Tree) -> tuple[float, bool, float]:
    """Dollars known, whether some cost is unknown, and dollars reserved."""
    known = sum(call.cost_usd for call in tree.calls.values() if call.cost_usd is not None)
    unknown = any(call.cost_usd is None and call.reserved_usd is None for call in tree.calls.values())
    reserved = sum(call.reserved_usd or 0.0 for call in tree.calls.values() if call.cost_usd is None)
    return known, unknown, reserved


def spend_text(tree: Tree) -> str:
    """`$3.10 of $25`, with + where some cost is unknown."""
    known, unknown, _reserved = spend(tree)
    cap = tree.settings.budget.usd
    text = money_text(known) + ("+?" if unknown else "")
    return text + (f"/{cap:g}" if cap is not None else "")


def authors_text(settings: Settings) -> str:
    """Who writes, by name or by kind and model."""
    named = (one.name or (f"{one.kind}:{one.model}" if one.model else str(one.kind)) for one in settings.authors)
    return ", ".join(named)


def budget_text(budget: Budget) -> str:
    """Every cap in one line."""
    parts = []
    if budget.usd is not None:
        parts.append(money_text(budget.usd))
    if budget.tokens is not None:
        parts.append(f"{budget.tokens:,} tokens")
    if budget.evaluations is not None:
        parts.append(f"{budget.evaluations:,} evaluations")
    if budget.wall_s is not None:
        parts.append(span_text(budget.wall_s))
    return ", ".join(parts) or "no cap"


def badge_text(badge: Badge | None) -> str:
    """The badge as a word."""
    return str(badge) if badge else ""


def author_label(worker: Worker) -> str:
    """The author whose question this worker asks: `author LABEL NUMBER`; "" for any other worker."""
    name = one_line(worker.name)
    if not name.startswith("author "):
        return ""
    label, _, number = name.removeprefix("author ").rpartition(" ")
    return label if label and number.isdecimal() else name.removeprefix("author ")


def waiting(status: EngineStatus, now: float) -> dict[str, list[Worker]]:
    """Workers by author, of those that wait for their provider's rate limit."""
    found: dict[str, list[Worker]] = {}
    for worker in status.workers:
        if worker.until > now and worker.doing:
            found.setdefault(author_label(worker) or worker.name, []).append(worker)
    return found


def wait_text(label: str, workers: list[Worker], now: float) -> str:
    """`gemini waits 00:12`."""
    return f"{label} waits {span_text(max(worker.until for worker in workers) - now + 0.999)}"


def state_text(status: EngineStatus) -> str:
    """State of the session as one word in capitals."""
    return STATE_TITLES[status.state]
