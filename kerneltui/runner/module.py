"""A module candidate: a Python file with `ModelNew`, run on the judge's inputs; the only half of the runner with torch.

Outputs are copied into the judge's buffers; parameters and buffers are the judge's memory, matched by name and shape.
"""

from __future__ import annotations

import copy
import ctypes
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

import torch

from kerneltui.runner import confinement
from kerneltui.runner.mapping import map_arena

TYPES = {
    name: getattr(torch, name)
    for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905
}

ROOM_MOST_BYTES = 512 << 20

# A module can change torch.cuda.Event, whose methods are Python's; this type under it is C's and takes no change.
DeviceEvent = torch._C._CudaEventBase
current_stream = torch.cuda.current_stream
# Of PyTorch without CUDA there is none.
clear_workspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)

captured: list[bool] = []  # whether this process has begun to capture a graph
begin_capture = torch.cuda.CUDAGraph.capture_begin


def note_capture(graph: torch.cuda.CUDAGraph, *arguments: Any, **named: Any) -> None:
    """In the place of CUDAGraph.capture_begin."""
    captured.append(True)
    begin_capture(graph, *arguments, **named)


torch.cuda.CUDAGraph.capture_begin = note_capture

Call = tuple[int, torch.nn.Module, list[Any]]  # ring entry, module on its memory, arguments


