"""The study: which machines are compared, on which rows, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from widemargin import loo
from widemargin._base.messages import UserError
from widemargin.reporting import rivals, study
from widemargin.reporting.preparation import prepare
from widemargin.reporting.rivals import every_class_first
from widemargin.reporting.study import run_study
from widemargin.sources.tables.table import table_of

ALL = {"SVC", "MeanFieldGPClassifier", "LOOSVC", "AdaptiveMarginSVC", "LPSVC"}


def prepared(X, y, task="auto"):
    return prepare(*table_of(X, y), task)


def moons(n=50):
    X, y = make_moons(n, noise=0.25, random_state=0)
    return X, np.array(["crescent", "moon"])[y]


def numbers(n=40, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 100 + 20 * np.sin(2 * X[:, 0]) + rng.normal(size=n)


@pytest.fixture(scope="module")
def of_moons():
    steps = []
    found = run_study(prepared(*moons()), progress=lambda *step: steps.append(step))
    return found, steps


def test_all_machines_of_two_classes_are_compared(of_moons):
    found, _ = of_moons
    assert {c.name for c in found.candidates} == ALL
    assert all(c.reason == "" and c.model is not None for c in found.candidates)
    errors = [c.result.error for c in found.candidates]
    assert errors == sorted(errors)
    assert found.best is found.candidates[0]
    assert found.notes == []


def test_what_is_said_of_a_machine_is_what_it_says_itself(of_moons):
    found, _ = of_moons
    X = found.standardised(found.trained)
    for candidate in found.candidates:
        params = candidate.model.get_params()
        assert all(params[name] == value for name, value in candidate.params.items())
        again = type(candidate.model)(**candidate.params).fit(X, found.y)
        result = loo.result(again)
        assert result.kind == candidate.result.kind
        assert result.error == pytest.approx(candidate.result.error, abs=1e-12)


def test_progress_is_told_before_each_step(of_moons):
    _, steps = of_moons
    assert [done for _, done, _ in steps] == list(range(7))
    assert {total for _, _, total in steps} == {6}
    assert [name for name, _, _ in steps][-2:] == ["landscape", ""]


def test_the_landscape_lies_around_what_was_chosen(of_moons):
    found, _ = of_moons
    land = found.landscape
    soft = next(c for c in found.candidates if c.name == "SVC")
    middle = rivals.LANDSCAPE_STEPS // 2
    assert land.costs[middle] == pytest.approx(soft.params["C"])
    assert land.gammas[middle] == pytest.approx(soft.params["gamma"])
    assert land.method == "exact"
    assert land.n_rows == 50
    assert land.error[middle, middle] == pytest.approx(soft.result.error)
    assert np.all((land.error >= 0) & (land.error <= 1))


def test_the_pipeline_predicts_what_the_machine_predicts(of_moons):
    found, _ = of_moons
    X = found.data.X
    assert np.array_equal(
        found.pipeline().predict(X), found.best.model.predict(found.standardised(np.arange(50)))
    )


def test_numbers_are_predicted_in_their_own_units():
    X, y = numbers()
    found = run_study(prepared(X, y))
    assert [c.name for c in found.candidates] == ["SVR"]
    predicted = found.pipeline().predict(X)
    inside = found.best.model.predict(found.standardised(found.trained))
    assert predicted == pytest.approx(inside * found.target_spread + found.target_centre)
    assert np.mean(np.abs(predicted - y)) < 0.3 * np.std(y)
    assert found.landscape.error.shape == (7, 7)


def test_ordered_classes_meet_the_ordinal_machine():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(45, 2))
    found = run_study(prepared(X, np.digitize(X[:, 0] + 0.2 * X[:, 1], [-0.5, 0.5])))
    assert found.data.task == "ordered"
    assert {c.name for c in found.candidates} == ALL | {"OrdinalSVC"}


def test_a_class_of_one_row():
    X, y = moons(40)
    y = y.astype(object)
    y[7] = "alone"
    found = run_study(prepared(X, y))
    assert found.best.result.errors[7]
    assert {"alone", "moon", "crescent"} == set(found.best.model.classes_)


def test_two_rows_are_studied():
    found = run_study(prepared([[0.0], [1.0]], ["u", "v"]))
    assert found.best.result.error == 1.0


def test_with_very_many_classes_only_the_cost_is_tuned():
    rng = np.random.default_rng(3)
    centres = 5 * rng.normal(size=(12, 3))
    labels = np.repeat([f"kind {k:02d}" for k in range(12)], 4)
    X = np.repeat(centres, 4, axis=0) + 0.3 * rng.normal(size=(48, 3))
    found = run_study(prepared(X, labels), ard=True)
    assert found.best.name == "SVC"
    assert found.best.result.error < 0.2
    refused = [c for c in found.candidates if c.model is None]
    assert {c.name for c in refused} == ALL - {"SVC"}
    assert all("more than 10 classes" in c.reason for c in refused)
    assert found.landscape is None
    assert "A width for each input was asked for" in found.notes[0]


def test_a_width_for_each_input():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 3))
    found = run_study(prepared(X, X[:, 1] > 0), ard=True)
    soft = next(c for c in found.candidates if c.name == "SVC")
    assert np.argmax(soft.params["gamma"]) == 1
    assert found.landscape is None


# -- many rows -----------------------------------------------------------------------------------


def test_rows_beyond_the_most_test_the_winner(monkeypatch):
    monkeypatch.setattr(study, "MOST_ROWS", 40)
    monkeypatch.setattr(rivals, "LANDSCAPE_ROWS", 20)
    X, y = numbers(70)
    found = run_study(prepared(X, y), seed=5)
    assert len(found.trained) == 40
    assert np.array_equal(np.sort(np.concatenate([found.trained, found.tested])), np.arange(70))
    assert found.landscape.n_rows == 20
    assert "40 of the 70 rows, drawn at random" in found.notes[0]
    again = run_study(prepared(X, y), seed=5)
    other = run_study(prepared(X, y), seed=6)
    assert np.array_equal(found.trained, again.trained)
    assert found.best.result.error == again.best.result.error
    assert not np.array_equal(found.trained, other.trained)


def test_no_class_is_lost_in_a_sample():
    rng = np.random.default_rng(6)
    y = np.where(rng.random(500) < 0.9, "often", "seldom").astype(object)
    y[[3, 77, 400]] = "once"
    order = every_class_first(y.astype(str), rng.permutation(500))
    assert np.array_equal(np.sort(order), np.arange(500))
    labels, counts = np.unique(y[order[:6]].astype(str), return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {"often": 2, "once": 2, "seldom": 2}


def test_grids_of_many_rows_are_compared_by_the_linear_response(monkeypatch):
    monkeypatch.setattr(rivals, "EXACT_GRID_ROWS", 30)
    found = run_study(prepared(*numbers(40)))
    assert found.landscape.method == "linear_response"
    assert found.best.result.kind == "exact"  # what is reported of the winner


def test_machines_that_cannot_be_fitted_are_reported(monkeypatch):
    def broken(X, y, found):
        raise ValueError("it is broken")

    tune = rivals.tune

    def tune_some(machine, X, y, params):
        if isinstance(machine, rivals.MeanFieldGPClassifier):
            broken(X, y, [])
        return tune(machine, X, y, params)

    monkeypatch.setattr(rivals, "tune", tune_some)
    found = run_study(prepared(*moons(30)))
    last = found.candidates[-1]
    assert (last.name, last.model, last.reason) == ("MeanFieldGPClassifier", None, "it is broken")
    monkeypatch.setattr(rivals, "_regression", broken)
    with pytest.raises(UserError, match=r"No machine could be fitted\. SVR: it is broken"):
        run_study(prepared(*numbers(30)))
