"""What the search has cost, by author, round or idea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from kerneltui.store import Store
from kerneltui.tui import words
from kerneltui.tui.accounts import Account, By, accounts, total
from kerneltui.tui.render import Glyphs, fit, one_line, right
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.widgets.linelist import Line, LineList, TextLines

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

REFRESH_S = 1.0
WIDE = 120  # columns from which every figure is shown
# name, columns, and whether a narrow screen has it
COLUMNS = (("calls", 7, True), ("failed", 8, False), ("tokens", 12, True), ("cost", 10, True), ("$/correct", 11, False),
           ("variants", 10, False), ("correct", 9, True), ("device", 9, True), ("compiler", 10, False), ("best", 8, True))  # fmt: skip


class SecondsRead(Message):
    """A thread has added up what the verdicts took."""

    def __init__(self, seconds: Mapping[str, tuple[float, float]]) -> None:
        super().__init__()
        self.seconds = seconds


class SpendScreen(Listing):
    """Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("o,tab", "turn", show=False),
    ]
    keys = (("o", "by author, round, idea"), ("enter", "show it in the tree"), ("esc", "back"))

    def __init__(self, main: MainScreen) -> None:
        super().__init__()
        self.main = main
        self.by = By.AUTHOR
        self.accounts: list[Account] = []
        self.seconds: Mapping[str, tuple[float, float]] = {}
        self._seq = -1

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(REFRESH_S, self.refill)
        self.run_worker(self._read_seconds, thread=True)

    def _read_seconds(self) -> None:
        """In a thread."""
        with Store.open(self.main.model.folder) as store:
            self.post_message(SecondsRead(store.read_seconds()))

    def on_seconds_read(self, message: SecondsRead) -> None:
        self.seconds, self._seq = message.seconds, -1
        self.refill()

    def refill(self) -> None:
        tree = self.main.model.tree
        if tree.seq == self._seq:
            return
        self._seq = tree.seq
        self.accounts = accounts(tree, self.by, self.seconds)
        width = self._name_cells()
        self.titles(
            [(" Spend", "")],
            [(f"by {self.by}   budget: {words.budget_text(tree.settings.budget)} ", "muted")],
            [(f" {fit(str(self.by), width)}{columns([name for name, _, _ in COLUMNS], wide=self._is_wide)}", "muted")],
            [(" In all", "")],
        )
        self.fill([self._line(account) for account in self.accounts] or [[(" Nothing was spent yet.", "muted")]])
        self.show_about()

    def _name_cells(self) -> int:
        used = sum(width for _, width, always in COLUMNS if self._is_wide or always)
        return max(12, min(44, self.app.size.width - used - 3))

    @property
    def _is_wide(self) -> bool:
        return self.app.size.width >= WIDE

    def _figures(self, account: Account) -> str:
        return columns(figures(account, self.glyphs), wide=self._is_wide)

    def _line(self, account: Account) -> Line:
        tree = self.main.model.tree
        idea = tree.ideas.get(account.name) if self.by is By.IDEA else None
        name = f"{account.name} {words.idea_title(idea)}" if idea else self.main.model.who_text(one_line(account.name))
        return [(f" {fit(name, self._name_cells())}", ""), (self._figures(account), "number")]

    def show_about(self) -> None:
        found: list[Line] = []
        if self.accounts:
            found.append([(f" {fit('total', self._name_cells())}{self._figures(total(self.accounts))}", "round")])
        unknown = sum(account.unknown for account in self.accounts)
        if unknown:
            found.append([(f" +? {words.count_text(unknown, 'call')} whose cost is not known", "warning")])
        if not self.seconds:
            found.append([(" device and compiler: being added up, or nothing was judged yet", "muted")])
        self.query_one("#about", TextLines).show(found)

    def on_line_list_chosen(self, message: LineList.Chosen) -> None:
        if self.by is By.AUTHOR:
            self.say("an author is no row of the tree: o goes on to rounds and ideas, which are", "muted")
        elif message.row < len(self.accounts):
            self.dismiss(None)
            self.main.tree_list.go_to(self.accounts[message.row].name)
            self.main.show_detail()

    def action_turn(self) -> None:
        orders = list(By)
        self.by, self._seq = orders[(orders.index(self.by) + 1) % len(orders)], -1
        self.refill()


def figures(account: Account, glyphs: Glyphs) -> tuple[str, ...]:
    """The columns of `COLUMNS`."""
    each = account.usd_a_correct
    return (
        str(account.calls),
        str(account.failed),
        f"{account.tokens:,}",
        words.money_text(account.usd) + ("+?" if account.unknown else ""),
        words.money_text(each) if each is not None else "",
        str(account.variants),
        str(account.correct),
        words.span_text(account.device_s),
        words.span_text(account.compile_s),
        f"{account.best:.2f}{glyphs.times}" if account.best else "",
    )


def columns(cells: Sequence[str], *, wide: bool) -> str:
    """Right-aligned, those that fit."""
    pairs = zip(cells, COLUMNS, strict=True)
    return "".join(right(cell, width) for cell, (_, width, always) in pairs if wide or always)
