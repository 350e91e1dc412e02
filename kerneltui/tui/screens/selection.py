"""What an act applies to: the marked nodes, else the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneltui.records import Idea, Variant
from kerneltui.tui.outline import NodeKind

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen


class Selection:
    """The choice on one main screen."""

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen

    def targets(self) -> list[str]:
        """Marked nodes, else the one under the cursor; a round stands for its ideas."""
        row = self.screen.current
        ids = self.screen.model.selection([row.id] if row else [])
        found: list[str] = []
        for id in ids:
            if id in self.screen.model.tree.ideas or id in self.screen.model.tree.variants:
                found.append(id)
            else:
                number = int(id[1:])
                found += [idea.id for idea in self.screen.model.tree.ideas.values() if idea.round == number]
        return found

    def variants(self) -> list[Variant]:
        """The targets that are variants; an idea stands for its variants."""
        tree = self.screen.model.tree
        found: list[Variant] = []
        for id in self.targets():
            found += [tree.variants[id]] if id in tree.variants else self.screen.model.outline.variants_below(id)
        return found

    def idea(self) -> Idea | None:
        """The idea under the cursor, or the one that its variant was written from."""
        row = self.screen.current
        if row is None or row.kind is NodeKind.ROUND:
            return None
        tree = self.screen.model.tree
        return tree.ideas.get(row.id if row.kind is NodeKind.IDEA else tree.variants[row.id].idea or "")

    def one_variant(self) -> Variant | None:
        """The variant under the cursor; an idea's best stands for it."""
        row = self.screen.current
        if row is None:
            return None
        if row.kind is NodeKind.VARIANT:
            return self.screen.model.tree.variants[row.id]
        tally = self.screen.model.outline.tallies.get(row.id)
        return tally.best if tally else None
