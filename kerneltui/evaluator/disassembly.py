"""The machine code of a candidate on request: built again where the cache has lost it, taken apart, kept beside the build.

A disassembler reads what a candidate made of itself, so it works in the compiler's cage.
"""

from __future__ import annotations

import asyncio
import functools
import glob
import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from kerneltui.errors import MachineError, ToolchainMissing, UsageError
from kerneltui.evaluator import build_cache, flags, sandbox, toolkits
from kerneltui.evaluator.assembly import Disassembly, Function, Kind, reachable, read_host, read_ptx, read_sass
from kerneltui.evaluator.compile import Build, build
from kerneltui.evaluator.compiler_log import demangle, first_error
from kerneltui.evaluator.devices import find_device, offline_cuda_device
from kerneltui.evaluator.processes import Finished, clean_environment, run_killable
from kerneltui.evaluator.recipes import source_bytes, toolchain_folders
from kerneltui.records import Candidate, Contract, Device, Language, Policy, Verdict, decode, encode

VERSION = 1  # raise when the records change: what was kept before is made again
TOOL_S = 60.0
PTX_S = 120.0
OUTPUT_BYTES = 64 << 20
PTX_FLAGS = ("-ptx", "-lineinfo", "-std=c++17", "-O3")
NO_CUDA_TOOL = (
    "neither nvdisasm nor cuobjdump was found: they are part of the CUDA toolkit (cuda-nvdisasm, cuda-cuobjdump), "
    "and the Python package triton brings both"
)
NO_OBJDUMP = "objdump was not found: on Debian and Ubuntu `apt install binutils`"


async def disassemble(
    candidate: Candidate,
    contract: Contract | None,
    device: Device,
    *,
    ptx: bool = False,
    policy: Policy,
    cache: Path,
) -> Disassembly:
    """SASS, PTX or host assembly of a candidate, by function; cancelling ends the work.

    Raises:
        UsageError: it has none: a module, or a source that does not compile.
        ToolchainMissing: no compiler or no disassembler.
        MachineError: a tool failed.
    """
    kind = kind_of(candidate, ptx)
    built = await _built(candidate, contract, device, policy, cache)
    kept = built.library.parent / f"{kind}.{VERSION}.json"
    found = await asyncio.to_thread(_read, kept)
    if found is None:
        assert contract is not None  # nothing is built without one
        if kind is Kind.PTX:
            found = await _ptx(built, candidate, contract, device)
        elif kind is Kind.SASS:
            found = await _sass(built, device)
        else:
            found = await _host(built, contract, device)
        await asyncio.to_thread(_keep, kept, found)
    return found


def kind_of(candidate: Candidate, ptx: bool) -> Kind:
    """What there is to show.

    Raises:
        UsageError: nothing.
    """
    if candidate.language is Language.PYTHON:
        raise UsageError("a module has no library of its own: what it compiles is made when it runs, by its own means")
    if candidate.language is Language.CUDA:
        return Kind.PTX if ptx else Kind.SASS
    if ptx:
        raise UsageError("a C++ candidate has no PTX; without --ptx its host assembly is shown")
    return Kind.HOST


def compiling_device(recorded: Device | None, language: Language) -> Device:
    """The device that a session compiled for, as this machine can compile for it.

    Raises:
        ToolchainMissing, MachineError, UsageError: it cannot.
    """
    kind = "cuda" if language is Language.CUDA else "cpu"
    if recorded is not None and recorded.kind == kind:
        if os.access(recorded.compiler, os.X_OK):
            return recorded
        if kind == "cuda" and recorded.architecture:
            return offline_cuda_device(recorded.architecture)
    return find_device("cpu") if kind == "cpu" else offline_cuda_device()


async def _built(candidate: Candidate, contract: Contract | None, device: Device, policy: Policy, cache: Path) -> Build:
    if contract is not None and contract.language is not candidate.language:
        raise UsageError(f"this session's contract is for {contract.language}; the variant is {candidate.language}")
    built = await build(candidate, contract, device, policy=policy, cache=cache)
    if isinstance(built, Verdict):
        raise UsageError(f"there is no machine code, for it does not build: {built.message}")
    return built


def _read(path: Path) -> Disassembly | None:
    try:
        return decode(path.read_bytes(), Disassembly)
    except (OSError, msgspec.MsgspecError):
        return None


def _keep(path: Path, found: Disassembly) -> None:
    """Beside the build, whole or not at all; a full disk only means that it is made again."""
    incoming = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        incoming.write_text(encode(found), encoding="utf-8")
        os.replace(incoming, path)
    except OSError:
        incoming.unlink(missing_ok=True)


# --------------------------------------------------------------------------- the three kinds


async def _sass(built: Build, device: Device) -> Disassembly:
    """By nvdisasm, which knows the source lines; else by cuobjdump, from the cubin or the library."""
    nvdisasm = await asyncio.to_thread(find_tool, "nvdisasm", device.compiler)
    cuobjdump = await asyncio.to_thread(find_tool, "cuobjdump", device.compiler)
    if nvdisasm is not None and built.cubin is not None:
        text = await _run([nvdisasm, "-g", "-c", "code"], built.cubin)
        tool, notes = "nvdisasm", tuple[str, ...]()
    elif cuobjdump is not None:
        text = await _run([cuobjdump, "-sass", "code"], built.cubin or built.library)
        tool, notes = "cuobjdump", ("without source lines: nvdisasm, which reads them, was not found",)
    else:
        raise ToolchainMissing(NO_CUDA_TOOL)
    functions = await asyncio.to_thread(lambda: _named(read_sass(text)))
    return Disassembly(kind=Kind.SASS, architecture=device.architecture, tool=tool, functions=functions, notes=notes)


