r"""Interior-point method for programs with squared slack whose Newton steps are too badly scaled.

With the coefficients x in units of their kernel values and the columns of C those of G in the same
units, an iterate has positive variables with

.. math:: C x + \frac{z}{2 w} - s = 1, \qquad C' z + p - q = c, \qquad 0 < x < u,

and the products :math:`x p`, :math:`(u - x) q` and :math:`z s` are driven to 0 by Mehrotra's
predictor and corrector. The whole matrix C is formed: a step factorises one of order 2 n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, lu_factor, lu_solve

from widemargin._base.typing import FloatArray
from widemargin.problems.linear_program import LIMIT
from widemargin.solvers.base import Budget

TO_THE_WALL = 0.995
SMALL = 0.05  # initial multipliers, in units of those of alpha = 0
CLOSED = 1e-13  # relative complementarity at which to end
NO_ROOM = 1e-8  # step length at which to end
KEPT = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)  # complementarity below which multipliers are kept


@dataclass
class State:
    """The positive variables of an iterate, or their changes."""

    x: FloatArray
    room: FloatArray
    z: FloatArray
    s: FloatArray
    p: FloatArray
    q: FloatArray

    def parts(self) -> tuple[FloatArray, ...]:
        """Return all variables."""
        return self.x, self.room, self.z, self.s, self.p, self.q

    def pairs(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the complementarity products."""
        return self.x * self.p, self.room * self.q, self.z * self.s


def interior_points(
    C: FloatArray, weight: FloatArray, price: FloatArray, budget: Budget
) -> tuple[FloatArray, list[FloatArray]]:
    """Return coefficients near the optimum, those that vanish set to 0, and some multipliers."""
    at, kept, levels = _start(C, weight, price), [], list(KEPT)
    ridge = 0.5 / weight
    with np.errstate(all="ignore"):
        while True:
            gap = sum(float(pair.sum()) for pair in at.pairs())
            relative = gap / max(1.0, float(weight @ (ridge * at.z) ** 2))
            while levels and relative <= levels[0]:
                levels.pop(0)
                kept.append(at.z)
            if relative <= CLOSED or not budget.spend(1, relative):
                break
            following = _stepped(at, C, ridge, price)
            if following is None:
                break
            at = following
    stays = at.x * at.p.max() > at.p * at.x.max()
    return np.where(stays, np.minimum(at.x, LIMIT), 0.0), [*kept, at.z]


def _start(C: FloatArray, weight: FloatArray, price: FloatArray) -> State:
    n = len(weight)
    typical = float(np.median(np.abs(C.sum(axis=1))))
    x = np.full(n, min(1.0 / max(typical, 1e-8), 0.5 * LIMIT))
    z = 2.0 * SMALL * weight
    spare = C @ x + 0.5 * z / weight - 1.0
    pull = price - C.T @ z
    s = np.maximum(spare, 0.0) + max(float(np.abs(spare).mean()), 1e-3)
    p = np.maximum(pull, 0.0) + max(float(np.abs(pull).mean()), 1e-12)
    q = np.full(n, min(float((z @ s) / n), 1.0) / LIMIT)
    return State(x, LIMIT - x, z, s, p, q)


def _stepped(at: State, C: FloatArray, ridge: FloatArray, price: FloatArray) -> State | None:
    """Return the next iterate, or None if there is none."""
    lacks = 1.0 - C @ at.x - ridge * at.z + at.s
    excess = price - C.T @ at.z - at.p + at.q
    of_x, of_z = at.p / at.x + at.q / at.room, ridge + at.s / at.z
    root_x, root_z = 1.0 / np.sqrt(of_x), 1.0 / np.sqrt(of_z)
    n, M = len(of_x), C * root_z[:, None] * root_x
    system = np.block([[-np.eye(n), M.T], [M, np.eye(n)]])
    if not np.isfinite(system).all():
        return None
    try:
        factors = lu_factor(system, check_finite=False)
    except LinAlgError:
        return None

    def direction(aims: list[FloatArray]) -> State:
        aim_p, aim_q, aim_s = aims
        right = np.concatenate(
            [root_x * (excess - aim_p / at.x + aim_q / at.room), root_z * (lacks + aim_s / at.z)]
        )
        found = lu_solve(factors, right, check_finite=False)
        found += lu_solve(factors, right - system @ found, check_finite=False)
        x, z = root_x * found[:n], root_z * found[n:]
        return State(
            x, -x, z, (aim_s - at.s * z) / at.z, (aim_p - at.p * x) / at.x,
            (aim_q + at.q * x) / at.room,
        )  # fmt: skip

    pairs = at.pairs()
    mean = sum(float(pair.sum()) for pair in pairs) / (3 * n)
    ahead = direction([-pair for pair in pairs])
    length = min(1.0, _length(at, ahead))
    reached = sum(float(pair.sum()) for pair in _moved(at, ahead, length).pairs()) / (3 * n)
    target = mean * min(1.0, max(reached / mean, 1e-4)) ** 3
    bends = (ahead.x * ahead.p, ahead.room * ahead.q, ahead.z * ahead.s)
    step = direction([target - pair - bend for pair, bend in zip(pairs, bends, strict=True)])
    length = min(1.0, TO_THE_WALL * _length(at, step))
    following = _moved(at, step, length)
    fine = length > NO_ROOM and all(np.isfinite(part).all() for part in following.parts())
    return following if fine else None


def _moved(at: State, step: State, length: float) -> State:
    return State(*(v + length * d for v, d in zip(at.parts(), step.parts(), strict=True)))


def _length(at: State, step: State) -> float:
    """Return the step length at which the first variable reaches 0."""
    hurry = max(float((-d / v).max()) for v, d in zip(at.parts(), step.parts(), strict=True))
    return 1.0 / hurry if hurry > 0 else np.inf
