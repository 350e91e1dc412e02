"""The screen in a browser: a real server on the loopback address, asked with and without its token."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneltui.cli import group
from kerneltui.commands.web import is_loopback, is_ours, is_same
from kerneltui.errors import MachineError, UsageError
from kerneltui.records import Problem, Settings
from kerneltui.store import Store

aiohttp = pytest.importorskip("aiohttp", reason="the extra web is not installed")
pytest.importorskip("textual_serve", reason="the extra web is not installed")

ROOT = Path(__file__).parent.parent
TOKEN = "0123456789abcdef-secret"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server on a session listens."""
    folder = tmp_path_factory.mktemp("web")
    with Store.create(
        folder / "relu", Settings(problem="relu"), Problem(name="relu", title="", source="", path="r.py")
    ):
        pass
    command = [sys.executable, "-m", "kerneltui", "web", str(folder / "relu"), "--port", "0"]
    environment = {**os.environ, "KERNELTUI_WEB_TOKEN": TOKEN, "XDG_STATE_HOME": str(folder), "LC_ALL": "C"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("http://127.0.0.1:") and line.endswith(f"/?token={TOKEN}\n"), line
        yield line.partition("/?")[0]
        server.send_signal(signal.SIGINT)
        assert 0 == server.wait(20)


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/static/", "/download/x", "/nowhere"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=0123456789abcdef-secreu", "?token=%C3%A9"])
async def test_nothing_is_given_without_the_token(address: str, path: str, query: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(address + path + query) as answer:
        assert 403 == answer.status
        assert "Set-Cookie" not in answer.headers
        assert (await answer.text()).startswith("403: this needs the address with the token")


async def test_a_cookie_of_ones_own_making_opens_nothing(address: str) -> None:
    entrance = f"{address}/?token={TOKEN}"
    async with aiohttp.ClientSession() as session, session.get(entrance, allow_redirects=False) as answer:
        name = answer.headers["Set-Cookie"].partition("=")[0]
    for value in ("", TOKEN, "x" * 43):
        cookie = {"Cookie": f"{name}={value}"}
        async with aiohttp.ClientSession() as session, session.get(f"{address}/", headers=cookie) as answer:
            assert 403 == answer.status


async def test_the_token_opens_the_page_and_its_screen(address: str) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # a bare IP address is no site to aiohttp's usual jar
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{address}/?token={TOKEN}", allow_redirects=False) as answer:
            assert (302, "/") == (answer.status, answer.headers["Location"])
            assert {"HttpOnly", "Path=/", "SameSite=Strict"} == set(answer.headers["Set-Cookie"].split("; ")[1:])
        async with session.get(f"{address}/") as answer:
            page = await answer.text()
            assert (200, "no-referrer") == (answer.status, answer.headers["Referrer-Policy"])
        socket = address.replace("http", "ws") + "/ws"
        assert f'data-session-websocket-url="{socket}"' in page and TOKEN not in page
        async with session.get(f"{address}/static/js/textual.js") as answer:
            assert 200 == answer.status
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(socket, origin="http://elsewhere.example")
        async with session.ws_connect(f"{socket}?width=100&height=30", origin=address) as screen:
            shown = b""
            async with asyncio.timeout(30):
                while "no engine" not in shown.decode("utf-8", "replace").lower():
                    shown += await screen.receive_bytes()
            assert shown.startswith(b"\x1b[?1049h")
            await screen.send_json(["stdin", "q"])
            async with asyncio.timeout(30):
                while not screen.closed:
                    await screen.receive()


def test_bad_tokens_and_missing_packages_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    short = CliRunner().invoke(group, ["web", "--token", "abc"])
    assert isinstance(short.exception, UsageError) and "at least 16 characters" in str(short.exception)
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    missing = CliRunner().invoke(group, ["web"])
    assert isinstance(missing.exception, MachineError) and "pip install 'kerneltui[web]'" in str(missing.exception)


def test_a_taken_port_and_an_open_address_are_told(address: str) -> None:
    port = address.rpartition(":")[2]
    command = [sys.executable, "-m", "kerneltui", "web", "--host", "0.0.0.0", "--port", port]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (2, "") == (done.returncode, done.stdout)
    assert "nothing is encrypted" in done.stderr and f"cannot listen on 0.0.0.0:{port}" in done.stderr


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.1.2", False), ("host.example", False), ("localhost.example", False)],
)  # fmt: skip
def test_which_addresses_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert loopback == is_loopback(host)


def test_only_our_own_page_may_ask() -> None:
    assert is_ours(None, "127.0.0.1:8000") and is_ours("http://localhost:9000", "localhost:9000")
    assert not is_ours("http://localhost:9001", "localhost:9000")
    assert not is_ours("null", "localhost:9000")
    assert not is_ours(None, 'x"><script>')
    assert is_same("é", "é") and not is_same("e", "é") and not is_same("", "x")
