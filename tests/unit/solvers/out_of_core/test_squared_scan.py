"""Squared hinge by scans: the optimum of LinearSVC, a true bound at every pass."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin import LinearSVC
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.out_of_core import squared
from widemargin.solvers.out_of_core.proof import proved


def solve_squared(source, C, *, intercept, tol, max_iter, monitor=None, start=None):
    """Solve without a sample."""
    problem = LinearProblem("squared_hinge", C, intercept)
    return squared.solve_squared(
        problem, source, tol=tol, budget=Budget(max_iter, monitor), start=start
    )


class HeldPart:
    """Rows in memory, handed out seven at a time."""

    def __init__(self, X, y, weight) -> None:
        self.arrays = X, y, weight

    def blocks(self):
        X, y, weight = self.arrays
        for k in range(0, len(X), 7):
            yield k, X[k : k + 7], y[k : k + 7], weight[k : k + 7]


class HeldSource:
    def __init__(self, X, y, weight, n_parts: int) -> None:
        pieces = (np.array_split(a, n_parts) for a in (X, y, weight))
        self.parts = [HeldPart(*piece) for piece in zip(*pieces, strict=True)]
        self.sizes = [len(part.arrays[1]) for part in self.parts]
        self.n_features = X.shape[1]

    def run(self, task, arguments):
        return [task(part, *some) for part, some in zip(self.parts, arguments, strict=True)]


def _data(seed: int, n: int = 200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [0.1, 1, 1, 10] + 3.0
    y = np.sign((X - 3.0) @ rng.normal(size=4) + rng.normal(size=n))
    return X, y, rng.choice([0.0, 0.5, 1.0, 3.0], n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_the_machine_in_memory(seed: int, C: float, intercept: bool) -> None:
    X, y, weight = _data(seed)
    source = HeldSource(X, y, weight, 3)
    found = solve_squared(source, C, intercept=intercept, tol=1e-10, max_iter=100)
    # As `solve` does: a gap that rounding keeps above tol takes a read in more digits.
    found = proved(LinearProblem("squared_hinge", C, intercept), source, found, 1e-10)
    assert found.status == "converged"
    assert found.primal - found.dual <= 1e-10 * max(1.0, found.primal)
    held = LinearSVC(C=C, loss="squared_hinge", fit_intercept=intercept, tol=1e-9).fit(X, y, weight)
    assert found.primal == pytest.approx(held.certificate_.primal, rel=1e-8)
    slack = np.maximum(0.0, 1 - y * (X @ found.coef + found.intercept))
    by_hand = 0.5 * found.coef @ found.coef + C * weight @ slack**2
    assert found.primal == pytest.approx(by_hand, rel=1e-11)  # rounded up


@pytest.mark.parametrize("intercept", [True, False])
def test_every_bound_on_the_way_is_below_the_optimum(intercept: bool) -> None:
    X, y, weight = _data(7)
    source = HeldSource(X, y, weight, 2)
    found = solve_squared(source, 10.0, intercept=intercept, tol=1e-12, max_iter=100)
    assert len(found.history) == found.passes > 2
    for entry in found.history:
        assert entry["dual"] <= found.primal * (1 + 1e-12) <= entry["primal"] * (1 + 2e-12)
    again = solve_squared(source, 10.0, intercept=intercept, tol=1e-9, max_iter=9, start=found)
    assert again.passes == 1


def test_parts_change_nothing_but_rounding() -> None:
    X, y, weight = _data(8)
    options = {"intercept": True, "tol": 1e-12, "max_iter": 50}
    one = solve_squared(HeldSource(X, y, weight, 1), 1.0, **options)
    many = solve_squared(HeldSource(X[::-1], y[::-1], weight[::-1], 9), 1.0, **options)
    np.testing.assert_allclose(many.coef, one.coef, rtol=1e-9)
    single = solve_squared(HeldSource(X.astype(np.float32), y, weight, 4), 1.0, **options)
    np.testing.assert_allclose(single.coef, one.coef, rtol=1e-4)


def test_a_budget_and_a_monitor_end_it_with_an_honest_gap() -> None:
    X, y, weight = _data(9)
    source = HeldSource(X, y, weight, 2)
    short = solve_squared(source, 1e3, intercept=True, tol=1e-12, max_iter=2)
    assert (short.status, short.passes) == ("max_iter", 2)
    best = solve_squared(source, 1e3, intercept=True, tol=1e-12, max_iter=50)
    assert short.dual <= best.primal <= short.primal
    stopped = solve_squared(
        source, 1e3, intercept=True, tol=1e-12, max_iter=50, monitor=lambda steps, gap: steps < 3
    )
    assert (stopped.status, stopped.passes) == ("stopped", 3)


def test_separable_rows_and_a_single_class() -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    found = solve_squared(
        HeldSource(X, y, np.ones(4), 2), 1e6, intercept=True, tol=1e-10, max_iter=50
    )
    np.testing.assert_allclose(found.coef, [1.0], rtol=1e-5)
    alone = solve_squared(
        HeldSource(X[2:], y[2:], np.ones(2), 1), 1.0, intercept=True, tol=1e-10, max_iter=50
    )
    np.testing.assert_allclose(alone.coef, 0.0, atol=1e-12)
    assert alone.primal <= 1e-10
