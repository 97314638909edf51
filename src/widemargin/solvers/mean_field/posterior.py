r"""Factorise the covariance of the Gaussian posterior: solves, variances, determinant.

Samples act on f as Gaussian factors of precision :math:`n_i` (all copies of a sample together), so
f has the covariance

.. math:: \Sigma = (K^{-1} + \mathrm{diag}(n))^{-1} = K B, \quad B = (I + \mathrm{diag}(n) K)^{-1} .

If no :math:`n_i` is negative, B is computed from the Cholesky factor of :math:`I + T K T`,
:math:`T = \mathrm{diag}(n)^{1/2}`, whose eigenvalues are at least 1 even if K is singular. Flip
noise can make precisions negative; then I + diag(n) K itself is factorised (LU).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dtrmm, dtrmv
from scipy.linalg.lapack import dgetrf, dgetri, dgetrs, dpotrf, dpotrs, dtrtri, dtrtrs

from widemargin._base.typing import FloatArray

NEARLY_ONE = 1e-3  # if 1 - B_ii is below this, cancellation costs digits of the variance
COLUMNS = 1024  # right-hand sides per solve, to bound the memory


class Posterior(Protocol):
    """Factorised posterior covariance."""

    def invert(self) -> None:
        """Prepare for `diagonals` and for `reduction` at many points, in place."""

    def solve(self, right: FloatArray) -> FloatArray:
        """Return (K + diag(1/n))^-1 right, without dividing by n."""

    def reduction(self, cross: FloatArray) -> FloatArray:
        """Return the reduction of the prior variance at points with cross = k(points, samples)."""

    def diagonals(self, K: Any) -> tuple[FloatArray, FloatArray]:
        """Return the diagonals of B and of Sigma = K B."""

    def log_determinant(self) -> float:
        """Return log det (I + diag(n) K)."""


def room_for(K: Any) -> FloatArray | None:
    """Return an array for factors of a covariance matrix; None if it is not an array."""
    return np.empty_like(K) if isinstance(K, np.ndarray) else None


def factorise(K: Any, precision: FloatArray, out: FloatArray | None = None) -> Posterior:
    """Factorise a posterior; `out`, an array like K, is overwritten and holds the factor."""
    if not isinstance(K, np.ndarray):
        found: Posterior = K.factorise(precision)
        return found
    out = np.empty_like(K) if out is None else out
    if (precision >= 0).all():
        return CholeskyPosterior(K, precision, out)
    return GeneralPosterior(K, precision, out)


class CholeskyPosterior:
    """Posterior with nonnegative precisions, by Cholesky factorisation.

    `invert` replaces the factor L by its inverse: the rows of the inverse give all variances, and
    products with it are faster than solves.
    """

    def __init__(self, K: FloatArray, precision: FloatArray, out: FloatArray) -> None:
        self.precision = precision
        self.root = np.sqrt(precision)
        np.multiply(K, self.root, out=out)
        out *= self.root[:, None]
        out[np.diag_indices_from(out)] += 1.0
        self.factor, failed = dpotrf(out.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise FloatingPointError("the kernel matrix is far from positive semi-definite")
        self.half_log_determinant = float(np.log(np.diagonal(self.factor)).sum())
        self.is_inverse = False

    def invert(self) -> None:
        """Replace the factor by its inverse; both have zeros above the diagonal."""
        if not self.is_inverse:
            self.factor = dtrtri(self.factor, lower=1, overwrite_c=1)[0]
            self.is_inverse = True

    def solve(self, right: FloatArray) -> FloatArray:
        """Return T (I + T K T)^-1 T right."""
        scaled = self.root * right
        if self.is_inverse:
            scaled = dtrmv(self.factor, dtrmv(self.factor, scaled, lower=1), lower=1, trans=1)
        else:
            scaled = dpotrs(self.factor, scaled, lower=1)[0]
        return np.asarray(self.root * scaled)

    def reduction(self, cross: FloatArray) -> FloatArray:
        """Return the squared norm of L^-1 T k(samples, point) for each point."""
        found = np.empty(len(cross))
        for start in range(0, len(cross), COLUMNS):
            part = slice(start, start + COLUMNS)
            right = np.multiply(cross[part], self.root).T
            if self.is_inverse:
                solved = dtrmm(1.0, self.factor, right, lower=1, overwrite_b=1)
            else:
                solved = dtrtrs(self.factor, right, lower=1, overwrite_b=1)[0]
            found[part] = np.einsum("ij,ij->j", solved, solved)
        return found

    def diagonals(self, K: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return diag B from the inverse factor, and diag Sigma = (1 - diag B) / n if accurate."""
        self.invert()
        kept = np.einsum("ij,ij->j", self.factor, self.factor)
        safe = 1 - kept > NEARLY_ONE
        variance = np.diagonal(K).copy()
        variance[safe] = (1 - kept[safe]) / self.precision[safe]
        variance[~safe] -= self.reduction(K[~safe])
        return np.where(safe, kept, 1 - self.precision * variance), variance

    def log_determinant(self) -> float:
        """Return twice the sum of the logarithms of the factor's diagonal."""
        return 2.0 * self.half_log_determinant


class GeneralPosterior:
    """Posterior with precisions of either sign, by LU factorisation."""

    def invert(self) -> None:
        """Do nothing: the factors serve all purposes."""

    def __init__(self, K: FloatArray, precision: FloatArray, out: FloatArray) -> None:
        self.precision = precision
        # In Fortran order this array is I + diag(n) K, since K is symmetric: LAPACK needs no copy.
        np.multiply(K, precision, out=out)
        out[np.diag_indices_from(out)] += 1.0
        self.factor, self.pivots, failed = dgetrf(out.T, overwrite_a=1)
        if failed:
            raise FloatingPointError("the mean-field equations are singular at this point")

    def solve(self, right: FloatArray) -> FloatArray:
        """Return B diag(n) right."""
        return np.asarray(dgetrs(self.factor, self.pivots, self.precision * right)[0])

    def reduction(self, cross: FloatArray) -> FloatArray:
        """Return k(point, samples) B diag(n) k(samples, point) for each point."""
        found = np.empty(len(cross))
        for start in range(0, len(cross), COLUMNS):
            part = slice(start, start + COLUMNS)
            right = np.multiply(cross[part], self.precision).T
            solved = dgetrs(self.factor, self.pivots, right, overwrite_b=1)[0]
            found[part] = np.einsum("ij,ji->i", cross[part], solved)
        return found

    def diagonals(self, K: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return diag B and diag KB from the explicit inverse."""
        inverse = dgetri(self.factor, self.pivots)[0]
        return np.diagonal(inverse).copy(), np.einsum("ij,ji->i", K, inverse)

    def log_determinant(self) -> float:
        """Return the log-determinant, or NaN if the determinant is negative."""
        diagonal = np.diagonal(self.factor)
        swaps = np.count_nonzero(self.pivots != np.arange(len(diagonal)))
        negative = np.count_nonzero(diagonal < 0) + swaps
        return np.nan if negative % 2 else float(np.log(np.abs(diagonal)).sum())
