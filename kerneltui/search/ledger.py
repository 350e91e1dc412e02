"""Which techniques paid: derived from trees whenever it is wanted, stored nowhere.

ledger         trees -> Row per device and technique
outcomes       tree -> Kept per idea: what it gained over its parent beside what was expected
lines          rows -> the words of a prompt
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz

from kerneltui.records import Idea, IdeaStatus, Speedup, Tree, Variant, VariantKind, VariantState, is_ranked
from kerneltui.search.expectation import Expectation, parse_expectation
from kerneltui.stats import median, median_interval

SAME_TECHNIQUE = 88.0  # per cent of letters in common, once words are cut to their stems
NOT_NAMED = "(not named)"
FILLERS = frozenset(
    ["a", "an", "and", "the", "of", "with", "for", "in", "on", "to", "use", "using", "via", "by", "per", "into", "onto"]
)
SUFFIX = re.compile(r"(?:is|iz)?(?:ations?|ed|ing|ers?|es|s|e)$")
MOST_LINES = 24  # of a ledger in a prompt


@dataclass(frozen=True, slots=True)
class Gain:
    """Time of the parent over time of the variant, with its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One idea: what was expected of it and what came."""

    idea: str
    title: str
    technique: str
    variants: int  # attempts that were judged or could not be
    correct: int  # of them, as written or after repairs
    gain: Gain | None  # of its best variant over its parent
    gains: tuple[Gain, ...]  # of all its correct variants, sweep points apart
    expected: Expectation | None
    word: str  # "met", "beyond", "short", "failed", "no forecast", "not comparable", "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One technique on one device."""

    device: str
    technique: str
    ideas: int
    variants: int
    correct: int
    best: Gain | None
    median: Gain | None
    expected_low: float | None  # medians over its ideas
    expected_high: float | None
    words: dict[str, int] = field(default_factory=dict)  # how many ideas were met, short, beyond...

    @property
    def share(self) -> float | None:
        """Share of its variants that were correct."""
        return self.correct / self.variants if self.variants else None


# --------------------------------------------------------------------------- ideas


def outcomes(tree: Tree) -> list[Kept]:
    """Every idea that was tried here, in order."""
    under: dict[str, list[Variant]] = {}
    for variant in tree.variants.values():
        if variant.idea:
            under.setdefault(variant.idea, []).append(variant)
    tried = (i for i in tree.ideas.values() if i.status is not IdeaStatus.MERGED and under.get(i.id))
    return [_kept(tree, idea, under[idea.id]) for idea in tried]


def _kept(tree: Tree, idea: Idea, variants: Sequence[Variant]) -> Kept:
    attempts = [v for v in variants if v.kind in (VariantKind.ATTEMPT, VariantKind.HAND)]
    closed = [v for v in attempts if v.state is VariantState.DONE]
    good = {v.id for v in variants if is_ranked(v) and tree.is_here(v)}
    mended = {v.parent for v in variants if v.kind is VariantKind.REPAIR and v.id in good}
    parent = tree.variants.get(idea.parent or "")
    written = [v for v in variants if v.id in good and v.kind is not VariantKind.SWEEP]
    gains = tuple(gain for v in written if (gain := gain_over(tree, v, parent)) is not None)
    best = min((v for v in variants if v.id in good), key=lambda v: (-_ratio(v), v.id), default=None)
    gain = gain_over(tree, best, parent) if best else None
    expected = parse_expectation(idea.expected)
    over_eager = best.speedup if best else None
    return Kept(
        idea=idea.id,
        title=idea.title,
        technique=idea.technique,
        variants=len(closed),
        correct=sum(v.id in good or v.id in mended for v in closed),
        gain=gain,
        gains=gains,
        expected=expected,
        word=_word(expected, gain, over_eager, is_open=len(closed) < len(attempts)),
    )


def gain_over(tree: Tree, variant: Variant, parent: Variant | None) -> Gain | None:
    """How much faster than its idea's parent; without one, than eager. None where either is not known here."""
    own = variant.speedup
    if own is None or own.ratio <= 0:
        return None
    if parent is None:
        return Gain(own.ratio, own.low, own.high)
    if parent.speedup is None or not is_ranked(parent) or not tree.is_here(parent):
        return None
    ratio = own.ratio / parent.speedup.ratio
    width = math.hypot(_half_log(own), _half_log(parent.speedup))  # measured apart: their errors add in quadrature
    return Gain(ratio, ratio * math.exp(-width), ratio * math.exp(width))


def _half_log(speedup: Speedup) -> float:
    if speedup.low <= 0 or speedup.high <= 0:
        return 0.0
    return (math.log(speedup.high) - math.log(speedup.low)) / 2


def _ratio(variant: Variant) -> float:
    return variant.speedup.ratio if variant.speedup else 0.0


