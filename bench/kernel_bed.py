"""A problem that ships on one GPU, its kernels and eager side by side: checking and timing that share no code with the judge.

describe      the contract, from the reference alone
Kernel        a built library behind it
Bed           model, input sets, eager's results
errors        how far a kernel is off, against eager and float64
time_graphs   µs per call, replays in random order
"""

from __future__ import annotations

import ctypes
import inspect
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kerneltui.contract import contract_from_description  # noqa: E402 - the checkout, not an installed copy
from kerneltui.problems import init_arguments, load_problem, sized_source  # noqa: E402
from kerneltui.records import Contract, Language  # noqa: E402

FACTOR = 4  # judge/compare.py: EAGER_FACTOR
TOLERANCE = {"float32": 1e-4, "float16": 1e-2}


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


# --------------------------------------------------------------------------- what a kernel is called with


def load_reference(problem: str) -> dict[str, Any]:
    """The namespace of reference.py at the sizes for a GPU."""
    found = load_problem(problem)
    namespace: dict[str, Any] = {"__name__": f"reference_{problem}"}
    exec(compile(sized_source(found, "cuda"), found.path, "exec"), namespace)
    return namespace


def describe(problem: str) -> Contract:
    """The contract, from a run of the reference on the meta device."""
    import torch

    namespace = load_reference(problem)
    initial = namespace["get_init_inputs"]()
    with torch.device("meta"):
        model = namespace["Model"](*initial)
        inputs = namespace["get_inputs"]()
        output = model(*inputs)

    def entry(name: str, tensor: Any) -> dict[str, Any]:
        return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}

    arguments = list(inspect.signature(model.forward).parameters)
    settings = init_arguments(load_problem(problem).source)
    description = {
        "inputs": [entry(name, value) for name, value in zip(arguments, inputs, strict=True)],
        "parameters": [entry(name, value) for name, value in model.named_parameters()],
        "buffers": [entry(name, value) for name, value in model.named_buffers()],
        "outputs": [entry("out", output)],
        "scalars": [{"name": name, "value": value} for name, value in zip(settings, initial, strict=True)],
    }
    return contract_from_description(load_problem(problem), description, Language.CUDA)


class Kernel:
    """A built library behind its contract, called on the current stream with torch tensors."""

    def __init__(self, library: Path, contract: Contract) -> None:
        import torch

        self.handle = ctypes.CDLL(str(library))
        self.function = getattr(self.handle, contract.function)
        self.function.restype = ctypes.c_int
        size = 0
        if hasattr(self.handle, f"{contract.function}_workspace"):
            wanted = getattr(self.handle, f"{contract.function}_workspace")
            wanted.restype = ctypes.c_size_t
            size = wanted()
        # Poisoned: a kernel may not count on zeros there.
        self.workspace = torch.full((max(size, 1),), 0xA5, dtype=torch.uint8, device="cuda")
        self.size = size

    def __call__(self, tensors: list[Any], out: Any) -> None:
        import torch

        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*tensors, out)]
        workspace = ctypes.c_void_p(self.workspace.data_ptr() if self.size else None)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = self.function(*pointers, workspace, stream)
        if code != 0:
            raise RuntimeError(f"returned {code}")


# --------------------------------------------------------------------------- checking


class Bed:
    """A problem on the GPU: model, input sets, eager's results."""

    def __init__(self, problem: str) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.problem = problem
        self.contract = describe(problem)
        self.namespace = load_reference(problem)
        torch.manual_seed(random.randrange(2**31))
        with torch.device("cuda"):
            self.model = self.namespace["Model"](*self.namespace["get_init_inputs"]())
            first = self.namespace["get_inputs"]()
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if "norm" in name:  # ones and zeros would hide a kernel that leaves them out
                    parameter.add_(torch.randn_like(parameter), alpha=0.5)
            out = self.model(*first)
        self.parameters = [value.detach() for _, value in self.model.named_parameters()]
        self.parameters += [value for _, value in self.model.named_buffers()]
        self.bytes = sum(t.numel() * t.element_size() for t in (*first, *self.parameters, out))
        self.sets = [first]
        while self.bytes * len(self.sets) < 200e6:  # three times L2
            with torch.device("cuda"):
                self.sets.append(self.namespace["get_inputs"]())
        self.expected = out
        self.dtype = str(out.dtype).removeprefix("torch.")

    def eager(self, inputs: list[Any]) -> Any:
        import torch

        with torch.no_grad():
            return self.model(*inputs)

    def exact(self, inputs: list[Any], samples: Any) -> Any:
        """These samples (a slice, or their indices) in float64."""
        import copy

        import torch

        whole = self.problem.startswith("matmul")
        rows = [value[samples].double() if i == 0 or not whole else value.double() for i, value in enumerate(inputs)]
        with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return copy.deepcopy(self.model).double()(*rows)

    def samples(self) -> int:
        return {"softmax": 64, "layernorm": 2, "attention_fp16": 1}.get(
            self.problem, 256 if "mat" in self.problem else 4
        )

    def altered(self, how: str) -> list[Any]:
        """The first input set, with its first input made harder."""
        first, *rest = self.sets[0]
        if how == "mean 1000":
            first = first * 0.1 + 1000.0
        elif how == "times 1e4":
            first = first * 1e4
        elif how == "times 1e-6":
            first = first * 1e-6
        return [first, *rest]


