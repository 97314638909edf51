r"""Solve the pairwise ranking problem with an l_1 norm, which selects few features.

Problem: :class:`widemargin.problems.preference.PreferenceProblem` with ``norm=1``.

1. *Descent.* The hinge is smoothed over a zone of slacks. A step minimises |w|_1 plus a quadratic
   model of the loss by coordinate descent, so weights become exactly zero. Features enter the model
   when their :math:`|X'\beta|` is near 1, the bound that nonzero weights attain; the others are
   skipped. The gap is the sum of the suboptimality for the smoothed loss and the smoothing error;
   when the latter dominates, the zone is narrowed.
2. *Linear program.* Once few pairs are near the kink, they alone become rows of a linear program;
   the loss of all other pairs is replaced by its linearisation. The program is a lower model of the
   problem, exact as long as no other pair crosses the kink, and its solution is a vertex.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import gap_scale
from widemargin.problems.preference import PreferenceProblem, scaled_dual
from widemargin.problems.preference.bounds import dual_terms
from widemargin.problems.preference.pair_sums import Curvature, DualPoint, Listed, SortedRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import Element, Point, PreferenceResult, SmoothedDescent
from widemargin.solvers.preference.l1_models import minimise_quadratic, solve_program

FEW_FEATURES = 300  # up to this number the quadratic model has all features
NEAR_BOUND, MOST_NEW = 0.9, 150  # |X'beta| at which further features enter, and how many at a time
WIDEST = 2.0  # the curvature is estimated from zones up to about this width
MOST_LENGTHS = 30  # step lengths tried in a line search
IDLE = 0.9  # a step must reduce the suboptimality to this share, unless the objective falls
REACH = 3.0  # pairs within this many smoothing widths of the kink become rows of the program
FEW_PAIRS, PER_FEATURE = 1000, 10  # rows that a program may have, plus so many per feature


def solve_l1(
    problem: PreferenceProblem, rows: LinearRows, tol: float, budget: Budget
) -> PreferenceResult:
    """Solve the pairwise problem with an l_1 norm to a relative duality gap of tol."""
    descent = L1Descent(problem, rows, tol, budget)
    status = descent.run()
    w = descent.best.coef
    beta = dual_terms(problem, descent.point).beta.hi
    return PreferenceResult(
        coef=w,
        f=rows.dot(w),
        penalty=float(np.abs(w).sum()),
        point=descent.point,
        beta=beta,
        image=rows.combine(beta),
        n_iter=max(1, budget.used),
        status=status,
    )


class L1Descent(SmoothedDescent):
    """Descent with an l_1 norm, for linear models."""

    settled, fastest = 0.1, 0.2
    merit = attrgetter("value")

    def __init__(
        self, problem: PreferenceProblem, rows: LinearRows, tol: float, budget: Budget
    ) -> None:
        self.rows = rows
        origin = Element(np.zeros(rows.n_features), np.zeros(rows.n_rows))
        super().__init__(problem, tol, budget, origin)

    def run(self) -> Status:
        """Alternate steps, linear programs and narrowing until the gap is below `tol`."""
        while (gap := self.gap) > self.tol:
            if not self.budget.spend(1, gap):
                return self.budget.status
            if self.here.left > self.settled * self.here.gap and self._step():
                continue
            if self._program():
                continue
            if not self.narrow():
                return "stalled"
        return "converged"

    def evaluate(self, at: Element, rows: SortedRows | None = None) -> Point:
        """Evaluate both problems, and the smoothed one, at a vector; keep the best."""
        sums = self.problem.evaluate(at.image, self.width, rows)
        correlation = self.rows.combine(sums.beta)
        norm = float(np.abs(at.coef).sum())
        primal, dual = norm + sums.loss, scaled_dual(sums.total, correlation)
        self.keep(at, primal, sums.point, dual)
        left = norm - float(correlation @ at.coef) + sums.total - dual
        value = norm + sums.smoothed
        return Point(at, sums, Element(correlation), left, primal - dual, value)

    def _columns(self) -> tuple[IntArray, FloatArray]:
        """Return the features that may get a nonzero weight, and their dense values."""
        strength = np.abs(self.here.residual.coef)
        chosen = np.arange(len(strength))
        if len(chosen) > FEW_FEATURES:
            used = np.flatnonzero(self.here.at.coef)
            strength[used] = 0.0
            chosen = np.argpartition(-strength, MOST_NEW)[:MOST_NEW]
            chosen = np.union1d(used, chosen[strength[chosen] >= NEAR_BOUND])
        X = self.rows.X[:, chosen]
        return chosen, np.asarray(X.toarray() if self.rows.sparse else X, dtype=np.float64)

    def _direction(self, correlation: FloatArray, curvature: Curvature) -> Element:
        """Return the step to the minimum of the norm plus a quadratic model of the loss."""
        chosen, features = self._columns()
        # Only differences of samples matter: centring changes nothing but the rounding errors.
        features = features - features.mean(axis=0)
        gram = curvature.gram(features)
        # Keep the diagonal positive for constant features, and the matrix definite.
        gram[np.diag_indices_from(gram)] += 1e-12 * float(np.trace(gram)) + np.finfo(float).tiny
        direction = np.zeros_like(correlation)
        before = self.here.at.coef[chosen]
        direction[chosen] = minimise_quadratic(gram, correlation[chosen], before) - before
        return Element(direction, self.rows.dot(direction))

    def _stepped(self, before: Point, beta: FloatArray, old: float) -> Element:
        curvature = before.sums.curvature(old, self.width)
        return before.at + self._direction(self.rows.combine(beta), curvature)

    def _step(self) -> bool:
        """Step towards the minimum of the model; return whether the progress was sufficient."""
        here = self.here
        correlation, w = here.residual.coef, here.at.coef
        # With fewer pairs in the zone than nonzero weights the model would be nearly linear and the
        # step far too long: take the curvature of a wider zone.
        width, wanted = self.width, max(1, int(np.count_nonzero(w)))
        while width < WIDEST and here.sums.rows.n_pairs(0.0, width) < wanted:
            width *= 2.0
        direction = self._direction(correlation, here.sums.curvature(width))
        slope = float(np.abs(w + direction.coef).sum() - np.abs(w).sum())
        slope -= float(correlation @ direction.coef)
        if not slope < 0:
            return False
        most = here.value + 1e-14 * abs(here.value)
        length = 1.0
        for _ in range(MOST_LENGTHS):
            there = self.evaluate(here.at + length * direction)
            if there.value <= most + 0.1 * length * slope:
                self.here = there
                small = 1e-3 * self.tol * gap_scale(self.primal)  # negligible beside the tolerance
                return there.left <= IDLE * here.left or there.value < here.value - small
            excess = there.value - here.value - length * slope
            excess = excess if np.isfinite(excess) else np.inf  # overflow
            # Minimum of the parabola through both values and the initial slope, safeguarded.
            length *= float(np.clip(-0.5 * length * slope / excess, 0.1, 0.7))
        return False

    def _program(self) -> bool:
        """Solve the LP of the few pairs near the kink; return whether that halved the gap."""
        f, problem, before = self.here.at.image, self.problem, self.gap
        reach = REACH * self.width
        chosen, features = self._columns()
        near = self.here.sums.rows.pairs_near_kink(reach, FEW_PAIRS + PER_FEATURE * len(chosen))
        if near is None or len(near[0]) == 0:
            return False
        upper, lower = near
        cap = problem.C * problem.weight[upper] * problem.weight[lower]
        settled = DualPoint(f, reach, Listed(upper, lower, np.zeros(len(upper))))
        correlation = self.rows.combine(dual_terms(problem, settled).beta.hi)[chosen]
        found = solve_program(features[upper] - features[lower], cap, correlation)
        if found is None:
            return False
        w = np.zeros(self.rows.n_features)
        w[chosen], values = found
        at = Element(w, self.rows.dot(w))
        primal = float(np.abs(w).sum()) + problem.evaluate(at.image, 0.0).loss
        point = DualPoint(f, reach, Listed(upper, lower, values))
        terms = dual_terms(problem, point)
        self.keep(at, primal, point, problem.dual(terms, self.rows.combine(terms.beta.hi)))
        return self.gap < 0.5 * before
