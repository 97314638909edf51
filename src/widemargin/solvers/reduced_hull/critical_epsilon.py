r"""Find the smallest feasible eps of a tube.

Below it the reduced hulls of the lifted and the lowered samples intersect. For residuals
:math:`r_i = t_i - f(x_i)` let :math:`e(f)` be half the difference between the mean of the k largest
and the mean of the k smallest (caps D in general). The hulls of P7 are disjoint if and only if
:math:`\epsilon > \min_f e(f)`. For k = 1, the hard tube, that is half the smallest width of a tube
around all samples. The minimum is the optimum of the linear program

.. math::

    \max_{s^+, s^-} \; \tfrac12 \sum_i (s^-_i - s^+_i) t_i \quad\text{s.t.}\quad
    \sum_i (s^-_i - s^+_i) x_i = 0, \quad \sum_i s^\pm_i = 1, \quad 0 \le s^\pm_i \le D_i .

Every f gives an upper bound, and the value returned is the bound e(f) of the f found. If the
program is too large, Newton's method on eps replaces it: the solution of P7 at eps has a smaller
e(f).
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import threshold_interval
from widemargin.problems.tube import lifted_rows, lifted_targets, tube_hulls
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.highs import solve_linear_program
from widemargin.solvers.reduced_hull.critical_k import span
from widemargin.solvers.reduced_hull.nearest import half_margin, solve_nearest

GAIN = 1e-3  # relative decrease of eps below which Newton's method stops


def smallest_epsilon(
    rows: Rows, t: FloatArray, D: FloatArray, *, budget: Budget, seed: int = 0
) -> float:
    """Return the smallest eps for which a tube exists, for targets t and caps D.

    Budget and seed are those of :func:`widemargin.solvers.reduced_hull.solve`; they are used only
    if the linear program is too large.
    """
    found = span(rows)
    value = None if found is None else _program(found.points, t, D)
    return _newton(rows, t, D, budget, seed) if value is None else value


def tube_of_residuals(r: FloatArray, D: FloatArray) -> float:
    """Compute e(f), half the width of the soft tube, from the residuals of f.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.reduced_hull.critical_epsilon import tube_of_residuals
    >>> tube_of_residuals(np.array([0.0, 1.0, 2.0, 9.0]), np.full(4, 0.5))
    2.5
    """
    ends = []
    for values in (r, -r):
        low, _ = threshold_interval(values, D)
        ends.append(low - float(D @ np.maximum(0.0, low - values)))
    return float(-0.5 * (ends[0] + ends[1]))


def _program(points: FloatArray, t: FloatArray, D: FloatArray) -> float | None:
    """Solve the linear program and return e(f), or None if HiGHS did not reach the optimum."""
    m = len(t)
    # HiGHS has absolute tolerances, so the targets are centred and scaled to size 1.
    unit = max(float(np.abs(t - t.mean()).max()), np.finfo(np.float64).tiny)
    scaled = (t - t.mean()) / unit
    sums = np.repeat(np.eye(2), m, axis=1)
    equations = np.vstack([np.hstack([-points.T, points.T]), sums])
    program = solve_linear_program(
        0.5 * np.concatenate([scaled, -scaled]),
        A_eq=equations,
        b_eq=np.concatenate([np.zeros(points.shape[1]), [1.0, 1.0]]),
        bounds=np.column_stack([np.zeros(2 * m), np.tile(D, 2)]),
        method="highs-ipm",
        sharp=True,
    )
    if program.ended != "optimal":
        return None
    # The multipliers of the equations for x are -w / 2, where f = w.x. The tube of f = 0 is a
    # bound as well, and the better one if the solution is inaccurate.
    f = -2.0 * (points @ program.equalities[:-2])
    return unit * min(tube_of_residuals(scaled - f, D), tube_of_residuals(scaled, D))


def _newton(rows: Rows, t: FloatArray, D: FloatArray, budget: Budget, seed: int) -> float:
    """Decrease eps by Newton's method on solutions of P7 until the hulls intersect."""
    epsilon = tube_of_residuals(t, D)
    while True:
        z = lifted_targets(t, epsilon)
        lifted = lifted_rows(rows, z)
        found = solve_nearest(
            tube_hulls(D), lifted, half_margin, tol=1e-2, budget=budget, seed=seed
        )
        sigma = float(z @ found.alpha)
        if not found.separable or sigma <= 0:
            return epsilon
        smaller = epsilon - (found.points.eta_plus - found.points.eta_minus) / (2.0 * sigma)
        if smaller > (1.0 - GAIN) * epsilon:
            return smaller
        epsilon = smaller
