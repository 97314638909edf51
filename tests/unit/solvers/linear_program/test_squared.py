"""Programs with squared slack: the active-set Newton method and its interior-point fallback."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from widemargin._base.typing import FloatArray
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import LIMIT, MarginProgram, adaptive_margin, limits
from widemargin.solvers.base import Budget
from widemargin.solvers.linear_program import ProgramResult, solve
from widemargin.solvers.linear_program.squared.columns import factored
from widemargin.solvers.linear_program.squared.interior import interior_points


def drawn(
    n: int, seed: int = 0, gamma: float = 0.5, lam: float = 1.0, shift: float = 0.5
) -> tuple[MarginProgram, Rows]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    rows = Rows(Kernel("rbf", gamma=gamma), rng.normal(size=(n, 2)) + shift * y[:, None])
    k = rows.diagonal()
    return adaptive_margin(y, np.ones(n), k, limits(k, k), lam, squared=True), rows


def solved(problem: MarginProgram, rows: Rows, steps: int = 100, **given) -> ProgramResult:
    memory = given.pop("cache_bytes", 5e8)
    budget = Budget(steps, given.pop("monitor", None), memory)
    return solve(problem, rows, tol=1e-6, budget=budget, **given)


def matrix(problem: MarginProgram, rows: Rows) -> FloatArray:
    y, every = problem.y, np.arange(rows.n)
    return y[:, None] * rows.block(every, rows, every) * y - np.diag(problem.shift)


@pytest.mark.parametrize("lam", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("n", [2, 40, 150])
def test_the_optimality_conditions_hold(n: int, lam: float) -> None:
    """z = 2 w xi, G z <= 0, and G z = 0 wherever there is a coefficient."""
    problem, rows = drawn(n, seed=n, lam=lam)
    found = solved(problem, rows)
    assert found.status == "converged"
    G, alpha = matrix(problem, rows), found.alpha
    z = 2.0 * np.maximum(0.0, 1.0 - G @ alpha)
    pull = G @ z
    size = max(1.0, z.sum())
    assert pull.max() <= 1e-9 * size
    assert np.abs(pull[alpha > 0]).max(initial=0.0) <= 1e-9 * size
    assert problem.is_optimal(alpha, found.f, found.z, found.g, 1e-9)


def test_an_optimum_without_slack_is_that_of_the_linear_program() -> None:
    problem, rows = drawn(30, shift=3.0)
    found, linear = solved(problem, rows), solved(problem.linear, rows)
    np.testing.assert_array_equal(found.alpha, linear.alpha)
    assert not found.z.any()
    assert problem.primal(found.alpha, found.f) == 0.0


def test_a_start_changes_the_way_and_not_the_optimum() -> None:
    problem, rows = drawn(80, lam=2.0)
    near = replace(problem, shift=1.1 * problem.shift)
    start = solved(near, rows)
    one, other = solved(problem, rows, start=start), solved(problem, rows)
    assert one.status == other.status == "converged"
    np.testing.assert_allclose(one.f, other.f, atol=1e-8)
    assert one.n_iter < other.n_iter


def test_weights_are_copies() -> None:
    problem, rows = drawn(30)
    twice = Rows(rows.kernel, np.tile(rows.X, (2, 1)))
    k = twice.diagonal()
    copies = adaptive_margin(np.tile(problem.y, 2), np.ones(60), k, limits(k, k), 1.0, squared=True)
    k = rows.diagonal()
    heavy = adaptive_margin(problem.y, np.full(30, 2.0), k, limits(k, k), 1.0, squared=True)
    one, other = solved(copies, twice), solved(heavy, rows)
    np.testing.assert_allclose(one.f[:30], other.f, atol=1e-8)


def test_narrow_kernels_are_solved_from_inside() -> None:
    """Coefficients from 1 to their limit, where Newton steps end at the first bound."""
    problem, rows = drawn(40, gamma=30.0, shift=0.2)
    found = solved(problem, rows)
    assert found.status == "converged"
    assert found.alpha.max() >= 0.1 * LIMIT


def test_interior_points_are_near_the_optimum() -> None:
    problem, rows = drawn(60)
    G, ones = matrix(problem, rows), np.ones(60)
    x, kept = interior_points(G, ones, np.zeros(60), Budget(100))
    slack, z = np.maximum(0.0, 1.0 - G @ x), kept[-1]
    assert (G @ z).max() <= 1e-9
    assert slack @ slack == pytest.approx(z.sum() - 0.25 * z @ z, rel=1e-8)


def test_a_spent_budget_is_admitted() -> None:
    problem, rows = drawn(300, gamma=3.0, lam=4.0, shift=0.1)
    found = solved(problem, rows, steps=1)
    assert found.status == "max_iter"
    assert problem.primal(found.alpha, found.f) <= 300
    assert 0.0 <= problem.dual(found.z, found.g) <= problem.primal(found.alpha, found.f)


def test_the_monitor_can_stop_it() -> None:
    problem, rows = drawn(150, lam=4.0, shift=0.1)
    calls: list[float] = []

    def twice(steps: int, violation: float) -> bool:
        calls.append(violation)
        return len(calls) < 2

    found = solved(problem, rows, monitor=twice, start=solved(problem.linear, rows))
    assert found.status == "stopped"
    assert len(calls) == 2


def test_too_little_memory_is_refused() -> None:
    problem, rows = drawn(150)
    start = solved(problem.linear, rows)
    with pytest.raises(MemoryError, match="raise it"):
        solved(problem, rows, start=start, cache_bytes=1e3)


def test_the_same_data_give_the_same_bits() -> None:
    problem, rows = drawn(70)
    one, other = solved(problem, rows), solved(problem, rows)
    np.testing.assert_array_equal(one.alpha, other.alpha)
    np.testing.assert_array_equal(one.z, other.z)


def test_columns_that_depend_on_others_are_left_out() -> None:
    rng = np.random.default_rng(0)
    M = rng.normal(size=(20, 4))
    M[:, 3] = M[:, 0] - 2.0 * M[:, 1]
    M[:, 2] *= 1e-9  # tiny, but not dependent
    Q, R, order = factored(M, 0.0)
    assert R.shape == (3, 3)
    assert 2 in order[:3]
    np.testing.assert_allclose(Q @ R, M[:, order[:3]], atol=1e-12)
    damped = factored(M, 0.5)[1]
    assert damped.shape == (4, 4)
