"""The judge on a real GPU: verdicts, captured graphs, faults that only a device has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kerneltui.errors import KernelTuiError
from kerneltui.evaluator.devices import list_devices
from kerneltui.judge.blocks import PAGE_BYTES, CudaArena
from kerneltui.records import Badge, CheckResult, Outcome
from tests.judging import Bench

pytestmark = pytest.mark.gpu
REFERENCE = """
import torch
import torch.nn as nn

ROWS, WIDTH = 4096, 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
"""
KERNEL = """
#include "contract.h"
__global__ void k(const float* x, float* out) {
    int64_t i = blockIdx.x * 256L + threadIdx.x;
    if (i < N) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
}
"""


def launcher(body: str, kernel: str = KERNEL) -> str:
    head = 'extern "C" int fault(const float* x, float* out, void* workspace, cudaStream_t stream)'
    return f"{kernel}\n{head} {{\n{body}\n    return 0;\n}}\n"


GOOD = launcher("k<<<(N + 255) / 256, 256, 0, stream>>>(x, out);")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    try:
        devices = [device for device in list_devices() if device.kind == "cuda"]
    except KernelTuiError as error:
        pytest.skip(str(error))
    if not devices:
        pytest.skip("no GPU here")
    made = Bench(tmp_path_factory.mktemp("gpu"), REFERENCE, name="fault", device=devices[0], deadline_s=10.0)
    yield made
    made.close()


def test_a_good_kernel_is_measured_by_graphs(bench: Bench) -> None:
    verdict = bench.judge(GOOD)
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    measured = verdict.measurement
    assert measured is not None
    assert ("graph", Badge.MEASURED) == (measured.method, measured.badge), measured
    assert 1.0 < measured.speedup["eager"].ratio < 6.0
    assert measured.call_us is not None and measured.call_us >= measured.median_us
    found = {check.name: check for check in verdict.checks}
    assert measured.warm_us is not None and measured.warm_us > 0
    assert CheckResult.PASS == found["anchor"].result
    assert CheckResult.PASS == found["graph capture"].result
    assert re.search(r"k.*<<<65536x1x1, 256x1x1, 0>>>", found["graph capture"].detail)
    assert [] == bench.leftovers(spare=True)


FAULTS = [
    (
        "out of bounds",
        launcher("k<<<1, 32, 0, stream>>>(x, out);", KERNEL.replace("out[i] =", "out[i + (1L << 40)] =")),
        Outcome.LAUNCH_ERROR,
        r"illegal address",
    ),
    (
        "too much shared memory",
        launcher("k<<<(N + 255) / 256, 256, 200 * 1024, stream>>>(x, out);"),
        Outcome.LAUNCH_ERROR,
        r"asked for 200 KiB dynamic shared memory without raising the limit",
    ),
    (
        "too many threads",
        launcher("k<<<(N + 2047) / 2048, 2048, 0, stream>>>(x, out);"),
        Outcome.LAUNCH_ERROR,
        r"a block of 2,048 threads",
    ),
    (
        "nothing launched",
        launcher(""),
        Outcome.MISMATCH,
        r"never written \(everywhere\)",
    ),
    (
        "default stream",
        launcher("k<<<(N + 255) / 256, 256>>>(x, out);"),
        Outcome.SUSPECT,
        r"launch on the stream you were given",
    ),
    (
        "side stream",
        launcher(
            "static cudaStream_t side = nullptr;\n"
            "    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);\n"
            "    k<<<(N + 255) / 256, 256, 0, side>>>(x, out);"
        ),
        Outcome.SUSPECT,
        r"launch on the stream you were given",
    ),
    (
        "endless",
        launcher(
            "k<<<1, 1, 0, stream>>>(x, out);", KERNEL.replace("int64_t i", "while (x[0] < 1e30f) {}\n    int64_t i")
        ),
        Outcome.TIMEOUT,
        r"no end within",
    ),
    (
        "past the end",
        launcher("k<<<(N + 255) / 256 + 1, 256, 0, stream>>>(x, out);", KERNEL.replace("i < N", "i <= N")),
        Outcome.MISMATCH,
        r"outside its buffers",
    ),
]


@pytest.mark.parametrize(
    ("source", "outcome", "words"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS]
)
def test_device_faults(bench: Bench, source: str, outcome: Outcome, words: str) -> None:
    verdict = bench.judge(source, deadline_s=4.0)
    assert (outcome, True) == (verdict.outcome, bool(re.search(words, verdict.message))), verdict.message
    assert [] == bench.leftovers(spare=True)
    after = bench.judge(GOOD, quick=True)
    assert Outcome.CORRECT == after.outcome, after.message


def test_registers_of_a_block(bench: Bench) -> None:
    kernel = """
#include "contract.h"
__global__ void k(const float* x, float* out) {
    float r[160];
#pragma unroll
    for (int j = 0; j < 160; ++j) r[j] = x[(threadIdx.x * 7L + j * 13) % N];
    float a = 0;
#pragma unroll
    for (int j = 0; j < 160; ++j) a += r[j] * r[(j * 31 + 5) % 160];
    int64_t i = blockIdx.x * 1024L + threadIdx.x;
    if (i < N) out[i] = a;
}
"""
    verdict = bench.judge(launcher("k<<<(N + 1023) / 1024, 1024, 0, stream>>>(x, out);", kernel))
    assert Outcome.LAUNCH_ERROR == verdict.outcome
    assert re.search(r"needs [\d,]+ registers a block, 65,536 exist", verdict.message), verdict.message


def test_a_module_candidate(bench: Bench) -> None:
    source = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.relu(x).mul_(2).add_(1)\n"
    )
    verdict = bench.judge_module(source)
    assert Outcome.CORRECT == verdict.outcome, verdict.message
    assert verdict.measurement is not None and verdict.measurement.method == "module"


def test_memory_that_is_lent_is_whole_pages(bench: Bench) -> None:
    arena = CudaArena(12_345)
    assert (0, 0) == (arena.own.size_bytes % PAGE_BYTES, arena.anchor_start % PAGE_BYTES)
    arena.close()
