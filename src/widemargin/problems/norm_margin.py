r"""Maximum-margin hyperplanes with weights measured in l_p and distances in l_q, 1/p + 1/q = 1.

The l_q distance of a sample x from the hyperplane w.x + b = 0 is :math:`|w \cdot x + b| / |w|_p`
(Mangasarian 1997). The **hard-margin primal** maximises the distance of the nearest sample, Smola
et al. (2000), (1.15)-(1.22):

.. math:: \min_{w, b} \; |w|_p \quad\text{s.t.}\quad y_i (w \cdot x_i + b) \ge 1 .

The constraint :math:`|w|_p = 1` of (1.18) and (1.20)-(1.22) is not convex; with
:math:`\le` it is, and the optimum is the same if and only if the classes are linearly separable.
The **soft-margin primal** allows slacks :math:`\xi_i \ge 0` at a cost :math:`c_i` per unit:

.. math::

    p = 2: \; \min \; \tfrac12 |w|_2^2 + \sum_i c_i \xi_i \text{ (1.25)}, \qquad
    p \ne 2: \; \min \; |w|_p + \sum_i c_i \xi_i .

The **dual** has one variable per sample; with :math:`v = \sum_i y_i a_i x_i` it is

=====================  ==================================  ========================================
problem                maximise                            subject to
=====================  ==================================  ========================================
hard                   :math:`\sum_i a_i`                  :math:`|v|_q \le 1`, :math:`a \ge 0`
soft, :math:`p \ne 2`  :math:`\sum_i a_i`                  :math:`|v|_q \le 1`,
                                                           :math:`0 \le a \le c`
soft, p = 2            :math:`\sum_i a_i - \frac12|v|^2`   :math:`0 \le a \le c`
=====================  ==================================  ========================================

each with :math:`\sum_i y_i a_i = 0`, where

- :math:`x_i, y_i`: sample i and its label, -1 or +1;
- w, b: weights and intercept;
- :math:`\xi_i, c_i`: slack and cost of a unit of slack;
- :math:`a_i`: dual variable;
- p, q: norm of the weights and norm of the distances.

The dual of the hard margin, scaled so that the variables of each class sum to 1, finds the nearest
points of the two convex hulls in l_q; their distance is twice the margin.

For p = 1 and p = inf the optimal w need not be unique; the margin of the hard problem always is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import times
from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Bracket, Certificate, relative_gap, tightest
from widemargin.problems.linear_bounds import (
    NOTHING,
    PLAIN_COST_ERROR,
    dual_sums,
    loss_sum,
    positive_and_negative,
    ridge_bracket,
    squared_norm,
)
from widemargin.problems.soft_margin import SoftMargin, c_classification

POWER_ULP = 8.0  # assumed bound on the relative error of NumPy's power, in units of U


def length(vector: FloatArray, p: float) -> float:
    """Return the l_p norm of a vector, without overflow for any p.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.norm_margin import length
    >>> length(np.array([3.0, -4.0]), 2), length(np.array([3.0, -4.0]), np.inf)
    (5.0, 4.0)
    """
    size = np.abs(vector)
    largest = float(size.max(initial=0.0))
    if largest == 0.0 or np.isinf(p):
        return largest
    return largest * float(np.sum((size / largest) ** p) ** (1.0 / p))


def conjugate(p: float) -> float:
    """Return the conjugate exponent q, with 1/p + 1/q = 1."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


