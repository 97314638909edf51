"""Bounds of linear programs hold in exact arithmetic, with and without the limits."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from widemargin import LOOSVC, LPSVC
from widemargin.certificate import Certificate
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import (
    LIMITED,
    MarginProgram,
    adaptive_margin,
    limits,
    lp_machine,
    nu_lp_machine,
)
from widemargin.problems.linear_program.bounds import Evaluation

K = np.array([[2.0, 1.0], [1.0, 2.0]])
Y = np.array([1.0, -1.0])  # Y K Y = [[2, -1], [-1, 2]]
ROWS = Rows(Kernel("precomputed"), K)
LARGEST = limits(K.diagonal(), K.max(axis=1))


def certified(
    problem: MarginProgram, rows: Rows, alpha: list[float], z: list[float], **given: float
) -> Certificate:
    return problem.certificate(rows, np.array(alpha), np.array(z), tol=1e-6, n_iter=1, **given)


def test_multipliers_of_the_lp_machine_are_scaled_until_they_are_feasible() -> None:
    """z = (1, 2) has G z = (0, 3), six times the price: a sixth of it proves 0.5."""
    problem = lp_machine(Y, np.array([1.0, 3.0]), LARGEST, lam=0.5)
    found = certified(problem, ROWS, [1.0, 0.0], [1.0, 2.0])
    assert found.problem == "LP"
    assert found.dual == pytest.approx(0.5, rel=1e-14)
    assert found.dual <= 0.5
    assert found.primal == pytest.approx(6.5, rel=1e-14)
    assert found.primal >= 6.5
    assert not found.converged


def test_uncertain_weights_enlarge_the_gap() -> None:
    problem = lp_machine(Y, np.array([1.0, 3.0]), LARGEST, lam=0.5)
    sure = certified(problem, ROWS, [1.0, 0.0], [1.0, 2.0])
    unsure = certified(problem, ROWS, [1.0, 0.0], [1.0, 2.0], weight_error=1e-9)
    assert unsure.primal >= sure.primal + 6e-9
    assert unsure.dual <= sure.dual - 0.5e-9


def test_multipliers_of_squared_slack_are_scaled_until_they_are_feasible() -> None:
    """A sixth of z = (1, 2) proves 3 / 6 - (1 / 4 + 4 / 12) / 36."""
    weight = np.array([1.0, 3.0])
    problem = replace(lp_machine(Y, weight, LARGEST, lam=0.5), squared=True)
    found = certified(problem, ROWS, [1.0, 0.0], [1.0, 2.0])
    assert found.dual == pytest.approx(0.5 - 7.0 / 12.0 / 36.0, rel=1e-14)
    assert found.primal == pytest.approx(0.5 + 3.0 * 4.0, rel=1e-14)  # alpha = (1, 0), xi = (0, 2)
    unsure = certified(problem, ROWS, [1.0, 0.0], [1.0, 2.0], weight_error=1e-9)
    assert unsure.primal >= found.primal + 12e-9
    assert unsure.dual < found.dual


def test_multipliers_of_squared_slack_may_exceed_the_weights() -> None:
    """G = [[0, -1], [-1, 0]]: nothing can be learnt, and z = 2 w proves the sum of the weights."""
    other = Rows(Kernel("precomputed"), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    ones = np.ones(2)
    problem = adaptive_margin(ones, ones, ones, limits(ones, ones), lam=1.0, squared=True)
    found = certified(problem, other, [0.0, 0.0], [2.0, 2.0])
    assert found.converged
    assert found.problem == "adaptive margin, squared slack"
    assert found.primal == 2.0
    assert found.dual == pytest.approx(2.0, rel=1e-14)


def test_without_a_price_only_feasible_multipliers_prove_anything_without_limits() -> None:
    """G = [[0, -1], [-1, 0]] of equal labels has the opposite sign: G z <= 0 for every z."""
    other = Rows(Kernel("precomputed"), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    ones = np.ones(2)
    problem = adaptive_margin(ones, ones, ones, limits(ones, ones), lam=1.0)
    found = certified(problem, other, [0.0, 0.0], [1.0, 1.0])
    assert found.problem == "adaptive margin"
    assert found.converged
    assert found.dual == pytest.approx(2.0, rel=1e-14)


def test_the_name_says_that_a_bound_needs_the_limits() -> None:
    """Two rows support each other by k: alpha = 1e8 (limit) leaves slack, 2e8 would not."""
    k = 0.5e-8
    rows = Rows(Kernel("precomputed"), np.array([[1.0, k], [k, 1.0]]))
    ones = np.ones(2)
    problem = adaptive_margin(ones, ones, ones, limits(ones, ones), lam=1.0)
    found = certified(problem, rows, [1e8, 1e8], [1.0, 1.0])
    assert found.problem == "adaptive margin" + LIMITED
    assert found.converged
    assert found.primal == pytest.approx(1.0, rel=1e-12)
    beyond = certified(problem, rows, [2e8, 2e8], [1.0, 1.0])
    assert beyond.primal < found.dual


def test_a_slack_that_is_surely_zero_is_zero() -> None:
    rows = Rows(Kernel("rbf", gamma=1.0), np.array([[0.0], [0.1]]))
    ones = np.ones(2)
    problem = adaptive_margin(ones, ones, ones, limits(ones, ones), lam=1.0)
    found = certified(problem, rows, [2.0, 2.0], [0.0, 0.0])
    assert (found.primal, found.dual, found.gap, found.rounding) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("scale", [1.0, 3.0, 1e-5])
def test_coefficients_of_the_nu_machine_are_a_direction(scale: float) -> None:
    problem = nu_lp_machine(Y, np.array([1.0, 3.0]), LARGEST, nu=0.5)
    found = certified(problem, ROWS, [0.5 * scale, 0.5 * scale], [0.25, 0.25])
    assert found.primal == pytest.approx(-0.25, rel=1e-14)
    assert found.dual == pytest.approx(-0.25, rel=1e-14)
    assert found.dual <= -0.25 <= found.primal
    assert found.converged


def test_what_the_multipliers_lack_of_nu_is_charged() -> None:
    """The sum is 0.3 too small: some G z may grow by 1.2 (in the scale of weights) times 2."""
    problem = nu_lp_machine(Y, np.array([1.0, 3.0]), LARGEST, nu=0.5)
    found = certified(problem, ROWS, [0.5, 0.5], [0.1, 0.1])
    assert found.dual <= -0.1 - 0.3 * 2.0 + 1e-9
    assert not found.converged


def test_more_digits_are_used_where_float64_proves_too_little() -> None:
    """G z = (-1e9, 1e9 + 1) is a difference of kernel values of 1e18; the price is its maximum."""
    x = 1e9
    rows, ones = Rows(Kernel("linear"), np.array([[x], [x + 1]])), np.ones(2)
    k = rows.diagonal()
    problem = lp_machine(Y, ones, limits(k, k), lam=x + 1)
    assert Evaluation(problem, rows, np.zeros(2), ones).pulls.error.max() > 1e-6 * x
    found = certified(problem, rows, [0.0, 0.0], [1.0, 1.0])
    assert found.problem == "LP"
    assert found.converged
    assert 2.0 - 1e-13 <= found.dual <= 2.0 <= found.primal <= 2.0 + 1e-13


def test_a_model_that_cannot_be_shown_to_beat_zero_is_zero() -> None:
    """One step from 1e12: the fit keeps alpha = 0 or something better."""
    rng = np.random.default_rng(0)
    X, y = 1e6 + rng.normal(size=(25, 3)), rng.integers(0, 2, 25)
    for machine in (LOOSVC, LPSVC):
        for steps in (1, 2, 5, 30):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = machine(kernel="poly", degree=4, gamma=1.0, max_iter=steps).fit(X, y)
            assert model.certificate_.primal <= 25
            assert 0.0 <= model.certificate_.dual <= model.certificate_.primal
