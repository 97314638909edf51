"""Crammer-Singer against Clarabel and LIBLINEAR: objectives and certificates."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.solvers.base import Budget
from widemargin.solvers.crammer_singer import solve

DIGITS = 1e-7


def rows(seed):
    """Random samples of two to five classes of different sizes, wide or tall."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(10, 40)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    if seed % 4 == 3:
        d = 30
    codes = np.concatenate([np.arange(K), rng.choice(K, n - K, p=rng.dirichlet(np.ones(K) * 3))])
    X = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(K, d))[codes] + rng.normal(size=d)
    if seed % 3 == 1:
        X[:, 0] = 0.0
    if seed % 3 == 2:
        X[:, -1] = X[:, 0]
    cost = 10.0 ** rng.uniform(-2.5, 2.0) * rng.uniform(0.2, 3.0, n)
    return X, codes, cost, K


def by_clarabel(X, codes, cost, K, intercept):
    """Return the optimum of min 1/2 |W|^2 + sum c xi, one inequality per sample and class."""
    n, d = X.shape
    m = K * d + K + n
    P = sp.diags_array(np.concatenate([np.ones(K * d), np.zeros(K + n)])).tocsc()
    q = np.concatenate([np.zeros(K * d + K), cost])
    A, side = [], []
    for i, own in enumerate(codes):
        for k in range(K):
            row = np.zeros(m)
            row[k * d : (k + 1) * d] += X[i]
            row[own * d : (own + 1) * d] -= X[i]
            if intercept:
                row[K * d + k] += 1.0
                row[K * d + own] -= 1.0
            row[K * d + K + i] = -1.0
            A.append(row)
            side.append(-float(k != own))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(side))]
    A, side = sp.csc_matrix(np.array(A)), np.array(side)
    found = clarabel.DefaultSolver(P, q, A, side, cones, settings).solve()
    assert abs(found.obj_val - found.obj_val_dual) <= DIGITS * max(1.0, abs(found.obj_val))
    return 0.5 * (found.obj_val + found.obj_val_dual)


def certified(problem, X, tol=1e-9, **options):
    """Solve a problem; return the model and its certificate."""
    found = solve(problem, X, tol=tol, budget=Budget(500), **options)
    proof = problem.certificate(
        X, found.coef, found.intercepts, found.alpha, tol=tol, n_iter=found.n_iter
    )
    assert found.status == "converged"
    assert proof.converged
    assert proof.primal == pytest.approx(found.primal, rel=1e-10)
    assert proof.dual == pytest.approx(found.dual, rel=1e-10)
    return found, proof


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_clarabels(seed):
    X, codes, cost, K = rows(seed)
    intercept = seed % 2 == 0
    best = by_clarabel(X, codes, cost, K, intercept)
    kind = (np.asarray, sp.csr_array)[seed % 5 % 2]
    found, proof = certified(CrammerSinger(codes, cost, K, intercept), kind(X))
    slack = DIGITS * max(1.0, best)
    assert proof.dual <= best + slack
    assert proof.primal >= best - slack
    assert proof.primal == pytest.approx(best, rel=DIGITS, abs=DIGITS)
    # The primal of the certificate is that of the model, computed here once more.
    F = X @ found.coef.T + found.intercepts
    own = F[np.arange(len(codes)), codes]
    losses = [max(0.0, max(1 + F[i, k] - own[i] for k in range(K) if k != c))
              for i, c in enumerate(codes)]  # fmt: skip
    primal = 0.5 * (found.coef**2).sum() + cost @ np.array(losses)
    assert proof.primal == pytest.approx(primal, rel=1e-12)
    # And the dual variables are feasible.
    alpha, mine = found.alpha, np.eye(K, dtype=bool)[codes]
    assert np.abs(alpha.sum(axis=1)).max() <= 1e-12 * cost.max()
    assert (alpha[~mine] <= 1e-15 * cost.max()).all()
    assert (alpha[mine] <= cost * (1 + 1e-12)).all()
    if intercept:
        assert np.abs(alpha.sum(axis=0)).max() <= 1e-12 * cost.sum()
        assert abs(found.intercepts.sum()) <= 1e-9 * max(1.0, np.abs(found.intercepts).max())
    else:
        assert not found.intercepts.any()


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("scaling", [None, 3.0])
def test_the_optimum_is_liblinears(C, scaling):
    X, codes = load_iris(return_X_y=True)
    reference = LinearSVC(
        multi_class="crammer_singer", C=C, tol=1e-7, max_iter=300_000, random_state=0,
        fit_intercept=scaling is not None, intercept_scaling=scaling or 1.0,
    ).fit(X, codes)  # fmt: skip
    W = reference.coef_
    if scaling:  # LIBLINEAR penalises the intercepts
        X = np.hstack([X, np.full((150, 1), scaling)])
        W = np.hstack([W, reference.intercept_[:, None] / scaling])
    problem = CrammerSinger(codes, np.full(150, C), 3, intercept=False)
    theirs = problem.primal(W, X @ W.T)
    _, proof = certified(problem, X)
    assert proof.dual <= theirs * (1 + 1e-12)
    assert proof.primal == pytest.approx(theirs, rel=1e-4)


def test_two_classes_are_a_binary_problem():
    """w_0 = -w_1 = w/2: the binary hinge with a quarter of the squared norm."""
    X, codes = load_iris(return_X_y=True)
    X, codes = X[50:], codes[50:] - 1
    _, both = certified(CrammerSinger(codes, np.ones(100), 2, intercept=False), X)
    reference = LinearSVC(
        loss="hinge", C=2.0, tol=1e-7, max_iter=1_000_000, fit_intercept=False, random_state=0
    )
    w = reference.fit(X, codes).coef_[0]
    hinge = np.maximum(0.0, 1.0 - (2 * codes - 1) * (X @ w)).sum()
    assert both.primal == pytest.approx(0.25 * w @ w + hinge, rel=1e-4)


def test_many_features_by_conjugate_gradients():
    """The system is too large for a factorisation: the same optimum from sparse and dense data."""
    rng = np.random.default_rng(1)
    codes = np.arange(120) % 4
    topics = rng.random((4, 800)) < 0.1
    X = (rng.random((120, 800)) < 0.02 + 0.05 * topics[codes]) * rng.random((120, 800))
    for intercept in (False, True):
        problem = CrammerSinger(codes, np.full(120, 2.0), 4, intercept)
        _, dense = certified(problem, X, tol=1e-7)
        _, sparse = certified(problem, sp.csr_array(X.astype(np.float32)), tol=1e-7)
        assert dense.primal == pytest.approx(sparse.primal, rel=1e-6)


def test_weights_are_repetitions():
    X, codes, _, K = rows(4)
    weight = np.random.default_rng(0).integers(1, 4, len(codes))
    _, weighted = certified(CrammerSinger(codes, 0.7 * weight, K), X)
    again = np.repeat(np.arange(len(codes)), weight)
    problem = CrammerSinger(codes[again], np.full(len(again), 0.7), K)
    _, repeated = certified(problem, X[again])
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-8)
