"""nvcc's two halves at the same time against plain nvcc, alternating in one run: seconds of each, and their ratio.

    python bench/compiling.py [--repeat N] [--architecture sm_90a] [--json]

Needs nvcc and no GPU. `relu` is a small kernel, of whose time most goes to headers; `many` has 24 kernels that are
unrolled, as templates for many sizes are. Both ways run outside of the cage, on the same files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from verdict import RELU_KERNEL, RELU_SHAPE

from kerneltui.evaluator.devices import offline_cuda_device
from kerneltui.evaluator.recipes import Recipe, recipe_for
from kerneltui.records import Candidate, Contract, Device, Language

HEADER = """#pragma once
#include <cstdint>
#include <cuda_runtime.h>
constexpr int64_t x_numel = {numel};
extern "C" __attribute__((visibility("default"))) int relu(const float*, float*, void*, cudaStream_t);
"""
MANY = """#include "contract.h"
template <int N> __global__ void positive(const float* x, float* out) {
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = x[i * blockDim.x * gridDim.x + blockIdx.x * blockDim.x + threadIdx.x];
#pragma unroll
    for (int i = 1; i < N; ++i) v[i] = fmaxf(fmaf(v[i - 1], 0.0f, v[i]), 0.0f);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i * blockDim.x * gridDim.x + blockIdx.x * blockDim.x + threadIdx.x] = v[i];
}
template <int N> void all(const float* x, float* out, cudaStream_t stream) {
    positive<N * 4><<<1024, 256, 0, stream>>>(x, out);
    if constexpr (N > 1) all<N - 1>(x, out, stream);
}
extern "C" int relu(const float* x, float* out, void*, cudaStream_t stream) {
    all<24>(x, out, stream);
    return cudaGetLastError();
}
"""
SOURCES = {"relu": RELU_KERNEL["cuda"], "many": MANY}


def main() -> int:
    """Measure and report; 1 when a plan is not known for this nvcc."""
    parser = argparse.ArgumentParser(description="Two halves of nvcc at once against plain nvcc.")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--architecture", default="sm_90a")
    parser.add_argument("--json", action="store_true", help="a JSON object as the last line")
    options = parser.parse_args()
    device = offline_cuda_device(options.architecture)
    rows = []
    for name, source in SOURCES.items():
        row = compare(name, source, device, options.repeat)
        if row is None:
            print(f"the plan of nvcc {device.toolkit} is not one that is known", file=sys.stderr)
            return 1
        rows.append(row)
        print(
            f"{name}: {row['split_s']:.2f} s against {row['plain_s']:.2f} s, ratio {row['ratio']:.2f} {row['range']}",
            file=sys.stderr,
        )
    if options.json:
        print(json.dumps({"bench": "compiling", "nvcc": device.toolkit, "kernels": rows}))
    return 0


def compare(name: str, source: str, device: Device, repeat: int) -> dict[str, object] | None:
    """Medians of both ways and of the ratio of neighbours."""
    rows, width = RELU_SHAPE["cuda"]
    contract = Contract(function="relu", language=Language.CUDA, tensors=(), header=HEADER.format(numel=rows * width))
    recipe = recipe_for(Candidate(source=source, language=Language.CUDA), contract, device)
    (step,) = recipe.steps
    if not step.script:
        return None
    ways: dict[str, Sequence[str]] = {"plain": step.argv, "split": ("/bin/sh", "-c", step.script)}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repeat + 1):
        for way in sorted(ways, reverse=turn % 2 == 1):
            seconds = timed(recipe, ways[way])
            if turn:  # the first of each reads the toolkit from disk
                spent[way].append(seconds)
    ratios = [split / plain for split, plain in zip(spent["split"], spent["plain"], strict=True)]
    return {
        "kernel": name,
        "plain_s": statistics.median(spent["plain"]),
        "split_s": statistics.median(spent["split"]),
        "ratio": statistics.median(ratios),
        "range": [round(min(ratios), 2), round(max(ratios), 2)],
    }


def timed(recipe: Recipe, argv: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="kerneltui-bench-") as folder:
        recipe.write(Path(folder))
        start = time.perf_counter()
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
