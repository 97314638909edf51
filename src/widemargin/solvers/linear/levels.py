"""Outer loop of the linear solver: smoothing levels, subsample warm start and screening.

See `linear` for the method and :mod:`widemargin.solvers.linear.smoothed_newton` for the Newton
steps of one level.
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

SMALL = 16384  # smallest subsample (at least 20 times the features); none below twice this size
SAMPLE_TOL = 1e-3  # relative gap of a subsample: its sampling error is no smaller
WIDEST = 4.0  # first width in units of the slack: least squares, since all samples are free
NARROWEST = 1e-100  # keeps costs divided by the width finite
SOFT = 100.0  # largest curvature of a loss at the first level, for samples of norm one
SETTLED = 0.2  # Newton residual, as a fraction of the smoothing gap, at which a level ends
REACH = 3.0  # samples farther from the margin than this multiple of their last move are screened
WHOLE = 2000  # up to this many samples none is screened
COPY = 1 << 22  # values that may be copied even if they are over an eighth of the data: 32 MB
STALLED = 200  # steps without a better gap after which rounding errors dominate
TICK = 0.02  # seconds between two calls of the monitor inside a sweep


class Stopped(Exception):
    """Exception raised inside a sweep when the monitor ends the run."""


class Supervisor:
    """Budget shared by all sweeps, with the duality gap to report to the monitor."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.gap = np.inf
        self.last = monotonic()

    @property
    def steps(self) -> int:
        """Number of Newton steps so far."""
        return self.budget.used

    @property
    def stopped(self) -> bool:
        """Whether the monitor has ended the run."""
        return self.budget.status == "stopped"

    def tick(self) -> None:
        """Call the monitor inside a sweep, at most every `TICK` seconds."""
        if monotonic() - self.last > TICK:
            self.spend(0)

    def spend(self, steps: int) -> None:
        """Record steps; raise `Stopped` if the monitor ends the run."""
        self.last = monotonic()
        if not self.stopped:  # raise only once: the final evaluation of the result must complete
            self.budget.spend(steps, self.gap)
            if self.stopped:
                raise Stopped


