"""What z takes back and Z does again. Pure; the decisions themselves are carried out by the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kerneltui.records import Decision, DecisionKind

_MADE = re.compile(r"\b(?:injected|added|written) as ([vi]\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One decision to send."""

    kind: DecisionKind
    target: str = ""
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something done, and how it is taken back. `made_by`: the decision whose answer names what it made."""

    title: str
    done: tuple[Step, ...]
    undone: tuple[Step, ...]
    made_by: int | None = None


@dataclass(slots=True)
class History:
    """Deeds of this viewer, newest last."""

    past: list[Deed] = field(default_factory=list)
    future: list[Deed] = field(default_factory=list)

    def add(self, deed: Deed) -> None:
        """Remember; what had been undone cannot be redone any more."""
        self.past.append(deed)
        self.future.clear()

    def take_back(self) -> Deed | None:
        """The last deed, which is now undone."""
        if not self.past:
            return None
        deed = self.past.pop()
        self.future.append(deed)
        return deed

    def do_again(self) -> Deed | None:
        """The deed that was undone last."""
        if not self.future:
            return None
        deed = self.future.pop()
        self.past.append(deed)
        return deed


def made_node(decisions: list[Decision], decision: int) -> str | None:
    """The node that an inject or an added idea became; None while the engine has not taken it up."""
    for each in decisions:
        if each.id == decision and (match := _MADE.search(each.answer)):
            return match[1]
    return None
