"""The server of the playground: this machine only, small requests, one fit at a time.

It listens on 127.0.0.1. A page of another site cannot use it: requests must name this address in
Host, and those that a page sends must have come from it (Origin). Requests are JSON of a bounded
size whose every value is checked (:mod:`widemargin.play.picture`), and no fit runs longer than the
catalogue allows. Nothing is stored.
"""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from widemargin.play.catalogue import MACHINES
from widemargin.play.code import python_code
from widemargin.play.picture import (
    EXTENT,
    GRID,
    MOST_CLASSES,
    MOST_POINTS,
    PIXELS,
    Fitted,
    NoMachineError,
    draw,
    fit,
    leave_one_out,
    read_question,
)

ADDRESS = "127.0.0.1"
MOST_BYTES = 64 * 1024  # 400 points take a fifth of that
MOST_WAITING = 4  # requests that may wait for the fit before them
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
    """Refuse requests that were meant for another host or come from another site's page."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it is from the page itself."""
        if scope["type"] != "http":  # the server's own start and stop
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
    """A request beyond the limit."""


class Painter:
    """Fits one machine at a time, and remembers the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[str, Fitted] | None = None

    def picture(self, given: Any) -> dict[str, Any]:
        """Return the picture of a machine, or why there is none."""
        started = time.perf_counter()
        with self._lock:
            try:
                answer = draw(self._fitted(given))
            except NoMachineError as error:
                return {"problem": str(error)}
        return {**answer, "milliseconds": round(1000 * (time.perf_counter() - started), 1)}

    def left_out(self, given: Any) -> dict[str, Any]:
        """Return its leave-one-out, which may take longer."""
        with self._lock:
            try:
                return leave_one_out(self._fitted(given))
            except NoMachineError as error:
                return {"problem": str(error)}

    def _fitted(self, given: Any) -> Fitted:
        question = read_question(given)
        key = json.dumps(given, sort_keys=True)
        if self._last is None or self._last[0] != key:
            self._last = key, fit(question)
        return self._last[1]

    def warm_up(self) -> None:
        """Compile what the machines need, before the first picture asks for it."""
        points = [[0.1 * i * (-1) ** i, 0.05 * i, i % 3] for i in range(12)]
        for name, n_classes in itertools.product(MACHINES, (2, 3)):
            given = {"machine": name, "points": [p for p in points if p[2] < n_classes]}
            self.picture(given)
            self.left_out(given)


def make_app(port: int, painter: Painter) -> Starlette:
    """Return the application that answers at a port of this machine."""
    # Threads that may work or wait: a page sends one request at a time, several pages a few.
    places = threading.BoundedSemaphore(1 + MOST_WAITING)

    def answering(work: Callable[[Any], dict[str, Any]]) -> Any:
        async def answer(request: Request) -> Response:
            if not places.acquire(blocking=False):
                return _refusal(503, "busy: several pictures are being drawn already")
            try:
                given = json.loads(await _body(request))
                return JSONResponse(await run_in_threadpool(work, given))
            except _TooLargeError:
                return _refusal(413, f"a request may have at most {MOST_BYTES} bytes")
            except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
                return _refusal(400, "the request is not JSON")
            except ValueError as error:
                return _refusal(400, str(error))
            finally:
                places.release()

        return answer

    posts: dict[str, Callable[[Any], dict[str, Any]]] = {
        "/api/picture": painter.picture,
        "/api/left_out": painter.left_out,
        "/api/code": lambda given: {"code": python_code(read_question(given))},
    }
    routes = [
        Route("/api/catalogue", _catalogue),
        *(Route(path, answering(work), methods=["POST"]) for path, work in posts.items()),
        *(Route(f"/{name}", _file(*kept)) for name, kept in FILES.items()),
    ]
    return Starlette(routes=routes, middleware=[Middleware(OwnPageOnly, port=port)])


async def _body(request: Request) -> bytes:
    """Read a request, never more of it than the limit."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise _TooLargeError
    return body


def _refusal(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)


async def _catalogue(_: Request) -> Response:
    """Tell the page what there is and how far it may go."""
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
    """Return a socket at a port of the system's choice.

    It takes connections from now on; they are answered once the server runs.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((ADDRESS, 0))
    listener.listen()
    return listener


def serve(
    link: str = "", *, open_browser: bool = True, announce: Callable[[str], None] = print
) -> None:
    """Serve the page until Ctrl-C, at a free port that is announced and opened in a browser.

    Parameters
    ----------
    link : str
        A link that was copied from a playground; what it shows is shown.
    open_browser : bool
        Whether to open the page.
    announce : callable
        Told the address.
    """
    import uvicorn

    listener = listen()
    port = listener.getsockname()[1]
    _, mark, shared = link.partition("#")
    address = f"http://{ADDRESS}:{port}/{mark}{shared}"
    painter = Painter()
    config = uvicorn.Config(make_app(port, painter), log_level="warning", access_log=False)
    announce(address)
    threading.Thread(target=painter.warm_up, daemon=True).start()
    if open_browser:
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])
