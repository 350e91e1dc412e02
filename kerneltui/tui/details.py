"""The tabs of the detail pane: from a node to lines of text. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum

from kerneltui.records import (
    Call,
    CheckResult,
    ErrorReport,
    Idea,
    Measurement,
    Outcome,
    Speedup,
    Variant,
    VariantState,
    Verdict,
)
from kerneltui.tui import words
from kerneltui.tui.model import Model, Subject
from kerneltui.tui.render import Glyphs, fit, lines, one_line, plain, right, wrap
from kerneltui.tui.widgets.linelist import Line, Span


class Tab(StrEnum):
    """What the detail pane shows of a variant."""

    CODE = "Code"
    DIFF = "Diff"
    LOG = "Log"
    TIME = "Time"
    TRUST = "Trust"
    IDEA = "Idea"
    PROMPT = "Prompt"


ERROR_LINE = re.compile(
    r"\berror\b|\bfatal\b|undefined reference|undefined symbol|^Traceback|Segmentation fault|illegal memory", re.I
)
WARNING_LINE = re.compile(r"\bwarning\b", re.I)

_CHECK_TOKENS = {
    CheckResult.PASS: "ok",
    CheckResult.FAIL: "fail",
    CheckResult.NOTE: "warning",
    CheckResult.SKIPPED: "muted",
}
BLANK: Line = ""


def numbered(coloured: Sequence[Line]) -> list[Line]:
    """Source lines with their numbers."""
    width = max(3, len(str(len(coloured))))
    return [[(f"{number:>{width}} ", "line-number"), *_spans(line)] for number, line in enumerate(coloured, start=1)]


def _spans(line: Line) -> Sequence[Span]:
    return ((line, ""),) if isinstance(line, str) else line


def field_line(name: str, value: str, token: str = "", width: int = 13) -> Line:
    """A name in a column, and its value."""
    return [(f" {name:<{width}}", "muted"), (plain(value).replace("\n", " "), token)]


def field_lines(name: str, value: str, width: int) -> list[Line]:
    """The same, over as many lines as it takes."""
    first, *rest = wrap(value, max(20, width - 15)) or [""]
    return [[(f" {name:<13}", "muted"), (first, "")], *[[(" " * 14 + line, "")] for line in rest]]


def paragraph(text: str, width: int, token: str = "", indent: int = 1) -> list[Line]:
    """Wrapped text."""
    return [[(" " * indent + line, token)] for line in wrap(text, max(20, width - indent - 1))]


def heading(text: str) -> Line:
    """A section's name."""
    return [(f" {text}", "round")]


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
    found: list[Line] = _finding(variant, width)
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


def _finding(variant: Variant, width: int) -> list[Line]:
    word, token = words.state_word(variant), words.state_token(variant)
    name = words.outcome_text(variant) or word.lower()
    stage = f" at {variant.stage}" if variant.stage and word == "FAIL" and variant.stage != name else ""
    head = f" {word} {name}{stage}" if word == "FAIL" else f" {name}"
    found: list[Line] = [[(head, token)]]
    text = variant.author_error or variant.message
    if text:
        found += paragraph(text, width)
    if variant.same_as:
        found.append(field_line("same as", variant.same_as))
    return found


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


# --------------------------------------------------------------------------- time


def time_lines(subject: Subject, glyphs: Glyphs, width: int) -> list[Line]:
    """Times, intervals, baselines and samples, with what is needed to believe them."""
    measurement = subject.verdict.measurement if subject.verdict else None
    if measurement is None:
        return [*_finding(subject.variant, width), BLANK, [(" Not timed.", "muted")]]
    found = _headline(measurement, glyphs)
    found += [BLANK, *_baseline_lines(measurement, glyphs)]
    found += [BLANK, *_figure_lines(measurement, glyphs)]
    found += [BLANK, *_histogram_lines(measurement, glyphs, width)]
    found += _condition_lines(measurement)
    return found


def _headline(measurement: Measurement, glyphs: Glyphs) -> list[Line]:
    eager = measurement.speedup.get("eager")
    spans: list[Span] = [(f" {words.time_text(measurement.median_us, glyphs)}", "best")]
    if eager is not None:
        spans += [
            (f"   {_ratio(eager, glyphs)} eager", "best" if not eager.tie else ""),
            (f"  {_interval(eager)}", "muted"),
        ]
        if eager.tie:
            spans.append(("  a tie", "warning"))
    spans.append((f"   {measurement.badge}", "ok" if measurement.badge in ("measured", "certified") else "fail"))
    if measurement.screened:
        spans.append(("  screened only", "warning"))
    return [spans]


