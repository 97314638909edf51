"""ScaledBoxQP problems and implicit outliers against Clarabel, which shares nothing with them."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import sources
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp
from widemargin.solvers.out_of_core import solve

RELATIVE = 1e-6


def clarabel_primal(X, y, form: LinearProblem, weight):
    """Solve the primal over (w, t, xi): the objective, w and the thresholds."""
    m, n = X.shape
    p = form.n_thresholds
    P = sp.diags(np.concatenate([np.ones(n), np.zeros(p + m)]), format="csc")
    linear = np.concatenate([np.zeros(n), np.zeros(p), form.cap * weight])
    if form.kind == "hull":
        linear[n : n + 2] = -1.0, 1.0  # -(theta+ - theta-)
    margin = sp.hstack([sp.csc_matrix(np.hstack([y[:, None] * X, form.columns(y)])), sp.eye(m)])
    positive = sp.hstack([sp.csc_matrix((m, n + p)), sp.eye(m)])
    A = -sp.vstack([margin, positive], format="csc")
    side = np.concatenate([np.full(m, -form.target), np.zeros(m)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(2 * m)]
    solution = clarabel.DefaultSolver(P, linear, A, side, cones, settings).solve()
    x = np.array(solution.x)
    return solution.obj_val, x[:n], x[n : n + p]


def make(seed: int, m: int, n: int):
    """Two noisy classes; weights 0 to 2, two for the first rows of each class."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)) + 0.5
    y = np.where(X @ rng.standard_normal(n) + 0.4 * rng.standard_normal(m) > 0.3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.integers(0, 3, m).astype(float)
    weight[:2] = 2.0
    return X, y, weight


def forms(y, weight, seed: int) -> list[LinearProblem]:
    smaller = min(weight[y > 0].sum(), weight[y < 0].sum())
    share = 0.55 + 0.4 * np.random.default_rng(seed).random()
    return [
        LinearProblem("hinge", 10.0 ** (seed % 5 - 3)),
        LinearProblem("hinge", 10.0 ** (seed % 5 - 3), intercept=False),
        LinearProblem("hull", 1.0 / (share * smaller)),
    ]


def agree(form: LinearProblem, w, t, primal: float, X, y, weight, *, unique: bool = True) -> None:
    objective, w_ref, t_ref = clarabel_primal(X, y, form, weight)
    assert primal == pytest.approx(objective, rel=RELATIVE)
    length = np.linalg.norm(w_ref)
    assert np.linalg.norm(w) == pytest.approx(length, rel=RELATIVE, abs=1e-9)
    np.testing.assert_allclose(w, w_ref, atol=10 * RELATIVE * length + 1e-9)
    if unique:
        np.testing.assert_allclose(t, t_ref, rtol=10 * RELATIVE, atol=10 * RELATIVE)


@pytest.mark.parametrize("seed", range(10))
def test_box_qps(seed: int) -> None:
    X, y, weight = make(seed, 80 + 20 * seed, 2 + seed % 4)
    for form in forms(y, weight, seed):
        found = solve_box_qp(
            BoxQP(
                y[:, None] * X,
                form.columns(y),
                form.sums(np.zeros(2)),
                np.full(len(y), form.target),
                form.cap * weight,
                np.zeros(X.shape[1]),
            )
        )
        assert found.exact
        slack = form.target - y * (X @ found.w) - form.columns(y) @ found.t
        primal = form.primal(found.w, found.t, float(weight @ np.maximum(slack, 0)))
        unique = bool(np.all(found.interval[:, 0] == found.interval[:, 1]))
        agree(form, found.w, found.t, primal, X, y, weight, unique=unique)


@pytest.mark.parametrize("seed", range(3))
def test_implicit_outliers(seed: int) -> None:
    """More rows than are solved at once, in parts, so that sampling and rounds are at work."""
    X, y, weight = make(seed, 7000, 3)
    cuts = (100, 4000)
    source = sources.from_arrays(
        np.split(X, cuts), np.split(y, cuts), np.split(weight, cuts)
    ).binary(1.0, -1.0)
    for form in forms(y, weight, seed):
        found = solve(form, source, tol=1e-10, budget=Budget(100), seed=seed)
        assert found.status == "converged"
        assert found.history[0]["explicit_rows"] < len(y)
        agree(form, found.coef, found.thresholds, found.primal, X, y, weight)


def test_caps_that_differ_between_the_classes() -> None:
    """D+ != D-: the weights carry the difference."""
    X, y, _ = make(5, 7000, 3)
    weight = np.where(y > 0, 1.0, 3.0)
    form = LinearProblem("hull", 1.0 / (0.7 * (y > 0).sum()))
    source = sources.from_arrays(X, y).binary(1.0, -1.0, cost_factors=(1.0, 3.0))
    found = solve(form, source, tol=1e-10, budget=Budget(100))
    assert found.status == "converged"
    agree(form, found.coef, found.thresholds, found.primal, X, y, weight)
