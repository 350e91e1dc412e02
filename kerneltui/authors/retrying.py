"""One retry policy and one deadline for every provider; the SDKs' own are switched off.

The deadline is for the whole call, waits included. What a provider states (Retry-After) is honoured to the second, and
holds back every call of that author, not only the one that heard it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_exponential_jitter

from kerneltui.errors import AuthorUnavailable

T = TypeVar("T")

DURATION = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+(?:\.\d+)?)ms)?")
IN_WORDS = re.compile(r"(?:try again|retry) in (?P<wait>[\d.hms]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how fast a call is tried again when nobody states a wait."""

    attempts: int = 6
    first_s: float = 1.0  # then doubled, each with jitter
    longest_s: float = 60.0


@dataclass(slots=True)
class Gate:
    """When an author may send again: one answer of 429 slows all of its calls together."""

    until: float = field(default=0.0)  # time.monotonic()

    def close(self, wait_s: float) -> None:
        self.until = max(self.until, time.monotonic() + wait_s)

    def left_s(self) -> float:
        return max(0.0, self.until - time.monotonic())

    async def wait(self) -> None:
        while self.left_s() > 0:
            await asyncio.sleep(self.left_s())


async def retried(
    send: Callable[[], Awaitable[T]], *, pace: Pace, deadline_s: float, again: Callable[[AuthorUnavailable], bool]
) -> T:
    """What `send` returns, tried again while it raises AuthorUnavailable and `again` agrees.

    Raises:
        AuthorUnavailable: the last one, when attempts or time do not allow another.
        TimeoutError: the deadline passed while a request was under way.
    """
    growing = wait_exponential_jitter(initial=pace.first_s, max=pace.longest_s, jitter=pace.first_s)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        stated = error.retry_after_s if isinstance(error, AuthorUnavailable) else None
        return growing(state) if stated is None else stated

    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, AuthorUnavailable) and again(error)),
        wait=wait,
        stop=stop_after_attempt(pace.attempts) | stop_before_delay(deadline_s),
        reraise=True,
    )
    async with asyncio.timeout(deadline_s):
        return await retrying(send)


# --------------------------------------------------------------------------- what a provider states


def stated_wait_s(headers: Mapping[str, str], message: str = "", now: float | None = None) -> float | None:
    """Seconds a provider asks to wait: Retry-After as seconds or a date, or its message; None when it does not say."""
    lower = {name.lower(): value for name, value in headers.items()}
    milliseconds = to_number(lower.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    if "retry-after" in lower:
        text = lower["retry-after"].strip()
        seconds = to_number(text)
        return seconds if seconds is not None else seconds_until(text, lower.get("date", ""), now)
    words = IN_WORDS.search(message)
    return duration_s(words["wait"].rstrip(".")) if words else None


def to_number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text) else None


def seconds_until(date: str, sent: str, now: float | None) -> float | None:
    """From the provider's own clock where it sent one: ours may be wrong."""
    until = to_time(date)
    start = to_time(sent) or (time.time() if now is None else now)
    return None if until is None else max(0.0, until - start)


def to_time(date: str) -> float | None:
    try:
        parsed: datetime = parsedate_to_datetime(date)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def duration_s(text: str) -> float | None:
    """`17s`, `1m30s`, `20ms`, `6m0s` in seconds."""
    match = DURATION.fullmatch(text.strip())
    if match is None or not match.group():
        return None
    hours, minutes, seconds, milliseconds = (float(match[name] or 0) for name in ("h", "m", "s", "ms"))
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
