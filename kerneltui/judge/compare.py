"""Whether an output is right, and if not, how it is wrong.

compare             one output against eager and, where there is one, the float64 answer -> Finding
describe_pattern    where the wrong elements lie: "every 33rd column", "last tile of 64 columns", "row 0 only"
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kerneltui.judge.tolerance import STRICT_FACTOR, Tolerance, unit_roundoff
from kerneltui.records import ErrorReport

CHUNK = 1 << 24  # elements compared at a time: a few float64 temporaries of 128 MiB
EAGER_FACTOR = 4.0  # an honest kernel may be this much worse than eager where eager itself is bad
CLASSES = ((1e-4, "below 1e-4"), (1e-3, "below 1e-3"), (1e-2, "below 1e-2"), (1e-1, "below 0.1"), (1.0, "below 1"))
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an output should be."""

    name: str
    eager: torch.Tensor  # in the output's own dtype
    truth: Callable[[], torch.Tensor | None] = lambda: None  # in float64; asked for only where it may decide
    loose: bool = False  # inputs chosen to be hard: eager's own error, and outputs as large as theirs, widen the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one output."""

    report: ErrorReport | None  # None: right
    nan_refused: int = 0  # NaN where the reference has NaN too, but nobody allowed it
    unwritten: int = 0


@dataclass(slots=True)
class Tally:
    """Sums over chunks."""

    wrong: int = 0
    unwritten: int = 0
    nan_refused: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    finite: bool = True  # of what was found where a number was expected
    worst: int = -1
    worst_size: float = -1.0


def compare(
    found: torch.Tensor, expected: Expected, tolerance: Tolerance, *, poison: int, allow_nan: bool, input_set: str
) -> Finding:
    """Judge one output. `poison` is the bit pattern that lay there before, as an integer of the element's size."""
    if is_plainly_right(found, expected.eager, tolerance):
        return Finding(report=None)
    eager = expected.eager.contiguous()
    truth = expected.truth()
    scale, eager_error = scales(eager, truth)
    slack = EAGER_FACTOR * eager_error if expected.loose and eager_error is not None else 0.0
    bound = Bound(
        tolerance=tolerance,
        dtype=eager.dtype,
        scale=scale,
        slack=slack,
        eager_error=eager_error,
        most=scale if expected.loose else 1.0,
    )
    tally, mask = Tally(), torch.zeros(found.numel(), dtype=torch.bool, device=found.device)
    flat_truth = None if truth is None else truth.reshape(-1)
    for start in range(0, found.numel(), CHUNK):
        part = slice(start, start + CHUNK)
        exact = None if flat_truth is None else flat_truth[part]
        mask[part] = count_wrong(
            tally, start, found.reshape(-1)[part], eager.reshape(-1)[part], exact, bound, poison, allow_nan
        )
    report = None if tally.wrong == 0 else write_report(found, expected, tally, mask, poison, input_set)
    return Finding(report=report, nan_refused=tally.nan_refused, unwritten=tally.unwritten)


def is_plainly_right(found: torch.Tensor, eager: torch.Tensor, tolerance: Tolerance) -> bool:
    """Whether every element is a number within the profile's bound of eager's: most outputs are, at a few passes' cost."""
    if not found.dtype.is_floating_point:
        return torch.equal(found, eager)
    if tolerance.name == "strict":
        return False  # only the float64 answer can say
    scale = root_mean_square(eager)
    if not math.isfinite(scale) or scale == 0:
        return False
    absolute, relative = tolerance.absolute(eager.dtype, scale), tolerance.relative(eager.dtype)
    wide = torch.float64 if eager.dtype is torch.float64 else torch.float32
    flat, flat_eager = found.reshape(-1), eager.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        wanted = flat_eager[start : start + CHUNK].to(wide)
        distance = flat[start : start + CHUNK].to(wide) - wanted
        low, high = torch.aminmax(distance)
        if max(-float(low), float(high)) <= absolute:
            continue  # all within the part of the bound that every element has; NaN is not
        distance.abs_()
        if not bool((distance <= wanted.abs().mul_(relative).add_(absolute)).all()):
            return False
    return True