def time_strip(verdict: Verdict, variant: Variant, glyphs: Glyphs) -> list[Line]:
    """The same in three lines."""
    measurement = verdict.measurement
    if measurement is None:
        return []
    ratios = [f"{name} {_ratio(speedup, glyphs)}" for name, speedup in sorted(measurement.speedup.items())]
    noise = f"noise {measurement.noise:.2%}" if measurement.noise is not None else ""
    floor = f"{measurement.floor_us / measurement.median_us:.0%} of the floor" if measurement.floor_us else ""
    kernel = [f"{variant.registers} registers" if variant.registers else "",
              f"{words.bytes_text(variant.shared_bytes)} shared" if variant.shared_bytes else "", variant.name]  # fmt: skip
    return [
        _headline(measurement, glyphs)[0],
        [(f" against {',  '.join(ratios)}    {floor}", "muted")],
        [(" " + "   ".join(part for part in (*kernel, noise) if part), "muted")],
    ]


def _ratio(speedup: Speedup, glyphs: Glyphs) -> str:
    return f"{speedup.ratio:.3f}{glyphs.times}" if speedup.ratio < 10 else f"{speedup.ratio:.1f}{glyphs.times}"


def _interval(speedup: Speedup) -> str:
    return f"{speedup.low:.3f} – {speedup.high:.3f}"


def _baseline_lines(measurement: Measurement, glyphs: Glyphs) -> list[Line]:
    found: list[Line] = [[(" baseline         median     ratio   95 % interval    pairs  call ratio", "muted")]]
    for name, median_us in sorted(measurement.baselines_us.items()):
        speedup = measurement.speedup.get(name)
        row = f" {fit(one_line(name), 12)}{right(words.time_text(median_us, glyphs), 11)}"
        if speedup is None:
            found.append([(row, "")])
            continue
        call = measurement.call_speedup.get(name)
        rest = f"{right(_ratio(speedup, glyphs), 10)}   {_interval(speedup):<15}{speedup.pairs:>6}"
        tail = right(_ratio(call, glyphs), 12) if call else ""
        found.append(
            [(row, ""), (rest, "ok" if speedup.low > 1 else "wait" if speedup.tie else "fail"), (tail, "muted")]
        )
    if measurement.floor_us:
        share = measurement.floor_us / measurement.median_us if measurement.median_us else 0.0
        found.append([(f" {fit('floor', 12)}{right(words.time_text(measurement.floor_us, glyphs), 11)}", ""),
                      (f"   {share:.0%} of what this device can do", "muted")])  # fmt: skip
    return found


def _figure_lines(measurement: Measurement, glyphs: Glyphs) -> list[Line]:
    def shown(value: float | None) -> str:
        return words.time_text(value, glyphs, 4)

    noise = f"   noise {measurement.noise:.2%}" if measurement.noise is not None else ""
    found = [
        field_line("device time", f"{shown(measurement.median_us)}   "
                   f"[{shown(measurement.low_us)}, {shown(measurement.high_us)}]{noise}"),
    ]  # fmt: skip
    if measurement.call_us is not None:
        found.append(field_line("one call", f"{shown(measurement.call_us)}, launch included"))
    if measurement.warm_us is not None:
        found.append(field_line("warm cache", shown(measurement.warm_us)))
    samples = sorted(measurement.samples_us)
    if samples:
        unit, name = words.time_unit(samples[0], glyphs)
        marks = [f"p{share} {words.significant(_at(samples, share) / unit, 4)}" for share in (5, 25, 50, 75, 95)]
        found.append(field_line("percentiles", f"{name}:  " + "  ".join(marks)))
    counts = f"{len(samples)} of {measurement.launches} launches, {measurement.warmup} warm-up"
    dropped = f", {measurement.dropped} disturbed and dropped" if measurement.dropped else ""
    found.append(field_line("samples", counts + dropped))
    return found


