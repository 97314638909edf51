"""The door to the linear programs, and the pivots behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import (
    LIMIT,
    MarginProgram,
    adaptive_margin,
    largest_lam,
    limits,
    lp_machine,
    nu_lp_machine,
)
from widemargin.solvers import linear_program
from widemargin.solvers.base import Budget, Monitor
from widemargin.solvers.linear_program import ProgramResult, solve
from widemargin.solvers.linear_program.simplex import solve_simplex

MACHINES = ("leave-one-out", "adaptive", "LP", "nu")


def _data(n: int, seed: int, shift: float = 0.5, d: int = 3) -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return random.normal(size=(n, d)) + shift * y[:, None], y


def _program(
    machine: str, rows: Rows, y: FloatArray, weight: FloatArray | None = None, value: float = 0.4
) -> MarginProgram:
    w = np.ones(len(y)) if weight is None else weight
    every = np.arange(rows.n)
    k = rows.diagonal()
    u = limits(k, np.abs(rows.block(every, rows, every)).max(axis=0))
    if machine == "LP":
        return lp_machine(y, w, u, value)
    if machine == "nu":
        return nu_lp_machine(y, w, u, value)
    return adaptive_margin(y, w, k, u, 1.0 if machine == "leave-one-out" else value)


def _solved(
    problem: MarginProgram,
    rows: Rows,
    start: ProgramResult | None = None,
    method: str = "auto",
    max_iter: int = 100,
    cache_bytes: float = 5e8,
    monitor: Monitor | None = None,
) -> ProgramResult:
    budget = Budget(max_iter, monitor, cache_bytes)
    return solve(problem, rows, tol=1e-6, budget=budget, start=start, method=method)


def _reference(problem: MarginProgram, rows: Rows) -> float:
    """Return the optimum by scipy's HiGHS on the primal, stated here once more."""
    n = problem.n_rows
    every = np.arange(n)
    K = rows.block(every, rows, every)
    G = problem.y[:, None] * K * problem.y - np.diag(problem.shift)
    if problem.nu is None:
        cost = np.concatenate([np.full(n, problem.price), problem.weight])
        A = -np.hstack([G, np.eye(n)])
        box = [*((0, u) for u in problem.limit), *[(0, None)] * n]
        return float(linprog(cost, A_ub=A, b_ub=-np.ones(n), bounds=box).fun)
    cost = np.concatenate([np.zeros(n), problem.cost, [-problem.nu]])
    A = -np.hstack([G, np.eye(n), -np.ones((n, 1))])
    one = np.concatenate([np.ones(n), np.zeros(n + 1)])[None]
    box = [*[(0, None)] * (2 * n), (None, None)]
    return float(linprog(cost, A_ub=A, b_ub=np.zeros(n), A_eq=one, b_eq=[1], bounds=box).fun)


