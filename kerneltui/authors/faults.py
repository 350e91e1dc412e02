"""What went wrong at a provider, in one form for all of them, and the sentence and remedy for it.

Fault          status, code and message, as an author file read them from its SDK's exception
explain        Fault -> AuthorUnavailable (passing) or AuthorStopped (permanent)
refused_name   the parameter that a provider refused, if that is what it did
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kerneltui.authors.keys import WHERE, read_key
from kerneltui.authors.retrying import duration_s, stated_wait_s
from kerneltui.errors import AuthorError, AuthorStopped, AuthorUnavailable
from kerneltui.records import AuthorSettings

PROVIDERS = {"openai": "OpenAI", "gemini": "Gemini"}
MONEY_AT = {
    "openai": "https://platform.openai.com/settings/organization/billing",
    "gemini": "https://aistudio.google.com/usage",
}
PASSING = frozenset((408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529))
BAD_KEY = re.compile(r"api[ _]key not valid|api_key_invalid|invalid_api_key|incorrect api key|reported as leaked", re.I)
NO_MONEY = re.compile(
    r"insufficient[ _](?:quota|balance|credits?|funds)|billing_hard_limit|billing_not_active|credits? (?:is|are) depleted"
    r"|out of credits",
    re.I,
)
TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context window|input token count.{0,60}exceeds|prompt is too long"
    r"|request too large|exceeds the (?:available )?context|too many (?:input )?tokens|string_above_max_length",
    re.I,
)
BLOCKED = re.compile(r"content_policy|content_filter|invalid_prompt|usage polic(?:y|ies)|responsible ai", re.I)
NO_MODEL = re.compile(r"model_not_found|model .{0,80}(?:does not exist|not found|is not found)|unknown model", re.I)
LONGEST_MESSAGE = 300


class Fault(Exception):
    """A provider's failure. `status` None: the connection failed, or broke.

    `billable` says whether the request may be billed all the same: it was sent, and not refused.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        parameter: str = "",
        retry_after_s: float | None = None,
        billable: bool = False,
        daily: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = one_line(message)
        self.status = status
        self.code = code
        self.parameter = parameter
        self.retry_after_s = retry_after_s
        self.billable = billable
        self.daily = daily  # a quota that comes back tomorrow

    def says(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(f"{self.code} {self.message}") is not None

    @property
    def quote(self) -> str:
        """Status and message in brackets, for the end of a sentence."""
        parts = [str(self.status or ""), self.message or self.code]
        return f"({': '.join(part for part in parts if part)})" if any(parts) else ""


def one_line(message: str) -> str:
    """Without HTML tags and line breaks, and not endless: proxies answer with whole pages."""
    text = " ".join(re.sub(r"<(?:style|script).*?</(?:style|script)>|<[^>]*>", " ", message, flags=re.S).split())
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


def transport_errors() -> tuple[type[Exception], ...]:
    """Base exceptions of the HTTP libraries that an SDK has loaded: some let theirs through as they are."""
    bases = (("httpx2", "HTTPError"), ("httpx2", "StreamError"), ("httpx", "HTTPError"), ("httpx", "StreamError"))
    found = [getattr(sys.modules[module], name, None) for module, name in (*bases, ("aiohttp", "ClientError")) if module in sys.modules]  # fmt: skip
    return tuple(kind for kind in found if kind is not None)


def connection_fault(error: BaseException, heard_characters: int, address: str) -> Fault:
    """A connection that never was, or that broke."""
    names = {kind.__name__ for cause in causes(error) for kind in type(cause).__mro__}
    if names & {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionRefusedError", "PoolTimeout"}:
        reason = str(next(reversed(causes(error)))) or type(error).__name__
        return Fault(f"cannot reach {address}: {reason}")
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return Fault(f"the address {address} cannot be used: {error}", status=400)
    return Fault(f"connection lost after {heard_characters:,} characters", billable=True)


def unreadable_fault(heard_characters: int) -> Fault:
    """A stream that is not in the provider's own format any more."""
    return Fault(f"the stream held something unreadable after {heard_characters:,} characters", billable=True)


def causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while (below := found[-1].__cause__ or found[-1].__context__) is not None and len(found) < 20:
        found.append(below)
    return found


# --------------------------------------------------------------------------- the sentence


def explain(fault: Fault, settings: AuthorSettings) -> AuthorError:
    """The error to raise for a fault, most specific first."""
    return (
        explain_length(fault, settings)
        or explain_money(fault, settings)
        or explain_passing(fault, settings)
        or explain_refusal(fault, settings)
        or AuthorStopped(f"{settings.label} does not take the request {fault.quote}")
    )


def explain_length(fault: Fault, settings: AuthorSettings) -> AuthorError | None:
    if fault.status != 413 and not fault.says(TOO_LONG):
        return None
    remedy = "shorten the notes, or take a model with a larger context"
    return AuthorStopped(f"{settings.label}: the prompt is too long for {settings.model} {fault.quote}; {remedy}")


def explain_money(fault: Fault, settings: AuthorSettings) -> AuthorError | None:
    where = f"see {MONEY_AT[settings.kind]}" if not settings.base_url else f"see the account at {settings.base_url}"
    if fault.daily:
        return AuthorStopped(f"{settings.label}: the quota of the day is used up {fault.quote}; {where}")
    if fault.status == 402 or (fault.status in (400, 403, 429, None) and fault.says(NO_MONEY)):
        return AuthorStopped(f"{settings.label}: no money or quota is left {fault.quote}; {where}")
    return None


def explain_passing(fault: Fault, settings: AuthorSettings) -> AuthorError | None:
    name = settings.label
    wait = "" if fault.retry_after_s is None else f"; it asks to wait {fault.retry_after_s:.0f} s"
    if fault.status is None:
        return AuthorUnavailable(f"{name}: {fault.message}", retry_after_s=fault.retry_after_s)
    if fault.status == 429:
        return AuthorUnavailable(f"{name}: rate limit {fault.quote}{wait}", retry_after_s=fault.retry_after_s)
    if fault.status in PASSING or fault.status >= 500:
        return AuthorUnavailable(
            f"{name}: trouble at the provider {fault.quote}{wait}", retry_after_s=fault.retry_after_s
        )
    return None


def explain_refusal(fault: Fault, settings: AuthorSettings) -> AuthorError | None:
    name, provider = settings.label, PROVIDERS[settings.kind]
    names = read_key(settings).variable or "the environment"
    where = f"check it at {WHERE[settings.kind]}" if not settings.base_url else f"check it against {settings.base_url}"
    if fault.status == 401 or fault.says(BAD_KEY):
        return AuthorStopped(f"{name}: the key in {names} is not accepted {fault.quote}; {where}")
    if fault.status == 404 or fault.says(NO_MODEL):
        remedy = "change `model` in session.toml" + (" or check base_url" if settings.base_url else "")
        return AuthorStopped(f"{name}: no model `{settings.model}` for this key {fault.quote}; {remedy}")
    if fault.status == 403:
        return AuthorStopped(f"{name}: the key in {names} may not do this {fault.quote}; {where}")
    if fault.says(BLOCKED):
        return AuthorStopped(f"{name}: {provider} blocked the prompt {fault.quote}; another author or wording")
    return None


# --------------------------------------------------------------------------- parameters


def refused_name(fault: Fault, sent: Iterable[str], spellings: Mapping[str, tuple[str, ...]]) -> str | None:
    """Which of the sent parameters a provider refused by name; None when it refused something else."""
    if fault.status not in (400, 422, 501) or fault.says(BAD_KEY) or fault.says(TOO_LONG):
        return None
    field = fault.parameter.lower()
    text = fault.message.lower()
    for name in sent:
        for word in spellings.get(name, (name,)):
            if field and (field == word or field.startswith((word + ".", word + "[")) or field.endswith("." + word)):
                return name
    if field:
        return None
    for name in sent:
        if any(
            re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) for word in spellings.get(name, (name,))
        ):
            return name
    return None


def wait_in_body(details: Any) -> float | None:
    """The retryDelay of a google.rpc.RetryInfo."""
    for entry in details if isinstance(details, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("retryDelay"), str):
            return duration_s(entry["retryDelay"])
    return None


def stated(headers: Mapping[str, str], message: str, details: Any = None) -> float | None:
    """The wait that a provider states anywhere: headers, details or words."""
    in_body = wait_in_body(details)
    in_headers = stated_wait_s(headers)
    known = [wait for wait in (in_headers, in_body) if wait is not None]
    return max(known) if known else stated_wait_s({}, message)
