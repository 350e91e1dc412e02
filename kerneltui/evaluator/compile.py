"""From source to a loadable library, or to the verdict that it cannot become one.

policy on the source -> cache -> compiler in its cage -> policy on the binary -> Build

What the candidate did wrong is a Verdict; what the machine did wrong (no compiler, full disk, a compiler that
something else killed) raises, and is never charged to it.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerneltui.errors import MachineError, ToolchainMissing
from kerneltui.evaluator import build_cache, compiler_log, cpu, sandbox, toolkits
from kerneltui.evaluator.build_cache import CUBIN, LIBRARY, LOG, Stored
from kerneltui.evaluator.policy import Finding, check_binary, check_source, may_be_chance
from kerneltui.evaluator.processes import Finished, clean_environment, run_killable
from kerneltui.evaluator.python_policy import syntax_problem
from kerneltui.evaluator.recipes import LAYOUTS, Recipe, Step, recipe_for, source_bytes, toolchain_folders
from kerneltui.records import (
    Candidate,
    Check,
    CheckResult,
    Contract,
    Device,
    KernelResources,
    Language,
    Outcome,
    Policy,
    Stage,
    Verdict,
    sha256,
)

log = logging.getLogger(__name__)

BUILD_VERSION = 3  # raise when flags or steps change: older builds are not believed
SOURCE_LIMIT_BYTES = 1 << 20
LOG_LIMIT_BYTES = 64 << 20
FULL_DISK_BYTES = 32 << 20
SECONDS_TO_SPARE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A candidate ready to be loaded. For Python candidates `library` is the module's file."""

    library: Path
    log: str = ""
    resources: tuple[KernelResources, ...] = ()
    checks: tuple[Check, ...] = ()
    compile_s: float = 0.0
    cached: bool = False
    cubin: Path | None = None
    refusal: Verdict | None = None  # the verdict, should the candidate's numbers be right


async def build(
    candidate: Candidate,
    contract: Contract | None,
    device: Device,
    *,
    policy: Policy,
    cache: Path,
    deadline_s: float = 120.0,
    say: Callable[[str], None] = log.warning,
) -> Build | Verdict:
    """Check, compile and check again. `say` hears of waits that last.

    Raises:
        ToolchainMissing: no compiler, or one that cannot build anything for this device.
        MachineError: disk, memory or processes of this machine failed.
    """
    unreadable = _what_is_unreadable(candidate)
    if unreadable:
        return _verdict(Outcome.COMPILE_ERROR, unreadable, "", device)
    findings = await asyncio.to_thread(check_source, candidate, policy)
    if any(finding.stops for finding in findings):
        return _refusal(findings, device)
    if candidate.language is Language.PYTHON:
        problem = syntax_problem(candidate.source)
        if problem:
            return _verdict(Outcome.COMPILE_ERROR, problem, "", device)
        return _keep_module(candidate, findings, cache)
    if contract is None:
        return _verdict(Outcome.COMPILE_ERROR, "this problem has no C signature: write a Python module", "", device)
    built, found = await _compiled_and_checked(
        candidate, contract, device, policy=policy, cache=cache, deadline_s=deadline_s, say=say
    )
    if isinstance(built, Verdict):
        return built
    findings += found
    if any(finding.stops for finding in findings):
        return _refusal(findings, device, built)
    return replace(
        _with_checks(built, findings), refusal=_refusal(findings, device, built) if _refused(findings) else None
    )


async def _compiled_and_checked(
    candidate: Candidate, contract: Contract, device: Device, *, policy: Policy, **how: Any
) -> tuple[Build | Verdict, list[Finding]]:
    """A library and what its binary shows.

    Two bytes of a distance in the code can look like a system call; they change when its functions move apart.
    """
    found: list[Finding] = []
    for layout in range(LAYOUTS):
        built = await compile_library(candidate, contract, device, layout=layout, **how)
        if isinstance(built, Verdict):
            break
        found = await asyncio.to_thread(check_binary, built.library, contract, policy, cubin=built.cubin)
        if not any(map(may_be_chance, found)):
            break
    return built, found


async def compile_library(
    candidate: Candidate,
    contract: Contract,
    device: Device,
    *,
    cache: Path,
    deadline_s: float = 120.0,
    say: Callable[[str], None] = log.warning,
    layout: int = 0,
) -> Build | Verdict:
    """Compile without any policy: `build` for candidates, this for trusted code. `layout`: another place for functions."""
    if not device.compiler:
        raise ToolchainMissing(_no_compiler(device))
    if not os.access(device.compiler, os.X_OK):
        raise ToolchainMissing(f"the compiler {device.compiler} is no longer there")
    _sweep_once(cache)
    key = build_key(candidate, contract, device, layout)
    async with build_cache.alone(cache, key, patience_s=deadline_s + SECONDS_TO_SPARE, say=say):
        stored = build_cache.load(cache, key)
        if stored is not None:
            return _from_cache(cache, key, stored, cached=True)
        recipe = await asyncio.to_thread(recipe_for, candidate, contract, device, layout)
        with build_cache.private_folder() as folder:
            outcome = await _run_recipe(recipe, folder, device, deadline_s)
            if isinstance(outcome, Verdict):
                return outcome
            stored, text = outcome
            build_cache.keep(cache, key, folder, stored, text)
    kept = build_cache.load(cache, key)
    if kept is None:
        raise MachineError(f"a build vanished from {cache} as soon as it was there; is something cleaning that folder?")
    return _from_cache(cache, key, kept, cached=False)


