r"""Active-set Newton method for programs with squared slack.

The objective, without slack as a variable, is convex and piecewise quadratic in the coefficients,

.. math:: \sum_i w_i \max(0, 1 - (G \alpha)_i)^2 + c \sum_i \alpha_i, \qquad 0 \le \alpha \le u .

The method keeps a working set F of coefficients that may be positive. A Newton step solves the
least squares problem of F over the samples with a slack, by a QR factorisation with pivoting (the
normal equations would square the condition number of G), and the best point of the projected path
and of the exact line search is taken. When F is optimal, the coefficients with the steepest descent
join it. The objective falls in every step, so no working set returns. In a narrow kernel, where the
coefficients span so many orders of magnitude that steps end at the first bound, an interior-point
method finds the working set (`squared.interior`).

The first coefficients are those of the program with linear slack. If its optimum is 0, so is that
of the squared slack, and it is returned. The published multipliers are moved, by the smallest
change in the norm of the dual, to where :math:`G z < c` holds beyond its rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.linear_program.squared.descent import Descent
from widemargin.solvers.linear_program.squared.interior import interior_points

NOTHING = 1e-14  # a loss that counts as 0, relative to that of alpha = 0
WORKSPACE = 36  # numbers per n^2 that an interior-point step takes at most
PATIENCE = 40  # steps after which the interior-point method is tried if it fits into memory


def solve_squared(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: ProgramResult | None,
    linear: Callable[[], ProgramResult],
) -> ProgramResult:
    """Solve a program with squared slack; the parameters are those of the door of the package.

    `linear` solves the program with linear slack, which is the start if there is no other.
    """
    used = 0
    if start is None:
        start = linear()
        used = start.n_iter
        loss = problem.loss(problem.slack(start.alpha, start.f))
        if problem.price == 0 and loss <= NOTHING * problem.weight.sum():
            return _without_slack(start)
    # Pivots and steps of the two methods are different units, so each has a budget of its own.
    small = 8 * WORKSPACE * rows.n**2 <= budget.cache_bytes
    steps = min(budget.max_iter, PATIENCE) if small else budget.max_iter
    own = Budget(steps, budget.monitor, budget.cache_bytes)
    run = Descent(problem, rows, np.minimum(start.alpha, problem.limit), own)
    found = run.result(run.minimise(), tol)
    patient = found.status == "stalled" or (found.status == "max_iter" and steps < budget.max_iter)
    if patient and small:
        found = _better(problem, found, _from_inside(run, budget, tol), tol)
    return replace(found, n_iter=max(1, used + found.n_iter))


def _from_inside(run: Descent, budget: Budget, tol: float) -> ProgramResult:
    """Return the result of an interior-point method and of Newton steps from its end."""
    problem, seen = run.problem, run.seen
    inner, last = (Budget(budget.max_iter, budget.monitor, budget.cache_bytes) for _ in range(2))
    C = run.columns.of(np.flatnonzero(seen))
    x, inside = interior_points(C, problem.weight, run.price[seen], inner)
    alpha = np.zeros(len(seen))
    alpha[seen] = x / run.size[seen]
    again = Descent(problem, run.rows, np.minimum(alpha, problem.limit), last)
    status = inner.status if inner.status == "stopped" else again.minimise()
    found = again.result(status, tol, inside)
    return replace(found, n_iter=run.budget.used + inner.used + last.used)


def _better(
    problem: MarginProgram, one: ProgramResult, other: ProgramResult, tol: float
) -> ProgramResult:
    """Return the better coefficients of two results with the better bound."""
    low = min(one, other, key=lambda found: problem.primal(found.alpha, found.f))
    high = max(one, other, key=lambda found: problem.dual(found.z, found.g))
    done = problem.is_optimal(low.alpha, low.f, high.z, high.g, tol)
    status: Status = "converged" if done else other.status
    return replace(low, z=high.z, g=high.g, status=status, n_iter=other.n_iter)


def _without_slack(found: ProgramResult) -> ProgramResult:
    """Return an optimum without slack, with the multipliers 0 that prove it."""
    nothing = np.zeros_like(found.z)
    return replace(found, z=nothing, g=nothing.copy(), status="converged")
