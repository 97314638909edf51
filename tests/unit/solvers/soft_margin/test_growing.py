"""A training set that violators join: the optimum of all rows, with fewer kernel values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.bounds import certified
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import (
    c_classification,
    epsilon_tube,
    nu_classification,
    nu_tube,
)
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin import growing, solve


def curved(n=6_000, gap=0.2):
    """Rows on both sides of a curved gap: few support vectors at a large C."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (2 * n, 3))
    height = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    X, height = X[np.abs(height) > gap][:n], height[np.abs(height) > gap][:n]
    return X, np.sign(height), height + 0.1 * rng.standard_normal(len(height))


def kernel_problem(name, n=6_000):
    X, y, height = curved(n)
    cost = np.full(len(y), 100.0)
    problems = {
        "hinge": lambda: c_classification(y, cost),
        "squared": lambda: c_classification(y, cost, squared=True),
        "no intercept": lambda: c_classification(y, cost, intercept=False),
        "noisy": lambda: c_classification(np.where(np.arange(len(y)) % 40, y, -y), cost / 100),
        "nu": lambda: nu_classification(y, np.ones(len(y)), 0.02),
        "tube": lambda: epsilon_tube(height, cost / 100, 0.25),
        "nu tube": lambda: nu_tube(height, cost / 100, 0.05),
    }
    return Rows(Kernel("rbf", 0.5), X), problems[name]()


def run(problem, rows, method="sampling", *, max_iter=10**7, monitor=None, **options):
    budget = Budget(max_iter, monitor, cache_bytes=2e8)
    return solve(problem, rows, tol=1e-3, budget=budget, method=method, **options)


@pytest.mark.parametrize(
    "name", ["hinge", "squared", "no intercept", "noisy", "nu", "tube", "nu tube"]
)
def test_growing_sets_end_at_the_optimum(name) -> None:
    rows, problem = kernel_problem(name)
    reference = run(problem, rows, "auto")
    bound = certified(problem, rows, reference, tol=1e-3)
    for seed in (0, 1):
        found = run(problem, rows, seed=seed)
        certificate = certified(problem, rows, found, tol=1e-3)
        assert (found.status, certificate.converged) == ("converged", True)
        assert certificate.primal >= bound.dual - 1e-9 * abs(bound.dual)
        assert certificate.dual <= bound.primal + 1e-9 * abs(bound.primal)
        assert certificate.relative_gap < 2e-3


def test_growing_pays_where_support_vectors_are_few() -> None:
    rows, problem = kernel_problem("hinge", n=30_000)
    run(problem, rows, "auto")
    usual = rows.evaluations
    found = run(problem, rows)
    assert np.count_nonzero(found.alpha) < 300
    assert rows.evaluations - usual < usual / 3


def test_too_many_support_vectors_are_left_to_the_other_solver(monkeypatch) -> None:
    rows, problem = kernel_problem("noisy")
    monkeypatch.setattr(growing, "LARGEST_SET", 600)
    found = run(problem, rows)
    assert certified(problem, rows, found, tol=1e-3).converged


def test_growing_sets_keep_to_their_budget() -> None:
    rows, problem = kernel_problem("hinge")
    short = run(problem, rows, max_iter=50)
    assert short.status == "max_iter"
    assert abs(short.alpha.sum()) < 1e-9
    assert (short.alpha >= problem.lower).all()
    assert (short.alpha <= problem.upper).all()
    stopped = run(problem, rows, monitor=lambda *_: False)
    assert stopped.status == "stopped"


def test_small_kernel_machines_and_warm_starts_need_no_sample() -> None:
    rows, problem = kernel_problem("hinge", n=300)
    cold = run(problem, rows)
    usual = run(problem, rows, "auto")
    np.testing.assert_array_equal(cold.alpha, usual.alpha)
    warm = run(problem, rows, start=cold)
    assert warm.n_iter <= 1
