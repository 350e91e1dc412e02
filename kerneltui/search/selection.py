"""Which variants go on, and which author is asked: survivors, ties, lineages, champions, shares."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from functools import partial

from kerneltui.records import AuthorSettings, Settings, Tree, Variant, VariantKind, VariantState, standing

TIES = 32  # how many of those that equal the fastest are compared for kinship


def select(tree: Tree, settings: Settings, ranked: Sequence[Variant] | None = None) -> list[Variant]:
    """Survivors: what people pinned, then the fastest, limited per idea, per lineage and to one of each source.

    Variants that the measurements cannot tell apart are equal; then the one least related to those already chosen
    goes on.
    """
    chosen = [v for v in tree.variants.values() if _pinned_in(tree, v)]
    kin = _Kin(tree, settings, chosen)
    pool = [v for v in (tree.correct() if ranked is None else ranked) if v.same_as is None]
    while len(chosen) < settings.beam:
        fitting = (v for v in pool if kin.has_room_for(v))
        head = next(fitting, None)
        if head is None:
            break
        equals = [head, *itertools.islice(itertools.takewhile(partial(is_tie, head), fitting), TIES)]
        pick = min(equals, key=kin.closeness)
        chosen.append(pick)
        kin.add(pick)
    return chosen


def is_tie(one: Variant, other: Variant) -> bool:
    """Whether the 95 % intervals of their speed-ups overlap."""
    if one.speedup is None or other.speedup is None:
        return one.median_us == other.median_us
    return one.speedup.low <= other.speedup.high and other.speedup.low <= one.speedup.high


def lineage(tree: Tree, variant: Variant) -> str:
    """The first idea above a variant; a variant without an idea above is its own lineage."""
    top, seen, node = variant.id, set[str](), variant
    while node.id not in seen:
        seen.add(node.id)
        idea = tree.ideas.get(node.idea) if node.idea else None
        top = idea.id if idea else top
        above = tree.variants.get(node.parent or (idea.parent if idea else None) or "")
        if above is None:
            break
        node = above
    return top


def champion_by_round(tree: Tree) -> dict[int, Variant]:
    """The best after each round that improved on the one before by more than noise."""
    found: dict[int, Variant] = {}
    best: Variant | None = None
    fastest: dict[int, Variant] = {}
    for variant in tree.correct():
        fastest.setdefault(variant.round, variant)
    for number in sorted(fastest):
        here = fastest[number]
        if best is None or (standing(here) < standing(best) and not is_tie(here, best)):
            best = found[number] = here
    return found


def _pinned_in(tree: Tree, variant: Variant) -> bool:
    judged = variant.state is VariantState.DONE and variant.candidate is not None
    return variant.pinned and judged and not tree.is_pruned(variant)


def family(variant: Variant) -> str:
    """What variants of one source have in common, whatever their tunables."""
    return variant.source or root(variant)


def root(variant: Variant) -> str:
    """The variant that a sweep started from; a variant that is no sweep point is its own."""
    return variant.parent if variant.kind is VariantKind.SWEEP and variant.parent else variant.id


class _Kin:
    """Who of the chosen is related to whom."""

    def __init__(self, tree: Tree, settings: Settings, chosen: Sequence[Variant]) -> None:
        self.tree, self.settings = tree, settings
        self.ideas: Counter[str] = Counter()
        self.lineages: Counter[str] = Counter()
        self.families: set[str] = set()
        for variant in chosen:
            self.add(variant)

    def add(self, variant: Variant) -> None:
        self.ideas[variant.idea or variant.id] += 1
        self.lineages[lineage(self.tree, variant)] += 1
        self.families.add(family(variant))

    def closeness(self, variant: Variant) -> tuple[int, int]:
        return self.ideas[variant.idea or variant.id], self.lineages[lineage(self.tree, variant)]

    def has_room_for(self, variant: Variant) -> bool:
        if family(variant) in self.families or self.ideas[variant.idea or variant.id] >= self.settings.per_idea:
            return False
        return self.lineages[lineage(self.tree, variant)] < self.settings.per_lineage


def share_out(authors: Sequence[AuthorSettings], count: int, offset: int = 0) -> list[tuple[str, int]]:
    """`count` slots by weight, from slot `offset` of one fixed sequence: fair over many small portions."""
    able = [author for author in authors if author.share > 0]
    taken: Counter[str] = Counter()
    portion: Counter[str] = Counter()
    for slot in range(offset + count if able else 0):
        label = max(able, key=lambda a: (a.share / (2 * taken[a.label] + 1), -able.index(a))).label  # Sainte-Laguë
        taken[label] += 1
        portion[label] += slot >= offset
    return [(author.label, portion[author.label]) for author in able if portion[author.label]]