def _at(ordered: Sequence[float], percent: int) -> float:
    """Nearest-rank percentile."""
    return ordered[min(len(ordered) - 1, max(0, -(-percent * len(ordered) // 100) - 1))]


def _histogram_lines(measurement: Measurement, glyphs: Glyphs, width: int) -> list[Line]:
    samples = sorted(measurement.samples_us)
    if len(samples) < 6 or samples[0] == samples[-1]:
        return []
    low, high = _at(samples, 1), _at(samples, 99)
    classes = 10
    step = (high - low) / classes or 1.0
    counts = [0] * classes
    for sample in samples:
        counts[min(classes - 1, max(0, int((sample - low) / step)))] += 1
    room = max(10, min(50, width - 24))
    unit, name = words.time_unit(low, glyphs)
    decimals = max(0, min(6, 1 - math.floor(math.log10(step / unit))))
    found: list[Line] = []
    for index, count in enumerate(counts):
        label = f"{(low + (index + 0.5) * step) / unit:.{decimals}f} {name}"
        cells = glyphs.full * round(room * count / max(counts)) or (glyphs.dot if count else "")
        found.append([(right(label, 13) + "  ", "muted"), (cells, "bar"), (f" {count}" if count else "", "muted")])
    return [*found, BLANK]


def _condition_lines(measurement: Measurement) -> list[Line]:
    found = [
        field_line("method", measurement.method + (f", ring of {measurement.ring} inputs" if measurement.ring else ""))
    ]
    if measurement.flush:
        found.append(field_line("cold caches", measurement.flush))
    if measurement.clocks:
        found.append(field_line("clocks", ", ".join(f"{name} {value}" for name, value in measurement.clocks.items())))
    if measurement.precision:
        same = measurement.precision == measurement.baseline_precision or not measurement.baseline_precision
        text = measurement.precision + ("" if same else f", baseline {measurement.baseline_precision}")
        found.append(field_line("precision", text, "" if same else "warning"))
    if measurement.disturbances:
        found.append(field_line("disturbed by", ", ".join(measurement.disturbances), "warning"))
    return found


# --------------------------------------------------------------------------- trust


def trust_lines(subject: Subject, width: int) -> list[Line]:
    """Every check that was made, and what it found."""
    variant, verdict = subject.variant, subject.verdict
    badge = words.badge_text(variant.badge)
    found: list[Line] = []
    if badge:
        found.append([(f" {badge}", "ok" if badge in ("measured", "certified") else "fail")])
    if verdict is None or not verdict.checks:
        return [*found, [(" No checks were made.", "muted")]]
    counts = {result: sum(check.result is result for check in verdict.checks) for result in CheckResult}
    summary = "   ".join(f"{count} {result}" for result, count in counts.items() if count)
    found += [[(f" {summary}", "muted")], BLANK]
    name_width = min(28, max(len(check.name) for check in verdict.checks))
    order = (CheckResult.FAIL, CheckResult.NOTE, CheckResult.PASS, CheckResult.SKIPPED)
    for check in sorted(verdict.checks, key=lambda check: order.index(check.result)):
        word = {CheckResult.FAIL: "FAIL", CheckResult.SKIPPED: "none"}.get(check.result, str(check.result))
        first, *rest = wrap(check.detail, max(20, width - name_width - 10)) or [""]
        found.append(
            [
                (f" {word:<5}", _CHECK_TOKENS[check.result]),
                (fit(one_line(check.name), name_width + 1), ""),
                (" " + first, "muted"),
            ]
        )
        found += [[(" " * (name_width + 8) + line, "muted")] for line in rest]
    found += [BLANK, field_line("tolerance", verdict.tolerance), field_line("world", verdict.world)]
    if verdict.device:
        found.append(field_line("device", f"{verdict.device.name} ({verdict.device.id})"))
    return found


# --------------------------------------------------------------------------- idea


def idea_lines(model: Model, idea: Idea | None, variant: Variant | None, glyphs: Glyphs, width: int) -> list[Line]:
    """The hypothesis, what came of it, and the way that led here."""
    found: list[Line] = []
    if idea is None:
        found.append([(" No idea behind it: a starter, or written by hand.", "muted")])
    else:
        found += _idea_head(model, idea, glyphs)
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


def _idea_head(model: Model, idea: Idea, glyphs: Glyphs) -> list[Line]:
    tally = model.outline.tallies.get(idea.id)
    title: list[Span] = [(f" {idea.id}  ", "muted"), (words.idea_title(idea), "round")]
    remark = words.idea_note(idea)
    if remark:
        title.append((f"  {remark}", "warning"))
    author = idea.author + (" (human)" if idea.human else "")
    start = idea.parent or "the reference"
    found: list[Line] = [title, field_line("from", f"{author}, round {idea.round}, starts at {start}")]
    if tally is not None and tally.total:
        best = words.ratio_text(tally.best, glyphs)
        found.append(field_line("came of it", f"{tally.ok} ok, {tally.fail} failed, {tally.running} running, "
                                f"{tally.waiting} waiting" + (f"; best {best} ({tally.best.id})" if tally.best and best else "")))  # fmt: skip
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
        field_line("cost", words.money_text(call.cost_usd) + (f", {call.latency_s:.1f} s" if call.latency_s else "")
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
        "reference", f"{problem.path}, {problem.dtype}, tolerance {settings.tolerance or problem.tolerance}", width
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
    names = [each.name or (f"{each.kind}:{each.model}" if each.model else each.kind) for each in settings.authors]
    found += field_lines("authors", ", ".join(names), width)
    found += field_lines("budget", words.budget_text(settings.budget), width)
    found += field_lines("folder", str(model.folder), width)
    notices = [*status.notices, *(str(note) for note in model.prepared.get("notes") or ())]
    if notices:
        found += [BLANK, heading("worth knowing")]
        for notice in notices:
            first, *rest = wrap(notice, max(20, width - 5)) or [""]
            found += [[(f" {glyphs.dot} ", "warning"), (first, "")], *([("   " + line, "")] for line in rest)]
    if settings.notes:
        found += [BLANK, heading("notes to the authors"), *paragraph(settings.notes, width)]
    return found
