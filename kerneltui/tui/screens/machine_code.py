"""Machine code of one variant, made in a thread: SASS or PTX of a CUDA variant, host assembly of a C++ one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from kerneltui.errors import KernelTuiError
from kerneltui.evaluator.assembly import Disassembly, Kind
from kerneltui.records import Candidate, Contract, Device, Language, Policy, Variant
from kerneltui.tui import panels, words
from kerneltui.tui.machine_code import Listing, machine_lines, matches
from kerneltui.tui.render import lines, one_line, wrap
from kerneltui.tui.screens.listing import HELP_KEY, fitting_keys
from kerneltui.tui.widgets.linelist import TextLines
from kerneltui.tui.widgets.oneline import OneLine, PaneTitle

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen

KEYS = (
    ("p", "SASS or PTX"),
    ("/", "search"),
    ("n N", "next"),
    ("{ }", "function"),
    ("s", "source lines"),
    ("|", "raw"),
    ("esc", "back"),
)


class CodeMade(Message):
    """The thread has ended: with machine code, or with a sentence."""

    def __init__(self, ptx: bool, found: Disassembly | None, listing: Listing | None, problem: str) -> None:
        super().__init__()
        self.ptx, self.found, self.listing, self.problem = ptx, found, listing, problem


class MachineCode(Screen[None]):
    """Escape goes back, and ends what is still at work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("p", "other", show=False),
        Binding("s", "source", show=False),
        Binding("slash", "search", show=False),
        Binding("vertical_line", "raw", show=False),
        Binding("n", "match(1)", show=False),
        Binding("N", "match(-1)", show=False),
        Binding("right_curly_bracket", "function(1)", show=False),
        Binding("left_curly_bracket", "function(-1)", show=False),
        Binding("question_mark", "help", show=False),
    ]

    def __init__(self, main: MainScreen, variant: Variant, candidate: Candidate, ptx: bool = False) -> None:
        super().__init__()
        self.main, self.variant, self.candidate, self.ptx = main, variant, candidate, ptx
        self.source = lines(candidate.source)
        self.with_source = True
        self.wanted = ""
        self.rows: list[int] = []  # of what was searched for
        self.found: Disassembly | None = None
        self.listing = Listing(lines=[], starts=[])
        self._cancel: Callable[[], Any] = lambda: None

    def compose(self) -> ComposeResult:
        yield PaneTitle(id="code-title")
        yield TextLines(id="machine-code")
        yield OneLine(id="message")
        yield OneLine(id="footer")

    @property
    def text(self) -> TextLines:
        """The listing."""
        return self.query_one("#machine-code", TextLines)

    def on_mount(self) -> None:
        self.query_one("#code-title", PaneTitle).light(True)
        self.text.focus()
        self.make()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#footer", OneLine).set(
            fitting_keys((*self.keys[:-1], HELP_KEY, self.keys[-1]), event.size.width)
        )

    def on_unmount(self) -> None:
        self._cancel()

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """Keys of this screen, without those that do nothing on a host's assembly."""
        return [pair for pair in KEYS if pair[0] not in ("p", "s") or self.candidate.language is Language.CUDA]

    def action_help(self) -> None:
        from kerneltui.tui.screens.finding import Help

        self.app.push_screen(Help("Machine code", self.keys))

    # ----------------------------------------------------------------- making

    def make(self) -> None:
        """Begin; the answer comes as a message."""
        self._cancel()
        self.found = None
        what = "PTX" if self.ptx else "machine code"
        self.title_line(what)
        self.text.show([[(f" Making the {what}; the first time it may have to be compiled again.", "muted")]])
        model = self.main.model
        contract, device, policy = model.contract, model.tree.status.device, model.tree.settings.policy
        ptx = self.ptx
        self.run_worker(lambda: self._work(ptx, contract, device, policy), thread=True, group="code", exclusive=True)

    def _work(self, ptx: bool, contract: Contract | None, device: Device | None, policy: Policy) -> None:
        """In a thread, with an event loop of its own that `_cancel` can reach."""
        from kerneltui.evaluator.build_cache import cache_folder
        from kerneltui.evaluator.disassembly import compiling_device, disassemble

        async def make() -> Disassembly:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            self._cancel = lambda: _end(loop, task)
            where = compiling_device(device, self.candidate.language)
            return await disassemble(self.candidate, contract, where, ptx=ptx, policy=policy, cache=cache_folder())

        try:
            found = asyncio.run(make())
        except asyncio.CancelledError:
            return
        except KernelTuiError as error:
            self.post_message(CodeMade(ptx, None, None, str(error)))
            return
        listing = machine_lines(found, self.source, with_source=self.with_source)
        self.post_message(CodeMade(ptx, found, listing, ""))

    def on_code_made(self, message: CodeMade) -> None:
        if message.ptx != self.ptx:
            return
        if message.found is None or message.listing is None:
            width = max(20, self.text.view.width - 2)
            self.text.show([[(f" {line}", "warning")] for line in wrap(message.problem, width)])
            return
        self.found, self.listing = message.found, message.listing
        self.show_listing()

    def show_listing(self) -> None:
        """The lines, and what is known of them in the title."""
        assert self.found is not None
        self.text.show(self.listing.lines)
        self.title_line(f"{self.found.kind.upper() if self.found.kind is not Kind.HOST else 'host assembly'}")
        if self.wanted:
            self.find(self.wanted)

    def title_line(self, what: str) -> None:
        """Whose code it is, of what kind, made by what."""
        right = ""
        if self.found is not None:
            count = words.count_text(len(self.found.functions), "function")
            right = f"{count}, {self.found.architecture}, {self.found.tool} "
        name = f"  {one_line(self.variant.name)}" if self.variant.name else ""
        self.query_one("#code-title", PaneTitle).set(
            [(f" {self.variant.id} ", ""), (what, "key"), (name, "muted")], [(right, "muted")]
        )

    def say(self, text: str, token: str = "muted") -> None:
        """The message line."""
        self.query_one("#message", OneLine).set(panels.message(one_line(text), token))

    # ----------------------------------------------------------------- keys

    def action_leave(self) -> None:
        self._cancel()
        self.dismiss(None)

    def action_other(self) -> None:
        if self.candidate.language is not Language.CUDA:
            self.say("PTX is of CUDA variants")
            return
        self.ptx = not self.ptx
        self.make()

    def action_source(self) -> None:
        if self.found is None or self.found.kind is Kind.HOST:
            return
        self.with_source = not self.with_source
        self.listing = machine_lines(self.found, self.source, with_source=self.with_source)
        self.show_listing()

    def action_raw(self) -> None:
        """For the terminal's own selection."""
        from kerneltui.tui.screens.raw import RawScreen

        self.app.push_screen(RawScreen(self.text.lines))

    def action_search(self) -> None:
        from kerneltui.tui.screens.dialogs import Ask

        hint = "an opcode, a register, words of the source; n N step"
        ask = Ask("Search the machine code", self.wanted, hint, None)
        self.app.push_screen(ask, lambda text: self.find(text) if text is not None else None)

    def find(self, wanted: str) -> None:
        """Mark the first match from here on."""
        self.wanted = wanted.strip()
        self.rows = matches(self.listing.lines, self.wanted) if self.wanted else []
        self.text.marked = None
        if self.rows:
            self.action_match(1)
        elif self.wanted:
            self.say(f"{self.wanted!r} is nowhere here", "warning")

    def action_match(self, by: int) -> None:
        if self.rows:
            self._step(self.rows, by, "match", "matches")

    def action_function(self, by: int) -> None:
        if self.listing.starts:
            self._step(self.listing.starts, by, "function", "functions")

    def _step(self, rows: list[int], by: int, one: str, many: str) -> None:
        marked = self.text.marked
        here = marked if marked is not None else round(self.text.scroll_y) - (by > 0)
        later = [row for row in rows if row > here] if by > 0 else [row for row in rows if row < here][::-1]
        row = later[0] if later else rows[0] if by > 0 else rows[-1]
        self.text.show_row(row)
        self.say(f"{one} {rows.index(row) + 1} of {len(rows)} {many}")


def _end(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Cancel work in another thread's loop; nothing happens where that has ended."""
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:  # the loop was closed a moment ago
        return
