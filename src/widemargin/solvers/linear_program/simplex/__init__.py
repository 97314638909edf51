r"""Simplex method for linear programs of kernel machines, with kernel rows made on demand.

The optimum of these programs is a small vertex: with n rows about n/10 coefficients differ from
zero, and as many margins are exactly what is asked. The method of
`linear_program.simplex.pivots` walks from alpha = 0, or from the coefficients of a
similar problem, to that vertex. Its work is the few rows and columns of the basis; other kernel
rows are needed once, when their margin passes what is asked.

Three things are added to the textbook:

- *An end that can be proved.* At the vertex (G z)_j = c wherever alpha_j > 0, so rounding leaves
  some of them above c, and the dual of `problems.linear_program` charges 1e8 a unit for that. The
  last pivots are therefore done at a price that is lower than c by a hair, eps_j. They end at
  multipliers with G z <= c - eps_j / 2, and the hair costs sum eps_j alpha_j, a tenth of tol.
- *A nu machine without a margin.* Its optimum is 0, and what rounding leaves of the objective is
  all there is to measure the gap by. The last pivots go on down to the rounding error of (G z)_j.
- *Of many optima the least.* When no slack is left, every alpha with G alpha >= 1 is optimal. The
  walk goes on from there to the one of least sum alpha_i k(x_i, x_i), with slack forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import EPS, PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget, Result, Status
from widemargin.solvers.linear_program.simplex.descent import SimplexDescent

ROUGH = 1e-10  # of the sum of the costs: pulls that are worth a pivot before the end is near


@dataclass(frozen=True, eq=False, kw_only=True)
class Vertices(Result):
    """The last vertices of the walk; `n_iter` is in sweeps of a tenth of the rows in pivots.

    Attributes
    ----------
    alphas, zs : list of ndarrays of shape (n_rows,)
        Coefficients within their limits, multipliers in their box (of sum nu for the nu machine),
        from the last stages of the walk. Which ones are best only the true kernel can tell.
    n_pivots : int
        Pivots.
    """

    alphas: list[FloatArray]
    zs: list[FloatArray]
    n_pivots: int


def solve_simplex(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    seed: int = 0,
    start: FloatArray | None = None,
) -> Vertices:
    """Walk to the optimal vertex of a linear program, as the door of the package.

    A step of the budget is a sweep of n_rows / 10 pivots, or 50 if that is more; `start` holds the
    coefficients of any similar problem.
    """
    with worker_threads():  # products here are too small for the threads of BLAS
        walk = SimplexDescent(problem, rows, seed, budget)
        walk.begin(start)
        points = _last_points(walk, rows.diagonal(), tol)
    status: Status = "stalled" if walk.stalled else budget.status
    sweeps = min(-(-walk.n_pivots // walk.sweep), walk.most_sweeps)  # a start is not counted
    return Vertices(
        alphas=[alpha for alpha, _ in points],
        zs=[z for _, z in points],
        n_iter=max(1, sweeps),
        n_pivots=walk.n_pivots,
        status=status,
    )


def _last_points(
    walk: SimplexDescent, diagonal: FloatArray, tol: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Descend to the optimum, then to multipliers that prove it or to the least of many optima."""
    problem = walk.problem
    total = float(problem.cost.sum())
    settled = walk.descend(ROUGH * total, ROUGH)
    points = [walk.point()]
    if not settled:
        return points
    if problem.nu is not None:
        # The objective may be small beside the kernel.
        walk.descend(PRODUCT_ROUNDING * total, PRODUCT_ROUNDING)
        if walk.has_no_margin(ROUGH):
            points.append(walk.point())
            walk.descend(EPS * np.sqrt(problem.n_rows) * total, PRODUCT_ROUNDING)
    elif walk.objective() <= PRODUCT_ROUNDING * total:
        walk.forbid_slack(diagonal)
        walk.descend(ROUGH * total, ROUGH)
        return [(walk.point()[0], np.zeros(problem.n_rows))]
    else:
        if walk.large():
            walk.descend(EPS * total, PRODUCT_ROUNDING)
            points.append(walk.point())
        hair = walk.lower_prices(tol)
        walk.descend(0.5 * hair, min(ROUGH, hair))
    points.append(walk.point())
    return points
