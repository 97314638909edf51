r"""Leave-one-out predictions of soft-margin models along solution paths, without retraining.

Problem (see :mod:`widemargin.problems.soft_margin`): for every sample l, find the optimum of the
same problem without l (or with a fraction of its weight) and evaluate it at l. Instead of
retraining n times, the coefficient of l is moved from its fitted value to zero while all others
are kept optimal. The solution then moves along a piecewise linear path: between two events the free
samples respond linearly; at an event a free sample reaches a cap or zero, or a fixed sample reaches
its target and becomes free. Removing a sample that is not a support vector changes no coefficient.

The derivative of the path is a column of the exchange tableau of
`leave_one_out.tableau`; :mod:`widemargin.solvers.leave_one_out.loops` follows the paths.

====================  ==========================================================================
`LeaveOneOut`         model whose kernel matrix is in memory: `exact` follows the paths to their
                      ends, `linear_response` takes their first step only
`first_order`         first step of the paths, if the kernel matrix is too large to be formed
`largest_violation`   KKT violation up to which a solution counts as an optimum
`polish`              solves a fit to its optimum as far as rounding allows; paths start there
====================  ==========================================================================

Opper and Winther (2000), section 8.5, give the first step, equations (8.26)-(8.32); the page
"Leave-one-out" of the documentation lists the corrections to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin._base.progress import bar_over
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.leave_one_out import loops
from widemargin.solvers.leave_one_out.response import first_order
from widemargin.solvers.leave_one_out.tableau import (
    WORTH_A_THREAD,
    Tableau,
    ends_of,
    first_step,
)
from widemargin.solvers.soft_margin import padded, solve_dense

__all__ = ["LeaveOneOut", "LeftOut", "first_order", "largest_violation", "polish"]

RETRAINED = 1e-10  # KKT violation at which retraining stops
RETRAINING_STEPS = 1_000_000
CLOSE = 0.25  # decision value: columns of samples this near to their targets are formed in advance
OPTIMAL = 1e-6  # largest KKT violation of an optimum, relative to the targets
PIVOTS = 48  # initial number of columns that a path may store; multiplied by 4 when exceeded


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out predictions with the number of events and of refits they required.

    Attributes
    ----------
    values : ndarray of shape (n_tasks,)
        Decision values, including the threshold.
    events : ndarray of shape (n_tasks,)
        Number of events on each path; 0 means that the first-order formula is exact.
    retrained : int
        Number of paths that were abandoned (cycling or rounding errors) and replaced by retraining.
    unfinished : int
        Number of these that ended above the tolerance `largest_violation`.
    violation : float
        Largest KKT violation that retraining left; 0 without retraining.
    """

    values: FloatArray
    events: IntArray
    retrained: int
    unfinished: int
    violation: float


def largest_violation(problem: SoftMargin) -> float:
    """Return the KKT violation up to which a solution counts as an optimum."""
    return OPTIMAL * max(1.0, float(np.abs(problem.target).max(initial=0.0)))


