"""Bounds of cumulative link models: valid at any point, close at the optimum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import CumulativeLinkClassifier
from widemargin.problems.cumulative import CumulativeProblem
from widemargin.problems.cumulative.bounds import bracket
from widemargin.problems.cumulative.links import LINKS

EXACT = 1e-13


def data(n=60, shift=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X @ [1.0, -2.0, 0.5] + rng.logistic(size=n), [-2.0, 0.0, 2.0])
    return X + shift, y


def bounds(problem, X, coef, thresholds, precise=False):
    return bracket(problem, X, coef, thresholds, blur=EXACT, precise=precise)[0]


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_any_model_gives_bounds_on_both_sides(link, precise):
    """Also with thresholds that are far from optimal, and with weights that are."""
    X, y = data()
    problem = CumulativeProblem(link, y, np.linspace(0.5, 2.0, len(y)), 0.7)
    model = CumulativeLinkClassifier(link=link, alpha=0.7, tol=1e-12)
    model.fit(X, y, sample_weight=problem.weight)
    best = bounds(problem, X, model.coef_, model.thresholds_, precise)
    assert 0.0 < best.primal - best.dual < 1e-9
    rng = np.random.default_rng(1)
    for size in (1e-6, 1e-3, 0.1, 0.5):
        coef = model.coef_ + size * rng.normal(size=3)
        thresholds = np.sort(model.thresholds_ + size * rng.normal(size=3))
        found = bounds(problem, X, coef, thresholds, precise)
        plain = problem.objective(X @ coef, thresholds, float(coef @ coef))
        assert found.dual <= best.primal
        assert found.primal >= best.dual
        assert found.primal == pytest.approx(plain, rel=1e-11)
        assert found.primal >= plain - 1e-12
        # the bound does not depend on the thresholds of the model: its own are optimal
        assert found.dual >= best.dual - 1e5 * size**2


@pytest.mark.parametrize("link", LINKS)
def test_a_shift_of_the_samples_costs_no_digits_if_sums_are_precise(link):
    plain, shifted = (
        CumulativeLinkClassifier(link=link, alpha=1e-2).fit(*data(shift=s)).certificate_
        for s in (0.0, 2.0**20)
    )
    assert plain.converged
    assert shifted.converged
    assert shifted.primal == pytest.approx(plain.primal, rel=1e-7)


def test_sparse_samples_give_the_bounds_of_dense_ones():
    X, y = data()
    X[X < 0.5] = 0.0
    problem = CumulativeProblem("logit", y, np.ones(len(y)), 1.0)
    model = CumulativeLinkClassifier(alpha=1.0).fit(X, y)
    dense, sparse = (
        bounds(problem, A, model.coef_, model.thresholds_) for A in (X, sp.csr_array(X))
    )
    assert sparse.primal == pytest.approx(dense.primal, rel=1e-13)
    assert sparse.dual == pytest.approx(dense.dual, rel=1e-12)


def test_thresholds_that_meet_have_an_infinite_objective_and_a_bound_of_zero():
    X, y = data()
    problem = CumulativeProblem("logit", y, np.ones(len(y)), 1.0)
    found = bounds(problem, X, np.zeros(3), np.array([0.0, 0.0, 1.0]))
    assert found.primal == np.inf
    assert 0.0 <= found.dual < np.inf


def test_the_kkt_violation_is_the_gradient():
    X, y = data()
    problem = CumulativeProblem("probit", y, np.ones(len(y)), 1.0)
    coef, thresholds = np.array([0.3, -0.1, 0.2]), np.array([-1.0, 0.1, 0.9])
    violation = bracket(problem, X, coef, thresholds, blur=EXACT, precise=False)[1]
    by_threshold = np.abs(problem.slopes(X @ coef, thresholds).threshold).max()
    assert violation >= by_threshold * (1 - 1e-9)


def test_rounding_cannot_make_an_early_stop_worse_than_a_constant():
    """Samples at 1e12: the thresholds of the original data lose what tells the ranks apart."""
    X, y = data(shift=1e12)
    with pytest.warns(UserWarning, match="did not converge"):
        model = CumulativeLinkClassifier(max_iter=2).fit(X, y)
    share = np.bincount(y) / len(y)
    entropy = -float(np.bincount(y) @ np.log(share))
    assert model.certificate_.primal <= entropy * (1 + 1e-12)
