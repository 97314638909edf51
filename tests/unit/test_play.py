"""The playground's server, spoken to over a real socket: what it answers and what it refuses."""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading

import numpy as np
import pytest
import uvicorn

from widemargin import SVC, loo
from widemargin.play.catalogue import MACHINES, Slider
from widemargin.play.picture import EXTENT, GRID, MOST_POINTS, PIXELS, draw, fit, read_question
from widemargin.play.server import HEADERS, MOST_BYTES, Painter, listen, make_app

TWO = [
    [-1.0, 0.1, 0],
    [-0.8, -0.4, 0],
    [-0.5, 0.5, 0],
    [0.9, 0.2, 1],
    [0.7, -0.6, 1],
    [0.4, 0.3, 1],
]
THREE = [*TWO, [0.0, 1.5, 2], [0.2, 1.7, 2], [-0.3, 1.6, 2]]


@pytest.fixture(scope="module")
def port():
    listener = listen()
    number = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(make_app(number, Painter()), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield number
    server.should_exit = True
    thread.join(10)


def send(port, method, path, body=None, **headers):
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
    answer, text = send(port, "POST", path, body, **headers)
    return answer.status, json.loads(text)


@pytest.mark.parametrize("path", ["/", "/app.js", "/drawing.js", "/presets.js", "/style.css"])
def test_the_page_is_served_with_its_guards(port, path):
    answer, text = send(port, "GET", path)
    assert answer.status == 200
    assert len(text) > 500
    for name, value in HEADERS.items():
        assert answer.getheader(name) == value


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost", "127.0.0.1:1", ""])
def test_another_host_is_refused(port, host):
    answer, _ = send(port, "GET", "/", Host=host)
    assert answer.status == 421


@pytest.mark.parametrize("origin", ["http://example.org", "null", "https://127.0.0.1"])
def test_a_page_of_another_site_is_refused(port, origin):
    status, answer = asked(port, {"machine": "SVC", "points": TWO}, Origin=origin)
    assert status == 403
    assert "Origin" in answer["error"]


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


@pytest.mark.parametrize("points", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_draws(name, points):
    answer = draw(fit(read_question({"machine": name, "points": points})))
    assert len(answer["strength"]) == len(points)
    assert max(answer["strength"]) == 1.0
    landscape = answer["landscape"]
    if len(points) == len(TWO):
        assert len(base64.b64decode(landscape["values"])) == 4 * GRID**2
    else:
        winner = np.frombuffer(base64.b64decode(landscape["winner"]), dtype="u1")
        assert winner.shape == (PIXELS**2,)
        assert set(winner) <= {0, 1, 2}
    json.dumps(answer, allow_nan=False)


def test_the_picture_is_the_model_s(port):
    params = {"C": 10.0, "gamma": 1.5, "kernel": "rbf", "loss": "hinge"}
    status, answer = asked(port, {"machine": "SVC", "points": THREE, "params": params})
    assert status == 200
    X, y = np.array(THREE)[:, :2], np.array(THREE)[:, 2].astype(int)
    model = SVC(**params).fit(X, y)
    assert answer["leave_one_out"]["error"] == loo.error(model)
    assert answer["certificate"]["primal"] == model.certificate_.primal
    winner = np.frombuffer(base64.b64decode(answer["landscape"]["winner"]), dtype="u1")
    axis = np.linspace(-EXTENT, EXTENT, PIXELS)
    across, down = np.meshgrid(axis, -axis)
    truth = model.predict(np.column_stack([across.ravel(), down.ravel()]))
    assert np.mean(winner == truth) > 0.99  # interpolation may move a boundary by a pixel


def test_left_out_is_answered_apart(port):
    body = {"machine": "LPSVC", "points": TWO}
    _, answer = asked(port, body)
    assert answer["leave_one_out"] is None
    status, left = asked(port, body, "/api/left_out")
    assert status == 200
    assert left["kind"] == "exact"


def test_what_the_points_do_not_allow_is_said(port):
    lopsided = [[0.1 * i, 0.0, 0] for i in range(9)] + [[1.5, 1.0, 1]]
    status, answer = asked(port, {"machine": "NuSVC", "points": lopsided, "params": {"nu": 0.8}})
    assert status == 200
    assert "nu" in answer["problem"]


def test_the_code_makes_the_same_model(port):
    _, answer = asked(port, {"machine": "SVC", "points": TWO}, "/api/code")
    scope = {"print": lambda *_: None}
    exec(answer["code"], scope)
    assert scope["model"].certificate_.converged
    assert "time_limit" not in answer["code"]


def test_sliders_start_inside_their_range():
    for machine in MACHINES.values():
        for control in machine.controls:
            assert control.checked(control.start) == control.start
            if isinstance(control, Slider) and control.log:
                assert control.low > 0


def test_a_gamma_that_the_linear_kernel_does_not_have_is_dropped():
    assert "gamma" not in MACHINES["SVC"].parameters({"kernel": "linear", "gamma": 2.0})


def test_all_machines_are_warmed_up():
    painter = Painter()
    painter.warm_up()
    assert painter.picture({"machine": "SVC", "points": TWO})["milliseconds"] > 0
