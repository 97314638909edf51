"""The interior-point method of the LP machines: parts first, then the whole against HiGHS."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import (
    MarginProgram,
    adaptive_margin,
    limits,
    lp_machine,
    nu_lp_machine,
)
from widemargin.solvers.base import Budget, Monitor
from widemargin.solvers.linear_program import ProgramResult
from widemargin.solvers.linear_program import interior as interior_point
from widemargin.solvers.linear_program.bound import best_bound
from widemargin.solvers.linear_program.interior import low_rank_pays, solve_interior
from widemargin.solvers.linear_program.interior.path import PathPoint
from widemargin.solvers.linear_program.interior.system import LowRankSystem
from widemargin.solvers.linear_program.interior.vertex import vertex
from widemargin.solvers.numerics.pivoted_cholesky import LowRank, rank_estimate

MACHINES = [("AM", 1.0), ("AM", 0.3), ("AM", 3.0), ("LP", 1.0), ("LP", 0.02), ("nu", 0.35)]
ENOUGH_ROWS = 600  # for the rank of the crescents to be low


def solved(
    problem: MarginProgram,
    rows: Rows,
    max_iter: int = 100,
    cache_bytes: float = 5e8,
    monitor: Monitor | None = None,
    start: ProgramResult | None = None,
) -> ProgramResult | None:
    budget = Budget(max_iter, monitor, cache_bytes)
    return solve_interior(problem, rows, tol=1e-6, budget=budget, start=start)


def crescents(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping crescents in the plane."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    turn = rng.uniform(0, np.pi, n)
    x, height = np.cos(turn), np.sin(turn)
    X = np.where(y[:, None] > 0, np.c_[x, height], np.c_[1 - x, 0.5 - height])
    return X + 0.35 * rng.standard_normal((n, 2)), y


def case(
    n: int,
    machine: str = "AM",
    value: float = 1.0,
    sigma: float = 0.5,
    weight: np.ndarray | None = None,
    threads: int = 1,
) -> tuple[MarginProgram, Rows]:
    """A machine on crescents."""
    X, y = crescents(n)
    rows = Rows(Kernel("rbf", gamma=1 / (2 * sigma**2)), X, threads=threads)
    return program(rows, y, machine, value, weight), rows


def program(
    rows: Rows, y: np.ndarray, machine: str, value: float, weight: np.ndarray | None = None
) -> MarginProgram:
    w = np.ones(rows.n) if weight is None else weight
    k = rows.diagonal()
    u = limits(k, k)
    if machine == "AM":
        return adaptive_margin(y, w, k, u, value)
    return lp_machine(y, w, u, value) if machine == "LP" else nu_lp_machine(y, w, u, value)


def matrix(problem: MarginProgram, rows: Rows) -> np.ndarray:
    """G, written down once more."""
    everyone = np.arange(rows.n)
    K = rows.block(everyone, rows, everyone)
    return problem.y[:, None] * K * problem.y - np.diag(problem.shift)


def by_highs(problem: MarginProgram, rows: Rows) -> float:
    """The optimum, by scipy's HiGHS on the dual."""
    G, n = matrix(problem, rows), rows.n
    box = np.column_stack([np.zeros(n), problem.cost])
    if problem.nu is None:
        found = linprog(-np.ones(n), A_ub=G, b_ub=np.full(n, problem.price), bounds=box)
        return -float(found.fun)
    A, sums = np.hstack([G, -np.ones((n, 1))]), np.append(np.ones(n), 0.0)[None]
    bounds = [*map(tuple, box), (None, None)]
    cost = np.append(np.zeros(n), 1.0)
    found = linprog(cost, A, np.zeros(n), A_eq=sums, b_eq=[problem.nu], bounds=bounds)
    return -float(found.fun)


