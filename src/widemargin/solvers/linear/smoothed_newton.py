r"""Newton's method for the smoothed linear soft margin: one smoothing level.

Problem, with slack :math:`v_i = 1 - y_i (w \cdot x_i + b)`:

.. math::

    \min_{w, b} \; \psi = \tfrac12 |w|^2 + \sum_i M_i(v_i) - p \cdot w - s b,
    \qquad
    M_i(v) = \max_{0 \le a \le u_i} \; a v - \tfrac{\rho}{2 c_i} a^2
             - \tfrac{h_i}{2 c_i} (a - \bar a_i)^2 .

c : costs; u = c and rho = 0 for the hinge, u = infinity and rho = 1/2 for the squared hinge.
The centre :math:`\bar a` and h smooth the hinge over a width h: the derivative of M is

.. math:: a_i = \mathrm{clip}((h_i \bar a_i + c_i v_i) / (h_i + \rho),\, 0,\, u_i),

the dual variable of the sample. p and s are the sums over screened samples, which are fixed at a
bound (:math:`p = \sum y_i a_i x_i`, :math:`s = \sum y_i a_i`).

Using the last :math:`a` as the next centre makes the sequence of levels a method of multipliers,
whose limit is the hinge itself. A level is a piecewise quadratic problem, which Newton's method
with a line search solves in a few steps. Only the *free* samples, those within the smoothing
width, enter the Newton matrix.
After each step b is re-optimised, :math:`\sum y_i a_i = -s` holds to rounding, and
:math:`a` is a feasible point of the dual; with :math:`u = X'(ya) + p` the duality gap is

.. math:: \tfrac12 |w - u|^2 + \sum_i (\phi_i(v_i) - a_i v_i + \tfrac{\rho}{2 c_i} a_i^2),

with the loss phi: a sum of nonnegative terms, free of cancellation.

Regression with a tube of half width eps is the same with the residual
:math:`v_i = t_i - w \cdot x_i - b` in place of the slack, y = 1, and dual variables of either sign:
M is the maximum over :math:`|a| \le u_i` of the same expression minus :math:`\epsilon |a|`, and
:math:`a_i` shrinks by the tube before it is clipped: with
:math:`z = (h_i \bar a_i + c_i v_i) / (h_i + \rho)`,

.. math:: a_i = \mathrm{sign}(z) \min(u_i, \max(0, |z| - c_i \epsilon / (h_i + \rho))).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.linear.loops import respond, stationary
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients
from widemargin.solvers.numerics.data_products import LinearRows

LARGEST_FACTOR = 2000  # largest order of a factorisation: 32 MB, a tenth of a second
SMALL_FACTOR = 200  # up to this order factorisation is always used
NEAR = 0.02  # line search: slope at the end relative to the slope at the start
FORCING = 0.1  # relative residual of the linear system (inexact Newton)
MOST_PRODUCTS = 500  # conjugate-gradient iterations per Newton step


@dataclass
class ScreenedRows:
    """Contribution of the screened samples: X'(ya), sum of ya, and value in the dual."""

    vector: FloatArray
    sum: float
    value: float


