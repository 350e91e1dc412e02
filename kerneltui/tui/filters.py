"""The filter language of `/`: words, `name:value`, comparisons, `!`, `|`. Pure.

state:ok  state:fail  stage:compile  speed>1.2  us<60  regs<=168  cost>0.05  round:8..12  idea:i003  by:human
is:pinned  since:10m  sig:"smem > limit"  lang:cuda  code:/cp\\.async/    bare words match ids, names, titles and messages
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kerneltui.records import Call, Idea, Variant
from kerneltui.tui import words
from kerneltui.tui.signatures import signature


@dataclass(slots=True)
class CodeTerm:
    """A `code:` of a filter. Sources are no part of the tree: who has the session file fills in `found`."""

    pattern: re.Pattern[str]
    found: Collection[str] = ()  # digests of the candidates whose source matches


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter."""

    text: str
    test: Callable[[Variant, Idea | None], bool]
    title: Callable[[str], bool] | None  # for ideas by their own words; None: only variants decide
    codes: tuple[CodeTerm, ...] = ()


class FilterProblem(ValueError):
    """What is wrong with a filter, and at which column."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


Test = Callable[[Variant, Idea | None], bool]

_TERM = re.compile(
    r"""(?P<bar>\|)|(?P<not>!)?(?:(?P<name>[a-z_]+)(?P<op>:|<=|>=|<|>|=))?"""
    r"""(?P<value>"[^"]*"?|/(?:\\.|[^/\\])*/|[^\s|]*)"""
)
_NUMBERS: dict[str, Callable[[Variant], float | None]] = {
    "speed": lambda v: v.speedup.ratio if v.speedup else None,
    "us": lambda v: v.median_us,
    "regs": lambda v: v.registers,
    "smem": lambda v: v.shared_bytes,
    "round": lambda v: v.round,
}
_FLAGS: dict[str, Test] = {
    "pinned": lambda v, i: v.pinned,
    "pruned": lambda v, i: v.pruned or (i is not None and str(i.status) == "pruned"),
    "human": lambda v, i: v.human or (i is not None and i.human),
    "new": lambda v, i: v.state != "done",
    "noted": lambda v, i: bool(v.note),
    "sweep": lambda v, i: v.kind == "sweep",
    "repair": lambda v, i: v.kind == "repair",
}
_STATES: dict[str, Test] = {
    "ok": lambda v, i: words.state_word(v) == "ok",
    "fail": lambda v, i: words.is_failure(v),
    "run": lambda v, i: v.state in words.ACTIVE,
    "wait": lambda v, i: words.state_word(v) == "WAIT",
}
_STAGES = ("policy", "compile", "check", "run", "bench", "author")
NAMES = ("state", "stage", "sig", "idea", "by", "is", "since", "lang", "id", "code", "cost", *_NUMBERS)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_filter(text: str, now: float | None = None, calls: Mapping[int, Call] | None = None) -> Filter | None:
    """The filter, or None for an empty text; `calls` are what `cost` is read from.

    Raises:
        FilterProblem: it cannot be read; says where.
    """
    if not text.strip():
        return None
    groups: list[list[Test]] = [[]]
    names: list[re.Pattern[str]] = []
    codes: list[CodeTerm] = []
    only_words = True
    for match in _TERM.finditer(text):
        if not match[0]:
            continue
        if match["bar"]:
            groups.append([])
            continue
        if match["name"] == "code":
            codes.append(_code(match))
            test = _has_code(codes[-1])
        else:
            test = _term(match, now or time.time(), calls or {})
        only_words = only_words and match["name"] is None and not match["not"]
        if match["name"] is None:
            names.append(_pattern(match["value"], match.start()))
        groups[-1].append(_inverse(test) if match["not"] else test)
    if not all(groups):
        raise FilterProblem("something is missing beside |", max(0, text.find("|")))
    title = _title_test(names, len(groups) > 1) if only_words else None
    return Filter(text, lambda v, i: any(all(test(v, i) for test in group) for group in groups), title, tuple(codes))


def _code(match: re.Match[str]) -> CodeTerm:
    if match["op"] not in (":", "=") or not match["value"].strip('"'):
        raise FilterProblem("code: needs a text or a /regex/", match.start())
    return CodeTerm(_pattern(match["value"], match.start()))


def _has_code(term: CodeTerm) -> Test:
    return lambda v, i: v.candidate in term.found


def _inverse(test: Test) -> Test:
    return lambda v, i: not test(v, i)


