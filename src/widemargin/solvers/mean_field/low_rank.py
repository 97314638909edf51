r"""Posterior of a latent function with a covariance matrix of low rank, K = V V'.

With n samples and r columns of V, every step of the solvers costs :math:`O(n r^2)`. The inner
matrix :math:`M = I_r + V' \mathrm{diag}(n) V` replaces :math:`I + TKT`:

.. math::

    (K + N^{-1})^{-1} = N - N V M^{-1} V' N, \qquad \Sigma = V M^{-1} V', \qquad
    \det(I + N K) = \det M, \qquad N = \mathrm{diag}(n) .
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from widemargin._base.typing import FloatArray

BLOCK_ROWS = 4_096  # rows of V per block, to bound the memory of scaled copies


class LowRankCovariance:
    """Covariance matrix V V' of the samples, never formed.

    It has the operations of an array that the solvers need.

    Attributes
    ----------
    V : ndarray of shape (n, r)
        Features of the samples.
    """

    def __init__(self, V: FloatArray) -> None:
        self.V = V

    def __len__(self) -> int:
        return len(self.V)

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        """Return V V' vector."""
        return np.asarray(self.V @ (self.V.T @ vector))

    def diagonal(self) -> FloatArray:
        """Return the squared norms of the features."""
        return np.einsum("ij,ij->i", self.V, self.V)

    def factorise(self, precision: FloatArray) -> LowRankPosterior:
        """Return the posterior with these precisions."""
        return LowRankPosterior(self.V, precision)


class InnerPosterior:
    """Posterior of the weights of the features, which is all that predictions need.

    Attributes
    ----------
    inverse : ndarray of shape (r, r)
        Inverse of the Cholesky factor of M, lower triangular.
    """

    def __init__(self, inverse: FloatArray) -> None:
        self.inverse = inverse

    def invert(self) -> None:
        """Do nothing: the factor is inverted already."""

    def reduction(self, cross: FloatArray) -> FloatArray:
        """Return v'v - v'M^-1 v, the reduction of the variance at points with features v."""
        reduced = np.einsum("ij,ij->i", cross, cross)
        return np.asarray(reduced - self.variances(cross))

    def variances(self, features: FloatArray) -> FloatArray:
        """Return v'M^-1 v for each row v of the features."""
        found = np.empty(len(features))
        for start in range(0, len(features), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            solved = features[part] @ self.inverse.T
            found[part] = np.einsum("ij,ij->i", solved, solved)
        return found


class LowRankPosterior(InnerPosterior):
    """Posterior at the samples; precisions of either sign, as long as M is positive definite."""

    def __init__(self, V: FloatArray, precision: FloatArray) -> None:
        self.V, self.precision = V, precision
        M = np.eye(V.shape[1], order="F")
        for sign in (1.0, -1.0):
            if not (sign * precision > 0).any():
                continue
            root = np.sqrt(np.maximum(sign * precision, 0.0))
            for start in range(0, len(V), BLOCK_ROWS):
                part = slice(start, start + BLOCK_ROWS)
                M = dsyrk(sign, (root[part, None] * V[part]).T, 1.0, M, lower=1, overwrite_c=1)
        self.factor, failed = dpotrf(M, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise FloatingPointError("the posterior of the low-rank model is not a distribution")
        super().__init__(np.asarray(dtrtri(self.factor, lower=1)[0]))

    def solve(self, right: FloatArray) -> FloatArray:
        """Return (K + diag(1/n))^-1 right."""
        scaled = self.precision * right
        inner = dpotrs(self.factor, self.V.T @ scaled, lower=1)[0]
        return np.asarray(scaled - self.precision * (self.V @ inner))

    def diagonals(self, K: object) -> tuple[FloatArray, FloatArray]:
        """Return the diagonals of B and Sigma."""
        variance = self.variances(self.V)
        return 1 - self.precision * variance, variance

    def log_determinant(self) -> float:
        """Return log det M."""
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())
