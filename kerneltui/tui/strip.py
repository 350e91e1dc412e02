"""A few lines on the current row, where there is no room for the detail pane. Pure."""

from __future__ import annotations

from kerneltui.tui import words
from kerneltui.tui.model import Model
from kerneltui.tui.outline import NodeKind, Row
from kerneltui.tui.render import Glyphs, one_line
from kerneltui.tui.timings import time_strip
from kerneltui.tui.widgets.linelist import Line


def strip_lines(model: Model, row: Row | None, glyphs: Glyphs, width: int) -> list[Line]:
    """Five lines on a row, where there is no room for the detail pane."""
    rule: Line = [(glyphs.across * width, "plot-axis")]
    if row is None:
        return [rule]
    if row.kind is not NodeKind.VARIANT:
        idea = model.tree.ideas.get(row.id)
        text = (
            f"{words.idea_title(idea)}. {one_line(idea.text)}"
            if idea
            else words.budget_text(model.tree.settings.budget)
        )
        tally = model.outline.tallies.get(row.id)
        counts = (
            f" {tally.ok} ok, {tally.fail} failed, {tally.running} running, {tally.waiting} waiting" if tally else ""
        )
        return [rule, [(f" {text}", "")], [(counts, "muted")]]
    variant = model.tree.variants[row.id]
    subject = model.subject(variant)
    parent = f" {glyphs.arrow} {subject.parent.id}" if subject.parent else ""
    idea_text = f"  {subject.idea.id} {words.idea_title(subject.idea)}" if subject.idea else ""
    head: Line = [(f" {variant.id}{parent}", "round"), (idea_text, "muted")]
    if subject.verdict is not None and subject.verdict.measurement is not None:
        return [rule, head, *time_strip(subject.verdict, variant, glyphs)]
    reason = one_line(variant.author_error or variant.message)
    return [
        rule,
        head,
        [(f" {words.outcome_text(variant) or variant.state}", words.state_token(variant)), (f"  {reason}", "")],
    ]
