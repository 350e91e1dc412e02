"""The end of a trial before its end."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltui.records import ErrorReport, Outcome, Stage


class Fallen(Exception):
    """The candidate fell: the verdict is clear."""

    def __init__(self, outcome: Outcome, stage: Stage, message: str, errors: Sequence[ErrorReport] = ()) -> None:
        super().__init__(message)
        self.outcome, self.stage, self.message, self.errors = outcome, stage, message, tuple(errors)