def _certificate(problem: MarginProgram, rows: Rows, found: ProgramResult) -> Certificate:
    return problem.certificate(rows, found.alpha, found.z, tol=1e-6, n_iter=found.n_iter)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "kernel",
    [Kernel("rbf", gamma=0.3), Kernel("linear"), Kernel("poly", gamma=0.5, degree=2, coef0=1.0)],
    ids=lambda kernel: kernel.name,
)
@pytest.mark.parametrize("n", [2, 30, 120])
def test_the_optimum_is_that_of_highs(machine: str, kernel: Kernel, n: int) -> None:
    X, y = _data(n, seed=n)
    rows = Rows(kernel, X)
    problem = _program(machine, rows, y)
    found = _solved(problem, rows)
    certificate = _certificate(problem, rows, found)
    assert found.status == "converged"
    assert certificate.converged
    assert certificate.primal == pytest.approx(_reference(problem, rows), rel=1e-6, abs=1e-7)
    assert certificate.dual <= certificate.primal + 1e-9


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_ties_do_not_go_round_in_circles(machine: str, seed: int) -> None:
    """A grid of whole numbers: copies, conflicting labels, rows that meet in many vertices."""
    X, y = _data(90, seed)
    weight = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], size=90)
    rows = Rows(Kernel("linear"), np.round(X))
    problem = _program(machine, rows, y, weight, value=0.9)
    found = _solved(problem, rows)
    assert found.status == "converged"
    primal = problem.primal(found.alpha, found.f)
    assert primal == pytest.approx(_reference(problem, rows), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("machine", MACHINES)
def test_values_and_boxes_are_what_they_are_said_to_be(machine: str) -> None:
    X, y = _data(80, seed=5)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=80)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program(machine, rows, y, weight)
    found = _solved(problem, rows)
    every = np.arange(80)
    K = rows.block(every, rows, every)
    np.testing.assert_allclose(found.f, K @ (y * found.alpha), atol=1e-10)
    np.testing.assert_allclose(found.g, K @ (y * found.z), atol=1e-10)
    assert (found.alpha >= 0).all()
    assert (found.z >= 0).all()
    assert (found.z <= problem.cost).all()
    if problem.nu is not None:
        assert found.alpha.sum() == pytest.approx(1.0, abs=1e-12)
        assert found.z.sum() == pytest.approx(problem.nu, abs=1e-12)


def test_the_vertex_is_small() -> None:
    """As many coefficients as margins that are exactly 1."""
    X, y = _data(200, seed=1)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program("leave-one-out", rows, y)
    found = _solved(problem, rows)
    margins = problem.product(found.alpha, found.f)
    support = np.count_nonzero(found.alpha)
    assert support == np.count_nonzero(np.abs(margins - 1) < 1e-9)
    assert support < 100


@pytest.mark.parametrize("machine", ["adaptive", "LP"])
def test_nothing_is_learned_from_the_largest_lam_on(machine: str) -> None:
    X, y = _data(60, seed=2)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    every = np.arange(60)
    most = largest_lam(y * rows.weighted_sum(every, rows, every, y), rows.diagonal())  # all 1
    above = _solved(_program(machine, rows, y, value=most), rows)
    below_problem = _program(machine, rows, y, value=0.999 * most)
    below = _solved(below_problem, rows)
    assert (above.alpha == 0).all()
    assert above.status == "converged"
    assert (below.alpha > 0).any()
    assert below_problem.primal(below.alpha, below.f) < 60


