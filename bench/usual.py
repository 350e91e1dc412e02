"""The usual way to a verdict: a fresh process that imports torch, builds an extension and runs trials.

    python bench/usual.py < task.json       (started by bench/verdict.py)

What `torch.utils.cpp_extension.load_inline` needs is made from the same kernel source: a function over tensors
around it. Where there is no ninja, which load_inline insists on, the commands that it would run are run directly.
The last line of stdout is one JSON object: what was found, and seconds by stage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from typing import Any

STARTED = time.perf_counter()
WARM_UPS = 3
TOLERANCE = 1e-4


def main() -> int:
    """One verdict."""
    task = json.load(sys.stdin)
    stages: dict[str, float] = {}
    mark = STARTED

    def done(stage: str) -> None:
        nonlocal mark
        now = time.perf_counter()
        stages[stage], mark = now - mark, now

    import torch

    device = torch.device(task["device"])
    if device.type == "cuda":
        torch.zeros(1, device=device)
    done("import torch")
    function, built_by = build(task)
    done("compile")
    space: dict[str, Any] = {}
    exec(compile(task["reference"], "reference.py", "exec"), space)
    model = space["Model"](*space["get_init_inputs"]()).to(device).eval()
    right = all(trial(space, model, function, seed, device) for seed in range(task["correctness_trials"]))
    done("correctness")
    inputs = make_inputs(space, 0, device)
    state = list(model.state_dict().values())
    candidate_s = timed(lambda: function([*inputs, *state]), task["timing_trials"], device)
    done("timing, candidate")
    with torch.no_grad():
        eager_s = timed(lambda: model(*inputs), task["timing_trials"], device)
    done("timing, eager")
    times = {"candidate_us": candidate_s * 1e6, "eager_us": eager_s * 1e6}
    print(json.dumps({"right": right, "built_by": built_by, "stages": stages, **times}), flush=True)
    return 0


def make_inputs(space: dict[str, Any], seed: int, device: Any) -> list[Any]:
    import torch

    torch.manual_seed(seed)
    return [value.to(device) for value in space["get_inputs"]()]


def trial(space: dict[str, Any], model: Any, function: Any, seed: int, device: Any) -> bool:
    """Fresh inputs, both answers, all elements close."""
    import torch

    inputs = make_inputs(space, seed, device)
    with torch.no_grad():
        expected = model(*inputs)
    found = function([*inputs, *model.state_dict().values()])[0]
    return bool(torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE))


def timed(call: Any, trials: int, device: Any) -> float:
    """Median seconds of one call."""
    import torch

    samples: list[float] = []
    for number in range(WARM_UPS + trials):
        if device.type == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            call()
            last.record()
            torch.cuda.synchronize()
            spent = first.elapsed_time(last) / 1e3
        else:
            start = time.perf_counter()
            call()
            spent = time.perf_counter() - start
        if number >= WARM_UPS:
            samples.append(spent)
    return sorted(samples)[len(samples) // 2]


# --------------------------------------------------------------------------- building


def build(task: dict[str, Any]) -> tuple[Any, str]:
    """The bound function, and by what it was built."""
    from torch.utils import cpp_extension

    with open(os.path.join(task["folder"], "contract.h"), "w", encoding="utf-8") as file:
        file.write(task["header"])
    flags = ["-O3", *(f"-D{name}={value}" for name, value in task["defines"])]
    host_flags = [*flags, "-march=native", "-fopenmp"]
    if task["device"] == "cpu" and not cpp_extension.is_ninja_available():
        return build_directly(task, host_flags), "the compiler, called directly"
    cuda = task["device"] == "cuda"
    module = cpp_extension.load_inline(
        task["name"],
        cpp_sources=[task["declaration"] if cuda else task["kernel"] + task["binding"]],
        cuda_sources=[task["kernel"] + task["binding"]] if cuda else None,
        functions=["forward"],
        extra_cflags=["-O3"] if cuda else host_flags,
        extra_cuda_cflags=flags,
        extra_include_paths=[task["folder"]],
        build_directory=task["folder"],
    )
    return module.forward, "load_inline"


def build_directly(task: dict[str, Any], flags: list[str]) -> Any:
    """As load_inline builds a host extension: the same file, flags and libraries."""
    from torch.utils import cpp_extension

    name, folder = task["name"], task["folder"]
    export = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", torch::wrap_pybind_function(forward), ""); }'
    source, made = os.path.join(folder, "main.cpp"), os.path.join(folder, "main.o")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(["#include <torch/extension.h>", task["kernel"] + task["binding"], export]))
    include = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    words = [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H", f"-I{folder}"]
    words += [word for path in include for word in ("-isystem", path)]
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, *words, "-fPIC", "-std=c++20", *flags, "-c", source, "-o", made], check=True)
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    subprocess.run([compiler, made, "-shared", *libraries, "-o", os.path.join(folder, f"{name}.so")], check=True)
    sys.path.insert(0, folder)
    return __import__(name).forward


if __name__ == "__main__":
    status = main()
    # The verdict is out: what an interpreter with torch takes to shut down is not counted.
    os._exit(status)
