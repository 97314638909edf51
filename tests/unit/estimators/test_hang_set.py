"""Data on which other solvers never returned: the fit ends, and says the truth about itself.

In the shape of scikit-learn issues 4648 (two points, values 1 and 99999, polynomial),
13075 (nearly equal rows, nu, polynomial with coef0 = 10) and 30353 (one feature of very
different sizes, polynomial of degree 4, C = 100).
"""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.byhand import Hinge, Nu, Tube, gram, rounding, row_coefficients
from widemargin import SVC, SVR, NuSVC

# Not a measure of speed: only so that a fit which never returns fails instead of hanging.
NEVER = 240.0


def _fit(model, X, y):
    """Fit on a thread; fail when it does not come back. Returns the model and its warnings."""
    outcome: list = []

    def run() -> None:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                outcome.append((model.fit(X, y), list(caught)))
        except BaseException as error:  # handed to the test
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(NEVER)
    assert outcome, "the fit does not end within its default budget"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _honest(model, caught, by_hand, n: int) -> None:
    """primal >= dual, both as recomputed here; a warning with the numbers if not converged."""
    c = model.certificate_
    assert np.isfinite([c.primal, c.dual, c.kkt_violation]).all()
    beta = row_coefficients(model, n)
    if isinstance(by_hand, Nu):
        beta, cost = by_hand.rescaled(beta), by_hand.weight
    else:
        cost = by_hand.cost
    dual_error, primal_error = rounding(by_hand.K, beta, cost)
    dual_error, primal_error = dual_error + c.rounding, primal_error + c.rounding
    assert c.dual >= by_hand.dual(beta) - 1e-9 * max(1.0, abs(c.dual)) - dual_error
    assert c.primal == pytest.approx(by_hand.primal(beta), rel=1e-9, abs=1e-9 + primal_error)
    assert c.primal >= c.dual
    messages = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(messages) == (0 if c.converged else 1)
    if c.converged:
        assert c.kkt_violation <= model.tol
    else:
        assert "gap" in messages[0]
        assert "KKT" in messages[0]
        assert "scale" in messages[0]
        assert any(f"{c.kkt_violation:.{k}{e}}" in messages[0] for k in range(1, 5) for e in "eg")


def _signs(y) -> np.ndarray:
    return np.where(np.asarray(y) == np.max(y), 1.0, -1.0)


@pytest.mark.parametrize("gamma", ["auto", "scale"])
@pytest.mark.parametrize("large", [9_999, 99_999, 9_999_999])
def test_two_points_with_small_and_large_values(large: int, gamma: str) -> None:
    X, y = np.array([[1.0, large], [2.0, large]]), np.array([0, 1])
    model, caught = _fit(SVC(kernel="poly", degree=2, gamma=gamma), X, y)
    K = gram(X, X, "poly", model.gamma_, 2)
    _honest(model, caught, Hinge(K, _signs(y), np.ones(2)), 2)


def _nearly_equal_rows() -> tuple[np.ndarray, np.ndarray]:
    """Six rows of thirteen features; rows 0 and 5, and 2 and 4, differ in the last digits."""
    a = [0, 0, 0.3, 0, 0, 1, 0.625, 0, 0, 0.31865753, 0, 0, 0]
    b = [0, 0, 0, 0, 0, 1 / 3, 8 / 13, 0, 0, 0.59230137, 1, 0, 1]
    c = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.31778082, 1, 0, 0]
    d = [2 / 3, 0, 0, 0.5, 1, 0.8, 0, 1, 0.5625, 0.36430137, 0, 0, 0]
    e, f = c.copy(), a.copy()
    e[9], f[9] = 0.33638356, 0.31843836
    return np.array([a, b, c, d, e, f]), np.array([False, True, True, False, True, False])


def test_nu_on_nearly_equal_rows_always_returns() -> None:
    X, y = _nearly_equal_rows()
    options = {"coef0": 10.0, "gamma": "auto", "kernel": "poly", "nu": 2 / 7}
    K = gram(X, X, "poly", 1 / 13, 3, 10.0)
    by_hand = Nu(K, _signs(y), np.ones(6), 2 / 7)
    rng = np.random.default_rng(0)
    for _ in range(10):  # the order of rows decided whether LIBSVM returned
        order = rng.permutation(6)
        model, caught = _fit(NuSVC(**options), X[order], y[order])
        shuffled = Nu(K[np.ix_(order, order)], by_hand.y[order], np.ones(6), 2 / 7)
        _honest(model, caught, shuffled, 6)
        np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize("sizes", ["tiny", "mixed", "huge"])
def test_one_feature_of_all_sizes_degree_four(sizes: str) -> None:
    rng = np.random.default_rng(0)
    exponent = {"tiny": (-12, -3), "mixed": (-6, 2), "huge": (1, 4)}[sizes]
    X = (10.0 ** rng.uniform(*exponent, 400) * rng.choice([-1, 1], 400)).reshape(-1, 1)
    y = rng.integers(0, 2, 400)
    weights = {0: 1.04884106, 1: 0.95550528}
    options = {"C": 100, "kernel": "poly", "degree": 4, "gamma": 0.9597420397825849, "tol": 0.01}
    model, caught = _fit(SVC(**options, class_weight=weights), X, y)
    K = gram(X, X, "poly", options["gamma"], 4)
    cost = 100 * np.where(y == 1, weights[1], weights[0])
    _honest(model, caught, Hinge(K, _signs(y), cost), 400)


@pytest.mark.parametrize("gamma", ["scale", "auto"])
@pytest.mark.parametrize(("degree", "C"), [(3, 1.0), (4, 100.0)])
def test_raw_breast_cancer_with_a_polynomial(degree: int, C: float, gamma: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model, caught = _fit(SVC(kernel="poly", degree=degree, C=C, gamma=gamma), X, y)
    K = gram(X, X, "poly", model.gamma_, degree)
    _honest(model, caught, Hinge(K, _signs(y), np.full(len(y), C)), len(y))


@pytest.mark.parametrize("machine", ["linear", "regression"])
def test_raw_breast_cancer_with_other_machines(machine: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    if machine == "linear":
        model, caught = _fit(SVC(kernel="linear", C=100.0), X, y)
        by_hand = Hinge(X @ X.T, _signs(y), np.full(len(y), 100.0))
    else:
        model, caught = _fit(SVR(kernel="linear", C=100.0), X, X[:, 3])
        by_hand = Tube(X @ X.T, X[:, 3], np.full(len(y), 100.0), 0.1)
    _honest(model, caught, by_hand, len(y))


@pytest.mark.parametrize("factor", [1e-100, 1e-30, 1e-10, 1e10, 1e30, 1e100])
def test_default_kernel_does_not_care_about_units(factor: float) -> None:
    """gamma="scale" makes the fit the same in any unit, also beyond the range of float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    plain, _ = _fit(SVC(tol=1e-8), X, y)
    model, caught = _fit(SVC(tol=1e-8), factor * X, y)
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert model.certificate_.dual == pytest.approx(plain.certificate_.dual, rel=1e-7)
    np.testing.assert_array_equal(model.predict(factor * X), plain.predict(X))


def test_noise_with_a_huge_cost_ends() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    model, caught = _fit(SVC(C=1e9, kernel="poly", degree=5, coef0=1.0, gamma=1.0), X, y)
    K = gram(X, X, "poly", 1.0, 5, 1.0)
    _honest(model, caught, Hinge(K, _signs(y), np.full(200, 1e9)), 200)
