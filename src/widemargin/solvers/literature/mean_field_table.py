"""Solve the naive mean-field equations by Table 8.1 of Opper and Winther (2000), for study.

Method "table" of :func:`widemargin.solvers.mean_field.solve`, never taken by "auto".

All embedding strengths move by a fraction eta of what the equations miss. The rate eta grows by a
tenth while the sum of squares of what is missing falls, and is halved otherwise; a step that made
it worse is not undone (the table does not say). Two things differ from the table: the iteration
goes on to a residual of tol instead of max |delta alpha|^2 <= 1e-5, and a row of weight w counts
w times in the sum.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField, symmetric_product
from widemargin.solvers.base import Budget

FIRST_RATE = 0.05
FASTER, SLOWER = 1.1, 0.5
DIVERGED = 1e100  # sum of squares; eta is too large for large weights or kernel values


def solve_table(problem: MeanField, K: FloatArray, *, tol: float, budget: Budget) -> Fields:
    """Iterate Table 8.1 from alpha = 0 until the residual is tol or the budget is used up.

    An iteration that diverges ends as "stalled", with the best fields that it has met.
    """
    alpha = np.zeros(problem.n_rows)
    rate, missed, least = FIRST_RATE, np.inf, np.inf
    while True:
        coefficients = problem.weight * problem.label * alpha
        z = problem.reached(coefficients, symmetric_product(K, coefficients))
        asked = problem.likelihood.strength(z)
        delta = asked / problem.scale - alpha
        error = float((problem.scale * np.abs(delta) / np.maximum(1.0, asked)).max(initial=0.0))
        # The model is alpha = F(z) exactly, whose own residual may be a little larger.
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
