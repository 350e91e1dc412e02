"""demo, run, attach, watch."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TextIO

import click

from kerneltui.commands.output import final_table, print_json, printable, speedup_text, time_text
from kerneltui.commands.sessions import create_session, tree_json
from kerneltui.errors import MachineError, UsageError
from kerneltui.records import EngineStatus, Event, SessionState, Settings, Tree
from kerneltui.store import Store, find_session, sessions_folder


class Progress:
    """One line per event on `out`; on a terminal, a bar below them that is redrawn in place."""

    def __init__(self, folder: Path, out: TextIO) -> None:
        self.out = out
        self.store = Store.open(folder)
        self.tree = self.store.read_tree()
        self.on_terminal = out.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, event: Event) -> None:
        """Print one event."""
        self._wipe()
        clock = time.strftime("%H:%M:%S", time.localtime(event.created))
        self.out.write(printable(f"{clock}  {event.who:10} {event.text}".rstrip()).replace("\n", " ") + "\n")
        self._bar()
        self.out.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._wipe()
        self.out.flush()
        self.store.close()

    def _wipe(self) -> None:
        if self.on_terminal:
            self.out.write("\r\x1b[K")

    def _bar(self) -> None:
        if not self.on_terminal:
            return
        self.store.refresh(self.tree)
        done = sum(1 for v in self.tree.variants.values() if v.state in ("done", "cancelled"))
        total, rounds, now = len(self.tree.variants), self.tree.settings.rounds, self.tree.status.round
        share = min(1.0, (max(now - 1, 0) + done / max(total, 1)) / max(rounds, 1))
        best = self.tree.best()
        words = f" round {now}/{rounds}  {done}/{total} judged"
        if best:
            words += f"  best {time_text(best.median_us)} {speedup_text(best.speedup)}"
        width = max(10, min(40, shutil.get_terminal_size().columns - len(words) - 3))
        self.out.write("[" + "#" * round(share * width) + "-" * (width - round(share * width)) + "]" + words)


def run_engine(folder: Path, out: TextIO) -> EngineStatus:
    """The engine in this process until the search ends, with progress on `out`."""
    from kerneltui.engine import run_session
    from kerneltui.evaluator.processes import close_to_others

    close_to_others()
    # An engine that a screen started waits for a person when it cannot go on; one in the foreground says so and ends.
    stay = bool(os.environ.get("KERNELTUI_DETACHED"))
    progress = Progress(folder, out)
    try:
        return asyncio.run(run_session(folder, on_event=progress.show, stay=stay))
    finally:
        progress.close()


def ended_as(status: EngineStatus, tree: Tree) -> int:
    """Exit status of a search: 0 when it found a correct variant, 1 when not, 2 when the machine stopped it."""
    if status.state is SessionState.PAUSED:
        return 2
    return 0 if tree.best() else 1


def run_in_foreground(folder: Path, as_json: bool) -> int:
    """Run, print the table, and say how it ended."""
    status = run_engine(folder, sys.stderr if as_json else sys.stdout)
    with Store.open(folder) as store:
        tree = store.read_tree()
    if as_json:
        print_json(tree_json(folder, tree))
        return ended_as(status, tree)
    click.echo(f"\n{folder.name}: {status.state}{f' ({printable(status.reason)})' if status.reason else ''}\n")
    click.echo(final_table(tree) if tree.best() else "No correct variant was found.")
    click.echo(comparison(tree))
    return ended_as(status, tree)


def comparison(tree: Tree) -> str:
    """How the best compares with the starter and with PyTorch, said plainly."""
    best = tree.best()
    if best is None or best.median_us is None:
        return ""
    lines = []
    starters = [v.median_us for v in tree.variants.values() if v.kind == "starter" and v.median_us]
    if starters:
        lines.append(f"The best is {min(starters) / best.median_us:.2f}x as fast as the simple starter kernel.")
    if best.speedup is not None:
        interval = f"[{best.speedup.low:.3f}, {best.speedup.high:.3f}]"
        if best.speedup.tie:
            word = f"is as fast as PyTorch eager (a tie: {interval} is too close to 1 to tell on this device)"
        elif best.speedup.ratio > 1:
            word = f"is {best.speedup.ratio:.2f}x as fast as PyTorch eager {interval}"
        else:
            word = f"is slower than PyTorch eager: {best.speedup.ratio:.2f}x {interval}"
        lines.append(
            f"Against PyTorch on {tree.status.device.name if tree.status.device else 'this device'}: it {word}."
        )
    return "\n".join(lines)


@click.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Events on stderr, the whole tree as JSON on stdout at the end.")
def run(session: str, as_json: bool) -> None:
    """Run SESSION's engine in the foreground until it ends; takes up where it was left.

    Exit status: 0 a correct variant was found, 1 none was, 2 it could not go on.
    """
    sys.exit(run_in_foreground(find_session(session), as_json))


def open_screen(folder: Path | None, theme: str | None = None, ascii_only: bool = False) -> int:
    """The terminal app."""
    in_browser = bool(os.environ.get("TEXTUAL_DRIVER"))  # pipes to a server, which draws
    if not in_browser and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the screen needs a terminal; `kerneltui watch SESSION` prints events, `show --json` prints data."
        )
    if not in_browser and os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("TERM is `dumb`, which cannot draw a screen; use `kerneltui watch SESSION`.")
    if in_browser:
        from kerneltui.commands.web import end_with_server

        end_with_server()
    try:
        from kerneltui.tui.app import run as run_app
    except ImportError as error:
        raise MachineError(
            f"the screen needs the package `{error.name}`: pip install textual textual-plotext."
        ) from error
    return run_app(folder, theme=theme, ascii_only=ascii_only)


@click.command()
@click.argument("session", required=False)
@click.option("--start", is_flag=True, help="Start the engine in the background if it is not running.")
@click.option("--theme", help="A name from themes/, or one of your own.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
def attach(session: str | None, start: bool, theme: str | None, ascii_only: bool) -> None:
    """Open the screen on SESSION, or on the list of sessions. Leaving it never stops a search."""
    folder = find_session(session) if session else None
    if start and folder is not None:
        from kerneltui.tui.engines import start_engine

        start_engine(folder)
    sys.exit(open_screen(folder, theme, ascii_only))


@click.command()
@click.argument("session")
@click.option("--plain", is_flag=True, help="Accepted for clarity; this is always plain.")
@click.option("--follow/--no-follow", default=True, show_default=True, help="Go on until the engine ends.")
def watch(session: str, plain: bool, follow: bool) -> None:
    """One line per event of SESSION, with no cursor movement: for logs, scripts and screen readers."""
    from kerneltui.tui.engines import is_running

    with Store.open(find_session(session)) as store:
        last = 0
        while True:
            for event in store.read_events(after=last):
                last = event.id
                clock = time.strftime("%H:%M:%S", time.localtime(event.created))
                click.echo(printable(f"{clock}  {event.who:10} {event.text}").replace("\n", " "))
            if not follow or not is_running(store.read_status()):
                return
            time.sleep(0.2)


DEMO_CPU = {"rounds": 3, "ideas": 4, "variants": 2, "beam": 2, "sweep_points": 3}
DEMO_CUDA = {"rounds": 3, "ideas": 4, "variants": 2, "beam": 3, "sweep_points": 6}


@click.command()
@click.option("--headless", is_flag=True, help="No screen: one line per event and a final table.")
@click.option("--problem", default="softmax", show_default=True, help="One with a playbook.")
@click.option("--device", default="auto", show_default=True, help="auto, cuda or cpu.")
@click.option("--json", "as_json", is_flag=True, help="With --headless: the tree as JSON on stdout at the end.")
def demo(headless: bool, problem: str, device: str, as_json: bool) -> None:
    """A real search on the best local device with the built-in playbook: no GPU, no key and no network needed."""
    from kerneltui.commands.sessions import free_name
    from kerneltui.evaluator.devices import find_device, missing
    from kerneltui.problems import load_problem

    found = find_device(device)
    click.echo(f"searching {problem} on {found.name} ({found.kind})", err=True)
    if found.kind == "cpu":
        for words in missing("cuda"):
            click.echo(f"  for CUDA kernels: {words}", err=True)
    widths = DEMO_CUDA if found.kind == "cuda" else DEMO_CPU
    settings = Settings(problem=problem, device=found.id, **widths)  # type: ignore[arg-type]
    root = sessions_folder()
    folder = create_session(
        load_problem(problem), settings, str(root / free_name(root, f"demo-{problem}")), check=False
    )
    if headless or not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.exit(run_in_foreground(folder, as_json))
    from kerneltui.tui.engines import start_engine

    start_engine(folder)
    sys.exit(open_screen(folder))
