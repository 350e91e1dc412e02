"""One remark of the policy on a candidate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A note, or with `refused` a refusal."""

    line: int | None  # in the source; None: in the flags or the binary
    reason: str
    refused: bool

    @property
    def text(self) -> str:
        """As it is shown."""
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"
