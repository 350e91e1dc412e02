"""Best speed-up by round, as a step line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.segment import Segment

from kerneltui.records import Outcome, Tree, is_ranked
from kerneltui.tui import words
from kerneltui.tui.outline import Outline
from kerneltui.tui.render import Glyphs, right
from kerneltui.tui.widgets.linelist import LineList, Span

AXIS_CELLS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a round stands."""

    round: int
    best: float  # the best up to and including it
    own: float | None  # the best of the round itself
    mark: str  # "o" found by a person, "*" pinned, "+" otherwise


def points(outline: Outline) -> list[Point]:
    """One per round from the first that has a time."""
    found: list[Point] = []
    best = 0.0
    numbers = outline.round_numbers()
    # A starter is many times slower than everything that follows, and would squeeze all of it into one line.
    begun = any(
        number > 0 and outline.tallies[f"r{number}"].best for number in numbers if f"r{number}" in outline.tallies
    )
    for number in numbers:
        if begun and number == 0:  # named beside the title
            continue
        leader = outline.tallies.get(f"r{number}")
        variant = leader.best if leader else None
        own = variant.speedup.ratio if variant and variant.speedup else None
        best = max(best, own or 0.0)
        if best:
            human = variant is not None and (variant.human or variant.kind == "hand")
            mark = "o" if human else "*" if variant is not None and variant.pinned else "+"
            found.append(Point(round=number, best=best, own=own, mark=mark))
    return found


