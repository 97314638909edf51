"""The playground's server on a real socket, and how to speak to it."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager

import uvicorn

from widemargin.play.scheduler import FitScheduler
from widemargin.play.server import listen, make_app

TWO = [
    [-1.0, 0.1, 0],
    [-0.8, -0.4, 0],
    [-0.5, 0.5, 0],
    [0.9, 0.2, 1],
    [0.7, -0.6, 1],
    [0.4, 0.3, 1],
]


@contextmanager
def served(scheduler=None):
    """Serve the playground; the value is its port."""
    listener = listen()
    number = listener.getsockname()[1]
    app = make_app(number, scheduler or FitScheduler())
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield number
    finally:
        running.should_exit = True
        thread.join(10)


def send(port, method, path, body=None, **headers):
    """Return the answer to a request and its text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.putrequest(method, path, skip_host=True)
    content = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        connection.putheader(name, value)
    if content is not None:
        connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text


def asked(port, body, path="/api/picture", **headers):
    """Return the status and the JSON of an answer."""
    answer, text = send(port, "POST", path, body, **headers)
    return answer.status, json.loads(text)
