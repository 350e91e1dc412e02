"""web."""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import ipaddress
import os
import re
import secrets
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from kerneltui.errors import MachineError, UsageError
from kerneltui.store import find_session

if TYPE_CHECKING:
    from aiohttp import web as http

MISSING = "`kerneltui web` needs the package textual-serve: pip install 'kerneltui[web]', or pip install 'textual-serve>=1.1'."
TOKEN_CHARACTERS = 16  # fewer could be guessed
SHUTDOWN_S = 1.0  # for open pages, whose screens then end
PR_SET_PDEATHSIG = 1
HOST_HEADER = re.compile(r"[A-Za-z0-9.\-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
REFUSED = "403: this needs the address with the token that `kerneltui web` printed where it was started.\n"
FOREIGN = "403: a page of another site asked for this.\n"
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    # The page of textual-serve has scripts and styles in line; what it would load from elsewhere is not loaded.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'",
}

Handler = Callable[["http.Request"], Awaitable["http.StreamResponse"]]


@click.command()
@click.argument("session", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 is any free one.")
@click.option("--token", envvar="KERNELTUI_WEB_TOKEN", help="What the address must carry; default: a random one.")
def web(session: str | None, host: str, port: int, token: str | None) -> None:
    """The screen in a browser, on SESSION or on the list of sessions, until ctrl+c.

    Whoever has the address with its token can do what you can do on the screen: it listens on this machine alone.
    """
    if token is not None and len(token) < TOKEN_CHARACTERS:
        raise UsageError(f"--token: at least {TOKEN_CHARACTERS} characters; without the option a random one is made.")
    folder = find_session(session) if session else None
    try:
        import textual_serve.server  # noqa: F401  # is it there?
    except ImportError as error:
        raise MachineError(MISSING) from error
    if not is_loopback(host):
        click.echo(
            f"kerneltui: {host} can be reached from other machines, and nothing is encrypted: whoever reads along can steer "
            "your searches. `ssh -L 8000:127.0.0.1:8000` to a server on the loopback address is safer.",
            err=True,
        )
    os.environ.pop("KERNELTUI_WEB_TOKEN", None)  # no program that we start needs it
    asyncio.run(serve(folder, host, port, token or secrets.token_urlsafe(32)))


def end_with_server() -> None:
    """In a screen's process: end when the server does, however that ends; no pipe would tell."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(folder: Path | None, host: str, port: int, token: str) -> None:
    """Listen until the process is interrupted.

    Raises:
        MachineError: the address cannot be listened on.
    """
    from aiohttp import web as http

    # No access log: it would have the token in it.
    runner = http.AppRunner(await make_app(folder, token), access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        site = http.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise MachineError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; --port 0 takes a free port."
            ) from error
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{runner.addresses[0][1]}/?token={token}")
        click.echo("Open this address in a browser; ctrl+c ends the server. Searches go on.", err=True)
        await interrupted()
    finally:
        await runner.cleanup()


async def interrupted() -> None:
    """Until somebody wants an end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()


async def make_app(folder: Path | None, token: str) -> http.Application:
    """textual-serve's application with a guard before every route, its websocket and its files included."""
    from textual_serve.server import Server

    os.environ["PYTHONUTF8"] = "1"  # a browser has every character, whatever the locale here
    words = [sys.executable, "-m", "kerneltui", *(["attach", str(folder.resolve())] if folder else [])]
    server = Server(f"exec {shlex.join(words)}", title="kerneltui")
    server.console.quiet = True  # stdout is data
    app: http.Application = await server._make_app()
    app.middlewares.append(guard(server, token))
    return app


def guard(server: Any, token: str) -> Any:
    """A middleware: the token once in the address, from then on a cookie that no other site's page can send."""
    from aiohttp import web as http

    cookie, ticket = f"kerneltui-{secrets.token_hex(4)}", secrets.token_urlsafe(32)

    @http.middleware
    async def checked(request: http.Request, handler: Handler) -> http.StreamResponse:
        offered = request.query.get("token")
        if offered is not None:
            if not is_same(offered, token):
                return refusal(REFUSED)
            entered = http.Response(status=302, headers={**HEADERS, "Location": request.path})
            entered.set_cookie(cookie, ticket, httponly=True, samesite="Strict", path="/")
            return entered
        if not is_same(request.cookies.get(cookie, ""), ticket):
            return refusal(REFUSED)
        if not is_ours(request.headers.get("Origin"), request.host):
            return refusal(FOREIGN)
        # The page names its websocket in full; behind a forwarded port that is not what we listen on.
        server.public_url = f"http://{request.host}"
        response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return checked


def refusal(words: str) -> http.Response:
    """A 403 that says nothing of what is here."""
    from aiohttp import web as http

    return http.Response(status=403, text=words, headers=HEADERS)


def is_same(offered: str, wanted: str) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), wanted.encode())


def is_ours(origin: str | None, host: str) -> bool:
    """Whether a request comes from our own page, or from no page, by a host that can be written into one."""
    if not HOST_HEADER.fullmatch(host):
        return False
    return origin is None or urlsplit(origin).netloc == host
