"""What an author expected of an idea, as figures: "1.5-4x", "up to 20 %", "twice as fast", "a few percent"."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"(\d+(?:[.,]\d+)?)"
RANGE = rf"{NUMBER}\s*(?:x|×|%|percent)?\s*(?:-|–|—|\.\.+|to|and)\s*{NUMBER}"
FACTOR = r"\s*(?:x\b|×|-?\s?fold\b|times\b)"
PERCENT = r"\s*(?:%|percent\b|per cent\b)"
LESS = r"(?:less time|lower (?:latency|time|run ?time)|of the (?:time|run ?time)|reduction)"
SAVED = re.compile(r"\b(?:reduc|cut|lower|sav|shorten)\w* ([^.;]*)\bby\s*(?:up to|about|around|~|≈)?\s*$")
LIMIT = 1000.0  # a factor beyond this is a slip of the pen

# what it says, as a factor: low and high from the numbers found
WORDS: tuple[tuple[str, tuple[float, float]], ...] = (
    (r"\b(?:an )?order of magnitude\b", (10.0, 10.0)),
    (r"\b(?:twice|doubl\w+|two ?fold|halv\w+)\b", (2.0, 2.0)),
    (r"\b(?:tripl\w+|thrice|three ?fold)\b", (3.0, 3.0)),
    (r"\b(?:a )?few (?:percent|per cent|%)", (1.01, 1.05)),
    (r"\b(?:no|little|negligible) (?:change|gain|effect|difference)\b|\bneutral\b", (1.0, 1.0)),
)
OWN = re.compile(r"\b(?:parent|current|present|now|it|this|today|baseline|before)\b")
EAGER = re.compile(r"\b(?:eager|pytorch|torch|reference)\b")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A factor over what `against` says: "parent", "eager", or other words that nothing here can be compared with."""

    low: float
    high: float | None  # None: at least `low`
    against: str = "parent"


def parse_expectation(text: str) -> Expectation | None:
    """The first figure in the text that says how much faster; None where none does."""
    plain = " ".join(text.casefold().split())
    found = [hit for hit in (_factor(plain), _percent(plain), *_words(plain)) if hit is not None]
    if not found:
        return None
    _, low, high, end = min(found)
    if not 0 < low <= LIMIT or (high is not None and not low <= high <= LIMIT):
        return None
    return Expectation(low, high, _against(plain[end:]))


Hit = tuple[int, float, "float | None", int]  # where it begins, low, high, where it ends


def _factor(text: str) -> Hit | None:
    if match := re.search(RANGE + FACTOR, text):
        return match.start(), *_ordered(match), match.end()
    match = re.search(NUMBER + FACTOR, text) or re.search(
        rf"(?:speed-?up|factor|gain)s? (?:of|by|:)?\s*(?:about|around|~|≈)?\s*{NUMBER}(?!\s*%|\d)", text
    )
    if match is None:
        return None
    return _bounded(text, match.start(), _number(match.group(1)), match.end())


def _percent(text: str) -> Hit | None:
    match = re.search(RANGE + PERCENT, text)
    single = match or re.search(NUMBER + PERCENT, text)
    if single is None:
        return None
    after = text[single.end() :].lstrip()
    if after.startswith("of ") and not re.match(LESS, after):
        return None  # "80 % of a tuned library" is a level, not a gain
    low, high = _ordered(match) if match else (_number(single.group(1)),) * 2
    saved = SAVED.search(text[: single.start()])
    if saved and not re.search(r"time|latency", saved.group(1)):
        return None  # less traffic is not that much less time
    to_factor = _of_less_time if saved or re.match(rf"(?:{LESS}|less|shorter|lower)\b", after) else _of_gain
    if re.match(r"slower|loss|slowdown|regression", after):
        low, high = -high, -low
    try:
        low, high = sorted((to_factor(low), to_factor(high)))
    except ZeroDivisionError:
        return None
    if match:
        return single.start(), low, high, single.end()
    return _bounded(text, single.start(), high, single.end())


def _words(text: str) -> list[Hit | None]:
    hits: list[Hit | None] = []
    for pattern, (low, high) in WORDS:
        match = re.search(pattern, text)
        hits.append((match.start(), low, high, match.end()) if match else None)
    return hits


def _bounded(text: str, start: int, value: float, end: int) -> Hit:
    """One figure with what stands before it: "up to", "at least", or nothing."""
    before = text[:start].rstrip(" ~≈(")
    if re.search(r"(?:up to|at most|no more than|maximum(?: of)?|<=?|≤)$", before):
        return start, min(1.0, value), value, end
    if re.search(r"(?:at least|more than|over|>=?|≥)$", before) or text[end : end + 1] == "+":
        return start, value, None, end
    return start, value, value, end


def _against(after: str) -> str:
    match = re.match(
        r"\+?\s*(?:faster|speed-?up|better|improvement|gain|more)?\s*(?:over|than|vs\.?|versus)\s+(.*)", after
    )
    if match is None:
        return "parent"
    named = match.group(1)
    if EAGER.search(named):
        return "eager"
    return "parent" if OWN.search(named) else named[:60]


def _ordered(match: re.Match[str]) -> tuple[float, float]:
    low, high = sorted((_number(match.group(1)), _number(match.group(2))))
    return low, high


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _of_gain(percent: float) -> float:
    return 1 + percent / 100


def _of_less_time(percent: float) -> float:
    return 1 / (1 - percent / 100)
