"""Which techniques paid: every technique against what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from kerneltui.records import Tree
from kerneltui.search.ledger import Gain, Kept, Row, expected_text, forecast_text, gain_text, ledger, outcomes, stems
from kerneltui.tui import words
from kerneltui.tui.render import cut, fit, one_line, right
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

REFRESH_S = 2.0
WIDE = 110  # columns from which a gain has its interval
TOKENS = {"met": "ok", "beyond": "best", "short": "warning", "failed": "fail"}


class LedgerMade(Message):
    """A thread has gone through the tree."""

    def __init__(self, rows: Sequence[Row], kept: Sequence[Kept]) -> None:
        super().__init__()
        self.rows, self.kept = rows, kept


class LedgerScreen(Listing):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", show=False)]
    keys = (("enter", "its ideas in the tree"), ("j k", "technique"), ("esc", "back"))

    def __init__(self, main: MainScreen) -> None:
        super().__init__()
        self.main = main
        self.rows: Sequence[Row] = ()
        self.kept: Sequence[Kept] = ()
        self._seq = -1

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(REFRESH_S, self.refill)

    def refill(self) -> None:
        tree = self.main.model.tree
        if tree.seq == self._seq:
            return
        self._seq = tree.seq
        # The thread gets dictionaries of its own: this one's go on changing.
        still = replace(tree, ideas=dict(tree.ideas), variants=dict(tree.variants))
        self.run_worker(lambda: self._make(still), thread=True, exclusive=True)

    def _make(self, tree: Tree) -> None:
        """In a thread."""
        self.post_message(LedgerMade(ledger([tree]), outcomes(tree)))

    def on_ledger_made(self, message: LedgerMade) -> None:
        self.rows, self.kept = message.rows, message.kept
        tried = words.count_text(sum(row.ideas for row in self.rows), "idea")
        self.titles(
            [(" Ledger", "")],
            [(f"{words.count_text(len(self.rows), 'technique')}, {tried}; a gain is over the idea's parent ", "muted")],
            [
                (
                    f" {fit('technique', self._name_cells())} ideas   correct   {fit('median gain' if self.app.size.width >= WIDE else 'gain', self._gain_cells())}"
                    f"{'best':>8}  {'expected':<12}forecasts",
                    "muted",
                )
            ],
            [(" Its ideas", "")],
        )
        self.fill([self._line(row) for row in self.rows] or [[(" No idea was tried yet.", "muted")]])
        self.show_about()

    def _name_cells(self) -> int:
        return max(20, min(44, self.app.size.width - 52 - self._gain_cells()))

    def _gain_cells(self) -> int:
        return 22 if self.app.size.width >= WIDE else 9

    def _gain(self, gain: Gain | None) -> str:
        """With its interval where there is room."""
        if gain is None:
            return ""
        found = gain_text(gain) if self.app.size.width >= WIDE else f"{gain.ratio:.2f}x"
        return found.replace("x", self.glyphs.times)

    def _line(self, row: Row) -> Line:
        best = f"{row.best.ratio:.2f}{self.glyphs.times}" if row.best else ""
        expected = expected_text(row.expected_low, row.expected_high).replace("x", self.glyphs.times)
        return [
            (f" {fit(one_line(row.technique), self._name_cells(), self.glyphs.cut)}", "key"),
            (f"{row.ideas:>6}{right(f'{row.correct}/{row.variants}', 10)}", ""),
            (f"   {fit(self._gain(row.median), self._gain_cells())}", "number"),
            (f"{right(best, 8)}", "best" if row.best and row.best.low > 1 else "number"),
            (f"  {fit(expected, 12)}", "muted"),
            (f"{forecast_text(row.words).removeprefix('forecasts: ')}", "muted"),
        ]

    @property
    def ideas(self) -> list[Kept]:
        """Those of the technique under the cursor."""
        if self.list.cursor >= len(self.rows):
            return []
        wanted = stems(self.rows[self.list.cursor].technique)
        return [one for one in self.kept if stems(one.technique) == wanted]

    def show_about(self) -> None:
        found: list[Line] = []
        for one in self.ideas:
            said = expected_text(one.expected.low, one.expected.high) if one.expected else ""
            expected = said.replace("x", self.glyphs.times)
            found.append(
                [
                    (f" {one.idea:<6}", "round"),
                    (right(f"{one.correct}/{one.variants}", 7), ""),
                    (f"  {fit(self._gain(one.gain), self._gain_cells())}", "number"),
                    (fit(expected, 12), "muted"),
                    (f"{one.word:<15}", TOKENS.get(one.word, "muted")),
                    (cut(one_line(one.title), self.app.size.width - 46 - self._gain_cells(), self.glyphs.cut), ""),
                ]
            )
        self.query_one("#about", TextLines).show(found)

    def on_line_list_chosen(self, _: LineList.Chosen) -> None:
        if self.ideas:
            ids = " | ".join(f"idea:{one.idea}" for one in self.ideas)
            self.dismiss(None)
            self.main.set_filter(ids)
