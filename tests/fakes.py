"""An evaluator that reads the verdict off the source, and an author that writes such sources. No process, no network.

// time_us: 120          median of a correct kernel; `TIMES_<NAME>_<VALUE>: 0.5` scales it under a define
// outcome: mismatch     any other outcome
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kerneltui.authors import Answer, Ask, IdeaDraft, Reply
from kerneltui.errors import AuthorError, MachineError
from kerneltui.records import (
    AuthorSettings,
    Badge,
    Candidate,
    Check,
    Contract,
    Device,
    Figure,
    KernelProfile,
    Language,
    Measurement,
    Outcome,
    Problem,
    Profile,
    Speedup,
    Stage,
    VariantState,
    Verdict,
)

DEVICE = Device(id="cpu:0", kind="cpu", name="Fake CPU", architecture="x86-64-v3", toolkit="g++ 12", compiler="g++")
BASELINE_US = 1000.0


def device(name: str = "Fake CPU") -> Device:
    """A CPU of another make."""
    return replace(DEVICE, name=name, id=f"cpu:{name}")


@dataclass(frozen=True)
class FakePrepared:
    device: Device
    contract: Contract | None
    baselines_us: dict[str, float]
    floor_us: float | None
    notes: tuple[str, ...]
    checks: tuple[Check, ...]
    facts: dict[str, str]


@dataclass
class FakeEvaluator:
    """Judges by what the source says of itself."""

    device: Device = DEVICE
    delay_s: float = 0.0
    faults: list[MachineError] = field(default_factory=list)  # raised first, one a call
    hold: asyncio.Event | None = None  # when given, judging waits for it
    judged: list[Candidate] = field(default_factory=list)
    certified: list[Candidate] = field(default_factory=list)
    uncountable: str = ""  # why nothing can be profiled
    beams_us: list[float | None] = field(default_factory=list)
    cancelled: int = 0
    closed: bool = False
    disturbed: int = 0  # so many verdicts come without a ratio to trust

    async def prepare(self) -> FakePrepared:
        contract = Contract(function="fake", language=Language.CPP, tensors=(), header="// fake")
        return FakePrepared(self.device, contract, {"eager": BASELINE_US}, 10.0, ("a note",), (), {})

    def worlds(self) -> tuple[str, ...]:
        return (self.device.world,)

    async def judge(
        self,
        candidate: Candidate,
        *,
        full: bool = True,
        beam_us: float | None = None,
        on_state: Callable[[VariantState, str], None] | None = None,
    ) -> Verdict:
        if self.faults:
            raise self.faults.pop(0)
        tell = on_state or (lambda state, worker: None)
        try:
            tell(VariantState.COMPILING, "compile")
            await asyncio.sleep(self.delay_s)
            tell(VariantState.RUNNING, "cpu 0")
            if self.hold is not None:
                await self.hold.wait()
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.judged.append(candidate)
        self.beams_us.append(None if full else beam_us)
        verdict = verdict_on(candidate, self.device, self.beams_us[-1])
        if self.disturbed and verdict.measurement:
            self.disturbed -= 1
            return replace(verdict, measurement=replace(verdict.measurement, badge=Badge.UNTRUSTED, speedup={}))
        return verdict

    async def certify(self, candidate: Candidate) -> Verdict:
        await asyncio.sleep(self.delay_s)
        self.certified.append(candidate)
        verdict = verdict_on(candidate, self.device, None)
        if verdict.measurement is None:
            return verdict
        if self.disturbed:
            self.disturbed -= 1
            measured = replace(verdict.measurement, badge=Badge.UNTRUSTED, speedup={}, disturbances=("a neighbour",))
            return replace(verdict, measurement=measured)
        return replace(verdict, measurement=replace(verdict.measurement, badge=Badge.CERTIFIED))

    async def profile(self, candidate: Candidate) -> Profile:
        if self.uncountable:
            raise MachineError(self.uncountable)
        await asyncio.sleep(self.delay_s)
        kernel = KernelProfile(name="fake", figures=(Figure(name="DRAM throughput", value=61.5, unit="%"),))
        return Profile(tool="fake", kernels=(kernel,), device=self.device, created=1.0)

    async def aclose(self) -> None:
        self.closed = True


def verdict_on(candidate: Candidate, where: Device, beam_us: float | None = None) -> Verdict:
    """What the source says of itself."""
    outcome = Outcome(_said(candidate.source, "outcome", "correct"))
    if outcome is not Outcome.CORRECT:
        return Verdict(outcome=outcome, stage=Stage.CHECK, message="as scripted", device=where, world=where.world)
    time_us = float(_said(candidate.source, "time_us", "500"))
    for name, value in candidate.defines:
        time_us *= float(_said(candidate.source, f"TIMES_{name}_{value}", "1"))
    screened = beam_us is not None and time_us > beam_us
    ratio = BASELINE_US / time_us
    speedup = Speedup(ratio=ratio, low=ratio * 0.999, high=ratio * 1.001, tie=False, pairs=8)
    measurement = Measurement(
        method="calls",
        median_us=time_us,
        low_us=time_us * 0.999,
        high_us=time_us * 1.001,
        baselines_us={"eager": BASELINE_US},
        speedup={"eager": speedup},
        screened=screened,
    )
    return Verdict(
        outcome=outcome, stage=Stage.DONE, measurement=measurement, device=where, world=where.world, message="correct"
    )


def _said(source: str, key: str, otherwise: str) -> str:
    found = re.search(rf"//\s*{key}:\s*(\S+)", source)
    return found.group(1) if found else otherwise


@dataclass
class FakeAuthor:
    """Writes ever faster kernels, every third a wrong one; `failures` come first. Each request is logged."""

    settings: AuthorSettings = field(default_factory=lambda: AuthorSettings(kind="openai", model="fake"))
    cost_usd: float | None = 0.01
    worst_usd: float | None = 0.02
    worst_tokens: int | None = 2000
    delay_s: float = 0.0
    limited_s: float = 0.0  # what its provider still makes it wait
    failures: list[AuthorError] = field(default_factory=list)
    log: Path | None = None
    asked: list[Ask] = field(default_factory=list)
    script: Callable[[Ask, int], Answer] | None = None

    @property
    def name(self) -> str:
        return self.settings.label

    def prepare(self, ask: Ask) -> Ask:
        prompt = f"{ask.purpose} {ask.idea.id if ask.idea else ''} {ask.index}"
        return replace(ask, prompt=prompt, worst_usd=self.worst_usd, worst_tokens=self.worst_tokens)

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        self.asked.append(ask)
        number = len(self.asked)
        self._note("asked", ask)
        await asyncio.sleep(self.delay_s)
        if on_text is not None:
            on_text("some text")
        if self.failures:
            raise self.failures.pop(0)
        made = (self.script or self._answer)(ask, number)
        self._note("answered", ask)
        reply = Reply(text="an answer", model="fake", finish_reason="stop", tokens_in=100, tokens_out=200)
        return replace(made, reply=replace(reply, cost_usd=self.cost_usd, latency_s=self.delay_s))

    def waits_s(self) -> float:
        return self.limited_s

    async def aclose(self) -> None:
        pass

    def _answer(self, ask: Ask, number: int) -> Answer:
        if ask.purpose == "ideas":
            parent = ask.material.parent.id if ask.material.parent else "reference"
            return Answer(ideas=tuple(self._idea(parent, ask.material.round, n) for n in range(ask.count)))
        time_us = 900.0 / (1 + ask.material.round) + number
        wrong = "// outcome: mismatch\n" if number % 3 == 0 and ask.purpose == "write" else ""
        source = f"{wrong}// time_us: {time_us}\nint fake;  // {ask.purpose} {number}\n"
        return Answer(source=source, language=Language.CPP, name=f"kernel {number}")

    def _idea(self, parent: str, round: int, number: int) -> IdeaDraft:
        words = ("vector loads", "shared tiles", "loop order", "prefetching", "fewer barriers", "warp shuffles")
        topic = words[(number + round) % len(words)]
        return IdeaDraft(
            title=f"{topic} {round}.{number} on {parent}", text=f"{topic * 3} because {parent} {round} {number}"
        )

    def _note(self, what: str, ask: Ask) -> None:
        if self.log is not None:
            entry: dict[str, Any] = {"what": what, "prompt": ask.prompt, "author": self.name}
            with self.log.open("a") as file:
                file.write(json.dumps(entry) + "\n")


STARTER = "// time_us: 800\nint fake;\n"
TUNED = """// time_us: 400
// tune: BLOCK = 64, 128, 256
// TIMES_BLOCK_64: 0.5
// TIMES_BLOCK_256: 2
#ifndef BLOCK
#define BLOCK 128
#endif
int fake;
"""

PLAYBOOK = """
[[idea]]
key = "tiles"
title = "Tiles"
text = "Work on tiles."
[[idea.variant]]
language = "cpp"
file = "cpp/tiles.cpp"
name = "tiles"

[[idea]]
key = "wide"
title = "Wide loads"
[[idea.variant]]
language = "cpp"
file = "cpp/wide.cpp"
[[idea.variant]]
language = "cpp"
file = "cpp/wide.cpp"
defines = { BLOCK = 64 }

[[idea]]
key = "wide-tiles"
title = "Wide loads into tiles"
builds_on = "tiles"
[[idea.variant]]
language = "cpp"
file = "cpp/best.cpp"
"""


def problem_folder(root: Path, *, playbook: str = PLAYBOOK, starter: str = STARTER) -> Problem:
    """A problem with a starter and a playbook of three cards."""
    folder = root / "fake"
    (folder / "cpp").mkdir(parents=True)
    (folder / "starter.cpp").write_text(starter)
    (folder / "cpp" / "tiles.cpp").write_text("// time_us: 600\nint fake;  // tiles\n")
    (folder / "cpp" / "wide.cpp").write_text(TUNED)
    (folder / "cpp" / "best.cpp").write_text("// time_us: 150\nint fake;  // best\n")
    if playbook:
        (folder / "playbook.toml").write_text(playbook)
    return Problem(
        name="fake", title="Fake", source="class Model: ...", path=str(folder / "reference.py"), folder=str(folder)
    )
