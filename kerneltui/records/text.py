"""Records as JSON text and back, and the digest of a text."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

FrozenDict = dict  # read-only by convention: records are shared between threads and never edited


def sha256(text: str) -> str:
    """Hex digest of UTF-8 text; lone surrogates are kept apart, not an error."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode(record: Any) -> str:
    """JSON text of a record."""
    return msgspec.json.encode(record).decode()


def decode(text: str | bytes, kind: type[T]) -> T:
    """The record that `encode` wrote. Unknown fields of a newer program are ignored.

    Raises:
        msgspec.ValidationError: the text is not such a record.
    """
    return msgspec.json.decode(text, type=kind)
