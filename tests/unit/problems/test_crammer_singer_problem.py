"""Crammer-Singer: losses by their definition, feasible dual variables, certificates."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.problems.crammer_singer import CrammerSinger


def case(seed, intercept=True):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, 26)])
    X = rng.normal(size=(30, 5)) + rng.normal(size=(4, 5))[codes]
    return X, CrammerSinger(codes, 10.0 ** rng.uniform(-2, 2, 30), 4, intercept)


def test_losses_by_their_definition():
    F = np.array([[2.0, 0.5, 0.0], [0.0, 0.3, 0.1], [1.0, 1.0, 1.0]])
    problem = CrammerSinger(np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0]), 3)
    assert problem.losses(F) == pytest.approx([0.0, 0.8, 1.0])
    assert problem.primal(np.ones((3, 2)), F) == pytest.approx(3.0 + 1.6 + 3.0)
    assert problem.name == "Crammer-Singer"


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_repaired_variables_are_feasible(seed, intercept):
    _, problem = case(seed, intercept)
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(4, 0.3), 30)
    p[:3] = problem.own[:3]
    alpha = problem.variables(p) + 1e-3 * rng.normal(size=(30, 4)) * problem.cost[:, None]
    shares = problem.shares(alpha)
    assert (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(30), abs=1e-13)
    if intercept:
        sums = problem.variables(shares).sum(axis=0)
        assert np.abs(sums).max() <= 1e-13 * problem.cost.sum()
        again = problem.shares(problem.variables(shares))
        assert again == pytest.approx(shares, abs=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_any_model_and_any_variables_have_a_valid_certificate(seed, intercept):
    X, problem = case(seed, intercept)
    rng = np.random.default_rng(seed + 100)
    best, worst = -np.inf, np.inf
    for size in (0.01, 0.1, 1.0):
        W, b = size * rng.normal(size=(4, 5)), rng.normal(size=4) * intercept
        alpha = problem.variables(problem.own + size * rng.normal(size=(30, 4)))
        proof = problem.certificate(X, W, b, alpha, tol=1e-3, n_iter=1)
        best, worst = max(best, proof.dual), min(worst, proof.primal)
        assert proof.kkt_violation > 0.0
    assert best <= worst


def test_the_scale_is_the_best_one():
    X, problem = case(1, intercept=False)
    alpha = problem.variables(np.random.default_rng(0).dirichlet(np.ones(4), 30))
    expansion = alpha.T @ X
    factor = problem.scale(alpha, expansion)
    assert 0 < factor < 1
    best = problem.dual(factor * alpha, factor * expansion)
    for other in (0.9 * factor, 1.1 * factor):
        assert problem.dual(other * alpha, other * expansion) < best
    assert problem.scale(np.zeros((30, 4)), np.zeros((4, 5))) == 1.0
