r"""Finish a box QP: solve its optimality conditions exactly from a nearly optimal point.

The optimality conditions of `numerics.box_qp_interior` are linear once it is known
which rows are at a bound: on the free rows F

.. math:: A_F v = q_F, \qquad Z_F's_F = w - c_B, \qquad E_F's_F = a_B,

with what the bounded rows contribute in :math:`c_B` and :math:`a_B`. They are solved through the
singular values of :math:`A_F`, because ties and duplicates make it deficient in rank; rows whose
answer contradicts the guess change sides, and the equations are solved again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.solvers.numerics.box_qp_interior import Point, ScaledBoxQP

GOOD = 1e-12  # violation at which the conditions count as solved to rounding
TOLERABLE = 1e-9  # the largest violation of a result that calls itself exact
ROUNDS = 40
TOGETHER = 12  # rounds in which all wrong rows change at once; then one by one
PATIENCE = 6  # rounds without gain after which the guess is given up
CLEARLY = 0.3  # equations that fail by this share of the worst failure are false
COLLAPSED = 1e-6  # w shorter than that of the interior point by this factor is none
RANK = 1e-13  # relative size of a singular value that is zero
LARGEST = 4e10  # operations that the singular values of the free rows may take


@dataclass
class Finish:
    """A solution of the equations on the guessed free rows, and by how much it is wrong."""

    s: FloatArray
    v: FloatArray
    free: BoolArray
    violation: float


def finish(qp: ScaledBoxQP, point: Point) -> Finish | None:
    """Solve the optimality conditions from a guess of the free rows; None where it is no guess."""
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
    """Solve on the free rows; tell by how much each row wants to change sides."""
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
        # Equations without a right side hold for v = 0, which is what too many of them leave.
        r = qp.residual(point.v) / _size(qp, point.v)
    off = np.where(free, r, 0.0)
    inconsistent = float(np.abs(off).max(initial=0.0))
    wishes = (wants_low, wants_high, wants_free)
    worst = max(inconsistent, lack, *(float(wish.max(initial=0.0)) for wish in wishes))
    if inconsistent > GOOD:
        # Too many rows count as free. Those whose equation fails most sit at the bound that the
        # residual points to; what the others say is worth nothing before that.
        off[np.abs(off) < CLEARLY * inconsistent] = 0.0
        wants_low, wants_high, wants_free = np.maximum(off, 0.0), np.maximum(-off, 0.0), 0.0 * off
    for wish in (wants_low, wants_high, wants_free):
        wish[wish <= GOOD] = 0.0
    return Finish(s, v, free, worst), wants_low, wants_high, wants_free


def _size(qp: ScaledBoxQP, v: FloatArray) -> float:
    """The size of the terms in Av - q, whose rows are of length one: rounding is relative to it."""
    terms = float(np.linalg.norm(v[: qp.n])) + float(np.abs(v[qp.n :]).max(initial=0.0))
    return max(terms + float(np.abs(qp.q).max(initial=0.0)), 1e-150)


def violation(qp: ScaledBoxQP, s: FloatArray, v: FloatArray) -> float:
    """Return by how much the optimality conditions fail at a point, relative to their terms."""
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
    """Return v, the free part of s, and by how much the equations for s fail.

    Corrections to s are spread in proportion to the room that the interior point leaves each
    row, which keeps them inside the box where s is not unique.
    """
    A, n = qp.A, qp.n
    order = A.shape[1]
    A_free = A[free]
    share = np.sqrt(np.clip(weight / max(float(weight.max(initial=0.0)), 1e-300), 1e-8, 1.0))
    column = qp.unit
    full = len(A_free) <= order  # then the null space is wanted, else U would be huge
    U, values, Vt = np.linalg.svd(share[:, None] * A_free * column, full_matrices=full)
    rank = int(np.sum(values > RANK * values.max(initial=0.0)))
    U, values, V = U[:, :rank], values[:rank], Vt[:rank].T
    null = np.linalg.qr(column[:, None] * Vt[rank:].T)[0]
    fixed = qp.D[high] @ A[high]
    given = np.concatenate([qp.c + fixed[:n], fixed[n:] - qp.a])
    v = point.v.copy()
    s = point.x[free]
    for _ in range(3):  # the second and third time refine
        dv = column * (V @ ((U.T @ (share * (qp.q[free] - A_free @ v))) / values))
        v += dv
        if null.shape[1]:
            curved = null[:n]
            pull = given - np.concatenate([v[:n], np.zeros(order - n)])
            v += null @ np.linalg.lstsq(curved.T @ curved, null.T @ pull, rcond=1e-14)[0]
        wanted = np.concatenate([v[:n], np.zeros(order - n)]) - given
        s = s + share * (U @ ((V.T @ (column * (wanted - s @ A_free))) / values))
    lack = np.abs(wanted - s @ A_free)
    size = np.abs(given) + np.abs(wanted) + float(qp.D.max())
    return v, s, float(np.max(lack / size, initial=0.0))