def check(problem: MarginProgram, rows: Rows, found, tol: float = 1e-6) -> float:
    """Feasible, evaluated with the true kernel, and as close as asked; returns the objective."""
    assert found is not None
    assert found.status == "converged"
    assert found.n_iter >= 1
    assert found.alpha.min() >= 0
    assert found.z.min() >= 0
    assert (found.z <= problem.cost).all()
    everyone = np.arange(rows.n)
    K = rows.block(everyone, rows, everyone)
    np.testing.assert_allclose(found.f, K @ (problem.y * found.alpha), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.g, K @ (problem.y * found.z), rtol=1e-9, atol=1e-9)
    primal, dual = problem.primal(found.alpha, found.f), problem.dual(found.z, found.g)
    if problem.nu is None:
        assert (found.alpha <= problem.limit).all()
    else:
        assert found.alpha.sum() == pytest.approx(1.0, abs=1e-12)
        assert found.z.sum() == pytest.approx(problem.nu, abs=1e-12)
    assert primal - dual <= tol * problem.scale(found.alpha, found.f)
    return primal


# -- pivoted Cholesky --------------------------------------------------------------------------


def test_factor_leaves_what_it_says() -> None:
    """V V' and the diagonal remainder give the kernel; the remainder bounds all else."""
    problem, rows = case(300)
    low = LowRank(rows, problem.y, 200)
    everyone = np.arange(300)
    Q = problem.y[:, None] * rows.block(everyone, rows, everyone) * problem.y
    for remainder in (0.1, 1e-4, 1e-9):
        assert low.grow(remainder)
        assert not low.exhausted
        left = Q - low.V @ low.V.T
        np.testing.assert_allclose(np.diagonal(left), low.rest, atol=1e-12)
        assert np.abs(left).max() <= remainder + 1e-12
        assert low.remainder <= remainder


def test_columns_are_nested() -> None:
    """Growing in steps keeps the columns at hand."""
    problem, rows = case(300)
    low = LowRank(rows, problem.y, 200)
    low.grow(1e-2)
    before = low.V.copy()
    low.grow(1e-8)
    assert low.rank > before.shape[1]
    np.testing.assert_array_equal(low.V[:, : before.shape[1]], before)


def test_rank_has_a_limit() -> None:
    """A limit that is too small is reported, and kept."""
    problem, rows = case(300)
    low = LowRank(rows, problem.y, 20)
    assert not low.grow(1e-6)
    assert low.exhausted
    assert low.rank == 20
    assert low.columns.shape[1] <= 20