async def _ptx(built: Build, candidate: Candidate, contract: Contract, device: Device) -> Disassembly:
    """As the build has kept it; else compiled once more, as far as PTX: the library holds machine code alone."""
    number = device.architecture.removeprefix("sm_")
    kept = built.library.parent / build_cache.PTX
    if kept.exists():
        text = await asyncio.to_thread(kept.read_text, encoding="utf-8", errors="replace")
    else:
        text = await _compiled_ptx(candidate, contract, device, number)
    functions = await asyncio.to_thread(lambda: _named(read_ptx(text)))
    tool = f"nvcc {device.toolkit}"
    return Disassembly(kind=Kind.PTX, architecture=f"compute_{number}", tool=tool, functions=functions)


async def _compiled_ptx(candidate: Candidate, contract: Contract, device: Device, number: str) -> str:
    argv = (device.compiler, *PTX_FLAGS, f"-arch=compute_{number}", *flags.words(candidate))
    with build_cache.private_folder() as folder:
        (folder / "tmp").mkdir()
        (folder / "kernel.cu").write_bytes(source_bytes(candidate.source))
        (folder / "contract.h").write_bytes(source_bytes(contract.header))
        read = await asyncio.to_thread(toolchain_folders, device)
        finished = await _caged([*argv, "kernel.cu", "-o", "kernel.ptx"], folder, read, PTX_S)
        if finished.timed_out or finished.returncode != 0 or not (folder / "kernel.ptx").exists():
            said = first_error(finished.text) or toolkits.first_line(finished.text)
            raise MachineError(f"nvcc made no PTX: {said or f'exit status {finished.returncode}'}")
        return (folder / "kernel.ptx").read_text(encoding="utf-8", errors="replace")


async def _host(built: Build, contract: Contract, device: Device) -> Disassembly:
    """The contract's function and what it leads to."""
    objdump = shutil.which("objdump")
    if objdump is None:
        raise ToolchainMissing(NO_OBJDUMP)
    text = await _run([objdump, "-d", "--no-show-raw-insn", "-C", "-j", ".text", "code"], built.library)
    functions = await asyncio.to_thread(lambda: reachable(read_host(text), contract.function))
    return Disassembly(kind=Kind.HOST, architecture=device.architecture, tool="objdump", functions=functions)


def _named(functions: Sequence[Function]) -> tuple[Function, ...]:
    """With the names that the compiler's own report uses."""
    readable = demangle(function.symbol for function in functions)
    return tuple(replace(each, name=readable.get(each.symbol, each.symbol)) for each in functions)


# --------------------------------------------------------------------------- tools


def find_tool(name: str, nvcc: str) -> str | None:
    """Path of one of the toolkit's programs: beside nvcc, on PATH, in any toolkit, in the package triton."""
    places = [os.path.dirname(os.path.realpath(nvcc))] if nvcc else []
    if nvcc and os.access(nvcc, os.X_OK):
        places.append(str(toolkits.toolkit_folder(nvcc) / "bin"))
    places += [*os.get_exec_path(), "/usr/local/cuda/bin", *sorted(glob.glob("/usr/local/cuda-*/bin"), reverse=True)]
    places += _triton_folders()
    return next((path for place in places if os.access(path := os.path.join(place, name), os.X_OK)), None)


@functools.cache
def _triton_folders() -> tuple[str, ...]:
    spec = importlib.util.find_spec("triton")
    roots = (spec.submodule_search_locations if spec else None) or ()
    return tuple(os.path.join(root, "backends", "nvidia", "bin") for root in roots)


async def _run(argv: Sequence[str], code: Path) -> str:
    """What a disassembler says of a file, which it is given as `code` in a folder of its own."""
    with build_cache.private_folder() as folder:
        (folder / "tmp").mkdir()
        await asyncio.to_thread(shutil.copyfile, code, folder / "code")
        finished = await _caged(argv, folder, (*_homes(argv[0]), os.path.dirname(argv[0])), TOOL_S)
    tool = os.path.basename(argv[0])
    if finished.timed_out:
        raise MachineError(f"{tool} did not end within {TOOL_S:.0f} s")
    if finished.returncode != 0:
        said = toolkits.first_line(finished.stderr.decode("utf-8", "replace")) or f"status {finished.returncode}"
        raise MachineError(f"{argv[0]} cannot read this library ({said}); a newer CUDA toolkit may")
    return finished.stdout.decode("utf-8", "replace")


def _homes(tool: str) -> tuple[str, ...]:
    """Where a tool and what it needs lie: its folder, and what is around a folder called bin."""
    folder = os.path.dirname(os.path.realpath(tool))
    around = os.path.dirname(folder)
    return (folder, around) if os.path.basename(folder) == "bin" and around != "/" else (folder,)


async def _caged(argv: Sequence[str], folder: Path, read: Sequence[str], timeout_s: float) -> Finished:
    words, seen = await asyncio.to_thread(lambda: sandbox.cage(folder, read=tuple(dict.fromkeys(read))))
    return await run_killable(
        [*words, *argv],
        timeout_s=timeout_s,
        cwd=folder,
        env=clean_environment({"TMPDIR": "tmp"}),
        output_limit=OUTPUT_BYTES,
        sandbox=seen,
    )
