"""What a provider sends: errors, whole answers and streams of OpenAI (Responses, Chat) and Gemini, as `provider_server` asks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What one request meets.

    Kinds: ok, slow, drop, no_end, empty, length, thinking, blocked, blocked_prompt, refusal, no_usage, quote_key,
    error_in_stream, garbage; and as HTTP errors 400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 529, date (429 with
    a date), quota (429, no money), daily (429, a day's quota), too_long, unsupported (of `parameter`), html (502).
    """

    kind: str = "ok"
    text: str = ""  # "" is what server.answer says
    after: int = 140  # characters before a stream breaks
    wait_s: float = 0.0  # before the first byte, and between pieces of `slow`
    retry_after: str = ""
    retry_in: str = ""  # Gemini's RetryInfo, such as "3s"
    parameter: str = ""
    message: str = ""
    reason: str = "RECITATION"  # of a block
    reasoning_tokens: int = 0
    cached_tokens: int = 0


@dataclass(slots=True, kw_only=True)
class Request:
    """One request as it came, and what was answered."""

    number: int
    path: str
    api: str  # responses, chat, gemini
    model: str
    prompt: str
    body: dict[str, Any]
    headers: dict[str, str]
    stream: bool
    arrived: float
    behaviour: Behaviour = field(default_factory=Behaviour)
    tokens_in: int = 0  # billed; 0 where the request was refused
    tokens_out: int = 0
    cached: int = 0

    @property
    def key(self) -> str:
        bearer = self.headers.get("authorization", "")
        return self.headers.get("x-goog-api-key") or bearer.removeprefix("Bearer ").strip()

    @property
    def wants_ideas(self) -> bool:
        config = self.body.get("generationConfig", {})
        return bool(self.body.get("text") or self.body.get("response_format") or config.get("responseSchema")) or (
            '{"ideas"' in self.prompt
        )


# --------------------------------------------------------------------------- errors

