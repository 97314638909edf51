"""The l1 margin: intercepts, feasible dual points, certificates of any model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from widemargin.problems.l1_margin import L1Margin
from widemargin.solvers.l1_margin import LinearRows


def case(seed, intercept=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4))
    y = np.where(rng.random(30) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, L1Margin(y, 10.0 ** rng.uniform(-3, 3, 30), intercept)


@pytest.mark.parametrize("seed", range(10))
def test_the_intercept_minimises_the_loss(seed):
    X, problem = case(seed)
    f = 10.0 ** (seed - 5) * (X @ np.ones(4)) + seed
    best = minimize_scalar(
        lambda b: problem.primal(np.zeros(4), f, b), bracket=(-10, 10), tol=1e-12
    )
    for guess in (0.0, -1e3, 1e3):
        b = problem.best_intercept(f, guess)
        assert problem.primal(np.zeros(4), f, b) <= best.fun * (1 + 1e-10)
        pull = problem.multipliers(f, b)
        assert abs(problem.y @ pull) <= 1e-10 * pull.sum()


def test_without_an_intercept_it_is_zero():
    X, problem = case(0, intercept=False)
    assert problem.best_intercept(X[:, 0], 3.0) == 0.0
    assert problem.name == "l1 C-squared-hinge, no intercept"


def test_an_intercept_without_any_loss_is_kept():
    problem = L1Margin(np.array([1.0, -1.0]), np.ones(2))
    assert problem.best_intercept(np.array([5.0, -5.0]), 0.5) == 0.5
    only = L1Margin(np.ones(2), np.ones(2))
    assert only.primal(np.zeros(1), np.zeros(2), only.best_intercept(np.zeros(2))) == 0.0


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_any_model_and_any_multipliers_have_a_valid_certificate(seed, intercept):
    X, problem = case(seed, intercept)
    rng = np.random.default_rng(seed + 100)
    best = -np.inf
    worst = np.inf
    for _ in range(20):
        w, b = rng.normal(size=4), float(rng.normal()) * intercept
        proof = problem.certificate(
            LinearRows(X), w, b, rng.normal(size=30), tol=1e-3, n_iter=1
        )  # fmt: skip
        own = problem.certificate(
            LinearRows(X), w, b, problem.multipliers(X @ w, b), tol=1e-3, n_iter=1
        )
        best, worst = max(best, proof.dual, own.dual), min(worst, proof.primal)
        assert proof.dual >= 0.0
        assert proof.kkt_violation > 0.0
    assert best <= worst


def test_the_scale_is_the_best_one():
    X, problem = case(3)
    alpha = problem.balanced(np.random.default_rng(0).random(30))
    assert problem.y @ alpha == pytest.approx(0.0, abs=1e-12)
    correlation = X.T @ (problem.y * alpha)
    factor = problem.scale(alpha, correlation)
    assert factor * np.abs(correlation).max() <= 1 + 1e-12
    for other in (0.9 * factor, 0.5 * factor, 0.0):
        assert problem.dual(other * alpha) <= problem.dual(factor * alpha)
    # Without correlations only the quadratic term limits it.
    free = problem.scale(alpha, np.zeros(4))
    for other in (0.9 * free, 1.1 * free):
        assert problem.dual(other * alpha) < problem.dual(free * alpha)
    assert problem.scale(np.zeros(30), np.zeros(4)) == 0.0


def test_multipliers_of_one_class_only_are_no_dual_point():
    problem = L1Margin(np.array([1.0, -1.0]), np.ones(2))
    assert not problem.balanced(np.array([1.0, 0.0])).any()


def test_the_empty_model():
    y = np.array([1.0, 1.0, 1.0, -1.0])
    b, alpha = L1Margin(y, np.full(4, 0.5)).empty_model()
    assert b == pytest.approx(0.5)
    assert alpha == pytest.approx([0.5, 0.5, 0.5, 1.5])
    b, alpha = L1Margin(y, np.full(4, 0.5), intercept=False).empty_model()
    assert b == 0.0
    assert alpha == pytest.approx(np.ones(4))
