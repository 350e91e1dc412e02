"""Proposed ideas: approve, reject, change, before any code is written from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from kerneltui.records import DecisionKind, Idea, IdeaStatus, in_order
from kerneltui.tui import details, words
from kerneltui.tui.render import cut, fit, one_line
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

REFRESH_S = 0.5


class ReviewScreen(Listing):
    """What waits for a yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("y,A", "approve", show=False),
        Binding("x", "reject", show=False),
        Binding("Y", "approve_all", show=False),
        Binding("e", "edit", show=False),
        Binding("a", "add", show=False),
        Binding("z", "undo", show=False),
        Binding("J", "move(1)", show=False),
        Binding("K", "move(-1)", show=False),
    ]
    keys = (("y", "approve"), ("x", "reject"), ("e", "edit"), ("a", "add"), ("J K", "move"), ("Y", "approve all"), ("z", "undo"),
            ("esc", "back"))  # fmt: skip

    def __init__(self, main: MainScreen) -> None:
        super().__init__()
        self.main = main
        self.ideas: list[Idea] = []

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(REFRESH_S, self.refill)

    def refill(self) -> None:
        tree = self.main.model.tree
        found = [idea for idea in in_order(tree.ideas.values()) if idea.status is IdeaStatus.PROPOSED]
        here = self.idea.id if self.idea else ""
        if found == self.ideas and self.list.lines and self._seq >= 0:
            self._fill()
            return
        self.ideas, self._seq = found, tree.seq
        waits = words.count_text(len(found), "idea")
        mode = "" if tree.settings.review else "this session does not ask: ideas are written at once"
        self.titles(
            [(" Review", "")],
            [(f"{mode}  ", "muted"), (f"{waits} to decide on ", "muted")],
            [(f" idea  round from      {'technique':<{self._technique_cells}}  title", "muted")],
            [(" The idea", "")],
        )
        self._fill()
        if here:  # the cursor stays on its idea when that moves
            self.list.move_to(next((row for row, idea in enumerate(found) if idea.id == here), self.list.cursor))
        self.show_about()

    @property
    def _technique_cells(self) -> int:
        return 20 if self.app.size.width < 110 else 36

    def _fill(self) -> None:
        empty: list[Line] = [[(" Nothing waits. a adds an idea of your own.", "muted")]]
        self.fill([self._line(idea) for idea in self.ideas] or empty)

    def _line(self, idea: Idea) -> Line:
        asked = self.main.model.asked(idea.id)
        note = f"  {asked} asked" if asked else ""
        room = max(12, self.app.size.width - 28 - self._technique_cells - len(note))
        return [(f" {idea.id:<6}", "round"), (f"r{idea.round:<5}", "muted"), (f"{idea.parent or 'reference':<10}", "muted"),
                (f"{fit(one_line(idea.technique), self._technique_cells, self.glyphs.cut)}  ", "key"), (cut(words.idea_title(idea), room, self.glyphs.cut), ""), (note, "warning")]  # fmt: skip

    @property
    def idea(self) -> Idea | None:
        """The idea under the cursor."""
        return self.ideas[self.list.cursor] if self.list.cursor < len(self.ideas) else None

    def show_about(self) -> None:
        about = self.query_one("#about", TextLines)
        lines = (
            details.idea_lines(self.main.model, self.idea, None, self.glyphs, about.view.width or 80)
            if self.idea
            else []
        )
        about.show(lines)

    def on_line_list_chosen(self, _: LineList.Chosen) -> None:
        self.action_edit()

    def _decide(self, kind: DecisionKind, ideas: list[Idea]) -> None:
        if ideas:
            self.main.hands.decide_on(kind, [idea.id for idea in ideas])
            self.list.action_move(1)

    def action_approve(self) -> None:
        self._decide(DecisionKind.APPROVE, [self.idea] if self.idea else [])

    def action_reject(self) -> None:
        self._decide(DecisionKind.REJECT, [self.idea] if self.idea else [])

    def action_approve_all(self) -> None:
        self._decide(DecisionKind.APPROVE, [idea for idea in self.ideas if not self.main.model.asked(idea.id)])

    def action_move(self, by: int) -> None:
        """One row up or down among the proposed ideas of its round."""
        row = self.list.cursor + by
        if self.idea is None or not 0 <= row < len(self.ideas) or self.ideas[row].round != self.idea.round:
            return
        behind = self.ideas[row + 1 :] if by > 0 else self.ideas[row:]
        before = next((idea.id for idea in behind if idea.round == self.idea.round), "")
        self.main.hands.move(self.idea.id, before)
        self.say(f"moved {self.idea.id}; code is written in this order; z undoes", "human")

    def action_edit(self) -> None:
        if self.idea is not None and self.main.tree_list.go_to(self.idea.id):
            self.main.hands.edit_idea()

    def action_add(self) -> None:
        self.main.hands.add_idea()

    def action_undo(self) -> None:
        self.main.hands.undo()
