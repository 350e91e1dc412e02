"""The Time and Trust tabs: samples, intervals, baselines, checks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kerneltui.records import CheckResult, Measurement, Speedup, Variant, Verdict
from kerneltui.tui import words
from kerneltui.tui.model import Subject
from kerneltui.tui.passages import BLANK, field_line, field_lines, finding
from kerneltui.tui.render import Glyphs, fit, one_line, right, wrap
from kerneltui.tui.widgets.linelist import Line, Span

_CHECK_TOKENS = {
    CheckResult.PASS: "ok",
    CheckResult.FAIL: "fail",
    CheckResult.NOTE: "warning",
    CheckResult.SKIPPED: "muted",
}


WIDE = 74  # columns from which a baseline has every figure

# --------------------------------------------------------------------------- time


def time_lines(subject: Subject, glyphs: Glyphs, width: int) -> list[Line]:
    """Times, intervals, baselines and samples, with what is needed to believe them."""
    measurement = subject.verdict.measurement if subject.verdict else None
    if measurement is None:
        return [*finding(subject.variant, width), BLANK, [(" Not timed.", "muted")]]
    found = _headline(measurement, glyphs)
    found += [BLANK, *_baseline_lines(measurement, glyphs, width)]
    found += [BLANK, *_figure_lines(measurement, glyphs, width)]
    found += [BLANK, *_histogram_lines(measurement, glyphs, width)]
    found += _condition_lines(measurement, width)
    return found


def _headline(measurement: Measurement, glyphs: Glyphs) -> list[Line]:
    eager = measurement.speedup.get("eager")
    spans: list[Span] = [(f" {words.time_text(measurement.median_us, glyphs)}", "best")]
    if eager is not None:
        spans += [
            (f"  {_ratio(eager, glyphs)} eager", "best" if not eager.tie else ""),
            (f"  {_interval(eager)}", "muted"),
        ]
        if eager.tie:
            spans.append(("  a tie", "warning"))
    spans.append((f"  {measurement.badge}", "ok" if measurement.badge in ("measured", "certified") else "fail"))
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


def _baseline_lines(measurement: Measurement, glyphs: Glyphs, width: int) -> list[Line]:
    wide = width >= WIDE
    cells = (12, 11, 10, 15) if wide else (9, 9, 9, 13)
    named = f" {fit('baseline', cells[0])}{right('median', cells[1])}{right('ratio', cells[2])}   95 % interval"
    found: list[Line] = [[(named + ("    pairs  call ratio" if wide else ""), "muted")]]
    for name, median_us in sorted(measurement.baselines_us.items()):
        speedup = measurement.speedup.get(name)
        row = f" {fit(one_line(name), cells[0])}{right(words.time_text(median_us, glyphs), cells[1])}"
        if speedup is None:
            found.append([(row, "")])
            continue
        call = measurement.call_speedup.get(name)
        rest = f"{right(_ratio(speedup, glyphs), cells[2])}   {_interval(speedup):<{cells[3]}}"
        pairs = f"{speedup.pairs:>6}" if wide else ""
        tail = right(_ratio(call, glyphs), 12) if call and wide else ""
        found.append(
            [
                (row, ""),
                (rest + pairs, "wait" if speedup.tie else "ok" if speedup.ratio > 1 else "fail"),
                (tail, "muted"),
            ]
        )
    if measurement.floor_us:
        share = measurement.floor_us / measurement.median_us if measurement.median_us else 0.0
        said = "   {:.0%} of what this device can do" if wide else "   {:.0%} of it reached"
        found.append([(f" {fit('floor', cells[0])}{right(words.time_text(measurement.floor_us, glyphs), cells[1])}", ""),
                      (said.format(share), "muted")])  # fmt: skip
    return found


def _figure_lines(measurement: Measurement, glyphs: Glyphs, width: int) -> list[Line]:
    def shown(value: float | None) -> str:
        return words.time_text(value, glyphs, 4)

    noise = f"   noise {measurement.noise:.2%}" if measurement.noise is not None else ""
    between = f"[{shown(measurement.low_us)}, {shown(measurement.high_us)}]"
    found = field_lines("device time", f"{shown(measurement.median_us)}   {between}{noise}", width)
    if measurement.call_us is not None:
        found.append(field_line("one call", f"{shown(measurement.call_us)}, launch included"))
    if measurement.warm_us is not None:
        found.append(field_line("warm cache", shown(measurement.warm_us)))
    samples = sorted(measurement.samples_us)
    if samples:
        unit, name = words.time_unit(samples[0], glyphs)
        marks = [f"p{share} {words.significant(_at(samples, share) / unit, 4)}" for share in (5, 25, 50, 75, 95)]
        found += field_lines("percentiles", f"{name}:  " + "  ".join(marks), width)
    each = f", each the mean of {measurement.launches} launches" if measurement.launches > 1 else ""
    dropped = f", {measurement.dropped} disturbed and dropped" if measurement.dropped else ""
    warm = f"; {measurement.warmup} launches to warm up" if measurement.warmup else ""
    found += field_lines("samples", f"{len(samples)}{each}{dropped}{warm}", width)
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


def _condition_lines(measurement: Measurement, width: int) -> list[Line]:
    ring = f", ring of {measurement.ring} inputs" if measurement.ring else ""
    found = field_lines("method", measurement.method + ring, width)
    if measurement.flush:
        found += field_lines("cold caches", measurement.flush, width)
    if measurement.clocks:
        clocks = ", ".join(f"{name} {value}" for name, value in measurement.clocks.items())
        found += field_lines("clocks", clocks, width)
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
    found += [BLANK, field_line("tolerance", verdict.tolerance), *field_lines("world", verdict.world, width)]
    if verdict.device:
        found += field_lines("device", f"{verdict.device.name} ({verdict.device.id})", width)
    return found