class Search:
    """Smoothing levels of one data set, with the best primal and dual points found so far.

    It starts at w = 0 with all samples and ends at the relative gap `tol` or after `limit` steps.
    `reports` is False for a subsample, whose gap is not that of the whole problem and is not
    shown to the monitor.

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
        self.improved = supervisor.steps  # step of the last noticeable decrease of the gap
        self.width = self.widest = _widest(level)
        self.moved: FloatArray | None = None  # change of each slack in the last round
        self.caution = 1.0  # safety factor of the screening, adapted to its errors

    @property
    def gap(self) -> float:
        """Relative duality gap of the best points."""
        return relative_gap(self.primal, self.dual)

    @property
    def open(self) -> bool:
        """Whether to continue: gap above tol, steps left, and progress in recent steps."""
        steps = self.supervisor.steps
        return self.gap > self.tol and steps < self.limit and steps - self.improved <= STALLED

    def start(self, rng: np.random.Generator) -> None:
        """Choose the starting point and width, by solving a subsample if there are many samples."""
        level = self.level
        n, d = level.rows.n_rows, level.rows.n_features
        base = max(SMALL, 20 * d)
        if n <= 2 * base:
            self._narrow(_first_width(level))
            return
        sample = _sampled(level, max(base, n // 16), rng)
        limit = (self.supervisor.steps + self.limit) // 2  # half of the steps that remain
        tol = max(self.tol, SAMPLE_TOL)
        ahead = Search(sample, tol, self.supervisor, limit, reports=False)
        try:
            ahead.start(rng)
            ahead.run()
        finally:  # also if the monitor ends the run: the subsample's model is the best one so far
            self.w, self.b = ahead.w, ahead.b
        # Keep the width of the subsample where the width determines the smoothing, and its
        # curvature, cost / width, where that does (see `_narrow`).
        softer = ahead.width * float(level.cost.mean() / sample.cost.mean())
        self._narrow(max(min(ahead.width, self.widest), softer))
        free = sample.free(sample.a)
        share = 0.0  # mean of alpha / cost over the free samples
        if not level.squared and len(free):
            share = float((sample.a[free] / sample.cost[free]).mean())
        level.centre = level.cost * share
        level.move_to(ahead.w, ahead.b)
        # Order of the sampling error.
        self.moved = np.full(n, level.unit * sqrt(d / sample.rows.n_rows))

    def start_from(self, model: LinearResult) -> None:
        """Start from a model, with its dual variables as the first centre of the smoothing."""
        level = self.level
        self._narrow(_first_width(level))
        if model.alpha is not None:
            most = np.full_like(level.cost, np.inf) if level.squared else level.cost
            if level.tube is None:
                level.centre = np.clip(np.abs(model.alpha), 0.0, most)
            else:
                level.centre = np.clip(model.alpha, -most, most)
        level.move_to(model.coef.copy(), model.intercept - level.origin)

    def run(self) -> None:
        """Solve levels of decreasing width until `open` is False."""
        level = self.level
        self._respond(level)
        ahead, since = False, self.supervisor.steps
        while self.open:
            if self._settled(level):
                level.centre = level.a
                # Reduce the width faster, the fewer steps the last level took. The squared hinge
                # is smooth by itself and ends with width 0.
                width = self.width * min(max(1, self.supervisor.steps - since), 5) / 10.0
                ends = level.squared and width < 0.1
                self._narrow(0.0 if ends else max(width, NARROWEST))
                level.respond()
                ahead, since = True, self.supervisor.steps
            ahead = not self._advance(ahead) and ahead

    def _narrow(self, width: float) -> None:
        """Set the smoothing h of all samples, given its typical width.

        Up to `widest` all samples have the same width in units of the slack. Beyond it they have
        the same curvature cost / h: for separable data the costs, which are upper bounds, do not
        determine the size of the dual variables.
        """
        self.width = width
        cost = self.level.cost
        curving = width / float(cost.mean()) * min(1.0, width / self.widest)
        self.level.h = np.maximum(curving * cost, min(width, self.widest))

    def _advance(self, ahead: bool) -> bool:
        """Take Newton steps on the samples near the margin; return whether they were accepted."""
        level, before = self.level, self.level.v.copy()
        part = self._part()
        self._newton(part, ahead)
        if part.level is not level:
            if part.level.moved > part.trust:
                # The screened samples may have become free: repeat with fewer of them screened.
                self.caution *= 4.0
                return False
            level.a = level.a.copy()
            level.a[part.active] = part.level.a
            level.u = part.level.u
            level.move_to(part.level.w, part.level.b)
            self._respond(level)
            # Compare with the gap on the part: a larger one comes from samples screened wrongly.
            held = level.gap <= 2.0 * part.level.gap
            self.caution = max(1.0, 0.5 * self.caution) if held else 4.0 * self.caution
        self.moved = np.abs(level.v - before)
        return True

    def _newton(self, part: _Part, ahead: bool) -> None:
        """Take Newton steps until the level is solved, or has moved beyond the trust radius."""
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
        """Return whether reducing the width gains more than further steps at this width."""
        negligible = 0.1 * self.tol * gap_scale(level.primal)
        # The smoothing gap can be huge at first: the residual must be small against |w|^2 as well.
        known = max(float(level.w @ level.w), negligible)
        return level.residual <= SETTLED * min(level.gap - level.residual, known)

    def _respond(self, level: Level) -> None:
        """Update the level of all samples; keep its primal and dual points if they are better."""
        level.respond()
        before = self.gap
        if level.primal < self.primal:
            self.primal, self.w, self.b = level.primal, level.w, level.b
        if level.dual > self.dual:
            self.dual, self.a = level.dual, level.a
        if not self.gap > 0.99 * before:  # also while the gap is infinite or NaN
            self.improved = self.supervisor.steps
        if self.reports:
            self.supervisor.gap = self.gap

    def _part(self) -> _Part:
        """Return the level without screened samples, or the whole one if screening saves little."""
        level = self.level
        everything = _Part(level, np.empty(0, dtype=np.intp), np.inf)
        if self.moved is None or level.rows.n_rows <= WHOLE:
            return everything
        typical = REACH * sqrt(float(np.mean(self.moved**2)))
        trust = self.caution * max(typical, min(self.width, self.widest))
        active = level.near(np.maximum(REACH * self.caution * self.moved, trust))
        # Copying the active samples is faster than reading all of them only if they are few.
        values, size = level.rows.n_values, level.rows.size_of(active)
        if len(active) == 0 or size > max(values // 8, min(COPY, values // 2)):
            return everything
        return _Part(_restricted(level, active), active, trust)


@dataclass(frozen=True)
class _Part:
    """Level of the active samples, their indices, and the move up to which screening is valid."""

    level: Level
    active: IntArray
    trust: float


def _restricted(level: Level, active: IntArray) -> Level:
    """Return the level of the active samples, with the others fixed at their bounds."""
    part, a = level.subset(active, level.cost[active]), level.a[active]
    if not level.squared:  # whose only bound is zero, which contributes nothing
        own = part.y * a
        value = level.value(level.a) - part.value(a)
        part.screened = ScreenedRows(level.u - part.rows.combine(own), -float(own.sum()), value)
    part.w, part.b, part.v = level.w, level.b, level.v[active]
    part.a, part.u, part.centre, part.h = a, level.u, level.centre[active], level.h[active]
    part.cg_steps = level.cg_steps
    return part


def _widest(level: Level) -> float:
    """Return `WIDEST` in the units of h: those of the slack, none for squared losses."""
    return WIDEST if level.squared else WIDEST * level.unit


def _first_width(level: Level) -> float:
    """Return a first width so large that the first level is well conditioned.

    If the costs are far above the scale of the data and the data are separable, Newton's method
    would otherwise go through many sets of free samples, one per step.
    """
    rows = level.rows
    share = np.full(rows.n_rows, 1.0 / rows.n_rows)
    middle = rows.combine(share) if level.intercept else np.zeros(rows.n_features)
    length2 = float(rows.spread(np.arange(rows.n_rows), share, middle).sum())
    width, widest = float(level.cost.mean()) * length2 / SOFT, _widest(level)
    if level.squared:
        return width if width > widest else 0.0
    return max(width, widest)


def _sampled(level: Level, size: int, rng: np.random.Generator) -> Level:
    """Draw a stratified subsample, with a minimum share per class, and scale its costs up.

    All samples of regression have the label +1: one stratum.
    """
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
    return level.subset(rows, cost)
