"""Authors behind the Gemini API, always streamed. Nothing is sent that the settings do not ask for, but a JSON schema."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from google import genai
from google.genai import errors, types

from kerneltui.authors import Answer, Ask
from kerneltui.authors.faults import Fault, connection_fault, stated, transport_errors, unreadable_fault
from kerneltui.authors.ideas import FIELDS
from kerneltui.authors.keys import check_ready, read_key
from kerneltui.authors.line import Heard, Line, Parameters
from kerneltui.authors.money import find_price, worst_case
from kerneltui.authors.prompt import build_prompt
from kerneltui.authors.retrying import Pace
from kerneltui.errors import AuthorStopped
from kerneltui.records import AuthorSettings

__all__ = ["DEFAULT_MODEL", "GeminiAuthor", "check_ready"]

DEFAULT_MODEL = "gemini-2.5-pro"
ADDRESS = "https://generativelanguage.googleapis.com"
TRANSPORT: tuple[type[Exception], ...] = (*transport_errors(), OSError)
# Gemini's schemas know no additionalProperties.
IDEA = {"type": "OBJECT", "properties": {name: {"type": "STRING"} for name in FIELDS}, "required": list(FIELDS)}
SCHEMA = {"type": "OBJECT", "properties": {"ideas": {"type": "ARRAY", "items": IDEA}}, "required": ["ideas"]}
SPELLINGS = {
    "thinking_budget": ("thinking_budget", "thinkingbudget", "thinking budget", "thinking_config", "thinkingconfig", "thinking"),
    "thinking_level": ("thinking_level", "thinkinglevel", "thinking level", "thinking_config", "thinkingconfig"),
    "temperature": ("temperature",),
    "max_output_tokens": ("max_output_tokens", "maxoutputtokens"),
    "response_schema": ("response_schema", "responseschema", "response_mime_type", "responsemimetype", "json mode"),
}  # fmt: skip
LINES = {
    "thinking_budget": "thinking_budget",
    "thinking_level": "effort",
    "temperature": "temperature",
    "max_output_tokens": "max_tokens",
}
FINISHED = {"STOP": "stop", "MAX_TOKENS": "length"}


def open_connections() -> Any:
    """The transport that the SDK takes by itself where there is no aiohttp: with it, errors and limits are others."""
    name = "httpx2" if importlib.util.find_spec("httpx2") else "httpx"  # the SDK needs one of them
    return importlib.import_module(name).AsyncClient(timeout=None, follow_redirects=True)


class GeminiAuthor:
    """A Gemini model.

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
        self.line = Line(settings=self.asked, secret=secret, pace=pace or Pace(), spellings=SPELLINGS, lines=LINES)
        # One attempt means none of its own retries. No timeout: ours covers the call, and its own is sent to the
        # server, which answers a short one with an error.
        self.connections = open_connections()
        options = types.HttpOptions(
            base_url=settings.base_url or None,
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=self.connections,
        )
        self.client = genai.Client(api_key=secret.text, vertexai=False, http_options=options)

    def prepare(self, ask: Ask) -> Ask:
        """The same question with prompt and worst case filled in."""
        prompt = build_prompt(ask)
        tokens, usd = worst_case(prompt, self.asked)
        return replace(ask, prompt=prompt, worst_tokens=tokens, worst_usd=usd)

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        """Answer a prepared question; see the protocol."""
        return await self.line.call(ask, self.parameters, self.send, on_text)

    def waits_s(self) -> float:
        """For the screen: how long the provider's rate limit still holds it up."""
        return self.line.waits_s()

    async def aclose(self) -> None:
        """Let go of connections."""
        await self.client.aio.aclose()
        await self.connections.aclose()
        self.client.close()

    def parameters(self, ask: Ask) -> Parameters:
        """Model, prompt and the fields of the generation config."""
        settings = self.asked
        wanted: Parameters = {"model": settings.model, "contents": ask.prompt}
        if settings.max_tokens is not None:
            wanted["max_output_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            wanted["temperature"] = settings.temperature
        if settings.thinking_budget is not None:
            wanted["thinking_budget"] = settings.thinking_budget
        if settings.effort:
            wanted["thinking_level"] = settings.effort.upper()
        if ask.purpose == "ideas":
            wanted["response_schema"] = SCHEMA
        if "max_output_tokens" in self.line.refused:
            # The budget counts on the cap, so it is never left out.
            raise AuthorStopped(f"{self.name}: {settings.model} refuses max_tokens = {settings.max_tokens}; change it")
        return {name: value for name, value in wanted.items() if name not in self.line.refused}

    async def send(self, sent: Parameters, heard: Heard) -> None:
        try:
            stream = await self.client.aio.models.generate_content_stream(
                model=sent["model"], contents=sent["contents"], config=generation_config(sent)
            )
            async for chunk in stream:
                take_chunk(chunk, heard)
        except errors.APIError as error:
            raise api_fault(error, heard) from error
        except errors.UnknownApiResponseError as error:
            raise unreadable_fault(heard.characters) from error
        except TRANSPORT as error:
            raise connection_fault(error, heard.characters, self.settings.base_url or ADDRESS) from error


def generation_config(sent: Parameters) -> types.GenerateContentConfig | None:
    config: Parameters = {
        name: sent[name] for name in ("max_output_tokens", "temperature", "response_schema") if name in sent
    }
    if "response_schema" in config:
        config["response_mime_type"] = "application/json"
    thinking = {name: sent[name] for name in ("thinking_budget", "thinking_level") if name in sent}
    if thinking:
        config["thinking_config"] = types.ThinkingConfig(**thinking)
    return types.GenerateContentConfig(**config) if config else None


def take_chunk(chunk: types.GenerateContentResponse, heard: Heard) -> None:
    heard.model = chunk.model_version or heard.model
    take_usage(chunk.usage_metadata, heard)
    feedback = chunk.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        heard.blocked, heard.blocked_prompt, heard.ended = word(feedback.block_reason), True, True
    for candidate in (chunk.candidates or [])[:1]:
        for part in (candidate.content.parts if candidate.content else None) or []:
            if part.thought:
                heard.reasoning.append(part.text or "")
            else:
                heard.say(part.text or "")
        take_finish(candidate.finish_reason, heard)


def take_finish(reason: Any, heard: Heard) -> None:
    if reason is None or word(reason) == "FINISH_REASON_UNSPECIFIED":
        return
    name = word(reason)
    heard.ended = True
    heard.finish_reason = FINISHED.get(name, name)
    if name not in FINISHED:
        heard.blocked = name


def take_usage(usage: Any, heard: Heard) -> None:
    """Gemini counts thoughts beside the answer; here they are part of what came out, as they are billed."""
    if usage is None:
        return
    heard.tokens_in = usage.prompt_token_count
    heard.tokens_reasoning = usage.thoughts_token_count
    heard.tokens_cached = usage.cached_content_token_count
    if usage.candidates_token_count is not None or usage.thoughts_token_count is not None:
        heard.tokens_out = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)


