"""A server on this machine that speaks the wire formats of OpenAI (Responses, Chat) and Gemini, streamed and not.

    with ProviderServer(["drop", "ok"]) as server:
        AuthorSettings(kind="openai", base_url=server.openai_url)   # or kind="gemini", base_url=server.gemini_url
        server.requests[0].prompt

Each request takes the next behaviour of the script and, when that is used up, `server.default`. A behaviour is a
`Behaviour` or just its kind. `server.answer` makes the text of an answer from the request.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from provider_wire import STREAMS, WHOLE, Behaviour, Request, error_of

__all__ = ["KERNEL", "Behaviour", "ProviderServer", "Request"]

KERNEL = """#include "contract.h"
extern "C" int relu(const float* x, float* out, void* workspace) {
    for (long i = 0; i < N; ++i) out[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}
"""
IDEA = {"bottleneck": "memory", "technique": "vectorisation", "expected": "1.3x", "risk": "tails"}


def plain_answer(request: Request) -> str:
    """Two ideas where ideas are asked for, else a kernel."""
    if request.wants_ideas:
        ideas = [{"title": f"Idea {request.number}.{n}", "text": f"Text {n}.", **IDEA} for n in (1, 2)]
        return json.dumps({"ideas": ideas})
    return f"Here it is.\n\n```cpp\n{KERNEL}```\n"


class ProviderServer:
    """The server; entering it starts it."""

    def __init__(self, script: Sequence[Behaviour | str] = (), *, default: Behaviour | str = "ok") -> None:
        self.script = [as_behaviour(entry) for entry in script]
        self.default = as_behaviour(default)
        self.answer: Callable[[Request], str] = plain_answer
        self.choose: Callable[[Request], Behaviour | str | None] = lambda request: None  # goes before the script
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()  # guards script and requests
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.provider = self  # type: ignore[attr-defined]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    @property
    def gemini_url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def take(self, request: Request) -> None:
        with self.lock:
            request.number = len(self.requests) + 1
            self.requests.append(request)
            chosen = self.choose(request)
            if chosen is None:
                chosen = self.script.pop(0) if self.script else self.default
            request.behaviour = as_behaviour(chosen)

    def __enter__(self) -> ProviderServer:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def as_behaviour(entry: Behaviour | str) -> Behaviour:
    return Behaviour(kind=entry) if isinstance(entry, str) else entry


# --------------------------------------------------------------------------- HTTP


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are kept in the server's list."""

    @property
    def provider(self) -> ProviderServer:
        return self.server.provider  # type: ignore[attr-defined,no-any-return]

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        request = read_request(self.path, body, {name.lower(): value for name, value in self.headers.items()})
        self.provider.take(request)
        behaviour = request.behaviour
        try:
            if behaviour.wait_s and self.provider.stopping.wait(behaviour.wait_s):
                return
            error = error_of(request)
            if error is not None:
                self.send_whole(*error)
            else:
                self.send_answer(request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client went away

    def send_whole(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_answer(self, request: Request) -> None:
        text = answer_text(self.provider, request)
        if not request.stream:
            self.send_whole(200, {}, json.dumps(WHOLE[request.api](request, text)).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in STREAMS[request.api](request, text):
            if request.behaviour.kind == "slow" and self.provider.stopping.wait(request.behaviour.wait_s):
                break
            data = event if isinstance(event, bytes) else sse(request, event)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if request.behaviour.kind == "drop":
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")


def sse(request: Request, event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n" if request.api == "responses" else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def read_request(path: str, body: dict[str, Any], headers: dict[str, str]) -> Request:
    stream = bool(body.get("stream"))
    if path.endswith("/responses"):
        api, model, prompt = "responses", body.get("model", ""), body.get("input", "")
    elif path.endswith("/chat/completions"):
        api, model, prompt = "chat", body.get("model", ""), body["messages"][-1]["content"]
    else:
        api, model = "gemini", path.split("/models/")[-1].split(":")[0]
        prompt = body["contents"][0]["parts"][0]["text"]
        stream = "streamGenerateContent" in path
    return Request(
        number=0, path=path, api=api, model=model, prompt=prompt, body=body, headers=headers, stream=stream,
        arrived=time.monotonic(),
    )  # fmt: skip


def answer_text(server: ProviderServer, request: Request) -> str:
    """The text of the answer, with what it bills."""
    behaviour = request.behaviour
    text = behaviour.text or server.answer(request)
    if behaviour.kind in ("empty", "thinking", "blocked", "blocked_prompt", "refusal"):
        text = ""
    elif behaviour.kind == "quote_key":
        text = f"// {request.key}\n{text}"
    elif behaviour.kind in ("length", "drop", "no_end"):
        text = text[: behaviour.after]
    request.tokens_in = max(1, len(request.prompt) // 4)
    request.cached = min(behaviour.cached_tokens, request.tokens_in)
    request.tokens_out = len(text) // 4 + behaviour.reasoning_tokens
    return text
