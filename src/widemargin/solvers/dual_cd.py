r"""The linear machine in its own features: the optimum of ``SVC(kernel="linear")`` in a few passes.

Problem: ``c_classification`` of :mod:`widemargin.problems.soft_margin` with a linear kernel,

.. math:: \min_{w, \lambda} \; \tfrac12 |w|^2 + \sum_i \phi_i(1 - y_i (w \cdot x_i + \lambda)),

hinge or squared hinge, any costs, lambda unregularised (or absent).

1. *Sample.* A sample with its costs scaled up stands for a large data set (recursively). Its
   optimum tells on which side of the margin nearly every row is.
2. *Levels.* The hinge is smoothed over a band of width h, and Newton's method minimises the
   smooth problem (:mod:`widemargin.solvers.smoothed_newton`); its dual variables are the centre
   of the next, narrower band. Every point comes with a feasible dual point, so the gap is known.
3. *Band.* Rows farther from the margin than they have lately moved keep their bound and enter as
   one constant vector (the implicit outliers of notes/sampling, section 4): a step reads only
   the others. One pass over all rows then tells which of them were wrong.

No matrix is larger than 2,000 x 2,000; up to an eighth of the data is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from time import monotonic

import numpy as np

from widemargin._threads import worker_threads
from widemargin._typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Certificate
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.linear_rows import LinearRows
from widemargin.solvers.result import Budget, Monitor, Status
from widemargin.solvers.smoothed_newton import Level, Pull

SMALL = 16384  # rows (and 20 times the features) below which a sample is not worth its while
SAMPLE_TOL = 1e-3  # a sample predicts the whole no better than this
WIDEST = 4.0  # first band of the hinge: least squares, for all rows are in it
NLO, NHI = 0.1, 0.5
NARROWING = 0.1  # width of a band relative to the last
SETTLED = 0.2  # share of the gap left to Newton's method when a level ends
SOFTNESS = 100.0  # first curvature, relative to the regulariser's
SHRINK_FROM = 2000
REACH = 3.0
TICK = 0.02  # seconds between two calls of the monitor inside a sweep
NARROWEST = 1e-13  # width at which rounding takes over


@dataclass(frozen=True)
class LinearResult:
    """A linear model with the dual point that proves how good it is.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights w.
    intercept : float
        Threshold; the midpoint of its optimal interval at w.
    dual : ndarray of shape (n_rows,)
        Feasible signed dual variables.
    n_iter : int
        Newton steps.
    status : {"optimal", "max_iter", "stopped"}
        Whether the tolerance was met, the budget (or the arithmetic's precision) ran out, or the
        monitor said stop.
    primal, dual_value : float
        Objectives at (coef, intercept) and at dual, in float64.
    """

    coef: FloatArray
    intercept: float
    dual: FloatArray
    n_iter: int
    status: Status
    primal: float
    dual_value: float


def solve_linear(
    X: Matrix,
    problem: SoftMargin,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    monitor: Monitor | None = None,
) -> LinearResult:
    """Solve soft-margin classification with a linear kernel to a relative duality gap of tol.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Data, float32 or float64; read in place.
    problem : SoftMargin
        Made by ``c_classification``.
    tol : float
        Bound on (primal - dual) / max(1, \\|primal\\|).
    max_iter : int
        Largest number of Newton steps, those on samples included.
    seed : int
        Seed of the samples.
    monitor : callable, optional
        Called between sweeps with (steps, relative gap); returns whether to go on.
    """
    watch = _Watch(Budget(max_iter, monitor))
    squared = bool(problem.ridge.any())
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    with worker_threads() as threads:
        rows = LinearRows(X, watch.tick, threads=threads)
        level = Level(rows, problem.target, cost, squared=squared, intercept=problem.n_groups > 0)
        search = _Search(level, tol, watch)
        try:
            search.start(np.random.default_rng(seed))
            search.run()
        except _Stopped:
            pass
        return search.result(problem)


def certify_linear(
    X: Matrix,
    problem: SoftMargin,
    result_coef: FloatArray,
    intercept: float,
    dual: FloatArray,
    *,
    tol: float,
    n_iter: int,
) -> Certificate:
    """Certify a linear model: both objectives recomputed in float64 from model and data.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Training data.
    problem : SoftMargin
        The problem that was solved.
    result_coef, intercept, dual
        The model and its signed dual variables.
    tol : float
        Relative gap up to which the certificate says converged.
    n_iter : int
        Steps of the solver, for the record.
    """
    rows = LinearRows(X)
    primal = _primal(problem, rows.dot(result_coef), result_coef, intercept)
    expansion = rows.combine(dual)
    dual_value = problem.dual(dual, float(expansion @ expansion))
    return Certificate.from_objectives(
        problem.name,
        primal=primal,
        dual=dual_value,
        kkt_violation=problem.kkt_violation(dual, rows.dot(expansion)),
        converged=primal - dual_value <= tol * max(1.0, abs(primal)),
        n_iter=n_iter,
    )


def _primal(problem: SoftMargin, f: FloatArray, coef: FloatArray, intercept: float) -> float:
    thresholds = np.full(problem.n_groups, intercept)
    return problem.primal(f, float(coef @ coef), thresholds)


class _Stopped(Exception):
    """Raised inside a sweep when the monitor says stop."""


class _Watch:
    """Hands the budget to every sweep, and remembers the gap to report."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.gap = np.inf
        self.last = monotonic()

    @property
    def open(self) -> bool:
        """Whether another step may be taken."""
        return self.budget.left > 0 and self.budget.status != "stopped"

    def tick(self) -> None:
        """Let the monitor act inside a sweep, but not so often that it costs anything."""
        if monotonic() - self.last > TICK:
            self.spend(0)

    def spend(self, steps: int) -> None:
        """Record steps; raise where the monitor says stop."""
        self.last = monotonic()
        stopped = self.budget.status == "stopped"  # then the last sums are finished undisturbed
        if not stopped and not self.budget.spend(steps, self.gap):
            if self.budget.status == "stopped":
                raise _Stopped


class _Search:
    """The levels of one data set, and the best primal and dual points met on the way."""

    def __init__(
        self, level: Level, tol: float, watch: _Watch, *, limit: int | None = None
    ) -> None:
        self.level, self.tol, self.watch = level, tol, watch
        self.limit = watch.budget.max_iter if limit is None else limit
        self.primal, self.w, self.lam = np.inf, level.w, 0.0
        self.dual, self.a = 0.0, level.a
        self.moved: FloatArray | None = None  # how far each slack moved during the last level
        self.widened = 1.0  # by how much bands have proved too narrow

    # ---------------------------------------------------------------- where to start
    def start(self, rng: np.random.Generator) -> None:
        """Choose the first point and band: from a sample where there are many rows."""
        level = self.level
        base = max(SMALL, 20 * level.rows.n_features)
        if level.rows.n_rows <= 2 * base:
            level.h = _first_band(level)
            return
        chosen = _sample(level.y, max(base, level.rows.n_rows // 16), rng)
        sample = Level(
            level.rows.take(chosen.rows),
            level.y[chosen.rows],
            level.cost[chosen.rows] * chosen.scale,
            squared=level.squared,
            intercept=level.intercept,
        )
        ahead = _Search(sample, max(self.tol, SAMPLE_TOL), self.watch, limit=self.limit // 2)
        ahead.start(rng)
        ahead.run()
        level.h = sample.h
        level.centre = level.cost * _typical_share(sample)
        level.move_to(ahead.w, ahead.lam)
        self.moved = np.full(level.rows.n_rows, sqrt(level.rows.n_features / len(chosen.rows)))

    # ---------------------------------------------------------------- the levels
    def run(self) -> None:
        """Solve level after level until the gap closes or the budget ends."""
        level = self.level
        self._respond(level)
        ahead, since = False, self.watch.budget.used
        while self.gap > self.tol and self.open and level.h > (-1 if level.squared else NARROWEST):
            if _settled(level):
                level.recentre(_next_band(level, self.watch.budget.used - since))
                since = self.watch.budget.used
                level.respond()
                ahead = True
            before = level.v.copy()
            part, active = self._restricted()
            self._newton(part, ahead)
            if part is not level:
                if part.moved > self.trusted:
                    self.widened *= 4.0
                    continue
                self._merge(part, active)
                held = level.gap <= 2.0 * part.gap
                self.widened = max(1.0, 0.5 * self.widened) if held else 4.0 * self.widened
            ahead = False
            self.moved = np.abs(level.v - before)

    @property
    def open(self) -> bool:
        return self.watch.open and self.watch.budget.used < self.limit

    @property
    def gap(self) -> float:
        """Relative gap of the best points."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))

    def _newton(self, part: Level, ahead: bool) -> None:
        """Take Newton steps until the level is solved well enough for its band."""
        while self.open:
            part.step(ahead=ahead)
            ahead = False
            if part is self.level:
                self._respond(part)
            else:
                part.respond()
            self.watch.spend(1)
            if part is not self.level and part.moved > self.trusted:
                return
            if part.gap <= 0.9 * self.tol * max(1.0, abs(part.primal)) or _settled(part):
                return
            if self.gap <= self.tol:
                return

    def _respond(self, level: Level) -> None:
        """Update the level of all rows and keep its points where they are the best."""
        level.respond()
        if level.primal < self.primal:
            self.primal, self.w, self.lam = level.primal, level.w, level.lam
        if level.dual > self.dual:
            self.dual, self.a = level.dual, level.a
        self.watch.gap = self.gap

    def _restricted(self) -> tuple[Level, IntArray]:
        """Return the level of the rows that may leave their bound soon, and which they are."""
        level = self.level
        everything = level, np.empty(0, dtype=np.intp)
        if self.moved is None or level.rows.n_rows < SHRINK_FROM:
            return everything
        typical = float(np.sqrt(np.mean(self.moved**2)))
        typical = max(REACH * typical, level.h) * self.widened
        self.trusted = typical
        reach = np.maximum(REACH * self.widened * self.moved, typical)
        place = level.v + level.h * level.centre / level.cost
        near = place >= -reach
        if not level.squared:
            near &= place <= level.h + reach
        active = np.flatnonzero(near)
        size = level.rows.size_of(active)
        if (
            len(active) == 0
            or size > max(level.rows.n_values // 8, 1 << 22)
            or size > 0.7 * level.rows.n_values
        ):
            return everything
        return _restrict(level, active), active

    def _merge(self, part: Level, active: IntArray) -> None:
        """Bring the result of a restricted level back to all rows."""
        level = self.level
        level.a = level.a.copy()
        level.a[active] = part.a
        level.u = part.u
        level.move_to(part.w, part.lam)
        self._respond(level)

    # ---------------------------------------------------------------- the answer
    def result(self, problem: SoftMargin) -> LinearResult:
        """Evaluate the best points afresh and wrap them up."""
        rows = self.level.rows
        dual = problem.repair(problem.target * self.a)
        expansion = rows.combine(dual)
        dual_value = problem.dual(dual, float(expansion @ expansion))
        f = rows.dot(self.w)
        intercept = _intercept(problem, f, self.lam) if problem.n_groups else 0.0
        primal = _primal(problem, f, self.w, intercept)
        status: Status = "optimal"
        if primal - dual_value > self.tol * max(1.0, abs(primal)):
            status = "stopped" if self.watch.budget.status == "stopped" else "max_iter"
        return LinearResult(
            coef=self.w,
            intercept=intercept,
            dual=dual,
            n_iter=max(1, self.watch.budget.used),
            status=status,
            primal=primal,
            dual_value=dual_value,
        )


def _settled(level: Level) -> bool:
    """Whether narrowing the band gains more than further steps inside it."""
    return level.residual <= SETTLED * (level.gap - level.residual)


def _first_band(level: Level) -> float:
    """Choose a band so wide that the first problem is well conditioned.

    Costs far above the scale of the data make Newton's method visit one set of free rows after
    another when the data are separable; a soft start shows it the way.
    """
    rows = level.rows
    everything = np.arange(rows.n_rows)
    ones = np.ones(rows.n_rows)
    middle = rows.combine(ones / rows.n_rows) if level.intercept else np.zeros(rows.n_features)
    spread = float(rows.spread(everything, ones, middle).sum())
    band = float(level.cost.mean()) * spread / (SOFTNESS * rows.n_rows)
    return max(band, WIDEST) if not level.squared else (band if band > WIDEST else 0.0)


def _next_band(level: Level, steps: int) -> float:
    """Return the width of the next band, narrower the fewer steps the last one took.

    The squared hinge ends without any.
    """
    band = level.h * min(max(NLO, NARROWING * steps), NHI)
    return 0.0 if level.squared and band < 0.1 else band


@dataclass(frozen=True)
class _Sample:
    rows: IntArray
    scale: FloatArray


def _sample(y: FloatArray, size: int, rng: np.random.Generator) -> _Sample:
    """Draw rows of each class, a small class more densely; scale makes up for the others."""
    chosen, scale = [], []
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        share = max(size * len(members) // len(y), min(len(members), size // 8))
        if share:
            chosen.append(members[np.sort(rng.choice(len(members), share, replace=False))])
            scale.append(np.full(share, len(members) / share))
    rows = np.concatenate(chosen)
    order = np.argsort(rows)
    return _Sample(rows[order], np.concatenate(scale)[order])


def _typical_share(level: Level) -> float:
    """Return the mean of a/c over the free rows: where in the box they tend to be."""
    if level.squared:
        return 0.0
    inside = (level.a > 0.0) & (level.a < level.cost)
    return float((level.a[inside] / level.cost[inside]).mean()) if inside.any() else 0.0


def _restrict(level: Level, active: IntArray) -> Level:
    """Return the level of the active rows, the others standing at their bounds."""
    y, a = level.y[active], level.a[active]
    rows = level.rows.take(active)
    own = rows.combine(y * a)
    pull = Pull(level.u - own, -float((y * a).sum()), float(level.a.sum() - a.sum()))
    if level.squared:  # the others are at zero
        pull = Pull(np.zeros_like(own), 0.0, 0.0)
    part = Level(
        rows, y, level.cost[active], squared=level.squared, intercept=level.intercept, pull=pull
    )
    part.w, part.lam, part.v = level.w, level.lam, level.v[active]
    part.a, part.u, part.centre, part.h = a, level.u, level.centre[active], level.h
    return part


def _intercept(problem: SoftMargin, f: FloatArray, near: float) -> float:
    """Return the threshold that minimises the primal at f, sorting only the rows near a guess."""
    margin = problem.target - f
    width = 1e-3
    while len(margin) > 1000 and not problem.ridge.any() and width < 10.0:
        above, below = margin > near + width, margin < near - width
        inside = np.flatnonzero(~above & ~below)
        fixed = float(problem.upper[above].sum() + problem.lower[below].sum())
        upper, lower = problem.upper[inside], problem.lower[inside]
        rounding = 1e-9 * float((problem.upper - problem.lower).sum())
        if lower.sum() + rounding < -fixed < upper.sum() - rounding:
            window = replace(
                problem,
                n_rows=len(inside),
                row=np.arange(len(inside)),
                target=problem.target[inside],
                lower=lower,
                upper=upper,
                ridge=problem.ridge[inside],
                group=problem.group[inside],
                totals=np.array([-fixed]),
            )
            return float(window.thresholds(f[inside])[0])
        width *= 8.0
    return float(problem.thresholds(f)[0])
