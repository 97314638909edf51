"""Sums of kernel values are within their error bounds of the exact sums."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SVC
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.sums import enclosed_diagonal, enclosed_sum, majorants

NAMES = ("linear", "poly", "rbf", "ard", "sigmoid")


def _drawn(name: str, rng: np.random.Generator) -> tuple[Kernel, np.ndarray]:
    n, d = int(rng.integers(2, 16)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7) + rng.choice([0.0, 1e6, 3.0])
    if rng.random() < 0.3:
        X = np.round(X)
    gamma = 10.0 ** rng.integers(-6, 4)
    if rng.random() < 0.5:
        gamma /= max(1e-3, float((X**2).sum(axis=1).max()))
    if name == "ard":
        return Kernel("rbf", gamma * rng.random(d)), X
    return Kernel(name, gamma, int(rng.integers(1, 7)), float(rng.choice([0.0, 1.0, 10.0]))), X


def _exact_matrix(kernel: Kernel, X: np.ndarray) -> list[list[mpmath.mpf]]:
    width = [mpmath.mpf(float(g)) for g in np.broadcast_to(kernel.gamma, X.shape[1])]
    rows = [[mpmath.mpf(float(v)) for v in row] for row in X]

    def value(x: list[mpmath.mpf], z: list[mpmath.mpf]) -> mpmath.mpf:
        if kernel.name == "rbf":
            return mpmath.exp(-sum(g * (p - q) ** 2 for g, p, q in zip(width, x, z, strict=True)))
        found = sum(p * q for p, q in zip(x, z, strict=True))
        if kernel.name == "linear":
            return found
        base = width[0] * found + mpmath.mpf(kernel.coef0)
        return mpmath.tanh(base) if kernel.name == "sigmoid" else base ** int(kernel.degree)

    return [[value(x, z) for z in rows] for x in rows]


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_within_their_bounds(name: str) -> None:
    with mpmath.workdps(60):
        for seed in range(25):
            rng = np.random.default_rng(seed)
            kernel, X = _drawn(name, rng)
            rows = Rows(kernel, sp.csr_array(X) if rng.random() < 0.3 else X)
            beta = rng.normal(size=len(X)) * 10.0 ** rng.integers(-3, 9)
            everything, K = np.arange(len(X)), _exact_matrix(kernel, X)
            size = [mpmath.mpf(q) for q in majorants(rows)]
            assert all(abs(K[i][j]) <= size[i] * size[j] for i in everything for j in everything), (
                seed
            )
            weights = [mpmath.mpf(float(b)) for b in beta]
            exact = [mpmath.fdot(weights, row) for row in K]
            for precise in (False, True):
                found = enclosed_sum(rows, everything, everything, beta, precise=precise)
                for i, true in enumerate(exact):
                    value = mpmath.mpf(float(found.hi[i])) + mpmath.mpf(float(found.lo[i]))
                    assert abs(value - true) <= float(found.error[i]), (seed, precise)


def test_decision_values_depend_on_the_batch_within_the_bound_only() -> None:
    """Contradictory duplicates, degree 6, C = 1e8: the coefficients are large."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (40, 3)).astype(float)
    y = rng.integers(0, 2, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVC(kernel="poly", degree=6, coef0=10.0, gamma=1.0, C=1e8).fit(X, y)
    together = model.decision_function(X)
    alone = np.concatenate([model.decision_function(X[[i]]) for i in range(len(X))])
    rows = Rows(model._kernel_, np.vstack([X, model.support_vectors_]))
    places = np.arange(len(X), rows.n)
    beta = model.dual_coef_[0]
    error = enclosed_sum(rows, np.arange(len(X)), places, beta, together).error
    assert (np.abs(together - alone) <= 2 * error + 1e-15 * np.abs(together)).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precise", [False, True])
def test_own_kernel_values_are_within_their_bounds(name: str, precise: bool) -> None:
    with mpmath.workdps(60):
        for seed in range(15):
            kernel, X = _drawn(name, np.random.default_rng(seed))
            rows = Rows(kernel, sp.csr_array(X) if seed % 3 == 0 else X)
            K, at = _exact_matrix(kernel, X), np.arange(len(X))[::2]
            found = enclosed_diagonal(rows, at, precise=precise)
            for k, i in enumerate(at):
                low, high, value = found.lower()[k], found.upper()[k], K[i][i]
                assert low <= value <= high, seed
                if precise and name in ("linear", "poly"):
                    assert found.error[k] <= 1e-25 * abs(float(value)) + 1e-280, seed
