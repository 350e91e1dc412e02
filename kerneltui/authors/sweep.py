"""Tunable parameters that a source declares, and which settings of them to try next.

    // tune: BLOCK = 64, 128, 256
    // tune-if: BLOCK * ROWS <= 1024

A setting is a tuple of sorted (name, value) pairs, as a Candidate's `defines`.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kerneltui.authors.tuning import Point, choose

Setting = tuple[tuple[str, str], ...]

ENUMERATED = 20_000  # settings of a grid that are looked at one by one; larger grids are sampled
LOOKED_AROUND = 3  # of the best settings, in a grid that large
EXPRESSION_LENGTH = 400

_TUNE = re.compile(r"^\s*(?://|#)\s*tune\s*:(.*)$")
_TUNE_IF = re.compile(r"^\s*(?://|#)\s*tune-if\s*:(.*)$")
_NAMES = re.compile(r"^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunables:
    """What a source declares. `problems` says which lines could not be followed, and why."""

    values: tuple[tuple[str, tuple[int, ...]], ...] = ()
    constraints: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of declaration."""
        return tuple(name for name, _ in self.values)

    @property
    def size(self) -> int:
        """Settings in the whole grid, constraints not applied."""
        return math.prod(len(values) for _, values in self.values) if self.values else 0

    def __bool__(self) -> bool:
        return bool(self.values)


def declared(source: str) -> Tunables:
    """Read the `tune:` and `tune-if:` lines of a source."""
    values: dict[str, tuple[int, ...]] = {}
    conditions: list[tuple[int, str]] = []
    problems: list[str] = []
    for number, line in enumerate(source.split("\n"), start=1):
        if match := _TUNE.match(line):
            problem = _read_values(match.group(1), values)
            problems += [f"line {number}: {problem}"] if problem else []
        elif match := _TUNE_IF.match(line):
            conditions.append((number, match.group(1).strip()))
    constraints = []
    for number, text in conditions:
        try:
            parse_condition(text, tuple(values))
            constraints.append(text)
        except ValueError as error:
            problems.append(f"line {number}: `tune-if: {text[:80]}`: {error}")
    return Tunables(values=tuple(values.items()), constraints=tuple(constraints), problems=tuple(problems))


def _read_values(text: str, values: dict[str, tuple[int, ...]]) -> str:
    """Add one `NAME = 1, 2, 3`; what is wrong with it, or ""."""
    match = _NAMES.match(text)
    if match is None:
        return f"`tune:{text[:80]}` is not of the form `NAME = 64, 128, 256`"
    name, listed = match.groups()
    if name in values:
        return f"{name} is declared twice; the first declaration holds"
    words = [word.strip() for word in listed.split(",")]
    wrong = [word for word in words if not re.fullmatch(r"-?\d{1,18}", word, re.ASCII)]
    if wrong:
        return f"{name}: `{wrong[0][:40]}` is not an integer"
    values[name] = tuple(dict.fromkeys(int(word) for word in words))
    return ""


# --------------------------------------------------------------------------- conditions


def parse_condition(text: str, names: Sequence[str]) -> Callable[[dict[str, int]], bool]:
    """A condition over tunables as a function; division by zero makes it false.

    Raises:
        ValueError: it says something other than integers, known names, + - * / // %, comparisons, and, or, not.
    """
    if len(text) > EXPRESSION_LENGTH:
        raise ValueError(f"longer than {EXPRESSION_LENGTH} characters")
    plain = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ")).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd expression is the author's business
            body = ast.parse(plain, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not an expression") from error
    _check(body, frozenset(names))

    def holds(point: dict[str, int]) -> bool:
        try:
            return bool(_value(body, point))
        except (ZeroDivisionError, OverflowError):
            return False

    return holds


def _check(node: ast.AST, names: frozenset[str]) -> None:
    match node:
        case ast.Constant(value=bool() | int()):
            return
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"{name} is not declared by a `tune:` line")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(left, names)
            _check(right, names)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            _check(operand, names)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _OPERATORS for op in ops):
            for part in (left, *others):
                _check(part, names)
        case ast.BoolOp(values=parts):
            for part in parts:
                _check(part, names)
        case _:
            raise ValueError("only integers, tunables, + - * / // %, comparisons, and, or, not can be used")


def _value(node: ast.AST, point: dict[str, int]) -> float:
    match node:
        case ast.Constant(value=bool() | int() as value):
            return value
        case ast.Name(id=name):
            return point[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, point), _value(right, point))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, point))
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [_value(part, point) for part in (left, *others)]
            pairs = zip(parts, ops, parts[1:], strict=False)
            return all(_OPERATORS[type(op)](before, after) for before, op, after in pairs)
        case ast.BoolOp(op=op, values=parts):
            together = all if isinstance(op, ast.And) else any
            return together(_value(part, point) for part in parts)
    raise AssertionError(f"{ast.dump(node)} passed the check")


