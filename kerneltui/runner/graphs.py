"""Captured graphs: one per ring entry, a census of each, and a chain of them that is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CENSUS_NODES = 256  # nodes described by name; beyond that only counted


class Graphs:
    """Graphs of one candidate on one stream."""

    def __init__(self, driver: Any, stream: Any) -> None:
        self.driver = driver
        self.stream = stream
        self.captured: list[Any] = []
        self.single: dict[int, Any] = {}

    def capture(self, function: Callable[..., int], arguments: tuple[object, ...]) -> dict[str, Any]:
        """Run a launcher under capture; what the graph holds, or why there is none."""
        driver = self.driver
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        status = driver.cuStreamBeginCapture(self.stream, relaxed)[0]
        if int(status) != 0:
            return {"error": status.name}
        code = function(*arguments)
        status, graph = driver.cuStreamEndCapture(self.stream)
        if int(status) != 0:
            return {"error": status.name, "code": code}
        self.captured.append(graph)
        return {"code": code, **self.census(graph)}

    def census(self, graph: Any) -> dict[str, Any]:
        """Kernels with names and sizes; how many nodes of other kinds."""
        driver = self.driver
        count = driver.cuGraphGetNodes(graph)[2]
        nodes = driver.cuGraphGetNodes(graph, count)[1] if count else []
        kinds: dict[str, int] = {}
        kernels: list[str] = []
        for node in nodes:
            kind = driver.cuGraphNodeGetType(node)[1].name.removeprefix("CU_GRAPH_NODE_TYPE_").lower()
            kinds[kind] = kinds.get(kind, 0) + 1
            if kind == "kernel" and len(kernels) < CENSUS_NODES:
                kernels.append(self.describe_kernel(node))
        return {"kinds": kinds, "kernels": kernels}

    def describe_kernel(self, node: Any) -> str:
        """Name and launch sizes: "softmax<<<4096x1x1, 256x1x1, 0>>>"."""
        driver = self.driver
        status, found = driver.cuGraphKernelNodeGetParams(node)
        if int(status) != 0:
            return "?"
        status, name = driver.cuFuncGetName(found.func)
        word = name.decode(errors="replace") if int(status) == 0 and name else "?"
        grid = f"{found.gridDimX}x{found.gridDimY}x{found.gridDimZ}"
        block = f"{found.blockDimX}x{found.blockDimY}x{found.blockDimZ}"
        return f"{word}<<<{grid}, {block}, {found.sharedMemBytes}>>>"

    def chain(self, order: list[int]) -> tuple[list[Any], bool]:
        """What visits captured graphs in this order: one graph where the driver can, else one by one."""
        joined = self.join(order)
        if joined is not None:
            return [joined], True
        for entry in set(order) - set(self.single):
            self.single[entry] = self.instantiate(self.captured[entry])
        return [self.single[entry] for entry in order], False

    def join(self, order: list[int]) -> Any:
        driver = self.driver
        status, whole = driver.cuGraphCreate(0)
        if int(status) != 0:
            return None
        before: list[Any] = []
        for entry in order:
            status, node = driver.cuGraphAddChildGraphNode(whole, before, len(before), self.captured[entry])
            if int(status) != 0:
                return None  # graphs that allocate memory cannot be children
            before = [node]
        status, executable = driver.cuGraphInstantiate(whole, 0)
        return executable if int(status) == 0 else None

    def instantiate(self, graph: Any) -> Any:
        status, executable = self.driver.cuGraphInstantiate(graph, 0)
        if int(status) != 0:
            raise RuntimeError(f"{status.name}: its graph cannot be instantiated")
        return executable

    def launch(self, executables: list[Any], repeat: int) -> None:
        """Replay all of them so many times."""
        for _ in range(repeat):
            for executable in executables:
                status = self.driver.cuGraphLaunch(executable, self.stream)[0]
                if int(status) != 0:
                    raise RuntimeError(f"{status.name}: its graph cannot be launched")
