r"""Mehrotra's predictor-corrector method for the linear programs of `problems.linear_program`.

An iterate consists of coefficients a, multipliers z and the slacks of

.. math::

    G a + \xi - s = \rho, \qquad G z + p - q = \sigma, \qquad z + t = w,

all positive, where q belongs to the bound a <= u. On the central path the complementarity products
a p, (u - a) q, z s and xi t all equal one number, which is driven to 0. rho = 1 and sigma = c are
constants, except for the nu machine: there they are variables, determined by the sums 1 of a and nu
of z, and the bound u = 2 is never active.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.linear_program.interior.system import LowRankSystem

CORRECTORS = 2  # a factorisation costs as much as many solutions with it (Gondzio, 1996)
NEAR, FAR = 0.1, 10.0  # products outside these multiples of the target are corrected
SMALL = 0.05  # initial multipliers, in units of their upper bound, which few of them will reach
SHORT, CENTRING = 0.2, 0.9  # after a step length below SHORT a centring step is tried instead
TO_THE_WALL = 0.99  # smallest fraction of the distance to the nearest bound that a step takes


@dataclass
class Direction:
    """Search direction: a change of every variable."""

    a: FloatArray
    z: FloatArray
    p: FloatArray
    q: FloatArray
    s: FloatArray
    xi: FloatArray
    rho: float
    sigma: float


class PathPoint:
    """Iterate of the interior-point method, with its gap, its residuals and the next step.

    Attributes
    ----------
    a, z : ndarray of shape (n_rows,)
        Coefficients and multipliers.
    growing : ndarray of bool of shape (n_rows,)
        Whether the last step increased a coefficient, relative to its size, more than its slack.
    primal, dual, complementarity : float
        Objectives, valid as bounds once the residuals are 0, and the sum of the complementarity
        products, which then is the duality gap.
    """

    def __init__(self, problem: MarginProgram, system: LowRankSystem) -> None:
        n = problem.n_rows
        self.free = problem.nu is not None
        self.u = np.full(n, 2.0) if self.free else np.maximum(problem.limit, 1e-12)
        self.problem, self.system = replace(problem, limit=self.u), system
        self.w = problem.cost
        self._start()
        self.t, self.room = self.w - self.z, self.u - self.a
        self.growing = np.ones(n, dtype=bool)
        self.measure()

    def _start(self) -> None:
        """Set the starting point: equal coefficients and multipliers, slacks away from zero."""
        n, nu = len(self.w), self.problem.nu
        self.rho, self.sigma = 1.0, self.problem.price
        if nu is None:
            typical = float(np.median(np.abs(self.system.product(np.ones(n)))))
            self.a = np.minimum(1.0 / max(typical, 1e-8), 0.5 * self.u)
            self.z = SMALL * self.w
        else:
            self.a, self.z = np.full(n, 1.0 / n), min(nu, 0.99) * self.w
        margins, pull = self.system.product(self.a), self.system.product(self.z)
        if nu is not None:
            self.rho, self.sigma = float(np.quantile(margins, nu)), float(np.median(pull))
        short, spare = self.rho - margins, self.sigma - pull
        # Slacks start at about their mean size: one that started near zero would keep the first
        # steps short.
        off = max(float(np.abs(short).mean()), 1e-3 * abs(self.rho), 1e-12)
        self.xi, self.s = np.maximum(short, 0.0) + off, np.maximum(-short, 0.0) + off
        self.p = np.maximum(spare, 0.0) + max(float(np.abs(spare).mean()), 1e-12)
        mean = float(self.xi @ (self.w - self.z) + self.z @ self.s) / (2 * n)
        self.q = min(mean, 1.0) / (self.u - self.a)

    def measure(self) -> None:
        """Compute residuals, complementarity products and both objectives for the current G."""
        self.lacks_primal = self.rho - self.system.product(self.a) - self.xi + self.s
        self.lacks_dual = self.sigma - self.system.product(self.z) - self.p + self.q
        self.pairs = (self.a * self.p, self.room * self.q, self.z * self.s, self.xi * self.t)
        self.complementarity = sum(float(pair.sum()) for pair in self.pairs)
        self.primal = self.problem.objective(self.a, self.xi, self.rho)
        total = float(self.z.sum())
        self.dual = -self.sigma if self.free else self.problem.lower_bound(total, self.q)

    @property
    def gap(self) -> float:
        """Complementarity gap relative to the objective."""
        return self.complementarity / max(abs(self.primal), abs(self.dual), 1e-12)

    @property
    def infeasibility(self) -> float:
        """Effect of the primal and dual residuals on the objective, relative to it."""
        open_primal = float(self.z @ np.abs(self.lacks_primal))
        open_dual = float(self.a @ np.abs(self.lacks_dual))
        return (open_primal + open_dual) / max(abs(self.primal), abs(self.dual), 1e-12)

    # -- one step ----------------------------------------------------------------------------

    def step(self) -> float:
        """Take a step; return the smaller of its two step lengths, 0 if it is not finite."""
        self.D1 = self.xi / self.t + self.s / self.z
        self.D2 = self.p / self.a + self.q / self.room
        self.system.factor(self.D1, self.D2)
        if self.free:
            one, zero = np.ones(len(self.w)), np.zeros(len(self.w))
            self.of_sigma, self.of_rho = self.system.solve(one, zero), self.system.solve(zero, one)
        count = 4 * len(self.w)
        ahead = self._direction([-pair for pair in self.pairs])
        lengths = self._lengths(ahead)
        reached = sum(float(pair.sum()) for pair in self._pairs_at(ahead, *lengths))
        mean = self.complementarity / count
        # Mehrotra's rule: the better the predictor does, the less centring is needed.
        target = mean * min(1.0, max(reached / self.complementarity, 1e-6)) ** 3
        # Second-order correction: the products of the predictor's own changes.
        curved = (-ahead.a * ahead.p, ahead.a * ahead.q, -ahead.z * ahead.s, ahead.xi * ahead.z)
        aims = [target - pair + bend for pair, bend in zip(self.pairs, curved, strict=True)]
        direction = self._direction(aims)
        lengths = self._lengths(direction)
        direction, lengths = self._centred(direction, lengths, aims, target)
        if min(lengths) < SHORT:
            direction, lengths = self._recentred(direction, lengths, mean)
        if not np.isfinite(direction.a).all() or not np.isfinite(direction.z).all():
            return 0.0
        # Steps that stop at a fixed fraction converge linearly; the fraction tends to 1 instead.
        wall = max(TO_THE_WALL, 1.0 - mean)
        self._move(direction, *(1.0 if length >= 1.0 else wall * length for length in lengths))
        return min(lengths)

    def _direction(self, aims: list[FloatArray]) -> Direction:
        """Solve for the direction that changes the products by `aims`, to first order."""
        aim_p, aim_q, aim_s, aim_xi = aims
        r1 = self.lacks_primal - aim_xi / self.t + aim_s / self.z
        r2 = self.lacks_dual - aim_p / self.a + aim_q / self.room
        a, z = self.system.solve(r2, r1)
        rho = sigma = 0.0
        if self.free:
            assert self.problem.nu is not None
            sums = [[v.sum() for v in self.of_sigma], [v.sum() for v in self.of_rho]]
            wanted = [1.0 - (self.a + a).sum(), self.problem.nu - (self.z + z).sum()]
            sigma, rho = np.linalg.solve(np.array(sums).T, wanted)
            a = a + sigma * self.of_sigma[0] + rho * self.of_rho[0]
            z = z + sigma * self.of_sigma[1] + rho * self.of_rho[1]
        return Direction(
            a, z,
            (aim_p - self.p * a) / self.a, (aim_q + self.q * a) / self.room,
            (aim_s - self.s * z) / self.z, (aim_xi + self.xi * z) / self.t,
            float(rho), float(sigma),
        )  # fmt: skip

    def _lengths(self, d: Direction) -> tuple[float, float]:
        """Return the primal and the dual step length to the first bound, at most 1."""
        of_a = max(_hurry(self.a, d.a), _hurry(self.room, -d.a), _hurry(self.s, d.s),
                   _hurry(self.xi, d.xi))  # fmt: skip
        of_z = max(_hurry(self.z, d.z), _hurry(self.t, -d.z), _hurry(self.p, d.p),
                   _hurry(self.q, d.q))  # fmt: skip
        return 1.0 / max(1.0, of_a), 1.0 / max(1.0, of_z)

    def _pairs_at(self, d: Direction, of_a: float, of_z: float) -> list[FloatArray]:
        return [
            (self.a + of_a * d.a) * (self.p + of_z * d.p),
            (self.room - of_a * d.a) * (self.q + of_z * d.q),
            (self.z + of_z * d.z) * (self.s + of_a * d.s),
            (self.xi + of_a * d.xi) * (self.t - of_z * d.z),
        ]

    def _centred(
        self, d: Direction, lengths: tuple[float, float], aims: list[FloatArray], target: float
    ) -> tuple[Direction, tuple[float, float]]:
        """Apply Gondzio's (1996) centrality correctors: fix products far off target, step further.

        A corrector is kept only if it lengthens the steps noticeably.
        """
        for _ in range(CORRECTORS):
            if min(lengths) > 0.95:
                break
            tried = [min(1.0, 1.08 * length + 0.08) for length in lengths]
            aims = [
                aim + np.maximum(np.clip(pair, NEAR * target, FAR * target) - pair, -FAR * target)
                for aim, pair in zip(aims, self._pairs_at(d, *tried), strict=True)
            ]
            better = self._direction(aims)
            reached = self._lengths(better)
            if sum(reached) < sum(lengths) + 0.02 or min(reached) < 0.9 * min(lengths):
                break
            d, lengths = better, reached
        return d, lengths

    def _recentred(
        self, d: Direction, lengths: tuple[float, float], mean: float
    ) -> tuple[Direction, tuple[float, float]]:
        """Return a centring step towards the central path if its step length is larger."""
        target = CENTRING * mean
        aims = [target - pair for pair in self.pairs]
        even = self._direction(aims)
        even, reached = self._centred(even, self._lengths(even), aims, target)
        return (even, reached) if min(reached) > min(lengths) else (d, lengths)

    def _move(self, d: Direction, of_a: float, of_z: float) -> None:
        # Near the optimum positive coefficients keep their size while their slacks vanish, whatever
        # the scales (indicators of El-Bakry, Tapia and Zhang, 1994).
        self.growing = d.a * of_a * self.p > d.p * of_z * self.a
        self.a = self.a + of_a * d.a
        # Updated like the other variables: w - z and u - a would cancel near the bounds.
        self.t, self.room = self.t - of_z * d.z, self.room - of_a * d.a
        self.xi, self.s = self.xi + of_a * d.xi, self.s + of_a * d.s
        self.z = self.z + of_z * d.z
        self.p, self.q = self.p + of_z * d.p, self.q + of_z * d.q
        self.rho, self.sigma = self.rho + of_a * d.rho, self.sigma + of_z * d.sigma
        self.measure()


def _hurry(value: FloatArray, change: FloatArray) -> float:
    """Return the reciprocal of the step length at which the first value reaches 0."""
    return float(-(change / value).min())
