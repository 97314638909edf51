r"""Active-set Newton method for programs with squared slack.

The objective, without slack as a variable, is convex and piecewise quadratic in the coefficients,

.. math:: \sum_i w_i \max(0, 1 - (G \alpha)_i)^2 + c \sum_i \alpha_i, \qquad 0 \le \alpha \le u .

The method keeps a working set F of coefficients that may be positive. A Newton step solves the
least squares problem of F over the samples with a slack, by a QR factorisation with pivoting (the
normal equations would square the condition number of G), and the best point of the projected path
and of the exact line search is taken. When F is optimal, the coefficients with the steepest descent
join it. The objective falls in every step, so no working set returns. In a narrow kernel, where the
coefficients span so many orders of magnitude that steps end at the first bound, an interior-point
method finds the working set (`linear_program.squared_interior`).

The first coefficients are those of the program with linear slack. If its optimum is 0, so is that
of the squared slack, and it is returned. The published multipliers are moved, by the smallest
change in the norm of the dual, to where :math:`G z < c` holds beyond its rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import qr, solve_triangular

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.kernels.sums import roundings
from widemargin.problems.linear_program import LIMIT, MarginProgram
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.linear_program.bound import Multipliers, best_bound
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.linear_program.squared_interior import interior_points

JOIN, SHARE = 8, 4  # coefficients that join F at a time: this many, or this part of F if larger
NEWTON_STEPS = 50  # most steps on one working set
LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of the projected steps that are tried
RANK = 1e-12  # diagonal entries of R below this fraction of the largest count as zero
PROGRESS = 1e-14  # a relative decrease of the objective below this is rounding
TIGHT = 1e-14  # a descent below this fraction of its terms is rounding
NEAR = 1e-7  # fraction of the sum of the multipliers within which a constraint is nearly tight
NOTHING = 1e-14  # a loss that counts as 0, relative to that of alpha = 0
SHORT, DAMPING = 0.1, 1e-2  # steps this short are damped, first by this part of a typical column
KINK = 1e-9  # in the first step, a margin within this of 1 counts as a slack: an LP leaves many
FACTORS = 6  # an interior-point step needs as many matrices of n x n, squared
PATIENCE = 40  # steps after which the interior-point method is tried if it fits into memory
MOVES = 3  # times that the multipliers are moved to where G z < c

SolveLinear: TypeAlias = Callable[[MarginProgram, ProgramResult | None], ProgramResult]
"""Solves the program with linear slack from a start."""


def solve_squared(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: ProgramResult | None,
    linear: SolveLinear,
) -> ProgramResult:
    """Solve a program with squared slack; the parameters are those of the door of the package.

    `linear` solves the program with linear slack, which is the start if there is no other.
    """
    used = 0
    if start is None:
        start = linear(problem.linear, None)
        used = start.n_iter
        loss = problem.loss(problem.slack(start.alpha, start.f))
        if problem.price == 0 and loss <= NOTHING * problem.weight.sum():
            return _without_slack(start)
    # Pivots and steps of the two methods are different units, so each has a budget of its own.
    small = 8 * (FACTORS * rows.n) ** 2 <= budget.cache_bytes
    steps = min(budget.max_iter, PATIENCE) if small else budget.max_iter
    own = Budget(steps, budget.monitor, budget.cache_bytes)
    run = _Descent(problem, rows, np.minimum(start.alpha, problem.limit), own)
    found = run.result(run.minimise(), tol)
    patient = found.status == "stalled" or (found.status == "max_iter" and steps < budget.max_iter)
    if patient and small:
        found = _better(problem, found, _from_inside(run, budget, tol), tol)
    return replace(found, n_iter=max(1, used + found.n_iter))


def _from_inside(run: _Descent, budget: Budget, tol: float) -> ProgramResult:
    """Return the result of an interior-point method and of Newton steps from its end."""
    problem, seen = run.problem, run.seen
    inner, last = (Budget(budget.max_iter, budget.monitor, budget.cache_bytes) for _ in range(2))
    C = run.columns.of(np.flatnonzero(seen))
    x, inside = interior_points(C, problem.weight, run.price[seen], inner)
    alpha = np.zeros(len(seen))
    alpha[seen] = x / run.size[seen]
    again = _Descent(problem, run.rows, np.minimum(alpha, problem.limit), last)
    status = inner.status if inner.status == "stopped" else again.minimise()
    found = again.result(status, tol, inside)
    return replace(found, n_iter=run.budget.used + inner.used + last.used)


def _better(
    problem: MarginProgram, one: ProgramResult, other: ProgramResult, tol: float
) -> ProgramResult:
    """Return the better coefficients of two results with the better bound."""
    low = min(one, other, key=lambda found: problem.primal(found.alpha, found.f))
    high = max(one, other, key=lambda found: problem.dual(found.z, found.g))
    done = problem.is_optimal(low.alpha, low.f, high.z, high.g, tol)
    status: Status = "converged" if done else other.status
    return replace(low, z=high.z, g=high.g, status=status, n_iter=other.n_iter)


def _without_slack(found: ProgramResult) -> ProgramResult:
    """Return an optimum without slack, with the multipliers 0 that prove it."""
    nothing = np.zeros_like(found.z)
    return replace(found, z=nothing, g=nothing.copy(), status="converged")


class _Columns:
    """Columns of G, each divided by the size of its kernel values, computed on demand."""

    def __init__(self, problem: MarginProgram, rows: Rows, memory: float) -> None:
        self.problem, self.rows, self.size = problem, rows, problem.kernel_sizes()
        self.place = np.full(rows.n, -1)
        self.most = max(1, int(memory / (16 * rows.n)))  # room for a copy
        self.store = np.empty((rows.n, 0))
        self.count = 0

    def of(self, which: IntArray) -> FloatArray:
        """Return the columns of some coefficients."""
        new = which[self.place[which] < 0]
        if len(new):
            self._add(new)
        return self.store[:, self.place[which]]

    def _add(self, new: IntArray) -> None:
        first, self.count = self.count, self.count + len(new)
        if self.count > self.most:
            raise MemoryError(
                f"the columns of {self.count} coefficients do not fit into cache_size: raise it"
            )
        if self.count > self.store.shape[1]:
            room = np.empty((self.rows.n, min(self.most, max(2 * first, self.count))))
            room[:, :first] = self.store[:, :first]
            self.store = room
        y = self.problem.y
        block = self.rows.block(np.arange(self.rows.n), self.rows, new) * (y[:, None] * y[new])
        block[new, np.arange(len(new))] -= self.problem.shift[new]
        self.store[:, first : self.count] = block / self.size[new]
        self.place[new] = np.arange(first, self.count)


class _Descent:
    """Iterate x, the coefficients times the size of their kernel values, and its slacks."""

    def __init__(
        self, problem: MarginProgram, rows: Rows, alpha: FloatArray, budget: Budget
    ) -> None:
        self.problem, self.rows, self.budget = problem, rows, budget
        self.columns = _Columns(problem, rows, budget.cache_bytes)
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
        if not (scaled[near] > 0).any() or not active.any():
            return z
        root = np.sqrt(problem.weight[active])
        damping = float(np.sqrt(problem.loss(self.slack))) / LIMIT
        Q, R, order = factored(self.columns.of(near)[active] * root[:, None], damping)
        wrong = scaled[near][order[: len(R)]]
        move = Q @ solve_triangular(R, wrong, trans=1, check_finite=False)
        moved = z.copy()
        moved[active] -= root * move
        return np.maximum(moved, 0.0)

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


def factored(M: FloatArray, damping: float) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return Q, R and the order of the columns of a matrix, without those that depend on others.

    Whether they do is judged with all columns scaled to the norm 1: those of isolated samples are
    tiny. With damping, R'R = M'M + damping^2 I.
    """
    n = len(M)
    if damping:
        M = np.vstack([M, damping * np.eye(M.shape[1])])
    norm = np.linalg.norm(M, axis=0)
    scale = np.where(norm > 0, norm, 1.0)
    Q, R, order = qr(M / scale, mode="economic", pivoting=True, check_finite=False)
    rank = int(np.count_nonzero(np.abs(np.diagonal(R)) > RANK))
    return Q[:n, :rank], R[:rank, :rank] * scale[order[:rank]], order
