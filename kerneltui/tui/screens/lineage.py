"""The way from the reference to a variant, idea by idea, with the gain of every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from kerneltui.records import Outcome, Variant
from kerneltui.tui import details, diffs, words
from kerneltui.tui.passages import BLANK, heading
from kerneltui.tui.render import bar, cut, right
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

LONGEST_DIFF = 4000  # lines: a longer one is left to the Diff tab, which has a thread
BAR_CELLS = 20


class LineageScreen(Listing):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", show=False)]
    keys = (("enter", "show it in the tree"), ("j k", "step"), ("tab", "list or text"), ("esc", "back"))

    def __init__(self, main: MainScreen, variant: Variant) -> None:
        super().__init__()
        self.main, self.variant = main, variant
        self.steps = main.model.lineage(variant)

    def refill(self) -> None:
        self.titles(
            [(f" Lineage of {self.variant.id}", "")],
            [(f"{words.count_text(len(self.steps), 'step')} from the reference ", "muted")],
            [(" step      against eager    this step   idea", "muted")],
            [(" What this step did", "")],
        )
        here = self.list.cursor if self.list.lines else len(self.steps) - 1
        self.fill(self._lines())
        self.list.move_to(here)
        self.show_about()

    def _lines(self) -> list[Line]:
        top = max((v.speedup.ratio for v in self.steps if v.speedup), default=1.0)
        found: list[Line] = []
        before: float | None = 1.0  # the reference itself, in PyTorch
        for step in self.steps:
            idea = self.main.model.tree.ideas.get(step.idea or "")
            known = step.speedup.ratio if step.speedup and step.outcome is Outcome.CORRECT else None
            gain = f"{known / before:.2f}{self.glyphs.times}" if known and before else ""
            ratio = words.ratio_text(step, self.glyphs) or words.outcome_text(step) or words.state_word(step)
            picture = bar((known or 0.0) / top, BAR_CELLS, self.glyphs) if known else " " * BAR_CELLS
            title = f"{idea.id} {words.idea_title(idea)}" if idea else str(step.kind)
            slower = known is not None and before is not None and known < before
            found.append(
                [
                    (f" {step.id:<9}", "round"),
                    (right(ratio, 9), words.state_token(step)),
                    (right(gain, 12), "fail" if slower else "number"),
                    ("  ", ""),
                    (picture, "bar"),
                    (f"  {cut(title, self.app.size.width - 57, self.glyphs.cut)}", "human" if step.human else ""),
                ]
            )
            before = known or before
        return found

    def show_about(self) -> None:
        about = self.query_one("#about", TextLines)
        step = self.steps[min(self.list.cursor, len(self.steps) - 1)]
        model, width = self.main.model, about.view.width or 80
        found = details.idea_lines(model, model.tree.ideas.get(step.idea or ""), None, self.glyphs, width)
        about.show([*found, *self._difference(step)])

    def _difference(self, step: Variant) -> list[Line]:
        at = self.steps.index(step)
        own = self.main.model.candidate(step)
        above = self.main.model.candidate(self.steps[at - 1]) if at else None
        if own is None or above is None or max(own.source.count("\n"), above.source.count("\n")) > LONGEST_DIFF:
            return []
        diff = diffs.make_diff(above.source, own.source)
        count: Line = [(f" +{diff.added}", "diff-add"), (" ", ""), (f"-{diff.removed}", "diff-del")]
        return [BLANK, heading(f"code against {self.steps[at - 1].id}"), count, *diff.lines]

    def on_line_list_chosen(self, message: LineList.Chosen) -> None:
        if message.lines is self.list:
            self.dismiss(None)
            self.main.tree_list.go_to(self.steps[message.row].id)
            self.main.show_detail()