# --------------------------------------------------------------------------- settings


def points(tunables: Tunables) -> list[Setting]:
    """Legal settings in the order of declaration; of a very large grid a fixed sample."""
    return [to_setting(point) for point in _legal(tunables)]


def default_point(tunables: Tunables, source: str, defines: Setting = ()) -> Setting:
    """The setting that `source` has under `defines`: its own `#define` values where those say nothing."""
    given = dict(defines)
    found = {}
    for name in tunables.names:
        own = re.search(rf"^\s*#\s*define\s+{name}\s+\(?(-?\d+)\)?", source, re.MULTILINE | re.ASCII)
        value = given.get(name, own.group(1) if own else None)
        if value is not None:
            found[name] = value
    return tuple(sorted(found.items()))


def next_points(
    tunables: Tunables, tried: Sequence[tuple[Setting, float | None]], limit: int, seed: int
) -> list[Setting]:
    """Up to `limit` settings worth trying, given the costs (less is better, None: failed) of those tried.

    What is left of a grid is returned whole when it fits. Otherwise some at random first, then what a model of those
    measured promises most, a few at a time, so that the caller comes back with what it measured.
    """
    ranks = {name: {value: rank for rank, value in enumerate(sorted(values))} for name, values in tunables.values}
    costs = {point: cost for setting, cost in tried if (point := _to_point(ranks, setting)) is not None}
    legal = {_to_point(ranks, setting): setting for setting in _within_reach(tunables, tried)}
    chosen = choose([point for point in legal if point is not None], costs, limit, seed)
    return [legal[point] for point in chosen]


def _to_point(ranks: dict[str, dict[int, int]], setting: Setting) -> Point | None:
    """Ranks of a setting's values; None where it lies off the grid."""
    values = dict(setting)
    found = [
        of.get(int(value)) if _INTEGER.fullmatch(value := values.get(name, "")) else None for name, of in ranks.items()
    ]
    return None if any(rank is None for rank in found) else tuple(rank for rank in found if rank is not None)


def _within_reach(tunables: Tunables, tried: Sequence[tuple[Setting, float | None]]) -> list[Setting]:
    """Legal settings; of a grid too large to enumerate the sample, and what lies around the best."""
    legal = points(tunables)
    if tunables.size <= ENUMERATED:
        return legal
    measured = sorted((cost, setting) for setting, cost in tried if cost is not None)
    near = [n for _, best in measured[:LOOKED_AROUND] for n in neighbours(tunables, best) if is_legal(tunables, n)]
    return list(dict.fromkeys([*legal, *near]))


def neighbours(tunables: Tunables, setting: Setting) -> list[Setting]:
    """Settings that differ in one tunable: by one place first, then by more."""
    point = {name: int(value) for name, value in setting}
    found: list[tuple[int, int, Setting]] = []
    for order, (name, values) in enumerate(tunables.values):
        if point.get(name) not in values:
            continue
        here = values.index(point[name])
        for place, value in enumerate(values):
            if place != here:
                found.append((abs(place - here), order, to_setting({**point, name: value})))
    return [setting for _, _, setting in sorted(found)]


def to_setting(point: dict[str, int]) -> Setting:
    """Sorted (name, value) pairs."""
    return tuple(sorted((name, str(value)) for name, value in point.items()))


def is_legal(tunables: Tunables, setting: Setting) -> bool:
    """Whether every declared constraint holds."""
    point = {name: int(value) for name, value in setting if name in tunables.names}
    return all(holds(point) for holds in _conditions(tunables))


def _conditions(tunables: Tunables) -> list[Callable[[dict[str, int]], bool]]:
    return [parse_condition(text, tunables.names) for text in tunables.constraints]


def _legal(tunables: Tunables) -> Iterator[dict[str, int]]:
    conditions = _conditions(tunables)
    for point in _grid(tunables):
        if all(holds(point) for holds in conditions):
            yield point


def _grid(tunables: Tunables) -> Iterator[dict[str, int]]:
    names = tunables.names
    if not names:
        return
    if tunables.size <= ENUMERATED:
        for combination in itertools.product(*(values for _, values in tunables.values)):
            yield dict(zip(names, combination, strict=True))
        return
    dice, seen = random.Random(0), set[tuple[int, ...]]()
    for _ in range(ENUMERATED):
        drawn = tuple(dice.choice(values) for _, values in tunables.values)
        if drawn not in seen:
            seen.add(drawn)
            yield dict(zip(names, drawn, strict=True))
