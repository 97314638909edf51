"""Dual coordinate descent: objectives against Newton's method, feasible pairs, and its limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.problems.soft_margin import c_classification, epsilon_tube
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import coordinate_descent, solve
from widemargin.solvers.numerics.data_products import LinearRows

TOL = 1e-5


def documents(n, d, seed):
    """Return sparse samples with a last feature of ones, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.1, rng=rng, format="csr")
    score = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return X, np.where(score > np.quantile(score, 0.4), 1.0, -1.0), score


def problems():
    for seed, squared, intercept, C in itertools.product(
        range(3), (False, True), (False, True), (0.01, 1.0, 30.0)
    ):
        X, y, score = documents(80 + 70 * seed, 30 + 100 * seed, seed)
        cost = C * np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
        yield X, c_classification(y, cost, squared=squared, intercept=intercept)
        yield X, epsilon_tube(score, cost, 0.1, squared=squared, intercept=intercept)


@pytest.mark.parametrize("number", range(72))
def test_newtons_method_agrees(number):
    X, problem = next(itertools.islice(problems(), number, None))
    found = solve(problem, X, tol=TOL, budget=Budget(1000), method="coordinate_descent")
    exact = solve(problem, X, tol=1e-9, budget=Budget(1000), method="smoothed_newton")
    assert found.status == exact.status == "converged"
    scale = max(1.0, exact.primal)
    assert exact.primal - 1e-9 * scale <= found.primal <= exact.primal + TOL * scale
    assert exact.dual + 1e-9 * scale >= found.dual >= exact.dual - TOL * scale
    assert (problem.lower <= found.alpha).all()
    assert (found.alpha <= problem.upper).all()
    if problem.n_groups:
        assert abs(found.alpha.sum()) <= 1e-12 * np.abs(found.alpha).sum()


@pytest.mark.parametrize("constant", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_a_constant_feature_is_a_penalised_intercept(constant, squared, dense):
    X, y, _ = documents(90, 30, 5)
    X = sp.csr_array(sp.hstack([X, np.full((90, 1), constant)]))
    problem = c_classification(y, np.full(90, 2.0), squared=squared, intercept=False)
    found = solve(
        problem, X.toarray() if dense else X, tol=1e-4, budget=Budget(4000),
        method="coordinate_descent", constant=True,
    )  # fmt: skip
    exact = solve(problem, X, tol=1e-9, budget=Budget(1000), method="smoothed_newton")
    assert found.status == "converged"
    assert found.primal == pytest.approx(exact.primal, rel=1e-4)
    f = X @ found.coef
    assert found.primal == pytest.approx(problem.primal(f, found.coef @ found.coef, np.empty(0)))


def test_many_sweeps_are_left_to_another_method():
    X, y, _ = documents(400, 40, 1)
    problem = c_classification(y, np.full(400, 1e6), intercept=True)
    budget = Budget(1000)
    found = coordinate_descent.solve(problem, LinearRows(X), tol=1e-6, budget=budget)
    assert found.status == "stalled"
    assert budget.used <= coordinate_descent.SPARSE_SWEEPS
    assert solve(problem, X, tol=1e-6, budget=Budget(1000)).status == "converged"


def test_the_monitor_ends_a_run_with_a_valid_pair():
    X, y, _ = documents(3000, 500, 2)
    problem = c_classification(y, np.full(3000, 100.0))
    budget = Budget(1000, lambda steps, gap: steps < 3)
    found = solve(problem, X, tol=1e-6, budget=budget, method="coordinate_descent")
    assert found.status == "stopped"
    assert found.dual <= found.primal < np.inf


def test_results_do_not_depend_on_threads():
    X, y, _ = documents(5000, 800, 3)
    problem = c_classification(y, np.full(5000, 0.5))
    one, two = (
        coordinate_descent.solve(
            problem, LinearRows(X, threads=threads), tol=TOL, budget=Budget(1000)
        )
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.coef, two.coef)
    np.testing.assert_array_equal(one.alpha, two.alpha)


def test_samples_of_zeros_and_single_features():
    X = sp.csr_array(np.array([[0.0], [0.0], [2.0], [0.0], [-1.0]]))
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for intercept in (False, True):
        problem = c_classification(y, np.ones(5), intercept=intercept)
        found = solve(problem, X, tol=TOL, budget=Budget(1000), method="coordinate_descent")
        exact = solve(problem, X, tol=1e-9, budget=Budget(1000), method="smoothed_newton")
        assert found.primal == pytest.approx(exact.primal, rel=TOL)
