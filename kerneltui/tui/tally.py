"""What has become of variants, in numbers: of an idea, of a round, of rounds that nobody has read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from kerneltui.records import IdeaStatus, Outcome, Tree, Variant, VariantState, is_ranked, standing
from kerneltui.store import Glance
from kerneltui.tui import words

GONE = (IdeaStatus.PRUNED, IdeaStatus.REJECTED)  # what lies below is no longer in the running


@dataclass(slots=True)
class Tally:
    """What has become of the variants of an idea or a round."""

    ok: int = 0
    fail: int = 0
    running: int = 0
    waiting: int = 0
    total: int = 0
    ideas: int = 0
    judged: int = 0  # with a verdict
    best: Variant | None = None

    def add(self, other: Tally) -> None:
        """Fold in the tally of a part."""
        self.ok += other.ok
        self.fail += other.fail
        self.running += other.running
        self.waiting += other.waiting
        self.total += other.total
        self.judged += other.judged
        if other.best is not None and is_faster(other.best, self.best):
            self.best = other.best

    def count(self, seen: Variant | Glance, *, alive: bool) -> None:
        """Fold in one variant; only one that is alive can be the best."""
        variant = cast(Variant, seen)  # a glance has all that is looked at here
        self.total += 1
        self.judged += variant.outcome is not None
        if variant.state is not VariantState.DONE:
            if variant.state in words.ACTIVE:
                self.running += 1
            elif variant.state is not VariantState.CANCELLED:
                self.waiting += 1
        elif variant.outcome is Outcome.CORRECT:
            self.ok += 1
            if alive and is_ranked(variant) and is_faster(variant, self.best):
                self.best = variant
        elif words.is_failure(variant):
            self.fail += 1


def is_faster(variant: Variant, than: Variant | None) -> bool:
    """Whether it stands before the other; both are ranked."""
    return than is None or standing(variant) < standing(than)


@dataclass(slots=True)
class Counts:
    """What is to be said of rounds whose variants nobody holds, made from glances."""

    tallies: dict[int, Tally] = field(default_factory=dict)
    pieces: dict[int, list[int]] = field(default_factory=dict)

    def add(self, piece: int, glances: Iterable[Glance], tree: Tree) -> None:
        """Fold in a piece of the session file."""
        ideas, worlds, tallies = tree.ideas, tree.status.worlds, self.tallies
        for glance in glances:
            idea = ideas.get(glance.idea) if glance.idea else None
            number = glance.round if idea is None else idea.round
            tally = tallies.get(number)
            if tally is None:
                tally = tallies[number] = Tally()
                self.pieces[number] = []
            where = self.pieces[number]
            if not where or where[-1] != piece:
                where.append(piece)
            alive = not glance.pruned and (not worlds or glance.world in worlds)
            tally.count(glance, alive=alive and (idea is None or idea.status not in GONE))

    def name_best(self, tree: Tree) -> None:
        """Put whole records in the place of the glances that lead."""
        for tally in self.tallies.values():
            if tally.best is not None:
                tally.best = tree.variants[tally.best.id]


_STATE_ORDER = {word: order for order, word in enumerate(("ok", "RUN", "QUE", "BLD", "WRIT", "WAIT", "n/a"))}
_LAST = (2, 0.0, "")  # behind all that have a standing


def leader_key(variant: Variant | None) -> tuple[int, float, str]:
    """By the best that lies below."""
    return standing(variant) if variant else _LAST


def rank_key(variant: Variant) -> tuple[int, tuple[int, float, str], str]:
    """Fastest first, then what is being worked on, then what failed."""
    order = _STATE_ORDER.get(words.state_word(variant), 9)
    return (order, standing(variant) if is_ranked(variant) else _LAST, variant.id)
