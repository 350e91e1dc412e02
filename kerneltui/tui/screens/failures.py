"""Failures, grouped by what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from kerneltui.records import DecisionKind
from kerneltui.tui import words
from kerneltui.tui.render import one_line
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.signatures import Group, group_failures, trend
from kerneltui.tui.undo import Step
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

EXAMPLES = 12
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
    keys = (("enter", "list them in the tree"), ("r", "retry all"), ("x", "prune all"), ("L", "lesson for the authors"),
            ("z", "undo"), ("esc", "back"))  # fmt: skip

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
        self.list.show([_line(group) for group in self.groups] or [[(" Nothing has failed.", "muted")]])
        self.show_about()

    @property
    def group(self) -> Group | None:
        """The group under the cursor."""
        return self.groups[self.list.cursor] if self.list.cursor < len(self.groups) else None

    def show_about(self) -> None:
        group, found = self.group, list[Line]()
        for variant in (group.variants if group else ())[-1 : -EXAMPLES - 1 : -1]:
            reason = one_line(variant.author_error or variant.message)
            found.append(
                [(f" {variant.id} ", "round"), (f"{variant.idea or '-':<6}r{variant.round:<4}", "muted"), (reason, "")]
            )
        self.query_one("#about", TextLines).show(found)

    def on_line_list_chosen(self, _: LineList.Chosen) -> None:
        if self.group is not None:
            self.dismiss(None)
            self.main.set_filter(f'sig:"{self.group.signature.replace(chr(34), "")}"')

    def _with_group(self, name: str, kind: DecisionKind, back: DecisionKind | None) -> None:
        group = self.group
        if group is None:
            return
        ids = [variant.id for variant in group.variants]
        done = [Step(kind=kind, target=id) for id in ids]
        undone = [Step(kind=back, target=id) for id in ids] if back else []
        self._ask(
            f"{name} {words.count_text(len(ids), 'variant')}?",
            lambda: self._do(f"{name}: {len(ids)} variants", done, undone),
        )

    def _do(self, title: str, done: list[Step], undone: list[Step]) -> None:
        self.main.hands.do(title, done, undone)
        self.say(title, "human")

    def _ask(self, question: str, yes: Callable[[], None]) -> None:
        self.main.confirm(question, yes)

    def action_retry(self) -> None:
        self._with_group("retry", DecisionKind.RETRY, None)

    def action_prune(self) -> None:
        self._with_group("prune", DecisionKind.PRUNE, DecisionKind.RESTORE)

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
            undone = [Step(kind=DecisionKind.NOTE, payload={"text": before})] if before.strip() else []
            self._do("lesson given to every author", [done], undone)

        self.main.ask("Lesson for every later prompt", take, value=lesson, hint="edit it as you like")


def _line(group: Group) -> Line:
    return [(f" {group.stage:<9}", "fail"), (f"{len(group.variants):>6}", "number"), (f"{'r' + str(group.last_round):>6}", "muted"),
            (f"{group.ideas:>7}  ", "muted"), (group.signature, "")]  # fmt: skip
