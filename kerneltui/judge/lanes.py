"""What differs between candidates on a host and on a GPU, as the judge sees it."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge.arena import Arena, HostArena
from kerneltui.judge.bench import Bench
from kerneltui.judge.beside import EagerProcess
from kerneltui.judge.blocks import CudaArena, device_must_answer
from kerneltui.judge.faults import fault_words
from kerneltui.judge.reference import is_plain
from kerneltui.judge.runners import Runner, RunnerFailure, put_away
from kerneltui.judge.watch import Watch
from kerneltui.records import Outcome

if TYPE_CHECKING:
    from kerneltui.judge.request import Request

USERS = range(1_000_000_000, 1_900_000_000)  # user ids that no account has
MEMORY_SPARE_BYTES = 4 << 30  # address space beyond the buffers: code, stacks, a candidate's own allocations
WARM_S = 120.0
MOST_SPARES, ROOMY_BYTES, ROOMY_CORES = 4, 24 << 30, 8
CUDA_FILE_BYTES = 256 << 20  # the driver keeps segments of its own
MODULE_BYTES = 32 << 30  # address space of a process with torch and a compiler's children
MODULE_FILE_BYTES = 2 << 30
STACK_BYTES = 256 << 20  # address space of one OpenMP thread: its stack and its malloc arena


class Lane(Protocol):
    """One kind of device."""

    def start(self, bench: Bench, request: Request, *, prefix: Sequence[str] = ()) -> Runner:
        """A fresh runner for a candidate."""

    def spec(self, bench: Bench, request: Request, runner: Runner) -> dict[str, Any]:
        """Fields of its `open` command."""

    def settle(self) -> None:
        """Wait until what the judge wrote is in place."""

    def still_answers(self) -> None:
        """Raise DeviceLost when the device has gone with the candidate."""

    def fault(self, answer: dict[str, Any], request: Request) -> tuple[Outcome, str] | None:
        """What a call's answer says of a launch that failed."""


class Spare:
    """Runners that start before there is a candidate for them. They have met none, and wait for one.

    All start together, when none is left: while something is timed nothing may start. One is enough, until candidates
    come faster than a runner starts; then there are more, `most` at most.
    """

    def __init__(self, make: Callable[[], Runner], most: int = 1) -> None:
        self.make = make
        self.most = most
        self.wanted = 1
        self.untouched = False  # none of those that started together was taken
        self.waiting: list[Runner] = []

    def take(self) -> Runner:
        """The first that is well, a new one where none is."""
        while self.waiting:
            runner = self.waiting.pop(0)
            if runner.is_alive():
                if self.untouched:  # whether one had to wait for it says how many are wanted next time
                    self.wanted = min(self.wanted + 1, self.most) if runner.warming else max(self.wanted - 1, 1)
                self.untouched = False
                runner.keep_what_is_there()
                return runner
            put_away(runner)
        return self.make()

    def keep(self) -> None:
        """Once a candidate is through, the next ones' processes can start."""
        if self.waiting:
            return
        self.untouched = True
        for _ in range(self.wanted):
            self.waiting.append(self.make())

    def settle(self) -> None:
        """Nobody may come onto a device while something is timed there: wait for the start's end."""
        for runner in list(self.waiting):
            try:
                runner.wait_until_warm(WARM_S)
            except RunnerFailure:
                self.waiting.remove(runner)
                put_away(runner)

    def close(self) -> None:
        """None is wanted any more."""
        while self.waiting:
            put_away(self.waiting.pop())


