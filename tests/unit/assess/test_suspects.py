"""Rows with doubtful labels: who is suspected, on what evidence, at what cost."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, LinearSVC, NuSVC, loo, suspects

CLASSIFIERS = [SVC(), SVC(fit_intercept=False), NuSVC(), LinearSVC()]


def _mislabelled(n_classes: int = 2):
    """Separate blobs, five of whose labels are wrong."""
    X, y = make_blobs(120, centers=n_classes, cluster_std=0.8, random_state=3)
    wrong = np.array([4, 17, 42, 77, 101])
    y[wrong] = (y[wrong] + 1) % n_classes
    return X, y, wrong


@pytest.mark.parametrize("machine", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_wrong_labels_are_found(machine, n_classes: int) -> None:
    X, y, wrong = _mislabelled(n_classes)
    found = suspects(make_pipeline(StandardScaler(), machine).fit(X, y), 5)
    assert set(found.rows) == set(wrong)
    for suspect in found:
        assert suspect.margin < 0
        assert suspect.label == y[suspect.row]
        assert suspect.predicted != suspect.label


def test_the_evidence_is_the_left_out_margin() -> None:
    X, y, _ = _mislabelled()
    model = SVC().fit(X, y)
    found = suspects(model, len(y))
    margin = np.where(y == 1, 1, -1) * loo.decision_values(model)
    np.testing.assert_array_equal([s.margin for s in found], np.sort(margin))
    np.testing.assert_array_equal([s.margin for s in found], margin[found.rows])
    assert (found.error, found.kind) == (loo.error(model), "exact")
    assert (found.evaluated, found.n_rows, len(found)) == (120, 120, 120)


def test_values_far_from_their_left_out_prediction_are_suspected() -> None:
    X = np.linspace(0, 6, 60)[:, None]
    y = np.sin(X[:, 0])
    y[30] += 2.0
    found = suspects(SVR(C=10).fit(X, y), 1)[0]
    assert found.row == 30
    assert found.label == y[30]
    assert found.margin == pytest.approx(-abs(y[30] - found.predicted))


def test_screening_evaluates_a_tenth_and_finds_the_same_rows() -> None:
    X, y, wrong = _mislabelled()
    model = SVC().fit(X, y)
    every, tenth = suspects(model, 5), suspects(model, 5, screen=0.1)
    assert tenth.evaluated == 12
    assert set(tenth.rows) == set(wrong)
    assert [s.margin for s in tenth] == pytest.approx([s.margin for s in every])
    assert tenth.kind == "lower bound"
    assert tenth.error <= every.error
    assert suspects(model, 5, screen=1.0).error == every.error


def test_a_screen_takes_the_largest_coefficients_for_each_unit_of_weight() -> None:
    X, y, _ = _mislabelled()
    weight = np.where(np.arange(120) < 60, 3.0, 1.0)
    model = SVC(loss="squared_hinge").fit(X, y, weight)
    alpha = np.zeros(120)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    largest = np.argsort(-alpha / weight)[:12]
    assert set(suspects(model, 12, screen=0.1).rows) == set(largest)


def test_rows_of_zero_weight_are_not_suspected() -> None:
    X, y, wrong = _mislabelled()
    weight = np.ones(120)
    weight[wrong[:3]] = 0.0
    found = suspects(SVC().fit(X, y, weight), 2)
    assert set(found.rows) == set(wrong[3:])


def test_it_is_a_sequence_and_prints_a_table() -> None:
    X, y = load_iris(return_X_y=True)
    found = suspects(SVC().fit(X, y), 4)
    assert found[0] is found.found[0]
    assert found[1:] == found.found[1:]
    lines = str(found).splitlines()
    assert len(lines) == 6
    assert str(found[0].row) in lines[1]
    assert lines[-1].startswith("150 of 150 rows left out")


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_number_of_rows_that_makes_no_sense(n) -> None:
    X, y, _ = _mislabelled()
    with pytest.raises(ValueError, match=r"n must be a positive integer; got n="):
        suspects(SVC().fit(X, y), n)


@pytest.mark.parametrize("screen", [0, -0.1, 1.5, "tenth", True])
def test_a_screen_that_makes_no_sense(screen) -> None:
    X, y, _ = _mislabelled()
    with pytest.raises(ValueError, match=r"screen must be .* got screen="):
        suspects(SVC().fit(X, y), screen=screen)


def test_models_that_cannot_answer() -> None:
    X, y, _ = _mislabelled()
    with pytest.raises(NotFittedError):
        suspects(SVC())
    with pytest.raises(ValueError, match="compact"):
        suspects(SVC().fit(X, y).compact())
