"""Solve the mean-field equations of Gaussian-process classification.

Problem: :class:`widemargin.problems.mean_field.MeanField`; data: the kernel matrix in memory.

==========  ============  ====================================================================
inference   method        algorithm
==========  ============  ====================================================================
naive       newton        Newton's method, one Cholesky factorisation per step; flip noise by
                          continuation from 0
naive       newton_cg     Newton's method with conjugate gradients for the directions
naive       table         Table 8.1 of Opper and Winther (2000), for study
tap, ep     newton(_cg)   outer fixed-point iteration on the cavity variances
tap, ep     sweeps        parallel expectation propagation, an independent algorithm, slower
==========  ============  ====================================================================

Expectation propagation has the solution of TAP, so that "tap" and "ep" are the same. "auto" is
"newton_cg" for more than 200 samples unless the input noise is small (below 1 % of the largest
cavity variance), else "newton".

>>> import numpy as np
>>> from widemargin.problems.mean_field import naive
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.mean_field import solve
>>> K, label = np.array([[1.0, 0.2], [0.2, 1.0]]), np.array([1.0, -1.0])
>>> problem = naive(label, np.ones(2), np.diagonal(K), input_noise=1.0)
>>> result = solve(problem, K, tol=1e-10, budget=Budget(-1))
>>> result.status, result.coefficients.round(3)
('converged', array([ 0.603, -0.603]))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.validation import require_choice
from widemargin.problems.mean_field import MeanField
from widemargin.solvers.base import Budget
from widemargin.solvers.literature.mean_field_table import solve_table
from widemargin.solvers.mean_field.cg import conjugate_direction
from widemargin.solvers.mean_field.ep import solve_ep
from widemargin.solvers.mean_field.left_out import LeftOutFields, fit_scale, leave_out, scale_cost
from widemargin.solvers.mean_field.low_rank import InnerPosterior, LowRankCovariance
from widemargin.solvers.mean_field.newton import (
    dense_direction,
    has_little_noise,
    not_worse_than_prior,
    solve_by_continuation,
    solve_newton,
)
from widemargin.solvers.mean_field.posterior import Posterior, factorise
from widemargin.solvers.mean_field.result import MeanFieldResult
from widemargin.solvers.mean_field.tap import solve_tap

__all__ = [
    "INFERENCES",
    "METHODS",
    "InnerPosterior",
    "LeftOutFields",
    "LowRankCovariance",
    "MeanFieldResult",
    "Posterior",
    "factorise",
    "fit_scale",
    "leave_out",
    "matrices_needed",
    "scale_cost",
    "solve",
]

INFERENCES = ("naive", "tap", "ep")
METHODS = ("auto", "newton", "newton_cg", "table", "sweeps")
MANY_SAMPLES = 200  # above this conjugate gradients are faster, unless the noise is small
DEFAULT_STEPS = {"newton": 500, "table": 20_000, "sweeps": 2_000}


def matrices_needed(inference: str, method: str = "auto") -> int:
    """Return the number of n x n float64 matrices that a fit holds at once."""
    return 6 if method == "sweeps" else 2 if inference == "naive" else 5


def solve(
    problem: MeanField,
    data: Any,
    *,
    tol: float,
    budget: Budget,
    start: MeanFieldResult | None = None,
    method: str = "auto",
    inference: str = "naive",
) -> MeanFieldResult:
    """Solve the mean-field equations.

    Parameters
    ----------
    problem : MeanField
        The naive equations, whose cavity variances are the diagonal of K.
    data : ndarray of shape (n, n) or LowRankCovariance
        Kernel matrix K, float64, without the input noise; low-rank ones support method "newton".
    tol : float
        Largest residual of the equations.
    budget : Budget
        Number of steps; a negative `max_iter` selects the default of the method.
    start : MeanFieldResult, optional
        Warm start of Newton's method; the other methods start from the prior.
    method : {"auto", "newton", "newton_cg", "table", "sweeps"}
        Algorithm. "table" solves the naive equations, "sweeps" those of TAP.
    inference : {"naive", "tap", "ep"}
        Approximation of the posterior.

    Returns
    -------
    MeanFieldResult
        The solution, or the last iterate if the budget was exhausted.
    """
    require_choice("method", method, METHODS)
    require_choice("inference", inference, INFERENCES)
    if method == "sweeps":
        if problem.least_noise == 0:  # Newton's method raises if there is no solution
            sharp = problem.with_flip_noise(0.0)
            steps = Budget(DEFAULT_STEPS["newton"], budget.monitor)
            solve_newton(sharp, data, dense_direction(data), tol=tol, budget=steps)
        return solve_ep(problem, data, tol=tol, budget=_granted(budget, "sweeps"))
    if method == "table":
        steps = _granted(budget, "table")
        fields = solve_table(problem, data, tol=tol, budget=steps)
    else:
        if method == "auto":
            is_array = isinstance(data, np.ndarray)
            many = is_array and problem.n_rows > MANY_SAMPLES
            by_products = many and not has_little_noise(problem)
            method = "newton_cg" if by_products else "newton"
        direction = (conjugate_direction if method == "newton_cg" else dense_direction)(data)
        steps, first = _granted(budget, "newton"), None if start is None else start.z
        if inference != "naive":
            found = solve_tap(problem, data, direction, tol=tol, budget=steps, start=first)
            if found.status != "stalled" or not isinstance(data, np.ndarray):
                return found
            # Expectation propagation has the same fixed point and may converge where this stalls.
            other = solve_ep(problem, data, tol=tol, budget=_granted(budget, "sweeps"))
            return other if other.residual < found.residual else found
        fields = solve_by_continuation(problem, data, direction, tol=tol, budget=steps, start=first)
    if problem.is_convex and steps.status != "converged":
        fields = not_worse_than_prior(problem, data, fields)
    return MeanFieldResult.at(
        problem,
        fields,
        steps,
        log_evidence=problem.log_evidence(fields),
        residual=fields.residual,
    )


def _granted(budget: Budget, algorithm: str) -> Budget:
    """Return a new budget of the same size, or of the algorithm's default if that is negative."""
    steps = budget.max_iter if budget.max_iter >= 0 else DEFAULT_STEPS[algorithm]
    return Budget(steps, budget.monitor)
