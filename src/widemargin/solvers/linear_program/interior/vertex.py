r"""Crossover from an interior point near the optimum to the vertex, with the exact kernel.

At a vertex there are as many nonzero coefficients J as multipliers I strictly between their bounds,
and both solve linear equations,

.. math::

    (G \alpha)_i = \rho,\; i \in I, \qquad (G z)_j = \sigma,\; j \in J,

with rho = 1 and sigma = c (unknowns of the nu machine, determined by the sums of alpha and z). The
interior point predicts I and J. The equations, a few hundred, replace the last Newton steps, remove
the error of the low-rank kernel and make the zeros of alpha exact.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.linear_program.interior.path import PathPoint
from widemargin.solvers.linear_program.interior.system import factored, solved

SLIP = 1e-6  # bound violation, relative to the largest entry, beyond which I or J was wrong


def in_support(point: PathPoint) -> BoolArray:
    """Predict the support: coefficients that are larger, relative to the largest, than their slack.

    Of each complementary pair (a, p) only one stays positive at the optimum.
    """
    return np.asarray(point.a * point.p.max() > point.p * point.a.max())


def vertex(
    problem: MarginProgram, rows: Rows, point: PathPoint, roundings: float
) -> tuple[FloatArray, FloatArray] | None:
    """Return alpha and z of the vertex near an interior point, or None.

    None means that the predicted basis is wrong: the equations are singular or their solution
    violates its bounds. `roundings` is the number of rounding errors in a sum of kernel values.
    """
    support = np.flatnonzero(in_support(point))
    if not 0 < len(support) <= problem.n_rows // 2:
        return None
    # D_1, scaled by w, tends to 0 for multipliers strictly between their bounds, where both slacks
    # vanish, and to infinity at either bound. The basis is square: take the smallest |J| values.
    stiffness = (point.xi / point.t + point.s / point.z) * point.w
    between = np.sort(np.argsort(stiffness, kind="stable")[: len(support)])
    full = np.flatnonzero(point.z > 0.5 * point.w)
    full = full[~np.isin(full, between)]
    y = problem.y
    M = rows.block(between, rows, support) * y[between, None] * y[support]
    M = np.asarray(M - (between[:, None] == support) * problem.shift[support])  # G[I, J]
    # Contribution of the multipliers at their upper bound to (G z)_j, j in the support.
    values = y[support] * rows.weighted_sum(support, rows, full, (y * problem.cost)[full])
    own = np.where(np.isin(support, full), (problem.shift * problem.cost)[support], 0.0)
    try:
        a, z = _solve(problem, M, support, full, np.asarray(values - own), roundings)
    except LinAlgError:
        return None
    return _within(problem, between, support, full, a, z)


def _solve(
    problem: MarginProgram,
    M: FloatArray,
    support: IntArray,
    full: IntArray,
    pull: FloatArray,
    roundings: float,
) -> tuple[FloatArray, FloatArray]:
    """Solve for alpha_J and z_I; `pull` is the part of (G z)_J from multipliers at their bound."""
    k = len(M)
    fixed = float(problem.cost[full].sum())
    if problem.nu is None:
        factor = factored(M)
        alpha = solved(factor, np.ones(k))
        # Strictly feasible by twice the rounding error, so that rounding costs the bound nothing.
        inside = 2.0 * problem.rounding(fixed + k, problem.weight, roundings)[support]
        return alpha, solved(factor, problem.price - inside - pull, transposed=True)
    # The nu machine has the unknowns rho and sigma too, and the equations sum a = 1, sum z = nu.
    border = np.zeros((k + 1, k + 1))
    border[:k, :k], border[:k, k], border[k, :k] = M, -1.0, 1.0
    factor = factored(border)
    alpha = solved(factor, np.append(np.zeros(k), 1.0))
    z = solved(factor, np.append(-pull, fixed - problem.nu), transposed=True)
    return alpha[:k], z[:k]


def _within(
    problem: MarginProgram,
    between: IntArray,
    support: IntArray,
    full: IntArray,
    a: FloatArray,
    z: FloatArray,
) -> tuple[FloatArray, FloatArray] | None:
    """Assemble alpha and z, or return None if they violate their bounds beyond rounding."""
    w = problem.cost[between]
    if not (np.isfinite(a).all() and np.isfinite(z).all()):
        return None
    if a.min() < -SLIP * a.max() or z.min() < -SLIP * w.max() or (z - w).max() > SLIP * w.max():
        return None
    alpha, multipliers = np.zeros(problem.n_rows), np.zeros(problem.n_rows)
    alpha[support] = np.maximum(a, 0.0)
    multipliers[full] = problem.cost[full]
    multipliers[between] = np.clip(z, 0.0, w)
    return alpha, multipliers
