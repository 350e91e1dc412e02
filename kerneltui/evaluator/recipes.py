"""How a candidate is compiled: files, commands in order, and what must come out.

All names are relative to the build folder: nvcc hands its commands to a shell, quoting badly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kerneltui.evaluator import flags, nvcc_plan, toolkits
from kerneltui.evaluator.build_cache import LIBRARY
from kerneltui.evaluator.compiler_log import demangle_fully
from kerneltui.evaluator.elf import NotElf, read_elf
from kerneltui.records import Candidate, Contract, Device, Language

# -z defs: a function that nobody defines is an error now, not when the library is loaded.
HOST_FLAGS = ("-c", "-O3", "-march=native", "-fopenmp", "-std=c++20", "-fPIC", "-fvisibility=hidden")
LINK_FLAGS = ("-shared", "-fopenmp", "-Wl,-z,defs")
CUDA_FLAGS = (
    *("-shared", "-cudart", "shared", "-lineinfo", "-Xptxas", "-v", "-std=c++17", "-O3"),
    *("--keep", "--keep-dir", "."),  # the device code and its PTX by their names
    *("-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xlinker", "-z", "-Xlinker", "defs"),
)

APART: tuple[tuple[str, ...], ...] = ((), ("-falign-functions=64",), ("-falign-functions=256",))  # by layout
LAYOUTS = len(APART)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]", re.MULTILINE)
VENDOR_HEADERS = {
    "cublas.h": "cublas",
    "cublas_v2.h": "cublas",
    "cublasLt.h": "cublasLt",
    "cudnn.h": "cudnn",
    "cufft.h": "cufft",
    "curand.h": "curand",
    "cusolverDn.h": "cusolver",
    "cusparse.h": "cusparse",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command; or a script that does the same sooner, and counts where it succeeds or names what is wrong."""

    tool: str  # for messages
    argv: tuple[str, ...]
    makes: str
    script: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a build needs."""

    files: dict[str, bytes]
    steps: tuple[Step, ...]
    read: tuple[str, ...]  # folders of the toolchain, for the cage
    what_is_missing: Callable[[Path], str] = field(default=lambda folder: "")

    def write(self, folder: Path) -> None:
        (folder / "tmp").mkdir()
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


def recipe_for(candidate: Candidate, contract: Contract, device: Device, layout: int = 0) -> Recipe:
    """The recipe for a CUDA or C++ candidate; with another `layout` the host's functions lie elsewhere."""
    name = "kernel.cu" if candidate.language is Language.CUDA else "kernel.cpp"
    made = _cuda_steps if candidate.language is Language.CUDA else _host_steps
    steps = made(candidate, device, APART[layout])
    files = {name: source_bytes(candidate.source), "contract.h": source_bytes(contract.header)}
    if any(step.script for step in steps):
        files[nvcc_plan.IDENTITY] = nvcc_plan.identity(candidate.digest, contract.function)
    return Recipe(
        files=files,
        steps=steps,
        read=toolchain_folders(device),
        what_is_missing=partial(_undefined_function, contract.function),
    )


def _host_steps(candidate: Candidate, device: Device, apart: Sequence[str]) -> tuple[Step, ...]:
    """Linked apart: -ffast-math on a linker's command line changes the arithmetic of the whole process."""
    tool = os.path.basename(device.compiler)
    compiled = (device.compiler, *HOST_FLAGS, *apart, *flags.words(candidate), "kernel.cpp", "-o", "kernel.o")
    linked = (device.compiler, *LINK_FLAGS, "kernel.o", "-o", LIBRARY)
    return (Step(tool=tool, argv=compiled, makes="kernel.o"), Step(tool=tool, argv=linked, makes=LIBRARY))


def _cuda_steps(candidate: Candidate, device: Device, apart: Sequence[str]) -> tuple[Step, ...]:
    """All of nvcc's work at once: a run of its own for the device's half costs every good kernel a third more."""
    defines = [f"{name}={value}" for name, value in candidate.defines]

    def words(defined: Sequence[str]) -> tuple[str, ...]:
        found = (*CUDA_FLAGS, *_runtime_path(device), toolkits.code_flag(device.architecture), *candidate.flags)
        found += (*(f"-D{define}" for define in defined), nvcc_plan.SOURCE, "-o", LIBRARY)
        found += tuple(f"-l{name}" for name in vendor_libraries(candidate.source))
        return found + tuple(word for flag in apart for word in ("-Xcompiler", flag))

    plan = nvcc_plan.script(device.compiler, words([nvcc_plan.DEFINES_HERE])) or ""
    script = nvcc_plan.with_defines(plan, defines)
    return (Step(tool="nvcc", argv=(device.compiler, *words(defines)), makes=LIBRARY, script=script),)


def vendor_libraries(source: str) -> list[str]:
    """What must be linked for the headers that a candidate includes; policy has said already that it may."""
    found = {VENDOR_HEADERS[name] for name in INCLUDE.findall(source) if name in VENDOR_HEADERS}
    return sorted(found)


def _runtime_path(device: Device) -> tuple[str, ...]:
    folder = toolkits.runtime_library(device.compiler)
    if folder is None or "," in str(folder):
        return ()
    return ("-Xlinker", "-rpath", "-Xlinker", str(folder), "-L", str(folder))


def toolchain_folders(device: Device) -> tuple[str, ...]:
    """Where the compiler and its parts lie."""
    real = Path(os.path.realpath(device.compiler))
    folders = [
        str(real.parent.parent) if real.parent.name == "bin" else str(real.parent),
        str(Path(device.compiler).parent),
    ]
    if device.kind == "cuda":
        folders.append(str(toolkits.toolkit_folder(device.compiler)))
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return tuple(dict.fromkeys(folder for folder in folders if folder not in ("", "/")))


def _undefined_function(function: str, folder: Path) -> str:
    """Why the contract's function is not in the library; "" when it is."""
    try:
        elf = read_elf((folder / LIBRARY).read_bytes())
    except NotElf as error:
        return f"the compiler wrote no library: {error}"
    if any(symbol.name == function and symbol.is_exported for symbol in elf.dynamic):
        return ""
    if any(symbol.name == function and symbol.section for symbol in elf.symbols):
        return f'the contract\'s function {function} is defined but hidden: include "contract.h"'
    names = [symbol.name for symbol in elf.symbols if symbol.section and "." not in symbol.name]
    similar = [name for name in demangle_fully(names) if name.startswith(f"{function}(")]
    hint = f'; there is {similar[0]} instead, without extern "C" or with other arguments' if similar else ""
    return f"the contract's function {function} is not defined{hint}"


def source_bytes(source: str) -> bytes:
    """As it was read: bytes that were no UTF-8 come back as they were."""
    try:
        return source.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return source.encode("utf-8", "replace")
