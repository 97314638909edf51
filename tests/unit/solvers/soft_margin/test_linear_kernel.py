"""The linear kernel in the soft-margin door: which algorithm it takes, and what it returns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import epsilon_tube, nu_tube
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget


def tube(n, d=3, C=1.0):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, epsilon_tube(X @ rng.normal(size=d) + rng.normal(size=n), np.full(n, C), 0.1)


@pytest.fixture
def taken(monkeypatch):
    """Return the list of the algorithms that were used."""
    names = []
    for name in ("linear", "on_demand", "active_set"):
        place = getattr(soft_margin, name)
        solve = place.solve

        def noted(*arguments, solve=solve, name=name, **options):
            names.append(name)
            return solve(*arguments, **options)

        monkeypatch.setattr(place, "solve", noted)
    return names


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_many_samples_of_a_tube_are_solved_by_the_linear_solver(taken, as_given):
    X, problem = tube(400)
    rows = Rows(Kernel("linear"), as_given(X))
    found = soft_margin.solve(problem, rows, tol=1e-6, budget=Budget(1000))
    assert taken == ["linear"]
    assert found.status == "converged"
    f = X @ (X.T @ problem.coefficients(found.alpha))
    assert found.f == pytest.approx(f, abs=1e-10)
    assert problem.kkt_violation(found.alpha, f) <= 1e-6
    assert (found.alpha >= problem.lower).all()
    assert (found.alpha <= problem.upper).all()


def test_few_samples_many_features_and_two_thresholds_are_not(taken):
    for n, d in ((100, 3), (300, 200)):
        X, problem = tube(n, d)
        soft_margin.solve(problem, Rows(Kernel("linear"), X), tol=1e-3, budget=Budget(100_000))
    X, problem = tube(400)
    problem = nu_tube(problem.target[:400], np.ones(400), 0.5)
    soft_margin.solve(problem, Rows(Kernel("linear"), X), tol=1e-3, budget=Budget(100_000))
    assert taken == ["on_demand"] * 3


def test_pair_steps_continue_where_the_linear_solver_did_not_arrive(taken):
    X, problem = tube(400)
    rows = Rows(Kernel("linear"), X)
    soft_margin.solve(problem, rows, tol=1e-3, budget=Budget(1))
    assert taken == ["linear", "on_demand"]


def test_both_have_the_same_optimum():
    X, problem = tube(300, C=0.05)
    rows = Rows(Kernel("linear"), X)
    duals = []
    for method in ("auto", "smo"):
        found = soft_margin.solve(problem, rows, tol=1e-7, budget=Budget(10**6), method=method)
        norm2 = float(problem.coefficients(found.alpha) @ found.f)
        duals.append(problem.dual(found.alpha, norm2))
    assert duals[0] == pytest.approx(duals[1], rel=1e-8)
