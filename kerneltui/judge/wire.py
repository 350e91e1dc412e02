"""JSON lines to and from the supervisor, on descriptors that nothing else knows."""

from __future__ import annotations

import json
import os
from typing import Any

LINE_LIMIT_BYTES = 64_000_000


class Wire:
    """The judge's end of the protocol."""

    def __init__(self) -> None:
        # A reference prints where it likes; from here on its stdout is stderr and cannot imitate an answer.
        self.commands = os.fdopen(os.dup(0), "rb")
        self.answers = os.dup(1)
        silence = os.open(os.devnull, os.O_RDONLY)
        os.dup2(silence, 0)
        os.close(silence)
        os.dup2(2, 1)

    def read_command(self) -> dict[str, Any] | None:
        """The next command; None when the supervisor has gone."""
        line = self.commands.readline(LINE_LIMIT_BYTES)
        return json.loads(line) if line else None

    def write(self, answer: dict[str, Any]) -> None:
        """One line, whole."""
        data = (json.dumps(answer) + "\n").encode()
        while data:
            data = data[os.write(self.answers, data) :]
