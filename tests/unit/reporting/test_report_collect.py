"""What a report says: its dictionary, of data and of fitted models of every kind."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin as wm
from widemargin import loo, report
from widemargin.reporting.plain import as_code, jsonable, shown
from widemargin.reporting.statistics import effective_rows, median_error, normal, plane, wilson
from widemargin.reporting.strengths import strengths

KEYS = {
    "format", "task", "data", "model", "leave_one_out", "tested", "certificate", "machines",
    "margins", "calibration", "strengths", "suspects", "projection", "landscape", "relevance",
    "notes", "reproduction", "code", "comparison", "verdict",
}  # fmt: skip


def checked(found):
    """A report that JSON can hold as it is."""
    assert set(found) == KEYS
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert all(isinstance(sentence, str) and sentence for sentence in found["verdict"])
    return found


def moons(n=60):
    return make_moons(n, noise=0.25, random_state=0)


def three(n=60):
    rng = np.random.default_rng(1)
    y = np.arange(n) % 3
    return np.array([[0, 0], [2, 0], [0, 2]])[y] + rng.normal(size=(n, 2)) * 0.8, y


def line(n=60):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    return X, 3 * X[:, 0] + rng.normal(size=n)


# -- fitted models -------------------------------------------------------------------------------

CLASSIFIERS = {
    "SVC": wm.SVC(C=10),
    "SVC, linear": wm.SVC(kernel="linear"),
    "SVC, squared hinge": wm.SVC(loss="squared_hinge"),
    "NuSVC": wm.NuSVC(nu=0.3),
    "LinearSVC": wm.LinearSVC(),
    "ReducedHullSVC": wm.ReducedHullSVC(),
    "LOOSVC": wm.LOOSVC(gamma=1.0),
    "AdaptiveMarginSVC": wm.AdaptiveMarginSVC(),
    "LPSVC": wm.LPSVC(),
    "NuLPSVC": wm.NuLPSVC(),
    "OrdinalSVC": wm.OrdinalSVC(),
    "MeanFieldGPClassifier": wm.MeanFieldGPClassifier(),
    "MaxMarginClassifier": wm.MaxMarginClassifier(C=1.0),
}
REGRESSORS = {"SVR": wm.SVR(), "NuSVR": wm.NuSVR(), "TubeSVR": wm.TubeSVR()}


@pytest.mark.parametrize("data", [moons, three], ids=["two", "three"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_has_a_report(name, data):
    X, y = data()
    model = CLASSIFIERS[name].fit(X, y)
    found = checked(report(model))
    result = loo.result(model)
    left = found["leave_one_out"]
    assert left["error"] == result.error
    assert left["wrong"] == np.count_nonzero(result.errors)
    assert left["low"] <= left["error"] <= left["high"]
    assert (left["method"], left["kind"]) == (result.method, result.kind)
    assert found["margins"]["values"] == sorted(found["margins"]["values"])
    assert [s["row"] for s in found["suspects"]] == [
        s.row + 1 for s in wm.suspects(model, 12) if result.errors[s.row]
    ]
    assert found["machines"] == []
    assert found["comparison"] == ""
    assert found["task"] == ("ordered" if name == "OrdinalSVC" else "classification")
    if found["strengths"] is not None:
        assert found["strengths"]["shares"] == (data is three and name != "OrdinalSVC")


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_regressor_has_a_report(name):
    X, y = line()
    model = REGRESSORS[name].fit(X, y)
    found = checked(report(model))
    values = loo.decision_values(model)
    left = found["leave_one_out"]
    assert left["error"] == pytest.approx(np.mean(np.abs(y - values)))
    assert left["explained"] == pytest.approx(1 - np.mean((y - values) ** 2) / np.var(y))
    assert left["usual"] == pytest.approx(np.mean(np.abs(y - np.median(y))))
    assert left["low"] < left["error"] < left["high"]
    worst = int(np.argmax(np.abs(y - values)))
    assert found["suspects"][0]["row"] == worst + 1
    assert found["suspects"][0]["margin"] == pytest.approx(-abs(y - values)[worst])
    assert found["calibration"] is None


@pytest.mark.parametrize("name", ["SVC", "MeanFieldGPClassifier"])
def test_calibration_is_that_of_left_out_rows(name):
    X, y = moons()
    model = CLASSIFIERS[name].fit(X, y)
    found = report(model)["calibration"]
    assert found["class"] == "1"
    assert sum(b["rows"] for b in found["bins"]) == 60
    assert sum(b["observed"] * b["rows"] for b in found["bins"]) == pytest.approx(30)
    assert all(b["low"] <= b["observed"] <= b["high"] for b in found["bins"])
    if name == "MeanFieldGPClassifier":
        p = model.loo_proba_[np.arange(60), y]
        assert found["log_loss"] == pytest.approx(-np.mean(np.log(p)))
        assert found["fitted"] == "their one scale"


def test_rows_without_weight_are_not_shown():
    X, y = moons()
    weight = np.ones(60)
    weight[[4, 9]] = 0.0
    weight[20:30] = 3.0
    model = wm.SVC(C=10).fit(X, y, sample_weight=weight)
    found = checked(report(model))
    seen = weight > 0
    errors = loo.result(model).errors
    assert found["data"]["rows"] == 58
    assert found["leave_one_out"]["wrong"] == np.count_nonzero(errors[seen])
    assert found["leave_one_out"]["error"] == pytest.approx(np.average(errors, weights=weight))
    assert found["leave_one_out"]["low"] <= found["leave_one_out"]["error"]
    assert "counted by weight" in found["verdict"][0]
    assert "2 rows have no weight" in found["notes"][0]
    assert {5, 10}.isdisjoint(found["projection"]["row"])
    assert len(found["strengths"]["values"]) == len(found["margins"]["values"]) == 58
    assert sum(b["rows"] for b in found["calibration"]["bins"]) == 58


def test_pipelines_name_the_columns_that_they_make():
    X, y = moons()
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = make_pipeline(StandardScaler(), wm.SVC(C=10)).fit(frame, y)
    found = checked(report(model))
    assert found["data"]["columns"] == ["east", "north"]
    assert found["projection"]["axes"] == ["east", "north"]
    assert found["projection"]["x"] == pytest.approx(StandardScaler().fit_transform(X)[:, 0])


def test_the_best_of_a_search_has_a_report():
    X, y = moons()
    search = wm.LOOSearch(wm.SVC(), {"C": [10.0, 100.0]}).fit(X, y)
    assert report(search)["model"]["parameters"] == search.best_params_


def test_sparse_rows_and_kernel_matrices():
    X, y = moons()
    dense, sparse = report(wm.SVC().fit(X, y)), report(wm.SVC().fit(sp.csr_array(X), y))
    assert sparse["projection"]["x"] == pytest.approx(dense["projection"]["x"])
    model = wm.SVC(kernel="precomputed").fit(X @ X.T, y)
    found = checked(report(model))
    assert found["projection"] is None
    assert "no inputs to show" in found["notes"][0]


def test_a_fit_that_stopped_early_says_so():
    X, y = moons()
    with pytest.warns(ConvergenceWarning, match="SVC"):
        model = wm.SVC(C=1e4, max_iter=3).fit(X, y)
    found = checked(report(model))
    assert not found["certificate"]["converged"]
    assert "stopped early" in " ".join(found["verdict"])


def test_models_that_cannot_be_described():
    X, y = moons()
    with pytest.raises(NotFittedError):
        report(wm.SVC())
    with pytest.raises(ValueError, match="report needs the training rows in memory"):
        report(wm.LinearSVC().fit(wm.sources.from_arrays(X, y)))
    with pytest.raises(ValueError, match="report needs the training data, which compact"):
        report(wm.SVC().fit(X, y).compact())
    with pytest.raises(TypeError, match="PerceptronClassifier keeps no training record"):
        report(wm.PerceptronClassifier().fit(X, X[:, 0] > 0.5))
    with pytest.raises(ValueError, match="ard must be left out for a fitted model"):
        report(wm.SVC().fit(X, y), ard=True)
    with pytest.raises(ValueError, match="est_or_data must be a fitted machine"):
        report([1, 2, 3])
    with pytest.raises(ValueError, match="task must be one of auto"):
        report((X, y), task="guess")


# -- strengths -----------------------------------------------------------------------------------


def test_strengths_of_two_classes_are_the_coefficients():
    X, y = moons()
    model = wm.SVC(C=10).fit(X, y)
    size = strengths(model, 60)
    assert np.flatnonzero(size > 0).tolist() == sorted(model.support_)
    assert size[model.support_] == pytest.approx(np.abs(model.dual_coef_[0]))
    assert strengths(model, 59) is None


def test_no_pair_hides_another():
    """A pair of classes that are hard to tell apart has the larger coefficients."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(20, 2)) + np.array([9, 0])])
    y = np.repeat([0, 1, 2], 20)
    model = wm.SVC(C=100, kernel="linear").fit(X, y)
    size = strengths(model, 60)
    assert size.max() == 1.0
    assert size[y == 2].max() == 1.0
    alone = wm.SVC(C=100, kernel="linear").fit(X[y != 1], y[y != 1])
    support = np.flatnonzero(y != 1)[alone.support_]
    share = np.abs(alone.dual_coef_[0]) / np.abs(alone.dual_coef_).max()
    assert np.all(size[support] >= share - 1e-4)