def polish(
    K: FloatArray,
    problem: SoftMargin,
    alpha: FloatArray,
    *,
    tol: float,
    max_iter: int,
    threads: int,
) -> tuple[FloatArray, FloatArray, float]:
    """Solve to a KKT violation of tol, or as far as rounding allows, starting from alpha.

    K is padded as `solve_dense` requires. Returns the dual variables, the decision values without
    threshold and the remaining KKT violation.
    """
    n = problem.n_rows
    alpha = problem.repair(alpha.copy())
    for _ in range(3):
        f = K[:n, :n] @ problem.coefficients(alpha)
        if problem.kkt_violation(alpha, f) <= tol:
            break
        budget = Budget(max_iter)
        solve_dense(K, problem.bounded(), alpha, f, tol=0.5 * tol, budget=budget, threads=threads)
        alpha = problem.repair(alpha, np.maximum(problem.lower - alpha, alpha - problem.upper))
    f = K[:n, :n] @ problem.coefficients(alpha)
    violation = problem.kkt_violation(alpha, f)
    if violation > tol:
        # The steps of a nearly singular problem are below rounding. The tableau solves the
        # linear equations of its free samples directly.
        x = Tableau(K, problem, alpha, threads).x
        alpha_solved = np.clip(np.tile(x, problem.n_variables // n), problem.lower, problem.upper)
        f_solved = K[:n, :n] @ problem.coefficients(alpha_solved)
        if (solved := problem.kkt_violation(alpha_solved, f_solved)) < violation:
            return alpha_solved, f_solved, solved
    return alpha, f, violation


class LeaveOneOut(Tableau):
    """Leave-one-out predictions of a fitted model whose kernel matrix is in memory."""

    def exact(self, rows: IntArray, fraction: FloatArray) -> LeftOut:
        """Return the decision value of each sample after a fraction of its weight is removed."""
        kept = 1.0 - fraction
        values = np.empty(len(rows))
        events = np.zeros(len(rows), dtype=np.intp)
        caps, stiffness, moves = ends_of(self.x, self.limits, self.ridge, rows, fraction)
        stay = np.flatnonzero(~moves)
        unmoved = np.empty(len(stay))
        loops.unmoved_values(
            rows[stay], kept[stay], self.x, self.h, self.threshold, self.ridge, self.limits,
            self.eps, self.intercept, unmoved,
        )  # fmt: skip
        values[stay] = unmoved
        go = np.flatnonzero(moves)
        found = _Paths(self, rows[go], kept[go], caps[go], stiffness[go])
        values[go], events[go] = found.values, found.events
        return LeftOut(values, events, found.retrained, found.unfinished, found.violation)

    def linear_response(self, rows: IntArray, fraction: FloatArray) -> LeftOut:
        """Return the linear response: the first step of each path, extrapolated to its end.

        If no other sample is free, none can respond linearly: these paths are followed exactly.
        """
        others_free = len(self.free) - np.isin(rows, self.free)
        follow = (others_free == 0) & self.intercept & (self.x[rows] != 0)
        out = self.exact(rows[follow], fraction[follow])
        values = np.empty(len(rows))
        values[follow] = out.values
        events = np.zeros(len(rows), dtype=np.intp)
        events[follow] = out.events
        caps, stiffness, moves = ends_of(self.x, self.limits, self.ridge, rows, fraction)
        stay, go = ~follow & ~moves, ~follow & moves
        values[stay] = self.exact(rows[stay], fraction[stay]).values
        rows, caps, stiffness = rows[go], caps[go], stiffness[go]
        g = self.h[rows] - self.ridge[rows] * self.x[rows]
        rate = self._own_rates(rows) - self.ridge[rows]
        values[go] = first_step(self.x, self.limits, rows, g, caps, stiffness, rate)
        return LeftOut(values, events, out.retrained, out.unfinished, out.violation)

    def _own_rates(self, rows: IntArray) -> FloatArray:
        """Return the derivative of each value h_l with respect to x_l, including the ridge."""
        place = np.full(self.n, -1, dtype=np.intp)
        place[self.free] = np.arange(len(self.free))
        free = place[rows] >= 0
        rates = np.empty(len(rows))
        rates[free] = 1.0 / self.inverse.diagonal()[place[rows[free]]]
        fixed = rows[~free]
        U = self.basic_rows[:, fixed]
        rates[~free] = self.diagonal[fixed] - np.einsum("ij,ij->j", U, self.inverse @ U)
        return rates

    def retrain(self, row: int, kept: float) -> tuple[float, float]:
        """Solve the problem without one sample, or with a fraction of its weight.

        Returns the leave-one-out prediction of the sample and the remaining KKT violation.
        """
        others = np.arange(self.n) if kept > 0 else np.delete(np.arange(self.n), row)
        if not len(others):
            return 0.0, 0.0
        part = self.problem.restrict(others)
        alpha = self.fitted[self.problem.variables_of(others)]
        if kept > 0:
            own = part.variables_of(np.array([row]))
            lower, upper, ridge = part.lower.copy(), part.upper.copy(), part.ridge.copy()
            if ridge.any():
                ridge[own] /= kept
            else:
                lower[own] *= kept
                upper[own] *= kept
            part = replace(part, lower=lower, upper=upper, ridge=ridge)
        K = np.zeros((padded(len(others)),) * 2)
        K[: len(others), : len(others)] = self.K[np.ix_(others, others)]
        alpha, f, violation = polish(
            K, part, alpha, tol=RETRAINED, max_iter=RETRAINING_STEPS, threads=1
        )
        threshold = float(part.thresholds(f)[0]) if self.intercept else 0.0
        value = float(self.K[row, others] @ part.coefficients(alpha)) + threshold
        return value, violation


class _Paths:
    """Paths of many samples.

    Paths that need a tableau column that was not formed, or more pivots than they may store, are
    followed again after it was formed or the limit was raised.
    """

    def __init__(
        self,
        model: LeaveOneOut,
        rows: IntArray,
        kept: FloatArray,
        caps: FloatArray,
        stiffness: FloatArray,
    ) -> None:
        self.model = model
        self.tasks = (rows, kept, caps, stiffness)
        self.values = np.zeros(len(rows))
        self.events = np.zeros(len(rows), dtype=np.intp)
        self.retrained = self.unfinished = 0
        self.violation = 0.0
        if len(rows):
            self._run()

    def _run(self) -> None:
        """Follow all paths to their ends; retrain where that fails."""
        s = self.model
        rows = self.tasks[0]
        size = s.n + s.intercept
        slot = np.full(size, -1, dtype=np.intp)
        near = np.zeros(size, dtype=bool)
        h, (above, below, target_above, target_below) = s.h, s.limits
        # Distance of the value of each fixed sample from the target at which it becomes free.
        up = np.where(above > 0, np.abs(h - target_above), np.inf)
        down = np.where(below > 0, np.abs(h - target_below), np.inf)
        near[: s.n] = np.minimum(up, down) < CLOSE
        near[s.basic] = True
        near[rows] = True
        near[s.n :] = True
        first = np.flatnonzero(near)
        columns = s.columns(first)
        slot[first] = np.arange(len(first))
        pending = np.arange(len(rows))
        max_pivots = PIVOTS
        while len(pending):
            outcome, needed = self._follow(pending, columns, slot, max_pivots)
            missing = np.unique(needed[outcome == loops.MISSING_COLUMN])
            if len(missing):
                slot[missing] = len(columns) + np.arange(len(missing))
                columns = np.vstack([columns, s.columns(missing)])
            if (outcome == loops.TOO_MANY_PIVOTS).any():
                max_pivots *= 4
            for k in pending[(outcome == loops.CYCLING) | (outcome == loops.INEXACT)]:
                self._retrain(int(k))
            again = (outcome == loops.MISSING_COLUMN) | (outcome == loops.TOO_MANY_PIVOTS)
            pending = pending[again]

    def _retrain(self, k: int) -> None:
        """Replace a path by retraining, and note the KKT violation that is left."""
        rows, kept = self.tasks[:2]
        self.values[k], violation = self.model.retrain(int(rows[k]), float(kept[k]))
        self.retrained += 1
        self.unfinished += not violation <= largest_violation(self.model.problem)
        self.violation = max(self.violation, violation)

    def _follow(
        self, pending: IntArray, columns: FloatArray, slot: IntArray, max_pivots: int
    ) -> tuple[IntArray, IntArray]:
        """Follow some paths; return the outcome of each and the missing column, if it needs one."""
        s = self.model
        rows, kept, caps, stiffness = (a[pending] for a in self.tasks)
        basic, z, held, low, high = s.responding()
        values, events = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.intp)
        outcome, needed = np.zeros_like(events), np.zeros_like(events)
        bar = bar_over(len(rows))

        def follow(part: slice) -> None:
            loops.follow_paths(
                part.start, part.stop, rows, kept, caps, stiffness, columns, slot,
                z, held, low, high, s.state, basic, s.K, s.limits, s.ridge, s.diagonal, s.joined,
                s.eps, s.intercept, 10 * s.n + 100, values, events, outcome, needed,
                *_room(s.n, len(z), max_pivots),
            )  # fmt: skip
            bar.advance(items=part.stop - part.start)

        if 100 * len(rows) * s.n > WORTH_A_THREAD:
            width = max(8, -(-len(rows) // (8 * s.threads)))
            parts = [slice(k, min(k + width, len(rows))) for k in range(0, len(rows), width)]
            for_each(follow, parts, s.threads)
        else:
            follow(slice(0, len(rows)))
        self.values[pending], self.events[pending] = values, events
        return outcome, needed


def _room(n: int, size: int, max_pivots: int) -> tuple[Any, ...]:
    """Return the memory that a thread needs to follow paths with at most max_pivots pivots."""
    columns, index = np.empty((max_pivots, size)), np.empty(max_pivots, dtype=np.intp)
    state, blocked = np.empty(n, dtype=np.int8), np.empty(n, dtype=np.intp)
    return columns, index, np.empty((9, size)), state, blocked
