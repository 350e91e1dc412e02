"""The tabs of the detail pane: from a node to lines of text. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from kerneltui.records import (
    Call,
    ErrorReport,
    Idea,
    Outcome,
    Variant,
    VariantState,
)
from kerneltui.tui import words
from kerneltui.tui.model import Model, Subject
from kerneltui.tui.passages import BLANK, field_line, field_lines, finding, heading, paragraph
from kerneltui.tui.render import Glyphs, fit, lines, one_line, right, wrap
from kerneltui.tui.widgets.linelist import Line, Span


class Tab(StrEnum):
    """What the detail pane shows of a variant."""

    CODE = "Code"
    DIFF = "Diff"
    LOG = "Log"
    TIME = "Time"
    TRUST = "Trust"
    PROFILE = "Profile"
    IDEA = "Idea"
    PROMPT = "Prompt"


ERROR_LINE = re.compile(
    r"\berror\b|\bfatal\b|undefined reference|undefined symbol|^Traceback|Segmentation fault|illegal memory", re.I
)
WARNING_LINE = re.compile(r"\bwarning\b", re.I)

# --------------------------------------------------------------------------- code


def why_no_code(variant: Variant) -> str:
    """A sentence for a variant without source."""
    if variant.author_error:
        return f"No code: {one_line(variant.author_error)}"
    if variant.state is VariantState.CANCELLED:
        return "No code: it was cut before anything was written."
    if variant.state is VariantState.WRITING:
        return f"{variant.author or 'The author'} is writing it now."
    return "No code yet: it waits for an author."


def defines_line(subject: Subject) -> list[Line]:
    """Tunables that the compiler is given."""
    if subject.candidate is None or not subject.candidate.defines:
        return []
    text = "  ".join(f"{name}={value}" for name, value in subject.candidate.defines)
    return [[(" -D  ", "muted"), (text, "literal")]]


# --------------------------------------------------------------------------- log


def log_lines(subject: Subject, width: int) -> tuple[list[Line], list[int]]:
    """The finding and the whole output, and the rows where errors stand."""
    variant, verdict = subject.variant, subject.verdict
    found: list[Line] = finding(variant, width)
    if verdict is None:
        if variant.state is not VariantState.DONE:
            found.append([(f" {_progress(variant)}", "muted")])
        return found, []
    for report in verdict.errors:
        found += _report_lines(report)
    found += _resource_lines(subject)
    errors: list[int] = []
    texts = lines(verdict.log)
    if texts:
        found += [BLANK, heading(f"output, {words.count_text(len(texts), 'line')}")]
    for text in texts:
        is_error = ERROR_LINE.search(text[:400]) is not None
        if is_error:
            errors.append(len(found))
        is_warning = not is_error and WARNING_LINE.search(text[:400]) is not None
        found.append([(" " + text, "fail" if is_error else "warning" if is_warning else "")])
    if not texts:
        found += [BLANK, [(" No output.", "muted")]]
    return found, errors


def _progress(variant: Variant) -> str:
    doing = {
        VariantState.WAITING: "Waits for an author.",
        VariantState.WRITING: "Is being written.",
        VariantState.WRITTEN: "Waits for the compiler.",
        VariantState.COMPILING: "Is being compiled; the log comes with the verdict.",
        VariantState.QUEUED: "Is built and waits for a device.",
        VariantState.RUNNING: "Runs on a device now.",
        VariantState.CANCELLED: "Was cut before it was finished.",
    }
    return doing.get(variant.state, "")


def _report_lines(report: ErrorReport) -> list[Line]:
    share = report.wrong / report.total if report.total else 0.0
    found: list[Line] = [
        BLANK,
        [(f" {one_line(report.output)}: ", "round"), (f"{report.wrong:,} of {report.total:,} wrong", "fail"),
         (f" ({share:.2%})" + (f", {one_line(report.input_set)}" if report.input_set else ""), "muted")],
    ]  # fmt: skip
    if report.max_abs is not None:
        rel = f", relative {report.max_rel:.3g}" if report.max_rel is not None else ""
        found.append(field_line("largest", f"{report.max_abs:.3g}{rel}"))
    if report.worst:
        where = ", ".join(str(index) for index in report.worst)
        found.append(field_line("worst at", f"[{where}] expected {report.expected}, found {report.found}"))
    if report.pattern:
        found.append(field_line("pattern", report.pattern, "warning"))
    top = max((count for _, count in report.histogram), default=0)
    for name, count in report.histogram:
        found.append([(f"   {name:>12} ", "muted"), (f"{'█' * max(1, round(20 * count / top)):<20}" if top else "", "bar"),
                      (f" {count:,}", "number")])  # fmt: skip
    return found


def _resource_lines(subject: Subject) -> list[Line]:
    resources = subject.verdict.resources if subject.verdict else ()
    if not resources:
        return []
    found: list[Line] = [BLANK, [(" kernel".ljust(34) + "  regs  spill  stack  shared", "muted")]]
    for kernel in resources:
        figures = (kernel.registers, kernel.spill_bytes, kernel.stack_bytes)
        cells = "".join(right("-" if value is None else str(value), 7) for value in figures)[1:]
        found.append([(" " + fit(one_line(kernel.name), 33), ""), (cells, "number"),
                      (right(words.bytes_text(kernel.shared_bytes) or "-", 8), "number")])  # fmt: skip
    return found


# --------------------------------------------------------------------------- idea


def idea_lines(model: Model, idea: Idea | None, variant: Variant | None, glyphs: Glyphs, width: int) -> list[Line]:
    """The hypothesis, what came of it, and the way that led here."""
    found: list[Line] = []
    if idea is None:
        found.append([(" No idea behind it: a starter, or written by hand.", "muted")])
    else:
        found += _idea_head(model, idea, glyphs, width)
        found += [BLANK, *paragraph(idea.text or "(no text)", width)]
        found += [BLANK] + [
            line
            for name, value in (
                ("bottleneck", idea.bottleneck),
                ("technique", idea.technique),
                ("expected", idea.expected),
                ("risk", idea.risk),
                ("card", idea.key),
            )
            if value
            for line in field_lines(name, value, width)
        ]
        if idea.note:
            found += [BLANK, heading("note"), *paragraph(idea.note, width)]
    if variant is not None:
        if variant.note:
            found += [BLANK, heading(f"note on {variant.id}"), *paragraph(variant.note, width)]
        found += [BLANK, *lineage_lines(model, variant, glyphs)]
    return found


def _idea_head(model: Model, idea: Idea, glyphs: Glyphs, width: int) -> list[Line]:
    tally = model.outline.tallies.get(idea.id)
    title: list[Span] = [(f" {idea.id}  ", "muted"), (words.idea_title(idea), "round")]
    remark = words.idea_note(idea)
    if remark:
        title.append((f"  {remark}", "warning"))
    author = idea.author + (" (human)" if idea.human else "")
    start = idea.parent or "the reference"
    found: list[Line] = [title, *field_lines("from", f"{author}, round {idea.round}, starts at {start}", width)]
    if tally is not None and tally.total:
        counts = f"{tally.ok} ok, {tally.fail} failed, {tally.running} running, {tally.waiting} waiting"
        best = words.ratio_text(tally.best, glyphs)
        led = f"; best {best} ({tally.best.id})" if tally.best and best else ""
        found += field_lines("came of it", counts + led, width)
    return found


def lineage_lines(model: Model, variant: Variant, glyphs: Glyphs) -> list[Line]:
    """From the reference to the variant, with the gain of every step."""
    found: list[Line] = [heading("the way here")]
    before: float | None = None
    for step in model.lineage(variant):
        idea = model.tree.ideas.get(step.idea or "")
        ratio = words.ratio_text(step, glyphs) or words.outcome_text(step) or words.state_word(step)
        gain = f"{step.speedup.ratio / before - 1:+.1%}" if before and step.speedup and step.median_us else ""
        title = words.idea_title(idea) if idea else str(step.kind)
        found.append(
            [
                (f" {step.id} ", "muted"),
                (right(ratio, 8), words.state_token(step)),
                (right(gain, 9), "number"),
                (f"  {title}", ""),
            ]
        )
        if step.speedup and step.outcome is Outcome.CORRECT:
            before = step.speedup.ratio
    return found


# --------------------------------------------------------------------------- prompt


def _call_cost(usd: float | None) -> str:
    """One call may cost less than a cent."""
    return f"${usd:.4f}" if usd is not None and 0 < usd < 0.01 else words.money_text(usd)


def prompt_lines(call: Call | None, width: int) -> list[Line]:
    """Exactly what was asked and answered, and what it cost."""
    if call is None:
        return [[(" No author was asked: nothing was sent.", "muted")]]
    tokens = " + ".join(
        f"{'?' if count is None else f'{count:,}'} {name}"
        for name, count in (("in", call.tokens_in), ("out", call.tokens_out), ("reasoning", call.tokens_reasoning))
    )
    found: list[Line] = [
        field_line("author", f"{call.author} {call.model}, {call.purpose}, {call.state}"),
        field_line("tokens", tokens),
        field_line("cost", _call_cost(call.cost_usd) + (f", {call.latency_s:.1f} s" if call.latency_s else "")
                   + (f", {call.retries} retries" if call.retries else "")),
    ]  # fmt: skip
    if call.finish_reason:
        found.append(field_line("ended", call.finish_reason))
    if call.error:
        found += [BLANK, *paragraph(call.error, width, "fail")]
    for name, text in (("reasoning", call.reasoning), ("answer", call.answer), ("prompt", call.prompt)):
        if text:
            found += [
                BLANK,
                heading(f"{name}, {len(text):,} characters"),
                *([(" " + line, "")] for line in wrap(text, max(20, width - 2))),
            ]
    return found


# --------------------------------------------------------------------------- a round, the session


def round_lines(model: Model, number: int, glyphs: Glyphs, width: int) -> list[Line]:
    """What a round brought, then the session's standing facts."""
    tally = model.outline.tallies.get(f"r{number}")
    found: list[Line] = []
    if tally is not None:
        best = words.ratio_text(tally.best, glyphs)
        name = f"round {number}" if number else "before the first round"
        found.append(
            [
                (f" {name}", "round"),
                (f"   {words.count_text(tally.ideas, 'idea')}, {words.count_text(tally.total, 'variant')}", "muted"),
            ]
        )
        found.append([(" ok ", "muted"), (str(tally.ok), "ok"), ("   failed ", "muted"), (str(tally.fail), "fail" if tally.fail else ""),
                      ("   running ", "muted"), (str(tally.running), "run"), ("   waiting ", "muted"), (str(tally.waiting), "")])  # fmt: skip
        if tally.best:
            found.append(
                [
                    (" best ", "muted"),
                    (best, "best"),
                    (f"  {tally.best.id}  {words.time_text(tally.best.median_us, glyphs)}", ""),
                ]
            )
    return [*found, BLANK, *session_lines(model, glyphs, width)]


