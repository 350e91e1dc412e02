"""Vendor libraries on a real GPU: refused as a rule, linked and captured where a session's policy allows them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kerneltui.errors import KernelTuiError
from kerneltui.evaluator.devices import find_device
from kerneltui.evaluator.supervisor import Evaluator
from kerneltui.problems import load_problem
from kerneltui.records import Candidate, Device, Language, Outcome, Policy, Settings, Stage, Verdict
from tests.exploit_cases import PROBLEMS

pytestmark = pytest.mark.gpu
SOURCE = """#include <cublas_v2.h>

#include "contract.h"

static cublasHandle_t library = nullptr;

extern "C" int small_matmul(const float* x, const float* weight, float* out, void* workspace, cudaStream_t stream) {
  if (library == nullptr && cublasCreate(&library) != CUBLAS_STATUS_SUCCESS) return 1;
  cublasSetStream(library, stream);
  const float one = 1.0f, none = 0.0f;
  const int m = x_dim0, k = x_dim1, n = weight_dim1;
  return cublasSgemm(library, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, weight, n, x, k, &none, out, n);
}
"""
CANDIDATE = Candidate(source=SOURCE, language=Language.CUDA)


@pytest.fixture(scope="module")
def device() -> Device:
    try:
        found = find_device("cuda")
    except KernelTuiError as error:
        pytest.skip(str(error))
    if not list(Path(found.compiler).resolve().parent.parent.glob("**/libcublas.so")):
        pytest.skip("no cuBLAS here")
    return found


def judged(device: Device, cache: Path, policy: Policy) -> Verdict:
    async def work() -> Verdict:
        settings = Settings(problem="small_matmul", policy=policy)
        evaluator = Evaluator(load_problem(PROBLEMS / "small_matmul.py"), [device], settings=settings, cache=cache)
        try:
            return await evaluator.judge(CANDIDATE, full=True)
        finally:
            await evaluator.aclose()

    return asyncio.run(work())


def test_a_library_is_refused_as_a_rule(device: Device, tmp_path: Path) -> None:
    found = judged(device, tmp_path, Policy())
    assert (Outcome.SUSPECT, Stage.POLICY) == (found.outcome, found.stage)


def test_a_library_is_linked_and_timed_where_policy_allows_it(device: Device, tmp_path: Path) -> None:
    verdict = judged(device, tmp_path, Policy(library_calls=True))
    assert Outcome.CORRECT is verdict.outcome, f"{verdict.stage}: {verdict.message}\n{verdict.log[-2000:]}"
    assert verdict.measurement is not None
    assert "eager" in verdict.measurement.speedup, verdict.measurement.disturbances
    assert verdict.measurement.speedup["eager"].ratio > 0.5
