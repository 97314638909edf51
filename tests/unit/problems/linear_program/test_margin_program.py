"""The programs as they are stated: objective, bound and scale of the gap, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.problems.linear_program import (
    LIMIT,
    MarginProgram,
    limits,
    lp_machine,
    nu_lp_machine,
)

K = np.array([[2.0, 1.0], [1.0, 2.0]])
Y = np.array([1.0, -1.0])  # G = [[2, -1], [-1, 2]]
WEIGHT = np.array([1.0, 3.0])
LARGEST = limits(K.diagonal(), K.max(axis=1))


def test_objective_and_bound_of_the_lp_machine() -> None:
    """alpha = (1, 0): margins 2 and -1; z = (1, 2): pulls 0 and 3, 2.5 above the price."""
    problem = lp_machine(Y, WEIGHT, LARGEST, lam=0.5)
    alpha, z = np.array([1.0, 0.0]), np.array([1.0, 2.0])
    f, g = K @ (Y * alpha), K @ (Y * z)
    assert problem.primal(alpha, f) == 3 * 2 + 0.5
    assert problem.objective(alpha, np.array([1.0, 2.0])) == 1 + 3 * 2 + 0.5
    assert problem.dual(z, g) == 3 - LIMIT / 2 * 2.5
    assert problem.lower_bound(3.0, np.array([-1.0, 2.5])) == problem.dual(z, g)
    assert problem.scale(alpha, f) == 6.5


def test_objective_and_bound_of_the_nu_machine() -> None:
    problem = nu_lp_machine(Y, WEIGHT, LARGEST, nu=0.5)
    alpha, z = np.array([0.5, 0.5]), np.array([0.25, 0.25])
    f, g = K @ (Y * alpha), K @ (Y * z)
    assert problem.primal(alpha, f) == -0.5 * 0.5
    assert problem.dual(z, g) == -0.25
    assert problem.is_optimal(alpha, f, z, g, tol=0.0)
    assert problem.scale(alpha, f) == 0.5 * 0.5


@pytest.mark.parametrize("n", [2, 2000])
def test_gaps_below_the_rounding_of_the_margins_are_none(n: int) -> None:
    """Without a margin a millionth of the scale is what sums of n terms are wrong by."""
    y, weight = np.resize(Y, n), np.ones(n)
    problem = nu_lp_machine(y, weight, limits(np.full(n, 7.0), np.full(n, 7.0)), nu=0.5)
    alpha, zero = np.full(n, 1.0 / n), np.zeros(n)
    tolerated = 1e-6 * problem.scale(alpha, zero)
    assert tolerated == pytest.approx(0.5 * 1e-15 * 7.0 * max(1.0, np.sqrt(n / 20)))
    assert tolerated >= 0.5 * np.finfo(float).eps * np.sqrt(n) * 7.0


def test_objective_and_bound_with_squared_slack() -> None:
    """G = [[0, 1], [1, 0]]: alpha = (0.5, 0) has the slacks 1 and 0.5; z = 2 w xi."""
    ones, weight = np.ones(2), np.array([1.0, 3.0])
    far = np.full(2, 10.0)
    problem = MarginProgram("squared", ones, weight, ones, 0.0, far, squared=True)
    alpha, K = np.array([0.5, 0.0]), np.ones((2, 2))
    assert problem.primal(alpha, K @ alpha) == 1.0 + 3.0 * 0.25
    z = 2.0 * weight * problem.slack(alpha, K @ alpha)
    np.testing.assert_array_equal(z, [2.0, 3.0])
    # G z = (3, 2), at the limits of the coefficients.
    assert problem.gain(z) == 5.0 - 4.0 / 4.0 - 9.0 / 12.0
    assert problem.dual(z, K @ z) == problem.gain(z) - 50.0
    assert problem.primal(np.zeros(2), np.zeros(2)) == problem.gain(2.0 * weight) == 4.0
    assert problem.linear.primal(alpha, K @ alpha) == 2.5
