"""NVIDIA's compute-sanitizer over one plain call of a candidate, for those that are to be certified.

A tool that cannot be run here is a skipped check with its reason; only errors that it names count against anybody.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneltui.judge.bench import Set
from kerneltui.judge.runners import Runner, RunnerFailure
from kerneltui.records import CheckResult

if TYPE_CHECKING:
    from kerneltui.judge.trial import Trial

# Not initcheck: what the judge wrote into lent memory is unknown to it.
TOOLS = ("memcheck", "racecheck", "synccheck")
DEADLINE_S = 60.0  # of one tool: kernels run up to fifty times slower under it
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
FIRST = re.compile(r"^=+ +((?:Invalid|Uninitialized|Error|Race|Warning|Program hit|Misaligned)[^\n]*)", re.M)


def find_sanitizer() -> str | None:
    """Path of the tool: on PATH, or in the toolkit."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = os.pathsep.join(os.path.join(home, "bin") for home in homes if home)
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=folders)


def sanitize(trial: Trial, filled: Set) -> list[tuple[str, CheckResult, str]]:
    """(name, result, detail) of every tool."""
    program = find_sanitizer()
    if program is None:
        return [("sanitizers", CheckResult.SKIPPED, "compute-sanitizer was not found; it is part of the CUDA toolkit")]
    return [(f"sanitizer {tool}", *run_tool(trial, filled, [program, "--tool", tool])) for tool in TOOLS]


def run_tool(trial: Trial, filled: Set, prefix: Sequence[str]) -> tuple[CheckResult, str]:
    """One tool over one call."""
    runner = trial.lane.start(trial.bench, trial.request, prefix=prefix)
    filled.slot.poison()
    trial.bench.poison_workspace()
    trial.lane.settle()
    failure = ""
    try:
        runner.ask("open", DEADLINE_S, **{**trial.lane.spec(trial.bench, trial.request, runner), "filter": False})
        if trial.workspace is not None and trial.bench.arena.grant:
            runner.ask("lend", DEADLINE_S, **trial.bench.arena.grant)
        symbols = list(filled.workload.symbols)
        runner.ask("call", DEADLINE_S, offsets=filled.slot.offsets, symbols=symbols, workspace=trial.workspace)
    except RunnerFailure as error:
        failure = f"{type(error).__name__} {error}".strip()
    output = finish(runner)
    return read_summary(output, failure)


def finish(runner: Runner) -> str:
    """Let the tool end by itself, since its summary comes last."""
    runner.hang_up()
    output = runner.output.last_words(patience_s=10.0)
    runner.close()
    return output


def read_summary(output: str, failure: str) -> tuple[CheckResult, str]:
    """What the tool found."""
    found = SUMMARY.search(output)
    if found is None:
        tail = output.strip().split("\n")[-1][:200]
        return CheckResult.SKIPPED, f"it gave no summary ({failure or tail or 'no output'})"
    count = int(found[1] or found[2])
    if count:
        first = FIRST.search(output)
        return CheckResult.FAIL, f"{count} errors" + (f", first: {first[1].strip()}" if first else "")
    return (CheckResult.SKIPPED, f"the call did not end under it ({failure})") if failure else (CheckResult.PASS, "")
