"""Numbers against formulas worked by hand, and the cases that go wrong elsewhere."""

from __future__ import annotations

import math
import random

import pytest

from kerneltui import stats

GPU, HOST = stats.RESOLUTION["cuda"], stats.RESOLUTION["cpu"]


def test_median_of_even_and_odd_counts() -> None:
    assert stats.median([3.0, 1.0, 2.0]) == 2.0
    assert stats.median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_nothing_has_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        stats.median([])
    with pytest.raises(ValueError, match="no samples"):
        stats.median_interval([])


def test_order_statistics_of_ten_samples_are_the_second_and_the_ninth() -> None:
    # P(Binomial(10, 1/2) <= 1) = 11/1024 = 1.07 %, P(<= 2) = 5.5 %: two ranks may not be cut.
    assert stats.median_interval(list(range(1, 11))) == (2.0, 9.0)


def test_few_samples_give_their_range() -> None:
    assert stats.median_interval([5.0]) == (5.0, 5.0)
    assert stats.median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_the_interval_covers_the_true_median_about_95_percent_of_the_time() -> None:
    rng = random.Random(1)
    rows = [[rng.expovariate(1.0) for _ in range(25)] for _ in range(400)]
    held = sum(low <= math.log(2) <= high for low, high in map(stats.median_interval, rows))
    assert 370 <= held <= 400


def test_noise_of_a_normal_sample_is_its_relative_deviation() -> None:
    rng = random.Random(2)
    found = stats.noise([rng.gauss(100.0, 3.0) for _ in range(4000)])
    assert found == pytest.approx(0.03, rel=0.1)


def test_noise_needs_three_samples_and_a_scale() -> None:
    assert stats.noise([1.0, 2.0]) is None
    assert stats.noise([0.0, 0.0, 0.0]) is None


def test_a_ratio_survives_drift_that_spoils_blocks() -> None:
    drift = [1.0 + 0.04 * math.sin(i / 7) for i in range(60)]
    found = stats.speedup([103.0 * d for d in drift], [100.0 * d for d in drift], resolution=GPU)
    assert found is not None
    assert found.ratio == pytest.approx(1.03, rel=1e-9)
    assert not found.tie


def test_equal_sides_are_a_tie() -> None:
    rng = random.Random(3)
    found = stats.speedup(
        [rng.gauss(100, 1) for _ in range(40)], [rng.gauss(100, 1) for _ in range(40)], resolution=GPU
    )
    assert found is not None
    assert found.tie
    assert found.low < 1.0 < found.high


@pytest.mark.parametrize(("faster", "tie"), [(1.0, True), (1.0096, True), (0.9905, True), (1.02, False), (0.98, False)])
def test_what_two_processes_differ_by_is_a_tie(faster: float, tie: bool) -> None:
    """The same attention on an H200: 0.47 % faster or slower in half of the runs, to within 0.1 % each time."""
    rng = random.Random(7)
    base = [rng.gauss(605 * faster, 0.5) for _ in range(16)]
    found = stats.speedup(base, [rng.gauss(605, 0.5) for _ in range(16)], resolution=GPU)
    assert found is not None and (found.tie, found.high - found.low < 0.003) == (tie, True)


@pytest.mark.parametrize(("faster", "tie"), [(1.0, True), (1.08, True), (0.92, True), (1.2, False), (0.8, False)])
def test_on_a_shared_host_two_processes_differ_by_more(faster: float, tie: bool) -> None:
    """The same softmax on two shared cores: 6.8 and 7.9 % faster in two runs of twenty, with intervals above 1."""
    rng = random.Random(9)
    base = [rng.gauss(200 * faster, 2) for _ in range(16)]
    found = stats.speedup(base, [rng.gauss(200, 2) for _ in range(16)], resolution=HOST)
    assert found is not None and found.tie == tie


def test_one_pair_is_never_a_win() -> None:
    found = stats.speedup([200.0], [100.0], resolution=GPU)
    assert found is not None
    assert (found.ratio, found.tie) == (pytest.approx(2.0), True)


def test_no_pairs_no_ratio() -> None:
    assert stats.speedup([], [], resolution=GPU) is None


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_have_no_ratio(time: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        stats.speedup([1.0, 1.0], [1.0, time], resolution=GPU)


def test_the_same_samples_give_the_same_interval() -> None:
    base, cand = [100.0 + i % 7 for i in range(30)], [90.0 + i % 5 for i in range(30)]
    assert stats.speedup(base, cand, resolution=GPU) == stats.speedup(base, cand, resolution=GPU)


def test_racing_stops_when_narrow_and_not_before_eight_pairs() -> None:
    assert not stats.is_settled([2.0] * 7, [1.0] * 7)
    assert stats.is_settled([2.0] * 8, [1.0] * 8)
    wide = [1.0, 1.5] * 6
    assert not stats.is_settled([2.0] * 12, wide)


def test_what_is_near_one_is_so_on_either_side() -> None:
    assert stats.is_near([101.0] * 3, [100.0] * 3, 0.02)
    assert stats.is_near([100.0] * 3, [101.0] * 3, 0.02)
    assert not stats.is_near([103.0] * 3, [100.0] * 3, 0.02)
    assert not stats.is_near([100.0] * 3, [103.0] * 3, 0.02)


def test_a_candidate_is_beaten_only_when_its_best_slice_is() -> None:
    assert stats.is_beaten([210.0, 250.0, 230.0], 100.0)
    assert not stats.is_beaten([190.0, 250.0, 230.0], 100.0)
    assert not stats.is_beaten([210.0, 250.0], 100.0)
    assert not stats.is_beaten([], 100.0)


def test_a_near_one_is_beaten_once_its_interval_lies_above_the_beam() -> None:
    near = [108.0 + 0.1 * step for step in range(8)]
    assert stats.is_beaten(near, 100.0)
    assert not stats.is_beaten(near[:7], 100.0)
    assert not stats.is_beaten(near, 104.0)  # within what a device drifts
    assert not stats.is_beaten([90.0, 95.0, *near[:7]], 100.0)