def _word(expected: Expectation | None, gain: Gain | None, over_eager: Speedup | None, *, is_open: bool) -> str:
    """What became of a forecast."""
    if gain is None or over_eager is None:
        return "open" if is_open else "failed"
    if expected is None:
        return "no forecast"
    if expected.against not in ("parent", "eager"):
        return "not comparable"
    low, high = (gain.low, gain.high) if expected.against == "parent" else (over_eager.low, over_eager.high)
    if high < expected.low:
        return "short"
    return "beyond" if expected.high is not None and low > expected.high else "met"


# --------------------------------------------------------------------------- techniques


def ledger(trees: Iterable[Tree]) -> list[Row]:
    """A row per device and technique, best median gain first."""
    groups: dict[tuple[str, str], list[Kept]] = {}
    for tree in trees:
        device = tree.status.device.name if tree.status.device else "unknown device"
        for kept in outcomes(tree):
            groups.setdefault((device, _group(groups, device, stems(kept.technique))), []).append(kept)
    rows = [_row(device, kept) for (device, _), kept in groups.items()]
    return sorted(rows, key=lambda row: (row.device, -(row.median.ratio if row.median else 0.0), row.technique))


def _group(groups: Iterable[tuple[str, str]], device: str, key: str) -> str:
    """The key of a technique that says the same, if there is one."""
    for where, other in groups:
        if where == device and (other == key or (key and other and fuzz.ratio(other, key) >= SAME_TECHNIQUE)):
            return other
    return key


def stems(technique: str) -> str:
    """Words without endings, fillers and order: "Vectorised loads" and "load vectorization" are one."""
    words = re.findall(r"[a-z0-9]+", technique.casefold())
    return " ".join(sorted({_stem(word) for word in words if word not in FILLERS}))


def _stem(word: str) -> str:
    cut = SUFFIX.sub("", word)
    return cut if len(cut) >= 3 else word


def _row(device: str, kept: Sequence[Kept]) -> Row:
    gains = [gain for one in kept for gain in one.gains]
    bests = [one.gain for one in kept if one.gain is not None]
    expected = [one.expected for one in kept if one.expected is not None]
    highs = [e.high for e in expected if e.high is not None]
    return Row(
        device=device,
        technique=_spelling(one.technique for one in kept),
        ideas=len(kept),
        variants=sum(one.variants for one in kept),
        correct=sum(one.correct for one in kept),
        best=max(bests, key=lambda gain: gain.ratio, default=None),
        median=_median(gains),
        expected_low=median([e.low for e in expected]) if expected else None,
        expected_high=median(highs) if highs else None,
        words=dict(sorted(Counter(one.word for one in kept).items())),
    )


def _median(gains: Sequence[Gain]) -> Gain | None:
    """Median over variants; its interval is of the variants, or of the one measurement where there is one."""
    if not gains:
        return None
    if len(gains) == 1:
        return gains[0]
    ratios = [gain.ratio for gain in gains]
    return Gain(median(ratios), *median_interval(ratios))


def _spelling(techniques: Iterable[str]) -> str:
    """The spelling used most, the first of equals."""
    counted = Counter(" ".join(technique.split()) for technique in techniques)
    return counted.most_common(1)[0][0] or NOT_NAMED


# --------------------------------------------------------------------------- words


def lines(rows: Sequence[Row], most: int = MOST_LINES) -> tuple[str, ...]:
    """A line per technique; where there are too many, those tried most."""
    named = [row for row in rows if row.variants and row.technique != NOT_NAMED]
    chosen = sorted(named, key=lambda row: -row.ideas)[:most]
    return tuple(_line(row) for row in named if row in chosen)


def _line(row: Row) -> str:
    said = [f"{row.technique}: {row.ideas} idea{'s' if row.ideas > 1 else ''}"]
    said.append(f"{row.correct} of {row.variants} variants correct")
    if row.median is not None and row.best is not None:
        said.append(f"median {gain_text(row.median)}, best {row.best.ratio:.2f}x over the parent")
    if forecast := forecast_text(row.words):
        said.append(forecast)
    return ", ".join(said)


def gain_text(gain: Gain) -> str:
    """`1.20x [1.10, 1.31]`."""
    return f"{gain.ratio:.2f}x [{gain.low:.2f}, {gain.high:.2f}]"


def forecast_text(words: dict[str, int]) -> str:
    """`forecasts: 2 met, 1 short`; "" where none could be compared."""
    compared = {word: words[word] for word in ("met", "beyond", "short") if words.get(word)}
    return f"forecasts: {', '.join(f'{count} {word}' for word, count in compared.items())}" if compared else ""


def expected_text(low: float | None, high: float | None) -> str:
    """`1.5-4x`, `2x`, `at least 2x`; "" where nothing is known."""
    if low is None:
        return ""
    if high is None:
        return f"at least {low:.3g}x"
    return f"{low:.3g}x" if math.isclose(low, high) else f"{low:.3g}-{high:.3g}x"
