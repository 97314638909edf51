"""The playground's server, spoken to over a real socket: what it answers.

What it refuses is in test_play_limits.
"""

from __future__ import annotations

import base64
import json
import threading

import numpy as np
import pytest

from tests.helpers.playing import TWO, asked, send, served
from widemargin import SVC, loo
from widemargin.play.catalogue import MACHINES, Choice, Slider
from widemargin.play.code import python_code
from widemargin.play.picture import EXTENT, GRID, PIXELS, draw, fit, read_question
from widemargin.play.scheduler import FitScheduler
from widemargin.play.server import HEADERS, machine_in

THREE = [*TWO, [0.0, 1.5, 2], [0.2, 1.7, 2], [-0.3, 1.6, 2]]


@pytest.fixture(scope="module")
def port():
    with served() as number:
        yield number


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
    assert FitScheduler().left_out(body)["method"] == "10-fold"
    assert FitScheduler().left_out({**body, "points": points[:40]})["method"] == "exact"


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


def test_the_machine_of_a_link():
    kept = json.dumps({"p": [], "m": "LPSVC", "s": {}}).encode()
    assert machine_in(base64.urlsafe_b64encode(kept).decode().rstrip("=")) == "LPSVC"
    for wrong in ("", "###", "e30", "\u00e9", base64.b64encode(b'{"m": "os"}').decode()):
        assert machine_in(wrong) is None
