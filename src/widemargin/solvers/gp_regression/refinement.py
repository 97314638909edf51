r"""Solution of the bordered system of coefficients and mean, with iterative refinement.

The system is :math:`C \beta + m 1 = y`, :math:`1'\beta - m / b_1 = 0`. Given its residuals
:math:`r_1` and :math:`r_2`, the correction is

.. math:: dm = \frac{1' C^{-1} r_1 - r_2}{q}, \qquad d\beta = C^{-1} r_1 - dm\, z .
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers.base import Status
from widemargin.solvers.gp_regression.posterior import RegressionPosterior
from widemargin.solvers.gp_regression.result import GPRegressionResult

REFINEMENTS = 4  # the first solves the system, each other one removes part of the rounding errors


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of the bordered system; attributes as in `GPRegressionResult`."""

    problem: GPRegression
    coefficients: FloatArray
    mean: float
    values: FloatArray
    constant: FloatArray
    mean_precision: float
    quadratic: float
    residual: float
    status: Status

    def result(
        self,
        posterior: RegressionPosterior,
        log_determinant: float,
        expansion: FloatArray,
        constant_expansion: FloatArray,
        *,
        basis: IntArray | None = None,
        rest: FloatArray | None = None,
    ) -> GPRegressionResult:
        """Return the result of a solver; `log_determinant` is log det C."""
        problem = self.problem
        evidence = problem.log_evidence(self.quadratic, log_determinant, self.mean_precision)
        if rest is not None:  # Titsias (2009): a lower bound of the evidence of the full kernel
            evidence -= 0.5 * float((np.maximum(rest, 0.0) / problem.ridge).sum())
        return GPRegressionResult(
            n_iter=1,
            status=self.status,
            problem=problem,
            coefficients=self.coefficients,
            mean=self.mean,
            values=self.values,
            constant=self.constant,
            mean_precision=self.mean_precision,
            log_evidence=evidence,
            residual=self.residual,
            posterior=posterior,
            basis=basis,
            expansion=expansion,
            constant_expansion=constant_expansion,
            rest=rest,
        )


def refined(
    problem: GPRegression,
    solve: Callable[[FloatArray], FloatArray],
    product: Callable[[FloatArray], FloatArray],
    tol: float,
) -> Solution:
    """Solve the bordered system; `solve` applies C^-1 approximately, `product` returns K beta."""
    n, y = len(problem.target), problem.target
    constant = solve(np.ones(n))
    precision = problem.mean_precision + float(constant.sum())
    # A flat prior ignores a shift of the targets, which would cost digits.
    shift = float(np.median(y)) if np.isinf(problem.mean_variance) else 0.0
    beta, mean, values = np.zeros(n), shift, np.zeros(n)
    residual, status = np.inf, "stalled"
    for _ in range(REFINEMENTS):
        part = solve(y - mean - values - problem.ridge * beta)
        missing = mean * problem.mean_precision - float(beta.sum()) if problem.has_mean else 0.0
        step = (float(part.sum()) - missing) / precision
        better, moved = beta + (part - step * constant), mean + step
        fields = product(better)
        error = problem.residual(better, moved, fields)
        if not error < residual:
            break
        beta, mean, values, residual = better, moved, fields, error
        if residual <= tol:
            status = "converged"
            break
    return Solution(
        problem, beta, mean, values, constant, precision, float(beta @ (y - shift)), residual,
        "converged" if status == "converged" else "stalled",
    )  # fmt: skip
