"""Margins: functional, geometric, and the share below a margin."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as sklearn_SVC

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    SVR,
    AdaBoostClassifier,
    CumulativeLinkClassifier,
    LinearSVC,
    MaxMarginClassifier,
    MeanFieldGPClassifier,
    OrdinalSVC,
    ReducedHullSVC,
    margins,
)

LINE = np.array([[-6.0], [-3.0], [3.0], [6.0]])
SIDES = np.array([0, 0, 1, 1])


def moons(n=80):
    return make_moons(n, noise=0.25, random_state=0)


# ---------------------------------------------------------------- functional


def test_two_classes_by_hand():
    # The plane through the middle of -3 and 3 has f = x / 3.
    model = SVC(kernel="linear", C=10.0, tol=1e-9).fit(LINE, SIDES)
    assert margins.margins(model, LINE, SIDES) == pytest.approx([2, 1, 1, 2], abs=1e-8)
    assert margins.margins(model, LINE, 1 - SIDES) == pytest.approx([-2, -1, -1, -2], abs=1e-8)


@pytest.mark.parametrize(
    "model",
    [SVC(), LinearSVC(), LOOSVC(), LPSVC(), ReducedHullSVC(), AdaBoostClassifier(10)],
    ids=lambda model: type(model).__name__,
)
def test_the_sign_tells_what_is_predicted(model):
    X, y = moons()
    model.fit(X, y)
    found = margins.margins(model, X, y)
    assert np.array_equal(found > 0, model.predict(X) == y)
    assert np.array_equal(found, np.where(y == 1, 1, -1) * model.decision_function(X))


@pytest.mark.parametrize(
    "model", [SVC(), LPSVC(), AdaBoostClassifier(10), LogisticRegression(max_iter=1000)]
)
def test_several_classes_are_compared_with_the_best_other(model):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model.fit(X, names)
    scores = model.decision_function(X)
    factor = 0.5 if isinstance(model, AdaBoostClassifier) else 1.0
    expected = [factor * (s[k] - np.delete(s, k).max()) for s, k in zip(scores, y, strict=True)]
    assert margins.margins(model, X, names) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_margins_are_those_of_the_fit(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = (X, y) if n_classes == 3 else (X[50:], y[50:])
    model = AdaBoostClassifier(20).fit(X, y)
    assert margins.margins(model, X, y) == pytest.approx(model.margins_, abs=1e-13)
    assert margins.geometric(model, X, y) == pytest.approx(model.margins_, abs=1e-13)


def test_ranks_are_as_far_within_their_bounds():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y = np.array([1, 1, 2, 2, 3, 3])
    model = OrdinalSVC(kernel="linear", C=100.0, tol=1e-8).fit(X, y)
    f, (low, high) = model.utility(X), model.thresholds_
    expected = [low - f[0], low - f[1], *np.minimum(f - low, high - f)[2:4], *(f - high)[4:]]
    assert margins.margins(model, X, y) == pytest.approx(expected)
    assert margins.margins(model, X, y).min() > 0
    wrong = margins.margins(model, X, y[::-1])
    assert (wrong[[0, 1, 4, 5]] < 0).all()
    by_length = margins.geometric(model, X, y) * np.linalg.norm(model.coef_)
    assert by_length == pytest.approx(expected)


def test_a_pipeline_is_a_machine_on_transformed_rows():
    X, y = moons()
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    Z = model[0].transform(X)
    for function in (margins.margins, margins.geometric):
        assert np.array_equal(function(model, X, y), function(model[-1], Z, y))


# ---------------------------------------------------------------- geometric


def test_distances_by_hand():
    model = SVC(kernel="linear", C=10.0, tol=1e-9).fit(LINE, SIDES)
    assert margins.geometric(model, LINE, SIDES) == pytest.approx([6, 3, 3, 6], abs=1e-7)


@pytest.mark.parametrize(("norm", "dual"), [(1, np.inf), (2, 2), (np.inf, 1), (3, 1.5)])
def test_hard_margin_is_the_smallest_distance_in_the_dual_norm(norm, dual):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-2, 0.5, (20, 3)), rng.normal(2, 0.5, (20, 3))])
    y = np.repeat([0, 1], 20)
    model = MaxMarginClassifier(norm=norm, C=np.inf).fit(X, y)
    found = margins.geometric(model, X, y)
    assert found.min() == pytest.approx(model.margin_, rel=1e-5)
    # No step of that length in the dual norm can cross the plane; one step of it reaches the plane.
    nearest = int(found.argmin())
    w = model.coef_[0]
    step = {1: np.eye(3)[np.abs(w).argmax()] * np.sign(w), np.inf: np.sign(w)}.get(dual)
    if step is None:
        step = np.sign(w) * np.abs(w) ** (norm - 1)
    step = step / np.linalg.norm(step, ord=dual) * found[nearest]
    moved = X[nearest] - np.where(y[nearest] == 1, 1, -1) * step
    assert model.decision_function(moved[None]) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("labels", [2, 3])
def test_kernel_and_linear_machine_agree(labels):
    X, y = load_iris(return_X_y=True)
    X, y = X[y >= 3 - labels], y[y >= 3 - labels]
    by_kernel = margins.geometric(SVC(kernel="linear", tol=1e-9).fit(X, y), X, y)
    by_weights = margins.geometric(
        LinearSVC(loss="hinge", multi_class="ovo", tol=1e-11).fit(X, y), X, y
    )
    K = X @ X.T
    looked_up = margins.geometric(SVC(kernel="precomputed", tol=1e-9).fit(K, y), K, y)
    sparse = margins.geometric(
        LinearSVC(loss="hinge", multi_class="ovo", tol=1e-11).fit(sp.csr_array(X), y),
        sp.csr_array(X),
        y,
    )
    for found in (by_weights, looked_up, sparse):
        assert found == pytest.approx(by_kernel, abs=1e-6)


def test_norm_of_a_kernel_expansion():
    X, y = moons()
    model = SVC(gamma=0.7, C=5.0).fit(X, y)
    reference = sklearn_SVC(gamma=0.7, C=5.0, tol=1e-8).fit(X, y)
    beta, S = reference.dual_coef_[0], reference.support_vectors_
    K = np.exp(-0.7 * ((S[:, None] - S[None]) ** 2).sum(axis=2))
    expected = np.where(y == 1, 1, -1) * reference.decision_function(X) / np.sqrt(beta @ K @ beta)
    assert margins.geometric(model, X, y) == pytest.approx(expected, abs=2e-3)


def test_distance_of_several_classes_is_from_the_nearest_boundary_of_the_own_class():
    X, y = load_iris(return_X_y=True)
    model = LPSVC(kernel="linear", lam=0.1).fit(X, y)
    W = model.dual_coef_ @ model.support_vectors_
    for i in (0, 60, 133):
        away = [
            (W[y[i]] - W[k]) @ X[i] / np.linalg.norm(W[y[i]] - W[k]) for k in range(3) if k != y[i]
        ]
        assert margins.geometric(model, X[i : i + 1], y[i : i + 1])[0] == pytest.approx(min(away))


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(1e-3, 1e3), seed=st.integers(0, 50))
def test_distances_have_the_unit_of_the_rows(factor, seed):
    """With rows in another unit, and C in its square's inverse, distances are in that unit."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 2)), np.repeat([0, 1], 15)
    X[y == 1] += 1.5
    one = margins.geometric(LinearSVC(C=1.0, tol=1e-10).fit(X, y), X, y)
    other = LinearSVC(C=1.0 / factor**2, tol=1e-10).fit(factor * X, y)
    found = margins.geometric(other, factor * X, y)
    assert found == pytest.approx(factor * one, rel=1e-3, abs=1e-4 * factor)


