"""The playground's server, spoken to over a real socket: what it answers and what it refuses."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import threading

import numpy as np
import pytest
import uvicorn

from widemargin import SVC, loo
from widemargin.play import painter as painting
from widemargin.play import server
from widemargin.play.catalogue import MACHINES, Choice, Slider
from widemargin.play.code import python_code
from widemargin.play.painter import Painter
from widemargin.play.picture import EXTENT, GRID, MOST_POINTS, PIXELS, draw, fit, read_question
from widemargin.play.server import HEADERS, MOST_BYTES, MOST_WAITING, listen, machine_in, make_app

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
    running = uvicorn.Server(uvicorn.Config(make_app(number, Painter()), log_level="warning"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield number
    running.should_exit = True
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


def test_the_catalogue_is_served(port):
    answer, text = send(port, "GET", "/api/catalogue")
    assert answer.status == 200
    assert [machine["name"] for machine in json.loads(text)["machines"]] == list(MACHINES)


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


def test_several_pages_are_answered(port):
    answers = []

    def ask(C):
        given = {"machine": "SVC", "points": TWO, "params": {"C": C}}
        answers.append((C, *asked(port, given)))

    threads = [threading.Thread(target=ask, args=(C,)) for C in (0.1, 1.0, 10.0, 100.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    X, y = np.array(TWO)[:, :2], np.array(TWO)[:, 2].astype(int)
    for C, status, answer in answers:
        assert status == 200
        model = SVC(C=C, gamma=1.5).fit(X, y)
        assert answer["certificate"]["primal"] == model.certificate_.primal


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
    if name == "AdaBoostClassifier":  # coefficients of stumps, not of points
        assert answer["strength"] is None
    else:
        assert len(answer["strength"]) == len(points)
        assert max(answer["strength"]) == 1.0
    assert ("problem" in answer["certificate"]) == bool(MACHINES[name].uncertified)
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


def test_what_is_not_known_is_said():
    for name in ("AdaBoostClassifier", "PerceptronClassifier"):
        answer = draw(fit(read_question({"machine": name, "points": TWO})))
        assert "not known" in answer["leave_one_out"]["problem"]
        assert answer["certificate"] == {"problem": MACHINES[name].uncertified}


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_margins_in_any_norm(norm):
    fitted = fit(
        read_question({"machine": "MaxMarginClassifier", "points": TWO, "params": {"norm": norm}})
    )
    assert fitted.model.norm == float(norm)
    assert max(draw(fitted)["strength"]) == 1.0


def test_whole_numbers_are_whole():
    machine = MACHINES["AdaBoostClassifier"]
    assert machine.parameters({"n_rounds": 7.0})["n_rounds"] == 7
    with pytest.raises(ValueError, match="whole number"):
        machine.parameters({"n_rounds": 7.5})


def test_many_points_are_left_out_in_folds():
    rng = np.random.default_rng(0)
    points = [[*rng.uniform(-1, 1, 2).round(3).tolist(), i % 2] for i in range(140)]
    body = {"machine": "LPSVC", "points": points, "params": {"lam": 1.0}}
    assert Painter().left_out(body)["method"] == "10-fold"
    assert Painter().left_out({**body, "points": points[:40]})["method"] == "exact"


def test_what_the_points_do_not_allow_is_said(port):
    lopsided = [[0.1 * i, 0.0, 0] for i in range(9)] + [[1.5, 1.0, 1]]
    status, answer = asked(port, {"machine": "NuSVC", "points": lopsided, "params": {"nu": 0.8}})
    assert status == 200
    assert "nu" in answer["problem"]


def every_choice():
    for name, machine in MACHINES.items():
        choices = [c for c in machine.controls if isinstance(c, Choice)]
        yield name, {}
        for choice in choices:
            for word in choice.options:
                yield name, {choice.name: word}


@pytest.mark.parametrize(("name", "params"), list(every_choice()))
def test_the_code_makes_the_same_model(name, params, capsys):
    given = {"machine": name, "points": TWO, "params": params}
    code = python_code(read_question(given))
    scope = {}
    exec(code, scope)
    assert "time_limit" not in code
    printed = capsys.readouterr().out
    assert ("accuracy" if MACHINES[name].uncertified else "leave-one-out") in printed
    shown = fit(read_question(given)).model.decision_function(scope["X"])
    np.testing.assert_allclose(scope["model"].decision_function(scope["X"]), shown, rtol=1e-9)


def test_the_code_is_served(port):
    status, answer = asked(port, {"machine": "SVC", "points": TWO}, "/api/code")
    assert status == 200
    assert "SVC(" in answer["code"]


def test_sliders_start_inside_their_range():
    for machine in MACHINES.values():
        for control in machine.controls:
            meant = getattr(control, "meaning", {}).get(control.start, control.start)
            assert control.checked(control.start) == meant
            if isinstance(control, Slider) and control.log:
                assert control.low > 0


def test_a_gamma_that_the_linear_kernel_does_not_have_is_dropped():
    assert "gamma" not in MACHINES["SVC"].parameters({"kernel": "linear", "gamma": 2.0})


def test_warm_up_draws_every_machine_the_first_one_first(monkeypatch):
    seen = []
    monkeypatch.setattr(painting, "_paint_unseen", lambda given: seen.append(given["machine"]))
    Painter().warm_up("LOOSVC")
    assert seen[0] == "LOOSVC"
    assert set(seen) == set(MACHINES)


def test_what_is_warmed_up_can_be_drawn():
    for name in ("SVC", "AdaBoostClassifier"):
        for given in painting._small_questions(name):
            painting._paint_unseen(given)


def test_a_picture_goes_before_the_warm_up(monkeypatch):
    painter, order, asker = Painter(), [], []

    def ask():
        painter.picture({"machine": "SVC", "points": TWO})
        order.append("picture")

    def paint_unseen(given):
        order.append("warm-up")
        if not asker:  # somebody asks while the first machine is warmed up
            asker.append(threading.Thread(target=ask))
            asker[0].start()
            while painter._n_asked == 0:
                pass

    monkeypatch.setattr(painting, "_paint_unseen", paint_unseen)
    monkeypatch.setattr(painting, "MACHINES", {"SVC": MACHINES["SVC"], "LPSVC": MACHINES["LPSVC"]})
    painter.warm_up()
    asker[0].join()
    assert order[:2] == ["warm-up", "picture"]
    assert order.count("warm-up") > 2


def test_pictures_do_not_wait_for_leave_one_out(monkeypatch):
    painter, go_on, begun = Painter(), threading.Event(), threading.Event()

    def slowly(fitted):
        begun.set()
        assert go_on.wait(60)
        return {}

    monkeypatch.setattr(painting, "leave_one_out", slowly)
    body = {"machine": "LPSVC", "points": TWO}
    thread = threading.Thread(target=painter.left_out, args=(body,))
    thread.start()
    assert begun.wait(60)
    assert painter.picture({"machine": "SVC", "points": TWO})["milliseconds"] > 0
    go_on.set()
    thread.join()


def test_the_machine_of_a_link():
    kept = json.dumps({"p": [], "m": "LPSVC", "s": {}}).encode()
    assert machine_in(base64.urlsafe_b64encode(kept).decode().rstrip("=")) == "LPSVC"
    for wrong in ("", "###", "e30", "\u00e9", base64.b64encode(b'{"m": "os"}').decode()):
        assert machine_in(wrong) is None
