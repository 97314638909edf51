"""Certificates of data in parts: the numbers of the published model, recomputed here by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVC, sources
from widemargin.problems.linear_scan import LinearProblem
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.base import Budget, LinearResult
from widemargin.solvers.out_of_core import dual_variables, solve

EXACT = {"rel": 1e-12, "abs": 1e-15}


def _data(kind: str):
    """Rows, labels and weights; in "flat" data with a tiny C no sample fixes the threshold."""
    rng = np.random.default_rng(len(kind))
    n = 200 if kind == "few" else 20_000
    X = rng.standard_normal((n, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + 0.6 * rng.standard_normal(n) > 0.3, 1.0, -1.0)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n)
    if kind == "far":
        X += 1000.0
    if kind == "flat":
        y, weight = np.repeat([1.0, -1.0], n // 2), np.ones(n)
        X = rng.standard_normal((n, 3)) + y[:, None]
    return X, y, weight


def _dataset(X, y, weight):
    cuts = (30, 110)
    return sources.from_arrays(*(np.split(a, cuts) for a in (X, y, weight)))


def _primal(model, X, y, weight) -> float:
    w, b = model.coef_[0], model.intercept_[0]
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    return 0.5 * w @ w + model.C * weight @ (slack if model.loss == "hinge" else slack**2)


CASES = [("few", 1.0), ("many", 0.3), ("flat", 1e-8), ("flat few", 0.1)]


@pytest.mark.parametrize(
    ("kind", "C", "intercept"),
    [("far", 1.0, True), *((*case, intercept) for case in CASES for intercept in (True, False))],
)
def test_the_hinge(kind: str, C: float, intercept: bool) -> None:
    X, y, weight = _data(kind.split()[0])
    if kind == "flat few":
        X, y, weight = np.array([[0.0], [3.0]]), np.array([-1.0, 1.0]), np.ones(2)
    dataset = _dataset(X, y, weight)
    model = LinearSVC(loss="hinge", C=C, fit_intercept=intercept, tol=1e-9).fit(dataset)
    certificate = model.certificate_
    accurate = {"rel": 1e-9} if kind == "far" else EXACT
    assert certificate.primal == pytest.approx(_primal(model, X, y, weight), **accurate)

    problem, source = LinearProblem("hinge", C, intercept), dataset.binary(1.0, -1.0)
    centre = dataset.describe().mean if intercept else None
    found = solve(problem, source, tol=1e-4, budget=Budget(1000), centre=centre)
    np.testing.assert_array_equal(found.coef, model.coef_[0])
    alpha = np.concatenate(dual_variables(problem, source, found))
    assert alpha.min() >= 0.0
    assert (alpha <= C * weight).all()
    if intercept:
        assert abs(alpha @ y) <= 1e-12 * alpha.sum()
    expansion = (alpha * y) @ X
    dual = alpha.sum() - 0.5 * expansion @ expansion
    # The dual is rounded down, by bounds of sums over 20,000 samples.
    assert certificate.dual == pytest.approx(dual, rel=max(1e-11, accurate["rel"]), abs=1e-15)
    assert certificate.dual <= dual * (1 + accurate["rel"])
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-12)

    in_memory = c_classification(y, C * weight, intercept=intercept)
    rounding = 1e-8 if kind == "far" else 1e-12
    by_hand = in_memory.kkt_violation(y * alpha, X @ expansion)
    assert certificate.kkt_violation == pytest.approx(by_hand, abs=rounding)
    assert certificate.kkt_violation <= rounding


@pytest.mark.parametrize("intercept", [True, False])
def test_the_violation_is_measured(intercept: bool) -> None:
    """A run that ends too early, where the first solution has samples on the wrong side."""
    rng = np.random.default_rng(1)
    X = rng.standard_t(100, (40_000, 5))
    y = np.where(X[:, 0] + 0.5 * rng.standard_t(100, 40_000) > 0, 1.0, -1.0)
    problem = LinearProblem("hinge", 1.0, intercept)
    source = sources.from_arrays(X, y).binary(1.0, -1.0)
    found = solve(problem, source, tol=1e-14, budget=Budget(1))
    assert found.status == "max_iter"
    assert found.history[-1]["violators"] > 0
    alpha = np.concatenate(dual_variables(problem, source, found))
    expansion = (alpha * y) @ X
    np.testing.assert_allclose(found.coef, expansion, rtol=1e-9)
    in_memory = c_classification(y, np.ones(len(y)), intercept=intercept)
    violation = in_memory.kkt_violation(y * alpha, X @ expansion)
    assert violation > 0.1
    certificate = problem.certificate(found.evaluation, tol=1e-4, n_iter=1)
    assert certificate.kkt_violation == pytest.approx(violation, rel=1e-9)
    slack = np.maximum(0.0, 1.0 - y * (X @ found.coef + found.intercept))
    assert certificate.primal == pytest.approx(0.5 * found.coef @ found.coef + slack.sum())
    # A start that is better than the first solution has no multipliers.
    far = LinearResult(
        coef=np.full(5, 0.5), thresholds=found.thresholds, n_iter=0, status="max_iter"
    )
    early = solve(problem, source, tol=1e-14, budget=Budget(1), start=far)
    np.testing.assert_array_equal(early.coef, far.coef)
    assert np.isnan(early.evaluation.violation)
    # Both are worse than the best constant if the start is worse still.
    worse = LinearResult(
        coef=np.full(5, 9.0), thresholds=found.thresholds, n_iter=0, status="max_iter"
    )
    least = solve(problem, source, tol=1e-14, budget=Budget(1), start=worse)
    constant = 2 * min((y > 0).sum(), (y < 0).sum()) if intercept else len(y)
    assert least.primal <= constant * (1 + 1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("kind", "C"), [("few", 1.0), ("many", 0.3), ("flat", 1e-8)])
def test_the_squared_hinge(kind: str, C: float, intercept: bool) -> None:
    X, y, weight = _data(kind)
    options = {"C": C, "loss": "squared_hinge", "fit_intercept": intercept}
    model = LinearSVC(**options, tol=1e-9).fit(_dataset(X, y, weight))
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(_primal(model, X, y, weight), **EXACT)
    slack = np.maximum(0.0, 1.0 - y * (X @ model.coef_[0] + model.intercept_[0]))
    alpha = 2.0 * C * weight * slack
    if intercept:
        sums = np.array([alpha[y > 0].sum(), alpha[y < 0].sum()])
        alpha *= np.where(y > 0, *(sums.min() / sums))
    expansion, own = (alpha * y) @ X, (alpha**2)[weight > 0] @ (0.25 / C / weight[weight > 0])
    quadratic = expansion @ expansion + 2.0 * own
    dual = 0.5 * alpha.sum() ** 2 / quadratic
    assert certificate.dual == pytest.approx(dual, rel=1e-9)
    assert certificate.dual <= certificate.primal * (1 + 1e-12)
    assert certificate.converged
    assert np.isnan(certificate.kkt_violation)  # a read at w cannot tell


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_model_that_did_not_converge_is_certified_as_it_is(loss: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_t(2, (40_000, 4))  # heavy tails: a sample is often wrong
    y = np.where(X[:, 0] + rng.standard_t(2, 40_000) > 0, 1.0, -1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        model = LinearSVC(max_iter=1, tol=1e-14, loss=loss).fit(_dataset(X, y, np.ones(len(y))))
    best = LinearSVC(solver="newton", tol=1e-9, loss=loss).fit(X, y).certificate_
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(_primal(model, X, y, np.ones(len(y))), **EXACT)
    assert certificate.dual <= best.primal * (1 + 1e-12)
    assert certificate.primal >= best.dual * (1 - 1e-12)
    assert not certificate.converged
