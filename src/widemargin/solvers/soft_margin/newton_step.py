"""Newton step on the free variables, for problems on which pair steps converge slowly.

Restricted to the variables strictly inside their boxes, the dual is an equality-constrained
quadratic program. Variables that its solution moves beyond a bound are fixed at that bound and the
others are solved for again. The step is accepted only if it increases the dual objective.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import BoolArray, FloatArray, IntArray

CLIPPING_ROUNDS = 5  # solves in which variables are fixed at bounds; each one is a factorisation


def newton_move(
    A: FloatArray,
    score: FloatArray,
    lowest: FloatArray,
    highest: FloatArray,
    group: IntArray | None,
) -> FloatArray | None:
    """Maximise score'd - 1/2 d'Ad with lowest <= d <= highest, zero group sums, approximately.

    A is the kernel matrix of the free variables, ridge included, `score` the gradient of the dual
    objective, lowest < 0 < highest the distances of each variable from its bounds; `group` is None
    without equality constraints. Returns a step d that increases the objective, or None if none was
    found.
    """
    move = np.zeros(len(score))
    free = np.ones(len(score), dtype=bool)
    first: FloatArray | None = None
    for _ in range(CLIPPING_ROUNDS):
        step = _equality_step(A, score, move, free, group)
        if step is None:
            break
        move[free] = step
        first = move.copy() if first is None else first
        out = (move <= lowest) | (move >= highest)
        newly = out & free
        np.clip(move, lowest, highest, out=move)
        if not newly.any():
            return _checked(A, score, move, lowest, highest, group)
        free &= ~newly
        if not free.any():
            break
    if first is None:
        return None
    # The bounds found do not settle: shorten the first, unclipped step to the nearest bound.
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(first > 0, highest / first, np.where(first < 0, lowest / first, np.inf))
    return _checked(A, score, first * min(1.0, float(room.min())), lowest, highest, group)


def _checked(
    A: FloatArray,
    score: FloatArray,
    move: FloatArray,
    lowest: FloatArray,
    highest: FloatArray,
    group: IntArray | None,
) -> FloatArray | None:
    """Return the step with group sums of exactly zero, or None if it is not an improvement."""
    for g in [] if group is None else np.unique(group):
        member = group == g
        excess = float(move[member].sum())
        if abs(excess) > 1e-8 * float(np.abs(move[member]).sum()):
            return None  # more than rounding: the system was too ill-conditioned
        room = np.where(member, np.minimum(highest - move, move - lowest), -np.inf)
        freest = int(room.argmax())
        if room[freest] < abs(excess):
            return None
        move[freest] -= excess
    with np.errstate(over="ignore", invalid="ignore"):  # an ill-conditioned A gives huge steps
        gain = float(score @ move - 0.5 * move @ (A @ move))
    return move if 0 < gain < np.inf else None


def _equality_step(
    A: FloatArray, score: FloatArray, move: FloatArray, free: BoolArray, group: IntArray | None
) -> FloatArray | None:
    """Solve the equality-constrained problem for the free part of the step, the rest fixed."""
    fixed = ~free
    right = score[free] - A[np.ix_(free, fixed)] @ move[fixed]
    constrained = group is not None
    group = np.zeros(len(free), dtype=np.intp) if group is None else group
    labels = np.unique(group[free])
    if constrained and not np.isin(group[fixed], labels).all():
        return None  # a group without free variables cannot restore its sum
    try:
        factor = cho_factor(A[np.ix_(free, free)], lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    step = cho_solve(factor, right, check_finite=False)
    if constrained:
        ones = np.array([group[free] == g for g in labels], dtype=np.float64)
        sums = np.array([-move[fixed & (group == g)].sum() for g in labels])
        lifted = cho_solve(factor, ones.T, check_finite=False)
        # Least squares: the Schur complement of the constraints may be numerically singular.
        multiplier = np.linalg.lstsq(ones @ lifted, ones @ step - sums, rcond=None)[0]
        step = step - lifted @ multiplier
    return step if np.isfinite(step).all() else None
