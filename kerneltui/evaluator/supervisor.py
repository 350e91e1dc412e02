"""From candidates to verdicts: policy, compile, queue, judge, retry; one judge per device.

Evaluator       prepare, judge, certify, profile, aclose
Prepared        what the judge learnt of the problem
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kerneltui.contract import contract_from_description
from kerneltui.errors import DeviceLost, JudgeFailed, MachineError, ProblemError
from kerneltui.evaluator import profiling
from kerneltui.evaluator.bays import Bay, worker_name
from kerneltui.evaluator.compile import Build, build
from kerneltui.evaluator.devices import NO_GPU, offline_cuda_device
from kerneltui.evaluator.judges import START_S, JudgeDied, JudgeProcess
from kerneltui.evaluator.launches import stated_launches
from kerneltui.evaluator.locks import alone_on
from kerneltui.problems import size_sets, sized_source
from kerneltui.records import (
    Candidate,
    Check,
    Contract,
    Device,
    Language,
    Outcome,
    Problem,
    Profile,
    Settings,
    Stage,
    VariantState,
    Verdict,
)

log = logging.getLogger(__name__)

EVALUATOR_VERSION = 10  # raise when checks or timing change: older verdicts are not believed
SIZE_SETS_MOST = 6
PREPARE_S = 300.0
SPARE_S = 60.0  # of a judge's own work around a run, before it counts as silent
EAGER_CALLS = 160  # of the reference during one trial, at most: expectations, probes, float64, controls, baseline
MODULE_S = 200.0  # a module may compile with torch's own tools, twice
CERTIFY_S = 400.0  # torch.compile's modes and three sanitizers
DIED = "the judge died twice while this candidate ran: it attacks what judges it, or brings the machine to its limits"
IDLE_S = 600.0  # then a judge gives its memory back

OnState = Callable[[VariantState, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is known of a problem on a device before any candidate."""

    contract: Contract | None  # None: only module candidates are possible
    device: Device
    baselines_us: dict[str, float] = field(default_factory=dict)
    floor_us: float | None = None
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