class ModuleLane:
    """One `ModelNew` and the judge's buffers."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.device = torch.device(spec["device"])
        self.tensors: list[dict[str, Any]] = spec["tensors"]
        torch.set_num_threads(spec["threads"])
        self.block = open_block(spec)
        self.notes = ["new processes are allowed, for compilers"]
        self.notes += confinement.limit(
            memory_bytes=spec["memory_bytes"], processes=None, file_bytes=spec["file_bytes"]
        )
        self.notes += step_down(spec["user"])
        self.notes += confinement.forbid_nosy_calls()
        self.refusal = ""
        self.model: torch.nn.Module | None = None
        self.instances: list[torch.nn.Module] = []
        self.arguments: list[list[Any]] = []
        self.outputs: list[list[torch.Tensor]] = []
        self.lined: list[Call] = []
        self.shims: list[torch.Tensor] = []
        self.last: dict[int, Any] = {}  # ring entry -> answer of its last timed call
        # By C++ of its own: a graph, or a handle of cuBLAS that it keeps. PyTorch's graphs are watched.
        self.holds_workspace = any(word in spec["source"].lower() for word in ("graph", "cublas"))
        self.guarded(self.load)

    def guarded(self, work: Any, *arguments: Any) -> Any:
        """A candidate may raise anything; the judge gets type and message, the log the whole traceback."""
        try:
            return work(*arguments)
        except torch.OutOfMemoryError as error:
            traceback.print_exc()
            raise MemoryError(str(error)) from error
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def load(self) -> None:
        path = os.path.abspath("candidate.py")
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(self.spec["source"])
        place = importlib.util.spec_from_file_location("candidate", path)
        assert place is not None and place.loader is not None
        module = importlib.util.module_from_spec(place)
        sys.modules["candidate"] = module
        place.loader.exec_module(module)
        found = getattr(module, self.spec["name"], None)
        if found is None:
            self.refusal = f"the file defines no `{self.spec['name']}`"
            return
        with torch.device(self.device):
            model = found(*self.spec["arguments"], **self.spec["named"])
        self.model = model.to(self.device).eval()
        self.refusal = unmatched(self.model, self.spec["state"], self.tensors)

    def describe(self) -> dict[str, Any]:
        """What the judge is told after loading."""
        return {"notes": self.notes, "refusal": self.refusal}

    def workspace(self, symbols: list[int]) -> dict[str, Any]:
        """Modules allocate for themselves."""
        return {"bytes": 0}

    # ------------------------------------------------------------------ views

    def views(self, offsets: Sequence[int]) -> list[torch.Tensor]:
        """The judge's tensors of one set, in call order."""
        found = []
        for tensor, offset in zip(self.tensors, offsets, strict=True):
            kind = TYPES[tensor["dtype"]]
            count = 1
            for size in tensor["shape"]:
                count *= size
            raw = self.block[offset : offset + count * kind.itemsize]
            found.append(raw.view(kind).reshape(tensor["shape"]))
        return found

    def adopt(self, offsets: Sequence[int]) -> tuple[torch.nn.Module, list[Any], list[torch.Tensor]]:
        """A copy of the model on one set's memory, its arguments, and where its outputs go."""
        assert self.model is not None
        views = self.views(offsets)
        inputs, state, outputs = self.spec["inputs"], self.spec["state"], len(self.spec["outputs"])
        places = iter(views[:inputs])
        arguments = [next(places) if slot is None else slot["value"] for slot in self.spec["call"]]
        own = self.model.state_dict(keep_vars=True)
        memo: dict[int, Any] = {}
        for name, view in zip(state, views[inputs : len(views) - outputs], strict=True):
            if name in own:
                held = own[name]
                is_parameter = isinstance(held, torch.nn.Parameter)
                memo[id(held)] = torch.nn.Parameter(view, requires_grad=False) if is_parameter else view
        return copy.deepcopy(self.model, memo), arguments, views[len(views) - outputs :]

    # ------------------------------------------------------------------ calls

    def call(self, offsets: list[int], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """One call; its outputs in the judge's buffers."""
        model, arguments, places = self.guarded(self.adopt, offsets)
        start = time.perf_counter_ns()
        made = self.guarded(self.forward, model, arguments)
        elapsed = time.perf_counter_ns() - start
        wrong = copy_outputs(made, places, self.spec["outputs"])
        self.idle()
        return {"code": 0, "elapsed_ns": elapsed, "wrong": wrong}

    def forward(self, model: torch.nn.Module, arguments: list[Any]) -> Any:
        with torch.no_grad():
            made = model(*arguments)
        self.idle()
        return made

    def idle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def prepare(self, ring: list[list[int]], symbols: list[int], workspace: int | None) -> dict[str, Any]:
        """A model, arguments and output places for every ring entry."""
        for offsets in ring:
            model, arguments, places = self.guarded(self.adopt, offsets)
            self.instances.append(model)
            self.arguments.append(arguments)
            self.outputs.append(places)
            # Memory that has been written to before: what is timed is neither an allocator's first time nor a page's.
            self.last[len(self.outputs) - 1] = [torch.empty_like(place).fill_(1) for place in places]
        if self.device.type == "cpu":
            leave_room(sum(place.nbytes for places in self.outputs for place in places))
        return {"method": "module"}

    def shift_scratch(self, sizes: list[int]) -> dict[str, Any]:
        """Let what the allocator gives next lie elsewhere: it has nothing left over, and blocks of these sizes come first.

        cuBLAS's workspace is kept for good otherwise. Who captured a graph or keeps a handle may hold its address.
        """
        self.shims.clear()
        if not self.holds_workspace and not captured:
            clear_workspaces()
        torch.cuda.empty_cache()
        self.shims += [torch.empty(size, dtype=torch.uint8, device=self.device) for size in sizes]
        return {}

    def line_up(self, order: list[int]) -> dict[str, Any]:
        """Make the next slice ready."""
        self.lined = [(entry, self.instances[entry], self.arguments[entry]) for entry in order]
        return {}

    def slice(self, run_up: int = 0) -> dict[str, Any]:
        """Calls one after another; the last answer of every entry is kept for `deliver`. `run_up` is for a GPU."""
        if self.device.type == "cuda":
            return self.slice_by_events(self.lined[:run_up], self.lined[run_up:])
        calls, last = self.lined, self.last
        with torch.no_grad():
            start = time.perf_counter_ns()
            for entry, model, arguments in calls:
                last[entry] = model(*arguments)
            elapsed = time.perf_counter_ns() - start
        return {"elapsed_ns": elapsed, "code": 0}

    def slice_by_events(self, run_up: Sequence[Call], calls: Sequence[Call]) -> dict[str, Any]:
        """Time of the device. What runs up keeps it busy until the rest is enqueued, and is not timed."""
        self.idle()
        first, end = DeviceEvent(enable_timing=True), DeviceEvent(enable_timing=True)
        stream, last = current_stream(), self.last
        with torch.no_grad():
            for entry, model, arguments in run_up:
                last[entry] = model(*arguments)
            first.record(stream)
            for entry, model, arguments in calls:
                last[entry] = model(*arguments)
            end.record(stream)
            self.idle()
        return {"elapsed_ns": first.elapsed_time(end) * 1e6, "code": 0}

    def deliver(self, entries: list[int]) -> dict[str, Any]:
        """What timed calls on these ring entries answered last, into the judge's buffers."""
        wrong = ""
        for entry in entries:
            wrong = wrong or copy_outputs(self.last[entry], self.outputs[entry], self.spec["outputs"])
        self.idle()
        return {"wrong": wrong}


def leave_room(size_bytes: int) -> None:
    """Memory that was written to and given back: results that are kept rarely fit where another one was.

    The allocator asks for alignment beyond a block's size, so a freed block serves the next only with its neighbour; in a
    young process what is missing comes from the system, a page fault for every 4 KiB.
    """
    torch.empty(min(size_bytes, ROOM_MOST_BYTES), dtype=torch.uint8).fill_(1)


def step_down(user: int | None) -> list[str]:
    """Another user where that one can read what torch still imports; else root without its powers, or who it is."""
    needed = [sys.prefix, sys.base_prefix, torch.__file__, os.getcwd()]
    if user is not None and os.geteuid() == 0 and confinement.anybody_can_reach(needed):
        return confinement.become(user)
    return ["same user as the judge", *confinement.drop_capabilities()]


def open_block(spec: dict[str, Any]) -> torch.Tensor:
    """The judge's memory as bytes."""
    if spec["device"] == "cpu":
        memory = map_arena(spec["arena_fd"], spec["arena_bytes"], spec["sets_bytes"])
        return torch.frombuffer(memory, dtype=torch.uint8)
    from cuda.bindings import runtime

    torch.cuda.init()
    handle = runtime.cudaIpcMemHandle_t()
    handle.reserved = bytes.fromhex(spec["handle"])
    status, address = runtime.cudaIpcOpenMemHandle(handle, 1)  # 1: peer access is enabled when needed
    if int(status) != 0:
        raise RuntimeError(f"{status.name}: the judge's memory cannot be opened")
    return torch.as_tensor(Interface(int(address), spec["arena_bytes"]), device="cuda")


class Interface:
    """Raw device memory as numba's array interface describes it."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def unmatched(model: torch.nn.Module, state: Sequence[str], tensors: Sequence[dict[str, Any]]) -> str:
    """Why the reference's parameters cannot be given to this model; "" when they can."""
    wanted = {tensor["name"]: tensor for tensor in tensors if tensor["name"] in set(state)}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, value in parameters.items():
        if name not in wanted:
            missing = [other for other in wanted if other not in parameters] or list(wanted)
            expected = ", ".join(list(wanted) if len(wanted) <= 12 else missing[:12]) or "no parameters"
            return f"parameter `{name}` has no counterpart; expected {expected}"
        shape = tuple(wanted[name]["shape"])
        if tuple(value.shape) != shape:
            return f"parameter `{name}` has shape {tuple(value.shape)}; expected {shape}"
    own = model.state_dict()
    lost = [name for name in wanted if name not in own and not name.endswith("num_batches_tracked")]
    if lost:
        return (
            f"the reference's parameter `{lost[0]}` has no counterpart in ModelNew; it has {', '.join(own) or 'none'}"
        )
    return ""


def copy_outputs(made: Any, places: Sequence[torch.Tensor], names: Sequence[str]) -> str:
    """Copy outputs into the judge's buffers; what is wrong with their kind, "" for nothing."""
    values = tuple(made) if isinstance(made, list | tuple) else (made,)
    if len(values) != len(places):
        return f"it returned {len(values)} values; {len(places)} are expected"
    for value, place, name in zip(values, places, names, strict=True):
        if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
            return f"`{name}` is a {type(value).__name__}, not a torch.Tensor"
        if value.dtype is not place.dtype or value.shape != place.shape:
            return (
                f"`{name}` is {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}; expected "
                f"{str(place.dtype).removeprefix('torch.')} {tuple(place.shape)}"
            )
        if value.device.type != place.device.type:
            return f"`{name}` lies on {value.device.type}; expected {place.device.type}"
        place.copy_(value)
    return ""


def warm(device: str) -> dict[str, Any]:
    """What a spare does before there is a candidate: torch is in, and the device is open."""
    if device == "cuda":
        torch.cuda.init()
        torch.ones(1, device="cuda").sum().item()
    return {"pid": os.getpid(), "address_bits": 8 * ctypes.sizeof(ctypes.c_void_p)}
