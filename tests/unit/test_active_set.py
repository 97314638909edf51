"""Warm starts of the band solver: the same optimum in fewer steps."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import c_classification, epsilon_tube
from widemargin.solvers.active_set import solve

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
    result = solve(problem, rows, tol=TOL, max_iter=10**6, cache_bytes=1e8, start=start)
    return result, problem.certificate(result.b, result.f, tol=TOL, n_iter=result.n_iter)


@pytest.mark.parametrize("name", ["hinge", "tube"])
def test_a_start_along_a_path_of_costs_saves_steps(name: str) -> None:
    before, _ = _solve(name, 1.0)
    cold, reference = _solve(name, 1.2)
    warm, certificate = _solve(name, 1.2, start=before.b)
    assert certificate.converged
    assert certificate.primal >= certificate.dual
    assert certificate.dual == pytest.approx(reference.dual, rel=1e-6)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("name", ["hinge", "tube"])
def test_an_infeasible_start_is_repaired(name: str) -> None:
    _, problem = _problem(name, 1.0)
    _, reference = _solve(name, 1.0)
    result, certificate = _solve(name, 1.0, start=np.full(problem.n_variables, 5.0))
    assert abs(result.b.sum()) < 1e-9
    assert (result.b >= problem.lower).all()
    assert (result.b <= problem.upper).all()
    assert certificate.dual == pytest.approx(reference.dual, rel=1e-6)