def test_equal_rows_share_a_strength():
    X, y = moons(30)
    once = strengths(wm.SVC(C=2).fit(X, y), 30)
    twice = strengths(wm.SVC(C=1).fit(np.tile(X, (2, 1)), np.tile(y, 2)), 60)
    assert twice == pytest.approx(np.tile(once / 2, 2), abs=1e-3)


# -- studies -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_iris():
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X[::3], columns=["sl", "sw", "pl", "pw"])
    frame["kind"] = np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    return checked(report(frame, target="kind", ard=True))


def test_a_study_has_a_report(of_iris):
    assert [m["chosen"] for m in of_iris["machines"]] == [True, False, False, False, False]
    assert of_iris["machines"][0]["error"] == of_iris["leave_one_out"]["error"]
    assert of_iris["data"]["classes"][0] == {"label": "setosa", "rows": 17}
    assert of_iris["leave_one_out"]["usual"] == pytest.approx(1 - 17 / 50)
    assert "optimistic" in of_iris["comparison"]
    assert of_iris["reproduction"]["seed"] is not None
    assert of_iris["model"]["standardised"]


def test_relevance_is_told_whichever_machine_is_chosen(of_iris):
    found = of_iris["relevance"]
    assert sum(entry["share"] for entry in found["inputs"]) == pytest.approx(1)
    assert {entry["input"] for entry in found["inputs"]} == {"sl", "sw", "pl", "pw"}
    assert found["inputs"][0]["input"] in ("pl", "pw")
    shares = [entry["share"] for entry in found["inputs"]]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_code_makes_the_model_that_is_reported(task):
    X, y = three(45) if task == "classification" else line(45)
    found = checked(report((X * [1, 20], y), task=task))
    space = {"X": X * [1, 20], "y": y}
    exec(found["code"], space)
    predicted = space["model"].predict(X * [1, 20])
    if task == "classification":
        assert loo.error(space["model"]) == found["leave_one_out"]["error"]
    else:
        machine = space["model"][-1].regressor_
        error = loo.error(machine) * np.std(y)
        assert error == pytest.approx(found["leave_one_out"]["error"])
        assert np.mean(np.abs(predicted - y)) < found["leave_one_out"]["error"]


