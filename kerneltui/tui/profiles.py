"""The Profile tab: what counters say of a variant's kernels, as lines. Pure."""

from __future__ import annotations

import time

from kerneltui.evaluator.counters import figure_text
from kerneltui.records import DecisionKind, Figure, KernelProfile, Profile, Variant
from kerneltui.tui.actions import by_id, key_text, keys_of
from kerneltui.tui.model import Model
from kerneltui.tui.passages import BLANK, field_line, paragraph
from kerneltui.tui.render import Glyphs, bar, fit, one_line, right
from kerneltui.tui.widgets.linelist import Line

NAME_CELLS = 30
VALUE_CELLS = 14
BAR_CELLS = 24
NEAR_PEAK = 80.0  # percent of a peak: little is left to gain there


def tab_lines(model: Model, variant: Variant, glyphs: Glyphs, width: int) -> list[Line]:
    """The tab on a variant, read from the session."""
    found = model.store.read_profile(variant.candidate) if variant.candidate else None
    return profile_lines(variant, found, news(model, variant), glyphs, width)


def news(model: Model, variant: Variant) -> str:
    """What has become of the last request, as long as no profile answers it; "" for none."""
    if model.asked(variant.id) is DecisionKind.PROFILE:
        return "A profile is asked for" + ("; it waits for an engine." if model.is_resting() else ".")
    last = next(
        (event for event in reversed(model.events) if event.node == variant.id and "profil" in event.text), None
    )
    if last is None or "was profiled" in last.text or last.kind == "decision":
        return ""
    if "was not profiled" in last.text:
        return one_line(last.text)
    return "" if model.is_resting() else "It is being profiled now."


def profile_lines(variant: Variant, found: Profile | None, news: str, glyphs: Glyphs, width: int) -> list[Line]:
    """Every kernel with its figures; above them what is under way, or went wrong."""
    told = paragraph(news, width, "warning" if "not profiled" in news else "run") if news else []
    if found is None:
        return told or _nothing(variant, width)
    device = f" on {found.device.name}" if found.device else ""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.created))
    lines: list[Line] = [*told, field_line("counted", f"{when} with {found.tool}{device}")]
    for kernel in found.kernels:
        lines += [BLANK, *_kernel(kernel, found.tool == "ncu", glyphs, width)]
    for missing in found.missing:
        lines += [BLANK, *paragraph(f"Missing: {missing}", width, "warning")]
    return lines


def _nothing(variant: Variant, width: int) -> list[Line]:
    if variant.candidate is None:
        return [[(" Nothing to profile: there is no code.", "muted")]]
    keys = keys_of(by_id("kernel.profile"))
    key = f"{key_text(keys[0])} counts" if keys else "The command profile counts"
    text = (
        f"Not profiled. {key} what it does: ncu on a GPU, perf on a CPU. What is counted goes into later prompts too."
    )
    return paragraph(text, width, "muted")


def _kernel(kernel: KernelProfile, by_launch: bool, glyphs: Glyphs, width: int) -> list[Line]:
    times = "one call"
    if by_launch:
        times = "one launch" if kernel.launches == 1 else f"mean of {kernel.launches} launches"
    lines: list[Line] = [[(f" {one_line(kernel.name)}", "round"), (f"  {times}", "muted")]]
    return lines + [_figure(figure, glyphs, width) for figure in kernel.figures]


def _figure(figure: Figure, glyphs: Glyphs, width: int) -> Line:
    name = fit(one_line(figure.name), min(NAME_CELLS, max(22, width - VALUE_CELLS - 4)), glyphs.cut)
    line: list[tuple[str, str]] = [(f"  {name} ", "muted"), (right(figure_text(figure), VALUE_CELLS), "number")]
    room = min(BAR_CELLS, width - NAME_CELLS - VALUE_CELLS - 6)
    if figure.unit == "%" and room >= 6:
        token = "best" if figure.value >= NEAR_PEAK and "throughput" in figure.name else "bar"
        line += [("  ", ""), (bar(figure.value / 100, room, glyphs), token)]
    return line
