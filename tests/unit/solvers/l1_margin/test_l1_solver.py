"""The l1 solver: degenerate features, models that are empty, warm starts, budgets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.problems.l1_margin import L1Margin
from widemargin.solvers.base import Budget
from widemargin.solvers.l1_margin import LinearRows, solve
from widemargin.solvers.l1_margin.local_model import ColumnModel, GramModel, minimise, model_value


def blobs(n=80, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] - 0.5 * X[:, -1] + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    return X, y


def gap(problem, X, found, tol):
    proof = problem.certificate(
        LinearRows(X), found.coef, found.intercept, found.alpha, tol=tol, n_iter=1
    )
    return proof.relative_gap


@pytest.mark.parametrize("intercept", [True, False])
def test_below_the_smallest_C_the_model_is_empty(intercept):
    X, y = blobs()
    _, alpha = L1Margin(y, np.ones(80), intercept).empty_model()
    least = 1.0 / np.abs(X.T @ (y * alpha)).max()
    below = solve(
        L1Margin(y, np.full(80, 0.999 * least), intercept), X, tol=1e-9, budget=Budget(50)
    )
    above = solve(L1Margin(y, np.full(80, 1.01 * least), intercept), X, tol=1e-9, budget=Budget(50))
    assert not below.coef.any()
    assert np.count_nonzero(above.coef) == 1
    assert below.status == above.status == "converged"


def test_features_without_information_have_no_weight():
    X, y = blobs()
    Z = np.hstack([X, np.zeros((80, 1)), np.full((80, 1), 7.0), np.full((80, 1), -1e6)])
    problem = L1Margin(y, np.ones(80))
    for data in (Z, sp.csr_array(Z), Z.astype(np.float32)):
        found = solve(problem, data, tol=1e-8, budget=Budget(100))
        assert found.status == "converged"
        assert not found.coef[6:].any()
        assert gap(problem, data, found, 1e-8) <= 1e-8


def test_equal_features_do_not_change_the_optimum():
    X, y = blobs()
    problem = L1Margin(y, np.full(80, 3.0))
    once = solve(problem, X, tol=1e-9, budget=Budget(100))
    twice = solve(problem, np.hstack([X, X, -X]), tol=1e-9, budget=Budget(100))
    assert twice.status == "converged"
    assert twice.primal == pytest.approx(once.primal, rel=1e-8)


def test_only_features_of_zeros():
    y = np.array([1.0, -1.0, -1.0])
    found = solve(L1Margin(y, np.ones(3)), np.zeros((3, 2)), tol=1e-9, budget=Budget(10))
    assert found.status == "converged"
    assert not found.coef.any()
    assert found.intercept == pytest.approx(-1 / 3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_scales_of_one_feature(scale, C):
    X, y = blobs(40, 1, seed=2)
    problem = L1Margin(y, np.full(40, C))
    found = solve(problem, scale * X, tol=1e-7, budget=Budget(100))
    assert found.status == "converged"
    # Multipliers are float64 numbers: no multiple of them is feasible to more digits than this.
    feasible = 4 * np.finfo(float).eps * float(np.abs(found.alpha) @ np.abs(scale * X[:, 0]))
    assert gap(problem, scale * X, found, 1e-7) <= 1e-7 + feasible


def test_separable_data_and_large_costs():
    X, y = blobs()
    y = np.sign(X[:, 0] + 0.2 * X[:, 1])
    problem = L1Margin(y, np.full(80, 1e6))
    found = solve(problem, X, tol=1e-6, budget=Budget(500))
    assert found.status == "converged"
    assert (y * (X @ found.coef + found.intercept)).min() > 0.9


def test_warm_starts():
    X, y = blobs()
    problem = L1Margin(y, np.full(80, 2.0))
    cold = solve(problem, X, tol=1e-9, budget=Budget(100))
    warm = solve(problem, X, tol=1e-9, budget=Budget(100), start=cold)
    assert warm.n_iter == 1
    assert warm.primal == pytest.approx(cold.primal, rel=1e-9)
    # A start without any loss, and one far away with a weight on a feature of zeros.
    Z = np.hstack([np.column_stack([y, X]), np.zeros((80, 1))])
    first = solve(problem, Z, tol=1e-9, budget=Budget(100))
    far = type(first)(
        coef=np.r_[50.0, np.zeros(6), 1.0], thresholds=np.zeros(1), n_iter=1, status="converged"
    )
    again = solve(problem, Z, tol=1e-9, budget=Budget(100), start=far)
    assert again.status == "converged"
    assert again.primal == pytest.approx(first.primal, rel=1e-8)
    assert again.coef[-1] == 0.0


def test_the_budget_and_the_monitor_end_a_run():
    X, y = blobs(200, 40)
    problem = L1Margin(y, np.full(200, 10.0))
    found = solve(problem, X, tol=1e-12, budget=Budget(1))
    assert found.status == "max_iter"
    seen = []
    stopped = solve(
        problem, X, tol=1e-12, budget=Budget(99, lambda n, gap: seen.append((n, gap)) or n < 2)
    )
    assert stopped.status == "stopped"
    assert [n for n, _ in seen] == [1, 2]
    assert seen[1][1] <= seen[0][1]
    assert 0.0 <= gap(problem, X, stopped, 1e-3) < 1.0


@pytest.mark.parametrize("intercept", [True, False])
def test_both_forms_of_the_model_have_the_same_minimum(intercept):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 12)) * (rng.random((50, 12)) < 0.5)
    used = np.arange(0, 50, 2)
    h = rng.uniform(0.5, 2.0, 25)
    mean = h @ X[used] / h.sum() if intercept else np.zeros(12)
    pull = rng.normal(size=25)
    slope = 3.0 * (X[used] - mean).T @ (pull - (pull @ h / h.sum() if intercept else 0.0))
    w = np.where(rng.random(12) < 0.5, rng.normal(size=12), 0.0)
    one = GramModel(LinearRows(X), used, h, mean, slope, w)
    two = ColumnModel(
        LinearRows(sp.csr_array(X)), sp.csc_array(X), used, h, mean, slope, w, intercept=intercept
    )
    for model in (one, two):
        for _ in range(20):
            minimise(model, 1e-10)
    assert model_value(one) == pytest.approx(model_value(two), rel=1e-9)
    assert one.gradient() == pytest.approx(two.gradient(), abs=1e-6)
    used = one.v != 0
    assert one.gradient()[used] == pytest.approx(-np.sign(one.v[used]), abs=1e-6)
