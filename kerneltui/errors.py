"""Every exception of ours, as a tree.

KernelTuiError                 a sentence for a person: what happened, where, what to do next
├── UsageError                 a wrong word on the command line, in a file or in a decision
│   ├── ProblemError           the problem cannot be searched: its file, reference, inputs or outputs
│   ├── SettingsError          session.toml, playbook.toml, problem.toml or a theme cannot be read
│   └── SessionError           no such session or node, a foreign schema, an unwritable folder
├── MachineError               the machine's fault: never charged to a candidate
│   ├── ToolchainMissing       no compiler, or one that cannot build for this device
│   ├── DeviceLost             the device does not answer any more
│   └── JudgeFailed            the judge died, went silent or broke its protocol
└── AuthorError                the author's or its provider's fault: never charged to an idea
    ├── AuthorUnavailable      passing: rate limit, time-out, 5xx, dropped stream
    └── AuthorStopped          permanent: bad key, unknown model, blocked, no money

A type exists only where a caller acts on it differently.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class KernelTuiError(Exception):
    """A sentence for a person. `str(error)` is shown as it is, with no traceback."""


class UsageError(KernelTuiError):
    """The request cannot be carried out as asked; exit status 2."""


class ProblemError(UsageError):
    """The problem cannot be searched."""


class SettingsError(UsageError):
    """A TOML file says something we cannot follow."""


class SessionError(UsageError):
    """The session, or a node of it, cannot be opened."""


class MachineError(KernelTuiError):
    """This machine, not a candidate, is at fault; exit status 2."""


class ToolchainMissing(MachineError):
    """No compiler that can build for the device."""


class DeviceLost(MachineError):
    """The device stopped answering; its work goes back to the queue."""


class JudgeFailed(MachineError):
    """The judge died, went silent or broke its protocol."""


class AuthorError(KernelTuiError):
    """The author gave no usable answer; the idea is not to blame.

    `reply` is the `authors.Reply` so far, when something was sent: text that came before the failure, and what is or may
    be billed for it.
    """

    reply: Any = None


class AuthorUnavailable(AuthorError):
    """Passing: worth another try later. `retry_after_s` is the provider's own wish, if it gave one."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AuthorStopped(AuthorError):
    """Permanent: this author is out for the rest of the session."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question with the nearest known word, `"; did you mean `width`?"`, or the list of them all."""
    words = sorted(known)
    by_fold = {name.casefold(): name for name in words}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    if close:
        return f"; did you mean `{by_fold[close[0]]}`?"
    return f"; known are {', '.join(words)}." if words else "."
