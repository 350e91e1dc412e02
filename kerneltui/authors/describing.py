"""Devices, compiler reports, logs and mismatches in the words of a prompt."""

from __future__ import annotations

import re

from kerneltui.records import Check, CheckResult, Device, ErrorReport, Outcome, Verdict

LOG_CHARACTERS = 6_000  # of a log in a prompt
LINE_CHARACTERS = 400
AROUND = 3  # lines shown after a line that names an error
ERROR_LINE = re.compile(
    r"\b(?:error|fatal|undefined reference|ptxas|Traceback|\w+Error|exception|assert\w*)\b", re.IGNORECASE
)
NO_ERROR = re.compile(r"\b(?:0 errors?|ptxas info)\b", re.IGNORECASE)


def microseconds(value: float) -> str:
    """A time in µs with three figures that matter."""
    return f"{value:,.0f} µs" if value >= 1000 else f"{value:.3g} µs"


def describe_device(device: Device) -> str:
    """Name and figures of a device, a line each."""
    cuda = device.kind == "cuda"
    lines = [
        f"{device.name} ({'CUDA GPU' if cuda else 'CPU'}{', ' + device.architecture if device.architecture else ''})"
    ]
    if device.cores is not None:
        lines.append(f"{device.cores} {'SMs' if cuda else 'cores'}")
    if device.memory_bytes is not None:
        lines.append(f"memory: {device.memory_bytes / 2**30:.0f} GiB")
    if device.l2_bytes is not None:
        lines.append(f"{'L2' if cuda else 'last-level'} cache: {device.l2_bytes / 2**20:.0f} MiB")
    if device.toolkit:
        lines.append(f"compiler: {device.toolkit}")
    lines += [f"{name}: {value}" for name, value in device.facts.items()]
    return "\n".join(f"- {line}" for line in lines)


def describe_resources(verdict: Verdict | None) -> str:
    """Registers, spills and memory of each kernel, as the compiler reports them."""
    if verdict is None or not verdict.resources:
        return ""
    lines = []
    for kernel in verdict.resources:
        facts = [
            (kernel.registers, "registers a thread"),
            (kernel.spill_bytes, "bytes spilled"),
            (kernel.stack_bytes, "bytes of stack"),
            (kernel.shared_bytes, "bytes of static shared memory"),
        ]
        known = ", ".join(f"{value:,} {what}" for value, what in facts if value is not None)
        lines.append(f"- {kernel.name}: {known or 'nothing reported'}")
    return "\n".join(lines)


# --------------------------------------------------------------------------- failures


def describe_failure(verdict: Verdict | None) -> str:
    """Outcome, sentence, mismatch report, failed checks and the first errors of the log."""
    if verdict is None:
        return ""
    parts = [f"{verdict.outcome.replace('_', ' ')} at the {verdict.stage} stage. {verdict.message}".strip()]
    parts += [describe_mismatch(report) for report in verdict.errors[:4]]
    failed = [check for check in verdict.checks if check.result is CheckResult.FAIL]
    if failed:
        parts.append("\n".join(describe_check(check) for check in failed[:8]))
    # With wrong numbers the report above says more than what the compiler had to remark.
    if verdict.log.strip() and verdict.outcome is not Outcome.MISMATCH:
        parts.append(indented(first_errors(verdict.log)))
    return "\n\n".join(parts)


def describe_check(check: Check) -> str:
    return f"- check failed: {check.name}" + (f": {check.detail}" if check.detail else "")


def describe_mismatch(report: ErrorReport) -> str:
    """Which elements of an output are wrong, and how far off they are."""
    share = f"{report.wrong:,} of {report.total:,} elements of `{report.output}` are wrong"
    lines = [share + (f" ({report.input_set} inputs)" if report.input_set else "")]
    if report.pattern:
        lines.append(f"pattern: {report.pattern}")
    if report.worst or report.expected or report.found:
        where = ", ".join(str(index) for index in report.worst)
        lines.append(f"worst at [{where}]: expected {report.expected}, found {report.found}")
    largest = [f"{value:.3g} {kind}" for value, kind in ((report.max_abs, "absolute"), (report.max_rel, "relative")) if value is not None]  # fmt: skip
    lines.append(f"largest error: {', '.join(largest)}" if largest else "some values are not finite")
    if report.histogram:
        lines.append("elements by error: " + ", ".join(f"{name}: {count:,}" for name, count in report.histogram))
    return "\n".join(f"- {line}" for line in lines)


def indented(text: str) -> str:
    """As a Markdown code block that no fence inside can end."""
    return "\n".join("    " + line for line in text.split("\n"))


def first_errors(log: str, limit: int = LOG_CHARACTERS) -> str:
    """The log itself when it is short, else its first errors with the lines after them; what was cut is said."""
    lines = [line.rstrip("\r") for line in log.rstrip().split("\n")]
    if len(log) <= limit and all(len(line) <= LINE_CHARACTERS for line in lines):
        return "\n".join(lines)
    chosen: list[int] = []
    left = limit
    for at in wanted_lines(lines):
        left -= min(len(lines[at]), LINE_CHARACTERS) + 1
        if left < 0:
            break
        chosen.append(at)
    shown = [clip(lines[at]) for at in chosen]
    return "\n".join([*shown, f"[cut: {len(chosen):,} of {len(lines):,} lines and {limit - max(left, 0):,} of {len(log):,} characters shown]"])  # fmt: skip


def wanted_lines(lines: list[str]) -> list[int]:
    """Indices of error lines with those after them, in order; without any, of the first lines."""
    found: dict[int, None] = {}
    for at, line in enumerate(lines):
        if len(found) > 400:
            break
        head = line[:2000]
        if ERROR_LINE.search(head) and not NO_ERROR.search(head):
            found.update(dict.fromkeys(range(at, min(at + 1 + AROUND, len(lines)))))
    return list(found) or list(range(min(len(lines), 400)))


def clip(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    return f"{line[:LINE_CHARACTERS]} … ({len(line):,} characters)"
