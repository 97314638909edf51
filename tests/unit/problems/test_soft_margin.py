"""The formulas of problems/soft_margin.py, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.bounds import bounds_of
from widemargin.certificate import Bracket
from widemargin.problems.soft_margin import (
    SoftMargin,
    c_classification,
    epsilon_tube,
    nu_classification,
    nu_tube,
)

N = 30


def _problem(name: str, seed: int = 0) -> SoftMargin:
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1.0, 1.0], N)
    labels[:2] = -1.0, 1.0
    curve, cost = rng.normal(size=N), rng.uniform(0.2, 3.0, N)
    makers = {
        "hinge": lambda: c_classification(labels, cost),
        "hinge_origin": lambda: c_classification(labels, cost, intercept=False),
        "squared": lambda: c_classification(labels, cost, squared=True),
        "squared_origin": lambda: c_classification(labels, cost, squared=True, intercept=False),
        "nu": lambda: nu_classification(labels, cost, 0.3),
        "tube": lambda: epsilon_tube(curve, cost, 0.2),
        "tube_origin": lambda: epsilon_tube(curve, cost, 0.2, intercept=False),
        "nu_tube": lambda: nu_tube(curve, cost, 0.4),
    }
    return makers[name]()


NAMES = ["hinge", "hinge_origin", "squared", "squared_origin"]
NAMES += ["nu", "tube", "tube_origin", "nu_tube"]
WITH_THRESHOLD = ["hinge", "squared", "nu", "tube", "nu_tube"]


def _kernel(seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(N, 5))
    return A @ A.T


def _feasible(problem: SoftMargin, rng: np.random.Generator) -> np.ndarray:
    """Return a random point of the box that meets every group's total."""
    top = np.where(np.isfinite(problem.upper), problem.upper, 3.0)
    bottom = np.where(np.isfinite(problem.lower), problem.lower, -3.0)
    b = rng.uniform(bottom, top)
    for g, total in enumerate(problem.totals):
        member = problem.group == g
        missing = total - b[member].sum()
        room = (top - b if missing > 0 else b - bottom)[member]
        assert room.sum() >= abs(missing)
        b[member] += missing * room / room.sum()
    return b


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", NAMES)
def test_weak_duality_for_any_feasible_pair(name: str, seed: int) -> None:
    """Any thresholds on one side, any feasible b on the other: primal >= dual."""
    problem, K = _problem(name, seed), _kernel(seed)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        b, other = _feasible(problem, rng), _feasible(problem, rng)
        f = K @ problem.coefficients(other)
        norm2 = problem.coefficients(other) @ f
        primal = problem.primal(f, norm2, rng.normal(size=problem.n_groups))
        beta = problem.coefficients(b)
        assert primal >= problem.dual(b, beta @ K @ beta) - 1e-9 * abs(primal)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", WITH_THRESHOLD)
def test_thresholds_minimise_the_primal(name: str, seed: int) -> None:
    """No value of a fine scan, in either threshold, is better than the one returned."""
    problem, K = _problem(name, seed), _kernel(seed)
    b = _feasible(problem, np.random.default_rng(seed))
    f = K @ problem.coefficients(b)
    best = problem.thresholds(f)
    value = problem.primal(f, 0.0, best)
    scan = np.linspace(-np.abs(f).max() - 5, np.abs(f).max() + 5, 4001)
    for g in range(problem.n_groups):
        for x in np.concatenate([scan, best[g] + np.array([-1e-3, -1e-6, 1e-6, 1e-3])]):
            moved = best.copy()
            moved[g] = x
            assert problem.primal(f, 0.0, moved) >= value - 1e-9 * max(1.0, abs(value))


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
def test_thresholds_of_a_few_rows(squared: bool) -> None:
    """Few kinks, many sets: where a Newton step can land on the end of its bracket."""
    rng = np.random.default_rng(0)
    scan = np.linspace(-9, 9, 1801)[:, None]
    for _ in range(2000):
        n = int(rng.integers(2, 5))
        y = np.append(rng.choice([-1.0, 1.0], n), [-1.0, 1.0])
        f = np.round(2 * rng.normal(size=len(y)), 1)
        problem = c_classification(y, np.ones(len(y)), squared=squared)
        slack = np.maximum(0, 1 - y * (f + scan))
        best = (slack**2 if squared else slack).sum(axis=1).min()
        assert problem.primal(f, 0.0, problem.thresholds(f)) <= best + 1e-9, (y, f)


