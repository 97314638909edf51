"""What the playground refuses: too much, too slow, too many, nonsense, and other people's pages."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading

import numpy as np
import pytest

from tests.helpers.playing import TWO, asked, send, served
from widemargin import SVC
from widemargin.play import catalogue, server
from widemargin.play.catalogue import MACHINES, Slider
from widemargin.play.picture import MOST_POINTS, draw, fit, read_question
from widemargin.play.scheduler import FitScheduler
from widemargin.play.server import MOST_BYTES, MOST_WAITING, listen


@pytest.fixture(scope="module")
def port():
    points = np.array(TWO)
    SVC(gamma=1.5).fit(points[:, :2], points[:, 2])  # compiling would take the time of a fit
    with served() as number:
        yield number


# ---------------------------------------------------------------- other people's pages


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost", "127.0.0.1:1", ""])
def test_another_host_is_refused(port, host):
    answer, _ = send(port, "GET", "/", Host=host)
    assert answer.status == 421


@pytest.mark.parametrize("origin", ["http://example.org", "null", "https://127.0.0.1"])
def test_a_page_of_another_site_is_refused(port, origin):
    status, answer = asked(port, {"machine": "SVC", "points": TWO}, Origin=origin)
    assert status == 403
    assert "Origin" in answer["error"]


def test_a_form_of_another_site_is_refused(port):
    """A form needs nobody's leave to be sent, but says where it comes from."""
    form = {"Content-Type": "text/plain", "Origin": "https://example.org"}
    for path in ("/api/picture", "/api/left_out", "/api/code"):
        status, _ = asked(port, {"machine": "SVC", "points": TWO}, path, **form)
        assert status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 200),
        ("POST", "/", 405),
        ("GET", "/api/picture", 405),
        ("PUT", "/api/picture", 405),
        ("DELETE", "/api/picture", 405),
        ("OPTIONS", "/api/picture", 405),
        ("GET", "/../pyproject.toml", 404),
        ("GET", "/api/nothing", 404),
    ],
)
def test_other_methods_and_places(port, method, path, status):
    answer, _ = send(port, method, path)
    assert answer.status == status
    assert answer.getheader("Access-Control-Allow-Origin") is None


def slow_request(port):
    """Return a connection on which a request has been begun and is not ended."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"POST /api/picture HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 99\r\n\r\n"
    connection.sendall(head.encode() + b"{")
    return connection


def test_who_sends_nothing_holds_no_place(port):
    waiting = [slow_request(port) for _ in range(MOST_WAITING + 3)]
    status, _ = asked(port, {"machine": "SVC", "points": TWO})
    assert status == 200
    for connection in waiting:
        connection.close()


def test_who_is_slow_is_told_so(port, monkeypatch):
    monkeypatch.setattr(server, "SECONDS_TO_SEND", 0.05)
    with slow_request(port) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_its_own_page_is_answered(port, name):
    status, answer = asked(
        port,
        {"machine": "SVC", "points": TWO},
        Host=f"{name}:{port}",
        Origin=f"http://{name}:{port}",
    )
    assert status == 200
    assert answer["certificate"]["converged"]


def test_a_large_request_is_refused_before_it_is_read_to_its_end(port):
    status, answer = asked(port, b" " * (MOST_BYTES + 1))
    assert status == 413
    assert str(MOST_BYTES) in answer["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 10_000])
def test_what_is_not_json_is_refused(port, body):
    status, answer = asked(port, body)
    assert status == 400
    assert "JSON" in answer["error"]


BAD = [
    ([], "the request"),
    ({"machine": "SVC"}, "points"),
    ({"machine": "SVC", "points": [[0, 0, 0]]}, "points"),
    ({"machine": "SVC", "points": [[0, 0, 0]] * (MOST_POINTS + 1)}, "points"),
    ({"machine": "SVC", "points": [[0, 0, 0], [1, 1, 0]]}, "two classes"),
    ({"machine": "SVC", "points": [[0, 0, 0], [9, 1, 1]]}, r"points\[1\]"),
    ({"machine": "SVC", "points": [[0, 0, 0], [1, 1, 7]]}, r"points\[1\]"),
    ({"machine": "SVC", "points": [[0, 0, 0], [1, 1, True]]}, r"points\[1\]"),
    ({"machine": "SVC", "points": [[0, 0, 0], ["1", 1, 1]]}, r"points\[1\]"),
    ({"machine": "os.system", "points": TWO}, "machine"),
    ({"machine": "SVC", "points": TWO, "params": {"C": 1e99}}, "C"),
    ({"machine": "SVC", "points": TWO, "params": {"C": "1"}}, "C"),
    ({"machine": "SVC", "points": TWO, "params": {"kernel": "precomputed"}}, "kernel"),
    ({"machine": "SVC", "points": TWO, "params": {"max_iter": 10**9}}, "max_iter"),
    ({"machine": "SVC", "points": TWO, "params": [1]}, "params"),
]


@pytest.mark.parametrize(("body", "word"), BAD)
def test_every_mistake_is_named(port, body, word):
    status, answer = asked(port, body)
    assert status == 400
    assert re.search(word, answer["error"])


def test_numbers_that_json_does_not_have_are_refused(port):
    body = b'{"machine": "SVC", "points": [[NaN, 0, 0], [1, 1, 1]]}'
    status, answer = asked(port, body)
    assert status == 400
    assert "points[0]" in answer["error"]


# ---------------------------------------------------------------- names that point here


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/catalogue", "/api/picture"])
def test_a_name_that_is_pointed_here_is_refused(port, path):
    """DNS rebinding: the page and its requests are the attacker's, and so is the Host."""
    method = "POST" if path == "/api/picture" else "GET"
    body = {"machine": "SVC", "points": TWO} if method == "POST" else None
    name = f"evil.example:{port}"
    answer, text = send(port, method, path, body, Host=name, Origin=f"http://{name}")
    assert answer.status == 421
    assert "Host" in json.loads(text)["error"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:{port}.evil.example", "evil.example@127.0.0.1:{port}", "127.0.0.1:{port}, x",
        "127.0.0.1.:{port}", "0.0.0.0:{port}", "[::1]:{port}", "127.1:{port}",
    ],
)  # fmt: skip
def test_what_looks_like_this_host_is_another(port, host):
    assert send(port, "GET", "/", Host=host.format(port=port))[0].status == 421


