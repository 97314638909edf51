"""Descent of the squared slack over working sets of coefficients, see `linear_program.squared`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.kernels.sums import roundings
from widemargin.problems.linear_program import LIMIT, MarginProgram
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.linear_program.bound import Multipliers, best_bound
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.linear_program.squared.columns import Columns, factored

JOIN, SHARE = 8, 4  # coefficients that join F at a time: this many, or this part of F if larger
NEWTON_STEPS = 50  # most steps on one working set
LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of the projected steps that are tried
PROGRESS = 1e-14  # a relative decrease of the objective below this is rounding
TIGHT = 1e-14  # a descent below this fraction of its terms is rounding
NEAR = 1e-7  # fraction of the sum of the multipliers within which a constraint is nearly tight
SHORT, DAMPING = 0.1, 1e-2  # steps this short are damped, first by this part of a typical column
KINK = 1e-9  # in the first step, a margin within this of 1 counts as a slack: an LP leaves many
MOVES = 3  # times that the multipliers are moved to where G z < c


class Descent:
    """Iterate x, the coefficients times the size of their kernel values, and its slacks."""

    def __init__(
        self, problem: MarginProgram, rows: Rows, alpha: FloatArray, budget: Budget
    ) -> None:
        self.problem, self.rows, self.budget = problem, rows, budget
        self.columns = Columns(problem, rows, budget.cache_bytes)
        self.size = problem.kernel_sizes()
        self.seen = problem.limit > 0
        self.price = np.divide(problem.price, self.size, out=np.zeros(rows.n), where=self.seen)
        self.x = alpha * self.size
        self.work, self.violation = self._inner(), np.inf
        self.margins = self._margins()
        self.kink = -KINK

    def minimise(self) -> Status:
        """Take steps until no coefficient descends, or nothing is gained."""
        best = np.inf
        while True:
            self._newton()
            if self.budget.status != "converged":
                return self.budget.status
            value = self.problem.loss(self.slack) + float(self.price @ self.x)
            descent = self._descent()
            joins = np.flatnonzero(descent > 0)
            if not len(joins) or not value < best * (1 - PROGRESS):
                return "converged"
            best = value
            self.violation = float(descent.max())
            if not self.budget.spend(1, self.violation):
                return self.budget.status
            most = max(JOIN, len(self.work) // SHARE)
            joins = joins[np.argsort(-descent[joins], kind="stable")[:most]]
            self.work = np.sort(np.append(self._inner(), joins))

    def _inner(self) -> IntArray:
        """Return the coefficients strictly between their bounds."""
        return np.flatnonzero((self.x > 0) & (self.x < LIMIT))

    def _descent(self) -> FloatArray:
        """Return how fast the objective falls if a coefficient leaves its bound, 0 for rounding."""
        problem, z, y = self.problem, self.z, self.problem.y
        used = np.flatnonzero(z)
        # By class, so that their sum shows what the difference was rounded to.
        parts = np.column_stack([np.where(y > 0, z, 0.0), np.where(y < 0, z, 0.0)])[used]
        ours, theirs = self.rows.weighted_sum(np.arange(len(z)), self.rows, used, parts).T
        own = problem.shift * z
        pull = y * (ours - theirs) - own - problem.price
        rounding = TIGHT * (np.abs(ours) + np.abs(theirs) + own + problem.price)
        inwards = np.where(self.x == 0, pull, np.where(self.x == LIMIT, -pull, 0.0))
        certain = self.seen & (inwards > rounding)
        return np.divide(inwards, self.size, out=np.zeros(len(z)), where=certain)

    # -- Newton steps on the working set -----------------------------------------------------

    def _newton(self) -> None:
        """Minimise over the coefficients of the working set."""
        damping, least = 0.0, float(np.sqrt(self.problem.loss(self.slack))) / LIMIT
        for _ in range(NEWTON_STEPS):
            G, x = self.columns.of(self.work), self.x[self.work]
            away = self._direction(G, damping)
            blocked = ((x <= 0) & (away < 0)) | ((x >= LIMIT) & (away > 0))
            self.work = self.work[~blocked]
            if not len(self.work) or not self.budget.spend(0, self.violation):
                return
            if blocked.any():
                continue
            reached = self._reached(G, x, away)
            if reached is None:
                if damping == least:
                    return
                damping = 0.0 if damping > least else least
                continue
            damping = _damping(damping, G, _length(reached - x) / _length(away))
            self.x[self.work], self.kink = reached, 0.0
            self.margins = self._margins()
            pull, rounding = self._pull(G, self.margins)
            inner = (reached > 0) & (reached < LIMIT)
            if (np.abs(pull) <= rounding)[inner].all():
                return
            self.work = self.work[np.where(pull > 0, reached < LIMIT, reached > 0)]

    def _reached(self, G: FloatArray, x: FloatArray, away: FloatArray) -> FloatArray | None:
        """Return the point that a step along a direction leads to, or None if nothing is gained."""
        best, wall = self._step(G, x, away)
        value, before = (self._objective(at, self.margins + G @ (at - x)) for at in (best, x))
        if value < before * (1 - PROGRESS):
            return best
        # Rounding may hide the gain of a step to a bound, or of one that halves the gradient.
        if (wall != x).any():
            return wall
        full = x + away
        inside = ((full >= 0) & (full <= LIMIT)).all()
        steepness = [
            float(np.abs(self._pull(G, m)[0]).max())
            for m in (self.margins, self.margins + G @ away)
        ]
        return full if inside and steepness[1] < 0.5 * steepness[0] else None

    def _pull(self, G: FloatArray, margins: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the gradient of the working set, and its rounding error."""
        z = 2.0 * self.problem.weight * np.maximum(0.0, 1.0 - margins)
        price = self.price[self.work]
        return G.T @ z - price, TIGHT * (np.abs(G).T @ z + price)

    def _margins(self) -> FloatArray:
        """Return G alpha."""
        used = np.flatnonzero(self.x)
        return np.asarray(self.columns.of(used) @ self.x[used])

    def _step(
        self, G: FloatArray, x: FloatArray, away: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the best point along a direction, and x unless the first bound is nearby."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(away < 0, x / -away, np.where(away > 0, (LIMIT - x) / away, np.inf))
        first = float(room.min())
        cost = float(self.price[self.work] @ away)
        exact = self._line_search(G @ away, cost, first)
        trials = [np.clip(x + length * away, 0.0, LIMIT) for length in (*LENGTHS, exact)]
        best = min(trials, key=lambda at: self._objective(at, self.margins + G @ (at - x)))
        if exact < first:
            return best, x
        wall = np.where(room == first, np.where(away > 0, LIMIT, 0.0), trials[-1])
        return best, wall

    def _direction(self, G: FloatArray, damping: float) -> FloatArray:
        """Return the step to the minimum of the quadratic piece.

        Damping charges a step of the length `LIMIT` as much as the present objective. It concerns
        combinations of columns below 1 / LIMIT only, without which the step may be so long that it
        ends at the first bound.
        """
        slack = 1.0 - self.margins
        active = slack > self.kink
        root = np.sqrt(self.problem.weight[active])
        Q, R, order = factored(G[active] * root[:, None], damping)
        inner = Q.T @ (root * slack[active])
        price = 0.5 * self.price[self.work][order]
        if price.any():
            inner = inner - solve_triangular(R, price[: len(R)], trans=1, check_finite=False)
        away = np.zeros(len(self.work))
        away[order[: len(R)]] = solve_triangular(R, inner, check_finite=False)
        return away

    def _line_search(self, change: FloatArray, cost: float, most: float) -> float:
        """Return the step length in [0, most] that minimises the objective exactly.

        The derivative along the direction increases and is linear between the lengths at which a
        sample gains or loses its slack.
        """
        slack, w = 1.0 - self.margins, self.problem.weight
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = np.where(change != 0, slack / change, np.inf)
        kinks = np.sort(kinks[(kinks > 0) & (kinks < most)])

        def slope(t: float) -> float:
            return cost - 2.0 * float((w * np.maximum(0.0, slack - t * change)) @ change)

        low, high = -1, len(kinks)  # the root is between kinks[low] and kinks[high]
        while high - low > 1:
            middle = (low + high) // 2
            if slope(float(kinks[middle])) < 0:
                low = middle
            else:
                high = middle
        left = 0.0 if low < 0 else float(kinks[low])
        right = min(most, float(kinks[high]) if high < len(kinks) else max(most, left))
        if not np.isfinite(right):
            right = 2.0 * left + 1.0
        rise = slope(right) - slope(left)
        if rise <= 0:
            return right if slope(left) < 0 else left
        return float(np.clip(left - slope(left) * (right - left) / rise, left, most))

    # -- values ------------------------------------------------------------------------------

    @property
    def slack(self) -> FloatArray:
        """Slack of each sample."""
        return np.maximum(0.0, 1.0 - self.margins)

    @property
    def z(self) -> FloatArray:
        """Multipliers of the current slacks."""
        return 2.0 * self.problem.weight * self.slack

    def _objective(self, x: FloatArray, margins: FloatArray) -> float:
        slack = np.maximum(0.0, 1.0 - margins)
        return self.problem.loss(slack) + float(self.price[self.work] @ x)

    def _values(self, v: FloatArray) -> FloatArray:
        """Return K (y v)."""
        used = np.flatnonzero(v)
        if not len(used):
            return np.zeros(len(v))
        signed = (self.problem.y * v)[used]
        return self.rows.weighted_sum(np.arange(len(v)), self.rows, used, signed)

    # -- the result --------------------------------------------------------------------------

    def result(
        self, status: Status, tol: float, inside: Sequence[FloatArray] = ()
    ) -> ProgramResult:
        """Return the coefficients with the multipliers of the best lower bound.

        `inside` are multipliers that may be strictly feasible, G z < c.
        """
        problem = self.problem
        alpha = np.divide(self.x, self.size, out=np.zeros(len(self.x)), where=self.seen)
        alpha = np.minimum(alpha, problem.limit)
        f = self._values(alpha)
        count = roundings(self.rows, self.rows.n)
        z = 2.0 * problem.weight * problem.slack(alpha, f)
        candidates: list[Multipliers] = [(v, self._values(v)) for v in [*inside, z]]
        for _ in range(MOVES):
            z = self._inside(*candidates[-1], count)
            candidates.append((z, self._values(z)))
        z, g = best_bound(problem, candidates, count)
        if not problem.is_optimal(alpha, f, z, g, tol):
            z, g = max([(z, g), *candidates], key=lambda point: problem.dual(*point))
        if problem.is_optimal(alpha, f, z, g, tol):
            status = "converged"
        elif status == "converged":
            status = "stalled"
        used = self.budget.used
        return ProgramResult(
            alpha=alpha, z=z, f=f, g=g, n_iter=used, status=status, method="newton"
        )

    def _inside(self, z: FloatArray, g: FloatArray, count: float) -> FloatArray:
        """Return nearby multipliers with G z below c by the rounding error of its sums."""
        problem = self.problem
        excess = problem.product(z, g) - problem.price
        excess = excess + 2.0 * problem.rounding(float(z.sum()), z, count)
        scaled = np.divide(excess, self.size, out=np.full(len(z), -np.inf), where=self.seen)
        near = self._nearly_tight(scaled, float(z.sum()))
        active = z > 0
        known = np.isfinite(excess).all()  # else no multipliers survive unknown rounding errors
        if not known or not (scaled[near] > 0).any() or not active.any():
            return z
        root = np.sqrt(problem.weight[active])
        damping = float(np.sqrt(problem.loss(self.slack))) / LIMIT
        Q, R, order = factored(self.columns.of(near)[active] * root[:, None], damping)
        wrong = scaled[near][order[: len(R)]]
        move = Q @ solve_triangular(R, wrong, trans=1, check_finite=False)
        moved = z.copy()
        moved[active] -= root * move
        # Where the equations cannot be solved, the change may be huge, or no number.
        small = np.abs(move).max() <= np.abs(z[active] / root).max()
        return np.maximum(moved, 0.0) if small else z

    def _nearly_tight(self, scaled: FloatArray, total: float) -> IntArray:
        """Return the coefficients below their limit that are positive or nearly so."""
        tight: BoolArray = (scaled > -NEAR * total) | (self.x > 0)
        return np.flatnonzero(tight & self.seen & (self.x < LIMIT))


def _length(v: FloatArray) -> float:
    return float(np.linalg.norm(v))


def _damping(damping: float, G: FloatArray, share: float) -> float:
    """Return the damping of the next direction, after a step of this share of the last one."""
    usual = DAMPING * float(np.median(np.linalg.norm(G, axis=0)))
    if share < SHORT:
        return max(10.0 * damping, usual)
    return 0.1 * damping if damping > usual else 0.0
