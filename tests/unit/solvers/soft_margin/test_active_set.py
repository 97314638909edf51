"""The active-set solver: warm starts, and the other ways to the same optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.bounds import certified
from widemargin import SVC, LinearSVC
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import c_classification, epsilon_tube
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin import solve

TOL = 1e-4


def _problem(name: str, C: float):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=300)
    cost = np.full(300, C)
    if name == "tube":
        return Rows(Kernel("rbf", 0.3), X), epsilon_tube(y, cost, 0.1)
    return Rows(Kernel("rbf", 0.3), X), c_classification(np.where(y > 0, 1.0, -1.0), cost)


def _solve(name: str, C: float, start=None):
    rows, problem = _problem(name, C)
    result = solve(problem, rows, tol=TOL, budget=Budget(10**6, cache_bytes=1e8), start=start)
    return result, certified(problem, rows, result, tol=TOL)


@pytest.mark.parametrize("name", ["hinge", "tube"])
def test_a_start_along_a_path_of_costs_saves_steps(name: str) -> None:
    before, _ = _solve(name, 1.0)
    cold, reference = _solve(name, 1.2)
    warm, certificate = _solve(name, 1.2, start=before)
    assert certificate.converged
    assert certificate.primal >= certificate.dual
    assert certificate.dual == pytest.approx(reference.dual, rel=1e-6)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("name", ["hinge", "tube"])
def test_an_infeasible_start_is_repaired(name: str) -> None:
    _, problem = _problem(name, 1.0)
    cold, reference = _solve(name, 1.0)
    outside = replace(cold, alpha=np.full(problem.n_variables, 5.0))
    result, certificate = _solve(name, 1.0, start=outside)
    assert abs(result.alpha.sum()) < 1e-9
    assert (result.alpha >= problem.lower).all()
    assert (result.alpha <= problem.upper).all()
    assert certificate.dual == pytest.approx(reference.dual, rel=1e-6)


# ---------------------------------------------------------------- the other ways to the optimum


def _clouds(n: int, d: int = 4):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1, 0)
    return X, y


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_sampling_ends_at_the_same_optimum(kernel: str) -> None:
    X, y = _clouds(3_000)
    reference = SVC(kernel=kernel, solver="smo", tol=1e-5).fit(X, y)
    sampled = SVC(kernel=kernel, solver="sampling", tol=1e-5).fit(X, y)
    assert sampled.certificate_.converged
    assert sampled.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
def test_many_rows_with_a_linear_kernel_are_solved_exactly(C: float, intercept: bool) -> None:
    X, y = _clouds(2_000)
    weight = np.random.default_rng(4).choice([0.0, 1.0, 2.5], 2_000)
    model = SVC(kernel="linear", C=C, fit_intercept=intercept).fit(X, y, weight)
    proof = model.certificate_
    assert proof.gap - proof.rounding < 1e-10 * proof.primal
    assert model.certificate_.kkt_violation < 1e-8
    features = LinearSVC(loss="hinge", C=C, fit_intercept=intercept, tol=1e-9).fit(X, y, weight)
    assert model.certificate_.primal == pytest.approx(features.certificate_.primal, rel=1e-8)
