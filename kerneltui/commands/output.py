"""Records as text and JSON on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from kerneltui.records import Outcome, Speedup, Tree, Variant, Verdict, encode

EXIT_STATUS = {Outcome.CORRECT: 0, Outcome.SUSPECT: 3, Outcome.NOT_RUN: 2}  # all others: 1


def exit_status(outcome: Outcome) -> int:
    """0 correct, 3 suspect, 2 could not be run here, 1 the candidate failed."""
    return EXIT_STATUS.get(outcome, 1)


def print_json(value: Any) -> None:
    """One JSON value on one line."""
    click.echo(encode(value))


def printable(text: str) -> str:
    """Text of a model or a compiler without anything that a terminal would obey."""
    return "".join(c if c in "\n\t" or (c.isprintable()) else "" if c == "\r" else "\ufffd" for c in text)


def speedup_json(speedup: Speedup | None) -> dict[str, Any] | None:
    """The four figures that everybody compares."""
    if speedup is None:
        return None
    return {"ratio": speedup.ratio, "low": speedup.low, "high": speedup.high, "tie": speedup.tie}


def speedup_text(speedup: Speedup | None) -> str:
    """`1.43x` or `1.00x tie`."""
    if speedup is None:
        return ""
    return f"{speedup.ratio:.2f}x{' tie' if speedup.tie else ''}"


def time_text(us: float | None) -> str:
    """Three significant digits with the unit that suits."""
    if us is None:
        return ""
    for limit, unit, scale in ((1e3, "us", 1.0), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if us < limit:
            return f"{us / scale:.3g} {unit}" if us / scale < 100 else f"{us / scale:.0f} {unit}"
    return ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two spaces apart; the last column is not padded."""
    lines = [[printable(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """What `eval --json` prints."""
    measured = verdict.measurement
    return {
        "outcome": verdict.outcome,
        "stage": verdict.stage,
        "message": verdict.message,
        "log": verdict.log,
        "median_us": measured.median_us if measured else None,
        "call_us": measured.call_us if measured else None,
        "speedup": {name: speedup_json(value) for name, value in measured.speedup.items()} if measured else {},
        "device": verdict.device,
        "checks": verdict.checks,
        "errors": verdict.errors,
        "resources": verdict.resources,
        "measurement": measured,
        "tolerance": verdict.tolerance,
        "compile_s": verdict.compile_s,
        "run_s": verdict.run_s,
    }


def print_verdict(verdict: Verdict) -> None:
    """A verdict for people: the finding first, then what supports it."""
    click.echo(f"{verdict.outcome}" + (f" at {verdict.stage}" if verdict.stage != "done" else ""))
    if verdict.message:
        click.echo(printable(verdict.message))
    for error in verdict.errors:
        where = f" at {list(error.worst)}: expected {error.expected}, found {error.found}" if error.worst else ""
        click.echo(f"  {error.output}: {error.wrong} of {error.total} elements wrong{where}  {error.pattern}".rstrip())
    measured = verdict.measurement
    if measured:
        rows = [["candidate", time_text(measured.median_us), "", measured.method]]
        for name, us in measured.baselines_us.items():
            gain = measured.speedup.get(name)
            interval = f"[{gain.low:.3f}, {gain.high:.3f}]" if gain else ""
            rows.append([name, time_text(us), speedup_text(gain), interval])
        click.echo(table(["", "device time", "speed-up", ""], rows))
        badge = f"{measured.badge}, {measured.flush}" if measured.flush else str(measured.badge)
        click.echo(f"badge: {badge}")
        if measured.disturbances:
            pairs = len(measured.samples_us) + measured.dropped
            dropped = f" ({measured.dropped} of {pairs} pairs dropped)" if measured.dropped else ""
            click.echo(printable(f"disturbed: {'; '.join(measured.disturbances)}{dropped}"))
    for check in verdict.checks:
        click.echo(printable(f"  {check.result:8}{check.name}{': ' if check.detail else ''}{check.detail}"))
    if verdict.log and verdict.outcome is not Outcome.CORRECT:
        sys.stderr.write(printable(verdict.log[-4000:]) + "\n")


def variant_row(variant: Variant) -> list[str]:
    """One line of the table of variants."""
    state = variant.outcome or variant.state
    marks = ("pinned " if variant.pinned else "") + ("pruned " if variant.pruned else "")
    return [
        variant.id,
        variant.idea or "-",
        str(variant.kind),
        variant.author,
        str(state),
        time_text(variant.median_us),
        speedup_text(variant.speedup),
        (marks + (variant.name or variant.message or variant.author_error))[:60],
    ]


VARIANT_HEADER = ["variant", "idea", "kind", "author", "outcome", "time", "vs eager", ""]


def final_table(tree: Tree, limit: int = 10) -> str:
    """The fastest variants with the idea each came from."""
    rows = []
    for variant in tree.correct()[:limit]:
        idea = tree.ideas.get(variant.idea) if variant.idea else None
        title = idea.title if idea else variant.name or str(variant.kind)
        rows.append(
            [
                variant.id,
                f"r{variant.round}",
                time_text(variant.median_us),
                speedup_text(variant.speedup),
                str(variant.badge or ""),
                f"{title}  {variant.name}" if idea else title,
            ]
        )
    return table(["variant", "round", "time", "vs eager", "badge", "idea"], rows)
