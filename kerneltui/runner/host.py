"""A C++ candidate on the host: the judge's memory is mapped from a descriptor, calls are timed one after another."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from kerneltui.runner import confinement
from kerneltui.runner.library import Library, pointer_arguments
from kerneltui.runner.mapping import map_arena


class HostLane:
    """One loaded candidate and the judge's buffers."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.symbols: int = spec["symbols"]
        self.memory = map_arena(spec["arena_fd"], spec["arena_bytes"], spec["sets_bytes"])
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.notes = confinement.limit(
            memory_bytes=spec["memory_bytes"], processes=spec["processes"], file_bytes=spec["file_bytes"]
        )
        self.notes += confinement.become(spec["user"])
        self.notes += confinement.forbid_calls() if spec["filter"] else ["no system call filter: switched off"]
        self.library = Library(
            spec["library_fd"], spec["function"], pointers=spec["pointers"], symbols=self.symbols, stream=False
        )
        os.close(spec["library_fd"])
        self.ring: list[tuple[object, ...]] = []
        self.lined: list[tuple[object, ...]] = []

    def describe(self) -> dict[str, Any]:
        """What the judge is told after loading."""
        return {"notes": self.notes}

    def workspace(self, symbols: list[int]) -> dict[str, Any]:
        """Bytes of workspace at these sizes."""
        return {"bytes": self.library.workspace_bytes(symbols)}

    def call(self, offsets: list[int], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """One call."""
        arguments = self.arguments(offsets, symbols, workspace)
        start = time.perf_counter_ns()
        code = self.library.function(*arguments)
        return {"code": code, "elapsed_ns": time.perf_counter_ns() - start}

    def prepare(self, ring: list[list[int]], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """Keep the arguments of every ring entry ready."""
        self.ring = [self.arguments(offsets, symbols, workspace) for offsets in ring]
        return {"method": "calls"}

    def line_up(self, order: list[int]) -> dict[str, Any]:
        """Make the next slice ready: what it takes to read an order belongs to nobody's time."""
        self.lined = [self.ring[entry] for entry in order]
        return {}

    def slice(self) -> dict[str, Any]:
        """The calls that were lined up, one after another; nothing of ours runs in between."""
        function, calls = self.library.function, self.lined
        codes = 0
        start = time.perf_counter_ns()
        for arguments in calls:
            codes |= function(*arguments)
        return {"elapsed_ns": time.perf_counter_ns() - start, "code": codes}

    def arguments(self, offsets: list[int], symbols: list[int], workspace: int | None) -> tuple[object, ...]:
        """The C arguments of one call."""
        where = None if workspace is None else self.base + workspace
        return pointer_arguments(self.base, offsets, symbols, where)