ERRORS: dict[str, tuple[int, str, str, str]] = {  # kind: status, OpenAI code, Gemini status, message
    "400": (400, "invalid_request", "INVALID_ARGUMENT", "The request cannot be understood."),
    "401": (401, "invalid_api_key", "UNAUTHENTICATED", "Incorrect API key provided: {key}."),
    "402": (402, "insufficient_balance", "FAILED_PRECONDITION", "Insufficient balance."),
    "403": (403, "forbidden", "PERMISSION_DENIED", "Key {key} lacks permission."),
    "404": (404, "model_not_found", "NOT_FOUND", "The model `{model}` does not exist."),
    "408": (408, "timeout", "DEADLINE_EXCEEDED", "Request timed out."),
    "413": (413, "too_large", "INVALID_ARGUMENT", "Payload too large."),
    "429": (429, "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "Rate limit reached."),
    "date": (429, "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "Rate limit reached."),
    "quota": (429, "insufficient_quota", "RESOURCE_EXHAUSTED", "You exceeded your current quota (insufficient_quota)."),
    "daily": (429, "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    "500": (500, "server_error", "INTERNAL", "An internal error has occurred."),
    "502": (502, "bad_gateway", "UNAVAILABLE", "Bad gateway."),
    "503": (503, "overloaded", "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "529": (529, "overloaded", "UNAVAILABLE", "Overloaded."),
    "too_long": (400, "context_length_exceeded", "INVALID_ARGUMENT",
                 "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."),
    "unsupported": (400, "unsupported_parameter", "INVALID_ARGUMENT",
                    "Unsupported parameter: '{parameter}' is not supported with this model."),
    "bad_key": (400, "invalid_api_key", "INVALID_ARGUMENT", "API key not valid: {key}. Please pass a valid API key."),
}  # fmt: skip


def error_of(request: Request) -> tuple[int, dict[str, str], bytes] | None:
    """Status, headers and body of an HTTP error; None where the request is answered."""
    behaviour = request.behaviour
    if behaviour.kind == "html":
        return 502, {"Content-Type": "text/html"}, b"<html><head><style>p {}</style></head><h1>Bad Gateway</h1></html>"
    if behaviour.kind not in ERRORS:
        return None
    status, code, name, message = ERRORS[behaviour.kind]
    message = (behaviour.message or message).format(key=request.key, model=request.model, parameter=behaviour.parameter)
    headers = {"Retry-After": behaviour.retry_after} if behaviour.retry_after else {}
    if behaviour.kind == "date":
        headers = {"Retry-After": formatdate(time.time() + float(behaviour.retry_after or 1), usegmt=True)}
    error: dict[str, Any]
    if request.api == "gemini":
        error = {"code": status, "message": message, "status": name, "details": gemini_details(behaviour)}
    else:
        kind = "insufficient_quota" if behaviour.kind == "quota" else "invalid_request_error"
        error = {"message": message, "type": kind, "code": code, "param": behaviour.parameter or None}
    return status, headers, json.dumps({"error": error}).encode()


def gemini_details(behaviour: Behaviour) -> list[dict[str, Any]]:
    google = "type.googleapis.com/google.rpc."
    details: list[dict[str, Any]] = []
    if behaviour.retry_in:
        details.append({"@type": google + "RetryInfo", "retryDelay": behaviour.retry_in})
    if behaviour.kind == "daily":
        quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}
        details.append({"@type": google + "QuotaFailure", "violations": [quota]})
    if behaviour.parameter:
        violation = {"field": f"generation_config.{behaviour.parameter}", "description": "not supported"}
        details.append({"@type": google + "BadRequest", "fieldViolations": [violation]})
    return details


# --------------------------------------------------------------------------- OpenAI Responses


def pieces(text: str, size: int = 20) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def whole_response(request: Request, text: str) -> dict[str, Any]:
    behaviour = request.behaviour
    cut = behaviour.kind in ("length", "thinking")
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    if behaviour.kind == "refusal":
        content = [{"type": "refusal", "refusal": "I'm sorry, I can't help with that."}]
    reason = "max_output_tokens" if cut else "content_filter" if behaviour.kind == "blocked" else None
    output = [] if behaviour.kind == "thinking" else [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    ]  # fmt: skip
    usage = None if behaviour.kind == "no_usage" else {
        "input_tokens": request.tokens_in,
        "input_tokens_details": {"cached_tokens": request.cached},
        "output_tokens": request.tokens_out,
        "output_tokens_details": {"reasoning_tokens": behaviour.reasoning_tokens},
        "total_tokens": request.tokens_in + request.tokens_out,
    }  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": f"{request.model}-2025-04-16",
        "status": "incomplete" if reason else "completed", "error": None,
        "incomplete_details": {"reason": reason} if reason else None, "instructions": None, "metadata": {},
        "output": output, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 1.0, "usage": usage,
    }  # fmt: skip


def stream_response(request: Request, text: str) -> Iterator[dict[str, Any] | bytes]:
    kind = request.behaviour.kind
    whole = whole_response(request, text)
    yield {"type": "response.created", "sequence_number": 0, "response": {**whole, "status": "in_progress", "output": [], "usage": None}}  # fmt: skip
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    for number, piece in enumerate(pieces(text), 1):
        yield {"type": "response.output_text.delta", "sequence_number": number, **place, "delta": piece, "logprobs": []}
    if kind == "refusal":
        yield {
            "type": "response.refusal.delta",
            "sequence_number": 1,
            **place,
            "delta": "I'm sorry, I can't help with that.",
        }
    if kind == "garbage":
        yield b"event: response.output_text.delta\ndata: {broken\n\n"
    if kind == "error_in_stream":
        yield {
            "type": "error",
            "sequence_number": 9,
            "code": "server_error",
            "message": "Something broke.",
            "param": None,
        }
    elif kind not in ("drop", "no_end", "garbage"):
        name = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        yield {"type": name, "sequence_number": 99, "response": whole}


# --------------------------------------------------------------------------- OpenAI Chat Completions


def chat_usage(request: Request) -> dict[str, Any]:
    return {
        "prompt_tokens": request.tokens_in, "completion_tokens": request.tokens_out,
        "total_tokens": request.tokens_in + request.tokens_out,
        "completion_tokens_details": {"reasoning_tokens": request.behaviour.reasoning_tokens},
        "prompt_tokens_details": {"cached_tokens": request.cached},
    }  # fmt: skip


def chat_finish(request: Request) -> str:
    return {"length": "length", "thinking": "length", "blocked": "content_filter"}.get(request.behaviour.kind, "stop")


def whole_chat(request: Request, text: str) -> dict[str, Any]:
    kind = request.behaviour.kind
    refusal = "I'm sorry, I can't help with that." if kind == "refusal" else None
    message = {"role": "assistant", "content": None if kind == "empty" else text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": chat_finish(request), "logprobs": None}
    usage = {} if kind == "no_usage" else {"usage": chat_usage(request)}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": request.model, "choices": [choice], **usage}


def stream_chat(request: Request, text: str) -> Iterator[dict[str, Any] | bytes]:
    kind = request.behaviour.kind
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": request.model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": None})
    for _ in range(request.behaviour.reasoning_tokens > 0):
        yield chunk({"reasoning_content": "Let me think. "})
    for piece in pieces(text):
        yield chunk({"content": piece})
    if kind == "refusal":
        yield chunk({"refusal": "I'm sorry, I can't help with that."})
    if kind == "garbage":
        yield b"data: {broken\n\n"
    if kind == "error_in_stream":
        yield b'data: {"error": {"message": "Something broke.", "type": "server_error", "code": "server_error"}}\n\n'
    if kind in ("drop", "no_end", "garbage", "error_in_stream"):
        return
    yield chunk({}, chat_finish(request))
    if kind != "no_usage" and request.body.get("stream_options", {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": chat_usage(request)}
    yield b"data: [DONE]\n\n"


# --------------------------------------------------------------------------- Gemini


def gemini_usage(request: Request) -> dict[str, Any]:
    thoughts = request.behaviour.reasoning_tokens
    usage = {
        "promptTokenCount": request.tokens_in,
        "candidatesTokenCount": request.tokens_out - thoughts,
        "totalTokenCount": request.tokens_in + request.tokens_out,
    }
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if request.cached:
        usage["cachedContentTokenCount"] = request.cached
    return usage


def whole_gemini(request: Request, text: str) -> dict[str, Any]:
    behaviour = request.behaviour
    frame: dict[str, Any] = {"modelVersion": request.model, "responseId": "r1"}
    if behaviour.kind != "no_usage":
        frame["usageMetadata"] = gemini_usage(request)
    if behaviour.kind == "blocked_prompt":
        return {**frame, "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    finish = {"length": "MAX_TOKENS", "thinking": "MAX_TOKENS", "blocked": behaviour.reason}.get(behaviour.kind, "STOP")
    candidate: dict[str, Any] = {"index": 0, "finishReason": finish}
    if text:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    return {**frame, "candidates": [candidate]}


def stream_gemini(request: Request, text: str) -> Iterator[dict[str, Any] | bytes]:
    kind = request.behaviour.kind
    if request.behaviour.reasoning_tokens and kind == "ok":
        yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}}]}
    for piece in pieces(text):
        yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": piece}]}}]}
    if kind == "garbage":
        yield b"data: {broken\n\n"
    elif kind == "error_in_stream":
        yield b'data: {"error": {"code": 503, "message": "Something broke.", "status": "UNAVAILABLE"}}\n\n'
    elif kind not in ("drop", "no_end"):
        yield whole_gemini(request, "")


WHOLE: dict[str, Callable[[Request, str], dict[str, Any]]] = {
    "responses": whole_response, "chat": whole_chat, "gemini": whole_gemini,
}  # fmt: skip
STREAMS: dict[str, Callable[[Request, str], Iterator[dict[str, Any] | bytes]]] = {
    "responses": stream_response, "chat": stream_chat, "gemini": stream_gemini,
}  # fmt: skip