def test_a_newton_step_that_lands_on_its_bracket() -> None:
    """Slacks 1 of one +1 and two -1 rows: the parabolas' vertices are -1.3, -1.2 and -1.1."""
    problem = c_classification(np.array([1.0, -1.0, -1.0]), np.ones(3), squared=True)
    assert problem.thresholds(np.array([2.1, 0.3, -1.2]))[0] == pytest.approx(-1.2, abs=1e-12)


def test_the_midpoint_of_a_flat_minimum() -> None:
    """Two rows of either label at f = 0: every b in [-1, 1] is optimal, b = 0 is returned."""
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    problem = c_classification(y, np.ones(4))
    np.testing.assert_allclose(problem.thresholds(np.zeros(4)), [0.0])
    shifted = problem.thresholds(np.array([-3.0, -1.0, 1.0, 5.0]))
    # breakpoints y - f are 2, 0, 0, -4: two weights on each side of [0, 0]
    np.testing.assert_allclose(shifted, [0.0])
    lopsided = problem.thresholds(np.array([-3.0, -3.0, 0.5, 0.0]))
    # breakpoints 2, 2, 0.5, 1: flat between 1 and 2
    np.testing.assert_allclose(lopsided, [1.5])


def test_an_unbounded_flat_minimum_ends_at_its_finite_end() -> None:
    """One class only: any b beyond the last breakpoint is optimal, the breakpoint is taken."""
    for sign in (-1.0, 1.0):
        problem = c_classification(np.full(3, sign), np.ones(3))
        f = np.array([0.0, 0.5, -2.0])
        expected = sign * (sign * (sign - f)).max()
        np.testing.assert_allclose(problem.thresholds(f), [expected])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_the_conjugates_of_the_boxes(name: str, seed: int) -> None:
    """phi(s) = max over the box of s b - ridge b^2 / 2, by scanning the box."""
    problem = _problem(name, seed)
    rng = np.random.default_rng(seed)
    f, lam = rng.normal(size=N), rng.normal(size=problem.n_groups)
    s = problem.target - f[problem.row]
    if problem.n_groups:
        s = s - lam[problem.group]
    top = np.where(np.isfinite(problem.upper), problem.upper, 50.0)
    bottom = np.where(np.isfinite(problem.lower), problem.lower, -50.0)
    grid = np.linspace(bottom, top, 20_001)
    by_scan = (s * grid - 0.5 * problem.ridge * grid**2).max(axis=0).sum()
    by_scan += 0.5 * 2.7 + problem.totals @ lam
    assert problem.primal(f, 2.7, lam) == pytest.approx(by_scan, rel=1e-5)


def test_hinge_primal_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    y, cost, f = rng.choice([-1.0, 1.0], N), rng.uniform(0.1, 2, N), rng.normal(size=N)
    slack = np.maximum(0, 1 - y * (f + 0.3))
    hinge = c_classification(y, cost).primal(f, 4.0, np.array([0.3]))
    assert hinge == pytest.approx(2.0 + cost @ slack)
    squared = c_classification(y, cost, squared=True).primal(f, 4.0, np.array([0.3]))
    assert squared == pytest.approx(2.0 + cost @ slack**2)


def test_nu_primal_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    y, w, f = rng.choice([-1.0, 1.0], N), rng.uniform(0.1, 2, N), rng.normal(size=N)
    b, rho, nu = 0.3, 0.8, 0.25
    expected = 2.0 - nu * rho * w.sum() + w @ np.maximum(0, rho - y * (f + b))
    primal = nu_classification(y, w, nu).primal(f, 4.0, np.array([b - rho, b + rho]))
    assert primal == pytest.approx(expected)


