"""The Crammer-Singer solver: degenerate data, warm starts, budgets, both linear solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.solvers.base import Budget
from widemargin.solvers.crammer_singer import smoothed_newton, solve
from widemargin.solvers.crammer_singer.smoothed_newton import Level, project


def blobs(n=60, d=4, K=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % K
    return rng.normal(size=(n, d)) + rng.normal(size=(K, d))[codes], codes


def test_the_projection_onto_the_simplex():
    rng = np.random.default_rng(0)
    Z = 3.0 * rng.normal(size=(50, 6))
    p = project(Z)
    assert (p >= 0).all()
    assert p.sum(axis=1) == pytest.approx(np.ones(50))
    q = rng.dirichlet(np.ones(6), 50)  # the distance to any other point is larger
    assert (((p - Z) ** 2).sum(axis=1) <= ((q - Z) ** 2).sum(axis=1)).all()
    assert project(1e12 + Z).sum(axis=1) == pytest.approx(np.ones(50), abs=1e-14)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_degenerate_features(C, intercept):
    X, codes = blobs()
    Z = np.hstack([X, X, np.zeros((60, 1)), np.full((60, 1), 5.0)])
    problem = CrammerSinger(codes, np.full(60, C), 3, intercept)
    for data in (Z, sp.csr_array(Z), Z.astype(np.float32)):
        found = solve(problem, data, tol=1e-7, budget=Budget(500))
        proof = problem.certificate(
            data, found.coef, found.intercepts, found.alpha, tol=1e-7, n_iter=1
        )
        assert found.status == "converged"
        assert proof.converged
        assert not found.coef[:, 8].any()


def test_only_features_of_zeros():
    problem = CrammerSinger(np.array([0, 0, 0, 1, 2]), np.ones(5), 3)
    found = solve(problem, np.zeros((5, 2)), tol=1e-9, budget=Budget(200))
    assert found.status == "converged"
    assert found.primal == pytest.approx(4.0)  # b_0 - b_k = 1: two samples with slack 2
    bare = solve(
        CrammerSinger(problem.codes, problem.cost, 3, False), np.zeros((5, 2)),
        tol=1e-9, budget=Budget(200),
    )  # fmt: skip
    assert bare.primal == pytest.approx(5.0)


def test_a_class_of_one_sample_and_an_absent_class():
    X, codes = blobs()
    codes = np.where(np.arange(60) == 0, 3, codes)
    for K in (4, 5):
        found = solve(CrammerSinger(codes, np.ones(60), K), X, tol=1e-8, budget=Budget(500))
        assert found.status == "converged"


def test_warm_starts():
    X, codes = blobs()
    problem = CrammerSinger(codes, np.full(60, 2.0), 3)
    cold = solve(problem, X, tol=1e-8, budget=Budget(200))
    warm = solve(problem, X, tol=1e-8, budget=Budget(200), start=cold)
    assert warm.n_iter < cold.n_iter
    assert warm.primal == pytest.approx(cold.primal, rel=1e-7)


def test_the_budget_and_the_monitor_end_a_run():
    X, codes = blobs()
    problem = CrammerSinger(codes, np.full(60, 10.0), 3)
    assert solve(problem, X, tol=1e-12, budget=Budget(2)).status == "max_iter"
    stopped = solve(problem, X, tol=1e-12, budget=Budget(99, lambda n, gap: n < 3))
    assert stopped.status == "stopped"
    assert stopped.n_iter == 3
    proof = problem.certificate(
        X, stopped.coef, stopped.intercepts, stopped.alpha, tol=1e-3, n_iter=3
    )
    assert 0.0 <= proof.dual <= proof.primal < problem.cost.sum()


@pytest.mark.parametrize("intercept", [True, False])
def test_conjugate_gradients_take_the_same_direction(intercept, monkeypatch):
    X, codes = blobs()
    ends = []
    for largest in (1500, 0):
        monkeypatch.setattr(smoothed_newton, "LARGEST_FACTOR", largest)
        monkeypatch.setattr(smoothed_newton, "FORCING", 1e-10)
        level = Level(CrammerSinger(codes, np.ones(60), 3, intercept), X)
        assert level.step(ahead=False)
        level.centre = level.p
        level.respond()
        assert level.step(ahead=True)
        ends.append(level)
    assert np.abs(ends[0].W - ends[1].W).max() <= 1e-7
    assert ends[0].value == pytest.approx(ends[1].value, rel=1e-9)