def session_lines(model: Model, glyphs: Glyphs, width: int) -> list[Line]:
    """Problem, device, baselines, notices, settings."""
    problem, status, settings = model.problem, model.tree.status, model.tree.settings
    found: list[Line] = [heading(one_line(problem.title or problem.name))]
    found += field_lines(
        "reference",
        f"{words.path_text(problem.path)}, {problem.dtype}, tolerance {settings.tolerance or problem.tolerance}",
        width,
    )
    if status.device:
        device = status.device
        found += field_lines(
            "device", f"{device.name} {device.architecture}, {device.compiler} {device.toolkit}", width
        )
    if model.contract:
        found += field_lines("function", model.contract.function, width)
    for name, median_us in sorted(dict(model.prepared.get("baselines_us") or {}).items()):
        found += field_lines(f"{name}", words.time_text(float(median_us), glyphs), width)
    if model.prepared.get("floor_us"):
        found += field_lines("floor", words.time_text(float(model.prepared["floor_us"]), glyphs), width)
    widths = f"{settings.rounds} rounds, {settings.ideas} ideas a parent, {settings.variants} variants an idea"
    found += field_lines("search", f"{widths}, beam {settings.beam}", width)
    found += field_lines("authors", words.authors_text(settings), width)
    found += field_lines("budget", words.budget_text(settings.budget), width)
    found += field_lines("folder", words.path_text(model.folder), width)
    notices = [*status.notices, *(str(note) for note in model.prepared.get("notes") or ())]
    if notices:
        found += [BLANK, heading("worth knowing")]
        for notice in notices:
            first, *rest = wrap(notice, max(20, width - 5)) or [""]
            found += [[(f" {glyphs.dot} ", "warning"), (first, "")], *([("   " + line, "")] for line in rest)]
    if settings.notes:
        found += [BLANK, heading("notes to the authors"), *paragraph(settings.notes, width)]
    return found
