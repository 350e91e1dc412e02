"""How a runner's end reads in words, and which outcome it is."""

from __future__ import annotations

import re
import signal

from kerneltui.judge.runners import RunnerEnded, RunnerGarbled, RunnerMultiplied, RunnerRefused, RunnerSilent
from kerneltui.records import Outcome, Stage

SIGNALS = {
    signal.SIGSEGV: "it read or wrote an address that is not its own, or ran out of stack",
    signal.SIGBUS: "it touched memory that does not exist",
    signal.SIGFPE: "a whole number was divided by zero",
    signal.SIGILL: "it ran an instruction that this processor does not have",
    signal.SIGABRT: "it called abort",
    signal.SIGKILL: "something killed it, most likely for its use of memory",
    signal.SIGSYS: "it made a system call that candidates may not make",
}
WHERE = {Stage.LOAD: "while it was loaded", Stage.CHECK: "when it was called", Stage.TIME: "while it was timed"}
THROWN = re.compile(r"terminate called after throwing an instance of '([^']+)'(?:\s+what\(\):\s*(.*))?")
NO_MEMORY = re.compile(r"std::bad_alloc|out of memory|cannot allocate memory", re.IGNORECASE)


def death_of(error: Exception, output: str, stage: Stage, deadline_s: float) -> tuple[Outcome, str]:
    """Outcome and sentence for a runner that gave no answer."""
    where = WHERE.get(stage, "when it was called")
    if isinstance(error, RunnerSilent):
        return Outcome.TIMEOUT, f"no end within {deadline_s:g} s {where}; it was killed"
    if isinstance(error, RunnerGarbled):
        return Outcome.SUSPECT, f"something other than the runner wrote into its pipe {where}: {error}"
    if isinstance(error, RunnerMultiplied):
        return Outcome.LAUNCH_ERROR, f"its process was stopped {where}: {error}"
    if isinstance(error, RunnerRefused):
        return refused(str(error), where)
    assert isinstance(error, RunnerEnded)
    thrown = THROWN.search(output)
    if error.status < 0:
        return killed(signal.Signals(-error.status), thrown, output, where)
    return (
        Outcome.LAUNCH_ERROR,
        f"its process ended itself {where}, with exit status {error.status}, and gave no answer",
    )


def killed(number: signal.Signals, thrown: re.Match[str] | None, output: str, where: str) -> tuple[Outcome, str]:
    if number is signal.SIGABRT and thrown is not None:
        kind, what = thrown[1], (thrown[2] or "").strip()
        said = f": {what}" if what else ""
        if NO_MEMORY.search(kind + said):
            return Outcome.OUT_OF_MEMORY, f"it asked for more host memory than there is {where} ({kind}{said})"
        return Outcome.LAUNCH_ERROR, f"a C++ exception left its function {where} ({kind}{said})"
    if number is signal.SIGKILL or (number is signal.SIGABRT and NO_MEMORY.search(output)):
        return Outcome.OUT_OF_MEMORY, f"its process was killed {where}: {SIGNALS[signal.SIGKILL]}"
    reason = SIGNALS.get(number, "")
    return Outcome.LAUNCH_ERROR, f"it crashed {where} with {number.name}" + (f": {reason}" if reason else "")


def refused(text: str, where: str) -> tuple[Outcome, str]:
    if NO_MEMORY.search(text) or text.startswith("MemoryError"):
        return Outcome.OUT_OF_MEMORY, f"out of memory {where}: {text}"
    symbol = re.search(r"undefined symbol: (\S+)", text)
    if symbol:
        return Outcome.LAUNCH_ERROR, (
            f"its library does not define `{symbol[1].rstrip(',')}`; the contract's function must be "
            'extern "C" and keep its name'
        )
    return Outcome.LAUNCH_ERROR, f"it failed {where}: {text}"