def _title_test(names: list[re.Pattern[str]], any_of: bool) -> Callable[[str], bool]:
    if any_of:
        return lambda title: any(name.search(title) for name in names)
    return lambda title: all(name.search(title) for name in names)


def _term(match: re.Match[str], now: float, calls: Mapping[int, Call]) -> Test:
    name, op, value, column = match["name"], match["op"], match["value"], match.start()
    if name is None:
        pattern = _pattern(value, column)
        return lambda v, i: pattern.search(_words_of(v, i)) is not None
    value = value.strip('"')
    if not value:
        raise FilterProblem(f"{name}{op} needs a value", column)
    if name == "cost":
        return _number(name, lambda v: _cost_usd(v, calls), op, value, column)
    if name in _NUMBERS:
        return _number(name, _NUMBERS[name], op, value, column)
    if op not in (":", "=") and name in NAMES:
        raise FilterProblem(f"{name} is no number; write {name}:{value}", column)
    tests: dict[str, Callable[[str, int, float], Test]] = {
        "state": lambda value, column, now: _choice("state", _STATES, value, column),
        "is": lambda value, column, now: _choice("is", _FLAGS, value, column),
        "stage": _stage,
        "since": _since,
        "sig": lambda value, column, now: lambda v, i: value.lower() in signature(v).lower(),
        "idea": lambda value, column, now: lambda v, i: v.idea == value,
        "id": lambda value, column, now: lambda v, i: v.id == value,
        "lang": lambda value, column, now: lambda v, i: str(v.language or "") == value,
        "by": _by,
    }
    if name not in tests:
        raise FilterProblem(f"no filter called {name}:{_near(name, NAMES)}", column)
    return tests[name](value, column, now)


def _words_of(variant: Variant, idea: Idea | None) -> str:
    title = f"{idea.id} {idea.title}" if idea else ""
    return f"{variant.id} {variant.name} {variant.author} {title} {variant.message} {variant.author_error}"


def _pattern(value: str, column: int) -> re.Pattern[str]:
    """Plain words ignore case unless a capital is typed; /…/ is a regular expression; ~word lets letters lie between."""
    try:
        if len(value) > 1 and value.startswith("/") and value.endswith("/"):
            return re.compile(value[1:-1])
        if value.startswith("~"):
            return re.compile(".*".join(re.escape(letter) for letter in value[1:]), re.I)
    except re.error as error:
        raise FilterProblem(f"the expression cannot be read: {error}", column) from error
    value = value.strip('"')
    return re.compile(re.escape(value), 0 if value != value.lower() else re.I)


def _cost_usd(variant: Variant, calls: Mapping[int, Call]) -> float | None:
    call = calls.get(variant.call or 0)
    return call.cost_usd if call else None


def _number(name: str, read: Callable[[Variant], float | None], op: str, value: str, column: int) -> Test:
    low, dots, high = value.partition("..")
    try:
        first, last = float(low), float(high if dots else low)
    except ValueError:
        raise FilterProblem(f"{name} wants a number, not {value!r}", column) from None
    compare: dict[str, Callable[[float], bool]] = {
        "<": lambda found: found < first,
        "<=": lambda found: found <= first,
        ">": lambda found: found > first,
        ">=": lambda found: found >= first,
    }
    inside = compare[op] if op in compare else _between(first, last)

    def test(variant: Variant, idea: Idea | None) -> bool:
        found = read(variant)
        return found is not None and inside(found)

    return test


def _between(first: float, last: float) -> Callable[[float], bool]:
    return lambda found: first <= found <= last


def _choice(name: str, choices: dict[str, Test], value: str, column: int) -> Test:
    if value not in choices:
        raise FilterProblem(f"{name}: is one of {', '.join(choices)}{_near(value, tuple(choices))}", column)
    return choices[value]


def _stage(value: str, column: int, now: float) -> Test:
    if value not in _STAGES:
        raise FilterProblem(f"stage: is one of {', '.join(_STAGES)}{_near(value, _STAGES)}", column)
    return lambda v, i: words.stage_word(v) == value


def _since(value: str, column: int, now: float) -> Test:
    match = re.fullmatch(r"(\d+)([smhd])", value)
    if match is None:
        raise FilterProblem("since: wants 30s, 10m, 2h or 1d", column)
    after = now - int(match[1]) * _SECONDS[match[2]]
    return lambda v, i: (v.finished or v.created) >= after


def _by(value: str, column: int, now: float) -> Test:
    if value == "human":
        return _FLAGS["human"]
    return lambda v, i: value in v.author or (i is not None and value in i.author)


def _near(value: str, known: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(value, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""
