"""Every failure of a provider, for both SDKs and all three APIs, against a local server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from author_asking import GEMINI_KEY, OPENAI_KEY, QUICK, ask_at, open_at
from author_material import make_ask
from provider_server import KERNEL, Behaviour, ProviderServer

from kerneltui.authors.openai import OpenAIAuthor
from kerneltui.errors import AuthorStopped, AuthorUnavailable
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


# --------------------------------------------------------------------------- passing trouble


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", ["429", "500", "502", "503", "408", "529", "html"])
async def test_passing_trouble_is_tried_again_and_costs_nothing(api: str, kind: str) -> None:
    with ProviderServer([kind, kind]) as server:
        answer = await ask_at(server, api)
    assert (answer.source, len(server.requests), answer.reply.retries) == (KERNEL, 3, 2)
    assert answer.reply.tokens_in == server.requests[2].tokens_in


@pytest.mark.parametrize("api", ALL)
async def test_tries_have_a_limit(api: str) -> None:
    with (
        ProviderServer(default="503") as server,
        pytest.raises(AuthorUnavailable, match=r"trouble at the provider \(503: The model is overloaded") as caught,
    ):
        await ask_at(server, api)
    assert len(server.requests) == QUICK.attempts
    assert caught.value.reply.cost_usd == 0.0


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("behaviour", [Behaviour(kind="429", retry_after="1"), Behaviour(kind="date", retry_after="2")])
async def test_a_stated_wait_is_kept(api: str, behaviour: Behaviour) -> None:
    with ProviderServer([behaviour]) as server:
        await ask_at(server, api)
    first, second = server.requests
    assert second.arrived - first.arrived >= 0.9


async def test_geminis_own_way_of_stating_a_wait() -> None:
    with ProviderServer([Behaviour(kind="429", retry_in="1.2s")]) as server:
        await ask_at(server, "gemini")
    first, second = server.requests
    assert second.arrived - first.arrived >= 1.1


async def test_a_stated_wait_holds_all_calls_of_the_author_back() -> None:
    with ProviderServer([Behaviour(kind="429", retry_after="1")]) as server:
        author = open_at(server, "responses")
        ask = author.prepare(make_ask())
        first = asyncio.create_task(author.answer(ask))
        while not author.waits_s():
            await asyncio.sleep(0.01)
        assert 0.5 < author.waits_s() <= 1.0
        await asyncio.gather(first, author.answer(ask), author.answer(ask))
        await author.aclose()
    times = [request.arrived - server.requests[0].arrived for request in server.requests]
    assert (len(times), min(times[1:]) >= 0.9) == (4, True)


@pytest.mark.parametrize("api", ALL)
async def test_a_wait_beyond_the_deadline_is_not_waited_for(api: str) -> None:
    with ProviderServer([Behaviour(kind="429", retry_after="3600")]) as server:
        started = time.monotonic()
        with pytest.raises(AuthorUnavailable, match="it asks to wait 3600 s") as caught:
            await ask_at(server, api)
    assert (caught.value.retry_after_s, len(server.requests)) == (3600.0, 1)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("wait", ["before", "between"])
async def test_the_deadline_is_for_the_whole_call(api: str, wait: str) -> None:
    behaviour = Behaviour(wait_s=30.0) if wait == "before" else Behaviour(kind="slow", wait_s=0.4)
    with ProviderServer(["503"], default=behaviour) as server:
        started = time.monotonic()
        with pytest.raises(
            AuthorUnavailable, match=r"no whole answer within 1\.5 s.*; 1 request may be billed"
        ) as caught:
            await ask_at(server, api, timeout_s=1.5)
    assert time.monotonic() - started < 6
    assert len(server.requests) == 2
    assert caught.value.reply.cost_usd is None
    assert bool(caught.value.reply.text) == (wait == "between")


@pytest.mark.parametrize("api", ALL)
async def test_cancelling_works_at_once(api: str) -> None:
    with ProviderServer(default=Behaviour(wait_s=30.0)) as server:
        author = open_at(server, api)
        task = asyncio.create_task(author.answer(author.prepare(make_ask())))
        while not server.requests:
            await asyncio.sleep(0.01)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await author.aclose()
    assert time.monotonic() - started < 2


# --------------------------------------------------------------------------- broken streams


UNPRICED = {"model": "my-own-model", "max_tokens": None}  # nothing can be reserved for a call to it


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", ["drop", "no_end"])
async def test_half_an_answer_is_asked_for_again(api: str, kind: str) -> None:
    heard: list[str] = []
    with ProviderServer([kind]) as server:
        answer = await ask_at(server, api, on_text=heard.append, **UNPRICED)
    assert (answer.source, len(server.requests)) == (KERNEL, 2)
    assert "[connection lost after 140 characters]" in "".join(heard)
    assert answer.notes[0] == "1 request broke and may be billed: the cost of the call is unknown"
    assert (answer.reply.cost_usd, answer.reply.tokens_in, answer.reply.tokens_out) == (None, None, None)


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", ["drop", "no_end"])
async def test_a_call_never_uses_more_than_was_reserved_for_it(api: str, kind: str) -> None:
    with ProviderServer([kind]) as server:
        author = open_at(server, api)
        ask = author.prepare(make_ask())
        assert ask.worst_usd is not None and ask.worst_tokens is not None
        with pytest.raises(AuthorUnavailable, match=r"connection lost after 140 characters$") as caught:
            await author.answer(ask)
        assert len(server.requests) == 1
        assert caught.value.retry_after_s is not None and caught.value.retry_after_s < 1
        assert (caught.value.reply.cost_usd, caught.value.reply.finish_reason) == (None, "lost")
        assert len(caught.value.reply.text) == 140
        double = replace(ask, worst_usd=2 * ask.worst_usd, worst_tokens=2 * ask.worst_tokens)
        server.script.append(Behaviour(kind=kind))
        answer = await author.answer(double)
        await author.aclose()
    assert (answer.source, len(server.requests)) == (KERNEL, 3)


async def test_a_free_server_may_break_and_costs_nothing() -> None:
    with ProviderServer(["drop"]) as server:
        answer = await ask_at(server, "chat", price_in_usd=0.0, price_out_usd=0.0, **UNPRICED)
    assert (answer.source, answer.reply.cost_usd) == (KERNEL, 0.0)


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", ["drop", "no_end", "error_in_stream", "garbage"])
async def test_a_stream_that_breaks_twice_keeps_its_text(api: str, kind: str) -> None:
    with ProviderServer(default=kind) as server, pytest.raises(AuthorUnavailable) as caught:
        await ask_at(server, api, **UNPRICED)
    assert len(server.requests) == 2
    if kind in ("drop", "no_end"):
        assert str(caught.value).endswith(": connection lost after 140 characters (2 requests)")
    assert caught.value.reply.text.startswith("Here it is.")
    assert caught.value.reply.cost_usd is None


async def test_nobody_listens() -> None:
    with ProviderServer() as server:
        url = server.openai_url
    author = OpenAIAuthor(AuthorSettings(kind="openai", base_url=url, timeout_s=20), pace=QUICK)
    with pytest.raises(AuthorUnavailable, match=f"cannot reach {url}/: ") as caught:
        await author.answer(author.prepare(make_ask()))
    await author.aclose()
    assert caught.value.reply.cost_usd == 0.0


# --------------------------------------------------------------------------- permanent trouble

STOPPED = {
    "401": r"the key in \w+_API_KEY is not accepted \(401: Incorrect API key provided: \[key\]",
    "bad_key": r"the key in \w+_API_KEY is not accepted \(400: API key not valid: \[key\]",
    "403": r"the key in \w+_API_KEY may not do this \(403: Key \[key\] lacks permission",
    "402": r"no money or quota is left \(402: Insufficient balance\.\); see the account at http",
    "404": r"no model `\S+` for this key \(404: .*; change `model` in session\.toml",
    "quota": r"no money or quota is left \(429: You exceeded your current quota",
    "too_long": r"the prompt is too long for \S+ \(400: .*shorten the notes",
    "413": r"the prompt is too long for \S+ \(413",
    "400": r"does not take the request \(400: The request cannot be understood",
}


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", STOPPED)
async def test_permanent_trouble_stops_the_author_after_one_request(api: str, kind: str) -> None:
    with ProviderServer(default=kind) as server, pytest.raises(AuthorStopped, match=STOPPED[kind]) as caught:
        await ask_at(server, api)
    assert len(server.requests) == 1
    assert caught.value.reply.cost_usd == 0.0


@pytest.mark.parametrize("api", BOTH)
async def test_a_refusal_stops_the_author_and_is_paid(api: str) -> None:
    with (
        ProviderServer(default="refusal") as server,
        pytest.raises(AuthorStopped, match="refuses: \"I'm sorry, I can't help") as caught,
    ):
        await ask_at(server, api)
    assert len(server.requests) == 1
    assert caught.value.reply.cost_usd > 0


# --------------------------------------------------------------------------- paid, but of no use

UNUSABLE = {
    "empty": "the answer is empty",
    "length": "answer cut off at 35 tokens: raise the cap (max_tokens)",
    "thinking": "4,000 of 4,000 tokens went into thinking: raise the cap (max_tokens)",
    "blocked": "blocked: {reason}; another author or wording",
}


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("kind", UNUSABLE)
async def test_a_paid_answer_of_no_use_is_not_asked_for_again(api: str, kind: str) -> None:
    tokens = 4000 if kind == "thinking" else 0
    with ProviderServer(default=Behaviour(kind=kind, reasoning_tokens=tokens)) as server:
        answer = await ask_at(server, api)
    reason = "RECITATION" if api == "gemini" else "content_filter"
    assert (answer.source, answer.problem) == ("", UNUSABLE[kind].format(reason=reason))
    assert len(server.requests) == 1
    assert answer.reply.cost_usd is not None and answer.reply.cost_usd > 0


@pytest.mark.parametrize("api", ALL)
async def test_whole_ideas_of_a_cut_answer_are_kept(api: str) -> None:
    with ProviderServer([Behaviour(kind="length", after=200)]) as server:
        answer = await ask_at(server, api, make_ask("ideas", count=4))
    assert ([idea.title for idea in answer.ideas], answer.problem) == (["Idea 1.1"], "")
    assert answer.notes == ("cut off after 1 whole idea: kept",)


@pytest.mark.parametrize("kind", ["empty", "length", "blocked"])
@pytest.mark.parametrize("api", BOTH)
async def test_whole_answers_are_read_like_streamed_ones(api: str, kind: str) -> None:
    with ProviderServer([Behaviour(kind="unsupported", parameter="stream"), kind]) as server:
        answer = await ask_at(server, api)
    assert answer.problem == UNUSABLE[kind].format(reason="content_filter")
