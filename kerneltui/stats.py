"""Medians, intervals, noise, speed-up and racing. Pure functions of samples; each formula names its source.

median, median_interval, noise      one row of samples
speedup, half_width                 paired slices
is_settled, is_near, is_beaten      when to stop measuring
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kerneltui.records import Speedup

RESAMPLES = 2000  # Efron & Tibshirani, An Introduction to the Bootstrap (1993), ch. 13: 1000 or more for intervals
SCREEN_SLICES, FAR_BEHIND = 3, 2.0
SURE_SLICES, SURELY_BEHIND = 8, 1.05
SEED = 20240229  # one stream for all resampling: equal samples give equal intervals, on every machine

# What two processes that run the same code differ by, whatever the interval over their pairs says. Eager against itself
# (bench/ties.py): 1364 of 1366 ratios on H200s off by up to 0.5 %, two by 0.54 and 0.74 %, one of these with an interval that
# left out 0.5 %; 100 times on a host that others share off by up to 8 %, with intervals that left 1 out by up to 4.5 %.
RESOLUTION = {"cuda": 0.01, "cpu": 0.1}


def median(samples: Sequence[float]) -> float:
    """The middle value.

    Raises:
        ValueError: no samples.
    """
    if len(samples) == 0:
        raise ValueError("the median of no samples")
    return float(np.median(np.asarray(samples, dtype=np.float64)))


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """95 % confidence interval of the median by order statistics; below six samples the extremes.

    Assumes independent samples, no normality. With five samples or fewer even the extremes hold the median
    less often than 95 %: 1 - 2 * 0.5**n.
    Source: Conover, Practical Nonparametric Statistics (3rd ed.), 3.2, confidence interval for a quantile.

    Raises:
        ValueError: no samples.
    """
    ordered = sorted(float(sample) for sample in samples)
    count = len(ordered)
    if count == 0:
        raise ValueError("the interval of no samples")
    cut = tail_ranks(count)
    return ordered[cut], ordered[count - 1 - cut]


def tail_ranks(count: int) -> int:
    """How many order statistics may be left out at each end: the largest k with P(Binomial(n, 1/2) <= k) <= 2.5 %."""
    ranks, below = 0, binomial_half(count, 0)
    while ranks < (count - 1) // 2:
        below += binomial_half(count, ranks + 1)
        if below > 0.025:
            break
        ranks += 1
    return ranks


def binomial_half(count: int, wins: int) -> float:
    """P(Binomial(count, 1/2) = wins); by logarithms, since `comb` of thousands overflows a float."""
    ways = math.lgamma(count + 1) - math.lgamma(wins + 1) - math.lgamma(count - wins + 1)
    return math.exp(ways - count * math.log(2))


def noise(samples: Sequence[float]) -> float | None:
    """Relative noise: 1.4826 MAD / median; None for fewer than three samples or a median of 0.

    1.4826 makes the median absolute deviation estimate the standard deviation of a normal distribution.
    Source: Rousseeuw & Croux, Alternatives to the Median Absolute Deviation (1993), section 1.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size < 3:
        return None
    middle = float(np.median(values))
    if middle == 0:
        return None
    return 1.4826 * float(np.median(np.abs(values - middle))) / abs(middle)


def log_ratios(baseline_us: Sequence[float], candidate_us: Sequence[float]) -> list[float]:
    """log(T_base / T_cand) of each pair.

    Raises:
        ValueError: lengths differ, or a time is not a positive number.
    """
    if len(baseline_us) != len(candidate_us):
        raise ValueError("pairs need as many times of the baseline as of the candidate")
    times = (*baseline_us, *candidate_us)
    if not all(math.isfinite(time) and time > 0 for time in times):
        raise ValueError("a time that is not a positive number has no ratio")
    return [math.log(base / cand) for base, cand in zip(baseline_us, candidate_us, strict=True)]


def bootstrap_interval(ratios: Sequence[float], *, level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the median of log-ratios.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
    """
    values = np.asarray(ratios, dtype=np.float64)
    drawn = np.random.default_rng(SEED).integers(0, values.size, size=(RESAMPLES, values.size))
    medians = np.median(values[drawn], axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def speedup(baseline_us: Sequence[float], candidate_us: Sequence[float], *, resolution: float) -> Speedup | None:
    """Baseline over candidate from paired slices: exp(median log-ratio) with its 95 % interval; None without pairs.

    Pairs cancel slow drift that no number of blocked samples can. Below six pairs the interval is the range of
    the pairs, since resampling so few understates it. An interval that comes within `resolution` of 1 (relative, see
    RESOLUTION) is a tie: it knows nothing of what differs between two processes.

    Raises:
        ValueError: lengths differ, or a time is not a positive number.
    """
    ratios = log_ratios(baseline_us, candidate_us)
    if not ratios:
        return None
    low, high = bootstrap_interval(ratios) if len(ratios) >= 6 else (min(ratios), max(ratios))
    unsure = math.log1p(resolution)
    return Speedup(
        ratio=math.exp(median(ratios)),
        low=math.exp(low),
        high=math.exp(high),
        tie=len(ratios) < 2 or low - unsure <= 0.0 <= high + unsure,
        pairs=len(ratios),
    )


def half_width(found: Speedup) -> float:
    """Half the interval, relative to the ratio."""
    return (found.high - found.low) / (2 * found.ratio)


def is_settled(baseline_us: Sequence[float], candidate_us: Sequence[float], *, width: float = 0.005) -> bool:
    """Whether at least eight pairs put the ratio within +-`width`."""
    if len(candidate_us) < 8:
        return False
    found = speedup(baseline_us, candidate_us, resolution=0.0)
    return found is not None and half_width(found) <= width


def is_near(baseline_us: Sequence[float], candidate_us: Sequence[float], share: float) -> bool:
    """Whether the ratio lies within `share` of 1 (relative)."""
    return abs(median(log_ratios(baseline_us, candidate_us))) <= math.log1p(share)


def is_beaten(candidate_us: Sequence[float], beam_us: float) -> bool:
    """Whether it is no contender: after three slices when even the fastest is far slower than the worst survivor, after
    eight when the interval of its median lies above that, with a margin for what a device drifts between candidates.
    """
    if len(candidate_us) < SCREEN_SLICES:
        return False
    if min(candidate_us) > FAR_BEHIND * beam_us:
        return True
    return len(candidate_us) >= SURE_SLICES and median_interval(candidate_us)[0] > SURELY_BEHIND * beam_us
