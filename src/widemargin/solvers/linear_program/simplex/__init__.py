r"""Simplex method for the linear programs of kernel machines, with row generation.

The optimal basis of these programs is small: of n coefficients about n/10 are nonzero, and as many
margin constraints are tight. The method of `linear_program.simplex.pivots` starts from alpha = 0,
or from the coefficients of a similar program, and works with the rows and columns of the basis
only; another kernel row is computed when the margin of its sample first crosses the right-hand
side.

Three additions to the textbook method:

- *Certified termination.* At the optimal vertex (G z)_j = c wherever alpha_j > 0, so rounding
  leaves some of them above c, and the dual of `problems.linear_program` charges 1e8 per unit of
  excess. The last pivots therefore use prices lowered by a small eps_j. They end at multipliers
  with G z <= c - eps_j / 2; the perturbation costs sum eps_j alpha_j, a tenth of tol.
- *nu machines with zero margin.* The optimum is 0, so the gap is measured against a rounding
  residual. The last pivots reduce the violation to the rounding error of (G z)_j.
- *Selection among several optima.* If the optimum has no slack, every alpha with G alpha >= 1 is
  optimal. Further pivots, with slack forbidden, minimise sum alpha_i k(x_i, x_i) over them.
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

ROUGH = 1e-10  # tolerance on reduced costs in the first stage, relative to the sum of the costs


@dataclass(frozen=True, eq=False, kw_only=True)
class Vertices(Result):
    """Vertices at the end of each stage; `n_iter` counts sweeps of n_rows / 10 pivots.

    Attributes
    ----------
    alphas, zs : list of ndarrays of shape (n_rows,)
        Coefficients and multipliers within their bounds (multipliers of sum nu for the nu machine),
        one pair per stage. The caller compares them with the exact kernel.
    n_pivots : int
        Number of pivots.
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
    """Solve a linear program by the simplex method.

    The parameters are those of :func:`widemargin.solvers.linear_program.solve`, but `start` holds
    coefficients only. A step of the budget is a sweep of max(50, n_rows / 10) pivots.
    """
    with worker_threads():  # the products are too small for multithreaded BLAS
        walk = SimplexDescent(problem, rows, seed, budget)
        walk.begin(start)
        points = _last_points(walk, rows.diagonal(), tol)
    status: Status = "stalled" if walk.stalled else budget.status
    # The pivots that turn a warm start into a vertex are outside the budget, hence the minimum.
    sweeps = min(-(-walk.n_pivots // walk.sweep), walk.most_sweeps)
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
    """Run the stages: to the optimum, then to certifying multipliers or the least optimum."""
    problem = walk.problem
    total = float(problem.cost.sum())
    settled = walk.descend(ROUGH * total, ROUGH)
    points = [walk.point()]
    if not settled:
        return points
    if problem.nu is not None:
        # The gap is relative to nu rho, which may be small compared with the kernel values.
        walk.descend(PRODUCT_ROUNDING * total, PRODUCT_ROUNDING)
        if walk.has_no_margin(ROUGH):
            points.append(walk.point())
            walk.descend(EPS * np.sqrt(problem.n_rows) * total, PRODUCT_ROUNDING)
    elif walk.objective() <= PRODUCT_ROUNDING * total:
        walk.forbid_slack(diagonal)
        walk.descend(ROUGH * total, ROUGH)
        # The multipliers belong to the secondary objective; z = 0 certifies an objective of 0.
        return [(walk.point()[0], np.zeros(problem.n_rows))]
    else:
        # The gap contains alpha_j times the reduced cost of j: large alpha need a tighter stage.
        if walk.large():
            walk.descend(EPS * total, PRODUCT_ROUNDING)
            points.append(walk.point())
        hair = walk.lower_prices(tol)
        walk.descend(0.5 * hair, min(ROUGH, hair))
    points.append(walk.point())
    return points