def test_of_many_optima_without_slack_the_least_is_taken() -> None:
    X, y = _data(60, seed=3, shift=2.5)
    rows = Rows(Kernel("poly", gamma=0.5, degree=2, coef0=1.0), X)
    problem = _program("leave-one-out", rows, y)
    found = _solved(problem, rows)
    every = np.arange(60)
    G = y[:, None] * rows.block(every, rows, every) * y - np.diag(problem.shift)
    least = linprog(rows.diagonal(), A_ub=-G, b_ub=-np.ones(60))
    assert problem.primal(found.alpha, found.f) <= 1e-12
    assert rows.diagonal() @ found.alpha == pytest.approx(least.fun, rel=1e-7)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_start_changes_the_way_and_not_the_optimum(machine: str) -> None:
    X, y = _data(150, seed=4)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    start = _solved(_program(machine, rows, y, value=0.5), rows)
    problem = _program(machine, rows, y, value=0.45)
    cold, warm = _solved(problem, rows), _solved(problem, rows, start=start)
    assert warm.status == "converged"
    assert problem.primal(warm.alpha, warm.f) == pytest.approx(
        problem.primal(cold.alpha, cold.f), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_kernel_rows_that_do_not_fit_are_made_again(machine: str) -> None:
    X, y = _data(150, seed=6)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program(machine, rows, y)
    all_at_hand = _solved(problem, rows)
    tight = _solved(problem, rows, cache_bytes=90 * 150 * 8)
    assert tight.status == "converged"
    np.testing.assert_allclose(tight.alpha, all_at_hand.alpha, atol=1e-8)


def test_a_cache_below_the_basis_is_refused_with_the_size_it_takes() -> None:
    X, y = _data(150, seed=6)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    with pytest.raises(MemoryError, match="raise cache_size to at least"):
        _solved(_program("leave-one-out", rows, y), rows, cache_bytes=5 * 150 * 8)


def test_narrow_kernels_end_at_the_limits_with_an_honest_gap() -> None:
    X, y = _data(150, seed=7, d=2)
    rows = Rows(Kernel("rbf", gamma=200.0), X)
    problem = _program("leave-one-out", rows, y)
    found = _solved(problem, rows)
    certificate = _certificate(problem, rows, found)
    assert np.isfinite(found.alpha).all()
    assert (found.alpha <= problem.limit).all()
    assert found.alpha.max() > 1e-3 * LIMIT
    assert certificate.primal <= 150
    assert certificate.dual <= certificate.primal
    assert certificate.relative_gap < 1e-4
    assert certificate.converged == (found.status == "converged")


def test_zero_rows_get_no_coefficient() -> None:
    X, y = _data(40, seed=8)
    X[5] = 0.0
    rows = Rows(Kernel("linear"), X)
    problem = _program("LP", rows, y)
    found = _solved(problem, rows)
    assert problem.limit[5] == 0
    assert found.alpha[5] == 0
    assert problem.slack(found.alpha, found.f)[5] == 1.0


def test_all_conflicting_copies_leave_nothing_to_learn() -> None:
    X = np.random.default_rng(9).normal(size=(20, 2))
    y = np.concatenate([np.ones(20), -np.ones(20)])
    rows = Rows(Kernel("rbf"), np.vstack([X, X]))
    problem = _program("leave-one-out", rows, y)
    found = _solved(problem, rows)
    assert (found.alpha == 0).all()
    assert problem.primal(found.alpha, found.f) == 40


@pytest.mark.parametrize("machine", MACHINES)
def test_the_monitor_can_stop_it(machine: str) -> None:
    X, y = _data(300, seed=10)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program(machine, rows, y)
    calls: list[int] = []

    def stop(steps: int, violation: float) -> bool:
        calls.append(steps)
        return False

    found = _solved(problem, rows, monitor=stop)
    certificate = _certificate(problem, rows, found)
    assert len(calls) == 1
    assert found.status == ("converged" if certificate.converged else "stopped")
    assert certificate.dual <= certificate.primal


def test_a_spent_budget_is_admitted() -> None:
    X, y = _data(400, seed=11, shift=0.2)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program("leave-one-out", rows, y)
    found = _solved(problem, rows, max_iter=1)
    assert found.status == "max_iter"
    assert not _certificate(problem, rows, found).converged
    assert problem.primal(found.alpha, found.f) <= 400


def test_the_same_data_give_the_same_bits() -> None:
    X, y = _data(100, seed=12)
    rows = Rows(Kernel("rbf", gamma=0.2), np.round(X, 1))
    problem = _program("LP", rows, y)
    one, two = _solved(problem, rows), _solved(problem, rows)
    assert (one.alpha == two.alpha).all()
    assert (one.z == two.z).all()


def test_pivots_prove_their_end_without_the_door() -> None:
    """The last multipliers are strictly inside G z < c, so that rounding costs nothing."""
    X, y = _data(200, seed=13)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program("leave-one-out", rows, y)
    vertex = solve_simplex(problem, rows, tol=1e-6, budget=Budget(100))
    every = np.arange(200)
    G = y[:, None] * rows.block(every, rows, every) * y - np.diag(problem.shift)
    assert (G @ vertex.zs[-1]).max() < 0
    assert vertex.status == "converged"
    assert vertex.n_pivots >= np.count_nonzero(vertex.alphas[-1])


def test_interior_points_and_pivots_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the same door, at a size where one of them would be asked and the other is."""
    X, y = _data(600, seed=14, d=2, shift=0.3)
    rows = Rows(Kernel("rbf", gamma=0.3), X)
    problem = _program("leave-one-out", rows, y)
    pivots = _solved(problem, rows)
    asked = _solved(problem, rows, method="interior")
    monkeypatch.setattr(linear_program, "INTERIOR_ROWS", 100)
    inside = _solved(problem, rows)
    np.testing.assert_array_equal(asked.alpha, inside.alpha)
    np.testing.assert_array_equal(_solved(problem, rows, method="simplex").alpha, pivots.alpha)
    assert pivots.method == "simplex"
    assert inside.method == "interior"
    assert inside.status == pivots.status == "converged"
    assert problem.primal(inside.alpha, inside.f) == pytest.approx(
        problem.primal(pivots.alpha, pivots.f), rel=2e-6
    )


def test_scaled_kernels_give_scaled_coefficients() -> None:
    X, y = _data(100, seed=15)
    K = Kernel("rbf", gamma=0.2)(X, X)
    one, seven = (Rows(Kernel("precomputed"), c * K) for c in (1.0, 7.0))
    small = _solved(_program("adaptive", one, y), one)
    large = _solved(_program("adaptive", seven, y), seven)
    np.testing.assert_allclose(7 * large.alpha, small.alpha, rtol=1e-7, atol=1e-10)


def test_weights_are_copies() -> None:
    X, y = _data(60, seed=16)
    weight = np.random.default_rng(16).choice([1.0, 2.0, 3.0], size=60)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    every = np.repeat(np.arange(60), weight.astype(int))
    copies = Rows(Kernel("rbf", gamma=0.2), X[every])
    weighted = _program("leave-one-out", rows, y, weight)
    copied = _program("leave-one-out", copies, y[every])
    a, b = _solved(weighted, rows), _solved(copied, copies)
    assert weighted.primal(a.alpha, a.f) == pytest.approx(copied.primal(b.alpha, b.f), rel=1e-6)


def test_the_objective_rises_with_the_price() -> None:
    X, y = _data(80, seed=17)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program("LP", rows, y)
    found: ProgramResult | None = None
    last = 0.0
    for price in (0.05, 0.2, 1.0, 4.0):
        problem = replace(problem, price=price)
        found = _solved(problem, rows, start=found)
        assert found.status == "converged"
        assert problem.primal(found.alpha, found.f) > last
        last = problem.primal(found.alpha, found.f)


def test_methods_that_cannot_be_used_are_refused() -> None:
    """Pivots take the place of Newton steps behind "auto" only."""
    X, y = _data(300, seed=18, d=10)
    rows = Rows(Kernel("rbf", gamma=0.5), X)
    problem = _program("LP", rows, y)
    with pytest.raises(ValueError, match="not of low rank"):
        _solved(problem, rows, method="interior")
    with pytest.raises(ValueError, match="method must be one of auto, simplex, interior"):
        _solved(problem, rows, method="pivots")


def test_a_budget_that_is_spent_in_part_has_only_the_rest() -> None:
    X, y = _data(400, seed=11, shift=0.2)
    rows = Rows(Kernel("rbf", gamma=0.2), X)
    problem = _program("leave-one-out", rows, y)
    budget = Budget(5)
    budget.spend(4, 1.0)
    found = solve(problem, rows, tol=1e-6, budget=budget)
    assert found.status == "max_iter"
    assert found.n_iter == 1
    assert budget.used == 5


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_a_nu_machine_without_a_margin_is_proved_to_have_none(kernel: str, seed: int) -> None:
    """Copies with both labels: the optimum is 0, and the gap is rounding and nothing else."""
    X, y = _data(40, seed)
    X = np.round(X)
    X[:8], y[:8] = X[8:16], -y[8:16]
    rows = Rows(Kernel(kernel, gamma=0.7), X)
    problem = _program("nu", rows, y, value=0.1)
    found = _solved(problem, rows)
    certificate = _certificate(problem, rows, found)
    assert found.status == "converged"
    assert certificate.converged
    assert abs(certificate.primal) <= 1e-15 * problem.kernel_sizes().max()
    assert certificate.gap <= 1e-15 * problem.kernel_sizes().max()