def start_of(outline: Outline, points: list[Point]) -> float | None:
    """Speed-up of the starter where the picture leaves it out."""
    tally = outline.tallies.get("r0")
    if tally is None or tally.best is None or tally.best.speedup is None or not points or points[0].round == 0:
        return None
    return tally.best.speedup.ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Speed-ups to lines of the picture. What lies below `low` is drawn on the lowest line, and named beside the title."""

    low: float
    high: float
    rows: int
    is_log: bool = False

    def level(self, value: float) -> int:
        """Line of a value, the highest is 0."""
        low, high, value = self.low, self.high, max(self.low, value)
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return round((self.rows - 1) * (high - value) / (high - low))


OUTLIER = 3.0  # a value so many times below the median would squeeze what matters into a line or two
LOG_FROM = 4.0  # a range of more than this is shown in equal ratios


def scale_of(points: list[Point], rows: int) -> Scale:
    """The range that shows what matters."""
    values = sorted([point.best for point in points] + [point.own for point in points if point.own is not None])
    middle = values[len(values) // 2]
    kept = [value for value in values if value * OUTLIER >= middle]
    if 3 * len(kept) < 2 * len(values):  # so many are no outliers
        kept = values
    low, high = min(1.0, *kept, kept[0]), max(1.0, *kept, kept[-1])
    if low > 0 and high / low > LOG_FROM:
        return Scale(low=low / 1.05, high=high * 1.05, rows=rows, is_log=True)
    margin = (high - low or 0.1) * 0.05
    return Scale(low=low - margin, high=high + margin, rows=rows)


def scale_note(points: list[Point], start: float | None, glyphs: Glyphs) -> str:
    """What a reader of the picture must know: a scale in ratios, and what lies below it."""
    if not points:
        return ""
    scale = scale_of(points, 2)
    below = [f"r{point.round} {_ratio(point.own, glyphs)}" for point in points if (point.own or scale.low) < scale.low]
    if start is not None:
        below.insert(0, f"start {_ratio(start, glyphs)}")
    more = f" and {len(below) - 2} more" if len(below) > 2 else ""
    parts = ["log scale"] * scale.is_log + [f"not drawn: {', '.join(below[:2])}{more}"] * bool(below)
    return "  ".join(parts)


def _ratio(value: float | None, glyphs: Glyphs) -> str:
    return f"{value or 0.0:.2f}{glyphs.times}"


def plot_lines(points: list[Point], width: int, height: int, glyphs: Glyphs) -> list[list[Span]]:
    """The picture as lines; empty where there is no room."""
    columns, rows = width - AXIS_CELLS - 1, height - 2
    if not points or columns < 10 or rows < 3:
        return []
    scale = scale_of(points, rows)
    level = scale.level
    grid: list[list[Span]] = [[(" ", "")] * columns for _ in range(rows)]
    even = level(1.0)
    for x in range(0, columns, 2):
        grid[even][x] = (glyphs.dot, "plot-axis")
    step = columns / len(points)
    _draw_steps(grid, points, step, level, glyphs)
    for number, point in enumerate(points):
        x = min(columns - 1, int(number * step + step / 2))
        if point.own is not None and point.own >= scale.low:
            token = "plot-human" if point.mark == "o" else "best" if point.own == point.best else "plot-axis"
            grid[level(point.own)][x] = (point.mark, token)
    labels = _labels({0: scale.high, rows - 1: scale.low, even: 1.0, level(points[-1].best): points[-1].best}, glyphs)
    lines: list[list[Span]] = []
    for y, row in enumerate(grid):
        lines.append(
            [(right(labels.get(y, ""), AXIS_CELLS - 1) + " ", "plot-axis"), (glyphs.down, "plot-axis"), *_runs(row)]
        )
    return [*lines, _axis(columns, glyphs), _names(points, columns, step)]


def _labels(values: dict[int, float], glyphs: Glyphs) -> dict[int, str]:
    """Ratios at the axis by line; of two that read alike only the one that was named last."""
    named = {_ratio(value, glyphs): y for y, value in values.items()}
    return {y: label for label, y in named.items()}


def _draw_steps(grid: list[list[Span]], points: list[Point], step: float, level: object, glyphs: Glyphs) -> None:
    assert callable(level)
    columns = len(grid[0])
    before: int | None = None
    for number, point in enumerate(points):
        y = level(point.best)
        first, last = int(number * step), min(columns, int((number + 1) * step))
        for x in range(first, last):
            grid[y][x] = (glyphs.across, "plot-line")
        if before is not None and before != y:
            for between in range(min(y, before) + 1, max(y, before)):
                grid[between][first] = (glyphs.down, "plot-line")
            rounded = glyphs.across != "-"
            grid[before][first] = ("╯" if rounded else "+", "plot-line")
            grid[y][first] = ("╭" if rounded else "+", "plot-line")
        before = y


def _runs(cells: list[Span]) -> list[Span]:
    """Neighbours of one colour as one piece: a fifth of the bytes."""
    found: list[Span] = []
    for text, token in cells:
        if found and found[-1][1] == token:
            found[-1] = (found[-1][0] + text, token)
        else:
            found.append((text, token))
    return found


def _axis(columns: int, glyphs: Glyphs) -> list[Span]:
    return [(" " * AXIS_CELLS + glyphs.corner + glyphs.across * columns, "plot-axis")]


def _names(points: list[Point], columns: int, step: float) -> list[Span]:
    cells = [" "] * columns
    free = 0
    for number, point in enumerate(points):
        name = f"r{point.round}"
        x = min(columns - len(name), int(number * step + step / 2))
        if x >= free:
            cells[x : x + len(name)] = name
            free = x + len(name) + 1
    return [(" " * (AXIS_CELLS + 1) + "".join(cells), "plot-axis")]


def stage_lines(tree: Tree, glyphs: Glyphs) -> list[list[Span]]:
    """What stands instead of an empty plot: how far everything is."""
    counts: dict[str, int] = {}
    for variant in tree.variants.values():
        word = words.outcome_text(variant) if variant.outcome else str(variant.state)
        if variant.outcome is Outcome.CORRECT and not is_ranked(variant):
            word = "correct, not timed"
        counts[word] = counts.get(word, 0) + 1
    lines: list[list[Span]] = [[(" No time to plot yet.", "muted")], [("", "")]]
    lines.append([(f" {len(tree.ideas):>6}", "number"), ("  ideas", "")])
    for word, count in sorted(counts.items(), key=lambda item: -item[1]):
        lines.append([(f" {count:>6}", "number"), (f"  {word}", "")])
    return lines


class Plot(LineList):
    """The plot pane."""

    show_cursor = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.outline: Outline | None = None
        self._lines: list[list[Span]] = []
        self._drawn: object = None  # what the picture was drawn from
        self._is_picture = False
        self.note = ""

    def sync(self, outline: Outline) -> None:
        """Draw again if the picture differs."""
        self.outline = outline
        source = (outline, outline.leads, len(outline.round_numbers()), outline.counted, self.view)
        if source == self._drawn and self._is_picture:
            return
        self._drawn = source
        glyphs: Glyphs = self.app.glyphs  # type: ignore[attr-defined]
        found = points(outline) if outline.counted else []
        self.note = scale_note(found, start_of(outline, found), glyphs)
        lines = plot_lines(found, self.view.width, self.view.height, glyphs)
        self._is_picture = bool(lines)  # what stands in its place counts variants
        if not lines:
            lines = stage_lines(outline.tree, glyphs) if outline.counted else [[(" Counting older rounds.", "muted")]]
        if lines != self._lines:
            self._lines = lines
            self.resized()
            self.forget()

    def on_resize(self) -> None:
        if self.outline is not None:
            self.sync(self.outline)

    def line_count(self) -> int:
        return len(self._lines)

    def draw(self, row: int, left: int, width: int) -> list[Segment]:
        return [Segment(text, self.style_of(token) if token else None) for text, token in self._lines[row]]
