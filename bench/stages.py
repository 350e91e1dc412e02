"""The judge with a stopwatch in it: the same program, whose answers also say how long each part of a trial took.

Stopwatch       exclusive seconds by name
watch           put one around the parts of a verdict on this side: policy, compiler, binary check
hear_waits      how long other sessions kept us from a device
listen          have every judge that is started from here on time itself
main            the judge itself, timed (`python bench/stages.py`)
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

JUDGE_PARTS = (  # (module, class, method, name of the part)
    ("lanes", "HostLane", "start", "runner start"),
    ("lanes", "CudaLane", "start", "runner start"),
    ("trial", "Trial", "open", "runner start"),
    ("trial", "Trial", "finish", "runner end"),
    ("bench", "Bench", "fill", "inputs"),
    ("bench", "Bench", "expect", "eager answers"),
    ("bench", "Bench", "double_answer", "float64 answers"),
    ("bench", "Bench", "broken_guards", "guards"),
    ("arena", "Fingerprints", "of", "guards"),
    ("arena", "Fingerprints", "changed", "guards"),
    ("trial", "Trial", "call", "candidate's calls"),
    ("trial", "Trial", "findings", "comparing"),
    ("trial", "Trial", "measure", "around timing"),
    ("trial", "Trial", "check_timed", "timed outputs"),
    ("trial", "Trial", "label_precision", "precision class"),
    ("trial", "Trial", "sequence", "other checks"),
    ("desk", "Desk", "prepare", "other"),
    ("desk", "Desk", "floor", "floor"),
    ("reference", "Reference", "__init__", "reference"),
    ("bench", "Bench", "__init__", "buffers"),
)
JUDGE_FUNCTIONS = (  # functions, where they are called from
    ("trial", "measure", "timing"),
    ("desk", "check_fits", "memory check"),
    ("desk", "check_reference", "lint"),
)
WHOLE = ("timing", "timed outputs", "lint", "precision class", "floor")  # what they call counts as theirs


class Stopwatch:
    """Seconds by name; a part inside another counts once, for itself."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}
        self.inner_s: list[float] = []
        self.closed = 0

    @contextmanager
    def part(self, name: str, *, whole: bool = False) -> Iterator[None]:
        """What runs inside is this part's, except for parts within, unless it is taken as a whole."""
        if self.closed:
            yield
            return
        start = time.perf_counter()
        self.inner_s.append(0.0)
        self.closed += whole
        try:
            yield
        finally:
            self.closed -= whole
            spent = time.perf_counter() - start
            inside = self.inner_s.pop()
            self.spent_s[name] = self.spent_s.get(name, 0.0) + spent - inside
            if self.inner_s:
                self.inner_s[-1] += spent

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The function, timed."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.part(name, whole=name in WHOLE):
                return function(*arguments, **named)

        return timed

    def take(self) -> dict[str, float]:
        """What was spent since the last time."""
        found, self.spent_s = self.spent_s, {}
        return found


# --------------------------------------------------------------------------- this side


def watch(clock: Stopwatch) -> None:
    """Time the parts of `evaluator.compile.build`; one candidate at a time."""
    from kerneltui.evaluator import compile as compiling

    compiling.check_source = clock.around(compiling.check_source, "policy")  # type: ignore[assignment]
    compiling.check_binary = clock.around(compiling.check_binary, "binary check")  # type: ignore[assignment]
    run = compiling.run_killable

    async def timed(argv: Any, **named: Any) -> Any:
        linking = "-shared" in argv and any(str(word).endswith(".o") for word in argv)
        name = "link" if linking else "cubin" if "-cubin" in argv else "compile"
        with clock.part(name):
            return await run(argv, **named)

    compiling.run_killable = timed


def listen(heard: Callable[[dict[str, float]], None]) -> None:
    """Start judges as this file, and hear the parts of every answer."""
    from kerneltui.evaluator import judges

    keeper, ask = judges.keeper, judges.JudgeProcess.ask

    async def asked(self: Any, operation: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        answer = await ask(self, operation, deadline_s, **fields)
        heard(answer.pop("stages", {}))
        return answer

    # The judge's own words follow these; this file runs the same program and ignores them.
    judges.keeper = lambda **limits: [*keeper(**limits), sys.executable, str(Path(__file__).resolve())]
    judges.JudgeProcess.ask = asked  # type: ignore[method-assign]


def hear_waits(heard: Callable[[float, float], None]) -> None:
    """Hear from when to when a device's lock was waited for: other sessions on this machine hold it for their jobs."""
    from kerneltui.evaluator import supervisor

    alone_on = supervisor.alone_on

    @asynccontextmanager
    async def timed(device: Any, say: Callable[[str], None]) -> AsyncIterator[None]:
        start = time.perf_counter()
        async with alone_on(device, say):
            heard(start, time.perf_counter())
            yield

    supervisor.alone_on = timed


# --------------------------------------------------------------------------- the judge's side


def main() -> int:
    """The judge, with its parts timed."""
    import importlib

    from kerneltui.judge import __main__ as judge

    clock = Stopwatch()
    modules = {name: importlib.import_module(f"kerneltui.judge.{name}") for name, *_ in JUDGE_PARTS}
    for module, owner, method, name in JUDGE_PARTS:
        kind = getattr(modules[module], owner, None)
        if kind is not None and method in vars(kind):
            setattr(kind, method, clock.around(vars(kind)[method], name))
    for module, function, name in JUDGE_FUNCTIONS:
        if hasattr(modules[module], function):
            setattr(modules[module], function, clock.around(getattr(modules[module], function), name))
    carry_out = judge.Desk.carry_out

    def timed(desk: Any, command: dict[str, Any]) -> dict[str, Any]:
        clock.take()
        start = time.perf_counter()
        answer = carry_out(desk, command)
        spent = clock.take()
        return {**answer, "stages": {**spent, "all of it": time.perf_counter() - start}}

    judge.Desk.carry_out = timed  # type: ignore[method-assign]
    return judge.main()


if __name__ == "__main__":
    import os

    os._exit(main())
