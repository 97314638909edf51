"""Preference machines against a quadratic program over every pair, by another solver.

Here the pairs of Herbrich et al. (2000), (2.23)-(2.25), are written out: nothing is shared with the
sweeps.
"""

from __future__ import annotations

import itertools

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import preference_problem
from widemargin.solvers.base import Budget
from widemargin.solvers.preference import solve

RELATIVE = 1e-6
KERNELS = {
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=1.0, degree=2, coef0=1.0),
    "rbf": Kernel("rbf", gamma=0.5),
}


def make(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy ranks of a bent utility; with queries and weights on request."""
    rng = np.random.default_rng(7)
    n = 24
    X = rng.standard_normal((n, 3))
    utility = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.standard_normal(n)
    codes = np.searchsorted(np.quantile(utility, [0.3, 0.5, 0.8]), utility)
    group, weight = np.zeros(n, int), np.ones(n)
    if "queries" in kind:
        group = rng.integers(0, 3, n)
    if "weights" in kind:
        weight = rng.choice([0.5, 1.0, 2.0, 3.0], n)
    return X, codes, group, weight


def all_pairs(codes, group):
    """Every comparable pair, upper row first."""
    pairs = itertools.product(range(len(codes)), repeat=2)
    found = [(i, j) for i, j in pairs if codes[i] > codes[j] and group[i] == group[j]]
    return np.array(found).T


def reference(K, upper, lower, cost, squared):
    """The optimum by Clarabel: min 1/2 |v|^2 + sum cost xi (or xi^2), differences of Rv >= 1 - xi.

    R is a square root of K; its primal and dual objectives bracket the optimum, and only a tight
    bracket is a reference.
    """
    values, vectors = np.linalg.eigh(K)
    R = vectors[:, values > 1e-13 * values[-1]] * np.sqrt(values[values > 1e-13 * values[-1]])
    Z = R[upper] - R[lower]
    m, r = Z.shape
    brackets = []
    for tol, unit in itertools.product((1e-12, 1e-10, 1e-9), (1.0, float(cost.max()))):
        quadratic = np.concatenate([np.full(r, 1.0), 2.0 * cost if squared else np.zeros(m)])
        linear = np.concatenate([np.zeros(r), np.zeros(m) if squared else cost])
        A = np.block([[-Z, -np.eye(m)], [np.zeros((m, r)), -np.eye(m)]])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
        found = clarabel.DefaultSolver(
            sp.diags_array(quadratic / unit, format="csc"),
            linear / unit,
            sp.csc_matrix(A),
            np.concatenate([-np.ones(m), np.zeros(m)]),
            [clarabel.NonnegativeConeT(2 * m)],
            settings,
        ).solve()
        brackets.append((unit * found.obj_val_dual, unit * found.obj_val))
    low, high = min(brackets, key=lambda b: abs(b[1] - b[0]))
    assert abs(high - low) <= 0.3 * RELATIVE * abs(low)
    return 0.5 * (low + high)


def pair_variables(point, upper, lower, cost, squared):
    """The dual variables of all pairs, from the definition of the dual point."""
    z = 1.0 - (point.f[upper] - point.f[lower])
    if squared:
        return 2.0 * cost * np.maximum(z, 0.0)
    if point.listed is None:
        return cost * np.clip(z / point.width, 0.0, 1.0)
    a = np.where(z > point.width, cost, 0.0)
    place = {pair: k for k, pair in enumerate(zip(upper, lower, strict=True))}
    listed = point.listed
    for i, j, value in zip(listed.upper, listed.lower, listed.values, strict=True):
        a[place[i, j]] = value
    return a


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("kind", ["plain", "queries", "weights", "queries and weights"])
def test_optimum_and_gap_over_all_pairs(kind, kernel, loss, C):
    X, codes, group, weight = make(kind)
    upper, lower = all_pairs(codes, group)
    cost, squared = C * weight[upper] * weight[lower], loss == "squared_hinge"
    K = KERNELS[kernel](X, X)
    optimum = reference(K, upper, lower, cost, squared)

    problem = preference_problem(codes, C=C, loss=loss, group=group, weight=weight)
    assert problem.n_pairs == pytest.approx(float((weight[upper] * weight[lower]).sum()))
    linear = kernel == "linear"
    data = X if linear else Rows(KERNELS[kernel], X)
    result = solve(problem, data, tol=1e-7, budget=Budget(1000))
    certificate = problem.certificate(result, data, tol=1e-7)

    # Everything again, from the coefficients and the pairs alone.
    f = X @ result.coef if linear else K @ result.coef
    norm2 = result.coef @ result.coef if linear else result.coef @ f
    slack = np.maximum(1.0 - (f[upper] - f[lower]), 0.0)
    primal = 0.5 * norm2 + cost @ (slack**2 if squared else slack)
    a = pair_variables(result.point, upper, lower, cost, squared)
    beta = np.bincount(upper, a, len(f)) - np.bincount(lower, a, len(f))
    dual = a.sum() - 0.5 * beta @ K @ beta - (0.25 * a @ (a / cost) if squared else 0.0)

    assert a.min() >= 0
    assert squared or np.all(a <= cost * (1 + 1e-12))
    assert result.status == "converged"
    assert certificate.converged
    assert abs(primal - optimum) <= RELATIVE * abs(optimum)
    assert abs(dual - optimum) <= RELATIVE * abs(optimum)
    # Both objectives are rounded outwards, by no more than the certificate says.
    assert 0 < certificate.rounding <= 1e-7 * max(1.0, abs(primal))
    assert certificate.primal - primal + 1e-9 * abs(primal) >= 0
    assert certificate.primal - certificate.rounding <= primal + 1e-9 * abs(primal)
    assert certificate.dual <= dual + 1e-9 * abs(dual)
    assert certificate.dual + certificate.rounding >= dual - 1e-9 * abs(dual)