# ---------------------------------------------------------------- margin error


def test_margin_error_is_strict():
    """(1.30) counts margins below rho: one that is exactly rho is no error."""
    model = LogisticRegression()
    model.classes_, model.coef_, model.intercept_ = SIDES[[0, 2]], np.array([[1.0]]), np.zeros(1)
    model.n_features_in_ = 1
    for rho, expected in ((3.0, 0.0), (3.0000001, 0.5), (6.0, 0.5), (6.5, 1.0), (-9.0, 0.0)):
        assert margins.margin_error(model, LINE, SIDES, rho) == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_margin_error_grows_with_rho(rhos):
    X, y = moons(40)
    model = SVC(gamma=1.0).fit(X, y)
    found = [margins.margin_error(model, X, y, rho) for rho in sorted(rhos)]
    assert found == sorted(found)
    assert margins.margin_error(model, X, y, 0.0) == pytest.approx(1 - model.score(X, y))


# ---------------------------------------------------------------- what is refused


def test_regressors_have_no_margins():
    X, y = moons()
    for model in (SVR().fit(X, y), LinearRegression().fit(X, y)):
        with pytest.raises(TypeError, match="is no classifier"):
            margins.margins(model, X, y)
        with pytest.raises(TypeError, match="is no classifier"):
            margins.geometric(model, X, y)


def test_bad_labels_and_lengths():
    X, y = moons()
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="y has labels that the model was not fitted with: 7"):
        margins.margins(model, X, np.where(y == 1, 7, 0))
    with pytest.raises(ValueError, match="X and y must have as many rows: 80 and 79"):
        margins.margins(model, X, y[1:])
    with pytest.raises(ValueError, match="X and y must have as many rows: 80 and 79"):
        margins.geometric(model, X, y[1:])
    with pytest.raises(ValueError, match="y must be one label a row"):
        margins.margins(model, X, y[:, None])
    with pytest.raises(ValueError, match="rho must be a finite number; got rho=nan"):
        margins.margin_error(model, X, y, np.nan)


def test_machines_without_a_plane_have_no_distances():
    X, y = moons()
    model = MeanFieldGPClassifier().fit(X, y)
    assert np.array_equal(margins.margins(model, X, y) > 0, model.predict(X) == y)
    with pytest.raises(TypeError, match="is no plane in a feature space"):
        margins.geometric(model, X, y)
    with pytest.raises(TypeError, match="no distances"):
        margins.geometric(CumulativeLinkClassifier().fit(X, y), X, y)


def test_a_constant_has_no_distances():
    model = LogisticRegression().fit(LINE, SIDES)
    model.coef_ = np.zeros((1, 1))
    with pytest.raises(ValueError, match="w = 0"):
        margins.geometric(model, LINE, SIDES)


def test_queries_have_no_margins():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(20, 2)), np.tile([0, 1], 10), np.repeat(np.arange(5), 4)
    model = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    for function in (margins.margins, margins.geometric):
        with pytest.raises(ValueError, match="est was fitted with qid"):
            function(model, X, y)


def test_a_compact_model_needs_the_kernel_matrix_of_its_rows():
    X, y = moons()
    K = X @ X.T
    model = SVC(kernel="precomputed", fit_intercept=False).fit(K, y)
    small = model.compact()
    assert np.array_equal(margins.geometric(small, K, y), margins.geometric(model, K, y))
    with pytest.raises(ValueError, match="X must be the square kernel matrix"):
        margins.geometric(small, K[:10], y[:10])
