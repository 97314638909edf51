"""Squared slack of the adaptive-margin family against Clarabel, on copies instead of weights.

The reference is a quadratic program stated here once more. Its objective counts at coefficients
that are made feasible. In the narrow kernel optimal coefficients reach their limit, where the
bound of Clarabel is none: there, the model is compared from above only, unless its coefficients are
limited, and tests/oracle/test_exact_certificates.py judges the lower bound.
"""

from __future__ import annotations

import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.byhand import gram
from widemargin import LOOSVC, AdaptiveMarginSVC

RELATIVE = 1e-6
LIMITED = "limited coefficients"
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.7},
    "narrow": {"kernel": "rbf", "gamma": 4.0},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
}
LAMS = (0.05, 0.4, 1.0, 3.0, 8.0)


def drawn(kind: str, lam: float, seed: int):
    """Return samples, labels, whole weights and the matrix G of the copies."""
    rng = np.random.default_rng([seed, *kind.encode(), int(100 * lam)])
    n = int(rng.integers(20, 60))
    y = np.where(np.arange(n) % 3 > 0, 1, -1)
    X = rng.normal(size=(n, 3)) + float(rng.uniform(0.0, 1.0)) * y[:, None]
    if seed % 2:  # copies of either label
        X = np.round(X)
    weight = rng.integers(1, 4, n) if seed % 3 else np.ones(n, dtype=int)
    copies = np.repeat(np.arange(n), weight)
    Q = y[copies, None] * gram(X[copies], X[copies], **KERNELS[kind]) * y[copies]
    return X, y, weight, copies, Q - lam * np.diag(np.diag(Q))


def objective(G, alpha) -> float:
    slack = np.maximum(0.0, 1.0 - G @ alpha)
    return float(slack @ slack)


def by_clarabel(G) -> tuple[float, float]:
    """Return a lower bound on min |max(0, 1 - G a)|^2 over a >= 0, and the objective of a point.

    The dual is max 1'z - |z|^2 / 4 subject to z >= 0, G z <= 0.
    """
    n = len(G)
    P = sp.diags(np.append(np.zeros(n), np.full(n, 2.0)), format="csc")
    A = -np.block([[G, np.eye(n)], [np.eye(2 * n)]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    side, cones = np.append(-np.ones(n), np.zeros(2 * n)), [clarabel.NonnegativeConeT(3 * n)]
    problem = (P, np.zeros(2 * n), sp.csc_matrix(A), side, cones, settings)
    found = clarabel.DefaultSolver(*problem).solve()
    alpha, z = np.maximum(0.0, found.x[:n]), np.maximum(0.0, found.z[:n])
    lost = np.maximum(0.0, G @ z) @ alpha  # about what its excess can be worth
    return z.sum() - 0.25 * z @ z - lost, min(float(n), objective(G, alpha))


def fitted(lam: float, kind: str, X, y, weight):
    options = KERNELS[kind]
    model = AdaptiveMarginSVC(lam=lam, loss="squared_hinge", **options)
    if lam == 1.0:
        model = LOOSVC(loss="squared_hinge", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lam_max and limits have tests of their own
        return model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("kind", list(KERNELS))
def test_the_objective_is_that_of_clarabel(kind: str, lam: float) -> None:
    for seed in range(6):
        X, y, weight, copies, G = drawn(kind, lam, seed)
        low, high = by_clarabel(G)
        model = fitted(lam, kind, X, y, weight)
        certificate = model.certificate_
        assert certificate.converged, (seed, certificate)
        reached = objective(G, (model.alpha_ / weight)[copies])
        size = RELATIVE * max(1.0, high)
        if kind == "narrow":
            low, high = 0.0, np.inf if certificate.problem.endswith(LIMITED) else high
        assert low - size <= reached <= high + size, seed
        assert abs(certificate.primal - reached) <= certificate.rounding + 1e-9 * max(1.0, reached)
        assert certificate.dual <= high * (1 + 1e-12)
        assert certificate.primal <= weight.sum()


def test_clarabel_is_certified_as_a_rule() -> None:
    """What the test above compares with is a reference to 1e-6 for nearly all problems."""
    gaps = []
    for kind in set(KERNELS) - {"narrow"}:
        for lam in LAMS:
            low, high = by_clarabel(drawn(kind, lam, 0)[-1])
            gaps.append((high - low) / max(1.0, high))
    assert np.mean(np.array(gaps) <= RELATIVE) >= 0.9


@pytest.mark.parametrize("kind", list(KERNELS))
def test_slacks_are_unique(kind: str) -> None:
    """The loss is strictly convex in the slacks: Clarabel's are those of the model."""
    X, y, weight, copies, G = drawn(kind, 1.0, 3)
    model = fitted(1.0, kind, X, y, weight)
    slack = np.maximum(0.0, 1.0 - G @ (model.alpha_ / weight)[copies])
    np.testing.assert_allclose(slack, model.slack_[copies], atol=1e-9)
    # |xi - xi*|^2 <= gap for a quadratic loss
    assert model.certificate_.gap <= 1e-6 * max(1.0, model.certificate_.primal)
