r"""Newton's method for the smoothed pairwise loss, with a stopping rule on the true duality gap.

:class:`SmoothedDescent` is common to both norms: the hinge is smoothed over a zone of slacks,
steps reduce the smoothed objective, and the zone is narrowed when the smoothing accounts for most
of the duality gap (the squared hinge needs no smoothing). :class:`Descent` implements the steps for
an l_2 norm, in any function space. At a vector v with utilities f, the dual point of the smoothed
loss has the expansion :math:`u = \sum_i \beta_i \phi(x_i)`; the gradient of the smoothed
objective is v - u, and

.. math:: \text{gap} = \tfrac12 \|v - u\|^2 + \text{smoothing error at } f .

Directions are computed by the preconditioner alone while it is accurate enough, then by
preconditioned conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray
from widemargin.certificate import gap_scale, relative_gap
from widemargin.problems.preference import PreferenceModel, PreferenceProblem
from widemargin.problems.preference.bounds import dual_terms
from widemargin.problems.preference.pair_sums import Curvature, DualPoint, PairSums, SortedRows
from widemargin.solvers.base import Budget, Result, Status
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.polish import polish

Trust: TypeAlias = Literal["exact", "close", "rough"]

NARROWEST = 1e-9  # in a narrower zone rounding decides which pairs belong to it
FORCING = 0.1  # relative residual at which conjugate gradients stop
MOST_PRODUCTS = 200  # iterations of conjugate gradients per step
MOST_LENGTHS = 60  # step lengths tried in a line search
FLAT = 0.3  # slope at which a line search stops, relative to the initial slope
FEW_AT_KINK = 20  # pairs in the zone per coefficient above which most of them leave it
PATIENCE = 30  # steps without progress after which the run counts as stalled by rounding
SLOW = 0.1  # a step that leaves more of |v - u|^2 than this was far from a Newton step


@dataclass(frozen=True, eq=False)
class Element:
    """Vector of the function space: its coefficients and the utility of each sample."""

    coef: FloatArray
    image: FloatArray = field(default_factory=lambda: np.empty(0))

    def __add__(self, other: Element) -> Element:
        coef = self.coef + other.coef
        if len(self.image) == len(other.image):
            return Element(coef, self.image + other.image)
        return Element(coef)

    def __rmul__(self, length: float) -> Element:
        return Element(length * self.coef, length * self.image)


class FeatureSpace:
    """Euclidean space of weights, or of coordinates in a basis of the kernel space.

    With `features`, the few features of all samples or of a subsample, the Newton matrix is formed
    and factorised. For a subsample, `sample` maps (utilities of all samples, width, ramp) to its
    curvature.
    """

    def __init__(
        self,
        rows: LinearRows,
        features: FloatArray | None = None,
        sample: Callable[[FloatArray, float, float | None], Curvature] | None = None,
    ) -> None:
        self.rows, self.sample = rows, sample
        # Only differences of samples matter: centring changes nothing but the rounding errors.
        self.dense = features is not None
        self.features = np.empty((0, 0)) if features is None else features - features.mean(axis=0)
        self.factor: Any = None
        self.diagonal = np.ones(rows.n_features)

    @property
    def trust(self) -> Trust:
        """Accuracy of the preconditioner: exact inverse, close to it, or a rough diagonal."""
        if not self.dense:
            return "rough"
        return "exact" if self.sample is None else "close"

    def dot(self, a: Element, b: Element) -> float:
        """Return the inner product."""
        return float(a.coef @ b.coef)

    def expand(self, beta: FloatArray) -> Element:
        """Return sum_i beta_i phi(x_i) = X'beta, without its image, which no caller needs."""
        return Element(self.rows.combine(beta))

    def at(self, coef: FloatArray) -> Element:
        """Return the vector with the given coefficients, and its image."""
        return Element(coef, self.rows.dot(coef))

    def prepare(self, at: Point, width: float, ramp: float | None = None) -> Curvature:
        """Return the curvature at a point, and set up the preconditioner.

        With few features that is a Cholesky factor, else a diagonal without the cross terms between
        samples.
        """
        curvature = at.sums.curvature(width, ramp)
        if self.dense:
            seen = self.sample(at.at.image, width, ramp) if self.sample else curvature
            self.factor = factorised(seen.gram(self.features))
            return curvature
        own = curvature.rows.scattered(curvature.diagonal)
        active = np.flatnonzero(own)
        if len(active):
            middle = self.rows.combine(own / own.sum())
            self.diagonal = 1.0 + self.rows.spread(active, own[active], middle)
        return curvature

    def precondition(self, r: Element) -> Element:
        """Apply the preconditioner, an approximation of (I + C Phi'L Phi)^-1, to r."""
        if self.factor is None:
            return self.at(r.coef / self.diagonal)
        return self.at(np.asarray(cho_solve(self.factor, r.coef, check_finite=False)))