class HostLane:
    """C++ candidates on these cores."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = sorted(cores)

    def start(self, bench: Bench, request: Request, *, prefix: Sequence[str] = ()) -> Runner:
        assert isinstance(bench.arena, HostArena)
        library = empty_file()
        fill(library, Path(request.library))
        return Runner(descriptors=[bench.arena.descriptor], threads=len(self.cores), prefix=prefix, library=library)

    def spec(self, bench: Bench, request: Request, runner: Runner) -> dict[str, Any]:
        assert isinstance(bench.arena, HostArena)
        threads = len(self.cores)
        return {
            "kind": "cpp",
            "arena_fd": bench.arena.descriptor,
            "arena_bytes": bench.arena.size_bytes,
            "sets_bytes": bench.sets_bytes,
            "library_fd": runner.library,
            "function": request.function,
            "pointers": len(bench.main.tensors),
            "symbols": len(bench.main.symbols),
            "memory_bytes": bench.arena.size_bytes + MEMORY_SPARE_BYTES + threads * STACK_BYTES,
            "processes": 2 * threads + 16,
            "file_bytes": 1 << 20,
            "user": secrets.choice(USERS),
            "filter": request.filter,
        }

    def settle(self) -> None:
        """Stores to shared memory are in place when they return."""

    def still_answers(self) -> None:
        """A host that does not answer could not ask."""

    def fault(self, answer: dict[str, Any], request: Request) -> tuple[Outcome, str] | None:
        return None


class CudaLane:
    """CUDA candidates on one GPU."""

    def __init__(self, uuid: str) -> None:
        self.watch = Watch(uuid)
        self.spare = Spare(self.fresh, most_spares())

    def start(self, bench: Bench, request: Request, *, prefix: Sequence[str] = ()) -> Runner:
        runner = self.cold(prefix) if prefix else self.spare.take()
        fill(runner.library, Path(request.library))
        return runner

    def cold(self, prefix: Sequence[str] = ()) -> Runner:
        """A runner that opens the device when it is given a candidate."""
        visible = {
            name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER") if name in os.environ
        }
        return Runner(descriptors=[], threads=1, extra=visible, prefix=prefix, library=empty_file())

    def fresh(self) -> Runner:
        """A runner that opens the device now."""
        runner = self.cold()
        runner.warm_up(WARM_S, kind="cuda", paths=package_folders())
        return runner

    def spec(self, bench: Bench, request: Request, runner: Runner) -> dict[str, Any]:
        assert isinstance(bench.arena, CudaArena)
        return {
            "kind": "cuda",
            "paths": package_folders(),
            "handle": bench.arena.own.handle,
            "library_fd": runner.library,
            "function": request.function,
            "pointers": len(bench.main.tensors),
            "symbols": len(bench.main.symbols),
            "file_bytes": CUDA_FILE_BYTES,
            "filter": request.filter,
        }

    def settle(self) -> None:
        """The runner works in another context: nothing of ours may be in flight."""
        torch.cuda.synchronize()

    def still_answers(self) -> None:
        device_must_answer()

    def fault(self, answer: dict[str, Any], request: Request) -> tuple[Outcome, str] | None:
        found = answer.get("fault")
        return fault_words(str(found), request.launches, request.resources) if found else None


class ModuleLane:
    """Python candidates; a spare runner has torch in already, so that nobody waits for it."""

    def __init__(self, threads: int, device: torch.device, arena: Arena, watch: Watch | None) -> None:
        self.threads = threads
        self.device = device
        self.arena = arena
        self.watch = watch
        self.spare = Spare(self.fresh, most_spares() if device.type == "cuda" else 1)
        self.eager = EagerProcess(lambda: self.fresh(closed=True)) if device.type == "cuda" else None

    def start(self, bench: Bench, request: Request, *, prefix: Sequence[str] = ()) -> Runner:
        if self.eager is not None:
            self.eager.begin()
        return self.spare.take()

    def fresh(self, *, closed: bool = False) -> Runner:
        """A runner that imports torch now; `closed` is not for candidates, and they cannot reach into it."""
        descriptors = [self.arena.descriptor] if isinstance(self.arena, HostArena) else []
        runner = Runner(descriptors=descriptors, threads=self.threads, module=True, extra=build_environment())
        runner.warm_up(WARM_S, kind="module", device=self.device.type, closed=closed)
        return runner

    def spec(self, bench: Bench, request: Request, runner: Runner) -> dict[str, Any]:
        source = Path(request.library).read_text(encoding="utf-8", errors="surrogatepass")
        return self.words(bench, source, "ModelNew")

    def words(self, bench: Bench, source: str, name: str) -> dict[str, Any]:
        """The `open` command for the class of this name in a source."""
        work = bench.main
        arguments, named = work.reference.make_arguments()
        names = iter(work.signature.inputs)
        return {
            "kind": "module",
            "source": source,
            "name": name,
            "device": bench.device.type,
            "threads": self.threads,
            "arguments": plain_arguments(work.reference.path, arguments),
            "named": dict(zip(named, plain_arguments(work.reference.path, list(named.values())), strict=True)),
            "call": [None if isinstance(v, torch.Tensor) and next(names) else {"value": v} for v in bench.example],
            "tensors": [tensor.words() for tensor in work.tensors],
            "inputs": len(work.signature.inputs),
            "state": list(work.signature.state),
            "outputs": [tensor.name for tensor in work.signature.outputs],
            "memory_bytes": None if bench.device.type == "cuda" else bench.arena.size_bytes + MODULE_BYTES,
            "file_bytes": MODULE_FILE_BYTES,
            # A GPU's driver and compilers as another user: not tried yet.
            "user": secrets.choice(USERS) if bench.device.type == "cpu" else None,
            "arena_bytes": bench.arena.size_bytes,
            **arena_words(bench),
        }

    def open_eager(self, bench: Bench) -> EagerProcess | None:
        """The reference in a process beside the candidate's, ready for the ring; None where there is none on this device."""
        if self.eager is not None:
            spec = self.words(bench, bench.main.reference.source, "Model")
            self.eager.open(spec, [slot.offsets for slot in bench.slots])
        return self.eager

    def settle(self) -> None:
        if self.watch is not None:
            torch.cuda.synchronize()

    def still_answers(self) -> None:
        if self.watch is not None:
            device_must_answer()

    def fault(self, answer: dict[str, Any], request: Request) -> tuple[Outcome, str] | None:
        wrong = answer.get("wrong")
        return (Outcome.MISMATCH, str(wrong)) if wrong else None


