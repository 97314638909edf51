"""Tubes in the linear solver: feasible dual points, gaps, warm starts, budgets, symmetries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.problems.soft_margin import epsilon_tube
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import levels, solve

both = pytest.mark.parametrize("squared", [False, True], ids=["linear", "squared"])


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 5.0 + rng.standard_t(3, size=n)


def solved(X, y, cost=1.0, epsilon=0.3, *, tol=1e-8, max_iter=1000, **options):
    arguments = {key: options.pop(key) for key in ("squared", "intercept") if key in options}
    problem = epsilon_tube(y, np.full(len(y), cost), epsilon, **arguments)
    budget = options.pop("budget", Budget(max_iter))
    return problem, solve(problem, X, tol=tol, budget=budget, **options)


def check(problem, X, found, tol):
    """The dual point is feasible, and the gap of the recomputed objectives is as asked."""
    assert (found.alpha >= problem.lower).all()
    assert (found.alpha <= problem.upper).all()
    if problem.n_groups:
        assert abs(found.alpha.sum()) <= 1e-12 * np.abs(found.alpha).sum()
    beta = problem.coefficients(found.alpha)
    norm2 = float(np.sum((beta @ X) ** 2))
    primal = problem.primal(X @ found.coef, float(found.coef @ found.coef), found.thresholds)
    dual = problem.dual(found.alpha, norm2)
    assert found.primal == pytest.approx(primal, rel=1e-10)
    assert found.dual == pytest.approx(dual, rel=1e-10)
    assert -1e-10 * primal <= primal - dual <= tol * max(1.0, primal)
    assert found.status == "converged"


@both
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_the_gap_is_reached_with_a_feasible_dual_point(epsilon, intercept, squared):
    X, y = data()
    problem, found = solved(X, y, epsilon=epsilon, squared=squared, intercept=intercept)
    check(problem, X, found, 1e-8)
    assert found.alpha.shape == (2 * len(y),)


@both
@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_many_samples_are_subsampled_and_screened(as_given, squared, monkeypatch):
    monkeypatch.setattr(levels, "SMALL", 500)
    monkeypatch.setattr(levels, "COPY", 100)
    X, y = data(6_000, 5)
    parts = []
    restricted = levels._restricted
    monkeypatch.setattr(levels, "_restricted", lambda *a: parts.append(1) or restricted(*a))
    problem, found = solved(as_given(X), y, epsilon=0.5, squared=squared, tol=1e-10)
    check(problem, X, found, 1e-10)
    assert squared or parts


@both
def test_a_warm_start_takes_fewer_steps_and_reaches_the_same_optimum(squared):
    X, y = data()
    _, first = solved(X, y, squared=squared)
    problem, again = solved(X, y, squared=squared, start=first)
    check(problem, X, again, 1e-8)
    assert again.n_iter <= first.n_iter
    assert again.primal == pytest.approx(first.primal, rel=1e-7)


@both
def test_scaled_and_shifted_targets_scale_and_shift_the_model(squared):
    X, y = data()
    scale, shift = 1e-3, 40.0
    _, one = solved(X, y, squared=squared, tol=1e-10)
    # The objective is multiplied by scale^2; the costs of the linear loss by scale.
    cost = 1.0 if squared else scale
    _, other = solved(
        X, scale * y + shift, cost, 0.3 * scale, squared=squared, tol=1e-10 * scale**2
    )
    assert other.coef == pytest.approx(scale * one.coef, rel=1e-4, abs=1e-9)
    assert other.intercept == pytest.approx(scale * one.intercept + shift, rel=1e-7)
    assert other.primal == pytest.approx(scale**2 * one.primal, rel=1e-6)


@both
def test_negative_targets_give_the_negative_model(squared):
    X, y = data()
    _, one = solved(X, y, squared=squared, tol=1e-10)
    _, other = solved(X, -y, squared=squared, tol=1e-10)
    assert other.coef == pytest.approx(-one.coef, rel=1e-5, abs=1e-7)
    assert other.intercept == pytest.approx(-one.intercept, rel=1e-6)


@both
@pytest.mark.parametrize("n", [30, 2_000])
def test_the_intercept_is_the_middle_of_its_interval(squared, n):
    X, y = np.zeros((n, 2)), np.linspace(1.0, 3.0, n)
    _, found = solved(X, y, epsilon=5.0, squared=squared)
    assert found.coef.tolist() == [0.0, 0.0]
    assert found.intercept == pytest.approx(2.0)
    _, found = solved(X[: n // 2 * 2], y[: n // 2 * 2], epsilon=0.0, squared=squared)
    assert found.intercept == pytest.approx(2.0)  # median and mean


def test_constant_targets_are_fitted_exactly():
    X, _ = data()
    _, found = solved(X, np.full(len(X), -7.0), epsilon=0.0)
    assert found.intercept == pytest.approx(-7.0)
    assert found.primal == 0.0


def test_a_budget_ends_the_run_with_valid_bounds():
    X, y = data(3_000, 20)
    _, found = solved(X, y, 100.0, tol=1e-12, max_iter=2)
    assert found.status == "max_iter"
    assert found.dual <= found.primal
    _, best = solved(X, y, 100.0, tol=1e-10)
    assert found.dual <= best.primal <= found.primal
    stop = Budget(1000, lambda steps, gap: steps < 3)
    _, stopped = solved(X, y, 100.0, tol=1e-12, budget=stop)
    assert stopped.status == "stopped"
    assert stopped.dual <= best.primal <= stopped.primal


def test_out_of_core_is_for_classifiers():
    X, y = data(50)
    with pytest.raises(ValueError, match="out_of_core"):
        solved(X, y, method="out_of_core")
