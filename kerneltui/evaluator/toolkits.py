"""Which compilers are here, which one is used, and why.

A compiler is believed only after it has built an empty program for the device: one that cannot is one sentence about
the machine, not an error of every candidate.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.programs import Sandbox, clean_environment, run_briefly

HOST_COMPILERS = ("c++", "g++", "clang++")
NO_HOST_COMPILER = "no C++ compiler works here ($CXX, c++, g++, clang++): on Debian and Ubuntu `apt install g++`"
PREFIX = "kerneltui-build-"  # folders that `build_cache` sweeps when their process was killed
TRIAL_S = 60.0  # a first nvcc run from a cold or networked disk takes its time
# Capabilities whose full instruction set (wgmma, TMA, tcgen05) needs the `a` target.
ARCHITECTURE_SPECIFIC = (90, 100, 101, 103, 110, 120, 121)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A compiler that was found, and what became of trying it."""

    path: str
    found: str  # where: "CUDA_HOME", "PATH", "$CXX"...
    version: str = ""
    problem: str = ""  # why it is not used; "" is fine


# --------------------------------------------------------------------------- host


def find_host_compilers() -> tuple[Compiler, ...]:
    """Every host C++ compiler, in order of preference, tried."""
    named = [(words[-1], "$CXX") for words in [shlex.split(os.environ.get("CXX", ""))] if words]
    places = named + [(name, "PATH") for name in HOST_COMPILERS]
    compilers: dict[str, Compiler] = {}
    for name, found in places:
        path = shutil.which(name)
        if path is None and found == "$CXX":
            compilers[name] = Compiler(path=name, found=found, problem="no such program")
        elif path is not None:
            compilers.setdefault(os.path.realpath(path), _try_host(path, found))
    return tuple(compilers.values())


def host_compiler() -> Compiler | None:
    """The host compiler that is used: the first that works."""
    return next((compiler for compiler in find_host_compilers() if not compiler.problem), None)


def _try_host(path: str, found: str) -> Compiler:
    version, problem = _trial(path, _stamp(path), "")
    return Compiler(path=path, found=found, version=version, problem=problem)


# --------------------------------------------------------------------------- nvcc


def find_nvccs(architecture: str, driver_cuda: tuple[int, int] | None = None) -> tuple[Compiler, ...]:
    """Every nvcc, in order of preference, tried for this architecture.

    `driver_cuda` is the CUDA version that the driver brings: a toolkit of a newer major version cannot run on it.
    """
    return tuple(try_nvccs(architecture, driver_cuda))


def try_nvccs(architecture: str, driver_cuda: tuple[int, int] | None = None) -> Iterator[Compiler]:
    """The same, one at a time, for those who stop at the first that works."""
    seen: set[str] = set()
    for path, found in nvcc_places():
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield _try_nvcc(path, found, architecture, driver_cuda)


def nvcc_places() -> list[tuple[str, str]]:
    """(path, where it was found) of every file called nvcc where one may lie."""
    places = [
        (os.path.join(os.environ[name], "bin", "nvcc"), name)
        for name in ("CUDA_HOME", "CUDA_PATH")
        if os.environ.get(name)
    ]
    places += [(os.path.join(folder, "nvcc"), "PATH") for folder in os.get_exec_path()]
    versions = sorted(glob.glob("/usr/local/cuda-*"), key=_version_key, reverse=True)
    places += [(os.path.join(folder, "bin", "nvcc"), folder) for folder in ("/usr/local/cuda", *versions)]
    places += [(path, "Python packages") for path in _wheel_nvccs()]
    return [(path, found) for path, found in places if os.path.isfile(path) and os.access(path, os.X_OK)]


def _wheel_nvccs() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    return [path for root in roots for path in sorted(glob.glob(os.path.join(root, "*", "bin", "nvcc")), reverse=True)]


def _try_nvcc(path: str, found: str, architecture: str, driver_cuda: tuple[int, int] | None) -> Compiler:
    version, problem = _trial(path, _stamp(path), architecture)
    major = int(version.partition(".")[0] or 0)
    if not problem and driver_cuda is not None and major > driver_cuda[0]:
        have = ".".join(map(str, driver_cuda))
        problem = (
            f"the driver runs programs of CUDA {have}, this is {version}: update the driver or use an older toolkit"
        )
    return Compiler(path=path, found=found, version=version, problem=problem)


