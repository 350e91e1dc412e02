"""Which points of a grid to try next, given the costs of those tried: a Gaussian process over the grid's ranks.

A point is a tuple of ranks, one per tunable. Time is modelled by its logarithm, since the effects of tunables multiply.
The process has a kernel per tunable, exp(-w |difference of ranks|), times each other, so that weights near zero drop a
tunable that does not matter; weights and noise are those that make the measurements most likely. Points are chosen by
expected improvement; within one batch, each chosen point is taken to come out as predicted.
Source: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), 2.2, 5.4.1; Jones, Schonlau & Welch,
Efficient Global Optimization of Expensive Black-Box Functions (1998); Ginsbourger, Le Riche & Carraro, Kriging Is
Well-Suited to Parallelize Optimization (2010), "kriging believer".
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Point = tuple[int, ...]
Floats = npt.NDArray[np.float64]

FIRST = 12  # points at random before anything is modelled
BATCH = 4  # points between two looks at what came: as many compile at once
FAILED_AT = 0.75  # quantile of the measured costs
POOL = 2500  # points that are looked at; beside those around the best
WEIGHED = 80  # measurements that the weights are found from: the best and a sample
AROUND = 6  # of the best are looked around
WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0)  # of a kernel; over the whole range of a tunable
NOISES = (1e-4, 1e-3, 1e-2, 1e-1)  # variance of noise over variance of the process
DIGITS = 9  # of a score: what machines compute differently beyond that decides nothing


@dataclass(frozen=True, slots=True)
class Fit:
    """A process fitted to measurements."""

    weights: Floats  # (tunables,)
    noise: float
    ranks: Floats  # (n, tunables), scaled to 0..1
    alpha: Floats  # (n,)
    factor: Floats  # (n, n), Cholesky
    mean: float
    scale: float  # standard deviation of the process


def choose(legal: Sequence[Point], tried: Mapping[Point, float | None], limit: int, seed: int) -> list[Point]:
    """Up to `limit` legal points that were not tried: all that are left where they fit; else the next batch."""
    fresh = [point for point in legal if point not in tried]
    if len(fresh) <= limit:
        return fresh
    dice = random.Random(f"{seed} {len(tried)}")
    measured = {point: cost for point, cost in tried.items() if cost is not None and cost > 0}
    missing = min(FIRST, math.ceil(limit / 2)) - len(tried)
    if missing > 0 or len(measured) < 3:
        return spread(fresh, list(tried), min(limit, max(1, missing)), dice)
    pool = _pool(fresh, measured, dice)
    return _best_of(pool, tried, measured, min(limit, BATCH))


def spread(fresh: Sequence[Point], taken: Sequence[Point], count: int, dice: random.Random) -> list[Point]:
    """Points at random, each the farthest of a few from those before."""
    chosen: list[Point] = []
    for _ in range(count):
        drawn = dice.sample(fresh, min(16, len(fresh)))
        left = [point for point in drawn if point not in chosen] or drawn
        before = [*taken, *chosen]
        chosen.append(max(left, key=lambda p: min((_differences(p, q) for q in before), default=0)))
    return list(dict.fromkeys(chosen))


def _differences(one: Point, other: Point) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def _pool(fresh: Sequence[Point], measured: Mapping[Point, float], dice: random.Random) -> list[Point]:
    """Everything where that is little; else what differs from the best in one or two tunables, and a sample."""
    if len(fresh) <= POOL:
        return list(fresh)
    ranks = np.array(fresh)
    best = sorted(measured, key=lambda point: (measured[point], point))[:AROUND]
    differences = np.array([(ranks != np.array(point)).sum(axis=1) for point in best])
    near = (differences <= 1).any(axis=0) | (differences[:2] <= 2).any(axis=0)
    sample = dice.sample(range(len(fresh)), POOL)
    chosen = dict.fromkeys([*np.flatnonzero(near).tolist(), *sample])
    return [fresh[index] for index in chosen]


def _best_of(
    pool: Sequence[Point], tried: Mapping[Point, float | None], measured: Mapping[Point, float], count: int
) -> list[Point]:
    points = list(tried)
    # What failed counts as one of the slower: as the slowest of all it would pull the model away from its neighbours.
    slow = float(np.quantile(np.log(list(measured.values())), FAILED_AT))
    costs = np.array([math.log(measured[point]) if point in measured else slow for point in points])
    top = np.maximum(1, np.max(np.array([*points, *pool]), axis=0))
    ranks, candidates = np.array(points) / top, np.array(pool) / top
    some = _telling(costs)
    weights, noise = _most_likely(ranks[some], costs[some])
    chosen: list[int] = []
    for _ in range(count):
        fit = _fit(ranks, costs, weights, noise)
        scores = np.round(_improvement(fit, candidates, float(costs.min())), DIGITS)
        scores[chosen] = -1.0
        pick = int(np.argmax(scores))
        chosen.append(pick)
        believed, _ = _predict(fit, candidates[pick : pick + 1])
        ranks, costs = np.vstack([ranks, candidates[pick]]), np.append(costs, believed)
    return [pool[pick] for pick in chosen]


def _telling(costs: Floats) -> npt.NDArray[np.intp]:
    """The better half of what is weighed, and the rest evenly from the others."""
    order = np.argsort(costs, kind="stable")
    if len(order) <= WEIGHED:
        return order
    others = order[WEIGHED // 2 :]
    evenly = np.linspace(0, len(others) - 1, WEIGHED - WEIGHED // 2).round().astype(np.intp)
    return np.concatenate([order[: WEIGHED // 2], others[evenly]])


# --------------------------------------------------------------------------- the process


def _kernel(one: Floats, other: Floats, weights: Floats) -> Floats:
    """(n, m) covariances of points scaled to 0..1, over the process's variance."""
    distance = np.zeros((len(one), len(other)))
    for column, weight in enumerate(weights):
        if weight:
            distance += weight * np.abs(one[:, column, None] - other[None, :, column])
    covariance: Floats = np.exp(-distance)
    return covariance


