"""What z takes back and Z does again, and when it is too late for that.

Pure; the decisions themselves are carried out by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from kerneltui.records import Decision, DecisionKind, DecisionState, Tree

_MADE = re.compile(r"\b(?:injected|added|written) as ([vi]\d+)")
CREATES = (DecisionKind.INJECT, DecisionKind.ADD_IDEA)
INVERSE = {
    DecisionKind.PRUNE: DecisionKind.RESTORE,
    DecisionKind.RESTORE: DecisionKind.PRUNE,
    DecisionKind.PIN: DecisionKind.UNPIN,
    DecisionKind.UNPIN: DecisionKind.PIN,
    DecisionKind.APPROVE: DecisionKind.RESTORE,
    DecisionKind.REJECT: DecisionKind.RESTORE,
}
REVIEWS = (DecisionKind.APPROVE, DecisionKind.REJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One decision to send."""

    kind: DecisionKind
    target: str = ""
    payload: dict[str, Any] = field(default_factory=dict)


def inverse(kind: DecisionKind, target: str) -> Step:
    """What takes a decision of this kind back; an idea that was decided on is to be decided on again."""
    return Step(kind=INVERSE[kind], target=target, payload={"proposed": True} if kind in REVIEWS else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something done, and how it is taken back. `made_by`: the decision whose answer names what it made."""

    title: str
    done: tuple[Step, ...]
    undone: tuple[Step, ...]
    made_by: int | None = None
    round: int = 0  # in which it was done
    when: float = 0.0


@dataclass(slots=True)
class History:
    """Deeds of this viewer, newest last."""

    past: list[Deed] = field(default_factory=list)
    future: list[Deed] = field(default_factory=list)
    dropped: set[tuple[DecisionKind, str]] = field(default_factory=set)  # that it was too late for

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

    def drop(self, deed: Deed) -> None:
        """Forget a deed that can no longer be undone; what was done before it comes next."""
        self.future = [each for each in self.future if each is not deed]
        self.dropped |= {(step.kind, step.target) for step in deed.done}


def made_node(decisions: list[Decision], decision: int) -> str | None:
    """The node that an inject or an added idea became; None while the engine has not taken it up."""
    for each in decisions:
        if each.id == decision and (match := _MADE.search(each.answer)):
            return match[1]
    return None


def last_deed(
    decisions: Iterable[Decision], who: str, since: float, dropped: Collection[tuple[DecisionKind, str]] = ()
) -> Deed | None:
    """The last act of this person that stands and can be taken back, read from the session."""
    standing: list[Decision] = []
    for decision in decisions:
        if decision.who != who or decision.created < since or decision.state is DecisionState.REFUSED:
            continue
        undone = [before for before in standing if _takes_back(decision, before)]
        if undone:
            standing.remove(undone[-1])
        elif (decision.kind in INVERSE or decision.kind in CREATES) and (decision.kind, decision.target) not in dropped:
            standing.append(decision)
    if not standing:
        return None
    last = standing[-1]
    step = Step(kind=last.kind, target=last.target, payload=dict(last.payload))
    back = (inverse(last.kind, last.target),) if last.kind in INVERSE else ()
    title = f"{last.kind} {last.target}".rstrip().replace("_", " ")
    made_by = last.id if last.kind in CREATES else None
    return Deed(title=title, done=(step,), undone=back, made_by=made_by, when=last.created)


def _takes_back(decision: Decision, before: Decision) -> bool:
    made = _MADE.search(before.answer) if before.kind in CREATES else None
    if made:
        return decision.kind is DecisionKind.PRUNE and decision.target == made[1]
    return decision.target == before.target and INVERSE.get(before.kind) is decision.kind


# --------------------------------------------------------------------------- when it is too late


def too_late(tree: Tree, deed: Deed, made: str = "") -> str:
    """Why this can no longer be taken back, and the nearest thing that can be done; "" if it can.

    `made`: the node that it became.
    """
    kind, names = deed.done[0].kind, [made] if made else [step.target for step in deed.done]
    said = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    passed = tree.status.round > deed.round
    if kind in (DecisionKind.PRUNE, DecisionKind.REJECT) and passed:
        return f"round {tree.status.round} began without {said}; X restores it for the rounds to come"
    if kind is DecisionKind.APPROVE and any(v.candidate for name in names for v in tree.of_idea(name)):
        return f"code was written from {said}; x prunes it, with that code"
    if kind is DecisionKind.EDIT and _is_written_since(tree, names, deed.when):
        return f"code was written from the new words of {said}; e changes them for what is still to be written"
    used = _used_by(tree, names) if passed or made else ""
    if kind is DecisionKind.PIN and used:
        return f"{used} starts from {said}; p unpins it for the rounds to come"
    if kind in CREATES and used:
        return f"{used} starts from {said}; x on {made} prunes it with all that came of it"
    return ""


def _is_written_since(tree: Tree, ideas: list[str], when: float) -> bool:
    return any(call.purpose == "write" and call.node in ideas and call.created > when for call in tree.calls.values())


def _used_by(tree: Tree, names: list[str]) -> str:
    """The first idea that starts from one of these nodes, with its round; "" if none does."""
    inside = {*names, *(v.id for v in tree.variants.values() if v.idea in names or v.parent in names)}
    found = next((idea for idea in tree.ideas.values() if idea.parent in inside), None)
    return f"{found.id} of round {found.round}" if found else ""
