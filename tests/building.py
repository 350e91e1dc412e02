"""A relu contract, real devices and small sources for the compile tests."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from kerneltui.evaluator.devices import find_device
from kerneltui.evaluator.toolkits import nvcc_places
from kerneltui.records import Candidate, Contract, Device, Language

HAS_NVCC = bool(nvcc_places())
HEADER = """#pragma once
#include <cstddef>
#include <cstdint>
{includes}
constexpr int64_t N = 1024;
extern "C" __attribute__((visibility("default"))) int relu(const float* x, float* out, void* workspace{stream});
"""
CPP_CONTRACT = Contract(
    function="relu", language=Language.CPP, tensors=(), header=HEADER.format(includes="", stream="")
)
CUDA_CONTRACT = Contract(
    function="relu",
    language=Language.CUDA,
    tensors=(),
    header=HEADER.format(includes="#include <cuda_runtime.h>", stream=", cudaStream_t stream"),
)
RELU = """#include "contract.h"
#include <algorithm>
extern "C" int relu(const float* x, float* out, void* workspace) {
#pragma omp parallel for
    for (int64_t i = 0; i < N; ++i) out[i] = std::max(x[i], 0.0f);
    return 0;
}
"""
CUDA_RELU = """#include "contract.h"
template <class T> __global__ void positive(const T* x, T* out) {
    __shared__ T tile[256];
    int64_t i = blockIdx.x * 256L + threadIdx.x;
    tile[threadIdx.x ^ 1] = x[i];
    __syncthreads();
    if (i < N) out[i] = tile[threadIdx.x ^ 1] > T(0) ? x[i] : T(0);
}
extern "C" int relu(const float* x, float* out, void* workspace, cudaStream_t stream) {
    positive<float><<<(N + 255) / 256, 256, 0, stream>>>(x, out);
    return cudaGetLastError();
}
"""


def cpp(source: str, **others: object) -> Candidate:
    return replace(Candidate(source=source, language=Language.CPP), **others)  # type: ignore[arg-type]


def cuda(source: str, **others: object) -> Candidate:
    return replace(Candidate(source=source, language=Language.CUDA), **others)  # type: ignore[arg-type]


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def cpu_with(compiler: Path | str) -> Device:
    """This CPU with another compiler."""
    return replace(find_device("cpu"), compiler=str(compiler), toolkit="test")


def processes_named(word: str) -> list[int]:
    """Processes whose command line holds a word."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                words = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(entry))
    return found
