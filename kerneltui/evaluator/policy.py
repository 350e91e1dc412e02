"""What candidates may contain, judged on source and binary. A finding is a note or a refusal, with its reason.

Text patterns warn and keep honest authors honest; what proves is the structure: the judge's memory, secret inputs,
replayed graphs, the judge's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kerneltui.evaluator.flags import refused_flags
from kerneltui.records import Candidate, Contract, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One remark on a candidate."""

    line: int | None  # in the source; None: in the flags or the binary
    reason: str
    refused: bool

    @property
    def text(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


def check_source(candidate: Candidate, policy: Policy) -> list[Finding]:
    """Remarks on source, flags and defines."""
    return [Finding(line=None, reason=reason, refused=True) for reason in refused_flags(candidate, policy)]


def check_binary(path: Path, contract: Contract, policy: Policy, *, cubin: Path | None = None) -> list[Finding]:
    """Remarks on a built library."""
    return []
