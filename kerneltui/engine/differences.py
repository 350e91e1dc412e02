"""Two trees side by side: the first thing in which a replay differs from its record, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kerneltui.records import Idea, Tree, Variant, VariantState
from kerneltui.search.steps import Finish, Step

IDEA_FIELDS = ("id", "round", "parent", "author", "title", "technique", "status", "merged_into", "key", "human")
ROW_FIELDS = ("id", "idea", "round", "parent", "kind", "author", "candidate", "pruned", "pinned", "human", "attempts")
VERDICT_FIELDS = ("same_as", "outcome", "stage", "median_us", "badge", "screened")


class Differs(Exception):
    """The replay came out otherwise; says where."""


def same(then: Idea | Variant, now: Idea | Variant, names: Iterable[str]) -> None:
    """Raises Differs where a field is another."""
    for name in names:
        old, new = getattr(then, name), getattr(now, name)
        if old != new:
            raise Differs(f"{then.id}: {name} was {old!r}; here it is {new!r}")


def same_row(then: Variant, now: Tree) -> None:
    """Raises Differs where a row is missing or another."""
    if then.id not in now.variants:
        raise Differs(f"recorded is {then.id} ({then.name}); the search does not make it")
    same(then, now.variants[then.id], ("parent", "kind", "candidate"))


def compare_trees(then: Tree, now: Tree) -> None:
    """Raises Differs at the first idea, row, verdict or champion that is another."""
    for idea in then.ideas.values():
        _must_be(idea.id, now.ideas)
        same(idea, now.ideas[idea.id], IDEA_FIELDS)
    for row in then.variants.values():
        _must_be(row.id, now.variants)
        same(row, now.variants[row.id], ROW_FIELDS)
        if row.state is VariantState.DONE:
            same(row, now.variants[row.id], VERDICT_FIELDS)
    _no_more(now.ideas, then.ideas)
    _no_more(now.variants, then.variants)
    best = now.best()
    if then.status.best is not None and (best is None or best.id != then.status.best):
        raise Differs(f"the best was {then.status.best}; here it is {best.id if best else 'none'}")


def _must_be(id_: str, table: Mapping[str, Any]) -> None:
    if id_ not in table:
        raise Differs(f"{id_} is on record; the search does not make it")


def _no_more(now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    if more := next((id_ for id_ in now if id_ not in then), None):
        raise Differs(f"{more} is new: it is not on record")


def compare_finish(reason: str, steps: Sequence[Step]) -> None:
    """Raises Differs unless the search ends with the recorded reason."""
    now = steps[0] if steps else None
    if isinstance(now, Finish) and now.reason == reason:
        return
    told = "; ".join(map(told_step, steps[:3])) or "nothing, and waits"
    raise Differs(f"it finished with: {reason}; here the search asks for: {told}")


def told_step(step: Step) -> str:
    """A step in words."""
    words = (f"{field.name} {getattr(step, field.name)!r}" for field in fields(step))
    return f"{type(step).__name__.lower()} with {', '.join(words)}"


def name_all(ids: Iterable[str]) -> str:
    """Ids in words."""
    return ", ".join(id_ or "the reference" for id_ in ids) or "none"