def test_indefinite_kernel_is_noticed() -> None:
    """Without positive semi-definiteness the remainder bounds nothing."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 60))
    K = A + A.T + 8 * np.eye(60)
    low = LowRank(Rows(Kernel("precomputed"), K), np.ones(60), 60)
    assert not low.grow(1e-6)
    assert low.remainder == np.inf


def test_kernel_of_zeros() -> None:
    """No scale, no rank."""
    low = LowRank(Rows(Kernel("precomputed"), np.zeros((5, 5))), np.ones(5), 5)
    assert not low.grow(0.1)
    assert low.rank == 0


@pytest.mark.parametrize("name", ["rbf", "precomputed"])
def test_rank_is_estimated_from_a_sample(name: str) -> None:
    """A plane is smooth; ten features of noise are not."""
    _, smooth = case(1000)
    rough = Rows(Kernel("rbf", gamma=0.1), np.random.default_rng(0).standard_normal((1000, 10)))
    if name == "precomputed":
        everyone = np.arange(1000)
        smooth, rough = (
            Rows(Kernel(name), rows.block(everyone, rows, everyone)) for rows in (smooth, rough)
        )
    low = LowRank(smooth, np.ones(1000), 500)
    assert low.grow(1e-8)
    assert 0.7 * low.rank < rank_estimate(smooth, 1e-8) < 1.3 * low.rank
    assert rank_estimate(rough, 1e-8) == 1000
    assert low_rank_pays(smooth, 1e9)
    assert not low_rank_pays(rough, 1e9)
    assert not low_rank_pays(smooth, 8 * 1000 * 100), "a hundred columns do not fit twice"


# -- the systems -------------------------------------------------------------------------------


@pytest.mark.parametrize(("machine", "value"), [("AM", 1.0), ("AM", 0.01), ("LP", 1.0)])
def test_systems_are_solved(machine: str, value: float) -> None:
    """As with the whole matrix, for diagonals H of either sign and of both."""
    problem, rows = case(120, machine, value)
    low = LowRank(rows, problem.y, 120)
    low.grow(0.05)  # coarse, so that H matters
    system = LowRankSystem(low, problem.shift, threads=2)
    G = low.V @ low.V.T + np.diag(low.rest - problem.shift)
    if value == 0.01:
        assert (np.diagonal(G) - np.sum(low.V**2, 1) > 0).any()
        assert system.h.min() < 0
    rng = np.random.default_rng(1)
    D1, D2 = 10.0 ** rng.uniform(-4, 4, (2, 120))
    r1, r2 = rng.standard_normal((2, 120))
    system.factor(D1, D2)
    a, z = system.solve(r2, r1)
    whole = np.block([[-np.diag(D2), G], [G, np.diag(D1)]])
    expected = np.linalg.solve(whole, np.append(r2, r1))
    np.testing.assert_allclose(np.append(a, z), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(system.product(r1), G @ r1, atol=1e-10)


# -- the bound ---------------------------------------------------------------------------------


def exact_dual(problem: MarginProgram, K: np.ndarray, z: np.ndarray) -> Fraction:
    """The dual without any rounding, for the kernel matrix as it is in float64."""
    exactly = [Fraction(float(value)) for value in z]
    total = sum(exactly, Fraction(0))
    price = Fraction(problem.price)
    for i in range(len(z)):
        pull = -Fraction(float(problem.shift[i])) * exactly[i]
        for j in np.flatnonzero(z):
            sign = int(problem.y[i] * problem.y[j])
            pull += sign * Fraction(float(K[i, j])) * exactly[j]
        if pull > price:
            total -= Fraction(float(problem.limit[i])) * (pull - price)
    return total


def test_bound_holds_without_rounding() -> None:
    """What rounding does to a vertex costs a visible part of the bound; the blend loses none."""
    X, y = crescents(60)
    smooth = Rows(Kernel("rbf", gamma=0.5), X)
    K = smooth.block(np.arange(60), smooth, np.arange(60))
    rows = Rows(Kernel("precomputed"), K)
    problem = program(rows, y, "AM", 1.0)
    G = matrix(problem, rows)
    box = np.column_stack([np.zeros(60), problem.cost])
    at_vertex = np.clip(linprog(-np.ones(60), G, np.zeros(60), bounds=box).x, 0.0, 1.0)
    # The point deepest inside G z < 0.
    deepest = linprog(
        np.append(np.zeros(60), -1.0), np.hstack([G, np.ones((60, 1))]), np.zeros(60),
        bounds=np.vstack([box, [0.0, 1.0]]),
    ).x  # fmt: skip
    inside = np.clip(deepest[:60], 0.0, 1.0)
    assert (G @ inside).max() < -1e-3
    z, g = best_bound(problem, [(v, K @ (y * v)) for v in (at_vertex, inside)], 62.0)
    claimed, optimum = problem.dual(z, g), float(at_vertex.sum())
    assert optimum - claimed < 1e-6 * optimum
    assert float(exact_dual(problem, K, z)) >= claimed - 1e-12 * optimum
    assert float(exact_dual(problem, K, at_vertex)) < claimed


@pytest.mark.parametrize(("machine", "value"), [("AM", 1.0), ("LP", 0.5), ("nu", 0.4)])
def test_blend_is_the_best_one(machine: str, value: float) -> None:
    """No share of a fine grid does better, and no candidate alone."""
    problem, rows = case(80, machine, value)
    K = rows.block(np.arange(80), rows, np.arange(80))
    rng = np.random.default_rng(3)
    scale = 1e-9 if problem.nu is None else 1.0  # the charge for G z > c is of the size of z then
    first, second = scale * problem.cost * rng.random((2, 80))
    if problem.nu is not None:
        first, second = (problem.nu * v / v.sum() for v in (first, second))
    candidates = [(v, K @ (problem.y * v)) for v in (first, second)]
    best = problem.dual(*best_bound(problem, candidates, 82.0))
    shares = np.linspace(0, 1, 2001)
    (z0, g0), (z1, g1) = candidates
    grid = [problem.dual(z0 + t * (z1 - z0), g0 + t * (g1 - g0)) for t in shares]
    assert best >= max(grid) - 1e-12 * np.abs(grid).max()
    if problem.nu is None:
        assert best >= 0.0, "z = 0 is always there"
    else:
        assert best <= max(grid) + np.ptp(grid) / 1000


def test_blend_stays_feasible() -> None:
    """The box and, for the nu machine, the sum."""
    problem, rows = case(80, "nu", 0.4)
    K = rows.block(np.arange(80), rows, np.arange(80))
    even = np.full(80, 0.4 / 80)
    corner = np.where(np.arange(80) < 32, 1 / 80, 0.0)
    z, g = best_bound(problem, [(v, K @ (problem.y * v)) for v in (corner, even)], 82.0)
    assert z.min() >= 0
    assert (z <= problem.cost).all()
    assert z.sum() == pytest.approx(0.4)
    np.testing.assert_allclose(g, K @ (problem.y * z), atol=1e-12)


# -- the whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("machine", "value"), MACHINES)
@pytest.mark.parametrize(("n", "sigma"), [(300, 1.0), (ENOUGH_ROWS, 0.5)])
def test_optimum_is_that_of_highs(machine: str, value: float, n: int, sigma: float) -> None:
    problem, rows = case(n, machine, value, sigma)
    found = solved(problem, rows)
    objective = check(problem, rows, found)
    reference = by_highs(problem, rows)
    assert objective == pytest.approx(reference, rel=1e-6, abs=1e-9)
    assert found.method == "interior"
    assert np.count_nonzero(found.alpha) < n / 3, "zeros are exact"


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_other_kernels(kernel: str) -> None:
    X, y = crescents(120)
    rows = Rows(Kernel(kernel, gamma=0.5, degree=2, coef0=1.0), X)
    problem = program(rows, y, "LP", 1.0)
    assert check(problem, rows, solved(problem, rows)) == pytest.approx(
        by_highs(problem, rows), rel=1e-6
    )


@pytest.mark.parametrize(("machine", "value"), [("AM", 1.0), ("LP", 0.3), ("nu", 0.4)])
def test_weights_count_like_copies(machine: str, value: float) -> None:
    X, y = crescents(300)
    weight = np.random.default_rng(5).integers(1, 3, 300).astype(float)
    kernel = Kernel("rbf", gamma=0.8)
    rows = Rows(kernel, X)
    copied = np.repeat(np.arange(300), weight.astype(int))
    copies = Rows(kernel, X[copied])
    merged, spread = (
        program(rows, y, machine, value, weight),
        program(copies, y[copied], machine, value),
    )
    one = check(merged, rows, solved(merged, rows))
    assert check(spread, copies, solved(spread, copies)) == pytest.approx(one, rel=2e-6)


def test_low_rank_route_keeps_off_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block of the kernel is ever as large as a fifth of the matrix, nor is the factor."""
    problem, rows = case(1200)
    largest = 0
    block = Rows.block

    def watched(self, left, other, right, *args, **kwargs):
        nonlocal largest
        largest = max(largest, len(left) * len(right))
        return block(self, left, other, right, *args, **kwargs)

    monkeypatch.setattr(Rows, "block", watched)
    factors: list[LowRank] = []

    class Watched(LowRank):
        def __init__(self, *args):
            super().__init__(*args)
            factors.append(self)

    monkeypatch.setattr(interior_point, "LowRank", Watched)
    found = solved(problem, rows)
    assert found is not None
    assert found.status == "converged"
    assert 0 < largest < 0.2 * 1200**2
    assert factors[0].rank < 400
    assert factors[0].columns.shape[1] <= 400


