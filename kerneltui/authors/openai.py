"""Authors behind the OpenAI API: the Responses API, or Chat Completions for compatible servers.

Nothing is sent that the settings do not ask for, apart from `stream` and, for ideas, a JSON schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import openai

from kerneltui.authors import Answer, Ask
from kerneltui.authors.faults import Fault, connection_fault, stated, transport_errors, unreadable_fault
from kerneltui.authors.ideas import SCHEMA
from kerneltui.authors.keys import check_ready, read_key
from kerneltui.authors.line import Heard, Line, Parameters
from kerneltui.authors.money import find_price, worst_case
from kerneltui.authors.prompt import build_prompt
from kerneltui.authors.retrying import Pace
from kerneltui.errors import AuthorStopped
from kerneltui.records import AuthorSettings

__all__ = ["DEFAULT_MODEL", "OpenAIAuthor", "check_ready"]

DEFAULT_MODEL = "o3"
CONNECT_S = 30.0
TRANSPORT: tuple[type[Exception], ...] = (*transport_errors(), OSError)
FAILURES: tuple[type[Exception], ...] = (openai.OpenAIError, json.JSONDecodeError, *TRANSPORT)
NO_KEY = "none"  # the SDK wants a word even where the server wants none
SPELLINGS = {
    "stream": ("stream",),
    "stream_options": ("stream_options", "include_usage"),
    "text": ("text", "text.format", "json_schema", "response_format"),
    "response_format": ("response_format", "json_schema", "guided_json"),
    "temperature": ("temperature",),
    "reasoning": ("reasoning", "reasoning.effort", "reasoning_effort"),
    "reasoning_effort": ("reasoning_effort", "reasoning"),
    "max_tokens": ("max_tokens",),
    "max_completion_tokens": ("max_completion_tokens",),
    "max_output_tokens": ("max_output_tokens",),
}
CAPS = ("max_output_tokens", "max_tokens", "max_completion_tokens")
LINES = {"temperature": "temperature", "reasoning": "effort", "reasoning_effort": "effort"} | dict.fromkeys(
    CAPS, "max_tokens"
)
STATUS_OF = {"rate_limit_exceeded": 429, "insufficient_quota": 429, "server_error": 500, "overloaded": 503}


class OpenAIAuthor:
    """A model at OpenAI, or at a server that speaks its language.

    Raises:
        AuthorStopped: there is no key.
    """

    def __init__(self, settings: AuthorSettings, *, pace: Pace | None = None) -> None:
        self.settings = settings
        self.name = settings.label
        self.asked = replace(settings, model=settings.model or DEFAULT_MODEL, name=settings.label)
        missing = check_ready(self.asked)
        if missing:
            raise AuthorStopped(missing)
        find_price(self.asked)  # a price table that cannot be read is found before the start
        secret = read_key(self.asked)
        self.line = Line(
            settings=self.asked,
            secret=secret,
            pace=pace or Pace(),
            spellings=SPELLINGS,
            lines=LINES,
            renamed=frozenset(("max_tokens", "max_completion_tokens")),
        )
        self.client = openai.AsyncOpenAI(
            api_key=secret.text or NO_KEY,
            base_url=settings.base_url or None,
            max_retries=0,
            timeout=openai.Timeout(settings.timeout_s, connect=min(CONNECT_S, settings.timeout_s)),
        )

    def prepare(self, ask: Ask) -> Ask:
        """The same question with prompt and worst case filled in."""
        prompt = build_prompt(ask)
        tokens, usd = worst_case(prompt, self.asked)
        return replace(ask, prompt=prompt, worst_tokens=tokens, worst_usd=usd)

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        """Answer a prepared question; see the protocol."""
        if self.settings.api == "chat":
            return await self.line.call(ask, self.chat_parameters, self.send_chat, on_text)
        return await self.line.call(ask, self.responses_parameters, self.send_responses, on_text)

    def waits_s(self) -> float:
        """For the screen: how long the provider's rate limit still holds it up."""
        return self.line.waits_s()

    async def aclose(self) -> None:
        """Let go of connections."""
        await self.client.close()

    # ----------------------------------------------------------------------- what is sent

    def responses_parameters(self, ask: Ask) -> Parameters:
        settings = self.asked
        wanted: Parameters = {"model": settings.model, "input": ask.prompt, "stream": True}
        if settings.max_tokens is not None:
            wanted["max_output_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            wanted["temperature"] = settings.temperature
        if settings.effort:
            wanted["reasoning"] = {"effort": settings.effort}
        if ask.purpose == "ideas":
            wanted["text"] = {"format": {"type": "json_schema", "name": "ideas", "schema": SCHEMA, "strict": True}}
        return self.without_refused(wanted)

    def chat_parameters(self, ask: Ask) -> Parameters:
        settings = self.asked
        messages = [{"role": "user", "content": ask.prompt}]
        wanted: Parameters = {"model": settings.model, "messages": messages, "stream": True}
        wanted["stream_options"] = {"include_usage": True}
        if settings.max_tokens is not None:
            wanted[self.chat_cap()] = settings.max_tokens
        if settings.temperature is not None:
            wanted["temperature"] = settings.temperature
        if settings.effort:
            wanted["reasoning_effort"] = settings.effort
        if ask.purpose == "ideas":
            schema = {"name": "ideas", "schema": SCHEMA, "strict": True}
            wanted["response_format"] = {"type": "json_schema", "json_schema": schema}
        return self.without_refused(wanted)

    def chat_cap(self) -> str:
        """OpenAI's own word for the cap, or the older one that compatible servers know; the other once it is refused."""
        old, new = "max_tokens", "max_completion_tokens"
        first, second = (old, new) if self.settings.base_url else (new, old)
        return second if first in self.line.refused else first

    def without_refused(self, wanted: Parameters) -> Parameters:
        """A cap is never left out: the budget counts on it."""
        refused = self.line.refused
        if "max_output_tokens" in refused:
            raise AuthorStopped(
                f"{self.name}: {self.asked.model} refuses max_output_tokens; remove max_tokens from its table in"
                " session.toml, or set api = \"chat\""
            )  # fmt: skip
        kept = {name: value for name, value in wanted.items() if name not in refused or name in CAPS}
        if "stream" not in kept:
            kept.pop("stream_options", None)
        return kept

    # ----------------------------------------------------------------------- sending

    async def send_responses(self, sent: Parameters, heard: Heard) -> None:
        create: Any = self.client.responses.create
        try:
            reply = await create(**sent)
            if "stream" not in sent:
                take_response(reply, heard)
                return
            async for event in reply:
                take_event(event, heard)
        except FAILURES as error:
            raise self.fault(error, heard) from error

    async def send_chat(self, sent: Parameters, heard: Heard) -> None:
        create: Any = self.client.chat.completions.create
        try:
            reply = await create(**sent)
            if "stream" not in sent:
                take_completion(reply, heard)
                return
            async for chunk in reply:
                take_chunk(chunk, heard)
        except FAILURES as error:
            raise self.fault(error, heard) from error

    def fault(self, error: Exception, heard: Heard) -> Fault:
        """The SDK's exception in our form."""
        if isinstance(error, openai.APIStatusError):
            return status_fault(error)
        if isinstance(error, ValueError):
            return unreadable_fault(heard.characters)
        if isinstance(error, openai.APIConnectionError) or not isinstance(error, openai.APIError):
            return connection_fault(error, heard.characters, str(self.client.base_url))
        return stream_fault(error.code or error.type or "", error.message)


def status_fault(error: openai.APIStatusError) -> Fault:
    body: Any = error.body
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    message = str(body.get("message") or "") if isinstance(body, Mapping) else str(body or "")
    code = " ".join(str(body[key]) for key in ("code", "type") if body.get(key)) if isinstance(body, Mapping) else ""
    wait = stated(error.response.headers, message)
    parameter = str(body.get("param") or "") if isinstance(body, Mapping) else ""
    return Fault(message or error.message, status=error.status_code, code=code, parameter=parameter, retry_after_s=wait)


def stream_fault(code: str, message: str) -> Fault:
    """An error that came inside a stream that had begun."""
    status = next((status for word, status in STATUS_OF.items() if word in code), 500 if not code else 400)
    return Fault(message, status=status, code=code, retry_after_s=stated({}, message), billable=True)


# --------------------------------------------------------------------------- Responses


def take_event(event: Any, heard: Heard) -> None:
    match event.type:
        case "response.output_text.delta":
            heard.say(event.delta)
        case "response.refusal.delta":
            heard.refusal += event.delta
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            heard.reasoning.append(event.delta)
        case "response.completed" | "response.incomplete" | "response.failed":
            take_response(event.response, heard)
        case "error":
            raise stream_fault(str(event.code or ""), event.message)


def take_response(response: Any, heard: Heard) -> None:
    """A whole response: from the terminal event of a stream, or without a stream."""
    heard.model = response.model or ""
    usage = response.usage
    if usage is not None:
        heard.tokens_in, heard.tokens_out = usage.input_tokens, usage.output_tokens
        heard.tokens_reasoning = getattr(usage.output_tokens_details, "reasoning_tokens", None)
        heard.tokens_cached = getattr(usage.input_tokens_details, "cached_tokens", None)
    if response.status == "failed" or response.error is not None:
        error = response.error
        raise stream_fault(
            str(getattr(error, "code", "") or ""), str(getattr(error, "message", "") or "no reason given")
        )
    parts = [part for item in response.output or [] for part in getattr(item, "content", None) or []]
    if not heard.text:
        heard.say("".join(part.text for part in parts if part.type == "output_text"))
    if not heard.refusal:
        heard.refusal = "".join(part.refusal for part in parts if part.type == "refusal")
    reason = getattr(response.incomplete_details, "reason", None)
    heard.finish_reason = {"max_output_tokens": "length", None: "stop"}.get(reason, str(reason))
    if reason == "content_filter":
        heard.blocked = "content_filter"
    heard.ended = response.status in ("completed", "incomplete", None)


# --------------------------------------------------------------------------- Chat Completions


def take_chunk(chunk: Any, heard: Heard) -> None:
    heard.model = chunk.model or heard.model
    take_usage(chunk.usage, heard)
    for choice in (chunk.choices or [])[:1]:
        delta = choice.delta
        if delta is not None:
            take_message(delta, heard)
        take_finish(choice.finish_reason, heard)


def take_completion(completion: Any, heard: Heard) -> None:
    heard.model = completion.model or ""
    take_usage(completion.usage, heard)
    for choice in (completion.choices or [])[:1]:
        take_message(choice.message, heard)
        take_finish(choice.finish_reason or "stop", heard)


def take_message(message: Any, heard: Heard) -> None:
    """A message or the next piece of one; servers put thinking under two names of their own."""
    heard.say(message.content or "")
    heard.refusal += message.refusal or ""
    for name in ("reasoning_content", "reasoning"):
        thought = getattr(message, name, None)
        if isinstance(thought, str):
            heard.reasoning.append(thought)
            break


def take_finish(reason: str | None, heard: Heard) -> None:
    if reason is None:
        return
    heard.finish_reason = reason
    heard.ended = True
    if reason == "content_filter":
        heard.blocked = reason


def take_usage(usage: Any, heard: Heard) -> None:
    if usage is None:
        return
    heard.tokens_in, heard.tokens_out = usage.prompt_tokens, usage.completion_tokens
    heard.tokens_reasoning = getattr(usage.completion_tokens_details, "reasoning_tokens", None)
    heard.tokens_cached = getattr(usage.prompt_tokens_details, "cached_tokens", None)