def toolkit_folder(nvcc: str) -> Path:
    """Root of the toolkit that an nvcc belongs to; wrappers are asked."""
    return Path(_toolkit_folder(nvcc, _stamp(nvcc)))


@functools.cache
def _toolkit_folder(nvcc: str, _stamp: tuple[int, int]) -> str:
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        Path(folder, "empty.cu").write_text("")
        dry_run = run_briefly([nvcc, "-dryrun", "-cubin", "empty.cu"], timeout_s=TRIAL_S, cwd=folder)
    top = re.search(r"#\$ TOP=(.+)", dry_run.text)
    return os.path.realpath(top.group(1).strip() if top else Path(os.path.realpath(nvcc)).parent.parent)


def runtime_library(nvcc: str) -> Path | None:
    """Folder that holds the libcudart.so a library built by this nvcc will need."""
    root = toolkit_folder(nvcc)
    wanted = [root / "lib64", root / "lib", *root.glob("targets/*/lib"), *root.parent.glob("cuda_runtime/lib")]
    return next((folder for folder in wanted if any(folder.glob("libcudart.so*"))), None)


# --------------------------------------------------------------------------- trial


def _stamp(path: str) -> tuple[int, int]:
    """A compiler that was replaced is tried again."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


@functools.cache
def _trial(path: str, _stamp: tuple[int, int], architecture: str) -> tuple[str, str]:
    """(version, problem) after building an empty kernel, or an empty function where there is no architecture."""
    try:
        said = run_briefly([path, "--version"], timeout_s=TRIAL_S)
        version = _read_version(said.text, architecture)
        if said.timed_out or said.returncode != 0:
            return version, f"`{path} --version` fails: {first_line(said.text) or 'no answer'}"
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
            return version, build_nothing(path, architecture, folder)
    except MachineError as error:
        return "", str(error)


def _read_version(text: str, architecture: str) -> str:
    found = re.search(r"\bV(\d+\.\d+\.\d+)", text) if architecture else None
    return found.group(1) if found else first_line(text)


def build_nothing(
    path: str, architecture: str, folder: str, words: Sequence[str] = (), sandbox: Sandbox | None = None
) -> str:
    """What goes wrong in building an empty program in this folder; "" when nothing does. `words` go before argv."""
    if architecture:
        Path(folder, "empty.cu").write_text("__global__ void empty() {}\n")
        argv = [path, "-cubin", code_flag(architecture), "empty.cu", "-o", "empty.out"]
    else:
        Path(folder, "empty.cpp").write_text('#include <cstdint>\nextern "C" int empty() { return 0; }\n')
        argv = [path, "-march=native", "-std=c++20", "-fopenmp", "-fPIC", "-shared", "empty.cpp", "-o", "empty.out"]
    # In a cage the system's own folder for temporary files cannot be written to.
    here = clean_environment({"TMPDIR": "."})
    built = run_briefly([*words, *argv], timeout_s=TRIAL_S, cwd=folder, sandbox=sandbox, env=here)
    if built.timed_out:
        return f"building an empty program took more than {TRIAL_S:.0f} s"
    if built.returncode != 0 or not Path(folder, "empty.out").exists():
        what = f"an empty kernel for {architecture}" if architecture else "an empty program"
        return f"it does not build {what}: {first_line(built.text) or f'exit status {built.returncode}'}"
    return ""


def code_flag(architecture: str) -> str:
    """Machine code for this architecture alone: no PTX that a driver would have to translate."""
    number = architecture.removeprefix("sm_")
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def architectures(capability: tuple[int, int]) -> tuple[str, ...]:
    """What to build for, best first: ("sm_90a", "sm_90")."""
    number = capability[0] * 10 + capability[1]
    plain = f"sm_{number}"
    return (f"{plain}a", plain) if number in ARCHITECTURE_SPECIFIC else (plain,)


def _version_key(path: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path))


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
