"""Find the nearest points of reduced convex hulls.

Problem: P2 and P3 of :mod:`widemargin.problems.reduced_hull`; tubes are hulls too
(:mod:`widemargin.problems.tube`).

========  ====================================================  ==================================
method    algorithm                                             data; taken by "auto"
========  ====================================================  ==================================
smo       that of the soft-margin family, to an accuracy that   any kernel; for kernels, sparse
          is relative to the distance of the hulls              rows, more than 100 features
qp        interior points on all rows and an exact finish       linear, dense; up to 5,000 rows
implicit  the same on rows near the thresholds only, in a few   linear, dense; more rows
          reads of the data (:mod:`~widemargin.solvers.out_of_core`)
sampling  random samples, for small k                           linear, dense; never
          (:mod:`~widemargin.solvers.literature.random_sampling`)
========  ====================================================  ==================================

"qp", "implicit" and "sampling" return the optimum itself, up to rounding. Where rounding keeps them
from the tolerance, "smo" goes on.
"""

from __future__ import annotations

from dataclasses import replace

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.reduced_hull.critical_epsilon import smallest_epsilon
from widemargin.solvers.reduced_hull.critical_k import smallest_k, smallest_pair
from widemargin.solvers.reduced_hull.linear import (
    LINEAR_METHODS,
    resolve_method,
    solve_linear_hulls,
)
from widemargin.solvers.reduced_hull.nearest import HullResult, Unit, half_margin, solve_nearest

__all__ = [
    "LINEAR_METHODS",
    "HullResult",
    "smallest_epsilon",
    "smallest_k",
    "smallest_pair",
    "solve",
]


def solve(
    problem: SoftMargin,
    data: Rows,
    *,
    tol: float,
    budget: Budget,
    start: HullResult | None = None,
    method: str = "auto",
    seed: int = 0,
    unit: Unit = half_margin,
    fall_back: bool = True,
) -> HullResult:
    """Find the nearest points of two reduced hulls.

    Parameters
    ----------
    problem : SoftMargin
        Of :func:`widemargin.problems.reduced_hull.reduced_hulls`; every class must have a mass of
        at least 1.
    data : Rows
        The rows seen through the kernel; about the origin where the kernel is linear.
    tol : float
        KKT violation to reach, in units.
    budget : Budget
        Steps of "smo" or rounds of "implicit" and "sampling"; max_iter=-1 is the method's own
        limit.
    start : HullResult, optional
        Where "smo" starts.
    method : {"auto", "smo", "qp", "implicit", "sampling"}
        See the module.
    seed : int
        Seed of samples; the result does not depend on it.
    unit : callable
        From dual variables and nearest points to the size that violations are measured by.
    fall_back : bool
        Whether "smo" goes on where an exact method does not reach tol.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel, Rows
    >>> from widemargin.problems.reduced_hull import reduced_hulls
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.reduced_hull import solve
    >>> X, y = np.array([[-2.0], [-1.0], [2.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> hulls = reduced_hulls(y, np.full(4, 0.5))  # k = 2: the means of the classes
    >>> found = solve(hulls, Rows(Kernel("linear"), X), tol=1e-3, budget=Budget(-1))
    >>> found.alpha.round(9), found.separable
    (array([-0.5, -0.5,  0.5,  0.5]), True)
    """
    resolved = resolve_method(method, data)
    history = None
    if resolved in LINEAR_METHODS:
        found = solve_linear_hulls(problem, data.X, resolved, budget=budget, seed=seed)
        met = problem.kkt_violation(found.alpha, found.f) <= tol * unit(found.alpha, found.points)
        spent = found.status in ("max_iter", "stopped")
        if met or spent or not found.separable or not fall_back:
            return found
        history = found.history
    found = solve_nearest(
        problem, data, unit, tol=tol, budget=budget, start=start, sample=method == "auto", seed=seed
    )
    return found if history is None else replace(found, history=history)
