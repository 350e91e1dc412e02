"""The tree as rows: rounds, their ideas, their variants, and repairs and sweep points below those. Pure.

Rows are kept per round, and only rounds that changed are laid out again; counts are kept per idea. Of a large session
only the newest rounds are there at first: the others are counted once, and their variants read when they are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kerneltui.records import IdeaStatus, Tree, Variant, VariantKind
from kerneltui.tui import words
from kerneltui.tui.stored import StoredVariants
from kerneltui.tui.tally import GONE, Counts, Tally, leader_key, rank_key

ROUNDS_OPEN = 2  # the newest ones


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
class _Round:
    number: int
    ideas: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)  # variants without an idea
    rows: list[Row] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    dirty: bool = True
    leader: Variant | None = None  # the best when it was last laid out
    loaded: bool = True  # its variants are in the tree
    pieces: list[int] | None = None  # where they lie in the session file; None is not known yet


class Outline:
    """The visible rows of a tree. Call `fold` with what changed, then read `rows`."""

    def __init__(self, tree: Tree, source: StoredVariants | None = None) -> None:
        """`source`: the tree holds only the variants of the newest rounds, of the best one's round, and of the start."""
        self.tree, self.source = tree, source
        self.counted = source is None  # whether the counts of all rounds are known
        self.sort = Sort.BEST
        self.closed: set[str] = set()  # rounds and variants that were closed by hand or by age
        self.opened: set[str] = set()  # ideas that were opened
        self.wanted: Callable[[Variant], bool] | None = None  # the filter; None shows all
        self.idea_wanted: Callable[[str], bool] | None = None
        self.matches = 0
        self.proposed: set[str] = set()  # ideas that wait for a person
        self.leads = 0  # how often the best of a round became another one
        self.rows: list[Row] = []
        self.tallies: dict[str, Tally] = {}
        self.kids: dict[str, list[str]] = {}  # variant -> repairs and sweep points in the same idea
        self._members: dict[str, list[str]] = {}  # idea -> variants directly under it
        self._rounds: dict[int, _Round] = {}
        self._round_of: dict[str, int] = {}  # idea -> round
        self._placed: set[str] = set()
        self._where: dict[str, int] | None = None
        self._live = False
        held = dict.values(tree.variants)  # those that were read, without asking for the others
        if source is not None:
            numbers = {idea.round for idea in tree.ideas.values()}
            there = {variant.round for variant in held} | set(sorted(numbers)[-ROUNDS_OPEN:])
            for number in sorted(numbers - there):
                self._round(number).loaded = False
        self.fold(tree.ideas, [variant.id for variant in held])
        self._live = True
        self.open_newest()

    # ----------------------------------------------------------------- what changed

    def fold(self, ideas: Iterable[str], variants: Iterable[str]) -> None:
        """Take in new or changed nodes that are already in `tree`."""
        dirty: set[str] = set()
        for id in ideas:
            idea = self.tree.ideas[id]
            (self.proposed.add if idea.status is IdeaStatus.PROPOSED else self.proposed.discard)(id)
            if id not in self._round_of:
                self._round_of[id] = idea.round
                self._round(idea.round).ideas.append(id)
                if self._live:
                    self.opened.add(id)  # what appears while one looks is shown
            dirty.add(id)
        for id in variants:
            variant = self.tree.variants[id]
            if self.source is not None and id not in self._placed:
                self._load(self._round(self._round_of.get(variant.idea or "", variant.round)))
            if id not in self._placed:
                self._place(variant)
            if variant.idea in self._round_of:
                dirty.add(variant.idea or "")
            else:
                self._round(variant.round).dirty = True
        for id in dirty:
            part = self._rounds[self._round_of[id]]
            if self._live:
                self._load(part)
            if part.loaded:
                self._count_idea(id)
            part.dirty = True

    def take_counts(self, counts: Counts) -> None:
        """Take in what was counted of the rounds that are not loaded; one whose rows lay elsewhere is loaded anew."""
        for number, tally in counts.tallies.items():
            part = self._rounds.get(number)
            if part is None:
                part = self._round(number)
                part.loaded = False
                self.closed.add(f"r{number}")
            part.pieces = counts.pieces[number]
            if part.loaded and self._count_round(part).total < tally.total:
                part.loaded = False
            if not part.loaded:
                tally.ideas = len(part.ideas)
                part.tally, part.dirty = tally, True
        self.counted = True

    def _load(self, part: _Round) -> None:
        """Read the variants of a round."""
        if part.loaded or self.source is None:
            return
        part.loaded = True
        ideas = set(part.ideas)
        for variant in self.source.of_ideas(part.ideas, part.pieces):
            here = variant.idea in ideas or (variant.idea not in self._round_of and variant.round == part.number)
            if here and variant.id not in self._placed:
                self._place(variant)
        for id in part.ideas:
            self._count_idea(id)

    def _load_all(self) -> None:
        """Read all that is missing, in one go."""
        if self.source is not None and not all(part.loaded for part in self._rounds.values()):
            self.source.read_all()
            for part in list(self._rounds.values()):
                part.loaded = True
            self.fold(self.tree.ideas, [id for id in self.tree.variants if id not in self._placed])

    def _round(self, number: int) -> _Round:
        found = self._rounds.get(number)
        if found is None:
            is_last = not self._rounds or number > next(reversed(self._rounds))
            found = self._rounds[number] = _Round(number)
            if not is_last:
                self._rounds = dict(sorted(self._rounds.items()))
        return found

    def _place(self, variant: Variant) -> None:
        self._placed.add(variant.id)
        nested = variant.kind in (VariantKind.REPAIR, VariantKind.SWEEP) or variant.idea is None
        above = self.tree.variants.get(variant.parent) if nested and variant.parent else None
        if above is not None and above.idea == variant.idea and above.id != variant.id:
            self.kids.setdefault(above.id, []).append(variant.id)
        elif variant.idea in self._round_of:
            self._members.setdefault(variant.idea or "", []).append(variant.id)
        else:
            self._round(variant.round).loose.append(variant.id)

    def _count_idea(self, id: str) -> None:
        idea = self.tree.ideas[id]
        alive = idea.status not in GONE
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
        for number in numbers[:-ROUNDS_OPEN]:
            self.closed.add(f"r{number}")
        for number in numbers[-ROUNDS_OPEN:]:
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
        if self.wanted is not None:
            self._load_all()
            dirty = [part for part in self._rounds.values() if part.dirty]
        for part in dirty:
            if self.is_open(Row(NodeKind.ROUND, f"r{part.number}", 0)):
                self._load(part)
            part.tally = self._count_round(part)
            self.leads += part.tally.best is not part.leader
            part.leader = part.tally.best
            part.rows = self._lay_out(part)
            part.dirty = False
        self.rows = [row for part in self._rounds.values() for row in part.rows]
        self.matches = sum(1 for row in self.rows if row.kind is NodeKind.VARIANT and not row.dimmed)
        if self.rows == before:
            return False
        self._where = None
        return True

    def _count_round(self, part: _Round) -> Tally:
        if not part.loaded:
            part.tally.ideas = len(part.ideas)
            self.tallies[f"r{part.number}"] = part.tally
            return part.tally
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
        matching = self._matching(ids)
        for id in self._sorted_variants(ids if matching is None else matching):
            wanted = matching is None or matching[id]
            row = Row(NodeKind.VARIANT, id, depth, not wanted)
            below: list[Row] = []
            if id in self.kids and self.is_open(row):
                self._add_variants(below, self.kids[id], depth + 1)
            if wanted or below:
                rows.append(row)
                rows.extend(below)

    def _matching(self, ids: Iterable[str]) -> dict[str, bool] | None:
        """With a filter: what matches, and what may have something below it that does. Sorting the rest is spared."""
        if self.wanted is None:
            return None
        tested = {id: self.wanted(self.tree.variants[id]) for id in ids}
        return {id: matches for id, matches in tested.items() if matches or id in self.kids}

    def _sorted_ideas(self, ids: list[str]) -> list[str]:
        if self.sort is Sort.BEST:
            return sorted(ids, key=lambda id: (leader_key(self.tallies[id].best), id))
        if self.sort is Sort.NEWEST:
            return ids[::-1]
        if self.sort is Sort.NAME:
            return sorted(ids, key=lambda id: words.idea_title(self.tree.ideas[id]).lower())
        return sorted(ids, key=lambda id: -self._cost(id))

    def _sorted_variants(self, ids: Iterable[str]) -> list[str]:
        found = [self.tree.variants[id] for id in ids]
        if self.sort is Sort.BEST:
            found.sort(key=rank_key)
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
            self._load(self._rounds[self.round_of(Row(NodeKind.VARIANT, id, 0))])
            return list(self.below([id]))
        if id in self._round_of:
            self._load(self._rounds[self._round_of[id]])
            return list(self.below(self._members.get(id, ())))
        part = self._rounds[int(id[1:])]
        self._load(part)
        members = (id for idea in part.ideas for id in self._members.get(idea, ()))
        return list(self.below([*part.loose, *members]))
