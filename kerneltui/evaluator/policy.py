"""What candidates may contain, judged on source and binary. A finding is a note or a refusal, with its reason.

Text patterns warn and keep honest authors honest; what proves is the structure: the judge's memory, secret inputs,
replayed graphs, the judge's own clock.
"""

from __future__ import annotations

from pathlib import Path

from kerneltui.evaluator.binary_policy import binary_findings, may_be_chance
from kerneltui.evaluator.cpp_policy import cpp_findings
from kerneltui.evaluator.findings import Finding
from kerneltui.evaluator.flags import refused_flags
from kerneltui.evaluator.python_policy import python_findings
from kerneltui.records import Candidate, Contract, Language, Policy

__all__ = ["Finding", "check_binary", "check_source", "may_be_chance"]


def check_source(candidate: Candidate, policy: Policy) -> list[Finding]:
    """Remarks on source, flags and defines, refusals first."""
    found = [Finding(line=None, reason=reason, refused=True) for reason in refused_flags(candidate, policy)]
    read = python_findings if candidate.language is Language.PYTHON else cpp_findings
    return _sorted(found + read(candidate, policy))


def check_binary(path: Path, contract: Contract, policy: Policy, *, cubin: Path | None = None) -> list[Finding]:
    """Remarks on a built library and its device code, refusals first."""
    device_code = cubin.read_bytes() if cubin is not None else None
    return _sorted(binary_findings(path.read_bytes(), device_code, contract, policy))


def _sorted(found: list[Finding]) -> list[Finding]:
    return sorted(dict.fromkeys(found), key=lambda finding: (not finding.refused, finding.line or 0))