def test_the_code_of_a_fitted_model_runs():
    X, y = moons()
    model = wm.SVC(C=np.float64(5.0), gamma=np.array([1.0, 20.0]), class_weight={0: 1.0, 1: 2.0})
    space = {"X": X, "y": y}
    exec(report(model.fit(X, y))["code"], space)
    assert np.array_equal(space["model"].decision_function(X), model.decision_function(X))


def test_the_best_machine_is_tested_on_the_other_rows(monkeypatch):
    from widemargin.reporting import study

    monkeypatch.setattr(study, "MOST_ROWS", 50)
    X, y = line(200)
    found = checked(report((X, 1000 * y)))
    tested = found["tested"]
    assert tested["rows"] == 150
    assert tested["low"] < tested["error"] < tested["high"]
    assert 0.3 < tested["error"] / found["leave_one_out"]["error"] < 3
    assert "150 rows that were not trained on" in " ".join(found["verdict"])


def test_nothing_learnt_is_said():
    found = checked(report(([[0.0], [1.0]], ["u", "v"])))
    assert found["leave_one_out"]["error"] == 1.0
    assert "nothing useful was learnt" in " ".join(found["verdict"])
    assert "nothing useful" not in " ".join(report(wm.SVC().fit(*moons()))["verdict"])


# -- small things --------------------------------------------------------------------------------


def test_wilson_is_the_score_interval():
    # Wilson (1927): the rates p with |p - wrong / n| = z sqrt(p (1 - p) / n).
    for wrong, n in ((0, 10), (3, 40), (40, 40), (7, 1000)):
        low, high = wilson(wrong, n)
        for end in {low, high} - {0.0, 1.0}:
            distance = abs(end - wrong / n) / np.sqrt(end * (1 - end) / n)
            assert distance == pytest.approx(1.96, abs=1e-3)
    assert wilson(0, 0) == (0.0, 1.0)


def test_weighted_statistics():
    assert effective_rows(np.ones(7)) == 7
    assert effective_rows(np.array([1.0, 0.0])) == 1
    assert median_error(np.array([0.0, 1.0, 5.0]), np.ones(3)) == pytest.approx(5 / 3)
    assert median_error(np.array([0.0, 1.0, 5.0]), np.array([1.0, 1.0, 9.0])) == pytest.approx(
        9 / 11
    )
    low, high = normal(np.full(5, 2.0), np.ones(5))
    assert (low, high) == (2.0, 2.0)


@pytest.mark.parametrize("shape", [(40, 5), (5, 40)])
def test_the_plane_shows_the_principal_components(shape):
    X = np.random.default_rng(9).normal(size=shape) * np.arange(1, shape[1] + 1)
    points, _, share = plane(X, [str(j) for j in range(shape[1])])
    _, sizes, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert np.linalg.norm(points, axis=0) == pytest.approx(sizes[:2])
    assert share == pytest.approx(np.sum(sizes[:2] ** 2) / np.sum(sizes**2))


@pytest.mark.parametrize(
    "value",
    [1.5, np.float64(2.0), float("inf"), None, True, "text", {0: 1.0}, np.array([1.0, 2.0])],
)
def test_values_as_code_and_as_json(value):
    made = eval(as_code(value), {"np": np})
    assert np.all(made == value)
    json.dumps(jsonable(value), allow_nan=False)


def test_values_as_a_person_reads_them():
    assert shown(np.nan) == "–"
    assert shown(1 / 3) == "0.3333"
    assert len(shown("x" * 1000)) == 80
    assert jsonable(len) == as_code(len) == "len"
