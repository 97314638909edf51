r"""Newton's method on the smoothed pairwise loss, down to a true duality gap.

One routine for every function space (:mod:`widemargin.solvers.preference.space`). At a vector v
with utilities f the dual point of the smoothed loss has the expansion
:math:`u = \sum_i \beta_i \phi(x_i)`; the gradient of the smoothed objective is v - u, and

.. math:: \text{gap} = \tfrac12 \|v - u\|^2 + \text{what the smoothing costs at } f .

While the first part dominates, Newton steps reduce it. Once the second does, the band is narrowed
(the squared hinge has no band and no second part). A direction comes from the preconditioner
alone while that works, else from preconditioned conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.dual_pairs import DualPoint, Response
from widemargin.problems.preference.sweep import SortedRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients
from widemargin.solvers.preference.polish import Polish
from widemargin.solvers.preference.space import Curvature, Element, Space

SETTLED = 0.05  # share of the gap that steps may leave before the band is narrowed
FASTEST = 0.1  # factor by which the band shrinks at a time, at most
NARROWEST = 1e-9  # band below which rounding decides which pairs are in it
FORCING = 0.1  # relative residual that conjugate gradients leave
MOST_PRODUCTS = 200  # conjugate gradients for one step
MOST_LENGTHS = 60  # points looked at along one direction
FLAT = 0.3  # slope at the end of a step, relative to the one at its start
FEW_AT_KINK = 20  # pairs in the band for each coefficient, up to which they may all stay there
PATIENCE = 30  # steps without progress after which rounding must be to blame
SLOW = 0.1  # a step that leaves more of |v - u|^2 than this was not Newton's


@dataclass(eq=False)
class Here:
    """A point, its rows sorted by utility, its dual point summed up, and u - v."""

    at: Element
    rows: SortedRows
    response: Response
    lag: Element
    lag2: float
    gap: float
    value: float


class Descent:
    """The state of a run: where it is, and the best primal and dual points met on the way.

    Attributes
    ----------
    primal, best : objective and vector of the best primal point
    dual, point : objective and variables of the best dual point
    width : of the band at present
    patience : directions that may end with conjugate gradients exhausted; then it gives up
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        space: Space,
        tol: float,
        budget: Budget,
        start: Element,
        width: float = 1.0,
        polish: Polish | None = None,
    ) -> None:
        self.problem, self.space, self.tol, self.budget = problem, space, tol, budget
        self.width, self.polish = width, polish
        self.patience = PATIENCE
        self.exhausted = 0
        self.seen = np.inf, -np.inf, np.inf
        self.primal, self.best = np.inf, start
        self.dual, self.point = -np.inf, DualPoint(start.image, width)
        self.use_products = space.trust == "rough"
        self.here = self._look(start)

    @property
    def gap(self) -> float:
        """Relative gap between the best primal and the best dual point."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))

    def _look(self, at: Element, rows: SortedRows | None = None) -> Here:
        """Evaluate both problems, and the smoothed one, at a point."""
        rows = self.problem.sort(at.image) if rows is None else rows
        response = self.problem.respond(at.image, self.width, rows)
        u = self.space.expand(response.beta)
        lag = u.plus(-1.0, at)
        half = 0.5 * self.space.dot(at, at)
        primal, dual = half + response.loss, response.total - 0.5 * self.space.dot(u, u)
        self._keep(at, primal, DualPoint(at.image, self.width), dual)
        lag2 = self.space.dot(lag, lag)
        return Here(at, rows, response, lag, lag2, primal - dual, half + response.smoothed)

    def _keep(self, at: Element, primal: float, point: DualPoint, dual: float) -> None:
        """Remember the best of both problems."""
        if primal < self.primal:
            self.primal, self.best = primal, at
        if dual > self.dual:
            self.dual, self.point = dual, point

    def run(self) -> Status:
        """Step and narrow the band until the gap is closed."""
        idle = 0
        while self.gap > self.tol:
            here = self.here
            idle = idle + 1 if self._idle() else 0
            if idle > PATIENCE or self.exhausted > self.patience:
                return "stalled"
            if not self.problem.squared and 0.5 * here.lag2 <= SETTLED * here.gap:
                if not self._narrow():
                    return "stalled"
                continue
            if not self.budget.spend(1, self.gap):
                return self.budget.status
            if not self._step() and (self.problem.squared or not self._narrow()):
                return "stalled"
        return "converged"

    def _idle(self) -> bool:
        """Tell whether nothing has become better, but for rounding: no best point, nor the gap."""
        last, self.seen = self.seen, (self.primal, self.dual, min(self.here.gap, self.seen[2]))
        least = 1e-10 * max(1.0, abs(self.primal))
        same = self.primal >= last[0] - least and self.dual <= last[1] + least
        return same and self.here.gap > 0.99 * last[2]

    def _narrow(self) -> bool:
        """Shrink the band towards the one whose smoothing costs half of what is allowed."""
        allowed = 0.5 * self.tol * max(1.0, abs(self.primal))
        shrink = np.sqrt(allowed / max(self.here.gap, allowed))
        before, old = self.here, self.width
        self.width *= float(np.clip(shrink, FASTEST, 0.5))
        if self.width < NARROWEST:
            return False
        self.here = self._look(before.at, before.rows)
        self._predict(before, old)
        self.seen = self.primal, self.dual, np.inf
        if self.polish is not None and self.gap > self.tol:
            self._finish(self.polish)
        return True

    def _predict(self, before: Here, old: float) -> None:
        """Move the pairs of the old band into the new one, if they are few and that is better.

        Few pairs at the kink keep their variables as the band narrows, so their slacks shrink
        with it: a step of Newton's method for the loss that has them, and no others, on its ramp.
        """
        curvature = Curvature(self.problem, before.rows, old, self.width)
        if curvature.n_pairs() > FEW_AT_KINK * len(before.at.coef):
            return
        (_, excess), (_, deficit) = before.rows.slacks(0.0, old)
        band = before.rows.scattered(before.rows.weight * (excess - deficit))
        grown = before.response.beta + self.problem.C * (1.0 / self.width - 1.0 / old) * band
        lag = self.space.expand(grown).plus(-1.0, before.at)
        self.space.prepare(before.at.image, old, self.width)
        there = self._look(before.at.plus(1.0, self._direction(lag, curvature)))
        if there.gap < self.here.gap:
            self.here = there

    def _finish(self, polish: Polish) -> None:
        """Try the exact end; where it does not close the gap, nothing is lost."""
        found = polish(self.here.at.image, self.width)
        if found is None:
            return
        w, point = found
        self.consider(self.space.at(w), point)

    def consider(self, at: Element, point: DualPoint) -> None:
        """Evaluate a vector and a dual point from elsewhere; keep them if they are the best."""
        primal = 0.5 * self.space.dot(at, at) + self.problem.respond(at.image, 0.0).loss
        response = self.problem.response(point)
        u = self.space.expand(response.beta)
        self._keep(at, primal, point, response.total - 0.5 * self.space.dot(u, u))

    def _step(self) -> bool:
        """Take a Newton step; return False where rounding leaves nothing to gain."""
        before = self.here
        self.space.prepare(before.at.image, self.width)
        curvature = Curvature(self.problem, before.rows, self.width)
        direction = self._direction(before.lag, curvature)
        slope = -self.space.dot(before.lag, direction)
        if not slope < -1e-15 * max(1.0, abs(self.primal)):
            return False
        self.here = self._search(before, direction, slope)
        if self.here.lag2 > SLOW * before.lag2 and self.space.trust != "exact":
            self.use_products = True
        return True

    def _direction(self, r: Element, curvature: Curvature) -> Element:
        """Solve the Newton system, by the preconditioner alone or with conjugate gradients."""
        if not self.use_products:
            return self.space.precondition(r)
        found = conjugate_gradients(
            lambda p: p + self.space.expand(curvature.times(p.image)),
            r,
            self.space.precondition,
            goal=lambda size: FORCING**2 * size,
            most=MOST_PRODUCTS,
            dot=self.space.dot,
        )
        self.exhausted += not found.reached
        solution: Element = found.x
        return solution

    def _search(self, before: Here, direction: Element, slope: float) -> Here:
        """Go along a direction to where the smoothed objective is lower and nearly flat.

        Flat alone is not enough: behind a kink the slope may be small and positive all along.
        """
        most = before.value + 1e-13 * abs(before.value)
        low, slope_low = 0.0, slope
        high, slope_high = np.inf, np.inf
        length = 1.0
        for _ in range(MOST_LENGTHS):
            here = self._look(before.at.plus(length, direction))
            found = -self._along(here, direction)
            found = found if np.isfinite(found) else np.inf
            if abs(found) <= FLAT * abs(slope) and (found <= 0 or here.value <= most):
                return here
            if found < 0:
                low, slope_low = length, found
            else:
                high, slope_high = length, found
            if high - low <= 1e-9 * high:
                break
            if np.isinf(high):
                length *= 3.0
            else:
                share = slope_low / (slope_low - slope_high)
                length = low + (high - low) * float(np.clip(share, 0.1, 0.9))
        return here

    def _along(self, here: Here, direction: Element) -> float:
        """Return minus the derivative of the smoothed objective along a direction."""
        beta: FloatArray = here.response.beta
        return float(beta @ direction.image) - self.space.dot(here.at, direction)
