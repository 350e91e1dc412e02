"""Failures, grouped by what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from kerneltui.records import DecisionKind
from kerneltui.tui import words
from kerneltui.tui.render import cut, fit, one_line, wrap
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.signatures import Group, group_failures, trend
from kerneltui.tui.undo import Step
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

EXAMPLES = 12
INDENT = 20  # columns before the reason
REFRESH_S = 1.0


class FailuresScreen(Listing):
    """Largest group first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("r,R", "retry", show=False),
        Binding("x", "prune", show=False),
        Binding("L", "lesson", show=False),
        Binding("z", "undo", show=False),
    ]
    keys = (
        ("enter", "list"),
        ("r", "retry all"),
        ("x", "prune all"),
        ("L", "lesson for prompts"),
        ("z", "undo"),
        ("esc", "back"),
    )

    def __init__(self, main: MainScreen) -> None:
        super().__init__()
        self.main = main
        self.groups: list[Group] = []
        self._seq = -1

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(REFRESH_S, self.refill)

    def refill(self) -> None:
        tree = self.main.model.tree
        if tree.seq == self._seq:
            return
        self._seq = tree.seq
        self.groups = group_failures(tree.variants.values(), tree.ideas)
        count = sum(len(group.variants) for group in self.groups)
        shares = "  ".join(f"r{number} {share:.0%}" for number, share in trend(tree.variants.values()))
        self.titles(
            [(" Failures", "")],
            [(f"{count:,} of {words.count_text(len(tree.variants), 'variant')}   failed by round: {shares} ", "muted")],
            [(" stage     count  last  ideas  what went wrong", "muted")],
            [(" Examples", "")],
        )
        self.fill([self._line(group) for group in self.groups] or [[(" Nothing has failed.", "muted")]])
        self.show_about()

    @property
    def group(self) -> Group | None:
        """The group under the cursor."""
        return self.groups[self.list.cursor] if self.list.cursor < len(self.groups) else None

    def show_about(self) -> None:
        """Newest first: the first in full, of the others a line each."""
        group, found = self.group, list[Line]()
        for number, variant in enumerate((group.variants if group else ())[-1 : -EXAMPLES - 1 : -1]):
            head: Line = [(f" {variant.id} ", "round"), (f"{variant.idea or '-':<6}r{variant.round:<4}", "muted")]
            reason = one_line(variant.author_error or variant.message) or words.outcome_text(variant)
            room = max(20, self.app.size.width - INDENT - 2)
            parts = [fit(reason, room, self.glyphs.cut)] if number else wrap(reason, room)
            found.append([*head, (parts[0] if parts else "", "")])
            found += [[(" " * INDENT + part, "")] for part in parts[1:]]
        self.query_one("#about", TextLines).show(found)

    def _line(self, group: Group) -> Line:
        text = cut(group.signature, max(20, self.app.size.width - 34), self.glyphs.cut)
        return [(f" {group.stage:<9}", "fail"), (f"{len(group.variants):>6}", "number"),
                (f"{'r' + str(group.last_round):>6}", "muted"), (f"{group.ideas:>7}  ", "muted"), (text, "")]  # fmt: skip

    def on_line_list_chosen(self, _: LineList.Chosen) -> None:
        if self.group is not None:
            self.dismiss(None)
            self.main.set_filter(f'sig:"{self.group.signature.replace(chr(34), "")}"')

    def action_retry(self) -> None:
        if self.group is not None:
            ids = [variant.id for variant in self.group.variants]
            title, steps = f"retry of {words.count_text(len(ids), 'variant')} asked", [_retry(id) for id in ids]
            self.main.confirm(
                f"retry {words.count_text(len(ids), 'variant')}?", lambda: self.main.hands.do(title, steps, [])
            )

    def action_prune(self) -> None:
        ids = [variant.id for variant in (self.group.variants if self.group else ()) if not variant.pruned]
        if ids:
            self.main.hands.prune_nodes(ids)
        else:
            self.say("nothing here to prune", "muted")

    def action_undo(self) -> None:
        self.main.hands.undo()

    def action_lesson(self) -> None:
        group = self.group
        if group is None:
            return
        before = self.main.model.tree.settings.notes
        lesson = f"{len(group.variants)} kernels failed with: {group.signature}. Avoid this."

        def take(text: str) -> None:
            notes = "\n".join(part for part in (before.strip(), text.strip()) if part)
            done = Step(kind=DecisionKind.NOTE, payload={"text": notes})
            undone = Step(kind=DecisionKind.NOTE, payload={"text": before})
            self.main.hands.do("lesson given to every author", [done], [undone])

        self.main.ask("Lesson for every later prompt", take, value=lesson, hint="edit it as you like")


def _retry(id: str) -> Step:
    return Step(kind=DecisionKind.RETRY, target=id)
