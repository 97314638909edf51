r"""First-order leave-one-out predictions if the kernel matrix does not fit into memory.

Problem: as in `leave_one_out`, but only the first step of each path. With M the free samples and H
their kernel matrix (bordered if there is an intercept), removing sample l lowers its value by its
coefficient times

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
from widemargin.solvers.leave_one_out.tableau import (
    Tableau,
    ends_of,
    first_step,
    limits_of,
    snapped,
)
from widemargin.solvers.soft_margin import padded

FREE_ROWS = 6_000  # largest number of free samples; of more, a random subsample is used
CHUNK_ROWS = 1_024  # left-out samples per block of kernel values


def first_order(
    rows: Rows,
    problem: SoftMargin,
    alpha: FloatArray,
    threshold: float,
    leaving: IntArray,
    fraction: FloatArray,
) -> FloatArray:
    """Return first-order leave-one-out predictions of some samples.

    `rows` are the kernel rows of all training samples, `alpha` the dual variables, near their
    optimum, of a problem with at most one threshold. The samples `leaving` are left out one at a
    time, each with the given fraction of its weight.
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
        return values  # no sample responds linearly: the fitted values
    K = np.zeros((padded(m), padded(m)))
    rows.fill_symmetric(free, K[:m, :m])
    block = Tableau(K, problem.restrict(free), alpha[problem.variables_of(free)], refine=False)
    basis = free[block.free]
    if not len(basis):  # all free samples have a zero kernel
        return values
    caps, stiffness, moves = ends_of(x, limits, ridge, leaving, fraction)
    moving = np.flatnonzero(moves)
    for k in range(0, len(moving), CHUNK_ROWS):
        part = moving[k : k + CHUNK_ROWS]
        rate = _distances(rows, block, basis, leaving[part], ridge)
        values[part] = first_step(
            x, limits, leaving[part], values[part], caps[part], stiffness[part], rate
        )
    return values


def _distances(
    rows: Rows, block: Tableau, basis: IntArray, leaving: IntArray, ridge: FloatArray
) -> FloatArray:
    """Return S_l of each sample `leaving`, without its own ridge."""
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
