"""Find the nearest points of reduced convex hulls.

Problem: P2 and P3 of :mod:`widemargin.problems.reduced_hull`, including tube regression
(:mod:`widemargin.problems.tube`).

========  ====================================================  ==================================
method    algorithm                                             data; chosen by "auto"
========  ====================================================  ==================================
smo       soft-margin solver, to a tolerance relative to the    any kernel; for nonlinear kernels,
          distance of the hulls                                 sparse data, over 100 features
qp        interior-point method on all samples, exact finish    linear, dense; up to 5,000 samples
implicit  the same on samples near the thresholds only, in a    linear, dense; more samples
          few passes (:mod:`~widemargin.solvers.out_of_core`)
sampling  random subsamples, for small k                        linear, dense; never
          (:mod:`~widemargin.solvers.literature.random_sampling`)
========  ====================================================  ==================================

"qp", "implicit" and "sampling" compute the optimum exactly, up to rounding. If rounding errors keep
them from the tolerance, "smo" is run as a fallback.
"""

from __future__ import annotations

from dataclasses import replace

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.reduced_hull.critical_epsilon import smallest_epsilon
from widemargin.solvers.reduced_hull.critical_k import critical_mass, smallest_k, smallest_pair
from widemargin.solvers.reduced_hull.linear import (
    LINEAR_METHODS,
    resolve_method,
    solve_linear_hulls,
)
from widemargin.solvers.reduced_hull.nearest import HullResult, Unit, half_margin, solve_nearest

__all__ = [
    "LINEAR_METHODS",
    "HullResult",
    "critical_mass",
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
        Result of :func:`widemargin.problems.reduced_hull.reduced_hulls`; the caps of each class
        must add up to at least 1.
    data : Rows
        Samples with their kernel; centred if the kernel is linear.
    tol : float
        KKT violation to reach, in multiples of `unit`.
    budget : Budget
        Steps of "smo" or rounds of "implicit" and "sampling"; max_iter=-1 selects the default of
        the method.
    start : HullResult, optional
        Warm start of "smo".
    method : {"auto", "smo", "qp", "implicit", "sampling"}
        See the module docstring.
    seed : int
        Seed of random subsamples; the result does not depend on it.
    unit : callable
        Function of dual variables and nearest points that returns the unit of the KKT violation.
    fall_back : bool
        Whether to run "smo" if an exact method does not reach tol.

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
        # No tolerance relative to the margin can be met if the hulls intersect.
        if met or spent or not found.separable or not fall_back:
            return found
        history = found.history
    found = solve_nearest(
        problem, data, unit, tol=tol, budget=budget, start=start, sample=method == "auto", seed=seed
    )
    return found if history is None else replace(found, history=history)
