"""One author's line to its provider: requests, retries, money and words, the same for every SDK.

An author file gives `Line.call` the parameters of a request and a `send` that fills a `Heard` or raises a `Fault`;
what follows from either is decided here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.faults import PROVIDERS, Fault, explain, refused_name
from kerneltui.authors.keys import Secret, hide_keys
from kerneltui.authors.money import cost_usd, find_price, worst_case
from kerneltui.authors.parsing import read_answer
from kerneltui.authors.retrying import Gate, Pace, retried
from kerneltui.errors import AuthorError, AuthorStopped, AuthorUnavailable
from kerneltui.records import AuthorSettings

MOST_LOST = 2  # requests of one call that may be billed without a whole answer
Parameters = dict[str, Any]
OnText = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Heard:
    """What one request has brought so far."""

    tell: OnText
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: str = ""
    blocked: str = ""  # the provider's word for why it withheld the answer
    blocked_prompt: bool = False
    finish_reason: str = ""
    ended: bool = False  # the terminal event came
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None  # reasoning included
    tokens_reasoning: int | None = None
    tokens_cached: int | None = None

    def say(self, text: str) -> None:
        if text:
            self.text.append(text)
            self.tell(text)

    @property
    def characters(self) -> int:
        return sum(map(len, self.text))


@dataclass(slots=True, kw_only=True)
class Veil:
    """Streamed text on its way to a listener, with the key hidden even where chunks divide it."""

    secret: Secret
    listener: OnText | None
    held: str = ""

    def say(self, text: str) -> None:
        if self.listener is None:
            return
        self.held = self.secret.hide(self.held + text)
        key = self.secret.text
        keep = next((n for n in range(min(len(key) - 1, len(self.held)), 0, -1) if self.held.endswith(key[:n])), 0)
        self.pass_on(len(self.held) - keep)

    def pass_on(self, length: int | None = None) -> None:
        out, self.held = self.held[:length], self.held[len(self.held) if length is None else length :]
        if out and self.listener is not None:
            self.listener(out)


@dataclass(slots=True, kw_only=True)
class Log:
    """One call so far: what it sent, lost and noted."""

    started: float
    requests: int = 0
    lost: int = 0  # requests that may be billed though no whole answer came
    best: Heard | None = None  # the last that brought text before it broke
    now: Heard | None = None
    notes: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)  # parameters that were refused in this call
    dropped: bool = False  # one of them stands in the settings


@dataclass(slots=True, kw_only=True)
class Line:
    """The line and what it remembers for the session: the gate, and refused parameters."""

    settings: AuthorSettings
    secret: Secret
    pace: Pace
    spellings: dict[str, tuple[str, ...]]  # parameter -> how refusals spell it
    lines: dict[str, str]  # parameter -> its key in session.toml; ours alone have none
    renamed: frozenset[str] = frozenset()  # parameters that are sent under another name once refused
    gate: Gate = field(default_factory=Gate)
    refused: set[str] = field(default_factory=set)

    def waits_s(self) -> float:
        """How long still, where the provider asked to wait."""
        return self.gate.left_s()

    async def call(
        self,
        ask: Ask,
        parameters: Callable[[Ask], Parameters],
        send: Callable[[Parameters, Heard], Awaitable[None]],
        on_text: OnText | None,
    ) -> Answer:
        """The answer to a prepared question.

        Raises:
            AuthorUnavailable: passing trouble outlasted its retries or the deadline.
            AuthorStopped: this author is out for the session.
        """
        log = Log(started=time.monotonic())
        veil = Veil(secret=self.secret, listener=on_text)

        async def once() -> Heard:
            return await self.request(ask, log, veil, parameters, send)

        try:
            heard = await retried(
                once,
                pace=self.pace,
                deadline_s=self.settings.timeout_s,
                again=lambda error: self.may_ask_again(ask, log),
            )
        except TimeoutError:
            raise self.failed(self.timed_out(log), log) from None
        except AuthorError as error:
            # Without the cause: an SDK's exception holds headers and quotes the key.
            raise self.failed(error, log) from None
        veil.pass_on()
        return self.conclude(ask, heard, log)

    async def request(
        self,
        ask: Ask,
        log: Log,
        veil: Veil,
        parameters: Callable[[Ask], Parameters],
        send: Callable[[Parameters, Heard], Awaitable[None]],
    ) -> Heard:
        """One request, and at once another without a parameter that it refuses."""
        await self.pass_gate(log)
        while True:
            heard = log.now = Heard(tell=veil.say)
            log.requests += 1
            sent = parameters(ask)
            try:
                await send(sent, heard)
                if not heard.ended:
                    raise Fault(f"connection lost after {heard.characters:,} characters", billable=True)
            except Fault as fault:
                log.now = None
                if self.leave_out(fault, sent, log):
                    continue
                raise self.count(fault, heard, log, veil) from None
            log.now = None
            return heard

    async def pass_gate(self, log: Log) -> None:
        left = self.gate.left_s()
        remaining = self.settings.timeout_s - (time.monotonic() - log.started)
        if left > remaining:
            raise AuthorUnavailable(
                f"{self.settings.label}: rate limit; it asks to wait {left:.0f} s", retry_after_s=left
            )
        await self.gate.wait()

    def count(self, fault: Fault, heard: Heard, log: Log, veil: Veil) -> AuthorError:
        """Book a failed request, hold back the others where the provider asks for it, and say what it was."""
        if fault.billable or heard.text:
            log.lost += 1
            log.best = heard
            veil.pass_on()
            veil.say(f"\n[{fault.message}]\n")
        error = explain(fault, self.settings)
        if isinstance(error, AuthorUnavailable) and (fault.retry_after_s is not None or fault.status == 429):
            self.gate.close(self.pace.first_s if fault.retry_after_s is None else fault.retry_after_s)
        return error

    def leave_out(self, fault: Fault, sent: Parameters, log: Log) -> bool:
        """Whether to ask again without a refused parameter: once a call for one of the settings, once each for ours."""
        name = refused_name(fault, [name for name in sent if name in self.spellings], self.spellings)
        if name is None:
            return False
        key = self.lines.get(name, "")
        if name in log.left_out or (key and log.dropped):
            return self.settings_at_fault(name, key, fault)
        # Calls that were under way together each hear the refusal of the same parameter.
        self.refused.add(name)
        log.left_out.add(name)
        log.dropped = log.dropped or bool(key)
        what = f"`{self.setting(key)}`" if key else f"`{name}`"
        how = f"under another name than {name}" if name in self.renamed else "without it"
        log.notes.append(f"{self.settings.model} refuses {what}: asked again {how}, and so for the rest of the session")
        return True

    def settings_at_fault(self, name: str, key: str, fault: Fault) -> bool:
        remedy = f"remove `{self.setting(key)}` from its table in session.toml" if key else "take another model"
        raise AuthorStopped(f"{self.settings.label}: {self.settings.model} refuses `{name}` {fault.quote}; {remedy}")

    def setting(self, key: str) -> str:
        value = getattr(self.settings, key)
        return f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"

    def may_ask_again(self, ask: Ask, log: Log) -> bool:
        """A refused request costs nothing. One that broke is replaced where nothing was reserved, or enough for both."""
        if log.lost == 0:
            return True
        tokens, usd = worst_case(ask.prompt, self.settings)
        covered = covers(ask.worst_usd, usd, log.lost + 1) and covers(ask.worst_tokens, tokens, log.lost + 1)
        return log.lost < MOST_LOST and covered

    # ----------------------------------------------------------------------- the end of a call

    def timed_out(self, log: Log) -> AuthorUnavailable:
        if log.now is not None:
            log.lost += 1
            if log.now.text or log.best is None:
                log.best = log.now
        brought = f" after {log.best.characters:,} characters" if log.best and log.best.text else ""
        billed = f"; {plural(log.lost, 'request')} may be billed" if log.lost else ""
        return AuthorUnavailable(
            f"{self.settings.label}: no whole answer within {self.settings.timeout_s:g} s{brought}{billed};"
            " raise timeout_s in session.toml, or ask for less"
        )

    def failed(self, error: AuthorError, log: Log) -> AuthorError:
        """The error with its key hidden and the money that it cost."""
        times = f" ({log.requests} requests)" if log.requests > 1 and isinstance(error, AuthorUnavailable) else ""
        text = self.hide(str(error)) + times
        new: AuthorError = AuthorStopped(text)
        if isinstance(error, AuthorUnavailable):
            wait = error.retry_after_s
            if wait is None and log.lost and log.now is None:
                wait = self.pace.first_s * random.uniform(0.5, 1.5)  # a broken stream is worth another try at once
            new = AuthorUnavailable(text, retry_after_s=wait)
        new.reply = self.reply(log.best or Heard(tell=log_nothing), log, answered=False)
        return new

    def conclude(self, ask: Ask, heard: Heard, log: Log) -> Answer:
        """The answer that a whole reply amounts to, refusals and blocks included."""
        reply = self.reply(heard, log, answered=True)
        name, provider = self.settings.label, PROVIDERS[self.settings.kind]
        if heard.refusal:
            said = " ".join(self.hide(heard.refusal).split())[:200]
            raise self.stopped(f'{name}: {heard.model or self.settings.model} refuses: "{said}"', reply)
        if heard.blocked_prompt:
            raise self.stopped(
                f"{name}: {provider} blocked the prompt: {heard.blocked}; another author or wording", reply
            )
        notes = [self.hide(note) for note in log.notes]
        if log.lost:
            notes.append(f"{plural(log.lost, 'request')} broke and may be billed: the cost of the call is unknown")
        if heard.blocked:
            problem = f"blocked: {heard.blocked}; another author or wording"
            return Answer(problem=problem, notes=tuple(notes), reply=reply)
        answer = read_answer(ask, replace(reply, tokens_out=heard.tokens_out))
        return replace(answer, notes=(*notes, *answer.notes), reply=reply)

    def stopped(self, message: str, reply: Reply) -> AuthorStopped:
        error = AuthorStopped(message)
        error.reply = reply
        return error

    def reply(self, heard: Heard, log: Log, *, answered: bool) -> Reply:
        """What came, and what it cost."""
        tokens_in, tokens_out, usd = self.spent(heard, log, answered)
        return Reply(
            text=self.hide("".join(heard.text)),
            reasoning=self.hide("".join(heard.reasoning)),
            model=heard.model or self.settings.model,
            finish_reason=heard.finish_reason or ("lost" if log.lost and not answered else ""),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            tokens_reasoning=heard.tokens_reasoning,
            tokens_cached=heard.tokens_cached,
            cost_usd=usd,
            latency_s=time.monotonic() - log.started,
            retries=max(0, log.requests - 1),
        )

    def spent(self, heard: Heard, log: Log, answered: bool) -> tuple[int | None, int | None, float | None]:
        """Tokens in and out, and dollars: nothing where every request was refused, unknown where one broke."""
        if log.lost:
            price = find_price(self.settings)
            return None, None, 0.0 if price is not None and price.free else None
        if not answered:
            return 0, 0, 0.0
        return heard.tokens_in, heard.tokens_out, self.cost(heard)

    def cost(self, heard: Heard) -> float | None:
        return cost_usd(find_price(self.settings), heard.tokens_in, heard.tokens_out, heard.tokens_cached)

    def hide(self, text: str) -> str:
        return hide_keys(self.secret.hide(text))


def covers(reserved: float | None, each: float | None, times: int) -> bool:
    """Whether a reservation is enough; none was made where the worst case is unknown."""
    return reserved is None or each is None or times * each <= reserved


def log_nothing(text: str) -> None:
    """The listener of a request that nobody hears."""


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
