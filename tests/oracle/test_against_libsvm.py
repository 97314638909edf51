"""Our dual objective is never below LIBSVM's by more than 1e-6 relative, at equal tolerance.

Both objectives are recomputed here, in float64, from dual_coef_ by the formulas of byhand.py.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.awkward import (
    COSTS,
    Case,
    _blobs,
    classification_cases,
    largest_nu,
    regression_cases,
)
from tests.helpers.byhand import Hinge, Nu, NuTube, Tube, gram, row_coefficients
from widemargin import SVC, SVR, NuSVC, NuSVR

TOL = 1e-3
RELATIVE = 1e-6
# LIBSVM has no budget of its own; it needs one on the polynomial and linear cases at C = 1e5.
LIBSVM_STEPS = 1_000_000


def _fit(machine, params, case, rows=slice(None), **budget):
    """Fit without raising on an exhausted budget: what counts here is the objective."""
    weight = None if case.sample_weight is None else case.sample_weight[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = machine(**params, tol=TOL, **budget)
        return model.fit(case.X[rows], case.y[rows], sample_weight=weight)


def _both_duals(ours, theirs, params, case, machine, *arguments):
    """Return our and LIBSVM's dual objective, both of the problem without repetitions."""
    small, fold = case.merged()
    by_hand = machine(small, *arguments)
    mine = fold(row_coefficients(_fit(ours, params, case), len(case.y)))
    # scikit-learn's support_ counts only rows of positive weight, so it gets no others.
    present = np.flatnonzero(case.weight > 0)
    model = _fit(theirs, params, case, present, max_iter=LIBSVM_STEPS)
    beta = np.zeros(len(case.y))
    beta[present] = row_coefficients(model, len(present))
    for coefficients in (mine, fold(beta)):
        assert by_hand.infeasibility(coefficients) < 1e-8
    return by_hand.dual(mine), by_hand.dual(fold(beta))


def _hinge(case: Case, C: float) -> Hinge:
    return Hinge(case.K, case.y, C * case.cost)


def _nu(case: Case, nu: float) -> Nu:
    return Nu(case.K, case.y, case.weight, nu)


def _tube(case: Case, C: float) -> Tube:
    return Tube(case.K, case.y, C * case.weight, 0.1)


def _nu_tube(case: Case, C: float, nu: float) -> NuTube:
    return NuTube(case.K, case.y, C * case.weight, nu)


def _combinations(cases, values):
    return [pytest.param(c, v, id=f"{c}-{v:g}") for c in cases for v in values]


@pytest.mark.parametrize(("case", "C"), _combinations(classification_cases(), COSTS))
def test_hinge(case: Case, C: float) -> None:
    params = {**case.kernel, "C": C, "class_weight": case.class_weight}
    ours, libsvm = _both_duals(SVC, sklearn.svm.SVC, params, case, _hinge, C)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


def _nu_cases():
    plain = [c for c in classification_cases() if c.class_weight is None]
    return _combinations(plain, (0.05, 0.3, 0.7, 0.95))


@pytest.mark.parametrize(("case", "share"), _nu_cases())
def test_nu(case: Case, share: float) -> None:
    nu = share * largest_nu(case)
    params = {**case.kernel, "nu": nu}
    ours, libsvm = _both_duals(NuSVC, sklearn.svm.NuSVC, params, case, _nu, nu)
    # The optimum is zero where the reduced hulls meet: then relative to the gap that tol allows.
    allowed = TOL * nu * case.weight.sum()
    assert ours >= libsvm - RELATIVE * max(abs(libsvm), allowed)


@pytest.mark.parametrize(("case", "C"), _combinations(regression_cases(), COSTS))
def test_epsilon_tube(case: Case, C: float) -> None:
    params = {**case.kernel, "C": C, "epsilon": 0.1}
    ours, libsvm = _both_duals(SVR, sklearn.svm.SVR, params, case, _tube, C)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


@pytest.mark.parametrize("nu", [0.1, 0.6])
@pytest.mark.parametrize(("case", "C"), _combinations(regression_cases(), COSTS))
def test_nu_tube(case: Case, C: float, nu: float) -> None:
    params = {**case.kernel, "C": C, "nu": nu}
    ours, libsvm = _both_duals(NuSVR, sklearn.svm.NuSVR, params, case, _nu_tube, C, nu)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


def _large(name, n=4000):
    """Make data large enough for sampling, active sets and working sets to matter."""
    rng = np.random.default_rng(len(name))
    X, y = _blobs(rng, n // 2, n - n // 2, 6, 1.2)
    X[:, 1] += np.where(y > 0, X[:, 0] ** 2, 0.0)
    if name == "duplicates":
        copies = rng.integers(0, n // 4, n)
        X, y = X[copies], y[copies]
    weight = rng.uniform(0.1, 3.0, n) if name == "weights" else None
    return Case(name, X, y, kernel={"kernel": "rbf", "gamma": 0.2}, sample_weight=weight)


@pytest.mark.parametrize("C", [0.1, 50.0])
@pytest.mark.parametrize("name", ["plain", "duplicates", "weights"])
@pytest.mark.slow
def test_hinge_on_thousands_of_rows(name: str, C: float) -> None:
    case = _large(name, 6000)  # beyond the 5,000 rows that are put into canonical order
    params = {**case.kernel, "C": C}
    ours, libsvm = _both_duals(SVC, sklearn.svm.SVC, params, case, _hinge, C)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


@pytest.mark.parametrize("name", ["plain", "weights"])
@pytest.mark.slow
def test_nu_on_thousands_of_rows(name: str) -> None:
    case = _large(name)
    params = {**case.kernel, "nu": 0.2}
    ours, libsvm = _both_duals(NuSVC, sklearn.svm.NuSVC, params, case, _nu, 0.2)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


@pytest.mark.parametrize("machine", ["epsilon", "nu"])
def test_regression_on_thousands_of_rows(machine: str) -> None:
    case = _large("plain", 3000)
    case.y = np.sin(case.X[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=3000)
    if machine == "epsilon":
        ours, libsvm = _both_duals(SVR, sklearn.svm.SVR, case.kernel, case, _tube, 1.0)
    else:
        ours, libsvm = _both_duals(NuSVR, sklearn.svm.NuSVR, case.kernel, case, _nu_tube, 1.0, 0.5)
    assert ours >= libsvm - RELATIVE * abs(libsvm)


@pytest.mark.slow
def test_a_tiny_cache_reaches_the_same_optimum() -> None:
    case = _large("plain")
    by_hand = Hinge(case.K, case.y, case.weight)
    duals = [
        by_hand.dual(row_coefficients(_fit(SVC, {**case.kernel, "cache_size": mb}, case), 4000))
        for mb in (4, 500)
    ]
    assert duals[0] == pytest.approx(duals[1], rel=RELATIVE)


def test_predictions_agree_with_libsvm() -> None:
    """A sanity check of signs and labels: same decision values up to the tolerance."""
    case = _large("plain", 2000)
    fresh = np.random.default_rng(1).normal(size=(500, 6))
    ours = _fit(SVC, {**case.kernel, "C": 1.0}, case)
    libsvm = _fit(sklearn.svm.SVC, {**case.kernel, "C": 1.0}, case)
    difference = ours.decision_function(fresh) - libsvm.decision_function(fresh)
    assert np.abs(difference).max() < 2e-2
    by_hand = gram(fresh, case.X, **case.kernel) @ row_coefficients(ours, 2000) + ours.intercept_
    np.testing.assert_allclose(ours.decision_function(fresh), by_hand, atol=1e-4)
