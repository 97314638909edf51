r"""Exact finish of a box QP: solve the optimality conditions from a nearly optimal point.

Once the variables at a bound are known, the optimality conditions of `numerics.box_qp_interior`
are linear: on the free variables F

.. math:: A_F v = q_F, \qquad Z_F's_F = w - c_B, \qquad E_F's_F = a_B,

with the contributions of the variables at bounds in :math:`c_B` and :math:`a_B`. They are solved by
a singular value decomposition of :math:`A_F`, because ties and duplicates make it rank deficient.
As in an active-set method, variables that contradict their status (free, at zero, at the cap)
change it, and the equations are solved again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.solvers.numerics.box_qp_interior import Point, ScaledBoxQP

GOOD = 1e-12  # violation at which the conditions are solved up to rounding
TOLERABLE = 1e-9  # largest violation of a result that is reported as exact
ROUNDS = 40
TOGETHER = 12  # rounds that change all wrong variables; later ones only the worst, against cycling
PATIENCE = 6  # rounds without improvement after which to stop
CLEARLY = 0.3  # residual, relative to the largest one, of free variables that move to a bound
COLLAPSED = 1e-6  # norm of w, relative to the interior point, that counts as the solution v = 0
RANK = 1e-13  # relative size of singular values that count as zero
LARGEST = 4e10  # operations allowed for the singular value decomposition


@dataclass
class Finish:
    """Solution of the equations on a guess of the free variables, with its KKT violation."""

    s: FloatArray
    v: FloatArray
    free: BoolArray
    violation: float


def finish(qp: ScaledBoxQP, point: Point) -> Finish | None:
    """Solve the optimality conditions from an interior point; None if there are too many free."""
    # A variable is at a bound if it is smaller than its multiplier, both relative to their scales.
    low = point.x * point.scale < point.z_low * qp.D
    high = (point.above * point.scale < point.z_high * qp.D) & ~low
    weight = 1.0 / (point.z_low / point.x + point.z_high / point.above)
    best: Finish | None = None
    since = 0
    for round_ in range(ROUNDS):
        free = ~(low | high)
        if float(free.sum()) * qp.A.shape[1] ** 2 > LARGEST:
            return best
        found, wants_low, wants_high, wants_free = _solve(qp, point, low, high, free, weight)
        if best is None or found.violation < best.violation:
            best, since = found, round_
        if best.violation <= GOOD or round_ - since > PATIENCE:
            break
        if round_ >= TOGETHER:
            wishes = (wants_low, wants_high, wants_free)
            worst = max(float(wish.max(initial=0.0)) for wish in wishes)
            for wish in wishes:
                wish[wish < worst] = 0.0
        low = ((low | (wants_low > 0)) & ~(wants_free > 0)).astype(bool)
        high = ((high | (wants_high > 0)) & ~(wants_free > 0)).astype(bool)
    return best


def _solve(
    qp: ScaledBoxQP,
    point: Point,
    low: BoolArray,
    high: BoolArray,
    free: BoolArray,
    weight: FloatArray,
) -> tuple[Finish, FloatArray, FloatArray, FloatArray]:
    """Solve on the free variables; return the amounts by which variables violate their status."""
    v, s_free, lack = _equations(qp, point, high, free, weight[free])
    D = qp.D
    s = np.where(high, D, 0.0)
    s[free] = np.clip(s_free, 0.0, D[free])
    r = qp.residual(v)
    r /= _size(qp, v)
    wants_low, wants_high, wants_free = np.zeros((3, len(D)))
    wants_low[free] = -s_free / D[free]
    wants_high[free] = s_free / D[free] - 1.0
    wants_free[low] = -r[low]
    wants_free[high] = r[high]
    size, before = np.linalg.norm(v[: qp.n]), np.linalg.norm(point.v[: qp.n])
    if size < COLLAPSED * before and not qp.q.any():
        # With q = 0 and too many equations, v = 0 is their only solution: take the residual of the
        # interior point to find those that do not belong.
        r = qp.residual(point.v) / _size(qp, point.v)
    off = np.where(free, r, 0.0)
    inconsistent = float(np.abs(off).max(initial=0.0))
    wishes = (wants_low, wants_high, wants_free)
    worst = max(inconsistent, lack, *(float(wish.max(initial=0.0)) for wish in wishes))
    if inconsistent > GOOD:
        # Too many variables count as free. Those with the largest residuals move to the bound
        # given by its sign; until then the other violations are meaningless.
        off[np.abs(off) < CLEARLY * inconsistent] = 0.0
        wants_low, wants_high, wants_free = np.maximum(off, 0.0), np.maximum(-off, 0.0), 0.0 * off
    for wish in (wants_low, wants_high, wants_free):
        wish[wish <= GOOD] = 0.0
    return Finish(s, v, free, worst), wants_low, wants_high, wants_free


def _size(qp: ScaledBoxQP, v: FloatArray) -> float:
    """Return the scale of the terms of Av - q (rows of A have norm about one), for rounding."""
    terms = float(np.linalg.norm(v[: qp.n])) + float(np.abs(v[qp.n :]).max(initial=0.0))
    return max(terms + float(np.abs(qp.q).max(initial=0.0)), 1e-150)


def violation(qp: ScaledBoxQP, s: FloatArray, v: FloatArray) -> float:
    """Return the largest violation of the optimality conditions, relative to their terms."""
    r = qp.residual(v)
    share = s / qp.D
    projected = np.clip(share - r / _size(qp, v), 0.0, 1.0)
    pull, total = s @ qp.A, float(s.sum())
    lack = np.abs(np.concatenate([v[: qp.n] - qp.c, qp.a]) - pull)
    of_sums = np.abs(np.concatenate([qp.c, qp.a])) + total
    return max(float(np.abs(share - projected).max()), float((lack / of_sums).max()))


def _equations(
    qp: ScaledBoxQP, point: Point, high: BoolArray, free: BoolArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return v, the free part of s, and the residual of the equations for s.

    If s is not unique, the correction of the interior point is weighted by each variable's distance
    from its bounds, which keeps it inside the box.
    """
    A, n = qp.A, qp.n
    order = A.shape[1]
    A_free = A[free]
    share = np.sqrt(np.clip(weight / max(float(weight.max(initial=0.0)), 1e-300), 1e-8, 1.0))
    column = qp.unit
    # The null space needs all right singular vectors: with fewer rows than columns only the full
    # decomposition returns them; with more rows its U would be huge.
    full = len(A_free) <= order
    U, values, Vt = np.linalg.svd(share[:, None] * A_free * column, full_matrices=full)
    rank = int(np.sum(values > RANK * values.max(initial=0.0)))
    U, values, V = U[:, :rank], values[:rank], Vt[:rank].T
    null = np.linalg.qr(column[:, None] * Vt[rank:].T)[0]
    fixed = qp.D[high] @ A[high]
    given = np.concatenate([qp.c + fixed[:n], fixed[n:] - qp.a])
    v = point.v.copy()
    s = point.x[free]
    for _ in range(3):  # the second and third time are iterative refinement
        dv = column * (V @ ((U.T @ (share * (qp.q[free] - A_free @ v))) / values))
        v += dv
        if null.shape[1]:  # A_F v = q_F leaves these directions open; w = c + Z's determines them
            curved = null[:n]
            pull = given - np.concatenate([v[:n], np.zeros(order - n)])
            v += null @ np.linalg.lstsq(curved.T @ curved, null.T @ pull, rcond=1e-14)[0]
        wanted = np.concatenate([v[:n], np.zeros(order - n)]) - given
        s = s + share * (U @ ((V.T @ (column * (wanted - s @ A_free))) / values))
    lack = np.abs(wanted - s @ A_free)
    size = np.abs(given) + np.abs(wanted) + float(qp.D.max())
    return v, s, float(np.max(lack / size, initial=0.0))