def factorised(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor of I + matrix, with a lifted diagonal if rounding requires it."""
    place = np.diag_indices_from(matrix)
    matrix[place] += 1.0
    lift = 1e-15 * float(np.abs(matrix[place]).max())
    for _ in range(12):
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            matrix[place] += lift
            lift *= 10.0
    # With widely spread utilities rounding errors dominate; a diagonal still yields descent.
    return cho_factor(np.diag(np.maximum(np.abs(matrix[place]), 1.0)), lower=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreferenceResult(Result, PreferenceModel):
    """Fitted ranking model with the data of its certificate, and the status of the solver."""


@dataclass(eq=False)
class Point:
    """Iterate with its primal, dual and smoothed objectives.

    Attributes
    ----------
    at, sums : the vector; pair sums of its dual point, over the samples sorted by utility
    residual : u - v, the negative gradient (l_1 norm: X'beta, that of the loss)
    left : part of the gap that steps can remove; the rest is due to the smoothing
    gap, value : duality gap, smoothed objective
    """

    at: Element
    sums: PairSums
    residual: Element
    left: float
    gap: float
    value: float


class SmoothedDescent:
    """State of a descent: the current iterate and smoothing width, and the best primal and dual.

    Subclasses implement `evaluate` and `_stepped`.

    Attributes
    ----------
    here : the current iterate
    width : current width of the smoothing zone
    primal, best : objective and vector of the best primal point
    dual, point : objective and variables of the best dual point
    """

    settled = 0.05  # narrow the zone once steps could remove no more than this share of the gap
    fastest = 0.1  # smallest factor by which the width is multiplied at a time
    merit: Callable[[Point], float] = attrgetter("gap")  # accepts or rejects a step of `_follow`

    def __init__(
        self,
        problem: PreferenceProblem,
        tol: float,
        budget: Budget,
        start: Element,
        width: float = 1.0,
    ) -> None:
        self.problem, self.tol, self.budget, self.width = problem, tol, budget, width
        self.primal, self.best = np.inf, start
        self.dual, self.point = -np.inf, DualPoint(start.image, width)
        self.here = self.evaluate(start)

    @property
    def gap(self) -> float:
        """Relative gap between the best primal and the best dual point."""
        return relative_gap(self.primal, self.dual)

    def evaluate(self, at: Element, rows: SortedRows | None = None) -> Point:
        """Evaluate both problems, and the smoothed one, at a vector; keep the best."""
        raise NotImplementedError

    def keep(self, at: Element, primal: float, point: DualPoint, dual: float) -> None:
        """Keep the best primal vector and the best dual point seen so far."""
        if primal < self.primal:
            self.primal, self.best = primal, at
        if dual > self.dual:
            self.dual, self.point = dual, point

    def narrow(self) -> bool:
        """Narrow the smoothing zone; return False if rounding would decide which pairs are in it.

        The target is a smoothing error of half the tolerated gap.
        """
        allowed = 0.5 * self.tol * gap_scale(self.primal)
        # Quadratic: the number of pairs in the zone and the error of each grow with the width.
        shrink = np.sqrt(allowed / max(self.here.gap, allowed))
        before, old = self.here, self.width
        self.width *= float(np.clip(shrink, self.fastest, 0.5))
        if self.width < NARROWEST:
            return False
        self.here = self.evaluate(before.at, before.sums.rows)
        self._follow(before, old)
        return True

    def _follow(self, before: Point, old: float) -> None:
        """Extrapolate to the new width by one Newton step; accept it if it improves the merit.

        Pairs at the kink keep their dual variables as the zone narrows, so their slacks shrink in
        proportion. The step minimises the loss with exactly the pairs of the old zone on its ramp.
        """
        steeper = self.problem.C * (1.0 / self.width - 1.0 / old)
        beta = before.sums.beta + steeper * before.sums.rows.zone_slacks(old)
        there = self.evaluate(self._stepped(before, beta, old))
        if self.merit(there) < self.merit(self.here):
            self.here = there

    def _stepped(self, before: Point, beta: FloatArray, old: float) -> Element:
        """Return the Newton iterate from a point, with beta as coefficients of its dual point."""
        raise NotImplementedError


class Descent(SmoothedDescent):
    """Descent with an l_2 norm.

    Attributes
    ----------
    patience : number of directions that may exhaust conjugate gradients before the run stalls
    polished : whether to try `polish`; the space must have the features of all samples
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        space: FeatureSpace,
        tol: float,
        budget: Budget,
        start: Element,
        width: float = 1.0,
        *,
        polished: bool = False,
    ) -> None:
        self.space, self.polished = space, polished
        self.patience = PATIENCE
        self.exhausted = 0
        self.seen = np.inf, -np.inf, np.inf
        self.use_products = space.trust == "rough"
        super().__init__(problem, tol, budget, start, width)

    def evaluate(self, at: Element, rows: SortedRows | None = None) -> Point:
        """Evaluate both problems, and the smoothed one, at a vector; keep the best."""
        sums = self.problem.evaluate(at.image, self.width, rows)
        u = self.space.expand(sums.beta)
        residual = u + -1.0 * at
        half = 0.5 * self.space.dot(at, at)
        primal, dual = half + sums.loss, sums.total - 0.5 * self.space.dot(u, u)
        left = 0.5 * self.space.dot(residual, residual)
        self.keep(at, primal, sums.point, dual)
        return Point(at, sums, residual, left, primal - dual, half + sums.smoothed)

    def consider(self, at: Element, point: DualPoint) -> None:
        """Evaluate a vector and a dual point found by other means; keep them if they are best."""
        primal = 0.5 * self.space.dot(at, at) + self.problem.evaluate(at.image, 0.0).loss
        terms = dual_terms(self.problem, point)
        u = self.space.expand(terms.beta.hi)
        self.keep(at, primal, point, terms.linear - 0.5 * self.space.dot(u, u))

    def run(self) -> Status:
        """Alternate Newton steps and narrowing of the zone until the gap is below `tol`."""
        idle, squared = 0, self.problem.squared
        while True:
            idle = idle + 1 if self._is_idle() else 0
            gap = self.gap
            if gap <= self.tol:
                return "converged"
            if idle > PATIENCE or self.exhausted > self.patience:
                return "stalled"
            if not squared and self.here.left <= self.settled * self.here.gap:
                if not self.narrow():
                    return "stalled"
                continue
            if not self.budget.spend(1, gap):
                return self.budget.status
            if not self._step() and (squared or not self.narrow()):
                return "stalled"

    def _is_idle(self) -> bool:
        """Return whether neither best objective nor the gap has improved beyond rounding."""
        last, self.seen = self.seen, (self.primal, self.dual, min(self.here.gap, self.seen[2]))
        least = 1e-10 * max(1.0, abs(self.primal))
        same = self.primal >= last[0] - least and self.dual <= last[1] + least
        return same and self.here.gap > 0.99 * last[2]

    def narrow(self) -> bool:
        """Narrow the smoothing zone; then try to finish a small problem exactly."""
        if not super().narrow():
            return False
        # Gaps at different widths are not comparable.
        self.seen = self.primal, self.dual, np.inf
        if self.polished and self.gap > self.tol:
            here, features = self.here, self.space.features
            found = polish(self.problem, features, here.at.image, here.sums.rows, self.width)
            if found is not None:
                self.consider(self.space.at(found[0]), found[1])
        return True

    def _follow(self, before: Point, old: float) -> None:
        if before.sums.rows.n_pairs(0.0, old) <= FEW_AT_KINK * len(before.at.coef):
            super()._follow(before, old)  # of many pairs, most leave the zone as it narrows

    def _stepped(self, before: Point, beta: FloatArray, old: float) -> Element:
        residual = self.space.expand(beta) + -1.0 * before.at
        curvature = self.space.prepare(before, old, self.width)
        return before.at + self._direction(residual, curvature)

    def _step(self) -> bool:
        """Take a Newton step; return False if the possible decrease is below rounding error."""
        before = self.here
        curvature = self.space.prepare(before, self.width)
        direction = self._direction(before.residual, curvature)
        slope = -self.space.dot(before.residual, direction)
        if not slope < -1e-15 * max(1.0, abs(self.primal)):
            return False
        self.here = self._search(before, direction, slope)
        if self.here.left > SLOW * before.left and self.space.trust != "exact":
            self.use_products = True
        return True

    def _direction(self, r: Element, curvature: Curvature) -> Element:
        """Solve the Newton system by the preconditioner alone or by conjugate gradients."""
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

    def _search(self, before: Point, direction: Element, slope: float) -> Point:
        """Find a step length by safeguarded regula falsi on the slope of the smoothed objective.

        A small slope alone is not enough: beyond a kink it may be small and positive throughout,
        with a larger objective.
        """
        most = before.value + 1e-13 * abs(before.value)
        low, slope_low = 0.0, slope
        high, slope_high = np.inf, np.inf
        length = 1.0
        for _ in range(MOST_LENGTHS):
            here = self.evaluate(before.at + length * direction)
            # derivative of the smoothed objective along the direction; an overflow is too far
            down = float(here.sums.beta @ direction.image)
            found = -(down - self.space.dot(here.at, direction))
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