def errors(bed: Bed, kernel: Kernel, inputs: list[Any]) -> dict[str, float]:
    """Wrong elements by the problem's tolerance, largest errors against eager and float64."""
    import torch

    expected = bed.eager(inputs)
    out = torch.full_like(expected, float("nan"))
    kernel([*inputs, *bed.parameters], out)
    torch.cuda.synchronize()
    bound = TOLERANCE[bed.dtype]
    scale = min(1.0, expected.float().abs().max().item())
    samples = bed.samples()
    exact = bed.exact(inputs, slice(samples))
    norm = exact.norm()
    own = (expected[:samples].double() - exact).abs().max().item()  # what eager is off by, a kernel may be as well
    close = (out[:samples].double() - exact).abs() <= bound * scale + FACTOR * own + bound * exact.abs()
    difference = (out.float() - expected.float()).abs_()
    near = difference <= bound * scale + FACTOR * own + bound * expected.float().abs()
    suspects = (~near).flatten(1).any(1).nonzero().reshape(-1)[:samples]
    if len(suspects):  # eager's own error may be larger there than in the first samples
        truth = bed.exact(inputs, suspects)
        near[suspects] |= (out[suspects].double() - truth).abs() <= bound * scale + FACTOR * own + bound * truth.abs()
    return {
        "wrong64": int((~close).sum().item()),
        "off": int((~near).sum().item()),
        "max_abs": difference.nan_to_num(nan=math.inf).max().item(),
        "exact_max": (out[:samples].double() - exact).abs().max().item(),
        "exact_norm": ((out[:samples].double() - exact).norm() / norm).item(),
        "eager_max": (expected[:samples].double() - exact).abs().max().item(),
        "eager_norm": ((expected[:samples].double() - exact).norm() / norm).item(),
    }


# --------------------------------------------------------------------------- timing


def capture(work: Any, sets: int) -> Any:
    """A graph that does `work(i)` for every input set."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(sets):
            work(i)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(sets):
            work(i)
    return graph


def time_graphs(graphs: dict[str, Any], sets: int, budget_s: float) -> dict[str, list[float]]:
    """µs per call of each graph, replayed in random order, round after round."""
    import torch

    samples: dict[str, list[float]] = {name: [] for name in graphs}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    started = time.monotonic()
    order = list(graphs)
    for round_ in range(60):
        random.shuffle(order)
        for name in order:
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            if round_ > 0:  # the first round warms up
                samples[name].append(begin.elapsed_time(end) * 1e3 / sets)
        say(round=round_)
        if round_ >= 5 and time.monotonic() - started > budget_s:
            break
    return samples


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def operations(bed: Bed) -> float:
    """Floating-point operations of matrix products and convolutions; 0 where memory decides."""
    shape = {tensor.name: tensor.shape for tensor in bed.contract.tensors}
    if bed.problem.startswith("matmul"):
        return 2.0 * math.prod(shape["a"]) * shape["b"][1]
    if bed.problem.startswith("conv2d"):
        side = (shape["x"][2] + 4 - 11) // 4 + 1
        return 2.0 * shape["x"][0] * side * side * math.prod(shape["conv_weight"])
    if bed.problem.startswith("attention"):
        return 4.0 * math.prod(shape["q"]) * shape["k"][2]
    return 0.0
