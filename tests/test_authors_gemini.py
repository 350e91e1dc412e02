"""What only Gemini does; what both SDKs share is in test_authors_openai.py and test_authors_failures.py."""

from __future__ import annotations

import pytest
from author_asking import GEMINI_KEY, ask_at, open_at
from author_material import make_ask
from google import genai
from google.genai import types
from provider_server import KERNEL, Behaviour, ProviderServer

from kerneltui.authors.gemini import GeminiAuthor, check_ready
from kerneltui.errors import AuthorStopped
from kerneltui.records import AuthorSettings


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", GEMINI_KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


async def test_what_settings_ask_for_is_sent() -> None:
    with ProviderServer() as server:
        await ask_at(server, "gemini", temperature=0.3, thinking_budget=2048, max_tokens=999)
        await ask_at(server, "gemini", effort="low", max_tokens=None)
        await ask_at(server, "gemini", make_ask("ideas"), max_tokens=None)
    first, second, third = (request.body.get("generationConfig") for request in server.requests)
    assert first == {"temperature": 0.3, "maxOutputTokens": 999, "thinkingConfig": {"thinking_budget": 2048}}
    assert second == {"thinkingConfig": {"thinking_level": "LOW"}}
    assert (third["responseMimeType"], third["responseSchema"]["required"]) == ("application/json", ["ideas"])
    assert server.requests[0].model == "gemini-2.5-pro"


async def test_thoughts_are_kept_apart_and_paid() -> None:
    with ProviderServer([Behaviour(reasoning_tokens=900)]) as server:
        answer = await ask_at(server, "gemini")
    assert (answer.source, answer.reply.reasoning, answer.reply.tokens_reasoning) == (KERNEL, "Hm.", 900)
    assert answer.reply.tokens_out == server.requests[0].tokens_out


async def test_a_blocked_prompt_stops_the_author() -> None:
    with ProviderServer(default="blocked_prompt") as server, pytest.raises(AuthorStopped) as caught:
        await ask_at(server, "gemini")
    assert str(caught.value) == ("gemini: Gemini blocked the prompt: PROHIBITED_CONTENT; another author or wording")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reason", ["RECITATION", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "OTHER", "LANGUAGE"]
)
async def test_a_blocked_answer_names_the_reason(reason: str) -> None:
    with ProviderServer([Behaviour(kind="blocked", reason=reason)]) as server:
        answer = await ask_at(server, "gemini")
    assert (answer.problem, answer.reply.finish_reason) == (f"blocked: {reason}; another author or wording", reason)


async def test_a_quota_of_the_day_is_no_rate_limit() -> None:
    with ProviderServer(default=Behaviour(kind="daily", retry_in="30s")) as server:
        with pytest.raises(AuthorStopped, match="the quota of the day is used up"):
            await ask_at(server, "gemini")
        assert len(server.requests) == 1


@pytest.mark.parametrize("setting", [{"temperature": 0.3}, {"thinking_budget": 0}, {"effort": "low"}])
async def test_a_refused_parameter_is_left_out(setting: dict[str, object]) -> None:
    words = {"temperature": "temperature", "thinking_budget": "thinkingBudget", "effort": "thinking_level"}
    refusal = Behaviour(kind="unsupported", parameter=words[next(iter(setting))])
    with ProviderServer([refusal]) as server:
        author = open_at(server, "gemini", max_tokens=None, **setting)
        answer = await author.answer(author.prepare(make_ask()))
        await author.aclose()
    assert ["generationConfig" in request.body for request in server.requests] == [True, False]
    assert "asked again without it" in answer.notes[0]


async def test_a_refusal_in_words_alone_is_understood() -> None:
    said = "Thinking is not enabled for this model."
    with ProviderServer([Behaviour(kind="400", message=said)]) as server:
        answer = await ask_at(server, "gemini", thinking_budget=128)
    assert (answer.source, len(server.requests)) == (KERNEL, 2)
    assert answer.notes[0].startswith("gemini-2.5-pro refuses `thinking_budget = 128`")


def test_a_missing_key_is_found_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    settings = AuthorSettings(kind="gemini", model="gemini-2.5-flash")
    expected = (
        "author gemini:gemini-2.5-flash has no key: set GEMINI_API_KEY or GOOGLE_API_KEY"
        " (keys are made at https://aistudio.google.com/apikey)"
    )
    assert check_ready(settings) == expected
    with pytest.raises(AuthorStopped):
        GeminiAuthor(settings)
    monkeypatch.setenv("GOOGLE_API_KEY", " spaced inside ")
    assert check_ready(settings) == (
        "author gemini:gemini-2.5-flash: GOOGLE_API_KEY holds characters that no key has; copy it again"
    )


def test_the_server_speaks_to_the_bare_sdk_without_a_stream() -> None:
    """The server itself, asked through the SDK's other door."""
    with ProviderServer([Behaviour(text="hello")]) as server:
        options = types.HttpOptions(base_url=server.gemini_url)
        with genai.Client(api_key="k", vertexai=False, http_options=options) as client:
            reply = client.models.generate_content(model="gemini-2.5-pro", contents="hi")
    assert (reply.text, reply.candidates[0].finish_reason) == ("hello", types.FinishReason.STOP)
