"""Web server of the playground on localhost.

It listens on 127.0.0.1 only. Pages of other sites cannot use it: the Host header of a request must
be this address, and its Origin header, if present, too. Requests are JSON of bounded size, received
within a bounded time, and every value is validated (:mod:`widemargin.play.picture`). The catalogue
bounds the time of a fit. Nothing is stored.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from widemargin.play.catalogue import MACHINES, machine_named
from widemargin.play.code import python_code
from widemargin.play.picture import EXTENT, GRID, MOST_CLASSES, MOST_POINTS, PIXELS, read_question
from widemargin.play.scheduler import FitScheduler

ADDRESS = "127.0.0.1"
MOST_BYTES = 64 * 1024  # about five times the size of 400 points
MOST_WAITING = 4  # requests that may wait for earlier fits
SECONDS_TO_SEND = 5.0  # for receiving a whole request
FILES = {
    "": ("index.html", "text/html"),
    "style.css": ("style.css", "text/css"),
    "app.js": ("app.js", "text/javascript"),
    "drawing.js": ("drawing.js", "text/javascript"),
    "presets.js": ("presets.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class OwnPageOnly:
    """Middleware that rejects requests with a foreign Host or Origin header."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request if it comes from the playground's own page."""
        if scope["type"] != "http":  # lifespan events of the server
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = None
        if headers.get("host") not in self.hosts:
            refusal = _refusal(421, "this server answers to its own address only (Host)")
        elif origin is not None and origin.removeprefix("http://") not in self.hosts:
            refusal = _refusal(403, "this server answers to its own page only (Origin)")
        await (refusal or self.app)(scope, receive, send_with_headers)


class _TooLargeError(Exception):
    """Raised if a request exceeds MOST_BYTES."""


def make_app(port: int, scheduler: FitScheduler) -> Starlette:
    """Return the ASGI application of the playground."""
    # Limits the threads that work or wait; a page sends one request at a time.
    places = threading.BoundedSemaphore(1 + MOST_WAITING)

    def answering(work: Callable[[Any], dict[str, Any]]) -> Any:
        async def answer(request: Request) -> Response:
            try:
                given = json.loads(await _body(request))
            except TimeoutError:
                return _refusal(408, f"a request must be sent within {SECONDS_TO_SEND:g} seconds")
            except _TooLargeError:
                return _refusal(413, f"a request may have at most {MOST_BYTES} bytes")
            except (ValueError, RecursionError):  # too many digits, nested too deeply, or not JSON
                return _refusal(400, "the request is not JSON")
            if not places.acquire(blocking=False):
                return _refusal(503, "busy: several pictures are being drawn already")
            try:
                return JSONResponse(await run_in_threadpool(work, given))
            except ValueError as error:
                return _refusal(400, str(error))
            finally:
                places.release()

        return answer

    posts: dict[str, Callable[[Any], dict[str, Any]]] = {
        "/api/picture": scheduler.picture,
        "/api/left_out": scheduler.left_out,
        "/api/code": lambda given: {"code": python_code(read_question(given))},
    }
    routes = [
        Route("/api/catalogue", _catalogue),
        *(Route(path, answering(work), methods=["POST"]) for path, work in posts.items()),
        *(Route(f"/{name}", _file(*kept)) for name, kept in FILES.items()),
    ]
    return Starlette(routes=routes, middleware=[Middleware(OwnPageOnly, port=port)])


async def _body(request: Request) -> bytes:
    """Read a request within the limits on its size and time."""
    body = b""
    async with asyncio.timeout(SECONDS_TO_SEND):
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise _TooLargeError
    return body


def _refusal(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)


async def _catalogue(_: Request) -> Response:
    """Return the catalogue of estimators and the limits on requests."""
    limits = {"points": MOST_POINTS, "classes": MOST_CLASSES, "extent": EXTENT}
    sides = {"grid": GRID, "pixels": PIXELS}
    machines = [machine.described() for machine in MACHINES.values()]
    return JSONResponse({"machines": machines, "limits": limits, "sides": sides})


def _file(name: str, media_type: str) -> Any:
    text = resources.files("widemargin.play").joinpath("page", name).read_text(encoding="utf-8")

    async def send(_: Request) -> Response:
        return Response(text, media_type=media_type)

    return send


def listen() -> socket.socket:
    """Return a listening socket at a free port chosen by the system.

    Connections are accepted from now on, and served once the server runs.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((ADDRESS, 0))
    listener.listen()
    return listener


def machine_in(shared: str) -> str | None:
    """Return the estimator name in a shared link, or None if the link is invalid."""
    try:
        kept = json.loads(base64.urlsafe_b64decode(shared + "=" * (-len(shared) % 4)))
        return machine_named(kept["m"]).name
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def serve(
    link: str = "", *, open_browser: bool = True, announce: Callable[[str], None] = print
) -> None:
    """Serve the playground at a free port until Ctrl-C, and open it in a browser.

    Parameters
    ----------
    link : str
        A link copied from a playground, whose points and parameters are shown first.
    open_browser : bool
        Whether to open the page.
    announce : callable
        Called with the address.
    """
    listener = listen()
    port = listener.getsockname()[1]
    _, mark, shared = link.partition("#")
    address = f"http://{ADDRESS}:{port}/{mark}{shared}"
    scheduler = FitScheduler()
    config = uvicorn.Config(make_app(port, scheduler), log_level="warning", access_log=False)
    announce(address)
    first = machine_in(shared)
    threading.Thread(target=scheduler.warm_up, args=(first,), daemon=True).start()
    if open_browser:
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])
