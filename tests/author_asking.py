"""Ask an author of either SDK a question through the local provider server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from author_material import make_ask
from provider_server import ProviderServer

from kerneltui.authors import Answer, Ask
from kerneltui.authors.gemini import GeminiAuthor
from kerneltui.authors.openai import OpenAIAuthor
from kerneltui.authors.retrying import Pace
from kerneltui.records import AuthorSettings

QUICK = Pace(first_s=0.005, longest_s=0.02, attempts=4)
OPENAI_KEY = "tvly-no-known-prefix-7f3a"
GEMINI_KEY = "plainwords-9c1e"


def open_at(server: ProviderServer, api: str, *, pace: Pace = QUICK, **settings: Any) -> OpenAIAuthor | GeminiAuthor:
    """An author of `responses`, `chat` or `gemini` that talks to the server."""
    plain = AuthorSettings(kind="openai", timeout_s=20.0, max_tokens=4096)
    if api == "gemini":
        return GeminiAuthor(replace(plain, kind="gemini", base_url=server.gemini_url, **settings), pace=pace)
    return OpenAIAuthor(replace(plain, base_url=server.openai_url, api=api, **settings), pace=pace)


async def ask_at(
    server: ProviderServer,
    api: str,
    ask: Ask | None = None,
    *,
    pace: Pace = QUICK,
    on_text: Callable[[str], None] | None = None,
    **settings: Any,
) -> Answer:
    author = open_at(server, api, pace=pace, **settings)
    try:
        return await author.answer(author.prepare(ask or make_ask()), on_text)
    finally:
        await author.aclose()