@dataclass(frozen=True, eq=False)
class NormMargin:
    """Maximum-margin problem in l_p, hard or soft.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    cost : ndarray of shape (n_rows,)
        c, the cost of a unit of slack; inf for all samples is the hard margin.
    norm : float
        p, the norm of the weights.
    """

    y: FloatArray
    cost: FloatArray
    norm: float

    @property
    def hard(self) -> bool:
        """Whether this is the hard margin."""
        return bool(np.isinf(self.cost[0]))

    @property
    def squared(self) -> bool:
        """Whether the objective has half the squared norm of w (soft margin with p = 2)."""
        return self.norm == 2.0 and not self.hard

    @property
    def dual_norm(self) -> float:
        """Conjugate exponent q, the norm of the distances."""
        return conjugate(self.norm)

    @property
    def name(self) -> str:
        """Name of the formulation."""
        return f"{'hard' if self.hard else 'soft'} l_{self.norm:g} margin"

    @cached_property
    def box(self) -> SoftMargin:
        """Soft-margin problem with the same labels, costs and threshold; independent of p."""
        return c_classification(self.y, self.cost)

    def threshold(self, f: FloatArray) -> float:
        """Return the optimal b for f = w.x, the midpoint if an interval is optimal."""
        if not self.hard:
            return float(self.box.thresholds(f)[0])
        lowest, highest = f[self.y > 0].min(), f[self.y < 0].max()
        return -0.5 * float(lowest + highest)

    def functional_margin(self, f: FloatArray, b: float) -> float:
        """Return the smallest y (f + b), or 0 if it is within its rounding error."""
        least = float((self.y * (f + b)).min())
        return least if abs(least) > PRODUCT_ROUNDING * (float(np.abs(f).max()) + abs(b)) else 0.0

    def margin(self, w: FloatArray, f: FloatArray, b: float) -> float:
        """Return the l_q margin: distance of the nearest sample (hard) or of w.x + b = 1 (soft).

        For w = 0 there is no hyperplane; the margin is 0 for the hard margin, and infinity, the
        limit as w goes to zero, for the soft margin.
        """
        size = length(w, self.norm)
        if self.hard:
            return self.functional_margin(f, b) / size if size > 0 else 0.0
        return 1.0 / size if size > 0 else np.inf

    def primal(self, w: FloatArray, f: FloatArray, b: float) -> float:
        """Return the primal objective at (w, b), given f = w.x.

        For the hard margin, (w, b) is scaled to the smallest feasible multiple; the objective is
        inf if the hyperplane does not separate the classes.
        """
        size = length(w, self.norm)
        if self.hard:
            least = self.functional_margin(f, b)
            return size / least if least > 0 else np.inf
        slack = np.maximum(0.0, 1.0 - self.y * (f + b))
        return (0.5 * size * size if self.squared else size) + float(self.cost @ slack)

    def dual(self, a: FloatArray, v: FloatArray) -> float:
        """Return the dual objective at a feasible multiple of a, given v = sum_i y_i a_i x_i.

        Scaling a down to meet |v|_q <= 1 keeps it within its box. For the hard margin v = 0 proves
        that the classes are not separable, and the result is inf.
        """
        total = float(a.sum())
        if self.squared:
            return total - 0.5 * float(v @ v)
        size = length(v, self.dual_norm)
        if self.hard and total > 0:
            return total / size if size > 0 else np.inf
        return total / max(1.0, size)

    def feasible(self, a: FloatArray, f: FloatArray, b: float) -> FloatArray:
        """Return a point near a in its box with sum_i y_i a_i = 0, for a hyperplane with f = w.x.

        The correction goes to the samples nearest to the margin first, since complementary
        slackness leaves a free for samples on the margin.
        """
        return self.y * self.box.repair(self.y * a, np.abs(1.0 - self.y * (f + b)))

    def certificate(
        self,
        X: Matrix,
        w: FloatArray,
        b: float,
        a: FloatArray,
        *,
        tol: float,
        n_iter: int,
        blur: float = PLAIN_COST_ERROR,
    ) -> Certificate:
        """Return the certificate of the hyperplane w.x + b = 0 and of the dual variables a.

        `a` was returned by `feasible`. The KKT violation is that of the soft margin with respect
        to the threshold, see `SoftMargin.kkt_violation`. `blur` is the relative error of the costs.
        """
        a = np.clip(a, 0.0, self.cost)
        bracket = tightest(partial(self._bracket, X, w, b, a, blur), tol)
        if not sp.issparse(X):  # centring reduces the rounding errors of the products
            X = X - X.mean(axis=0, dtype=np.float64)
        known = np.isfinite(bracket.primal)
        found = Certificate.from_objectives(
            self.name,
            primal=bracket.primal,
            dual=bracket.dual,
            kkt_violation=max(0.0, self.box.kkt_violation(self.y * a, X @ w)),
            converged=relative_gap(bracket.primal, bracket.dual) <= tol,
            n_iter=n_iter,
            rounding=bracket.rounding,
        )
        return found if known else replace(found, gap=np.inf, relative_gap=np.inf)

    def _bracket(
        self, X: Matrix, w: FloatArray, b: float, a: FloatArray, blur: float, precise: bool
    ) -> Bracket:
        """Return the bounds of the optimum, in float64 or in more digits."""
        f, cost = times(X, w, precise=precise), (self.cost,) * 2
        sums = dual_sums(
            X, positive_and_negative(self.y * a), (self.y,) * 2, cost, squared=False,
            precise=precise,
        )  # fmt: skip
        if self.squared:
            loss = loss_sum(self.y, f, b, self.y, self.cost, squared=False)
            norm2 = squared_norm(w, b, None)
            return ridge_bracket(norm2, loss, sums, intercept=True, capped=True, blur=blur)
        found, dual = sums.balanced(True), NOTHING
        if found is not None:
            gain, _, pull = found
            size = enclosed_length(pull, self.dual_norm).upper()
            # The dual of the hard margin does not depend on the scale of the variables.
            longest = np.inf if self.hard else 1.0 - 2.0 * blur
            dual = gain * min(longest, (1.0 - 4.0 * U) / size)
        length_of_w = enclosed_length(Enclosure.exact(w), self.norm)
        if not self.hard:
            loss = loss_sum(self.y, f, b, self.y, self.cost, squared=False)
            return Bracket.of(length_of_w + loss.blurred(blur), dual, trivial=0.0)
        margins = (f + b) * self.y
        least = margins[np.argmin(margins.lower())]
        if not least.lower() > 0.0:
            return Bracket(np.inf, max(dual.lower(), 0.0), 0.0)
        return Bracket.of(length_of_w / least, dual, trivial=0.0)


def enclosed_length(vector: Enclosure, p: float) -> Enclosure:
    """Return the l_p norm of a vector; p is within a relative error of 4 U of the exact exponent.

    Powers are assumed to have a relative error of at most POWER_ULP units.
    """
    if p == 1.0:
        return abs(vector).sum()
    above, below = abs(vector).upper(), np.maximum(abs(vector).lower(), 0.0)
    if np.isinf(p):
        high, low = float(above.max(initial=0.0)), float(below.max(initial=0.0))
    else:
        # Of the sum of d powers of quotients, of its root, and of the exponent.
        d = len(above)
        error = (4.0 * POWER_ULP + 16.0 + 4.0 * (d + POWER_ULP + 16.0) / p) * U
        high, low = length(above, p) * (1.0 + error), length(below, p) * (1.0 - error)
    middle = 0.5 * (high + low)
    return Enclosure.within(middle, (high - low) * (0.5 + 4.0 * U) + 4.0 * U * middle)
