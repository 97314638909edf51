"""The kernel Adatron: the optimum of the other solvers, by the update of the literature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.bounds import certified
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import (
    SoftMargin,
    c_classification,
    epsilon_tube,
    nu_classification,
)
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget
from widemargin.solvers.literature import adatron

KERNELS = {
    "rbf": Kernel("rbf", gamma=0.5),
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=0.3, degree=2, coef0=1.0),
}
CASES = [
    *itertools.product(KERNELS, [0.01, 1.0], [False, True], [False, True]),
    *itertools.product(["rbf"], [100.0], [False, True], [False, True]),
    *itertools.product(["linear", "poly"], [100.0], [False], [False, True]),
]


def _problem(
    name: str = "rbf",
    C: float = 1.0,
    squared: bool = False,
    intercept: bool = True,
    n: int = 60,
    seed: int = 0,
) -> tuple[SoftMargin, Rows]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 0.3
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.7 * rng.normal(size=n) > 1.2, 1.0, -1.0)
    cost = C * rng.uniform(0.2, 2.0, n)
    return c_classification(y, cost, squared=squared, intercept=intercept), Rows(KERNELS[name], X)


def _solve(problem: SoftMargin, rows: Rows, tol: float = 1e-6, **options):
    spent = {"max_iter": 10**8, "cache_bytes": 1e8}
    for name in ("max_iter", "cache_bytes", "monitor"):
        if name in options:
            spent[name] = options.pop(name)
    return adatron.solve(problem, rows, tol=tol, budget=Budget(**spent), **options)


def _assert_feasible(problem: SoftMargin, b: np.ndarray) -> None:
    assert (b >= problem.lower).all()
    assert (b <= problem.upper).all()
    if problem.n_groups:
        assert abs(b.sum()) <= 1e-12 * max(1.0, np.abs(b).sum())


@pytest.mark.parametrize(("name", "C", "squared", "intercept"), CASES)
def test_it_reaches_the_optimum_of_the_band_solver(
    name: str, C: float, squared: bool, intercept: bool
) -> None:
    problem, rows = _problem(name, C, squared, intercept)
    result = _solve(problem, rows)
    certificate = certified(problem, rows, result, tol=1e-6)
    assert result.status == "converged"
    assert certificate.converged
    assert -1e-12 <= certificate.relative_gap <= 1e-5
    _assert_feasible(problem, result.alpha)
    peer = soft_margin.solve(
        problem, rows, tol=1e-6, budget=Budget(10**7, cache_bytes=1e8), method="smo"
    )
    reference = certified(problem, rows, peer, tol=1e-6)
    assert certificate.dual == pytest.approx(reference.dual, rel=1e-6)
    assert certificate.primal == pytest.approx(reference.primal, rel=1e-5)


def test_its_decision_values_are_those_of_its_variables() -> None:
    problem, rows = _problem()
    result = _solve(problem, rows)
    everything = np.arange(rows.n)
    expected = rows.block(everything, rows, everything) @ result.alpha
    np.testing.assert_allclose(result.f, expected, rtol=0, atol=1e-12)


def _transcription(
    K: np.ndarray, y: np.ndarray, v: np.ndarray, cap: np.ndarray, passes: int, eta: float = 1.0
) -> tuple[np.ndarray, int]:
    """The update as the literature has it, in alpha and y; also counts what moved."""
    noisy = K + np.diag(v)  # (8.16)
    alpha = np.zeros(len(y))
    moves = 0
    for _ in range(passes):
        for i in range(len(y)):
            margin = y[i] * (noisy[i] @ (y * alpha))  # (8.20)
            new = min(max(alpha[i] + eta * (1.0 - margin) / noisy[i, i], 0.0), cap[i])
            moves += new != alpha[i]
            alpha[i] = new
    return alpha, moves


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("eta", "passes"), [(1.0, 1), (1.0, 4), (1.5, 3), (1.0, 600)])
def test_without_threshold_it_is_the_update_of_the_literature(
    squared: bool, eta: float, passes: int
) -> None:
    problem, rows = _problem("rbf", 1.0, squared, intercept=False, n=40)
    y, everything = problem.target, np.arange(40)
    K = rows.block(everything, rows, everything)
    cap = np.maximum(problem.upper, -problem.lower)
    alpha, moves = _transcription(K, y, problem.ridge, cap, passes, eta)
    converged = passes == 600
    budget = 10**8 if converged else moves
    tol = 1e-10 if converged else 1e-14
    result = _solve(problem, rows, tol=tol, max_iter=budget, eta=eta, seed=None)
    assert result.status == ("converged" if converged else "max_iter")
    # Steps are counted as the literature counts them, so both stand at the same place.
    np.testing.assert_allclose(result.alpha, y * alpha, rtol=0, atol=1e-8 if converged else 1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_order_of_the_passes_changes_the_way_and_not_the_end(intercept: bool) -> None:
    problem, rows = _problem("rbf", 1.0, True, intercept, n=200)
    shuffled, again, other, fixed = (
        _solve(problem, rows, tol=1e-9, seed=seed) for seed in (0, 0, 1, None)
    )
    np.testing.assert_array_equal(shuffled.alpha, again.alpha)
    np.testing.assert_allclose(shuffled.alpha, other.alpha, rtol=0, atol=1e-7)
    np.testing.assert_allclose(shuffled.alpha, fixed.alpha, rtol=0, atol=1e-7)
    assert shuffled.n_iter < 0.5 * fixed.n_iter


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("max_iter", [1, 17, 150])
def test_a_spent_budget_leaves_a_feasible_point(intercept: bool, max_iter: int) -> None:
    problem, rows = _problem(C=10.0, intercept=intercept)
    result = _solve(problem, rows, max_iter=max_iter)
    assert result.status == "max_iter"
    assert result.n_iter == max_iter
    _assert_feasible(problem, result.alpha)
    certificate = certified(problem, rows, result, tol=1e-6)
    assert not certificate.converged
    assert certificate.primal >= certificate.dual


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("cache_bytes", [0.0, 8 * 60 * 7])
def test_a_small_cache_changes_nothing(intercept: bool, cache_bytes: float) -> None:
    problem, rows = _problem(intercept=intercept)
    whole = _solve(problem, rows, tol=1e-3)
    chunked = _solve(problem, rows, tol=1e-3, cache_bytes=cache_bytes)
    assert chunked.status == "converged"
    assert chunked.n_iter == pytest.approx(whole.n_iter, rel=0.01)
    np.testing.assert_allclose(chunked.alpha, whole.alpha, rtol=0, atol=1e-9)


def test_a_small_cache_is_all_that_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, rows = _problem()
    largest = []
    block = rows.block

    def spy(*arguments):
        largest.append(block(*arguments))
        return largest[-1]

    monkeypatch.setattr(rows, "block", spy)
    _solve(problem, rows, max_iter=200, cache_bytes=8 * 60 * 7)
    assert max(values.nbytes for values in largest) == 8 * 60 * 7


def test_the_monitor_sees_the_steps_and_can_stop() -> None:
    problem, rows = _problem(C=10.0)
    seen: list[tuple[int, float]] = []

    def monitor(steps: int, violation: float) -> bool:
        seen.append((steps, violation))
        return len(seen) < 5

    result = _solve(problem, rows, monitor=monitor)
    assert result.status == "stopped"
    assert result.n_iter == seen[-1][0]
    assert [steps for steps, _ in seen] == sorted(steps for steps, _ in seen)
    assert all(violation > 0 for _, violation in seen)
    _assert_feasible(problem, result.alpha)


def test_sweeps_are_bounded_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, rows = _problem(intercept=False)
    monkeypatch.setattr(adatron, "VALUES_PER_SWEEP", 5 * 60)  # five steps of 60 rows
    steps = [0]
    bounded = _solve(problem, rows, monitor=lambda used, _: steps.append(used) is None)
    assert np.diff(steps).max() == 5
    monkeypatch.undo()
    np.testing.assert_array_equal(bounded.alpha, _solve(problem, rows).alpha)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_start_near_the_optimum_saves_steps(intercept: bool) -> None:
    problem, rows = _problem(intercept=intercept)
    cold = _solve(problem, rows)
    warm = _solve(problem, rows, start=cold)
    assert warm.status == "converged"
    assert warm.n_iter < 0.5 * cold.n_iter


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_of_norm_zero_and_equal_rows(squared: bool, intercept: bool) -> None:
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    X[:6] = 0.0
    y = np.where(rng.uniform(size=40) < 0.4, 1.0, -1.0)
    problem = c_classification(y, np.full(40, 2.0), squared=squared, intercept=intercept)
    for data in (X, sp.csr_matrix(X)):
        rows = Rows(Kernel("linear"), data)
        result = _solve(problem, rows)
        assert result.status == "converged"
        assert problem.kkt_violation(result.alpha, result.f) <= 1e-6
        _assert_feasible(problem, result.alpha)


def test_all_rows_zero() -> None:
    y = np.array([1.0, -1.0, -1.0])
    rows = Rows(Kernel("linear"), np.zeros((3, 2)))
    result = _solve(c_classification(y, np.full(3, 0.7)), rows)
    assert result.status == "converged"
    assert (
        -2.0 * result.alpha[1:].sum() == pytest.approx(2.0 * result.alpha[0]) == pytest.approx(1.4)
    )


def test_very_unbalanced_classes_and_small_costs() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    y = np.where(np.arange(200) < 4, 1.0, -1.0)
    problem = c_classification(y, np.full(200, 1e-5))
    result = _solve(problem, Rows(KERNELS["rbf"], X))
    assert result.status == "converged"
    assert result.n_iter < 20_000
    _assert_feasible(problem, result.alpha)


def test_an_indefinite_kernel_ends() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    rows = Rows(Kernel("sigmoid", gamma=1.0, coef0=-1.0), X)
    for squared, intercept in itertools.product([False, True], repeat=2):
        problem = c_classification(y, np.full(40, 5.0), squared=squared, intercept=intercept)
        result = _solve(problem, rows, max_iter=20_000)
        assert np.isfinite(result.alpha).all()
        assert np.isfinite(result.f).all()


def test_a_tolerance_beyond_rounding_ends_before_the_budget_or_at_it() -> None:
    problem, rows = _problem(C=1.0)
    result = _solve(problem, rows, tol=1e-18, max_iter=200_000)
    assert result.status in ("stalled", "max_iter")
    assert problem.kkt_violation(result.alpha, result.f) < 1e-10
    _assert_feasible(problem, result.alpha)


@pytest.mark.parametrize("kind", ["nu", "tube"])
def test_other_problems_are_refused_by_name(kind: str) -> None:
    y = np.array([1.0, -1.0, 1.0, -1.0])
    if kind == "nu":
        problem = nu_classification(y, np.ones(4), 0.5)
    else:
        problem = epsilon_tube(y, np.ones(4), 0.1)
    rows = Rows(KERNELS["rbf"], np.arange(8.0).reshape(4, 2))
    with pytest.raises(ValueError, match=f"{problem.name}.*use solver='smo'"):
        _solve(problem, rows)
    assert rows.evaluations == 0


@pytest.mark.parametrize("eta", [0.0, 2.0, -1.0, np.nan])
def test_steps_that_could_lose_are_refused(eta: float) -> None:
    problem, rows = _problem()
    with pytest.raises(ValueError, match="eta must lie between 0 and 2"):
        _solve(problem, rows, eta=eta)
