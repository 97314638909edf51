r"""Factorised posterior covariances of Gaussian-process regression.

In units of the amplitude, the covariance of f at two points is k(x, x') minus or plus products of
whitened vectors. With the Cholesky factor L of :math:`C = K + \mathrm{diag}(\tau)` and
:math:`k_x = k(x, \text{samples})` it is

.. math:: k(x, x') - (L^{-1} k_x)'(L^{-1} k_{x'}) ;

with pivots p, :math:`K_{pp} = L_p L_p'`, :math:`v_x = L_p^{-1} k(p, x)`, the rows V of the samples
and :math:`G = I + V' \mathrm{diag}(1/\tau) V = L_G L_G'`, it is

.. math:: k(x, x') - v_x'v_{x'} + (L_G^{-1} v_x)'(L_G^{-1} v_{x'}) .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrs, dtrtrs

from widemargin._base.typing import FloatArray
from widemargin.solvers.numerics.cholesky import inverse_norms


class RegressionPosterior(Protocol):
    """Factorised posterior covariance."""

    def whitened(self, cross: FloatArray) -> list[tuple[float, FloatArray]]:
        """Return signs and matrices; the reduction of the prior covariance is sum sign M'M."""


@dataclass(frozen=True, eq=False)
class DensePosterior:
    """Posterior by the Cholesky factor of C.

    Attributes
    ----------
    factor : ndarray of shape (n, n)
        L in the lower triangle, in Fortran order; the other triangle is not used.
    """

    factor: FloatArray

    def solve(self, right: FloatArray) -> FloatArray:
        """Return C^-1 right."""
        return np.asarray(dpotrs(self.factor, right, lower=1)[0])

    def whitened(self, cross: FloatArray) -> list[tuple[float, FloatArray]]:
        """Return L^-1 k_x, one column per point; `cross` has one row per point."""
        return [(1.0, dtrtrs(self.factor, cross.T, lower=1)[0])]

    def log_determinant(self) -> float:
        """Return log det C."""
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of C^-1: the squared norms of the columns of L^-1."""
        return inverse_norms(self.factor)


@dataclass(frozen=True, eq=False)
class LowRankPosterior:
    """Posterior of the low-rank problem.

    Attributes
    ----------
    pivot_factor, inner_factor : ndarray of shape (rank, rank)
        Lower triangular factors L_p and L_G.
    """

    pivot_factor: FloatArray
    inner_factor: FloatArray

    def features(self, cross: FloatArray) -> FloatArray:
        """Return v_x, one column per point; `cross` has the values k(x, p), one row per point."""
        found = solve_triangular(self.pivot_factor, cross.T, lower=True, check_finite=False)
        return np.asarray(found)

    def shrunk(self, features: FloatArray) -> FloatArray:
        """Return L_G^-1 v, one column per point."""
        found = solve_triangular(self.inner_factor, features, lower=True, check_finite=False)
        return np.asarray(found)

    def whitened(self, cross: FloatArray) -> list[tuple[float, FloatArray]]:
        """Return v_x and L_G^-1 v_x, one column per point."""
        features = self.features(cross)
        return [(1.0, features), (-1.0, self.shrunk(features))]
