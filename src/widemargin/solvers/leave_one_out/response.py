r"""First-order leave-one-out for machines whose kernel matrix does not fit the memory.

Problem: as in `leave_one_out`, but only the first step of each path. With M the
free rows and H their (bordered) kernel block, the value of row l falls by its coefficient times

.. math::

    S_l = 1 / [H^{-1}]_{ll} \;\text{(l free)}, \qquad
    S_l = k_{ll} - u' H^{-1} u \;\text{(l at its cap, u its kernel with M)},

the squared distance of l to the span of the other free vectors: Opper and Winther (2000),
equations (8.26)-(8.32), corrected. Only the blocks k(M, M) and k(l, M) are formed.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.leave_one_out.tableau import Tableau, limits_of, snapped
from widemargin.solvers.soft_margin import padded

FREE_ROWS = 6_000  # of more free rows than this, a random sample stands for all
CHUNK = 1_024


def first_order(
    rows: Rows,
    problem: SoftMargin,
    alpha: FloatArray,
    threshold: float,
    leaving: IntArray,
    fraction: FloatArray,
) -> FloatArray:
    """Return the first-order left-out value of some rows.

    Parameters
    ----------
    rows : Rows
        All training rows.
    problem : SoftMargin
        The problem, with at most one threshold.
    alpha : ndarray of shape (n_variables,)
        Its dual variables, near their optimum.
    threshold : float
        The threshold.
    leaving : ndarray
        Rows to leave out, one at a time.
    fraction : ndarray
        The part of each that leaves.
    """
    limits = limits_of(problem)
    x = snapped(problem.coefficients(alpha).copy(), limits)
    used = np.flatnonzero(x)
    values = rows.weighted_sum(leaving, rows, used, x[used]) + threshold
    ridge = problem.ridge[: rows.n]
    free = used[(x[used] < limits[0][used]) & (x[used] > -limits[1][used])]
    if len(free) > FREE_ROWS:
        free = np.sort(np.random.default_rng(0).permutation(free)[:FREE_ROWS])
    m = len(free)
    if m == 0:
        return values  # nothing responds: only the exact path can tell
    K = np.zeros((padded(m), padded(m)))
    rows.fill_symmetric(free, K[:m, :m])
    block = Tableau(K, problem.restrict(free), alpha[problem.variables_of(free)], refine=False)
    basis = free[block.free]
    if not len(basis):  # all of them have a kernel of zero
        return values
    moves = np.flatnonzero(x[leaving] != 0)
    for k in range(0, len(moves), CHUNK):
        part = moves[k : k + CHUNK]
        distance = _distances(rows, block, basis, leaving[part], ridge)
        values[part] += _shift(x, limits, ridge, values[part], leaving[part], fraction[part],
                               distance)  # fmt: skip
    return values


def _distances(
    rows: Rows, block: Tableau, basis: IntArray, leaving: IntArray, ridge: FloatArray
) -> FloatArray:
    """Return S of each row, without its own ridge."""
    inverse = block.inverse
    U = rows.block(leaving, rows, basis) + block.shift
    if block.intercept:
        U = np.column_stack([U, np.ones(len(U))])
    diagonal = rows.diagonal()[leaving] + block.shift
    S = diagonal - np.einsum("ij,ij->i", U @ inverse, U)
    place = {int(row): k for k, row in enumerate(basis)}
    for k, row in enumerate(leaving.tolist()):
        if row in place:
            S[k] = 1.0 / inverse[place[row], place[row]] - ridge[row]
    return np.maximum(S, 0.0)


def _shift(
    x: FloatArray,
    limits: FloatArray,
    ridge: FloatArray,
    values: FloatArray,
    leaving: IntArray,
    fraction: FloatArray,
    distance: FloatArray,
) -> FloatArray:
    """Return by how much the values change when the rows leave."""
    coefficient = x[leaving]
    above = coefficient > 0
    cap = np.where(above, limits[0][leaving], limits[1][leaving])
    squared = ~np.isfinite(cap)
    kept_cap = np.where(squared, 0.0, np.where(squared, 0.0, cap) * (1.0 - fraction))
    leaves = np.sign(coefficient) * np.maximum(0.0, np.abs(coefficient) - kept_cap)
    if squared.any():
        # With squared slack the coefficient stops at stiffness times the slack.
        stiffness = (1.0 - fraction) / np.where(squared, ridge[leaving], 1.0)
        target = np.where(above, limits[2][leaving], limits[3][leaving])
        ahead = coefficient - stiffness * (target - values)
        leaves = np.where(squared, ahead / (1.0 + stiffness * distance), leaves)
    return np.asarray(-leaves * distance)