def _fit(ranks: Floats, costs: Floats, weights: Floats, noise: float) -> Fit:
    covariance = _kernel(ranks, ranks, weights)
    covariance[np.diag_indices_from(covariance)] += noise
    factor: Floats = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    ones, centred = _solve(factor, np.ones(len(costs))), _solve(factor, costs)
    mean = float(centred.sum() / ones.sum())
    alpha = centred - mean * ones
    scale = math.sqrt(max(1e-12, float((costs - mean) @ alpha) / len(costs)))
    return Fit(weights, noise, ranks, alpha, factor, mean, scale)


def _solve(factor: Floats, values: Floats) -> Floats:
    solved: Floats = np.linalg.solve(factor.T, np.linalg.solve(factor, values))
    return solved


def _likelihood(fit: Fit) -> float:
    """Logarithm, up to constants, with mean and scale at their best."""
    return -len(fit.alpha) * math.log(fit.scale) - float(np.log(np.diag(fit.factor)).sum())


def _most_likely(ranks: Floats, costs: Floats) -> tuple[Floats, float]:
    """Weights and noise, one at a time, twice over."""
    weights, noise = np.full(ranks.shape[1], 0.3), 1e-2
    best = _likelihood(_fit(ranks, costs, weights, noise))
    for _ in range(2):
        for column in range(len(weights)):
            for weight in WEIGHTS:
                trial = weights.copy()
                trial[column] = weight
                found = _likelihood(_fit(ranks, costs, trial, noise))
                if found > best + 1e-9:
                    best, weights = found, trial
        for other in NOISES:
            found = _likelihood(_fit(ranks, costs, weights, other))
            if found > best + 1e-9:
                best, noise = found, other
    return weights, noise


def _predict(fit: Fit, points: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation at each point."""
    covariance = _kernel(points, fit.ranks, fit.weights)
    mean: Floats = fit.mean + covariance @ fit.alpha
    reduced: Any = np.linalg.solve(fit.factor, covariance.T)
    variance = np.maximum(1e-12, 1 - np.einsum("ij,ij->j", reduced, reduced))
    return mean, fit.scale * np.sqrt(variance)


def _improvement(fit: Fit, points: Floats, best: float) -> Floats:
    """Expected improvement over `best`, in log time."""
    mean, deviation = _predict(fit, points)
    gain = best - mean
    z = gain / deviation
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _erf(z / math.sqrt(2)))
    improvement: Floats = gain * below + deviation * density
    return improvement


def _erf(x: Floats) -> Floats:
    """Within 1.5e-7. Source: Abramowitz & Stegun, Handbook of Mathematical Functions (1964), 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    found: Floats = np.sign(x) * (1 - powers * np.exp(-x * x))
    return found
