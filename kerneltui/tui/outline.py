"""The tree as rows: rounds, their ideas, their variants, and repairs and sweep points below those. Pure.

Rows are kept per round, and only rounds that changed are laid out again; counts are kept per idea.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kerneltui.records import IdeaStatus, Outcome, Tree, Variant, VariantKind, VariantState, is_ranked, standing
from kerneltui.tui import words


class NodeKind(StrEnum):
    """What a row stands for."""

    ROUND = "round"
    IDEA = "idea"
    VARIANT = "variant"


class Row(NamedTuple):
    """One visible line."""

    kind: NodeKind
    id: str  # "r3", "i001" or "v00001"
    depth: int
    dimmed: bool = False  # shown only because something below it matches the filter


class Sort(StrEnum):
    """Order of ideas in a round and of variants in an idea."""

    BEST = "best"
    NEWEST = "newest"
    NAME = "name"
    COST = "cost"


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

    def count(self, variant: Variant, *, alive: bool) -> None:
        """Fold in one variant; only one that is alive can be the best."""
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
class _Round:
    number: int
    ideas: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)  # variants without an idea
    rows: list[Row] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    dirty: bool = True


class Outline:
    """The visible rows of a tree. Call `fold` with what changed, then read `rows`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.sort = Sort.BEST
        self.closed: set[str] = set()  # rounds and variants that were closed by hand or by age
        self.opened: set[str] = set()  # ideas that were opened
        self.wanted: Callable[[Variant], bool] | None = None  # the filter; None shows all
        self.idea_wanted: Callable[[str], bool] | None = None
        self.matches = 0
        self.rows: list[Row] = []
        self.tallies: dict[str, Tally] = {}
        self.kids: dict[str, list[str]] = {}  # variant -> repairs and sweep points in the same idea
        self._members: dict[str, list[str]] = {}  # idea -> variants directly under it
        self._rounds: dict[int, _Round] = {}
        self._round_of: dict[str, int] = {}  # idea -> round
        self._placed: set[str] = set()
        self._where: dict[str, int] | None = None
        self._live = False
        self.fold(tree.ideas, tree.variants)
        self._live = True
        self.open_newest()

    # ----------------------------------------------------------------- what changed

    def fold(self, ideas: Iterable[str], variants: Iterable[str]) -> None:
        """Take in new or changed nodes that are already in `tree`."""
        dirty: set[str] = set()
        for id in ideas:
            idea = self.tree.ideas[id]
            if id not in self._round_of:
                self._round_of[id] = idea.round
                self._round(idea.round).ideas.append(id)
                if self._live:
                    self.opened.add(id)  # what appears while one looks is shown
            dirty.add(id)
        for id in variants:
            variant = self.tree.variants[id]
            if id not in self._placed:
                self._place(variant)
            if variant.idea in self._round_of:
                dirty.add(variant.idea or "")
            else:
                self._round(variant.round).dirty = True
        for id in dirty:
            self._count_idea(id)
            self._rounds[self._round_of[id]].dirty = True

    def _round(self, number: int) -> _Round:
        found = self._rounds.get(number)
        if found is None:
            found = self._rounds[number] = _Round(number)
            self._rounds = dict(sorted(self._rounds.items()))
        return found

    def _place(self, variant: Variant) -> None:
        self._placed.add(variant.id)
        above = self.tree.variants.get(variant.parent) if variant.parent else None
        nested = variant.kind in (VariantKind.REPAIR, VariantKind.SWEEP) or variant.idea is None
        if above is not None and nested and above.idea == variant.idea and above.id != variant.id:
            self.kids.setdefault(above.id, []).append(variant.id)
        elif variant.idea in self._round_of:
            self._members.setdefault(variant.idea or "", []).append(variant.id)
        else:
            self._round(variant.round).loose.append(variant.id)

    def _count_idea(self, id: str) -> None:
        idea = self.tree.ideas[id]
        alive = idea.status not in (IdeaStatus.PRUNED, IdeaStatus.REJECTED)
        tally = Tally(ideas=1)
        for variant in self.below(self._members.get(id, ())):
            tally.count(variant, alive=alive and not variant.pruned and self.tree.is_here(variant))
        self.tallies[id] = tally

    def below(self, ids: Iterable[str]) -> Iterable[Variant]:
        """Variants by id, each followed by its repairs and sweep points."""
        for id in ids:
            yield self.tree.variants[id]
            if id in self.kids:
                yield from self.below(self.kids[id])

    # ----------------------------------------------------------------- opening and closing

    def open_newest(self) -> None:
        """Open the last two rounds with their ideas, close the others."""
        numbers = list(self._rounds)
        for number in numbers[:-2]:
            self.closed.add(f"r{number}")
        for number in numbers[-2:]:
            self.opened.update(self._rounds[number].ideas)
        self.touch()

    def has_children(self, row: Row) -> bool:
        """Whether there is anything to open."""
        if row.kind is NodeKind.ROUND:
            return True
        return bool(self._members.get(row.id) if row.kind is NodeKind.IDEA else self.kids.get(row.id))

    def is_open(self, row: Row) -> bool:
        """Whether what lies below it is shown."""
        if row.kind is NodeKind.IDEA:
            return row.id in self.opened or self.wanted is not None
        return row.id not in self.closed or self.wanted is not None

    def set_open(self, row: Row, opened: bool) -> None:
        """Open or close a row."""
        if row.kind is NodeKind.IDEA:
            (self.opened.add if opened else self.opened.discard)(row.id)
        else:
            (self.closed.discard if opened else self.closed.add)(row.id)
        self._rounds[self.round_of(row)].dirty = True

    def reveal(self, id: str) -> None:
        """Open whatever hides a node."""
        variant = self.tree.variants.get(id)
        idea = variant.idea if variant else id
        while variant is not None:
            self.closed.discard(variant.id)
            variant = self.tree.variants.get(variant.parent or "") if variant.kind is not VariantKind.ATTEMPT else None
        if idea in self._round_of:
            self.opened.add(idea or "")
            self.closed.discard(f"r{self._round_of[idea or '']}")
        elif id in self.tree.variants:
            self.closed.discard(f"r{self.tree.variants[id].round}")
        self.touch()

    def close_all(self) -> None:
        """Leave only the rounds."""
        self.closed.update(f"r{number}" for number in self._rounds)
        self.touch()

    def touch(self) -> None:
        """Lay everything out again at the next `layout`."""
        for part in self._rounds.values():
            part.dirty = True

    # ----------------------------------------------------------------- rows

    def layout(self) -> bool:
        """Bring `rows` up to date; whether they changed."""
        dirty = [part for part in self._rounds.values() if part.dirty]
        if not dirty:
            return False
        before = self.rows
        for part in dirty:
            part.tally = self._count_round(part)
            part.rows = self._lay_out(part)
            part.dirty = False
        self.rows = [row for part in self._rounds.values() for row in part.rows]
        self.matches = sum(1 for row in self.rows if row.kind is NodeKind.VARIANT and not row.dimmed)
        if self.rows == before:
            return False
        self._where = None
        return True

    def _count_round(self, part: _Round) -> Tally:
        tally = Tally(ideas=len(part.ideas))
        for id in part.ideas:
            tally.add(self.tallies[id])
        for variant in self.below(part.loose):
            tally.count(variant, alive=not variant.pruned and self.tree.is_here(variant))
        self.tallies[f"r{part.number}"] = tally
        return tally

    def _lay_out(self, part: _Round) -> list[Row]:
        head = Row(NodeKind.ROUND, f"r{part.number}", 0, self.wanted is not None)
        rows: list[Row] = []
        if self.is_open(head):
            self._add_variants(rows, part.loose, 1)
            for id in self._sorted_ideas(part.ideas):
                self._add_idea(rows, id)
        if self.wanted is not None and not rows:
            return []
        return [head, *rows]

    def _add_idea(self, rows: list[Row], id: str) -> None:
        named = self.wanted is None or (self.idea_wanted is not None and self.idea_wanted(id))
        row = Row(NodeKind.IDEA, id, 1, not named)
        below: list[Row] = []
        if self.is_open(row):
            self._add_variants(below, self._members.get(id, ()), 2)
        if named or below:
            rows.append(row)
            rows.extend(below)

    def _add_variants(self, rows: list[Row], ids: Iterable[str], depth: int) -> None:
        for id in self._sorted_variants(ids):
            wanted = self.wanted is None or self.wanted(self.tree.variants[id])
            row = Row(NodeKind.VARIANT, id, depth, not wanted)
            below: list[Row] = []
            if id in self.kids and self.is_open(row):
                self._add_variants(below, self.kids[id], depth + 1)
            if wanted or below:
                rows.append(row)
                rows.extend(below)

    def _sorted_ideas(self, ids: list[str]) -> list[str]:
        if self.sort is Sort.BEST:
            return sorted(ids, key=lambda id: (_leader(self.tallies[id].best), id))
        if self.sort is Sort.NEWEST:
            return ids[::-1]
        if self.sort is Sort.NAME:
            return sorted(ids, key=lambda id: words.idea_title(self.tree.ideas[id]).lower())
        return sorted(ids, key=lambda id: -self._cost(id))

    def _sorted_variants(self, ids: Iterable[str]) -> list[str]:
        found = [self.tree.variants[id] for id in ids]
        if self.sort is Sort.BEST:
            found.sort(key=_rank)
        elif self.sort is Sort.NEWEST:
            found.reverse()
        elif self.sort is Sort.NAME:
            found.sort(key=lambda variant: (variant.name.lower(), variant.id))
        else:
            found.sort(key=lambda variant: -self._cost(variant.id))
        return [variant.id for variant in found]

    def _cost(self, node: str) -> float:
        return sum(call.cost_usd or 0.0 for call in self.tree.calls.values() if call.node == node)

    # ----------------------------------------------------------------- finding

    def round_of(self, row: Row) -> int:
        """Number of the round that a row is in."""
        if row.kind is NodeKind.ROUND:
            return int(row.id[1:])
        id = row.id if row.kind is NodeKind.IDEA else self.tree.variants[row.id].idea or ""
        found = self._round_of.get(id)
        return found if found is not None else self.tree.variants[row.id].round

    def index(self, id: str) -> int | None:
        """Where a node is shown."""
        if self._where is None:
            self._where = {row.id: index for index, row in enumerate(self.rows)}
        return self._where.get(id)

    def parent_index(self, index: int) -> int | None:
        """The row above it in the tree."""
        depth = self.rows[index].depth
        for above in range(index - 1, -1, -1):
            if self.rows[above].depth < depth:
                return above
        return None

    def round_numbers(self) -> list[int]:
        """Every round there is, in order."""
        return list(self._rounds)

    def round_tallies(self) -> list[Tally]:
        """What has become of every round."""
        return [part.tally for part in self._rounds.values()]

    def variants_below(self, id: str) -> list[Variant]:
        """Every variant that belongs to a round, an idea or a variant, itself included."""
        if id in self.tree.variants:
            return list(self.below([id]))
        if id in self._round_of:
            return list(self.below(self._members.get(id, ())))
        part = self._rounds[int(id[1:])]
        found = list(self.below(part.loose))
        for idea in part.ideas:
            found += self.below(self._members.get(idea, ()))
        return found


_STATE_ORDER = {word: order for order, word in enumerate(("ok", "RUN", "QUE", "BLD", "WRIT", "WAIT", "n/a"))}
_LAST = (2, 0.0, "")  # behind all that have a standing


def _leader(variant: Variant | None) -> tuple[int, float, str]:
    return standing(variant) if variant else _LAST


def _rank(variant: Variant) -> tuple[int, tuple[int, float, str], str]:
    """Fastest first, then what is being worked on, then what failed."""
    order = _STATE_ORDER.get(words.state_word(variant), 9)
    return (order, standing(variant) if is_ranked(variant) else _LAST, variant.id)