class Level:
    """Samples, costs and current iterate of one smoothed problem.

    Attributes
    ----------
    problem : LinearProblem with cap 1; the costs c take the place of the cap. Given the sums over
        the samples, the objectives of the tubes are those of the hinges
    y : labels; ones for regression
    target, tube : of regression: slack at w = b = 0, half width eps of the tube; else 1 and None
    unit : typical size of the slacks
    origin : mean of the targets of regression, which is subtracted from them and from b
    w, b : weights and intercept
    v : slack of each sample at (w, b)
    a : dual variable of each sample, from the last :meth:`respond`; signed for regression
    u : X'(ya) + p
    centre, h : centre and width of the smoothing, per sample
    primal, dual, gap, residual : of the unsmoothed problem on these samples, from the last
        :meth:`respond`; the residual is the part of the gap that Newton's method can still remove
    moved : sum over steps of the root mean square change of the slacks
    """

    def __init__(
        self,
        problem: LinearProblem,
        rows: LinearRows,
        y: FloatArray,
        cost: FloatArray,
        *,
        target: FloatArray | None = None,
        tube: float | None = None,
        unit: float = 1.0,
    ) -> None:
        self.problem, self.rows, self.y, self.cost = problem, rows, y, cost
        self.squared, self.intercept = problem.kind == "squared_hinge", problem.intercept
        self.rho = 0.5 if self.squared else 0.0
        self.screened = ScreenedRows(np.zeros(rows.n_features), 0.0, 0.0)
        self.target: FloatArray | float = 1.0 if target is None else target
        self.tube, self.unit, self.origin = tube, unit, 0.0
        self.w = np.zeros(rows.n_features)
        self.b = 0.0
        self.v = np.zeros(rows.n_rows) + self.target
        self.a = np.zeros(rows.n_rows)
        self.u = np.zeros(rows.n_features)
        self.centre = np.zeros(rows.n_rows)
        self.h = np.ones(rows.n_rows)
        self.moved = 0.0
        self.cg_steps = 20.0  # running average of conjugate-gradient iterations per step
        self.primal, self.gap, self.residual, self.dual = np.inf, np.inf, np.inf, -np.inf

    def move_to(self, w: FloatArray, b: float) -> None:
        """Set w and b, and recompute the slacks."""
        self.w, self.b = w, b
        self.v = self.rows.dot(w)
        self.v += b
        self.v *= -self.y
        self.v += self.target

    def subset(self, chosen: IntArray, cost: FloatArray) -> Level:
        """Return the level of some samples, at w = 0 and b = 0, with other costs."""
        return Level(
            self.problem, self.rows.take(chosen), self.y[chosen], cost,
            target=None if isinstance(self.target, float) else self.target[chosen],
            tube=self.tube, unit=self.unit,
        )  # fmt: skip

    def value(self, a: FloatArray) -> float:
        """Return the part of the dual objective that is linear in a, or in a and |a|."""
        if self.tube is None:
            return float(a.sum())
        return float(self.target @ a) - self.tube * float(np.abs(a).sum())

    def free(self, a: FloatArray) -> IntArray:
        """Return the free samples: dual variable strictly inside its bounds."""
        size = a if self.tube is None else np.abs(a)
        return np.flatnonzero(size > 0.0 if self.squared else (size > 0.0) & (size < self.cost))

    def near(self, reach: FloatArray) -> IntArray:
        """Return the samples that are free or become free if their slack changes by reach."""
        place = self.v + self.h * self.centre / self.cost
        if self.tube is not None:
            place = np.abs(place) - self.tube
        close = place >= -reach
        if not self.squared:
            close &= place <= self.h + reach
        return np.flatnonzero(close)

    def best_intercept(self, f: FloatArray, guess: float) -> float:
        """Return the b that minimises the unsmoothed squared loss at f = Xw."""
        bare = np.zeros_like(self.cost)
        v = self.target - self.y * (f + guess)
        smoothing = bare, self.cost, False, bare, self.rho, self.tube
        t = float(stationary(v, self.y, *smoothing, 0.0, 0.0, 0.0, 0.0))
        if self.tube is not None and (np.abs(v - t) <= self.tube).all():
            t = 0.5 * float(v.max() + v.min())  # no loss on an interval: its midpoint
        return guess + t

    def respond(self) -> None:
        """Re-optimise b, then update a, u and the objectives."""
        if self.intercept:
            t = stationary(self.v, self.y, *self._smoothing(), -self.screened.sum, 0.0, 0.0, 0.0)
            self.b += t
            self.v -= t * self.y
        a = np.empty_like(self.a)
        loss, smoothing_gap, ridge = respond(self.v, *self._smoothing(), a)
        # Only samples whose a changed are read: the product skips zero coefficients.
        self.u = self.u + self.rows.combine(self.y * (a - self.a))
        self.a = a
        lag = self.w - self.u
        others, t = self.screened, np.full(1, self.b)
        offset = others.value - float(others.vector @ self.w) - others.sum * self.b
        self.primal = self.problem.primal(self.w, t, loss) + offset
        self.dual = self.problem.dual(self.u, self.value(a) - ridge + others.value)
        self.residual = 0.5 * float(lag @ lag)
        self.gap = self.residual + smoothing_gap

    def step(self, *, ahead: bool) -> None:
        """Take one Newton step with line search.

        ``ahead`` marks the first step after a change of the centre. The interval of slacks in which
        samples are free has then jumped away from the samples that were free before, but they will
        be free again at the new optimum. So the step uses the free set of the centre.
        """
        free, gradient, lack = self.free(self.a), self.w - self.u, 0.0
        if ahead:
            free = self.free(self.centre)
            h = self.h[free]
            model, v = self.centre.copy(), self.v[free]
            if self.tube is not None:
                v = v - self.tube * np.sign(model[free])
            model[free] = (h * model[free] + self.cost[free] * v) / (h + self.rho)
            change = self.y * (model - self.a)
            gradient = gradient - self.rows.combine(change)
            lack = float(change.sum()) if self.intercept else 0.0
        dw, db = self._direction(free, gradient, lack)
        e = self.rows.dot(dw)
        e += db
        e *= self.y
        if not np.isfinite(e).all():
            return  # overflow: the outer loop stops after `STALLED` steps without progress
        slope = float((self.w - self.screened.vector) @ dw) - self.screened.sum * db
        near = NEAR * abs(float((self.w - self.u) @ dw))
        t = stationary(self.v, e, *self._smoothing(), slope, float(dw @ dw), 1.0, near)
        self.w = self.w + t * dw
        self.b += t * db
        self.v -= t * e
        self.moved += abs(t) * float(np.sqrt(np.mean(e * e)))

    def _smoothing(
        self,
    ) -> tuple[FloatArray, FloatArray, bool, FloatArray, float, float | None]:
        """Return the smoothing parameters in the order of the compiled loops' arguments."""
        return self.centre, self.cost, not self.squared, self.h, self.rho, self.tube

    def _direction(
        self, free: IntArray, gradient: FloatArray, lack: float
    ) -> tuple[FloatArray, float]:
        """Return the Newton direction of the free samples; b is eliminated from the system."""
        if len(free) == 0:  # no curvature: steepest descent, b keeps the mean decision value
            middle = self.rows.combine(np.full(self.rows.n_rows, 1.0 / self.rows.n_rows))
            return -gradient, float(middle @ gradient) if self.intercept else 0.0
        weight = self.cost[free] / (self.h[free] + self.rho)
        mass = float(weight.sum())
        middle = np.zeros(self.rows.n_features)
        if self.intercept:
            spread = np.zeros(self.rows.n_rows)
            spread[free] = weight / mass
            middle = self.rows.combine(spread)
        right = -(gradient + lack * middle)
        dw = self._solve(free, weight, middle, right)
        return dw, lack / mass - float(middle @ dw) if self.intercept else 0.0

    def _solve(
        self, free: IntArray, weight: FloatArray, middle: FloatArray, right: FloatArray
    ) -> FloatArray:
        """Return (1 + sum_k weight_k (x_k - middle)(x_k - middle)')^-1 right."""
        order = min(len(free), self.rows.n_features)
        if order <= LARGEST_FACTOR and self._factor_is_cheaper(free, order):
            try:
                if len(free) < self.rows.n_features:
                    return _solve_by_rows(self.rows, free, weight, middle, right)
                gram = self.rows.feature_gram(free, weight, middle)
                gram[np.diag_indices_from(gram)] += 1.0
                return np.asarray(
                    cho_solve(cho_factor(gram, check_finite=False), right, check_finite=False)
                )
            except LinAlgError:
                pass  # numerically singular: conjugate gradients still give a descent direction
        found = conjugate_gradients(
            lambda p: p + self.rows.curvature(free, weight, middle, p),
            right,
            self._preconditioner(free, weight, middle),
            goal=lambda size: FORCING**2 * size,
            most=MOST_PRODUCTS,
        )
        self.cg_steps = 0.5 * (self.cg_steps + found.n_products)
        return np.asarray(found.x)

    def _preconditioner(
        self, free: IntArray, weight: FloatArray, middle: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """Return the inverse of the diagonal, after elimination of a constant feature if any.

        The constant feature s has the row (s sum_k weight_k x_k, 1 + s^2 sum_k weight_k) in the
        Newton matrix. Eliminating it centres the others, as eliminating b does.
        """
        if not self.rows.constant:
            diagonal = 1.0 + self.rows.spread(free, weight, middle)
            return lambda r: r / diagonal
        mass = float(weight.sum())
        share = np.zeros(self.rows.n_rows)
        share[free] = weight / mass
        mean = self.rows.combine(share)
        diagonal = 1.0 + self.rows.spread(free, weight, mean)
        pivot, row = 1.0 + mass * mean[-1] ** 2, mass * mean[-1] * mean
        row[-1] = 0.0

        def solve(r: FloatArray) -> FloatArray:
            found = (r - (r[-1] / pivot) * row) / diagonal
            found[-1] = (r[-1] - float(row @ found)) / pivot
            return found

        return solve

    def _factor_is_cheaper(self, free: IntArray, order: int) -> bool:
        """Return whether a factorisation is cheaper than conjugate gradients.

        If these need many iterations, their inexact directions also cost more Newton steps.
        """
        if order <= SMALL_FACTOR:
            return True
        factor = order**3 / 30.0 + order**2
        steps = self.cg_steps * max(1.0, self.cg_steps / 30.0)
        product = 3.0 * self.rows.size_of(free) + 10.0 * self.rows.n_features
        return self.rows.cost_of_gram(free) + factor <= steps * product


def _solve_by_rows(
    rows: LinearRows, free: IntArray, weight: FloatArray, middle: FloatArray, right: FloatArray
) -> FloatArray:
    """Solve the Newton system by Woodbury's identity: for fewer free samples than features."""
    system = rows.row_gram(free, middle)
    system[np.diag_indices_from(system)] += 1.0 / weight
    everywhere = np.zeros(rows.n_rows)
    projected = rows.dot(right)[free] - middle @ right
    inner = cho_solve(cho_factor(system, check_finite=False), projected, check_finite=False)
    everywhere[free] = inner
    return right - (rows.combine(everywhere) - inner.sum() * middle)