class Evaluator:
    """Judges candidates for one problem on one or more devices of one kind."""

    def __init__(
        self,
        problem: Problem,
        devices: Sequence[Device],
        *,
        settings: Settings,
        cache: Path,
        scratch: Path | None = None,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self.problem = problem
        self.say = say  # hears what happens to devices
        self.settings = settings
        self.cache = cache
        self.tolerance = settings.tolerance or problem.tolerance
        self.bays = [Bay(device=device, judge=JudgeProcess(device, scratch)) for device in devices]
        self.free: asyncio.Queue[Bay] = asyncio.Queue()
        for bay in self.bays:
            self.free.put_nowait(bay)
        self.compiling = asyncio.Semaphore(max(1, len(os.sched_getaffinity(0))))
        self.prepared: Prepared | None = None
        self.description: dict[str, Any] = {}
        self.contracts: dict[Language, Contract | None] = {}
        self.closing: set[asyncio.Task[None]] = set()

    @property
    def device(self) -> Device:
        """The first device: facts about the problem are learnt there."""
        return self.bays[0].device

    # ------------------------------------------------------------------ preparing

    async def prepare(self) -> Prepared:
        """Start the first judge and let it learn the problem.

        Raises:
            ProblemError: the reference is no yardstick, or does not fit.
            MachineError: the device or the judge failed.
        """
        async with self.bay(lambda words: None) as bay:
            answer = await self.make_ready(bay)
        self.description = answer["description"]
        notes: list[str] = []
        contract: Contract | None = None
        try:
            contract = self.contract_for(native_language(self.device))
        except ProblemError as error:
            notes.append(str(error))
        checks = msgspec.convert(answer["checks"], tuple[Check, ...])
        self.prepared = Prepared(
            contract=contract,
            device=self.device,
            baselines_us=answer["baselines_us"],
            floor_us=answer.get("floor_us"),
            notes=(*notes, *(check.detail for check in checks if check.result.value == "note")),
            checks=checks,
            facts=answer["facts"],
        )
        return self.prepared

    async def make_ready(self, bay: Bay) -> dict[str, Any]:
        """Give a judge the problem; one restart if it fails on the way."""
        command = self.problem_command(bay.device)
        for attempt in (1, 2):
            try:
                answer = await bay.judge.ask("prepare", START_S + PREPARE_S, **command)
                bay.ready, bay.used = True, False
                return answer
            except JudgeFailed:
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def problem_command(self, device: Device) -> dict[str, Any]:
        """The problem as a judge reads it: sources with sizes filled in, largest last."""
        # A few of many combinations: always the smallest and the largest.
        choices = size_sets(self.problem, device.kind, self.settings.sizes)
        step = max(1, -(-(len(choices) - 1) // (SIZE_SETS_MOST - 1)))
        kept = [*choices[:-1:step], choices[-1]]
        return {
            "path": self.problem.path,
            "tolerance": self.tolerance,
            "allow_nan": self.problem.allow_nan,
            "device": asdict(device),
            "sets": [
                {
                    "symbols": {
                        name: choice[name] for name in self.problem.symbolic if name not in self.settings.sizes
                    },
                    "source": sized_source(self.problem, device.kind, choice),
                }
                for choice in kept
            ],
        }

    def contract_for(self, language: Language) -> Contract | None:
        """The C signature in a language; None for modules.

        Raises:
            ProblemError: this problem has none.
        """
        if language is Language.PYTHON:
            return None
        if language not in self.contracts:
            self.contracts[language] = contract_from_description(self.problem, self.description, language)
        return self.contracts[language]

    # ------------------------------------------------------------------ judging

    async def judge(
        self,
        candidate: Candidate,
        *,
        full: bool = True,
        beam_us: float | None = None,
        on_state: OnState | None = None,
    ) -> Verdict:
        """The verdict on a candidate; cancelling ends its work.

        Raises:
            MachineError: this machine is at fault; the candidate is not judged.
        """
        if self.prepared is None:
            await self.prepare()
        tell = on_state or (lambda state, worker: None)
        target = self.target_of(candidate)
        try:
            contract = self.contract_for(candidate.language)
        except ProblemError as error:
            return self.finished(Verdict(outcome=Outcome.NOT_RUN, stage=Stage.COMPILE, message=str(error)), None, None)
        async with self.compiling:
            tell(VariantState.COMPILING, "compile")
            built = await build(candidate, contract, target, policy=self.settings.policy, cache=self.cache)
        if isinstance(built, Verdict):
            return self.finished(built, None, contract)
        reason = self.why_not_run(candidate)
        if reason:
            verdict = Verdict(outcome=Outcome.NOT_RUN, stage=Stage.COMPILE, message=reason)
            return self.finished(verdict, built, contract)
        tell(VariantState.QUEUED, "")
        return self.finished(await self.run(candidate, built, contract, full, beam_us, tell), built, contract)

    def target_of(self, candidate: Candidate) -> Device:
        """The device to compile for: an architecture where no GPU is at hand."""
        if candidate.language is Language.CUDA and self.device.kind == "cpu":
            return offline_cuda_device()
        return self.device

    def why_not_run(self, candidate: Candidate) -> str:
        """Why a compiled candidate cannot be run here; "" when it can."""
        if self.device.id == NO_GPU:
            return f"compiled for {self.device.architecture}; there is no GPU here to run it on"
        if candidate.language is Language.CUDA and self.device.kind == "cpu":
            return f"compiled; {self.device.name} cannot run CUDA"
        if candidate.language is Language.CPP and self.device.kind == "cuda":
            return "compiled; a C++ candidate runs on a CPU device, and this session's is a GPU"
        return ""

    async def run(
        self,
        candidate: Candidate,
        built: Build,
        contract: Contract | None,
        full: bool,
        beam_us: float | None,
        tell: OnState,
        certify: bool = False,
    ) -> Verdict:
        """Judge a build on the first free device; one retry on a fresh judge when one fails, another device when one is lost."""
        request = {
            "library": str(built.library),
            "function": contract.function if contract else "",
            "module": candidate.language is Language.PYTHON,
            "deadline_s": self.settings.deadline_s,
            "full": full,
            "beam_us": beam_us,
            "certify": certify,
            "lower_precision": self.settings.policy.lower_precision,
            "resources": [asdict(kernel) for kernel in built.resources],
            "launches": stated_launches(candidate.source, known_sizes(candidate, contract)),
        }
        deaths = failures = 0  # deaths: of a judge that had begun with this candidate
        while True:
            async with self.bay(lambda words: tell(VariantState.QUEUED, words)) as bay:
                tell(VariantState.RUNNING, worker_name(bay.device))
                began = False
                try:
                    if certify and bay.used:
                        await bay.stop()  # what an earlier candidate may have left there vouches for nobody
                    if not (bay.ready and bay.judge.running):
                        await self.make_ready(bay)
                    began = bay.used = True
                    answer = await bay.judge.ask("judge", self.patience_s(request), request=request)
                    verdict = msgspec.convert(answer["verdict"], Verdict)
                    return replace(verdict, device=bay.device)
                except DeviceLost as error:
                    await bay.stop()
                    if not self.retire(bay, error):
                        raise
                    tell(VariantState.QUEUED, f"{bay.device.id} is lost")
                except (JudgeFailed, msgspec.ValidationError) as error:
                    bay.ready = False
                    failures += 1
                    deaths += began and isinstance(error, JudgeDied)
                    if deaths == 2:
                        return Verdict(outcome=Outcome.SUSPECT, stage=Stage.CHECK, message=DIED, device=bay.device)
                    if failures == 2:
                        raise JudgeFailed(f"{error} Tried twice; the candidate is not judged.") from error

    def retire(self, bay: Bay, error: DeviceLost) -> bool:
        """Ask a lost device no more, while there is another; its work goes back to the queue."""
        if not any(other is not bay and not other.lost for other in self.bays):
            return False  # the last one is tried again: it may have come back
        bay.lost = True
        self.say(f"{bay.device.id} is lost and its work goes to the others: {error}")
        return True

    def patience_s(self, request: dict[str, Any]) -> float:
        """How long a judge may be at one candidate before it counts as silent."""
        slow = self.prepared.baselines_us.get("eager", 0.0) / 1e6 * EAGER_CALLS if self.prepared else 0.0
        extra = MODULE_S * bool(request["module"]) + CERTIFY_S * bool(request["certify"])
        return self.settings.deadline_s + SPARE_S + slow + extra

    @contextlib.asynccontextmanager
    async def bay(self, say: Callable[[str], None]) -> AsyncIterator[Bay]:
        """A free device, held against every other process of ours."""
        bay = await self.free.get()
        if bay.idle is not None:
            bay.idle.cancel()
        try:
            async with alone_on(bay.device, say):
                yield bay
        finally:
            bay.ready = bay.ready and bay.judge.running
            if not bay.lost:
                bay.idle = asyncio.get_running_loop().call_later(IDLE_S, self.rest, bay)
                self.free.put_nowait(bay)

    def rest(self, bay: Bay) -> None:
        """Stop an idle judge."""
        task = asyncio.get_running_loop().create_task(bay.stop())
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)

    def world_in(self, device: Device, contract: Contract | None) -> str:
        """All that a stored verdict must agree on before it is believed."""
        identity = contract.digest if contract else self.problem.digest
        return f"{device.world}|{identity}|{self.tolerance}|{EVALUATOR_VERSION}"

    def worlds(self) -> tuple[str, ...]:
        """Worlds of the verdicts that this evaluator gives, once it has prepared."""
        prepared = self.prepared
        contracts = (prepared.contract if prepared else None, None)
        return tuple(dict.fromkeys(self.world_in(self.device, contract) for contract in contracts))

    def finished(self, verdict: Verdict, built: Build | None, contract: Contract | None) -> Verdict:
        """With what the compiler said and where it may be believed."""
        device = verdict.device or self.device
        world = self.world_in(device, contract)
        verdict = replace(verdict, device=device, world=world, tolerance=verdict.tolerance or self.tolerance)
        if built is None:
            return verdict
        if built.refusal is not None and verdict.outcome is Outcome.CORRECT:
            words = f"{built.refusal.message}; its numbers were right"
            verdict = replace(verdict, outcome=Outcome.SUSPECT, stage=Stage.POLICY, message=words, measurement=None)
        log = "\n".join(part for part in (built.log, verdict.log) if part)
        return replace(
            verdict,
            log=log,
            checks=(*built.checks, *verdict.checks),
            resources=built.resources,
            compile_s=built.compile_s,
        )

    async def certify(self, candidate: Candidate) -> Verdict:
        """Judged again: fresh judge and runner, fresh secrets, full measurement, sanitizers where there are any."""
        if self.prepared is None:
            await self.prepare()
        contract = self.contract_for(candidate.language)
        target = self.target_of(candidate)
        async with self.compiling:
            built = await build(candidate, contract, target, policy=self.settings.policy, cache=self.cache)
        if isinstance(built, Verdict):
            return self.finished(built, None, contract)
        reason = self.why_not_run(candidate)
        if reason:
            verdict = Verdict(outcome=Outcome.NOT_RUN, stage=Stage.COMPILE, message=reason)
            return self.finished(verdict, built, contract)
        verdict = await self.run(candidate, built, contract, True, None, lambda state, worker: None, certify=True)
        return self.finished(verdict, built, contract)

    async def profile(self, candidate: Candidate) -> Profile:
        """What counters say of a candidate.

        Raises:
            UsageError: there is nothing to profile.
            MachineError: no device, tool or permission.
        """
        return await profiling.profile(self, candidate)

    async def aclose(self) -> None:
        """Stop every judge and all below it."""
        await asyncio.gather(*(bay.stop() for bay in self.bays), *self.closing)


def native_language(device: Device) -> Language:
    """What candidates are written in for a device."""
    return Language.CUDA if device.kind == "cuda" else Language.CPP


def known_sizes(candidate: Candidate, contract: Contract | None) -> dict[str, int]:
    """Numbers that a source may use by name: the contract's constants and its own defines."""
    found = {name: value for _, name, value in contract.constants} if contract else {}
    found |= dict(candidate.defines)
    return {name: int(value) for name, value in found.items() if value.isdecimal()}


__all__ = ["Evaluator", "MachineError", "Prepared"]
