"""Screens that the main screen opens above itself; each is imported when it is first wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneltui.records import DecisionKind
from kerneltui.tui.details import Tab
from kerneltui.tui.engines import log_path
from kerneltui.tui.render import plain
from kerneltui.tui.undo import Step

RAW_ROWS = 4000  # of a list, around the cursor

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen


class Openings:
    """Part of the main screen."""

    @property
    def screen_(self: Any) -> MainScreen:
        """Ourselves, for the type checker."""
        found: MainScreen = self
        return found

    def act_view_failures(self) -> None:
        from kerneltui.tui.screens.failures import FailuresScreen

        screen = self.screen_
        screen.app.push_screen(FailuresScreen(screen))

    def act_view_review(self) -> None:
        from kerneltui.tui.screens.review import ReviewScreen

        screen = self.screen_
        screen.app.push_screen(ReviewScreen(screen))

    def act_view_lineage(self) -> None:
        from kerneltui.tui.screens.lineage import LineageScreen

        screen = self.screen_
        variant = screen.hands.one_variant() or screen.model.tree.best()
        if variant is None:
            screen.say("go to a variant first", "muted")
        else:
            screen.app.push_screen(LineageScreen(screen, variant))

    def act_view_ledger(self) -> None:
        from kerneltui.tui.screens.ledger import LedgerScreen

        self.screen_.app.push_screen(LedgerScreen(self.screen_))

    def act_view_spend(self) -> None:
        from kerneltui.tui.screens.spend import SpendScreen

        self.screen_.app.push_screen(SpendScreen(self.screen_))

    def act_view_compare(self, argument: str = "") -> None:
        from kerneltui.tui.screens.compare import CompareScreen

        screen = self.screen_
        tree = screen.model.tree
        ids = argument.split() or sorted(id for id in screen.model.marks if id in tree.variants)
        if len(ids) == 1 and screen.current is not None and screen.current.id in tree.variants:
            ids.append(screen.current.id)
        if len(ids) != 2 or any(id not in tree.variants for id in ids):
            screen.say("mark two variants with space, then c", "muted")
            return
        pair = (screen.model.subject(tree.variants[ids[0]]), screen.model.subject(tree.variants[ids[1]]))
        screen.app.push_screen(CompareScreen(pair[0], pair[1]))

    def act_view_raw(self) -> None:
        from kerneltui.tui.screens.raw import RawScreen, text_of

        screen = self.screen_
        shown = screen.list_of(screen.pane)
        first = max(0, shown.cursor - RAW_ROWS // 2)
        lines = text_of(shown, first, RAW_ROWS, screen.size.width - 2)
        screen.app.push_screen(RawScreen(lines, at=shown.cursor - first))

    def act_kernel_profile(self) -> None:
        """Have it counted what a variant does, and show where that will stand."""
        screen = self.screen_
        variant = screen.hands.one_variant()
        if variant is None or not variant.candidate:
            screen.say("go to a variant with code first", "muted")
            return
        if screen.model.asked(variant.id) is not DecisionKind.PROFILE:
            step = Step(kind=DecisionKind.PROFILE, target=variant.id)
            screen.hands.do(f"profile of {variant.id} asked", [step], [])
        screen.show_tab(Tab.PROFILE)

    def act_view_machine_code(self, argument: str = "") -> None:
        from kerneltui.tui.screens.machine_code import MachineCode

        screen = self.screen_
        variant = screen.hands.one_variant()
        candidate = screen.model.candidate(variant)
        if variant is None or candidate is None:
            screen.say("go to a variant with code first", "muted")
        else:
            screen.app.push_screen(MachineCode(screen, variant, candidate, argument.strip().lower() == "ptx"))

    def act_engine_log(self) -> None:
        from kerneltui.tui.screens.raw import RawScreen

        screen = self.screen_
        try:
            text = log_path(screen.model.folder).read_text(encoding="utf-8", errors="replace")[-200_000:]
        except OSError:
            text = ""
        lines = plain(text).split("\n") if text else [f"{log_path(screen.model.folder)}: there is none"]
        screen.app.push_screen(RawScreen(lines))
