r"""Round a point near the optimum to the vertex that it points at, with the true kernel.

At a vertex the coefficients J that are not 0 and the multipliers I strictly between their bounds
are as many as each other, and both are fixed by equations:

.. math::

    (G \alpha)_i = \rho,\; i \in I, \qquad (G z)_j = \sigma,\; j \in J,

rho = 1 and sigma = c (the nu machine finds them from the sums of alpha and z). The interior-point
method ranks the rows; a few hundred equations then replace its last steps and the error of its
low rank, and give zeros that are exactly zero.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.linear_program.interior.path import PathPoint
from widemargin.solvers.linear_program.interior.system import factored, solved

SLIP = 1e-6  # of the largest: a coefficient further below 0 means that the rows were not the right


def in_support(point: PathPoint) -> BoolArray:
    """Tell which coefficients stay: those nearer to the largest than their slack to its largest."""
    return np.asarray(point.a * point.p.max() > point.p * point.a.max())


def vertex(
    problem: MarginProgram, rows: Rows, point: PathPoint
) -> tuple[FloatArray, FloatArray] | None:
    """Return alpha and z of the vertex that a point of the path is near, or None.

    None if the point does not single one out: the equations are singular or their solution is not
    within its bounds.
    """
    support = np.flatnonzero(in_support(point))
    if not 0 < len(support) <= problem.n_rows // 2:
        return None
    stiffness = (point.xi / point.t + point.s / point.z) * point.w
    between = np.sort(np.argsort(stiffness, kind="stable")[: len(support)])
    full = np.flatnonzero(point.z > 0.5 * point.w)
    full = full[~np.isin(full, between)]
    y = problem.y
    M = rows.block(between, rows, support) * y[between, None] * y[support]  # that block of G
    M = np.asarray(M - (between[:, None] == support) * problem.shift[support])
    # What rows with multipliers at their limit add to (G z)_j, j in the support.
    values = y[support] * rows.weighted_sum(support, rows, full, (y * problem.cost)[full])
    own = np.where(np.isin(support, full), (problem.shift * problem.cost)[support], 0.0)
    try:
        a, z = _solve(problem, M, support, full, np.asarray(values - own))
    except LinAlgError:
        return None
    return _within(problem, between, support, full, a, z)


def _solve(
    problem: MarginProgram, M: FloatArray, support: IntArray, full: IntArray, pull: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve for the coefficients and the multipliers, given what the full rows pull."""
    k = len(M)
    fixed = float(problem.cost[full].sum())
    if problem.nu is None:
        factor = factored(M)
        alpha = solved(factor, np.ones(k))
        # Strictly inside by twice the rounding: the bound then charges nothing for it.
        inside = 2.0 * problem.rounding(fixed + k)[support]
        return alpha, solved(factor, problem.price - inside - pull, transposed=True)
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
    """Return all coefficients and multipliers, unless some are out of bounds beyond rounding."""
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
