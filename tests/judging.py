"""A judge on this host for tests: trusted compiling (no policy), one event loop for as long as a module's tests run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from kerneltui.evaluator.compile import Build, compile_library
from kerneltui.evaluator.devices import cpu_device
from kerneltui.evaluator.launches import stated_launches
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.problems import load_problem
from kerneltui.records import Candidate, Device, Language, Settings, Verdict

T = TypeVar("T")


class Bench:
    """An evaluator on two cores at most, asked from plain functions."""

    def __init__(
        self,
        folder: Path,
        reference: str,
        *,
        name: str,
        deadline_s: float = 20.0,
        device: Device | None = None,
        **changes: Any,
    ) -> None:
        self.folder = folder
        # Locks of our own: another session on this machine may not make a test wait.
        self.runtime = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        path = folder / f"{name}.py"
        path.write_text(reference)
        self.problem = replace(load_problem(path), **changes)
        self.loop = asyncio.Runner()
        self.device = device or cpu_device()
        self.evaluator = Evaluator(
            self.problem,
            [self.device],
            settings=Settings(problem=str(path), deadline_s=deadline_s),
            cache=folder / "cache",
            scratch=folder / "scratch",
        )
        self.prepared = self.run(self.evaluator.prepare())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """One piece of work on the loop."""
        return self.loop.run(work)

    def build(self, source: str) -> Build:
        """A library, whatever the policy would say."""
        language = Language.CUDA if self.device.kind == "cuda" else Language.CPP
        contract = self.evaluator.contract_for(language)
        assert contract is not None
        candidate = Candidate(source=source, language=language)
        built = self.run(compile_library(candidate, contract, self.device, cache=self.folder / "cache"))
        assert isinstance(built, Build), built
        return built

    def judge(self, source: str, *, quick: bool = False, filter: bool = True, deadline_s: float = 20.0) -> Verdict:
        """The judge's own verdict, past policy; quick: screened after three pairs."""
        built, contract = self.build(source), self.prepared.contract
        assert contract is not None
        request = {
            "library": str(built.library),
            "function": contract.function,
            "resources": [asdict(kernel) for kernel in built.resources],
            "launches": stated_launches(source, {}),
            "deadline_s": deadline_s,
            "full": not quick,
            "beam_us": 1e-6 if quick else None,
            "filter": filter,
        }
        return self.run(self.ask(request))

    def judge_module(self, source: str, *, deadline_s: float = 20.0) -> Verdict:
        """The same for a file with ModelNew."""
        path = self.folder / "candidate_module.py"
        path.write_text(source)
        request = {"library": str(path), "function": "", "module": True, "deadline_s": deadline_s}
        return self.run(self.ask(request))

    async def ask(self, request: dict[str, Any]) -> Verdict:
        async with self.evaluator.bay(lambda words: None) as bay:
            if not (bay.ready and bay.judge.running):
                await self.evaluator.make_ready(bay)
            answer = await bay.judge.ask("judge", request["deadline_s"] + 300, request=request)
        return msgspec.convert(answer["verdict"], Verdict)

    def leftovers(self, *, spare: bool = False) -> list[str]:
        """Processes below the keeper other than the judge, and temporary folders; with `spare` runners may wait."""
        end = time.monotonic() + 2  # those that wait are started one after another when the last answer is on its way
        while True:
            waiting = len(self.waiting()) if spare else 0
            strangers = [f"process {child.pid} {child.name()}" for child in self.below()]
            folders = [str(path) for path in (self.folder / "scratch").glob("*/kerneltui-runner-*")]
            if waiting == len(strangers) == len(folders):
                return []
            if not spare or time.monotonic() > end:
                return strangers + folders
            time.sleep(0.05)

    def below(self) -> list[psutil.Process]:
        """What the judge has started, and what that has."""
        process = self.evaluator.bays[0].judge.process
        assert process is not None
        return psutil.Process(process.pid).children(recursive=True)[1:]

    def waiting(self) -> list[psutil.Process]:
        """Runners of the judge's own; one is started when the last answer is on its way."""
        end = time.monotonic() + 5
        while not (found := [child for child in self.below() if "runner/__main__.py" in " ".join(child.cmdline())]):
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        return found

    def close(self) -> None:
        """Stop the judge."""
        self.run(self.evaluator.aclose())
        self.loop.close()
        os.environ.pop("XDG_RUNTIME_DIR")
        if self.runtime is not None:
            os.environ["XDG_RUNTIME_DIR"] = self.runtime
