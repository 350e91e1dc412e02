"""From rows to records."""

from __future__ import annotations

from typing import Any

import msgspec

from kerneltui.records import Decision, DecisionKind, DecisionState

SHARED_TEXTS = {
    "variant": ("idea", "author", "name", "candidate", "source", "message", "device", "world"),
    "call": ("author", "node"),
}  # fields whose text many rows share


def decision_of(row: tuple[Any, ...]) -> Decision:
    return Decision(
        id=row[0],
        kind=DecisionKind(row[1]),
        target=row[2],
        payload=msgspec.json.decode(row[3]),
        who=row[4],
        state=DecisionState(row[5]),
        answer=row[6],
        created=row[7],
    )


def share_texts(records: list[Any], names: tuple[str, ...], kind: type[Any], pool: dict[str, str]) -> None:
    """Let equal texts of fresh records, which nobody else holds yet, be one object: a third of a large tree's memory."""
    for name in names:
        field_of = kind.__dict__[name]  # a slot's own setter goes past `frozen`
        for record in records:
            if text := field_of.__get__(record):
                field_of.__set__(record, pool.setdefault(text, text))