@pytest.mark.parametrize("hosts", [[], ["127.0.0.1:{port}", "evil.example"]])
def test_a_request_has_one_host(port, hosts):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", "/", skip_host=True)
    for host in hosts:
        connection.putheader("Host", host.format(port=port))
    connection.endheaders()
    assert connection.getresponse().status in (400, 421)
    connection.close()


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:{port}.evil.example", "https://localhost:{port}", "http://", ""]
)
def test_what_looks_like_this_page_is_another(port, origin):
    body = {"machine": "SVC", "points": TWO}
    assert asked(port, body, Origin=origin.format(port=port))[0] == 403


def test_it_is_there_for_this_machine_only():
    with listen() as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


# ---------------------------------------------------------------- too much


def test_a_request_that_does_not_say_how_long_it_is_is_cut(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    parts = (b" " * 1024 for _ in range(MOST_BYTES // 1024 + 1))
    connection.request("POST", "/api/picture", parts, encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})  # fmt: skip
    assert connection.getresponse().status == 413
    connection.close()


def test_as_much_as_is_allowed_is_answered(port):
    rng = np.random.default_rng(0)
    points = [[*rng.uniform(-1, 1, 2).tolist(), i % 2] for i in range(MOST_POINTS)]
    body = json.dumps({"machine": "SVC", "points": points}).encode()
    assert len(body) < MOST_BYTES
    assert asked(port, body + b" " * (MOST_BYTES - len(body)))[0] == 200


@pytest.mark.parametrize(
    "text",
    [
        b"9" * 5000,  # more digits than Python turns into a number
        b'{"machine": "SVC", "points": ' + b"9" * 5000 + b"}",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"[" * 30_000 + b"]" * 30_000,
    ],
)
def test_json_that_python_cannot_read_is_refused(port, text):
    status, answer = asked(port, text)
    assert status == 400
    assert answer["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1e300"])
@pytest.mark.parametrize("place", ["x", "param"])
def test_numbers_that_are_none_are_refused(port, number, place):
    x, C = (number, "1") if place == "x" else ("0", number)
    body = f'{{"machine": "SVC", "points": [[{x}, 0, 0], [1, 1, 1]], "params": {{"C": {C}}}}}'
    status, answer = asked(port, body.encode())
    assert status == 400
    assert ("points[0]" if place == "x" else "params['C']") in answer["error"]


def test_every_slider_has_an_end():
    for machine in MACHINES.values():
        for slider in [c for c in machine.controls if isinstance(c, Slider)]:
            for value in (np.inf, -np.inf, np.nan, 1e300, 10**400, -1e300, None, "1", [1], True):
                with pytest.raises(ValueError, match=re.escape(f"params[{slider.name!r}]")):
                    machine.parameters({slider.name: value})


# ---------------------------------------------------------------- too many, too long


class Patient(FitScheduler):
    """A scheduler that waits to be told before it draws."""

    def __init__(self):
        super().__init__()
        self.go_on, self.inside = threading.Event(), threading.Semaphore(0)

    def picture(self, given):
        self.inside.release()
        assert self.go_on.wait(60)
        return super().picture(given)


def test_more_requests_than_there_are_places_are_told_to_come_again():
    scheduler, statuses = Patient(), []
    with served(scheduler) as port:

        def ask():
            statuses.append(asked(port, {"machine": "SVC", "points": TWO})[0])

        threads = [threading.Thread(target=ask) for _ in range(1 + MOST_WAITING)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert scheduler.inside.acquire(timeout=60)
        status, answer = asked(port, {"machine": "SVC", "points": TWO})
        assert status == 503
        assert "busy" in answer["error"]
        assert send(port, "GET", "/")[0].status == 200  # the page itself is always there
        scheduler.go_on.set()
        for thread in threads:
            thread.join()
        assert statuses == [200] * (1 + MOST_WAITING)
        assert asked(port, {"machine": "SVC", "points": TWO})[0] == 200  # places are given back


def test_a_place_is_given_back_after_a_mistake(port):
    for _ in range(2 * (1 + MOST_WAITING)):
        assert asked(port, {"machine": "SVC", "points": []})[0] == 400
    assert asked(port, {"machine": "SVC", "points": TWO})[0] == 200


@pytest.mark.parametrize("name", MACHINES)
def test_a_fit_ends_when_its_time_is_over(name, monkeypatch):
    """However little time there is, there is a picture: of the best that was found."""
    monkeypatch.setattr(catalogue, "MOST_SECONDS", 1e-9)
    rng = np.random.default_rng(0)
    points = [[*rng.uniform(-2, 2, 2).round(3).tolist(), int(rng.integers(2))] for _ in range(200)]
    question = read_question({"machine": name, "points": points})
    assert question.estimator().time_limit == 1e-9
    fitted = fit(question)
    answer = draw(fitted)
    json.dumps(answer, allow_nan=False)
    certified = not MACHINES[name].uncertified
    if certified and not answer["certificate"].get("converged"):
        assert fitted.notes  # and the page says so
    if name == "SVC":
        assert not answer["certificate"]["converged"]
