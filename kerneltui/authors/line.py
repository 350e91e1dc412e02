"""One author's line to its provider: requests, retries, money and words, the same for every SDK.

An author file gives `Line.call` the parameters of a request and a `send` that fills a `Heard` or raises a `Fault`;
what follows from either is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.faults import PROVIDERS, Fault, explain, refused_name
from kerneltui.authors.keys import Secret, hide_keys, label
from kerneltui.authors.money import REQUESTS, cost_usd, find_price, worst_request
from kerneltui.authors.parsing import read_answer
from kerneltui.authors.retrying import Gate, Pace, retried
from kerneltui.errors import AuthorError, AuthorStopped, AuthorUnavailable
from kerneltui.records import AuthorSettings

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
    dropped: bool = False  # a parameter of the settings was left out in this call


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

    def waiting(self) -> str:
        """For the screen: that the provider asked to wait, and how long still."""
        left = self.gate.left_s()
        return f"rate limit: sends again in {left:.0f} s" if left > 0 else ""

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
                once, pace=self.pace, deadline_s=self.settings.timeout_s, again=lambda error: log.lost < REQUESTS
            )
        except TimeoutError:
            raise self.failed(self.timed_out(log), ask, log) from None
        except AuthorError as error:
            # Without the cause: an SDK's exception holds headers and quotes the key.
            raise self.failed(error, ask, log) from None
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
                f"{label(self.settings)}: rate limit; it asks to wait {left:.0f} s", retry_after_s=left
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
        if isinstance(error, AuthorUnavailable) and fault.retry_after_s is not None:
            self.gate.close(fault.retry_after_s)
        return error

    def leave_out(self, fault: Fault, sent: Parameters, log: Log) -> bool:
        """Whether to ask again without a refused parameter: once a call for one of the settings, once each for ours."""
        name = refused_name(fault, [name for name in sent if name in self.spellings], self.spellings)
        if name is None:
            return False
        key = self.lines.get(name, "")
        if name in self.refused or (key and log.dropped):
            return self.settings_at_fault(name, key, fault)
        self.refused.add(name)
        log.dropped = log.dropped or bool(key)
        what = f"`{self.setting(key)}`" if key else f"`{name}`"
        how = f"under another name than {name}" if name in self.renamed else "without it"
        log.notes.append(f"{self.settings.model} refuses {what}: asked again {how}, and so for the rest of the session")
        return True

    def settings_at_fault(self, name: str, key: str, fault: Fault) -> bool:
        remedy = f"remove `{self.setting(key)}` from its table in session.toml" if key else "take another model"
        raise AuthorStopped(f"{label(self.settings)}: {self.settings.model} refuses `{name}` {fault.quote}; {remedy}")

    def setting(self, key: str) -> str:
        value = getattr(self.settings, key)
        return f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"

    # ----------------------------------------------------------------------- the end of a call

    def timed_out(self, log: Log) -> AuthorUnavailable:
        if log.now is not None:
            log.lost += 1
            if log.now.text or log.best is None:
                log.best = log.now
        brought = f" after {log.best.characters:,} characters" if log.best and log.best.text else ""
        billed = f"; {plural(log.lost, 'request')} may be billed" if log.lost else ""
        return AuthorUnavailable(
            f"{label(self.settings)}: no whole answer within {self.settings.timeout_s:g} s{brought}{billed};"
            " raise timeout_s in session.toml, or ask for less"
        )

    def failed(self, error: AuthorError, ask: Ask, log: Log) -> AuthorError:
        """The error with its key hidden and the money that it cost."""
        times = f" ({log.requests} requests)" if log.requests > 1 and isinstance(error, AuthorUnavailable) else ""
        text = self.hide(str(error)) + times
        new: AuthorError = (
            AuthorUnavailable(text, retry_after_s=error.retry_after_s)
            if isinstance(error, AuthorUnavailable)
            else AuthorStopped(text)
        )
        new.reply = self.reply(ask, log.best or Heard(tell=lambda _: None), log, answered=False)
        return new

    def conclude(self, ask: Ask, heard: Heard, log: Log) -> Answer:
        """The answer that a whole reply amounts to, refusals and blocks included."""
        own = self.reply(ask, heard, log, answered=True, lost=0)
        reply = self.reply(ask, heard, log, answered=True)
        name, provider = label(self.settings), PROVIDERS[self.settings.kind]
        if heard.refusal:
            said = " ".join(self.hide(heard.refusal).split())[:200]
            raise self.stopped(f'{name}: {heard.model or self.settings.model} refuses: "{said}"', reply)
        if heard.blocked_prompt:
            raise self.stopped(
                f"{name}: {provider} blocked the prompt: {heard.blocked}; another author or wording", reply
            )
        notes = [self.hide(note) for note in log.notes]
        if log.lost:
            counted = "counted at their most" if reply.cost_usd is not None else "their cost is unknown"
            notes.append(f"{plural(log.lost, 'request')} broke and may be billed: {counted}")
        if heard.blocked:
            problem = f"blocked: {heard.blocked}; another author or wording"
            return Answer(problem=problem, notes=tuple(notes), reply=reply)
        answer = read_answer(ask, own)
        return replace(answer, notes=(*notes, *answer.notes), reply=reply)

    def stopped(self, message: str, reply: Reply) -> AuthorStopped:
        error = AuthorStopped(message)
        error.reply = reply
        return error

    def reply(self, ask: Ask, heard: Heard, log: Log, *, answered: bool, lost: int | None = None) -> Reply:
        """What came, with what it cost: lost requests at the most they can have cost, unknown where nobody knows."""
        lost = log.lost if lost is None else lost
        most_tokens, most_usd = worst_request(ask.prompt, self.settings)
        cap = self.settings.max_tokens
        tokens_in, tokens_out, usd = (heard.tokens_in, heard.tokens_out, self.cost(heard)) if answered else (0, 0, 0.0)
        if lost:
            each = heard.tokens_in if answered else None
            each = most_tokens - cap if each is None and most_tokens is not None and cap is not None else each
            tokens_in = add(tokens_in, lost, each)
            tokens_out = add(tokens_out, lost, cap)
            usd = add(usd, lost, most_usd)
        return Reply(
            text=self.hide("".join(heard.text)),
            reasoning=self.hide("".join(heard.reasoning)),
            model=heard.model or self.settings.model,
            finish_reason=heard.finish_reason or ("lost" if lost and not answered else ""),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            tokens_reasoning=heard.tokens_reasoning,
            tokens_cached=heard.tokens_cached,
            cost_usd=usd,
            latency_s=time.monotonic() - log.started,
            retries=max(0, log.requests - 1),
        )

    def cost(self, heard: Heard) -> float | None:
        return cost_usd(find_price(self.settings), heard.tokens_in, heard.tokens_out, heard.tokens_cached)

    def hide(self, text: str) -> str:
        return hide_keys(self.secret.hide(text))


def add(known: Any, times: int, each: Any) -> Any:
    """`known + times * each`, unknown where either is."""
    return None if known is None or each is None else known + times * each


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
