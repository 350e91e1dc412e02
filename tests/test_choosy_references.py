"""References that do not take every input: what is drawn for a check must not be charged to the problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from judging import Bench

from kerneltui.records import CheckResult, Outcome

FORM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {answer}


def get_inputs():
    a = torch.randn(24, 24)
    return [{inputs}]
"""


@pytest.mark.parametrize(
    ("name", "answer", "inputs"),
    [
        ("inverse", "torch.linalg.inv(x)", "a + 24 * torch.eye(24)"),
        ("cholesky", "torch.linalg.cholesky(x)", "a @ a.t() + 24 * torch.eye(24)"),
        ("transposed", "x + 1", "a.t()"),
        (
            "embedding",
            "torch.nn.functional.embedding(x, torch.arange(80.0).reshape(20, 4))",
            "torch.randint(0, 20, (9, 8))",
        ),
    ],
)
def test_eager_is_right_for_itself(tmp_path: Path, name: str, answer: str, inputs: str) -> None:
    reference = FORM.format(answer=answer, inputs=inputs)
    bench = Bench(tmp_path, reference, name=name)
    try:
        found = bench.judge_module(reference.replace("class Model", "class ModelNew"))
    finally:
        bench.close()
    assert (Outcome.CORRECT, "") == (found.outcome, found.message)
    assert found.measurement is not None and found.measurement.median_us > 0
    assert all(check.result is not CheckResult.FAIL for check in found.checks)
