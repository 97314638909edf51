"""Run the smoothing levels of the linear solver: subsample warm start, screening of far samples.

See `linear` for the method and :mod:`widemargin.solvers.linear.smoothed_newton`
for one level of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from time import monotonic

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import gap_scale, relative_gap
from widemargin.solvers.base import Budget, LinearResult
from widemargin.solvers.linear.smoothed_newton import Level, ScreenedRows

SMALL = 16384  # rows (and 20 times the features) up to which no sample goes ahead
SAMPLE_TOL = 1e-3  # a sample predicts the whole no better than this
WIDEST = 4.0  # first smoothing width of the hinge: least squares, for all rows are free
NARROWEST = 1e-100  # costs divided by a width are finite
SOFT = 100.0  # first curvature of a loss, for rows of length one
SETTLED = 0.2  # share of the gap left to Newton's method when a level ends
REACH = 3.0  # rows farther than this many times their last move are left out
WHOLE = 2000  # rows up to which none is left out
COPY = 1 << 22  # values that may be copied in any case: 32 MB
STALLED = 200  # steps without a better gap after which rounding has taken over
TICK = 0.02  # seconds between two calls of the monitor inside a sweep


class Stopped(Exception):
    """Raised inside a sweep when the monitor says stop."""


class Supervisor:
    """Hands the budget to every sweep, and remembers the gap to report."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.gap = np.inf
        self.last = monotonic()

    @property
    def steps(self) -> int:
        """Newton steps so far."""
        return self.budget.used

    @property
    def stopped(self) -> bool:
        """Whether the monitor has said stop."""
        return self.budget.status == "stopped"

    def tick(self) -> None:
        """Let the monitor act inside a sweep, but not so often that it costs anything."""
        if monotonic() - self.last > TICK:
            self.spend(0)

    def spend(self, steps: int) -> None:
        """Record steps; raise where the monitor says stop."""
        self.last = monotonic()
        if not self.stopped:  # else the last sums are finished undisturbed
            self.budget.spend(steps, self.gap)
            if self.stopped:
                raise Stopped


