"""The screen on a real pseudo-terminal: first paint, key to paint, bytes a second, processor time, memory.

    python bench/screen.py [--rows 1000 10000 100000] [--size 160x48] [--json]

A made-up session is written, the real program is started on it, and this process plays terminal and engine: 8 running
rows change four times a second and two variants a second are new. The last line with --json is one JSON object.
Byte code is compiled before, as an installation has it. `textual_s` is what a program takes that only imports Textual,
measured beside every run: on a busy machine, read the times as multiples of it, and `load` says how busy it was. Processor
time is the steadier figure: `first_paint_cpu_s` is the program's own until then. `first_paint_s` ends when rows of the tree
are on the terminal, `loaded_s` when the counts of all rounds are.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tui")]

import sessions  # noqa: E402 - beside the tests, not in the package
from kerneltui.records import SessionState, Variant, VariantState  # noqa: E402
from kerneltui.store import Store  # noqa: E402

PROGRAM = "import sys; from pathlib import Path; from kerneltui.tui.app import run; sys.exit(run(Path(sys.argv[1])))"
KEYS = 60
IDLE_S, LIVE_S = 6.0, 10.0


def environment(cache: Path) -> dict[str, str]:
    """A person's terminal, with byte code kept in `cache`."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
    return {**found, "PYTHONPYCACHEPREFIX": str(cache)}


def import_s(module: str, cache: Path, times: int = 5) -> float:
    """The quickest of some starts of Python that import one module."""
    found = []
    for _ in range(times):
        before = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], env=environment(cache), check=True)
        found.append(time.perf_counter() - before)
    return min(found)


class Terminal:
    """The program under test and everything that it writes, with times."""

    def __init__(self, folder: Path, cache: Path, width: int, height: int) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)], stdin=slave, stdout=slave, stderr=slave,
            env=environment(cache), start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.received, self.arrived = bytearray(), self.started

    def read(self, seconds: float) -> tuple[int, float | None]:
        """Bytes within so long, and when the first came."""
        end, count, first = time.perf_counter() + seconds, 0, None
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            self.arrived = time.perf_counter()
            first = first or self.arrived
            count += len(data)
            self.received += data
        return count, first

    def wait(self, pattern: bytes, seconds: float = 30.0) -> float:
        """Seconds from the start of the program until what it wrote holds a pattern.

        Raises:
            TimeoutError: it never came.
        """
        end = time.perf_counter() + seconds
        while re.search(pattern, self.received) is None:
            if time.perf_counter() > end:
                raise TimeoutError(f"{pattern!r} was not written within {seconds} s")
            self.read(0.05)
        return self.arrived - self.started

    def key(self, text: bytes) -> float | None:
        """Seconds from a key to the first byte of its paint."""
        self.read(0.05)
        before = time.perf_counter()
        os.write(self.master, text)
        _, first = self._first(1.0)
        return None if first is None else first - before

    def _first(self, seconds: float) -> tuple[int, float | None]:
        if not select.select([self.master], [], [], seconds)[0]:
            return 0, None
        data = os.read(self.master, 65536)
        self.received += data
        return len(data), time.perf_counter()

    def close(self) -> None:
        """End it as a person would."""
        os.write(self.master, b"q")
        end = time.perf_counter() + 10
        while self.process.poll() is None and time.perf_counter() < end:
            self.read(0.1)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)


