"""Fixed-point iteration of Table 8.1 of Opper and Winther (2000) for the naive mean field.

Method "table" of :func:`widemargin.solvers.mean_field.solve`, for study; "auto" never selects it.

With delta_i = F(z_i) / sqrt(lambda_i) - alpha_i, the error of the equations, each iteration adds
eta delta to all embedding strengths alpha. The rate eta is increased by a tenth if the sum of
squares of delta has decreased, and is halved otherwise. A step that increased the sum is not undone
(the table does not specify this). There are two differences from the table: the iteration stops at
a residual of tol instead of at max |delta alpha|^2 <= 1e-5, and a sample of weight w counts w times
in the sum.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField, symmetric_product
from widemargin.solvers.base import Budget

FIRST_RATE = 0.05  # initial eta
FASTER, SLOWER = 1.1, 0.5  # factors of eta after a smaller and after a larger sum of squares
DIVERGED = 1e100  # sum of squares; reached if eta is too large for the weights or kernel values


def solve_table(problem: MeanField, K: FloatArray, *, tol: float, budget: Budget) -> Fields:
    """Iterate Table 8.1 from alpha = 0 until the residual is at most tol or the budget is used up.

    If the iteration diverges, the status is "stalled" and the fields with the smallest error are
    returned.
    """
    alpha = np.zeros(problem.n_rows)
    rate, missed, least = FIRST_RATE, np.inf, np.inf
    while True:
        coefficients = problem.weight * problem.label * alpha
        z = problem.reached(coefficients, symmetric_product(K, coefficients))
        asked = problem.likelihood.strength(z)
        delta = asked / problem.scale - alpha
        error = float((problem.scale * np.abs(delta) / np.maximum(1.0, asked)).max(initial=0.0))
        # The model returned has the strengths computed from z, not the current alpha; its residual
        # may be slightly larger.
        if error <= tol and problem.at(K, z).residual <= tol:
            break
        if error < least:
            least, best = error, z
        if not budget.spend(1, error):
            break
        with np.errstate(over="ignore"):
            before, missed = missed, float(problem.weight @ delta**2)
        if not missed < DIVERGED:
            budget.status, z = "stalled", best
            break
        rate *= FASTER if missed < before else SLOWER
        alpha = alpha + rate * delta
    return problem.at(K, z)
