r"""Newton directions of the mean-field equations by preconditioned conjugate gradients.

Solves :math:`(I + TKT) x = T g`, :math:`T = \mathrm{diag}(n)^{1/2}`, to five digits. The
preconditioner is a Nyström approximation from a few samples, the landmarks: with
U = L^-1 k(landmarks, samples), L the Cholesky factor of the landmarks' kernel matrix,
:math:`U'U \approx K`, and :math:`(I + TU'UT)^{-1}` only needs a matrix of the size of the
landmarks. With smooth kernels a handful of iterations remain; with narrow ones the preconditioner
brings little, and costs little.

Products with K are in float32. They affect the direction only: convergence is decided by the
residual of the equations, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs, spotrf, spotrs

from widemargin._base.typing import FloatArray, RealArray
from widemargin.solvers.mean_field.newton import Direction
from widemargin.solvers.mean_field.posterior import factorise
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients

FORCING = 1e-5  # relative residual of a direction; looser ones cost more Newton steps
MOST_LANDMARKS = 128
ROWS_PER_LANDMARK = 16
RIDGE = 1e-8  # relative ridge on the landmarks' kernel matrix, for nearly equal landmarks
LARGEST = 1e15  # larger kernel values have products beyond the range of float32

Preconditioner: TypeAlias = Callable[[RealArray], RealArray]


def conjugate_direction(K: FloatArray) -> Direction:
    """Return a function that computes Newton directions by conjugate gradients.

    With negative precisions the system is not positive definite; it is then factorised, as it is
    for kernel values beyond the range of float32.
    """
    if float(np.diagonal(K).max()) > LARGEST:  # no entry exceeds the largest diagonal one
        return lambda precision, right: factorise(K, precision).solve(right)
    single = K.astype(np.float32)
    features = _landmark_features(K)

    def direction(precision: FloatArray, right: FloatArray) -> FloatArray:
        if (precision < 0).any():
            return factorise(K, precision).solve(right)
        root = np.sqrt(precision).astype(np.float32)
        scaled = root * right.astype(np.float32)
        found = _conjugate_gradients(single, root, scaled, _preconditioner(features, root))
        return np.asarray(root * found, dtype=np.float64)

    return direction


def _landmark_features(K: FloatArray) -> RealArray:
    """Return U, one row per landmark; landmarks are equally spaced among the sorted samples.

    U is empty for few samples, or if the landmarks' kernel matrix is not positive definite.
    """
    count = min(MOST_LANDMARKS, len(K) // ROWS_PER_LANDMARK)
    none = np.empty((0, len(K)), dtype=np.float32)
    if count == 0:
        return none
    landmarks = np.linspace(0, len(K) - 1, count).round().astype(np.intp)
    own = K[np.ix_(landmarks, landmarks)]
    own[np.diag_indices_from(own)] += RIDGE * float(np.diagonal(K).max())
    factor, failed = dpotrf(own, lower=1)
    if failed:
        return none
    features = dtrtrs(factor, K[landmarks], lower=1)[0]
    return np.ascontiguousarray(features, dtype=np.float32)


def _preconditioner(features: RealArray, root: RealArray) -> Preconditioner:
    """Return the map r -> (I + T U'U T)^-1 r = r - T U' (I + U T^2 U')^-1 U T r."""
    if len(features) == 0:
        return np.copy
    scaled = features * root
    inner = scaled @ scaled.T
    inner[np.diag_indices_from(inner)] += np.float32(1.0)
    factor, failed = spotrf(inner, lower=1)
    if failed:
        return np.copy

    def solve(right: RealArray) -> RealArray:
        return np.asarray(right - spotrs(factor, scaled @ right, lower=1)[0] @ scaled)

    return solve


def _conjugate_gradients(
    K: RealArray, root: RealArray, right: RealArray, precondition: Preconditioner
) -> RealArray:
    """Solve (I + T K T) x = right."""
    found = conjugate_gradients(
        lambda search: search + root * (K @ (root * search)),
        right,
        precondition,
        goal=lambda size: FORCING**2 * size,
        most=len(right),
        plain_residual=True,
    )
    return np.asarray(found.x)