def word(value: Any) -> str:
    return str(getattr(value, "value", value))


def api_fault(error: errors.APIError, heard: Heard) -> Fault:
    """The SDK's exception in our form; details are those of google.rpc.Status."""
    body: Any = error.details
    body = body.get("error", body) if isinstance(body, Mapping) else {}
    details = body.get("details") if isinstance(body, Mapping) else None
    details = [entry for entry in details if isinstance(entry, Mapping)] if isinstance(details, list) else []
    headers = getattr(error.response, "headers", None) or {}
    status = int(error.code) if str(error.code).isdigit() else 500
    return Fault(
        str(error.message or error.status or ""),
        status=status,
        code=" ".join([str(error.status or ""), *(str(entry["reason"]) for entry in details if entry.get("reason"))]),
        parameter=violated_field(details),
        retry_after_s=stated(headers, str(error.message or ""), details),
        billable=bool(heard.text),
        daily=status == 429 and is_daily(details),
    )


def violated_field(details: list[Mapping[str, Any]]) -> str:
    """The last part of the first field that a google.rpc.BadRequest names."""
    for entry in details:
        for violation in entry.get("fieldViolations") or []:
            if isinstance(violation, Mapping) and violation.get("field"):
                return str(violation["field"]).rsplit(".", 1)[-1]
    return ""


def is_daily(details: list[Mapping[str, Any]]) -> bool:
    """Whether a quota for the day, or one of nothing at all, is what was exceeded."""
    violations = [violation for entry in details for violation in entry.get("violations") or []]
    return any(
        isinstance(violation, Mapping)
        and ("PerDay" in str(violation.get("quotaId", "")) or str(violation.get("quotaValue", "")) == "0")
        for violation in violations
    )
