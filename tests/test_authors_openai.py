"""The OpenAI author against a local server, through the official SDK; what both SDKs share is tested for all three APIs."""

from __future__ import annotations

import asyncio
import io
import logging
import traceback
from dataclasses import replace

import pytest
from author_asking import GEMINI_KEY, OPENAI_KEY, ask_at, open_at
from author_material import make_ask
from provider_server import KERNEL, Behaviour, ProviderServer

from kerneltui.authors import Reply
from kerneltui.authors.keys import KeyFilter, check_ready
from kerneltui.authors.money import worst_case
from kerneltui.authors.openai import OpenAIAuthor
from kerneltui.authors.retrying import Pace, stated_wait_s
from kerneltui.errors import AuthorError, AuthorStopped
from kerneltui.records import AuthorSettings

ALL = ("responses", "chat", "gemini")
BOTH = ("responses", "chat")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("OPENAI_BASE_URL", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    monkeypatch.setenv("GEMINI_API_KEY", GEMINI_KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


# --------------------------------------------------------------------------- what is asked and answered


@pytest.mark.parametrize("api", ALL)
async def test_a_source_with_tokens_and_cost(api: str) -> None:
    heard: list[str] = []
    with ProviderServer([Behaviour(reasoning_tokens=500, cached_tokens=100)]) as server:
        answer = await ask_at(server, api, on_text=heard.append)
    request, reply = server.requests[0], answer.reply
    assert (answer.source, answer.problem) == (KERNEL, "")
    assert "".join(heard) == reply.text
    assert (reply.tokens_in, reply.tokens_out) == (request.tokens_in, request.tokens_out)
    assert (reply.tokens_reasoning, reply.tokens_cached, reply.retries) == (500, 100, 0)
    rates = {"gemini": (1.25, 0.31, 10.0)}.get(api, (2.0, 0.5, 8.0))
    tokens = (request.tokens_in - 100, 100, request.tokens_out)
    assert reply.cost_usd == pytest.approx(sum(rate * count for rate, count in zip(rates, tokens, strict=True)) / 1e6)
    assert reply.finish_reason == "stop"


@pytest.mark.parametrize("api", ALL)
async def test_ideas_by_schema(api: str) -> None:
    with ProviderServer() as server:
        answer = await ask_at(server, api, make_ask("ideas", count=2))
    assert [idea.title for idea in answer.ideas] == ["Idea 1.1", "Idea 1.2"]
    assert server.requests[0].wants_ideas


@pytest.mark.parametrize("api", ALL)
async def test_nothing_is_sent_that_was_not_asked_for(api: str) -> None:
    with ProviderServer() as server:
        await ask_at(server, api, max_tokens=None)
    body = set(server.requests[0].body)
    expected = {"responses": {"model", "input", "stream"}, "chat": {"model", "messages", "stream", "stream_options"}}
    assert body == expected.get(api, {"contents"})


async def test_what_settings_ask_for_is_sent() -> None:
    settings = {"temperature": 0.7, "effort": "high", "max_tokens": 99}
    with ProviderServer() as server:
        await ask_at(server, "responses", **settings)
        await ask_at(server, "chat", **settings)
    first, second = (request.body for request in server.requests)
    assert (first["temperature"], first["reasoning"], first["max_output_tokens"]) == (0.7, {"effort": "high"}, 99)
    assert (second["temperature"], second["reasoning_effort"], second["max_tokens"]) == (0.7, "high", 99)


@pytest.mark.parametrize("api", ALL)
async def test_the_prompt_that_is_shown_is_the_one_that_is_sent(api: str) -> None:
    with ProviderServer() as server:
        author = open_at(server, api)
        ask = author.prepare(make_ask())
        await author.answer(ask)
        await author.aclose()
    assert server.requests[0].prompt == ask.prompt
    model = "gemini-2.5-pro" if api == "gemini" else "o3"
    assert (ask.worst_tokens, ask.worst_usd) == worst_case(ask.prompt, replace(author.settings, model=model))
    assert ask.worst_usd is not None


# --------------------------------------------------------------------------- refused parameters


async def test_a_refused_parameter_is_left_out_once_and_for_all() -> None:
    refusal = Behaviour(kind="unsupported", parameter="temperature")
    with ProviderServer([refusal]) as server:
        author = open_at(server, "responses", temperature=0.7)
        ask = author.prepare(make_ask())
        first = await author.answer(ask)
        second = await author.answer(ask)
        await author.aclose()
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]
    assert first.notes == (
        "o3 refuses `temperature = 0.7`: asked again without it, and so for the rest of the session",
    )
    assert (first.source, second.source, second.notes) == (KERNEL, KERNEL, ())


async def test_calls_under_way_together_each_leave_a_refused_parameter_out() -> None:
    refusal = Behaviour(kind="unsupported", parameter="temperature", wait_s=0.1)
    with ProviderServer() as server:
        server.choose = lambda request: refusal if "temperature" in request.body else None
        author = open_at(server, "responses", temperature=0.7)
        ask = author.prepare(make_ask())
        answers = await asyncio.gather(*(author.answer(ask) for _ in range(6)))
        await author.aclose()
    assert [answer.source for answer in answers] == [KERNEL] * 6
    assert len(server.requests) == 12


async def test_a_second_refusal_names_parameter_model_and_setting() -> None:
    script = [Behaviour(kind="unsupported", parameter=name) for name in ("temperature", "reasoning.effort")]
    with ProviderServer(script) as server, pytest.raises(AuthorStopped) as caught:
        await ask_at(server, "responses", temperature=0.7, effort="high")
    assert str(caught.value) == (
        "openai: o3 refuses `reasoning` (400: Unsupported parameter: 'reasoning.effort' is not supported with this"
        ' model.); remove `effort = "high"` from its table in session.toml'
    )
    assert len(server.requests) == 2


@pytest.mark.parametrize("api", BOTH)
async def test_a_model_that_may_not_be_streamed_is_asked_whole(api: str) -> None:
    refusal = Behaviour(kind="unsupported", parameter="stream", message="Your organization must be verified to stream.")
    with ProviderServer([refusal]) as server:
        answer = await ask_at(server, api)
    assert (answer.source, [request.stream for request in server.requests]) == (KERNEL, [True, False])
    assert answer.reply.tokens_out == server.requests[1].tokens_out


async def test_a_server_without_schemas_is_asked_in_words() -> None:
    refusal = Behaviour(kind="unsupported", parameter="", message="'response_format' of type json_schema is unknown")
    with ProviderServer([refusal]) as server:
        answer = await ask_at(server, "chat", make_ask("ideas", count=2))
    assert len(answer.ideas) == 2
    assert "response_format" not in server.requests[1].body


async def test_the_cap_is_renamed_and_never_left_out() -> None:
    refusal = Behaviour(kind="unsupported", parameter="max_tokens")
    with ProviderServer([refusal]) as server:
        answer = await ask_at(server, "chat")
    assert server.requests[1].body["max_completion_tokens"] == 4096
    assert "asked again under another name than max_tokens" in answer.notes[0]
    with (
        ProviderServer(default=Behaviour(kind="unsupported", parameter="max_output_tokens")) as server,
        pytest.raises(AuthorStopped, match="refuses max_output_tokens; remove max_tokens"),
    ):
        await ask_at(server, "responses")


# --------------------------------------------------------------------------- money


async def test_unknown_is_not_zero() -> None:
    with ProviderServer(["no_usage", "ok"]) as server:
        without_usage = await ask_at(server, "chat")
        without_price = await ask_at(server, "chat", model="my-own-model")
    assert without_usage.reply.cost_usd is None
    assert (without_price.reply.cost_usd, without_price.reply.tokens_in) == (None, server.requests[1].tokens_in)


async def test_a_free_server_costs_nothing_even_without_usage() -> None:
    with ProviderServer(["no_usage"]) as server:
        answer = await ask_at(server, "chat", model="my-own-model", price_in_usd=0.0, price_out_usd=0.0)
    assert answer.reply.cost_usd == 0.0


# --------------------------------------------------------------------------- keys


def test_a_missing_key_is_found_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    settings = AuthorSettings(kind="openai")
    expected = "author openai has no key: set OPENAI_API_KEY (keys are made at https://platform.openai.com/api-keys)"
    assert check_ready(settings) == expected
    with pytest.raises(AuthorStopped, match=r"openai has no key: set OPENAI_API_KEY"):
        OpenAIAuthor(settings)
    assert check_ready(replace(settings, base_url="http://127.0.0.1:8000/v1")) is None
    assert check_ready(replace(settings, api_key_env="MY_KEY", base_url="http://x")) is not None
    assert check_ready(replace(settings, api="other")) is not None


@pytest.mark.parametrize("api", ALL)
async def test_the_key_is_seen_nowhere(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.StringIO()
    handler = logging.StreamHandler(sink)
    handler.addFilter(KeyFilter())
    root = logging.getLogger()
    root.addHandler(handler)
    monkeypatch.setattr(root, "level", logging.DEBUG)
    heard: list[str] = []
    with ProviderServer(["401", "quote_key", "quote_key"]) as server:
        try:
            await ask_at(server, api)
        except AuthorError as error:
            sink.write(str(error))
            sink.write("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
            logging.getLogger("test").exception("it failed")
        answer = await ask_at(server, api, on_text=heard.append)
    root.removeHandler(handler)
    sink.write(repr(answer))
    sink.write("".join(heard))
    key = GEMINI_KEY if api == "gemini" else OPENAI_KEY
    assert server.requests[0].key == key
    assert "[key]" in answer.reply.text
    assert key not in sink.getvalue()


def test_a_reply_says_unknown_by_none() -> None:
    assert (Reply().cost_usd, Reply().tokens_in) == (None, None)


WAITS = {
    "seconds": ({"Retry-After": "20"}, "", 20.0),
    "fraction": ({"retry-after": "1.5"}, "", 1.5),
    "milliseconds": ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
    "date": ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 30.0),
    "past date": ({"Retry-After": "Wed, 21 Oct 2020 07:28:30 GMT"}, "", 0.0),
    "nonsense": ({"Retry-After": "soon"}, "", None),
    "words": ({}, "Rate limit reached. Please try again in 1.898s.", 1.898),
    "long words": ({}, "Please try again in 6m0s", 360.0),
    "short words": ({}, "Please try again in 20ms.", 0.02),
    "nothing": ({}, "Rate limit reached", None),
}


@pytest.mark.parametrize("case", WAITS)
def test_stated_waits(case: str) -> None:
    headers, message, expected = WAITS[case]
    found = stated_wait_s(headers, message)
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_pace_has_a_default() -> None:
    assert Pace() == Pace(attempts=6, first_s=1.0, longest_s=60.0)
