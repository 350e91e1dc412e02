"""Ideas that were had before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from kerneltui.records import Idea, IdeaStatus, Tree

SAME_TEXT = 88.0  # per cent of words in common, whatever their order
SAME_TITLE = 95.0
NEAR_TEXT = 60.0  # asked for beside the same title


def same_idea(tree: Tree, idea: Idea, more: Sequence[Idea] = ()) -> Idea | None:
    """An idea, in the tree or one `more`, that says the same for the same start; playbook cards go by their keys."""
    for other in (*tree.ideas.values(), *more):
        if other.id == idea.id or other.status is IdeaStatus.MERGED or not _same_start(tree, idea, other):
            continue
        if idea.key or other.key:
            if idea.key == other.key and idea.author == other.author:
                return other
        elif says_the_same(idea, other):
            return other
    return None


def says_the_same(one: Idea, other: Idea) -> bool:
    """Whether two ideas differ by no more than wording. Other numbers in the title are another experiment."""
    if sorted(re.findall(r"\d+", one.title)) != sorted(re.findall(r"\d+", other.title)):
        return False
    text = fuzz.token_sort_ratio(_plain(one), _plain(other))
    title = fuzz.token_sort_ratio(normal(one.title), normal(other.title))
    return text >= SAME_TEXT or (title >= SAME_TITLE and text >= NEAR_TEXT)


def normal(text: str) -> str:
    """Words and numbers only, in lower case."""
    return " ".join(re.findall(r"[a-z0-9]+", text.casefold()))


def _plain(idea: Idea) -> str:
    return normal(f"{idea.title} {idea.technique} {idea.text}")


def _same_start(tree: Tree, idea: Idea, other: Idea) -> bool:
    """The same parent, or a parent that already has the other idea in it."""
    if idea.key and idea.key == other.key:
        return True
    return _start(tree, idea.parent) == _start(tree, other.parent) or other.id in set(_above(tree, idea.parent))


def _start(tree: Tree, parent: str | None) -> str:
    """Reference and starters are one start: nothing was tried on them yet."""
    variant = tree.variants.get(parent or "")
    return "" if variant is None or (variant.idea is None and not variant.human) else variant.id


def _above(tree: Tree, parent: str | None) -> Iterable[str]:
    seen: set[str] = set()
    variant = tree.variants.get(parent or "")
    while variant is not None and variant.id not in seen:
        seen.add(variant.id)
        idea = tree.ideas.get(variant.idea) if variant.idea else None
        if idea is not None:
            yield idea.id
        variant = tree.variants.get(variant.parent or (idea.parent if idea else None) or "")
