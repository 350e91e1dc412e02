"""One candidate under a profiler: a plain call on a GPU, a second's worth of timed calls on a host. No verdict comes of it.

The words before the runner's are the evaluator's; `{folder}` in them is a folder that lives as long as the run.
"""

from __future__ import annotations

import os
import select
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerneltui.judge.fallen import Fallen
from kerneltui.judge.runners import RunnerFailure, RunnerSilent
from kerneltui.judge.trial import Trial

REPORT = "report.csv"
COUNTED_NS = 0.5e9  # of calls that are counted on a host
MOST_CALLS = 4096
FEWEST_CALLS = 3
CONTROL_S = 5.0  # perf answers at once, or is not there
END_S = 60.0  # ncu writes its report when the runner has ended
REPORT_LIMIT_BYTES = 16 << 20


def profile(trial: Trial, prefix: Sequence[str]) -> dict[str, Any]:
    """What the tool wrote, what was printed, how often it was called, and why it failed, if it did."""
    with tempfile.TemporaryDirectory(prefix="kerneltui-profile-", ignore_cleanup_errors=True) as folder:
        words = [word.replace("{folder}", folder) for word in prefix]
        gate = Gate(Path(folder)) if any("fifo:" in word for word in words) else None
        failure, figures = "", dict[str, Any]()
        trial.runner = trial.lane.start(trial.bench, trial.request, prefix=words)
        try:
            figures = on_device(trial) if trial.bench.device.type == "cuda" else on_host(trial, gate)
        except Fallen as fallen:
            failure = fallen.message
        except RunnerFailure as error:
            failure = f"{type(error).__name__} {error}".strip()
        finally:
            output = finish(trial)
            if gate is not None:
                gate.close()
        return {"output": output, "report": report_in(Path(folder)), "failure": failure, **figures}


def begin(trial: Trial) -> None:
    """Fresh inputs in every set of the ring, the library loaded, its workspace laid."""
    trial.ring = trial.fill_ring(0, len(trial.bench.slots))
    trial.open()
    trial.workspace = trial.workspace_for(trial.bench.main)
    trial.bench.poison_workspace()
    trial.lane.settle()


def on_device(trial: Trial) -> dict[str, Any]:
    """One plain call: the tool runs each kernel of it as often as it has counters to read."""
    begin(trial)
    filled = trial.ring[0]
    symbols = list(filled.workload.symbols)
    answer = trial.ask("call", offsets=filled.slot.offsets, symbols=symbols, workspace=trial.workspace)
    failure = str(answer.get("fault") or "")
    return {"calls": 1, "elapsed_ns": answer.get("elapsed_ns", 0)} | ({"failure": failure} if failure else {})


def on_host(trial: Trial, gate: Gate | None) -> dict[str, Any]:
    """Calls over the whole ring, counted from the first that is not warm-up to the last."""
    begin(trial)
    symbols = list(trial.bench.main.symbols)
    ring = [filled.slot.offsets for filled in trial.ring]
    trial.ask("prepare", ring=ring, symbols=symbols, workspace=trial.workspace)
    order = list(range(len(ring)))
    warm_ns = run_slice(trial, order)
    calls = int(min(MOST_CALLS, max(FEWEST_CALLS, COUNTED_NS * len(order) / max(warm_ns, 1))))
    order = [entry % len(ring) for entry in range(calls)]
    trial.ask("line_up", order=order)
    if gate is not None:
        gate.open()
        elapsed_ns = trial.ask("slice")["elapsed_ns"]
        gate.shut()
        return {"calls": calls, "elapsed_ns": elapsed_ns}
    assert trial.runner is not None
    before = usage(trial.runner.process.pid)
    elapsed_ns = trial.ask("slice")["elapsed_ns"]
    after = usage(trial.runner.process.pid)
    return {"calls": calls, "elapsed_ns": elapsed_ns, "usage": {name: after[name] - before[name] for name in after}}


def run_slice(trial: Trial, order: Sequence[int]) -> float:
    """Time of one call after another, in ns."""
    trial.ask("line_up", order=list(order))
    return float(trial.ask("slice")["elapsed_ns"])


def finish(trial: Trial) -> str:
    """Let the runner end by itself and the tool after it; what both printed."""
    runner = trial.runner
    assert runner is not None
    if runner.closed:
        return runner.output.text()
    runner.hang_up()
    output = runner.output.last_words(patience_s=END_S)
    deadline = time.monotonic() + CONTROL_S
    while runner.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)  # its pipe is closed; its report may still be on the way to the file
    runner.close()
    return output


def report_in(folder: Path) -> str:
    """What the tool wrote, as far as it is no longer than any honest report."""
    try:
        with open(folder / REPORT, "rb") as file:
            return file.read(REPORT_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class Gate:
    """perf's two FIFOs: counting starts and stops when it is told."""

    def __init__(self, folder: Path) -> None:
        for name in ("control", "answer"):
            os.mkfifo(folder / name)
        # Both ends at once: an open for one alone would wait for perf.
        self.control = os.open(folder / "control", os.O_RDWR | os.O_CLOEXEC)
        self.answer = os.open(folder / "answer", os.O_RDWR | os.O_CLOEXEC)

    def open(self) -> None:
        """Count from here on."""
        self.tell(b"enable\n")

    def shut(self) -> None:
        """Count no more."""
        self.tell(b"disable\n")

    def tell(self, command: bytes) -> None:
        os.write(self.control, command)
        if not select.select([self.answer], [], [], CONTROL_S)[0]:
            raise RunnerSilent("the profiler did not answer")
        os.read(self.answer, 64)

    def close(self) -> None:
        """Let go of both."""
        os.close(self.control)
        os.close(self.answer)


def usage(pid: int) -> dict[str, float]:
    """Processor time in ns, page faults and context switches of a process, all its threads together."""
    folder = Path("/proc") / str(pid)
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    found = {"task-clock": 0.0, "page-faults": float(fields[7]) + float(fields[9]), "context-switches": 0.0}
    for thread in (folder / "task").iterdir():
        found["task-clock"] += float((thread / "schedstat").read_text().split()[0])
        switches = [line for line in (thread / "status").read_text().splitlines() if "ctxt_switches" in line]
        found["context-switches"] += sum(float(line.split()[1]) for line in switches)
    return found
