"""One door to the solvers of the linear programs of `problems.linear_program`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from widemargin._typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.result import Monitor, Status


@dataclass(frozen=True, eq=False)
class ProgramResult:
    """Coefficients and the multipliers that prove how good they are.

    Attributes
    ----------
    alpha : ndarray of shape (n_rows,)
        Coefficients within their limits; exactly 0 off the support.
    z : ndarray of shape (n_rows,)
        Multipliers in the box (of sum nu for the nu machine) that give the best bound found.
    f, g : ndarray of shape (n_rows,)
        K (y alpha) and K (y z), evaluated afresh in float64 with the true kernel.
    n_iter : int
        Steps, at least 1.
    status : {"optimal", "max_iter", "stopped", "stalled"}
        As in `SolverResult`.
    method : str
        Which solver it was.
    """

    alpha: FloatArray
    z: FloatArray
    f: FloatArray
    g: FloatArray
    n_iter: int
    status: Status
    method: str


def solve_lp_machine(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float = 1e-6,
    max_iter: int = 100,
    cache_bytes: float = 5e8,
    seed: int = 0,
    monitor: Monitor | None = None,
    start: ProgramResult | None = None,
) -> ProgramResult:
    """Solve a program to a relative gap of tol (PLACEHOLDER: scipy's HiGHS on the whole dual)."""
    n = problem.n_rows
    K = rows.block(np.arange(n), rows, np.arange(n))
    G = problem.y[:, None] * K * problem.y - np.diag(problem.shift)
    box = np.column_stack([np.zeros(n), problem.cost])
    if problem.nu is None:
        found = linprog(-np.ones(n), A_ub=G, b_ub=np.full(n, problem.price), bounds=box)
        z, alpha = found.x, -found.ineqlin.marginals
    else:
        A = np.hstack([G, -np.ones((n, 1))])
        bounds = [*map(tuple, box), (None, None)]
        equal = np.append(np.ones(n), 0.0)[None]
        cost = np.append(np.zeros(n), 1.0)
        found = linprog(
            cost, A_ub=A, b_ub=np.zeros(n), A_eq=equal, b_eq=[problem.nu], bounds=bounds
        )
        z, alpha = found.x[:n], -found.ineqlin.marginals
        alpha = alpha / alpha.sum()
    alpha = np.where(alpha > 1e-12 * max(1e-300, alpha.max()), alpha, 0.0)
    if problem.nu is None:
        alpha = np.minimum(alpha, problem.limit)
    f, g = K @ (problem.y * alpha), K @ (problem.y * z)
    return ProgramResult(alpha, z, f, g, max(1, int(found.nit)), "optimal", "highs")