def test_tube_primals_are_the_textbook_formulas() -> None:
    rng = np.random.default_rng(0)
    y, cost, f = rng.normal(size=N), rng.uniform(0.1, 2, N), rng.normal(size=N)
    b, eps, nu = 0.3, 0.4, 0.25
    loss = cost @ np.maximum(0, np.abs(y - f - b) - eps)
    tube = epsilon_tube(y, cost, eps).primal(f, 4.0, np.array([b]))
    assert tube == pytest.approx(2.0 + loss)
    edges = np.array([b + eps, b - eps])
    expected = 2.0 + nu * eps * cost.sum() + loss
    assert nu_tube(y, cost, nu).primal(f, 4.0, edges) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_kkt_violation_by_looking_at_all_pairs(name: str) -> None:
    problem, K = _problem(name), _kernel(1)
    rng = np.random.default_rng(2)
    b = np.where(rng.random(problem.n_variables) < 0.3, problem.upper, problem.lower)
    b = np.where(np.isfinite(b) & (rng.random(len(b)) < 0.7), b, 0.3 * np.sign(problem.target))
    b = np.clip(b, problem.lower, problem.upper)
    f = K @ problem.coefficients(b)
    s = problem.target - f[problem.row] - problem.ridge * b
    worst = 0.0
    for i in range(problem.n_variables):
        if not problem.n_groups:
            worst = max(worst, s[i] if b[i] < problem.upper[i] else 0.0)
            worst = max(worst, -s[i] if b[i] > problem.lower[i] else 0.0)
            continue
        for j in range(problem.n_variables):
            movable = b[i] < problem.upper[i] and b[j] > problem.lower[j]
            if movable and problem.group[i] == problem.group[j]:
                worst = max(worst, s[i] - s[j])
    assert worst > 0
    assert problem.kkt_violation(b, f) == pytest.approx(worst, rel=1e-12)


def test_coefficients_add_the_two_variables_of_a_row() -> None:
    problem = _problem("tube")
    b = np.arange(2.0 * N)
    np.testing.assert_array_equal(problem.coefficients(b), b[:N] + b[N:])


def test_certificate_puts_the_numbers_together() -> None:
    problem, K = _problem("hinge"), _kernel(0)
    b = _feasible(problem, np.random.default_rng(0))
    f = K @ b
    found = bounds_of(problem, b, K)
    c = problem.certificate(b, f, found, tol=1e-3, n_iter=5, kernel_evaluations=900)
    assert c.primal == pytest.approx(problem.primal(f, b @ f, problem.thresholds(f)), rel=1e-12)
    assert c.primal > c.dual > 0  # the dual is that of the best multiple of b
    assert c.dual >= problem.dual(b, b @ f) * (1 - 1e-12)
    assert not c.converged
    assert (c.n_iter, c.kernel_evaluations) == (5, 900)
    assert not problem.certificate(b, f, found, tol=1e9, n_iter=1).converged  # the gap is large
    near = Bracket(1.0, 0.999, 0.0)
    assert problem.certificate(b, f, near, tol=1e9, n_iter=1).converged
    halved = problem.certificate(b, f, near, tol=0.6 * c.kkt_violation, n_iter=1, unit=2.0)
    assert halved.kkt_violation == c.kkt_violation / 2
    assert halved.converged
    assert not problem.certificate(b, f, near, tol=0.6 * c.kkt_violation, n_iter=1).converged


def test_optimum_of_two_points_closes_the_gap() -> None:
    y = np.array([-1.0, 1.0])
    K = np.array([[1.0, -1.0], [-1.0, 1.0]])
    problem = c_classification(y, np.full(2, 10.0))
    b = np.array([-0.5, 0.5])
    c = problem.certificate(b, K @ b, bounds_of(problem, b, K), tol=1e-12, n_iter=1)
    assert c.primal == pytest.approx(0.5)
    assert c.gap == pytest.approx(0.0, abs=1e-13)
    assert c.kkt_violation == pytest.approx(0.0, abs=1e-15)
    assert c.converged


def test_a_lack_of_rounding_size_moves_nothing() -> None:
    """0.1 + 0.2 is not 0.3 in floating point, and all three variables are at their bounds."""
    y = np.array([1.0, 1.0, -1.0])
    problem = c_classification(y, np.array([0.1, 0.2, 0.3]))
    b = np.array([0.1, 0.2, -0.3])
    assert b.sum() != 0
    np.testing.assert_array_equal(problem.repair(b), b)