class Engine(threading.Thread):
    """Plays the engine on the session."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.stopped = folder, threading.Event()

    def run(self) -> None:
        with Store.open(self.folder, write=True) as store:
            tree = store.read_tree()
            status = replace(tree.status, state=SessionState.RUNNING)
            idea = next(reversed(tree.ideas))
            number, turn = len(tree.variants), 0
            running = [v for v in tree.variants.values() if v.state is VariantState.RUNNING][:8]
            while not self.stopped.wait(0.25):
                turn += 1
                state = (VariantState.QUEUED, VariantState.RUNNING)[turn % 2]
                fresh = [replace(v, state=state) for v in running]
                if turn % 2:
                    number += 1
                    fresh.append(
                        Variant(id=f"v{number:05d}", idea=idea, round=tree.ideas[idea].round, created=time.time())
                    )
                store.put_variants(fresh)
                if turn % 4 == 0:
                    store.put_status(replace(status, heartbeat=time.time()))


def measure(rows: int, width: int, height: int) -> dict[str, float | int | None]:
    """Every figure for a session of so many variants."""
    with tempfile.TemporaryDirectory(prefix="kerneltui-bench-") as scratch:
        folder = sessions.large_session(Path(scratch) / "search", rows)
        with Store.open(folder, write=True) as store:
            store.put_status(replace(store.read_status(), state=SessionState.FINISHED, reason="bench"))
            row = row_beside_best(store)
        cache, load = Path(scratch) / "cache", os.getloadavg()[0]
        import_s("kerneltui.tui.app, kerneltui.commands.output", cache, 1)
        textual_s = import_s("textual.app", cache)
        terminal = Terminal(folder, cache, width, height)
        first_paint_s = terminal.wait(row)
        first_paint_cpu_s = processor_s(terminal.process.pid)
        seen = len(terminal.received)
        loaded_s = terminal.wait(rb"\d waiting")  # the counts of all rounds are there
        terminal.read(1.5)
        process = psutil.Process(terminal.process.pid)
        before_s = processor_s(process.pid)
        latencies = sorted(found for _ in range(KEYS) if (found := terminal.key(b"j")) is not None)
        key_cpu_s = (processor_s(process.pid) - before_s) / KEYS
        terminal.read(1.0)
        idle_bytes, idle_cpu = _watch(terminal, process, IDLE_S)
        engine = Engine(folder)
        engine.start()
        terminal.read(4.0)  # the banner of the finished search goes, and the screen is laid out anew
        live_bytes, live_cpu = _watch(terminal, process, LIVE_S)
        live_keys = sorted(found for _ in range(KEYS) if (found := terminal.key(b"k")) is not None)
        engine.stopped.set()
        engine.join()
        memory = process.memory_info().rss
        terminal.close()
    return {
        "variants": rows,
        "load": round(load, 2),
        "textual_s": round(textual_s, 3),
        "first_paint_s": round(first_paint_s, 3),
        "first_paint_cpu_s": round(first_paint_cpu_s, 3),
        "loaded_s": round(loaded_s, 3),
        "first_screen_bytes": seen,
        "key_p50_ms": _at(latencies, 0.5),
        "key_p95_ms": _at(latencies, 0.95),
        "key_cpu_ms": round(1000 * key_cpu_s, 2),
        "key_live_p95_ms": _at(live_keys, 0.95),
        "idle_bytes_s": round(idle_bytes / IDLE_S),
        "idle_cpu_percent": round(100 * idle_cpu / IDLE_S, 2),
        "live_bytes_s": round(live_bytes / LIVE_S),
        "live_cpu_percent": round(100 * live_cpu / LIVE_S, 2),
        "memory_mb": round(memory / 1e6, 1),
        "exit_status": terminal.process.returncode,
    }


def row_beside_best(store: Store) -> bytes:
    """What the tree shows beside the best variant, where its cursor stands first, and no other pane does."""
    tree = store.read_tree()
    best = tree.variants[tree.status.best or ""]
    others = [variant.id for variant in tree.of_idea(best.idea or "") if variant.id != best.id]
    return "|".join(others).encode()


def _watch(terminal: Terminal, process: psutil.Process, seconds: float) -> tuple[int, float]:
    before = processor_s(process.pid)
    count, end = 0, time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        count += terminal.read(left)[0]
    return count, processor_s(process.pid) - before


def processor_s(pid: int) -> float:
    """Processor time of all threads, as the scheduler counts it: /proc/PID/stat has steps of 10 ms."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in files) / 1e9


def _at(ordered: list[float], share: float) -> float | None:
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1) if ordered else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10000, 100000])
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    results = []
    for rows in options.rows:
        results.append(measure(rows, width, height))
        if not options.json:
            print("  ".join(f"{name} {value}" for name, value in results[-1].items()), flush=True)
    if options.json:
        print(json.dumps({"bench": "screen", "size": options.size, "results": results}))


if __name__ == "__main__":
    main()