@functools.cache
def _sweep_once(cache: Path) -> None:
    build_cache.sweep(cache)


def build_key(candidate: Candidate, contract: Contract, device: Device, layout: int = 0) -> str:
    """Everything that decides what the compiler makes of it."""
    compiler = os.path.realpath(device.compiler)
    world = (compiler, device.toolkit, device.architecture, device.facts.get("features", ""))
    parts = (BUILD_VERSION, candidate.digest, contract.digest, contract.function, world)
    return sha256(repr(parts if layout == 0 else (*parts, layout)))


# --------------------------------------------------------------------------- running the compiler


async def _run_recipe(recipe: Recipe, folder: Path, device: Device, deadline_s: float) -> Verdict | tuple[Stored, str]:
    started = time.monotonic()
    recipe.write(folder)
    said: list[str] = []
    oom_kills = _oom_kills()
    for step in recipe.steps:
        finished = await _run_step(step, recipe, folder, lambda: max(deadline_s - (time.monotonic() - started), 0.1))
        said.append(f"$ {' '.join(step.argv)}\n{finished.text}")
        text = "\n".join(said)
        if finished.timed_out or finished.returncode != 0 or not (folder / step.makes).exists():
            return await _failed(finished, step, text, device, folder, deadline_s, oom_kills)
    undefined = recipe.what_is_missing(folder)
    if undefined:
        return _verdict(Outcome.COMPILE_ERROR, undefined, text, device)
    stored = Stored(
        library_sha256=_file_digest(folder / LIBRARY),
        resources=compiler_log.kernel_resources(text),
        compile_s=round(time.monotonic() - started, 3),
        sandbox=sandbox.best_level(),
    )
    return stored, text


async def _run_step(step: Step, recipe: Recipe, folder: Path, left_s: Callable[[], float]) -> Finished:
    """One command of a recipe. Where its script fails without naming a fault of the source, the command itself decides."""
    if step.script:
        finished = await _caged(["/bin/sh", "-c", step.script], recipe, folder, left_s())
        made = finished.returncode == 0 and (folder / step.makes).exists()
        if made or finished.timed_out or _explains(finished):
            return finished
    return await _caged(step.argv, recipe, folder, left_s())


def _explains(finished: Finished) -> bool:
    """Whether a compiler's words say what is wrong with the source, or that there was no memory for it."""
    said = finished.text
    return (
        compiler_log.names_our_source(compiler_log.first_error(said))
        or compiler_log.blames_a_kernel(said)
        or compiler_log.ran_out_of_memory(said)
    )


async def _caged(argv: Sequence[str], recipe: Recipe, folder: Path, timeout_s: float) -> Finished:
    words, seen = sandbox.cage(folder, read=recipe.read)
    finished = await run_killable(
        [*words, *argv],
        timeout_s=timeout_s,
        cwd=folder,
        env=clean_environment({"TMPDIR": "tmp"}),
        memory_bytes=_memory_limit(),
        output_limit=LOG_LIMIT_BYTES,
        sandbox=seen,
    )
    return _without_cage(finished, words)


def _without_cage(finished: Finished, words: list[str]) -> Finished:
    """bubblewrap says 128 + n where the program died of signal n."""
    if words and 128 < finished.returncode < 192:
        return replace(finished, returncode=128 - finished.returncode)
    return finished


async def _failed(
    finished: Finished, step: Step, text: str, device: Device, folder: Path, deadline_s: float, oom_kills: str
) -> Verdict:
    """Whose fault it was: the candidate's as a Verdict, the machine's as an exception."""
    if finished.timed_out:
        message = f"{step.tool} did not end within {deadline_s:.0f} s"
        return _verdict(Outcome.TIMEOUT, message, text, device)
    said = finished.text
    message = compiler_log.first_error(said)
    if compiler_log.ran_out_of_memory(said):
        limit = (_memory_limit() or 0) / 2**30
        message = f"{step.tool} needs more memory than the {limit:.0f} GiB a build may use"
        return _verdict(Outcome.OUT_OF_MEMORY, message, text, device)
    if shutil.disk_usage(folder).free < FULL_DISK_BYTES:
        raise MachineError(f"disk full: {folder.parent} has no room for a build")
    if compiler_log.was_killed(finished.returncode, said):
        if oom_kills == _oom_kills():
            raise MachineError(f"{step.tool} was killed (SIGKILL) by somebody else; the build can be tried again")
        message = f"{step.tool} was killed by the system, which ran out of memory"
        return _verdict(Outcome.OUT_OF_MEMORY, message, text, device)
    if not compiler_log.names_our_source(message):
        await toolchain_must_work(device, folder)
    if not message:
        message = f"{step.tool} ended with status {finished.returncode} and no error message"
    return _verdict(Outcome.COMPILE_ERROR, message, text, device)


