r"""Regression with inducing points: the kernel matrix is replaced by V V' of pivoted Cholesky.

With :math:`C = V V' + \mathrm{diag}(\tau)`, the inverse follows from a matrix of the size of the
rank, :math:`G = I + V' \mathrm{diag}(1/\tau) V`:

.. math::

    C^{-1} = \mathrm{diag}(1/\tau)
    - \mathrm{diag}(1/\tau)\, V G^{-1} V' \mathrm{diag}(1/\tau),
    \qquad \log\det C = \log\det G + \sum_i \log \tau_i .

The posterior mean is a kernel expansion over the pivots.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers.gp_regression.posterior import LowRankPosterior
from widemargin.solvers.gp_regression.refinement import refined
from widemargin.solvers.gp_regression.result import GPRegressionResult
from widemargin.solvers.numerics.pivoted_cholesky import LowRank

BLOCK_ROWS = 4_096  # samples per block of a product, to bound the memory


def pivot_factors(rows: Rows, rank: int, remainder: float) -> LowRank:
    """Return the pivoted Cholesky factor of at most the given rank."""
    low = LowRank(rows, np.ones(rows.n), rank)
    with worker_threads() as rows.threads:
        low.grow(remainder)
    if np.isinf(low.remainder):
        raise np.linalg.LinAlgError("the kernel matrix is not positive semi-definite")
    return low


def solve_low_rank(
    problem: GPRegression, rows: Rows, tol: float, rank: int, remainder: float
) -> GPRegressionResult:
    """Return the posterior of the problem with K ~ V V'."""
    low = pivot_factors(rows, rank, remainder)
    V, precision = low.V, 1.0 / problem.ridge
    inner = np.eye(low.rank)
    for start in range(0, rows.n, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        inner += (V[part] * precision[part, None]).T @ V[part]
    factor = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)

    def solve(right: FloatArray) -> FloatArray:
        scaled = precision * right
        return np.asarray(scaled - precision * (V @ cho_solve((factor, True), V.T @ scaled)))

    def product(coefficients: FloatArray) -> FloatArray:
        return np.asarray(V @ (V.T @ coefficients))

    found = refined(problem, solve, product, tol)
    pivots = np.tril(V[low.pivots])

    def over_pivots(coefficients: FloatArray) -> FloatArray:
        inside = V.T @ coefficients
        return np.asarray(solve_triangular(pivots, inside, lower=True, trans=1, check_finite=False))

    log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
    return found.result(
        LowRankPosterior(pivots, factor),
        log_determinant + float(np.log(problem.ridge).sum()),
        over_pivots(found.coefficients),
        over_pivots(found.constant),
        basis=low.pivots,
        rest=np.maximum(low.rest, 0.0),
    )
