"""A session as the sequence of what happened in it, in the order in which it was written down.

Each record that the session file holds says when it was made: rows, questions and answers by their stamps, rounds,
verdicts, decisions and the comings and goings of authors by the event log. All stamps are one process's, taken inside
of the transaction they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kerneltui.records import Call, CallState, Decision, DecisionKind, DecisionState, Event, Tree, Variant
from kerneltui.store import Store

EVERYTHING = 2**62  # events at once


@dataclass(frozen=True, slots=True)
class RoundOpened:
    number: int
    parents: tuple[str, ...]  # "" is the reference


@dataclass(frozen=True, slots=True)
class RowMade:
    variant: Variant  # as it is now, not as it was then


@dataclass(frozen=True, slots=True)
class Asked:
    call: Call


@dataclass(frozen=True, slots=True)
class Answered:
    call: Call


@dataclass(frozen=True, slots=True)
class Judged:
    variant: str
    shared: bool  # the verdict was taken over from an equal candidate


@dataclass(frozen=True, slots=True)
class Decided:
    decision: Decision


@dataclass(frozen=True, slots=True)
class AuthorLeft:
    author: str
    broke: bool  # the budget forbids its next call


@dataclass(frozen=True, slots=True)
class EngineStarted:
    """What was under way before is taken up again."""


@dataclass(frozen=True, slots=True)
class Finished:
    reason: str


Happening = RoundOpened | RowMade | Asked | Answered | Judged | Decided | AuthorLeft | EngineStarted | Finished


def read_happenings(store: Store, tree: Tree) -> list[Happening]:
    """Everything that the search went by, oldest first."""
    stamped: list[tuple[float, int, Happening]] = []
    for variant in tree.variants.values():
        stamped.append((variant.created, 0, RowMade(variant)))
    for call in tree.calls.values():
        stamped.append((call.created, 1, Asked(call)))
        if call.state is not CallState.RESERVED:
            stamped.append((_finished_at(call), 2, Answered(call)))
    events = store.read_events(limit=EVERYTHING)
    stamped += [(stamp, 3, happening) for stamp, happening in _from_events(tree, events, store.read_decisions())]
    stamped.sort(key=lambda entry: entry[:2])  # equal stamps keep the order of their ids
    return _decisions_before_their_rows([happening for _, _, happening in stamped])


def _finished_at(call: Call) -> float:
    return call.finished if call.finished is not None else call.created + (call.latency_s or 0.0)


def _from_events(
    tree: Tree, events: Iterable[Event], decisions: Sequence[Decision]
) -> Iterator[tuple[float, Happening]]:
    left = [decision for decision in decisions if decision.state is not DecisionState.PENDING]
    for event in events:
        match event.kind:
            case "start":
                yield event.created, EngineStarted()
            case "round":
                yield event.created, _round(event)
            case "verdict":
                shared = event.text.endswith(("its verdict is shared)", "judged here before)"))
                yield event.created, Judged(event.node, shared)
            case "decision":
                if decision := _matching(event, left):
                    left.remove(decision)
                    yield event.created, Decided(decision)
            case "author":
                for author in tree.settings.authors:
                    if event.text.startswith(f"{author.label} is out: "):
                        yield event.created, AuthorLeft(author.label, broke=False)
                    if event.text.startswith(f"{author.label} is not asked any more: "):
                        yield event.created, AuthorLeft(author.label, broke=True)
            case "finish":
                yield event.created, Finished(event.text.removeprefix("finished: ").rpartition("; ")[0])


def _round(event: Event) -> RoundOpened:
    """Out of `round 2 of 5: from the reference, v00003`."""
    head, _, names = event.text.partition(": from ")
    parents = tuple("" if name == "the reference" else name for name in names.split(", "))
    return RoundOpened(int(head.split()[1]), parents)


def _matching(event: Event, decisions: Iterable[Decision]) -> Decision | None:
    """The decision that an event tells of: they are carried out in order, but some wait for the problem."""
    for decision in decisions:
        if decision.target == event.node and event.text.startswith(f"{decision.kind}"):
            return decision
    return None


def _decisions_before_their_rows(found: Sequence[Happening]) -> list[Happening]:
    """A decision is told after the rows it made, in one transaction; here it makes them again, so it comes first."""
    ordered: list[Happening] = []
    for happening in found:
        at = len(ordered)
        if isinstance(happening, Decided):
            made = _rows_of(happening.decision)
            while at and made and _is_row_of(ordered[at - 1], happening.decision):
                made, at = made - 1, at - 1
        ordered.insert(at, happening)
    return ordered


def _rows_of(decision: Decision) -> int:
    """How many rows a decision made, at most."""
    if decision.state is not DecisionState.DONE:
        return 0
    if decision.kind is DecisionKind.EXPAND:
        return int(decision.payload.get("count", 1))
    pasted = decision.kind is DecisionKind.ANSWER and decision.answer.startswith("written as")
    return int(pasted or decision.kind is DecisionKind.INJECT)


def _is_row_of(happening: Happening, decision: Decision) -> bool:
    if not isinstance(happening, RowMade):
        return False
    return decision.kind is DecisionKind.EXPAND or happening.variant.human