class Search:
    """The levels of one data set, and the best primal and dual points met on the way.

    It begins with all rows at w = 0 and ends at the relative gap tol or at the count of steps
    `limit`. `reports` tells whether its gap is the one to show: that of a sample says nothing about
    the whole.

    Attributes
    ----------
    primal, w, b : the best model and its objective
    dual, a : the best dual point (without the labels' signs) and its objective
    """

    def __init__(
        self,
        level: Level,
        tol: float,
        supervisor: Supervisor,
        limit: int,
        *,
        reports: bool = True,
    ) -> None:
        self.level, self.tol, self.supervisor, self.limit = level, tol, supervisor, limit
        self.reports = reports
        self.primal, self.w, self.b = np.inf, level.w, 0.0
        self.dual, self.a = 0.0, level.a
        self.improved = supervisor.steps  # when the gap last fell noticeably
        self.width = WIDEST
        self.moved: FloatArray | None = None  # how far each slack moved during the last level
        self.caution = 1.0  # by how much rows have moved farther than expected

    @property
    def gap(self) -> float:
        """Relative gap of the best points."""
        return relative_gap(self.primal, self.dual)

    @property
    def open(self) -> bool:
        """Whether another step is wanted, may be taken and has a chance."""
        steps = self.supervisor.steps
        return self.gap > self.tol and steps < self.limit and steps - self.improved <= STALLED

    def start(self, rng: np.random.Generator) -> None:
        """Choose the first point and width: from a sample where there are many rows."""
        level = self.level
        n, d = level.rows.n_rows, level.rows.n_features
        base = max(SMALL, 20 * d)
        if n <= 2 * base:
            self._narrow(_first_width(level))
            return
        sample = _sampled(level, max(base, n // 16), rng)
        limit = (self.supervisor.steps + self.limit) // 2
        tol = max(self.tol, SAMPLE_TOL)
        ahead = Search(sample, tol, self.supervisor, limit, reports=False)
        try:
            ahead.start(rng)
            ahead.run()
        finally:
            self.w, self.b = ahead.w, ahead.b
        # Same width where widths count, same curvature where it still limits them.
        softer = ahead.width * float(level.cost.mean() / sample.cost.mean())
        self._narrow(max(min(ahead.width, WIDEST), softer))
        free = sample.free(sample.a)
        share = 0.0  # where in their boxes free rows tend to be
        if not level.squared and len(free):
            share = float((sample.a[free] / sample.cost[free]).mean())
        level.centre = level.cost * share
        level.move_to(ahead.w, ahead.b)
        self.moved = np.full(n, sqrt(d / sample.rows.n_rows))  # the error that a sample makes

    def start_from(self, model: LinearResult) -> None:
        """Begin at a model, with its dual variables as the first centre."""
        level = self.level
        self._narrow(_first_width(level))
        if model.alpha is not None:
            level.centre = np.clip(
                np.abs(model.alpha), 0.0, np.inf if level.squared else level.cost
            )
        level.move_to(model.coef.copy(), model.intercept)

    def run(self) -> None:
        """Solve level after level until the gap closes, the budget ends or nothing improves."""
        level = self.level
        self._respond(level)
        ahead, since = False, self.supervisor.steps
        while self.open:
            if self._settled(level):
                level.centre = level.a
                # Narrower the fewer steps the last width took; the squared hinge ends without any.
                width = self.width * min(max(1, self.supervisor.steps - since), 5) / 10.0
                ends = level.squared and width < 0.1
                self._narrow(0.0 if ends else max(width, NARROWEST))
                level.respond()
                ahead, since = True, self.supervisor.steps
            ahead = not self._advance(ahead) and ahead

    def _narrow(self, width: float) -> None:
        """Set the smoothing of all rows, given its typical width.

        Up to the largest width that makes sense for a margin, the width in slack is the same for
        all rows; beyond it their curvature is, for then the costs say nothing about the dual
        variables (separable data).
        """
        self.width = width
        cost = self.level.cost
        curving = width / float(cost.mean()) * min(1.0, width / WIDEST)
        self.level.h = np.maximum(curving * cost, min(width, WIDEST))

    def _advance(self, ahead: bool) -> bool:
        """Take steps on the rows near the margin; return whether they led anywhere."""
        level, before = self.level, self.level.v.copy()
        part = self._part()
        self._newton(part, ahead)
        if part.level is not level:
            if part.level.moved > part.trust:
                # The rows left out would have had a say: begin again with more of them.
                self.caution *= 4.0
                return False
            level.a = level.a.copy()
            level.a[part.active] = part.level.a
            level.u = part.level.u
            level.move_to(part.level.w, part.level.b)
            self._respond(level)
            held = level.gap <= 2.0 * part.level.gap
            self.caution = max(1.0, 0.5 * self.caution) if held else 4.0 * self.caution
        self.moved = np.abs(level.v - before)
        return True

    def _newton(self, part: _Part, ahead: bool) -> None:
        """Take Newton steps until the level is solved well enough for its width."""
        level = part.level
        while self.open:
            level.step(ahead=ahead)
            ahead = False
            if level is self.level:
                self._respond(level)
            else:
                level.respond()
            self.supervisor.spend(1)
            closed = level.gap <= 0.9 * self.tol * gap_scale(level.primal)
            if closed or self._settled(level) or level.moved > part.trust:
                return

    def _settled(self, level: Level) -> bool:
        """Whether a smaller width gains more than further steps with this one."""
        negligible = 0.1 * self.tol * gap_scale(level.primal)
        known = max(float(level.w @ level.w), negligible)  # residuals beyond it are mere noise
        return level.residual <= SETTLED * min(level.gap - level.residual, known)

    def _respond(self, level: Level) -> None:
        """Update the level of all rows and keep its points where they are the best."""
        level.respond()
        before = self.gap
        if level.primal < self.primal:
            self.primal, self.w, self.b = level.primal, level.w, level.b
        if level.dual > self.dual:
            self.dual, self.a = level.dual, level.a
        if not self.gap > 0.99 * before:
            self.improved = self.supervisor.steps
        if self.reports:
            self.supervisor.gap = self.gap

    def _part(self) -> _Part:
        """Return the rows that may leave their bound soon, all of them where that saves little."""
        level = self.level
        everything = _Part(level, np.empty(0, dtype=np.intp), np.inf)
        if self.moved is None or level.rows.n_rows <= WHOLE:
            return everything
        typical = REACH * sqrt(float(np.mean(self.moved**2)))
        trust = self.caution * max(typical, min(self.width, WIDEST))
        active = level.near(np.maximum(REACH * self.caution * self.moved, trust))
        values, size = level.rows.n_values, level.rows.size_of(active)
        if len(active) == 0 or size > max(values // 8, min(COPY, values // 2)):
            return everything
        return _Part(_restricted(level, active), active, trust)


@dataclass(frozen=True)
class _Part:
    """A level of some rows, which they are, and the moves for which the others may be left out."""

    level: Level
    active: IntArray
    trust: float


def _restricted(level: Level, active: IntArray) -> Level:
    """Return the level of the active rows, the others standing at their bounds."""
    y, a = level.y[active], level.a[active]
    rows = level.rows.take(active)
    others = None  # squared hinge: the others stand at zero
    if not level.squared:
        own = y * a
        value = float(level.a.sum() - a.sum())
        others = ScreenedRows(level.u - rows.combine(own), -float(own.sum()), value)
    part = Level(level.problem, rows, y, level.cost[active], others)
    part.w, part.b, part.v = level.w, level.b, level.v[active]
    part.a, part.u, part.centre, part.h = a, level.u, level.centre[active], level.h[active]
    part.cg_steps = level.cg_steps
    return part


def _first_width(level: Level) -> float:
    """Choose a width so large that the first problem is well conditioned.

    Costs far above the scale of the data make Newton's method visit one set of free rows after
    another when the data are separable; a soft start shows it the way.
    """
    rows = level.rows
    share = np.full(rows.n_rows, 1.0 / rows.n_rows)
    middle = rows.combine(share) if level.intercept else np.zeros(rows.n_features)
    length2 = float(rows.spread(np.arange(rows.n_rows), share, middle).sum())
    width = float(level.cost.mean()) * length2 / SOFT
    if level.squared:
        return width if width > WIDEST else 0.0
    return max(width, WIDEST)


def _sampled(level: Level, size: int, rng: np.random.Generator) -> Level:
    """Draw rows of each class, a small class more densely; their costs make up for the others."""
    chosen, scale = [], []
    for label in (-1.0, 1.0):
        members = np.flatnonzero(level.y == label)
        share = max(size * len(members) // len(level.y), min(len(members), size // 8))
        if share:
            chosen.append(members[rng.choice(len(members), share, replace=False)])
            scale.append(np.full(share, len(members) / share))
    rows = np.concatenate(chosen)
    order = np.argsort(rows)
    rows = rows[order]
    cost = level.cost[rows] * np.concatenate(scale)[order]
    return Level(level.problem, level.rows.take(rows), level.y[rows], cost)
