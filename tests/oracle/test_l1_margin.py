"""l1-penalised squared hinge against Clarabel and LIBLINEAR: objectives and certificates."""

from __future__ import annotations

import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from widemargin.problems.l1_margin import L1Margin
from widemargin.solvers.base import Budget
from widemargin.solvers.l1_margin import LinearRows, solve

DIGITS = 1e-7


def rows(seed):
    """Random samples of two classes, wide or tall, with features that are easy to get wrong."""
    rng = np.random.default_rng(seed)
    n, d = (int(rng.integers(8, 50)), int(rng.integers(1, 9)))
    if seed % 3 == 0:
        n, d = d + 6, n
    X = rng.normal(size=(n, d)) * rng.uniform(0.3, 3.0, d) + rng.normal(size=d)
    y = np.where(X[:, 0] + rng.normal(size=n) > np.median(X[:, 0]), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if seed % 2 and d > 3:
        X[:, 1] = 0.0
        X[:, 2] = 3.0
        X[:, 3] = X[:, 0]
    cost = 10.0 ** rng.uniform(-2.5, 2.0) * rng.uniform(0.2, 3.0, n)
    return X, y, cost


def by_clarabel(X, y, cost, intercept):
    """Return the optimum of min sum(w+ + w-) + sum c xi^2, xi >= 1 - y (w.x + b), xi >= 0."""
    n, d = X.shape
    m = 2 * d + 1 + n
    P = sp.diags_array(np.concatenate([np.zeros(2 * d + 1), 2.0 * cost])).tocsc()
    q = np.concatenate([np.ones(2 * d), np.zeros(1 + n)])
    signed = y[:, None] * X
    b = y[:, None] if intercept else np.zeros((n, 1))
    margins = np.hstack([-signed, signed, -b, -np.eye(n)])
    signs = np.zeros((2 * d + n, m))
    signs[: 2 * d, : 2 * d] = -np.eye(2 * d)
    signs[2 * d :, 2 * d + 1 :] = -np.eye(n)
    A = np.vstack([margins, signs])
    side = np.concatenate([-np.ones(n), np.zeros(2 * d + n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(side))]
    found = clarabel.DefaultSolver(P, q, sp.csc_matrix(A), side, cones, settings).solve()
    assert abs(found.obj_val - found.obj_val_dual) <= DIGITS * max(1.0, abs(found.obj_val))
    return 0.5 * (found.obj_val + found.obj_val_dual)


def certified(problem, X, tol=1e-9, **options):
    """Solve a problem; return the model and its certificate."""
    found = solve(problem, X, tol=tol, budget=Budget(500), **options)
    proof = problem.certificate(
        LinearRows(X), found.coef, found.intercept, found.alpha, tol=tol, n_iter=found.n_iter
    )
    assert found.status == "converged"
    assert proof.converged
    assert proof.primal == pytest.approx(found.primal, rel=1e-10)
    assert proof.dual == pytest.approx(found.dual, rel=1e-10)
    return found, proof


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_clarabels(seed):
    X, y, cost = rows(seed)
    intercept = seed % 4 < 2
    best = by_clarabel(X, y, cost, intercept)
    kind = (np.asarray, sp.csr_array)[seed % 5 % 2]
    found, proof = certified(L1Margin(y, cost, intercept), kind(X))
    slack = DIGITS * max(1.0, best)
    assert proof.dual <= best + slack
    assert proof.primal >= best - slack
    assert proof.primal == pytest.approx(best, rel=DIGITS, abs=DIGITS)
    # The primal of the certificate is that of the model, computed here once more.
    xi = np.maximum(0.0, 1.0 - y * (X @ found.coef + found.intercept))
    assert proof.primal == pytest.approx(np.abs(found.coef).sum() + cost @ xi**2, rel=1e-12)
    # And the multipliers are feasible.
    assert (found.alpha >= 0).all()
    assert np.abs(X.T @ (y * found.alpha)).max() <= 1 + 1e-12
    if intercept:
        assert abs(y @ found.alpha) <= 1e-12 * found.alpha.sum()
    else:
        assert found.intercept == 0.0


@pytest.mark.parametrize("C", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_optimum_is_liblinears(C, sparse):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 30)) * (rng.random((120, 30)) < 0.4)
    y = np.where(X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=120) > 0.2, 1.0, -1.0)
    reference = LinearSVC(
        penalty="l1",
        dual=False,
        C=C,
        tol=1e-8,
        max_iter=20_000,
        intercept_scaling=2.0,
        random_state=0,
    ).fit(X, y)
    Z = np.hstack([X, np.full((120, 1), 2.0)])  # LIBLINEAR penalises the intercept
    w = np.append(reference.coef_[0], reference.intercept_[0] / 2.0)
    problem = L1Margin(y, np.full(120, C), intercept=False)
    theirs = problem.primal(w, Z @ w, 0.0)
    found, proof = certified(problem, sp.csr_array(Z) if sparse else Z)
    assert proof.dual <= theirs * (1 + 1e-12)
    assert proof.primal == pytest.approx(theirs, rel=1e-6)
    assert ((found.coef != 0) == (np.abs(w) > 1e-9)).mean() > 0.95


def test_many_more_features_than_samples():
    """Working sets that hold a part of the features, by columns."""
    rng = np.random.default_rng(6)
    X = sp.random_array((150, 3000), density=0.02, rng=rng, format="csr")
    w = np.zeros(3000)
    w[:40] = rng.normal(size=40)
    y = np.where(X @ w >= np.median(X @ w), 1.0, -1.0)
    for C in (1.0, 100.0):
        for intercept in (False, True):
            problem = L1Margin(y, np.full(150, C), intercept)
            found, proof = certified(problem, X, tol=1e-8)
            _, same = certified(problem, X.toarray(), tol=1e-8)
            assert proof.primal == pytest.approx(same.primal, rel=1e-7)
            assert 0 < np.count_nonzero(found.coef) <= 160
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reference = LinearSVC(
            penalty="l1", dual=False, tol=1e-6, fit_intercept=False, max_iter=20_000,
            random_state=0,
        )  # fmt: skip
        u = reference.fit(X, y).coef_[0]
    problem = L1Margin(y, np.ones(150), intercept=False)
    _, proof = certified(problem, X, tol=1e-8)
    assert problem.primal(u, X @ u, 0.0) == pytest.approx(proof.primal, rel=1e-4)


def test_weights_are_repetitions():
    X, y, _ = rows(4)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    _, weighted = certified(L1Margin(y, 0.7 * weight), X)
    again = np.repeat(np.arange(len(y)), weight)
    _, repeated = certified(L1Margin(y[again], np.full(len(again), 0.7)), X[again])
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-8)
