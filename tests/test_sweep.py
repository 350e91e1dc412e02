"""Tunables as sources declare them, and the settings that are tried."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.authors.sweep import (
    Tunables,
    declared,
    default_point,
    neighbours,
    next_points,
    parse_condition,
    points,
)

SOURCE = """// tune: BLOCK = 64, 128, 256
// tune: ROWS = 1, 2, 4, 8
// tune-if: BLOCK * ROWS <= 512
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef ROWS
#define ROWS (2)
#endif
"""


def test_declarations_are_read_in_order() -> None:
    tunables = declared(SOURCE)
    assert (("BLOCK", (64, 128, 256)), ("ROWS", (1, 2, 4, 8))) == tunables.values
    assert ("BLOCK * ROWS <= 512",) == tunables.constraints
    assert () == tunables.problems
    assert 12 == tunables.size


def test_a_source_without_declarations_has_no_tunables() -> None:
    assert not declared("int main() {}  // tuned: yes")
    assert [] == points(declared(""))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("// tune: BLOCK", "line 1: `tune: BLOCK` is not of the form `NAME = 64, 128, 256`"),
        ("// tune: BLOCK = 64, big", "line 1: BLOCK: `big` is not an integer"),
        ("// tune: BLOCK = 64,,128", "line 1: BLOCK: `` is not an integer"),
        ("// tune: 1X = 2", "line 1: `tune: 1X = 2` is not of the form `NAME = 64, 128, 256`"),
        ("// tune: A = 1\n// tune: A = 2", "line 2: A is declared twice; the first declaration holds"),
        ("// tune: A = 1\n// tune-if: B > 1", "line 2: `tune-if: B > 1`: B is not declared by a `tune:` line"),
        ("// tune: A = 1\n// tune-if: A >", "line 2: `tune-if: A >`: not an expression"),
    ],
)
def test_malformed_lines_are_named_with_their_number(line: str, words: str) -> None:
    assert (words,) == declared(line).problems


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "A.real", "A[0]", "A if A else A", "2 ** A", "'a' * A", "1.5 > A", "A << 4", "(lambda: 1)()"],
)
def test_a_condition_can_do_nothing_but_compare_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"only integers|not an expression"):
        parse_condition(text, ("A",))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A * B <= 8", True),
        ("A * B < 8", False),
        ("1 < A < 3 and not B == 5", True),
        ("A == 1 || B == 4", True),
        ("A == 2 && !(B != 4)", True),
        ("B % A == 0", True),
        ("B / (A - 2) > 0", False),
        ("-A + B == 2", True),
    ],
)
def test_conditions_are_evaluated(text: str, holds: bool) -> None:
    assert holds == parse_condition(text, ("A", "B"))({"A": 2, "B": 4})


def test_only_legal_settings_are_points() -> None:
    found = points(declared(SOURCE))
    assert (("BLOCK", "64"), ("ROWS", "1")) == found[0]
    assert 9 == len(found)
    assert (("BLOCK", "256"), ("ROWS", "4")) not in found


def test_the_default_point_is_what_the_source_compiles_to() -> None:
    tunables = declared(SOURCE)
    assert (("BLOCK", "128"), ("ROWS", "2")) == default_point(tunables, SOURCE)
    assert (("BLOCK", "64"), ("ROWS", "2")) == default_point(tunables, SOURCE, (("BLOCK", "64"),))


def test_a_small_grid_is_tried_whole() -> None:
    tunables = declared(SOURCE)
    here = default_point(tunables, SOURCE)
    found = next_points(tunables, [(here, 10.0)], 12, 0)
    assert set(points(tunables)) - {here} == set(found)
    assert [] == next_points(tunables, [(setting, 1.0) for setting in points(tunables)], 12, 0)


LARGE = declared("\n".join(f"// tune: {name} = 1, 2, 3, 4, 5, 6" for name in "ABCD"))


def test_a_large_grid_is_sampled_then_searched_around_the_best() -> None:
    first = next_points(LARGE, [], 12, 3)
    assert 6 == len(set(first))
    assert first == next_points(LARGE, [], 12, 3)
    assert first != next_points(LARGE, [], 12, 4)
    tried = [(setting, 100.0 + n) for n, setting in enumerate(first)]
    second = next_points(LARGE, tried, 6, 3)
    assert (4, second) == (len(set(second)), next_points(LARGE, tried, 6, 3))
    assert set(second) & set(neighbours(LARGE, first[0]))
    assert not set(second) & set(first)


def steps_from(best: str, setting: tuple[tuple[str, str], ...]) -> int:
    return sum(abs(int(value) - int(wanted)) for (_, value), wanted in zip(setting, best, strict=True))


@pytest.mark.parametrize("best", ["1111", "6142", "3535"])
def test_the_best_of_a_smooth_grid_is_found_with_a_twentieth_of_it(best: str) -> None:
    tried: list[tuple[tuple[tuple[str, str], ...], float | None]] = []
    while len(tried) < 64:
        found = next_points(LARGE, tried, 64 - len(tried), 1)
        tried += [(setting, 10 * 1.2 ** steps_from(best, setting)) for setting in found]
    assert 10.0 == min(cost for _, cost in tried if cost is not None)


def test_what_is_off_the_grid_or_no_number_is_passed_over() -> None:
    odd = [((("A", "7"), ("B", "1"), ("C", "1"), ("D", "1")), 1.0), ((("A", "64u"),), 2.0)]
    assert next_points(LARGE, [], 12, 3) == next_points(LARGE, odd, 12, 3)


def test_failed_settings_are_not_tried_again_and_draw_nobody_near() -> None:
    first = next_points(LARGE, [], 12, 3)
    tried = [(setting, None) for setting in first]
    assert not set(next_points(LARGE, tried, 6, 3)) & set(first)


def test_an_enormous_grid_is_sampled_not_enumerated() -> None:
    values = ", ".join(str(n) for n in range(50))
    grid = declared("\n".join(f"// tune: N{n} = {values}" for n in range(12)))
    assert 50**12 == grid.size
    assert 4 == len(next_points(grid, [], 8, 0))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_a_search_covers_every_grid_without_repeating_itself(lists: list[list[int]], limit: int, seed: int) -> None:
    tunables: Tunables = declared(
        "\n".join(f"// tune: N{n} = {', '.join(map(str, values))}" for n, values in enumerate(lists))
    )
    tried: list[tuple[tuple[tuple[str, str], ...], float | None]] = []
    while found := next_points(tunables, tried, limit, seed):
        assert len(found) <= limit
        assert not {setting for setting, _ in tried} & set(found)
        tried += [(setting, float(sum(int(value) for _, value in setting))) for setting in found]
    assert set(points(tunables)) == {setting for setting, _ in tried}


@given(st.text(max_size=200))
def test_no_source_breaks_the_reader(source: str) -> None:
    assert all(word.startswith("line ") for word in declared(source).problems)
    assert declared(f"// tune: A = 1, 2\n// tune-if: {source}").values[:1] == (("A", (1, 2)),)
