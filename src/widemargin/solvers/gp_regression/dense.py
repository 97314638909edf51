"""Exact regression: one Cholesky factorisation, iterative refinement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dsymv

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers.gp_regression.posterior import DensePosterior
from widemargin.solvers.gp_regression.refinement import refined
from widemargin.solvers.gp_regression.result import GPRegressionResult
from widemargin.solvers.numerics.cholesky import factorise


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """K and C = K + diag(tau), of which one triangle each is stored in the same array.

    Attributes
    ----------
    posterior : DensePosterior
        Cholesky factor of C, in the lower triangle.
    diagonal : ndarray of shape (n,)
        Diagonal of K, whose other entries are in the upper triangle.
    """

    posterior: DensePosterior
    diagonal: FloatArray

    def product(self, coefficients: FloatArray) -> FloatArray:
        """Return K beta."""
        factor = self.posterior.factor
        own = (self.diagonal - np.diagonal(factor)) * coefficients
        return np.asarray(dsymv(1.0, factor, coefficients, lower=0) + own)


def dense_factor(rows: Rows, ridge: FloatArray) -> DenseSystem:
    """Factorise K + diag(tau); raise if rounding makes it indefinite."""
    with worker_threads() as rows.threads:
        C = rows.matrix()
        diagonal = rows.diagonal()
    C[np.diag_indices_from(C)] = diagonal + ridge  # exact; the values of the block are rounded
    # In Fortran order the array is C as well, since C is symmetric: no copy is needed.
    factor = C.T
    if not factorise(factor):
        raise np.linalg.LinAlgError("the covariance matrix of the targets is not positive definite")
    return DenseSystem(DensePosterior(factor), diagonal)


def solve_dense(problem: GPRegression, rows: Rows, tol: float) -> GPRegressionResult:
    """Return the posterior of the exact problem."""
    system = dense_factor(rows, problem.ridge)
    with worker_threads():
        found = refined(problem, system.posterior.solve, system.product, tol)
    log_determinant = system.posterior.log_determinant()
    return found.result(system.posterior, log_determinant, found.coefficients, found.constant)
