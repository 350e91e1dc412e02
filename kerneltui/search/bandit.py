"""Shares of the work by what each author's variants achieved for their cost: an upper confidence bound per author.

No dice: equal trees give equal shares, and authors of whom nothing is known keep what the settings say.

arms      tree -> Arm per author, with all that its share is computed from
shares    tree -> (author, share), adding up to 1: fixed when a round opens, kept in the status meanwhile

Every variant is a pull. Its reward lies in [0, 1]: 0 for a kernel that is wrong or was never written, 0.5 for one as fast
as the best before its round, 1 for one at least twice as fast; a logarithm in between. The bound is UCB1's, with a prior
instead of a first pull for each (Auer, Cesa-Bianchi & Fischer, Finite-time Analysis of the Multiarmed Bandit Problem,
2002). It is divided by 1 + cost / mean cost: every pull costs an evaluation, and its dollars on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kerneltui.records import AuthorSettings, Settings, Tree, Variant, VariantKind, VariantState, is_ranked

PRIOR = 0.5  # expected of an author that nobody knows
PRIOR_PULLS = 2.0
CURIOSITY = 0.5  # of 1 as in UCB1: rewards here lie close together, and pulls are few
SHARPNESS = 2.0  # twice the bound is four times the share
LEAST = (
    0.25  # of its share in the settings: so much every author keeps, since models fit some rounds better than others
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One author as the bandit sees it."""

    author: str
    pulls: int  # variants whose end is known
    reward: float  # mean; the prior where there are none
    usd: float | None  # known dollars per pull; None: unknown
    bound: float  # what it may achieve, per unit of cost
    share: float


def shares(tree: Tree, settings: Settings) -> tuple[tuple[str, float], ...]:
    """What each author gets of the next round."""
    return tuple((arm.author, arm.share) for arm in arms(tree, settings))


def with_shares(authors: Iterable[AuthorSettings], moved: Sequence[tuple[str, float]]) -> list[AuthorSettings]:
    """The authors with their shares in this round; one that is new keeps its own."""
    known = dict(moved)
    return [replace(author, share=known.get(author.label, author.share)) for author in authors]


def moved_words(tree: Tree, settings: Settings) -> str:
    """The new shares with their reasons; "" where none moves by a hundredth."""
    before = dict(tree.status.shares) or _configured(settings)
    found = arms(tree, settings)
    if all(abs(arm.share - before.get(arm.author, 0.0)) < 0.01 for arm in found):
        return ""
    return "; ".join(_arm_words(arm, before.get(arm.author)) for arm in found)


def _arm_words(arm: Arm, before: float | None) -> str:
    was = f" (was {before:.0%})" if before is not None else ""
    cost = "" if arm.usd is None else f" at ${arm.usd:.3f} each"
    return f"{arm.author} {arm.share:.0%}{was}: worth {arm.reward:.2f} over {arm.pulls} variants{cost}"


def _configured(settings: Settings) -> dict[str, float]:
    total = sum(author.share for author in settings.authors) or 1.0
    return {author.label: author.share / total for author in settings.authors}


def arms(tree: Tree, settings: Settings) -> list[Arm]:
    """Every author with a share, in the order of the settings."""
    authors = {author.label: author for author in settings.authors if author.share > 0}
    rewards: dict[str, list[float]] = {label: [] for label in authors}
    for variant, reward in _rewards(tree):
        if variant.author in rewards:
            rewards[variant.author].append(reward)
    costs = {label: _usd_per_pull(tree, label, len(found)) for label, found in rewards.items()}
    bounds = _bounds(rewards, costs)
    given = _shares({label: author.share for label, author in authors.items()}, bounds)
    return [
        Arm(
            author=label,
            pulls=len(found),
            reward=_mean(found),
            usd=costs[label],
            bound=bounds[label],
            share=given[label],
        )
        for label, found in rewards.items()
    ]


# --------------------------------------------------------------------------- rewards


def _rewards(tree: Tree) -> Iterable[tuple[Variant, float]]:
    """Attempts that ended, each with the best reward of itself, its repairs and its sweep."""
    before = _best_before(tree)
    earned = {v.id: _reward(tree, v, before.get(v.round, 1.0)) for v in tree.variants.values()}
    for variant in reversed(tree.variants.values()):  # parents come before children
        if variant.kind in (VariantKind.REPAIR, VariantKind.SWEEP) and variant.parent in earned:
            earned[variant.parent] = max(earned[variant.parent], earned[variant.id])
    for variant in tree.variants.values():
        known = variant.outcome is not None or bool(variant.author_error)
        if variant.kind is VariantKind.ATTEMPT and variant.state is VariantState.DONE and known:
            yield variant, earned[variant.id]


def _reward(tree: Tree, variant: Variant, best: float) -> float:
    good = is_ranked(variant) and tree.is_here(variant) and variant.same_as is None
    if not good or variant.speedup is None or variant.speedup.ratio <= 0:
        return 0.0
    return min(1.0, max(0.1, PRIOR + PRIOR * math.log2(variant.speedup.ratio / best)))


def _best_before(tree: Tree) -> dict[int, float]:
    """By round: the best speed-up of all rounds before; 1 where there is none."""
    best: dict[int, float] = {}
    for variant in tree.variants.values():
        if is_ranked(variant) and tree.is_here(variant) and variant.speedup and variant.speedup.ratio > 0:
            best[variant.round] = max(best.get(variant.round, 0.0), variant.speedup.ratio)
    found: dict[int, float] = {}
    champion = 0.0
    for number in range(max(best, default=0) + 2):
        if champion:
            found[number] = champion
        champion = max(champion, best.get(number, 0.0))
    return found


def _usd_per_pull(tree: Tree, label: str, pulls: int) -> float | None:
    """Dollars of all its calls, those for ideas too; None where no cost is known."""
    costs = [call.cost_usd for call in tree.calls.values() if call.author == label and call.cost_usd is not None]
    return sum(costs) / max(1, pulls) if costs else None


# --------------------------------------------------------------------------- bounds and shares


def _mean(rewards: Sequence[float]) -> float:
    return (PRIOR * PRIOR_PULLS + sum(rewards)) / (PRIOR_PULLS + len(rewards))


def _bounds(rewards: Mapping[str, Sequence[float]], costs: Mapping[str, float | None]) -> dict[str, float]:
    total = sum(map(len, rewards.values()))
    known = [cost for cost in costs.values() if cost is not None]
    usual = sum(known) / len(known) if known else 0.0
    found = {}
    for label, earned in rewards.items():
        reach = CURIOSITY * math.sqrt(2 * math.log(1 + total) / (PRIOR_PULLS + len(earned)))
        cost = costs[label]
        dear = (usual if cost is None else cost) / usual if usual else 0.0
        found[label] = (_mean(earned) + reach) / (1 + dear)
    return found


def _shares(asked: Mapping[str, float], bounds: Mapping[str, float]) -> dict[str, float]:
    """By weight and bound, none below its least; rounded, so that every machine finds the same."""
    total = sum(asked.values())
    merits = {label: weight * bounds[label] ** SHARPNESS for label, weight in asked.items()}
    earned = sum(merits.values())
    return {
        label: round(LEAST * weight / total + (1 - LEAST) * merits[label] / earned, 4)
        for label, weight in asked.items()
    }