def root_mean_square(values: torch.Tensor) -> float:
    """Not finite when any element is not."""
    count = max(1, values.numel())
    return float(torch.linalg.vector_norm(values.float() if values.element_size() < 4 else values)) / math.sqrt(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How far is too far."""

    tolerance: Tolerance
    dtype: torch.dtype
    scale: float
    slack: float
    eager_error: float | None
    most: float = 1.0  # scale up to which atol grows: of inputs that we made fifty times as large, their outputs' own

    def around(self, centre: torch.Tensor) -> torch.Tensor:
        """The allowed distance from each expected value."""
        size = centre.abs()
        if self.tolerance.name == "strict" and self.eager_error is not None:
            return size * (2 * unit_roundoff(self.dtype)) + max(STRICT_FACTOR * self.eager_error, self.slack)
        absolute = self.tolerance.absolute(self.dtype, self.scale) * max(1.0, self.most)
        return size * self.tolerance.relative(self.dtype) + (absolute + self.slack)


def scales(eager: torch.Tensor, truth: torch.Tensor | None) -> tuple[float, float | None]:
    """Root mean square of the finite expected values; eager's largest error against float64."""
    if not eager.dtype.is_floating_point:
        return 1.0, None
    total, count, error = 0.0, 0, 0.0
    for start in range(0, eager.numel(), CHUNK):
        part = eager.reshape(-1)[start : start + CHUNK].double()
        finite = torch.isfinite(part)
        kept = torch.where(finite, part, 0.0)
        total += float((kept * kept).sum())
        count += int(finite.sum())
        if truth is not None:
            exact = truth.reshape(-1)[start : start + CHUNK]
            away = torch.where(finite & torch.isfinite(exact), (part - exact).abs(), 0.0)
            error = max(error, float(away.max()) if away.numel() else 0.0)
    scale = math.sqrt(total / count) if count else 0.0
    return scale, (error if truth is not None else None)


def count_wrong(
    tally: Tally,
    start: int,
    found: torch.Tensor,
    eager: torch.Tensor,
    truth: torch.Tensor | None,
    bound: Bound,
    poison: int,
    allow_nan: bool,
) -> torch.Tensor:
    """Mask of the wrong elements of one chunk; adds to the tally."""
    unwritten = found.view(BITS[found.element_size()]) == poison
    if not found.dtype.is_floating_point:
        wrong = found != eager
        distance = (found.double() - eager.double()).abs()
        note(tally, start, wrong, distance, eager.double())
        tally.unwritten += int((unwritten & wrong).sum())
        return wrong
    value, anchor = found.double(), eager.double()
    centre = anchor if truth is None else torch.where(torch.isfinite(truth), truth, anchor)
    near = ((value - centre).abs() <= bound.around(centre)) | ((value - anchor).abs() <= bound.around(anchor))
    nan_here, inf_here = torch.isnan(anchor), torch.isinf(anchor)
    number_found = torch.isfinite(value)
    # Where the reference is NaN nothing finite can be right or wrong, unless a person said that NaN is meant.
    right_at_nan = torch.isnan(value) & ~unwritten if allow_nan else number_found
    right = torch.where(nan_here, right_at_nan, torch.where(inf_here, value == anchor, near & number_found))
    wrong = ~right
    tally.nan_refused += int((nan_here & torch.isnan(value) & wrong & ~unwritten).sum())
    tally.unwritten += int((unwritten & wrong).sum())
    decided = ~nan_here & ~inf_here
    tally.finite = tally.finite and not bool((decided & ~number_found).any())
    note(tally, start, wrong, torch.where(decided, (value - centre).abs(), 0.0), centre)
    return wrong


def note(tally: Tally, start: int, wrong: torch.Tensor, distance: torch.Tensor, centre: torch.Tensor) -> None:
    tally.wrong += int(wrong.sum())
    if distance.numel() == 0:
        return
    known = torch.nan_to_num(distance, nan=math.inf, posinf=math.inf)
    finite = torch.where(torch.isinf(known), 0.0, known)
    tally.max_abs = max(tally.max_abs, float(finite.max()))
    size = centre.abs()
    relative = torch.where((size > 0) & torch.isfinite(size), finite / size, 0.0)
    tally.max_rel = max(tally.max_rel, float(relative.max()))
    among_wrong = torch.where(wrong, known, -1.0)
    worst = int(among_wrong.argmax())
    if float(among_wrong[worst]) > tally.worst_size:
        tally.worst_size, tally.worst = float(among_wrong[worst]), start + worst


def write_report(
    found: torch.Tensor, expected: Expected, tally: Tally, mask: torch.Tensor, poison: int, input_set: str
) -> ErrorReport:
    """The report on a wrong output."""
    shape = tuple(found.shape)
    flat, wanted = found.reshape(-1), expected.eager.reshape(-1)
    worst = max(tally.worst, 0)
    unwritten = bool(flat[worst : worst + 1].view(BITS[found.element_size()])[0] == poison)
    return ErrorReport(
        output=expected.name,
        wrong=tally.wrong,
        total=found.numel(),
        max_abs=tally.max_abs if tally.finite else None,
        max_rel=tally.max_rel if tally.finite else None,
        worst=unravel(worst, shape),
        expected=number(wanted[worst].item()),
        found="never written" if unwritten and tally.unwritten else number(flat[worst].item()),
        histogram=tuple(histogram(flat, wanted, mask, poison)),
        pattern=describe_pattern(mask.reshape(shape) if shape else mask),
        input_set=input_set,
    )


def number(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    places: list[int] = []
    for size in reversed(shape):
        places.append(index % size)
        index //= size
    return tuple(reversed(places))


def histogram(found: torch.Tensor, wanted: torch.Tensor, mask: torch.Tensor, poison: int) -> list[tuple[str, int]]:
    """Wrong elements by class: never written, NaN, Inf, then by error relative to the expected value."""
    values, expected = found[mask], wanted[mask]
    unwritten = values.view(BITS[values.element_size()]) == poison
    counts = [("never written", int(unwritten.sum()))]
    values, expected = values[~unwritten].double(), expected[~unwritten].double()
    counts += [("NaN", int(torch.isnan(values).sum())), ("Inf", int(torch.isinf(values).sum()))]
    finite = torch.isfinite(values)
    relative = (values[finite] - expected[finite]).abs() / expected[finite].abs().clamp_min(1e-300)
    below = torch.zeros_like(relative, dtype=torch.bool)
    for limit, name in CLASSES:
        inside = (relative < limit) & ~below
        counts.append((name, int(inside.sum())))
        below |= inside
    counts.append(("1 and above", int((~below).sum())))
    return [(name, count) for name, count in counts if count]


# --------------------------------------------------------------------------- where


def describe_pattern(mask: torch.Tensor) -> str:
    """Where the wrong elements lie, in words; "" when they follow no pattern that has a word."""
    total, wrong = mask.numel(), int(mask.sum())
    if wrong == 0:
        return ""
    if wrong == total:
        return "everywhere"
    if mask.dim() == 1:
        return tail_words(mask, "element") or stride_words(mask, "element") or one_words(mask, "element")
    batch = mask.reshape(mask.shape[0], -1).any(1)
    rows = mask.reshape(-1, mask.shape[-1]).any(1)
    columns = mask.reshape(-1, mask.shape[-1]).any(0)
    if mask.dim() > 2 and int(batch.sum()) == 1:
        return one_words(batch, "batch")
    found = [one_words(rows, "row"), one_words(columns, "column")]
    for line, word in ((columns, "column"), (rows, "row")):
        found.append(tail_words(line, word))
        found.append(stride_words(line, word))
    return next((words for words in found if words), tail_words(mask.reshape(-1), "element"))


def one_words(line: torch.Tensor, word: str) -> str:
    return f"{word} {int(line.nonzero()[0])} only" if int(line.sum()) == 1 and line.numel() > 1 else ""


def tail_words(line: torch.Tensor, word: str) -> str:
    """Everything wrong from some place to the end."""
    count = int(line.sum())
    if not 0 < count < line.numel() or not bool(line[-count:].all()):
        return ""
    if count == 1:
        return f"last {word} only"
    power = count & (count - 1) == 0 and count >= 8
    return f"last tile of {count} {word}s" if power else f"last {count} {word}s"


def stride_words(line: torch.Tensor, word: str) -> str:
    """Equal distances between wrong places."""
    places = line.nonzero().reshape(-1)
    if places.numel() < 3:
        return ""
    steps = places[1:] - places[:-1]
    step = int(steps[0])
    if step < 2 or not bool((steps == step).all()):
        return ""
    return f"every {ordinal(step)} {word}"


def ordinal(count: int) -> str:
    tens = 10 <= count % 100 <= 20
    ending = "th" if tens else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"
