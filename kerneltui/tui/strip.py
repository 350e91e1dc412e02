"""A few lines on the current row, where there is no room for the detail pane. Pure."""

from __future__ import annotations

from kerneltui.tui import words
from kerneltui.tui.model import Model
from kerneltui.tui.outline import NodeKind, Row
from kerneltui.tui.passages import field_line, field_lines, paragraph
from kerneltui.tui.render import Glyphs, cut, one_line
from kerneltui.tui.timings import time_strip
from kerneltui.tui.widgets.linelist import Line

LINES = 4  # below the rule


def strip_lines(model: Model, row: Row | None, glyphs: Glyphs, width: int) -> list[Line]:
    """Five lines on a row, where there is no room for the detail pane."""
    rule: Line = [(glyphs.across * width, "plot-axis")]
    if row is None:
        return [rule, *_search_lines(model, width)]
    if row.kind is not NodeKind.VARIANT:
        return [rule, *_group_lines(model, row, glyphs, width)]
    variant = model.tree.variants[row.id]
    subject = model.subject(variant)
    parent = f" {glyphs.arrow} {subject.parent.id}" if subject.parent else ""
    idea_text = f"  {subject.idea.id} {words.idea_title(subject.idea)}" if subject.idea else ""
    lead = f" {variant.id}{parent}"
    head: Line = [(lead, "round"), (cut(idea_text, width - len(lead), glyphs.cut), "muted")]
    if subject.verdict is not None and subject.verdict.measurement is not None:
        return [rule, head, *time_strip(subject.verdict, variant, glyphs)]
    reason = one_line(variant.author_error or variant.message)
    return [
        rule,
        head,
        [(f" {words.outcome_text(variant) or variant.state}", words.state_token(variant)), (f"  {reason}", "")],
    ]


def _search_lines(model: Model, width: int) -> list[Line]:
    """What is going to be searched, while nothing has been found."""
    problem, settings = model.problem, model.tree.settings
    widths = f"{settings.rounds} rounds, {settings.ideas} ideas a parent, {settings.variants} variants an idea"
    return [
        [
            (f" {one_line(problem.title or problem.name)}", "round"),
            (f"  {problem.dtype}, device {', '.join(settings.devices) or settings.device}", "muted"),
        ],
        field_line("search", widths),
        *field_lines("authors", words.authors_text(settings), width)[:1],
        *field_lines("budget", words.budget_text(settings.budget), width)[:1],
    ]


def _group_lines(model: Model, row: Row, glyphs: Glyphs, width: int) -> list[Line]:
    """An idea's words, or a round's best and what the search may spend; and what came of it."""
    idea, tally = model.tree.ideas.get(row.id), model.outline.tallies.get(row.id)
    counts = f" {tally.ok} ok, {tally.fail} failed, {tally.running} running, {tally.waiting} waiting" if tally else ""
    if idea is not None:
        text = paragraph(f"{words.idea_title(idea)}. {one_line(idea.text)}", width)
        return [*text[: LINES - 1], [(counts, "muted")]]
    best = tally.best if tally else None
    reached = f" best {words.ratio_text(best, glyphs)} " if best is not None else " no correct variant yet "
    found: Line = [(reached, "best" if best is not None else "muted"), (best.id if best is not None else "", "muted")]
    return [
        found,
        [(counts, "muted")],
        [(f" budget of the search: {words.budget_text(model.tree.settings.budget)}", "muted")],
    ]