async def toolchain_must_work(device: Device, folder: Path) -> None:
    """Build an empty program in the same cage, before a candidate is blamed for an error outside its source.

    Raises:
        ToolchainMissing: even that fails.
    """
    words, seen = sandbox.cage(folder, read=toolchain_folders(device))
    architecture = device.architecture if device.kind == "cuda" else ""
    problem = await asyncio.to_thread(toolkits.build_nothing, device.compiler, architecture, str(folder), words, seen)
    if problem:
        raise ToolchainMissing(f"{device.compiler}: {problem}")


def _oom_kills() -> str:
    """How many processes the kernel has killed for memory since it started, here or in this container."""
    places = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))
    texts = [place.read_text() for place in places if place.exists()]
    return " ".join(word for text in texts for word in re.findall(r"^oom_kill \d+", text, re.M))


def _memory_limit() -> int | None:
    """Address space of each compiler process: half the machine, 16 GiB at most, 4 GiB at least."""
    total = cpu.memory_bytes()
    return None if total is None else max(4 << 30, min(16 << 30, total // 2))


def _no_compiler(device: Device) -> str:
    if device.kind == "cuda":
        return f"no nvcc that builds for {device.name} ({device.architecture}); `kerneltui doctor` lists what was tried"
    return toolkits.NO_HOST_COMPILER


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --------------------------------------------------------------------------- answers


def _from_cache(cache: Path, key: str, stored: Stored, *, cached: bool) -> Build:
    folder = build_cache.place(cache, key)
    cubin = folder / CUBIN
    return Build(
        library=folder / LIBRARY,
        log=(folder / LOG).read_bytes().decode("utf-8", "replace"),
        resources=stored.resources,
        compile_s=stored.compile_s,
        cached=cached,
        cubin=cubin if cubin.exists() else None,
    )


def _keep_module(candidate: Candidate, findings: list[Finding], cache: Path) -> Build:
    folder = build_cache.place(cache, candidate.digest)
    library = folder / "module.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        incoming = folder / f".{os.getpid()}"
        incoming.write_bytes(source_bytes(candidate.source))
        os.replace(incoming, library)
    except OSError as error:
        raise MachineError(f"cannot write to {cache}: {error.strerror or error}") from error
    return _with_checks(Build(library=library), findings)


def _what_is_unreadable(candidate: Candidate) -> str:
    size = len(candidate.source)
    if not candidate.source.strip():
        return "the source is empty"
    if size > SOURCE_LIMIT_BYTES:
        return f"the source has {size / 1e6:.1f} MB; at most {SOURCE_LIMIT_BYTES / 1e6:.0f} MB are compiled"
    if "\0" in candidate.source:
        line = candidate.source[: candidate.source.index("\0")].count("\n") + 1
        return f"line {line}: the source holds binary data (a NUL byte)"
    return ""


def _verdict(
    outcome: Outcome,
    message: str,
    text: str,
    device: Device,
    *,
    stage: Stage = Stage.COMPILE,
    checks: tuple[Check, ...] = (),
    resources: tuple[KernelResources, ...] = (),
) -> Verdict:
    return Verdict(
        outcome=outcome,
        stage=stage,
        message=message,
        log=text,
        device=device,
        checks=checks,
        resources=resources or compiler_log.kernel_resources(text),
    )


def _refused(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.refused]


def _refusal(findings: list[Finding], device: Device, built: Build | None = None) -> Verdict:
    refused = _refused(findings)
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return _verdict(
        Outcome.SUSPECT,
        f"{refused[0].text}{more}",
        built.log if built else "",
        device,
        stage=Stage.POLICY,
        checks=checks_of(findings),
    )


def _with_checks(built: Build, findings: list[Finding]) -> Build:
    checks = checks_of(findings) or (Check(name="policy", result=CheckResult.PASS),)
    return replace(built, checks=checks)


def checks_of(findings: list[Finding]) -> tuple[Check, ...]:
    """Findings for the trust panel."""
    return tuple(
        Check(name="policy", result=CheckResult.FAIL if finding.refused else CheckResult.NOTE, detail=finding.text)
        for finding in findings
    )
