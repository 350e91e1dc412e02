"""All sessions, and a new one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from kerneltui.errors import KernelTuiError
from kerneltui.evaluator.devices import missing
from kerneltui.problems import list_problems
from kerneltui.records import Problem, SessionState, Settings, Tree, Variant
from kerneltui.store import Store, list_sessions, sessions_folder
from kerneltui.tui import words
from kerneltui.tui.engines import is_running, start_engine
from kerneltui.tui.render import cut, fit, one_line, right, wrap
from kerneltui.tui.screens.listing import Listing
from kerneltui.tui.screens.setup import SetupScreen
from kerneltui.tui.widgets.linelist import Line, LineList, Span, TextLines

REFRESH_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the list says of a session; `problem` says why it cannot be read."""

    folder: Path
    tree: Tree | None = None
    best: Variant | None = None
    alive: bool = False
    problem: str = ""


class SessionsRead(Message):
    """A thread has looked at the sessions and the machine."""

    def __init__(self, known: list[Known], problems: list[Problem], remarks: list[str]) -> None:
        super().__init__()
        self.known, self.problems, self.remarks = known, problems, remarks


class HomeScreen(Listing):
    """Sessions, newest first; then the problems that a new one can be made for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", show=False),
        Binding("n", "new", show=False),
        Binding("c", "copy", show=False),
        Binding("S,s", "start", show=False),
    ]
    keys = (
        ("enter", "open, or make one"),
        ("n", "new"),
        ("c", "copy settings"),
        ("S", "start engine"),
        ("q", "quit"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.known: list[Known] = []
        self.problems: list[Problem] = []
        self.remarks: list[str] = []
        self._surveyed = False
        self._kept: dict[Path, tuple[float, Known]] = {}

    def on_mount(self) -> None:
        super().on_mount()
        self.look()
        self.set_interval(REFRESH_S, self.look)

    def look(self) -> None:
        """Read everything again, in a thread."""
        if self.is_current:
            self.run_worker(self._read, thread=True, exclusive=True, group="look")

    def _read(self) -> None:
        """In a thread."""
        known = [self._know(folder) for folder in list_sessions()]
        problems = self.problems or list_problems()
        self.post_message(SessionsRead(known, problems, self.remarks))
        if not self._surveyed:  # asking compilers and drivers takes a while
            self._surveyed = True
            remarks = [f"{kind}: {one_line(text)}" for kind in ("cuda", "cpu") for text in missing(kind)]
            self.post_message(SessionsRead(known, problems, remarks))

    def _know(self, folder: Path) -> Known:
        changed = max(path.stat().st_mtime for path in folder.glob("session.db*"))
        kept = self._kept.get(folder)
        if kept is None or kept[0] != changed:
            kept = self._kept[folder] = (changed, know(folder))
        known = kept[1]
        return known if known.tree is None else replace(known, alive=is_running(known.tree.status))

    def on_sessions_read(self, message: SessionsRead) -> None:
        self.known, self.problems, self.remarks = message.known, message.problems, message.remarks
        self.refill()

    def refill(self) -> None:
        where = words.path_text(sessions_folder())
        cells = self.name_cells
        spent = f"{'spent':>9}" if self.has_room else ""
        said = f" {'session':<{cells}}{'state':<9}{'round':>7}{'variants':>10}{'best':>9}{'time':>11}{spent}  seen"
        self.titles([(" kerneltui", "")], [(f"{where} ", "muted")], [(said, "muted")], [(" About", "")])
        rows: list[Line] = [_session_line(known, self.glyphs.times, self) for known in self.known]
        if not self.known:
            rows.append([(" No session here yet. Choose a problem below and press enter.", "warning")])
        rows += ["", [(f" {'problem':<{cells}}{'dtype':<9}{'tolerance':<13}title", "muted")]]
        rows += [_problem_line(problem, self) for problem in self.problems]
        self.fill(rows, 0.66)
        self.show_about()

    @property
    def name_cells(self) -> int:
        """Columns for names: what the figures leave."""
        names = [known.folder.name for known in self.known] + [problem.name for problem in self.problems]
        longest = max(map(len, names), default=0)
        return max(18, min(longest + 2, self.app.size.width - 69))

    @property
    def has_room(self) -> bool:
        """Whether every column fits."""
        return self.app.size.width >= 88

    @property
    def current(self) -> Known | Problem | None:
        """What stands under the cursor."""
        row = self.list.cursor
        if row < len(self.known):
            return self.known[row]
        row -= max(1, len(self.known)) + 2
        return self.problems[row] if 0 <= row < len(self.problems) else None

    def show_about(self) -> None:
        here, said = self.current, list[Span]()
        if isinstance(here, Problem):
            said = [(one_line(here.title), "round"), (words.path_text(here.path), "muted"), (one_line(here.notes), "")]
        elif here is not None:
            said = _about(here)
        if self.remarks:
            said += [
                (" ", ""),
                ("this machine", "round"),
                *((f"{self.glyphs.dot} {text}", "warning") for text in self.remarks),
            ]
        room = self.app.size.width - 3
        found: list[Line] = [[(f" {part}", token)] for text, token in said if text for part in wrap(text, room)]
        self.query_one("#about", TextLines).show(found, keep_place=True)

    # ----------------------------------------------------------------- acts

    def on_line_list_chosen(self, _: LineList.Chosen) -> None:
        here = self.current
        if isinstance(here, Problem):
            self.make(Settings(problem=here.name))
        elif here is not None and not here.problem:
            self.app.open_session(here.folder)  # type: ignore[attr-defined]

    def action_leave(self) -> None:
        self.app.exit(0)

    def action_new(self) -> None:
        here = self.current
        self.make(
            Settings(problem=here.name if isinstance(here, Problem) else self.problems[0].name if self.problems else "")
        )

    def action_copy(self) -> None:
        here = self.current
        if isinstance(here, Known) and here.tree is not None:
            self.make(here.tree.settings, here.folder.name)
        else:
            self.say("go to a session first", "muted")

    def action_start(self) -> None:
        here = self.current
        if not isinstance(here, Known) or here.alive:
            self.say("go to a session whose engine does not run", "muted")
            return
        try:
            self.say(f"engine of {here.folder.name} started, pid {start_engine(here.folder)}", "human")
        except KernelTuiError as error:
            self.say(str(error), "error")

    def make(self, settings: Settings, copied: str = "") -> None:
        """A new session, from a form."""

        def made(folder: Path | None) -> None:
            if folder is not None:
                self.app.open_session(folder)  # type: ignore[attr-defined]

        name = free_name(copied or Path(settings.problem).stem or "search")
        self.app.push_screen(SetupScreen(settings, name, copied=copied), made)


def know(folder: Path) -> Known:
    """A session as the list shows it."""
    try:
        with Store.open(folder, migrate=False) as store:
            tree = store.read_tree()
    except KernelTuiError as error:
        return Known(folder=folder, problem=str(error))
    best = tree.variants.get(tree.status.best or "") or tree.best()
    return Known(folder=folder, tree=tree, best=best, alive=is_running(tree.status))


def free_name(wanted: str) -> str:
    """The name, with a number if it is taken."""
    taken = {path.name for path in sessions_folder().glob("*")}
    number = 1
    name = wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _session_line(known: Known, times: str, screen: HomeScreen) -> Line:
    name = f" {fit(one_line(known.folder.name), screen.name_cells - 1, screen.glyphs.cut)} "
    if known.tree is None:
        return [(name, "muted"), (one_line(known.problem), "error")]
    status, tree = known.tree.status, known.tree
    wanted = status.state in (SessionState.RUNNING, SessionState.PAUSED)
    state = words.state_text(status) if known.alive or not wanted else "GONE"
    token = {"RUN": "ok", "GONE": "fail", "DONE": "best"}.get(state, "warning")
    best = words.ratio_text(known.best, screen.glyphs)
    spent = words.money_text(words.spend(tree)[0])
    seen = words.ago_text(time.time() - status.heartbeat) if status.heartbeat else "never"
    return [(name, "round"), (f"{state:<9}", token), (f"{status.round}/{tree.settings.rounds}".rjust(7), ""),
            (f"{len(tree.variants):>10,}", ""), (right(best, 9), "best"),
            (right(words.time_text(known.best.median_us if known.best else None, screen.glyphs), 11), "number"),
            (right(spent, 9) if screen.has_room else "", ""), (f"  {seen}", "muted")]  # fmt: skip


def _problem_line(problem: Problem, screen: HomeScreen) -> Line:
    cells, cut_mark = screen.name_cells, screen.glyphs.cut
    return [
        (f" {fit(problem.name, cells - 1, cut_mark)} ", "key"),
        (f"{problem.dtype:<9}{problem.tolerance:<13}", "muted"),
        (cut(one_line(problem.title), screen.app.size.width - cells - 25, cut_mark), ""),
    ]


def _about(known: Known) -> list[Span]:
    if known.tree is None:
        return [(one_line(known.problem), "error")]
    tree = known.tree
    spent, caps = words.money_text(words.spend(tree)[0]), words.budget_text(tree.settings.budget)
    ideas = words.count_text(len(tree.ideas), "idea")
    found: list[Span] = [
        (words.path_text(known.folder), "round"),
        (f"problem {one_line(tree.settings.problem)}, {ideas}, {spent} spent; caps: {caps}", ""),
    ]
    if tree.status.device:
        found.append((f"on {one_line(tree.status.device.name)}", ""))
    found.append((one_line(tree.status.reason), "warning"))
    if known.best is not None:
        found.append((f"best {known.best.id}, {one_line(known.best.name)}", "best"))
    return found
