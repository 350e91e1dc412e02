"""A wrong output in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kerneltui.judge.compare import BITS, Finding
from kerneltui.records import ErrorReport


def equal_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    kind = BITS[first.element_size()]
    return torch.equal(first.reshape(-1).view(kind), second.reshape(-1).view(kind))


def mismatch_words(report: ErrorReport, findings: Sequence[Finding]) -> str:
    """One sentence on a wrong output."""
    unwritten = sum(finding.unwritten for finding in findings)
    refused = sum(finding.nan_refused for finding in findings)
    where = f" ({report.pattern})" if report.pattern else ""
    if unwritten and unwritten >= report.wrong:
        return f"{unwritten:,} elements of `{report.output}` were never written{where}, on inputs: {report.input_set}"
    if refused and refused >= report.wrong:
        return (
            f"{refused:,} elements of `{report.output}` are NaN{where}, where the reference is NaN too; NaN passes only "
            "with `allow_nan = true` in problem.toml"
        )
    share = "all" if report.wrong == report.total else f"{report.wrong:,} of {report.total:,}"
    place = "[" + ", ".join(map(str, report.worst)) + "]" if report.worst else ""
    return (
        f"{share} elements of `{report.output}` are wrong{where}; worst at {report.output}{place}: expected "
        f"{report.expected}, found {report.found}, on inputs: {report.input_set}"
    )