def test_threads_change_no_bit() -> None:
    one, two = (solved(*case(ENOUGH_ROWS, threads=threads)) for threads in (1, 2))
    assert one is not None
    assert two is not None
    np.testing.assert_array_equal(one.alpha, two.alpha)
    np.testing.assert_array_equal(one.z, two.z)


def test_full_rank_is_declined() -> None:
    """Ten features of noise: None, before any work on the path."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(ENOUGH_ROWS) < 0.5, 1.0, -1.0)
    rows = Rows(
        Kernel("rbf", gamma=0.125), rng.standard_normal((ENOUGH_ROWS, 10)) + 0.4 * y[:, None]
    )
    problem = program(rows, y, "AM", 1.0)
    assert solved(problem, rows) is None
    assert 0 < rows.evaluations < ENOUGH_ROWS**2, "the estimate is all that was done"


def test_indefinite_kernels_and_little_memory_are_declined() -> None:
    X, y = crescents(ENOUGH_ROWS)
    sigmoid = Rows(Kernel("sigmoid", gamma=0.5, coef0=1.0), X)
    problem, rows = case(ENOUGH_ROWS)
    assert solved(program(sigmoid, y, "LP", 1.0), sigmoid) is None
    assert solved(problem, rows, cache_bytes=1e6) is None


@pytest.mark.parametrize(("n", "sigma"), [(300, 1.0), (ENOUGH_ROWS, 0.5)])
@pytest.mark.parametrize(("machine", "value"), [("AM", 1.0), ("nu", 0.35)])
def test_budget_ends_it_honestly(n: int, sigma: float, machine: str, value: float) -> None:
    """A feasible model, a bound that is one, and no claim to be optimal."""
    problem, rows = case(n, machine, value, sigma)
    optimum = by_highs(problem, rows)
    for steps in (1, 4):
        found = solved(problem, rows, max_iter=steps)
        assert found is not None
        assert found.status == "max_iter"
        assert found.n_iter == steps
        assert problem.dual(found.z, found.g) <= optimum + 1e-9
        assert problem.primal(found.alpha, found.f) >= optimum - 1e-9
        assert problem.primal(found.alpha, found.f) <= (n if problem.nu is None else 1.0)
        if problem.nu is not None:
            assert found.z.sum() == pytest.approx(problem.nu, abs=1e-12)


def test_monitor_sees_the_gap_and_can_stop() -> None:
    problem, rows = case(300, sigma=1.0)
    seen: list[tuple[int, float]] = []

    def monitor(steps: int, violation: float) -> bool:
        seen.append((steps, violation))
        return steps < 5

    found = solved(problem, rows, monitor=monitor)
    assert found is not None
    assert found.status == "stopped"
    assert found.n_iter == 5
    assert [steps for steps, _ in seen] == [1, 2, 3, 4, 5]
    assert seen[-1][1] < seen[0][1]


def test_start_can_only_help() -> None:
    """The multipliers of another solution prove a bound that a stopped run does not find."""
    problem, rows = case(300, sigma=1.0)
    optimum = solved(problem, rows)
    assert optimum is not None
    alone, helped = (solved(problem, rows, max_iter=2, start=start) for start in (None, optimum))
    assert alone is not None
    assert helped is not None
    bound = problem.dual(helped.z, helped.g)
    assert bound >= problem.dual(optimum.z, optimum.g) - 1e-9
    assert bound > problem.dual(alone.z, alone.g)


def test_separable_rows_cost_nothing() -> None:
    """The left-out problem of two far clusters has objective 0."""
    rng = np.random.default_rng(2)
    y = np.where(np.arange(200) < 100, 1.0, -1.0)
    rows = Rows(Kernel("rbf", gamma=0.5), 0.3 * rng.standard_normal((200, 2)) + 3 * y[:, None])
    problem = program(rows, y, "AM", 1.0)
    assert check(problem, rows, solved(problem, rows)) <= 1e-6


def test_rows_without_influence() -> None:
    """A row of zeros has a limit of 0: its slack is 1, its coefficient 0."""
    X, y = crescents(80)
    X[:3] = 0.0
    rows = Rows(Kernel("linear"), X)
    problem = program(rows, y, "LP", 0.5)
    found = solved(problem, rows)
    objective = check(problem, rows, found)
    np.testing.assert_array_equal(found.alpha[:3], 0.0)
    assert objective == pytest.approx(by_highs(problem, rows), rel=1e-6)


def test_a_vertex_that_is_none() -> None:
    """Far from the optimum the ranking of the rows leads to no vertex, and says so."""
    problem, rows = case(100)
    low = LowRank(rows, problem.y, 100)
    low.grow(1e-10)
    point = PathPoint(problem, LowRankSystem(low, problem.shift, threads=1))
    assert vertex(problem, rows, point, 100.0) is None


def test_broken_systems_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems that return nonsense end the run with what was found before."""
    problem, rows = case(300, sigma=1.0)
    length = PathPoint.step
    steps = 0

    def breaking(self: PathPoint) -> float:
        nonlocal steps
        steps += 1
        return length(self) if steps < 4 else 0.0

    monkeypatch.setattr(PathPoint, "step", breaking)
    found = solved(problem, rows)
    assert found is not None
    assert found.status == "stalled"
    assert problem.dual(found.z, found.g) <= problem.primal(found.alpha, found.f) <= 300
