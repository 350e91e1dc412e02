"""What each action of the table does on the main screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneltui.records import DecisionKind
from kerneltui.tui import drafts, words
from kerneltui.tui.actions import by_id, read_command
from kerneltui.tui.arrange import Pane
from kerneltui.tui.details import Tab
from kerneltui.tui.outline import NodeKind, Sort
from kerneltui.tui.render import Glyphs
from kerneltui.tui.screens.openings import Openings
from kerneltui.tui.screens.taking import Taking
from kerneltui.tui.widgets.detail import BESIDE_FROM

if TYPE_CHECKING:
    from kerneltui.tui.screens.dialogs import Editor

WITHOUT_A_SESSION = frozenset(
    {"app.quit", "app.help", "app.palette", "app.redraw", "view.home", "view.theme", "view.screenshot"}
)


class Deeds(Openings, Taking):
    """Half of the main screen: one method per action that is more than a decision."""

    @property
    def glyphs(self: Any) -> Glyphs:
        """Characters to draw with."""
        found: Glyphs = self.app.glyphs
        return found

    def action_act(self, id: str) -> None:
        """A key was pressed."""
        self.act(id)

    def act(self, id: str, argument: str = "") -> None:
        """Carry out an action of the table."""
        screen = self.screen_
        if screen._model is None and id not in WITHOUT_A_SESSION:
            self._act_without_a_session(id)
            return
        simple = self._hands().get(id) if screen._model is not None else None
        if simple is not None:
            simple(argument)
            return
        if id[:-1] == "view.pane_":
            screen.go_to_pane(list(Pane)[int(id[-1]) - 1])
            return
        getattr(self, "act_" + id.replace(".", "_"))(*([argument] if by_id(id).argument else []))

    def _act_without_a_session(self, id: str) -> None:
        screen = self.screen_
        if id == "view.back" and screen.trouble:
            self.act_view_home()
        else:
            wait = "cannot be read yet; esc shows all sessions" if screen.trouble else "is still being read"
            screen.say(f"the session {wait}", "muted")

    def _hands(self) -> dict[str, Callable[[str], None]]:
        hands = self.screen_.hands
        return {
            "idea.edit": lambda _: hands.edit_idea(),
            "kernel.inject": hands.inject,
            "branch.prune": lambda _: hands.prune(),
            "branch.restore": lambda _: hands.restore(),
            "branch.pin": lambda _: hands.pin(),
            "branch.unpin": lambda _: hands.pin(),
            "node.retry": lambda _: hands.retry(),
            "group.retry": lambda _: hands.retry_like(),
            "node.note": hands.note,
            "idea.add": lambda _: hands.add_idea(),
            "kernel.fork": lambda _: hands.fork(),
            "idea.expand": hands.expand,
            "kernel.certify": lambda _: hands.certify(),
            "idea.approve": lambda _: hands.set_status(DecisionKind.APPROVE),
            "idea.reject": lambda _: hands.set_status(DecisionKind.REJECT),
            "idea.move": hands.move_idea,
            "edit.undo": lambda _: hands.undo(),
            "edit.redo": lambda _: hands.redo(),
            "engine.pause": lambda _: hands.pause(),
            "engine.resume": lambda _: hands.pause(False),
            "engine.budget": hands.budget,
            "engine.start": lambda _: hands.start(),
            "engine.stop": lambda _: hands.stop(),
            "engine.drain": lambda _: hands.drain(),
        }

    # ----------------------------------------------------------------- rows

    def act_node_open(self) -> None:
        screen = self.screen_
        row = screen.current
        if row is None:
            return
        if row.kind is NodeKind.VARIANT:
            screen.pane, screen.zoomed = Pane.DETAIL, True
            screen.arrange_panes()
            screen.detail.focus()
            screen.call_after_refresh(screen.show_detail)
        else:
            screen.tree_list.toggle(row)

    def act_row_mark(self) -> None:
        screen = self.screen_
        row = screen.current
        if row is None:
            return
        screen.model.marks ^= {row.id}
        screen.tree_list.repaint_rows([screen.tree_list.cursor])
        screen.tree_list.action_move(1)
        screen.paint_panels(time.time())

    def act_row_range(self) -> None:
        screen = self.screen_
        outline, here = screen.model.outline, screen.tree_list.cursor
        marked = [index for id in screen.model.marks if (index := outline.index(id)) is not None]
        if not marked:
            screen.act("row.mark")
            return
        last = min(marked, key=lambda index: abs(index - here))
        low, high = sorted((last, here))
        kind = outline.rows[last].kind
        screen.model.marks |= {row.id for row in outline.rows[low : high + 1] if row.kind is kind}
        screen.tree_list.restyle()
        screen.paint_panels(time.time())

    def act_row_unmark(self) -> None:
        screen = self.screen_
        screen.model.marks.clear()
        screen.tree_list.restyle()
        screen.paint_panels(time.time())

    # ----------------------------------------------------------------- going

    def _go(self, id: str | None, why_not: str) -> None:
        screen = self.screen_
        if id and screen.tree_list.go_to(id):
            screen.show_detail()
        else:
            screen.say(why_not, "muted")

    def act_goto_best(self) -> None:
        self._go(self.screen_.model.tree.status.best, "there is no best yet")

    def act_goto_node(self, argument: str) -> None:
        tree = self.screen_.model.tree
        known = argument in tree.ideas or argument in tree.variants
        self._go(argument if known else None, f"no node called {argument!r}; such as v00012 or i003")

    def act_goto_running(self) -> None:
        self._step_variants(1, lambda variant: variant.state in words.ACTIVE, "nothing is running")

    def act_view_next_match(self) -> None:
        self._next(1)

    def act_view_previous_match(self) -> None:
        self._next(-1)

    def _next(self, by: int) -> None:
        screen = self.screen_
        if screen.pane is Pane.DETAIL and screen.detail.step(by):
            return
        if screen._filter_text:
            self._step_variants(by, lambda variant: True, "nothing matches")
        else:
            self._step_variants(by, words.is_failure, "no failure is shown")

    def _step_variants(self, by: int, wanted: Callable[[Any], bool], why_not: str) -> None:
        screen = self.screen_
        rows, variants = screen.model.outline.rows, screen.model.tree.variants
        count = len(rows)
        for step in range(1, count + 1):
            index = (screen.tree_list.cursor + by * step) % count
            row = rows[index]
            if row.kind is NodeKind.VARIANT and not row.dimmed and wanted(variants[row.id]):
                screen.tree_list.move_to(index)
                return
        screen.say(why_not, "muted")

    def act_view_next_part(self) -> None:
        self._part(1)

    def act_view_previous_part(self) -> None:
        self._part(-1)

    def _part(self, by: int) -> None:
        screen = self.screen_
        if screen.pane is Pane.DETAIL and screen.detail.step(by):
            return
        rows = screen.model.outline.rows
        heads = [index for index, row in enumerate(rows) if row.kind is NodeKind.ROUND]
        later = (
            [i for i in heads if i > screen.tree_list.cursor]
            if by > 0
            else [i for i in heads if i < screen.tree_list.cursor][::-1]
        )
        if later:
            screen.tree_list.move_to(later[0], top=True)

    # ----------------------------------------------------------------- looking

    def act_view_filter(self, argument: str = "") -> None:
        screen = self.screen_
        if argument:
            screen.set_filter(argument)
        else:
            screen.open_filter()

    def act_view_sort(self, argument: str = "") -> None:
        screen = self.screen_
        outline = screen.model.outline
        orders = list(Sort)
        if argument and argument not in orders:
            screen.say(f"sort is one of {', '.join(orders)}", "error")
            return
        outline.sort = Sort(argument) if argument else orders[(orders.index(outline.sort) + 1) % len(orders)]
        outline.touch()
        screen.tree_list.sync(())
        screen.paint_panels(time.time())

    def act_view_diff(self) -> None:
        self.screen_.show_tab(Tab.DIFF)

    def act_view_times(self) -> None:
        self.screen_.show_tab(Tab.TIME)

    def act_view_diff_base(self) -> None:
        screen = self.screen_
        bases = ("parent", "best", "marked")
        screen.detail.base = bases[(bases.index(screen.detail.base) + 1) % len(bases)]
        screen.show_tab(Tab.DIFF)
        screen.say(f"diff against {screen.detail.base}", "muted")

    def act_view_beside(self) -> None:
        screen = self.screen_
        screen.detail.beside = not screen.detail.beside
        screen.show_tab(Tab.DIFF)
        if screen.detail.beside and screen.detail.view.width < BESIDE_FROM:
            screen.say(f"side by side needs {BESIDE_FROM} columns: enter or _ gives this pane the screen", "muted")

    def act_view_next_tab(self) -> None:
        self._tab(1)

    def act_view_previous_tab(self) -> None:
        self._tab(-1)

    def _tab(self, by: int) -> None:
        screen = self.screen_
        row = screen.current
        detail = screen.detail
        variant = screen.model.tree.variants.get(row.id) if row else None
        detail.step_tab(by, detail.tab_for(variant) if variant else detail.tab)
        screen.show_tab(detail.tab)

    def act_view_wrap(self) -> None:
        screen = self.screen_
        screen.detail.wrapped = not screen.detail.wrapped
        screen.show_detail()
        screen.say(
            "long lines are wrapped" if screen.detail.wrapped else "long lines are cut: h and l move sideways", "muted"
        )

    def act_view_detail_down(self) -> None:
        self.screen_.detail.action_page(0.5)

    def act_view_detail_up(self) -> None:
        self.screen_.detail.action_page(-0.5)

    def act_view_follow(self) -> None:
        screen = self.screen_
        screen.frozen = not screen.frozen
        screen.say(
            "the view is frozen; the search works on. F follows again" if screen.frozen else "following", "warning"
        )
        screen.paint_clocks(time.time())

    def act_view_home(self) -> None:
        screen = self.screen_
        screen.app.go_home()  # type: ignore[attr-defined]

    def act_view_theme(self, argument: str) -> None:
        screen = self.screen_
        screen.app.choose_theme(argument)  # type: ignore[attr-defined]

    def act_view_screenshot(self) -> None:
        screen = self.screen_
        name = time.strftime("kerneltui-%H%M%S.svg")
        try:
            path = screen.app.save_screenshot(name)
        except OSError as error:
            screen.say(f"no picture: {error}", "error")
            return
        screen.say(f"saved {path}", "human")

    def act_view_back(self) -> None:
        screen = self.screen_
        if screen.zoomed or screen.pane is not Pane.TREE:
            screen.zoomed = False
            screen.go_to_pane(Pane.TREE)
        elif screen._filter_text:
            screen.set_filter("")
        elif screen.model.marks:
            self.act_row_unmark()

    def act_view_zoom(self) -> None:
        screen = self.screen_
        screen.zoomed = not screen.zoomed
        screen.arrange_panes()
        screen.call_after_refresh(screen._after_resize)

    def act_view_pane_next(self) -> None:
        self._step_pane(1)

    def act_view_pane_previous(self) -> None:
        self._step_pane(-1)

    def _step_pane(self, by: int) -> None:
        screen = self.screen_
        panes = [pane for pane in Pane if screen.list_of(pane).display and screen.query_one(f"#{pane}-pane").display]
        panes = panes if len(panes) > 1 else list(Pane)
        screen.go_to_pane(panes[(panes.index(screen.pane) + by) % len(panes)])

    # ----------------------------------------------------------------- the rest

    def act_app_quit(self) -> None:
        self.screen_.app.exit(0)

    def act_app_redraw(self) -> None:
        self.screen_.app.refresh(layout=True)

    def act_app_help(self) -> None:
        from kerneltui.tui.screens.finding import Help

        self.screen_.app.push_screen(Help())

    def act_app_palette(self) -> None:
        from kerneltui.tui.screens.finding import Palette

        self.screen_.app.push_screen(Palette(), self._run_line)

    def _run_line(self, line: str | None) -> None:
        if not line:
            return
        found = read_command(line)
        if found is None:
            self.screen_.say(f"no command {line!r}; : lists them all", "error")
        else:
            self.act(found[0].id, found[1])

    def edit(self, title: str, text: str, draft: str, take: Callable[[str], None], **options: Any) -> None:
        """A text to edit; `take` gets it when it is sent."""
        editor = self.editor(title, text, draft, **options)
        self.screen_.app.push_screen(editor, lambda edited: take(edited) if edited is not None else None)

    def editor(self, title: str, text: str, draft: str, **options: Any) -> Editor:
        """The editor on a text with its draft."""
        from kerneltui.tui.screens.dialogs import Editor

        suffix = options.pop("suffix", ".txt")
        path: Path = drafts.draft_path(self.screen_.model.folder, draft, suffix)
        return Editor(title, text, draft=path, **options)