def most_spares() -> int:
    """Each holds half a gigabyte of a GPU, and a core while it starts."""
    roomy = torch.cuda.mem_get_info()[0] > ROOMY_BYTES and len(os.sched_getaffinity(0)) >= ROOMY_CORES
    return MOST_SPARES if roomy else 1


def arena_words(bench: Bench) -> dict[str, Any]:
    if isinstance(bench.arena, HostArena):
        return {"arena_fd": bench.arena.descriptor, "sets_bytes": bench.sets_bytes}
    assert isinstance(bench.arena, CudaArena)
    return {"handle": bench.arena.own.handle}


def plain_arguments(path: str, values: Sequence[Any]) -> list[Any]:
    """Constructor arguments that travel as JSON."""
    for value in values:
        if isinstance(value, torch.Tensor) or not is_plain(value):
            raise ProblemError(
                f"{path}: get_init_inputs() holds a {type(value).__name__}; a module candidate can only be given "
                "numbers, texts and lists of them."
            )
    return list(values)


def build_environment() -> dict[str, str]:
    """For a candidate that compiles: tools as the judge has them, every cache in the runner's own folder.

    A build that was killed leaves its lock there, and the folder goes with the process. The allocator works as the
    judge's does: eager there is the other side of the pair.
    """
    tools = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    passed = (*tools, "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
    found = {name: os.environ[name] for name in passed if name in os.environ}
    return found | {
        "TORCH_EXTENSIONS_DIR": "extensions",
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "MAX_JOBS": "2",
        "USER": "kerneltui",  # the runner's user may have no name, and torch asks for one
    }


def package_folders() -> list[str]:
    """Where cuda.bindings lies, for an interpreter that starts without any."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def empty_file() -> int:
    """A file in memory of its own: what the candidate does to the library's file does not matter, and any user may read it."""
    return os.memfd_create("candidate", os.MFD_CLOEXEC)


def fill(descriptor: int, path: Path) -> None:
    """Put a library there."""
    data = path.read_bytes()
    while data:
        data = data[os.write(descriptor, data) :]
