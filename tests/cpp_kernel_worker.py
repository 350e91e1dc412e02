"""Run by test_kernels_cpp.py in a process of its own: a kernel that crashes takes only this one with it.

Reads {"problem", "sizes", "kernels": [[file, {define: value}]]} a line, prints a finding a line.
"""

from __future__ import annotations

import copy
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from kerneltui.contract import contract_from_description
from kerneltui.problems import forward_arguments, init_arguments, load_problem, sized_source
from kerneltui.records import Contract, Language

GUARD = 1024  # elements before and after an output; keeps the alignment
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3}  # of the largest output, against float64
FLAGS = [
    "-std=c++17",
    "-O1",
    "-march=native",
    "-fopenmp",
    "-fvisibility=hidden",
    "-shared",
    "-fPIC",
    "-Wall",
    "-Werror",
]


def describe(source: str, model: Any, inputs: list[Any], output: Any) -> dict[str, Any]:
    def entry(name: str, tensor: Any) -> dict[str, Any]:
        return {"name": name, "dtype": str(tensor.dtype), "shape": list(tensor.shape)}

    scalars = zip(init_arguments(source), source_init(source), strict=True)
    return {
        "inputs": [entry(*pair) for pair in zip(forward_arguments(source), inputs, strict=True)],
        "scalars": [{"name": name, "value": value} for name, value in scalars],
        "parameters": [entry(*pair) for pair in model.named_parameters()],
        "buffers": [],
        "outputs": [entry("out", output)],
    }


def run_module(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(source, "reference.py", "exec"), space)
    return space


def source_init(source: str) -> list[Any]:
    return list(run_module(source)["get_init_inputs"]())


def input_sets(problem: str, inputs: list[Any]) -> dict[str, list[Any]]:
    sets = {"as given": inputs}
    if problem == "layernorm":
        sets["large mean"] = [inputs[0] * 0.1 + 1000]
        sets["large values"] = [(inputs[0] - 0.3) * 1e12]
        sets["odd first value"] = [inputs[0].clone()]
        sets["odd first value"][0].view(-1)[0] = 1e4
        sets["constant"] = [torch.full_like(inputs[0], 7.25)]
    if problem == "softmax":
        sets["large values"] = [inputs[0] * 1e4]
        sets["large mean"] = [inputs[0] + 3e4]
        sets["minus infinity"] = [inputs[0].clone()]
        sets["minus infinity"][0][:, ::3] = -torch.inf
        sets["ascending"] = [inputs[0].sort(dim=1).values]
        sets["largest finite"] = [inputs[0].sign() * 3e38]
    return sets


def build(file: Path, defines: dict[str, int], contract: Contract, folder: Path) -> Path:
    (folder / "contract.h").write_text(contract.header)
    library = folder / "kernel.so"
    words = [f"-D{name}={value}" for name, value in defines.items()]
    done = subprocess.run(
        ["g++", *FLAGS, *words, "-I", str(folder), str(file), "-o", str(library)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[:2000])
    return library


def call(library: Any, contract: Contract, tensors: list[Any]) -> int:
    try:
        want = getattr(library, f"{contract.function}_workspace")
    except AttributeError:
        size = 0
    else:
        want.restype = ctypes.c_size_t
        size = want()
    workspace = torch.full((size + 128,), 0x5A, dtype=torch.uint8)
    start = -workspace.data_ptr() % 64
    address = workspace.data_ptr() + start if size else 0
    arguments = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
    code = int(getattr(library, contract.function)(*arguments, ctypes.c_void_p(address)))
    if not bool((workspace[start + size :] == 0x5A).all()):
        raise RuntimeError("wrote behind its workspace")
    return code


def compare(library: Any, contract: Contract, model: Any, exact: Any, inputs: list[Any]) -> str:
    """ "" or what is wrong."""
    wanted = exact(*[tensor.double() for tensor in inputs])
    kept = [tensor.clone() for tensor in inputs]
    buffer = torch.full((wanted.numel() + 2 * GUARD,), torch.nan, dtype=inputs[0].dtype)
    out = buffer[GUARD:-GUARD].view(wanted.shape)
    parameters = [parameter.detach() for parameter in model.parameters()]
    code = call(library, contract, [*inputs, *parameters, out])
    if code != 0:
        return f"returned {code}"
    if not all(torch.equal(*pair) for pair in zip(inputs, kept, strict=True)):
        return "changed its input"
    if not bool(buffer[:GUARD].isnan().all() and buffer[-GUARD:].isnan().all()):
        return "wrote outside its output"
    error = ((out.double() - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)).item()
    return "" if error <= TOLERANCE[out.dtype] else f"error {error:.3g} of the largest output"


def judge(case: dict[str, Any]) -> None:
    torch.manual_seed(7)
    problem = load_problem(case["problem"])
    source = sized_source(problem, "cpu", case["sizes"])
    space = run_module(source)
    model = space["Model"](*space["get_init_inputs"]())
    inputs = [tensor.contiguous() for tensor in space["get_inputs"]()]
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 1.0)
    exact = copy.deepcopy(model).double()
    description = describe(source, model, inputs, model(*inputs))
    contract = contract_from_description(problem, description, Language.CPP)
    assert problem.folder is not None
    for file, defines in case["kernels"]:
        with tempfile.TemporaryDirectory() as folder:
            found = {"problem": problem.name, "file": file, "defines": defines, "wrong": []}
            try:
                library = ctypes.CDLL(str(build(Path(problem.folder) / file, defines, contract, Path(folder))))
                for name, tensors in input_sets(problem.name, inputs).items():
                    wrong = compare(library, contract, model, exact, tensors)
                    found["wrong"] += [f"{name}: {wrong}"] if wrong else []
            except RuntimeError as error:
                found["wrong"] += [str(error)]
            print(json.dumps(found), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        for line in sys.stdin:
            judge(json.loads(line))


if __name__ == "__main__":
    main()
