"""One remark of the policy on a candidate."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What the runner's cage disarms: processes and signals. Such a candidate is run all the same, so that what it did is
# known (a hang is a timeout); right numbers do not make it correct.
CAGED = re.compile(
    r": (starts programs|handles signals|no signal handlers|no system calls)$|"
    r"imports (v?fork|setsid|setpgid|pause|signal|sigaction|alarm|raise|wait(pid)?|kill|getpid|getppid|sleep|usleep), "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A note, or with `refused` a refusal."""

    line: int | None  # in the source; None: in the flags or the binary
    reason: str
    refused: bool

    @property
    def stops(self) -> bool:
        """Whether it keeps the candidate from being run at all."""
        return self.refused and CAGED.search(self.reason) is None

    @property
    def text(self) -> str:
        """As it is shown."""
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"
