"""A CUDA candidate: the judge's memory is opened by IPC handle, launches are captured once and replayed.

Nothing of the candidate's host code runs while replays are timed.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from kerneltui.runner import confinement
from kerneltui.runner.graphs import Graphs
from kerneltui.runner.library import Library, pointer_arguments


class CudaError(RuntimeError):
    """A call of ours on the device failed; the text begins with CUDA's own name for it."""


def checked(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call."""
    status, *values = answer
    if int(status) != 0:
        raise CudaError(f"{status.name}")
    return values[0] if len(values) == 1 else tuple(values)


def open_device(paths: Sequence[str]) -> Any:
    """The driver's functions, the device's primary context made current; a second call does nothing.

    `paths` are folders of packages, for an interpreter that starts without any: cuda.bindings lies there.
    """
    sys.path += [path for path in paths if path not in sys.path]
    from cuda.bindings import driver

    if int(driver.cuCtxGetCurrent()[0]) != 0 or not int(driver.cuCtxGetCurrent()[1]):
        checked(driver.cuInit(0))
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))))
    return driver


class CudaLane:
    """One loaded candidate and the judge's buffers on a GPU."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.driver = driver = open_device(spec["paths"])
        self.stream = checked(driver.cuStreamCreate(int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self.base = self.open_memory(spec["handle"])
        self.workspace_base = 0
        self.symbols: int = spec["symbols"]
        self.notes = confinement.limit(memory_bytes=None, processes=None, file_bytes=spec["file_bytes"])
        self.notes += confinement.forbid_calls() if spec["filter"] else ["no system call filter: switched off"]
        self.library = Library(
            spec["library_fd"], spec["function"], pointers=spec["pointers"], symbols=self.symbols, stream=True
        )
        self.runtime = candidate_runtime()
        self.graphs = Graphs(driver, self.stream)
        self.leading: list[Any] = []
        self.running_up: list[Any] = []
        self.replayed: list[Any] = []
        self.ring: list[tuple[object, ...]] = []
        self.lined: list[tuple[object, ...]] = []
        self.start_event = checked(driver.cuEventCreate(0))
        self.end_event = checked(driver.cuEventCreate(0))

    def open_memory(self, handle: str) -> int:
        opened = self.driver.CUipcMemHandle()
        opened.reserved = bytes.fromhex(handle)
        lazy = int(self.driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return int(checked(self.driver.cuIpcOpenMemHandle(opened, lazy)))

    def describe(self) -> dict[str, Any]:
        """What the judge is told after loading."""
        return {"notes": self.notes}

    def lend(self, handle: str) -> dict[str, Any]:
        """Open the block that holds the workspace."""
        if self.workspace_base:
            checked(self.driver.cuIpcCloseMemHandle(self.workspace_base))
        self.workspace_base = self.open_memory(handle)
        return {}

    def workspace(self, symbols: list[int]) -> dict[str, Any]:
        """Bytes of workspace at these sizes."""
        return {"bytes": self.library.workspace_bytes(symbols)}

    def arguments(self, offsets: list[int], symbols: list[int], workspace: int | None) -> tuple[object, ...]:
        """The C arguments of one call."""
        where = None if workspace is None else self.workspace_base + workspace
        return pointer_arguments(self.base, offsets, symbols, where, int(self.stream))

    # ------------------------------------------------------------------ plain calls

    def call(self, offsets: list[int], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """One plain call, until the device is idle; what the candidate's own runtime and the device say of it."""
        self.last_error()
        start = time.perf_counter_ns()
        code = self.library.function(*self.arguments(offsets, symbols, workspace))
        refused = self.last_error()
        status = self.driver.cuCtxSynchronize()[0]
        answer = {"code": code, "elapsed_ns": time.perf_counter_ns() - start}
        if refused:
            answer["fault"] = refused
        if int(status) != 0:
            answer["fault"] = answer["sticky"] = status.name
        return answer

    def last_error(self) -> str:
        """What the candidate's own runtime has noted since it was last asked: a launch that was refused says nothing else."""
        if self.runtime is None:
            return ""
        code = self.runtime.cudaGetLastError()
        return self.runtime.cudaGetErrorName(code).decode() if code else ""

    # ------------------------------------------------------------------ timed launches

    def prepare(self, ring: list[list[int]], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """Capture one graph per ring entry and take a census of each."""
        self.ring = [self.arguments(offsets, symbols, workspace) for offsets in ring]
        census: list[dict[str, Any]] = []
        for arguments in self.ring:
            census.append(self.graphs.capture(self.library.function, arguments))
            refused = self.last_error()
            if refused and not census[-1].get("error"):
                census[-1]["error"] = refused
            if census[-1].get("error"):
                break  # this candidate cannot be captured
        return {"method": "graph", "census": census}

    def chain(self, order: list[int], lead: list[int], run_up: list[int]) -> dict[str, Any]:
        """One graph that visits ring entries in this order, one that leads in, one that keeps the device busy meanwhile."""
        self.leading = self.graphs.chain(lead)[0]
        self.running_up = self.graphs.chain(run_up)[0]
        self.replayed, chained = self.graphs.chain(order)
        return {"chained": chained}

    def lead_in(self) -> dict[str, Any]:
        """The device changes over to this process before anything is timed."""
        return self.timed_launch(self.leading, 1, [])

    def replay(self, repeat: int) -> dict[str, Any]:
        """Replay the chain."""
        return self.timed_launch(self.replayed, repeat, self.running_up)

    def timed_launch(self, executables: list[Any], repeat: int, run_up: list[Any]) -> dict[str, Any]:
        """Device time by events, from the first launch to the last.

        What runs up is enqueued before the clock starts: the device does not wait for this process to launch the rest.
        """
        driver = self.driver
        start = time.perf_counter_ns()
        self.graphs.launch(run_up, 1)
        checked(driver.cuEventRecord(self.start_event, self.stream))
        self.graphs.launch(executables, repeat)
        checked(driver.cuEventRecord(self.end_event, self.stream))
        checked(driver.cuCtxSynchronize())
        wall = time.perf_counter_ns() - start
        return {"elapsed_ns": self.between_events() * 1e6, "wall_ns": wall, "code": 0}

    def anchor(self, offset: int, size_bytes: int, repeat: int) -> dict[str, Any]:
        """Work of the judge's choice, timed here as a candidate is: memory that is overwritten, one launch to run up."""
        driver, start = self.driver, self.base + offset
        for launch in range(repeat + 1):
            if launch == 1:
                checked(driver.cuEventRecord(self.start_event, self.stream))
            checked(driver.cuMemsetD8Async(start, 0, size_bytes, self.stream))
        checked(driver.cuEventRecord(self.end_event, self.stream))
        checked(driver.cuCtxSynchronize())
        return {"elapsed_ns": self.between_events() * 1e6}

    def line_up(self, order: list[int]) -> dict[str, Any]:
        """Make the next slice ready."""
        self.lined = [self.ring[entry] for entry in order]
        return {}

    def slice(self, run_up: int = 0) -> dict[str, Any]:
        """Plain calls one after another without waiting in between; device time by events, the first ones left out."""
        driver, function, calls = self.driver, self.library.function, self.lined[run_up:]
        codes = 0
        for arguments in self.lined[:run_up]:
            codes |= function(*arguments)
        checked(driver.cuEventRecord(self.start_event, self.stream))
        for arguments in calls:
            codes |= function(*arguments)
        checked(driver.cuEventRecord(self.end_event, self.stream))
        checked(driver.cuCtxSynchronize())
        return {"elapsed_ns": self.between_events() * 1e6, "code": codes}

    def calls(self) -> dict[str, Any]:
        """Plain calls, each waited for: what one call costs a user."""
        driver, function, calls = self.driver, self.library.function, self.lined
        codes = 0
        start = time.perf_counter_ns()
        for arguments in calls:
            codes |= function(*arguments)
            driver.cuStreamSynchronize(self.stream)
        return {"elapsed_ns": time.perf_counter_ns() - start, "code": codes}

    def between_events(self) -> float:
        return float(checked(self.driver.cuEventElapsedTime(self.start_event, self.end_event)))


def candidate_runtime() -> ctypes.CDLL | None:
    """The libcudart that came with the candidate: errors of launches are noted there, not in ours."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if "libcudart.so" in line}
    for path in paths:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        library.cudaGetErrorName.restype = ctypes.c_char_p
        return library
    return None
