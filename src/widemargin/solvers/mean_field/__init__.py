"""Solve the mean-field equations of Gaussian-process classification: one door, four roads.

Problem: :class:`widemargin.problems.mean_field.MeanField` with the kernel matrix in memory.

==========  ==========  ========================================================================
inference   solver      how
==========  ==========  ========================================================================
naive       newton      Newton's method, a Cholesky factorisation a step; flip noise by
                        continuation from 0
naive       newton_cg   the same steps by conjugate gradients
naive       table       Table 8.1 of Opper and Winther (2000), for study
tap         newton(_cg) cavity variances updated around the naive equations
ep          --          expectation propagation, an independent way to the solution of tap
==========  ==========  ========================================================================
"""

from __future__ import annotations

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import MeanField
from widemargin.solvers.base import Budget, Monitor
from widemargin.solvers.literature.mean_field_table import solve_table
from widemargin.solvers.mean_field.cg import conjugate_direction
from widemargin.solvers.mean_field.ep import solve_ep
from widemargin.solvers.mean_field.fields import Fields, MeanFieldResult, finished
from widemargin.solvers.mean_field.leave_out import LeftOut, fit_scale, leave_out
from widemargin.solvers.mean_field.newton import (
    dense_direction,
    has_little_noise,
    solve_flipped,
    solve_newton,
)
from widemargin.solvers.mean_field.posterior import Posterior, factorise
from widemargin.solvers.mean_field.tap import solve_tap

__all__ = [
    "INFERENCES",
    "SOLVERS",
    "Fields",
    "LeftOut",
    "MeanFieldResult",
    "Posterior",
    "factorise",
    "fit_scale",
    "leave_out",
    "matrices_needed",
    "solve_mean_field",
]

INFERENCES = ("naive", "tap", "ep")
SOLVERS = ("auto", "newton", "newton_cg", "table")
MANY_ROWS = 200  # from here on conjugate gradients win, unless the noise is small
DEFAULT_STEPS = {"newton": 500, "table": 20_000, "ep": 2_000}


def matrices_needed(inference: str) -> int:
    """Return how many n x n matrices of float64 a fit holds at once."""
    return {"naive": 2, "tap": 5, "ep": 6}[inference]


def solve_mean_field(
    problem: MeanField,
    K: FloatArray,
    *,
    inference: str = "naive",
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    monitor: Monitor | None = None,
) -> MeanFieldResult:
    """Solve the mean-field equations.

    Parameters
    ----------
    problem : MeanField
        The naive equations, cavity variances on the diagonal of K.
    K : ndarray of shape (n, n)
        Kernel matrix, float64, without the input noise.
    inference : {"naive", "tap", "ep"}
        Which approximation.
    solver : {"auto", "newton", "newton_cg", "table"}
        How; "table" is for the naive equations only, and "ep" has no choice.
    tol : float
        Residual to reach.
    max_iter : int, optional
        Budget of steps.
    monitor : callable, optional
        Called after each step with (steps, residual).

    Returns
    -------
    MeanFieldResult
        The solution, or where the budget ended.
    """
    road = "ep" if inference == "ep" else "table" if solver == "table" else "newton"
    budget = Budget(max_iter or DEFAULT_STEPS[road], monitor)
    if road == "ep":
        if problem.input_noise == 0:  # Newton finds out whether there is a solution
            sharp, checked = problem.with_flip_noise(0.0), Budget(DEFAULT_STEPS["newton"], monitor)
            solve_newton(sharp, K, dense_direction(K), tol=tol, budget=checked)
        return solve_ep(problem, K, tol=tol, budget=budget)
    if road == "table":
        return solve_table(problem, K, tol=tol, budget=budget)
    by_factors = solver == "newton" or (solver == "auto" and not _smooth(problem))
    direction = dense_direction(K) if by_factors else conjugate_direction(K)
    if inference == "tap":
        found = solve_tap(problem, K, direction, tol=tol, budget=budget)
        if found.status != "stalled":
            return found
        # Expectation propagation has the same solution, and goes another way.
        other = solve_ep(
            problem, K, tol=tol, budget=Budget(max_iter or DEFAULT_STEPS["ep"], monitor)
        )
        return other if other.residual < found.residual else found
    fields = solve_flipped(problem, K, direction, tol=tol, budget=budget)
    return finished(problem, fields, budget)


def _smooth(problem: MeanField) -> bool:
    """Whether conjugate gradients are fast: many rows, and noise that is not small."""
    return problem.n_rows > MANY_ROWS and not has_little_noise(problem)
