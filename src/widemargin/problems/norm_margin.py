r"""Maximum-margin hyperplanes with weights measured in l_p and distances in l_q, 1/p + 1/q = 1.

The l_q distance of a point x from the hyperplane w.x + b = 0 is :math:`|w \cdot x + b| / |w|_p`
(Mangasarian 1997). The **hard margin** is the plane whose nearest row is farthest away,
Smola et al. (2000), (1.15)-(1.22):

.. math:: \min_{w, b} \; |w|_p \quad\text{s.t.}\quad y_i (w \cdot x_i + b) \ge 1 .

The constraint :math:`|w|_p = 1` of (1.18) and (1.20)-(1.22) is not convex; with
:math:`\le` it is, and the optimum is the same if and only if some plane separates the classes.
The **soft margin** lets rows fall short by :math:`\xi_i \ge 0` at a cost :math:`c_i` each:

.. math::

    p = 2: \; \min \; \tfrac12 |w|_2^2 + \sum_i c_i \xi_i \text{ (1.25)}, \qquad
    p \ne 2: \; \min \; |w|_p + \sum_i c_i \xi_i .

The **dual** has one variable a row, and :math:`v = \sum_i y_i a_i x_i`:

=====================  ==================================  ========================================
problem                maximise                            subject to
=====================  ==================================  ========================================
hard                   :math:`\sum_i a_i`                  :math:`|v|_q \le 1`, :math:`a \ge 0`
soft, :math:`p \ne 2`  :math:`\sum_i a_i`                  :math:`|v|_q \le 1`,
                                                           :math:`0 \le a \le c`
soft, p = 2            :math:`\sum_i a_i - \frac12|v|^2`   :math:`0 \le a \le c`
=====================  ==================================  ========================================

each with :math:`\sum_i y_i a_i = 0`. That of the hard margin, scaled so that the variables of each
class have the sum 1, is the search for the nearest points of the two convex hulls in l_q: their
distance is twice the margin.

For p = 1 and p = inf several w may be best; the margin of the hard problem is always unique.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Certificate, relative_gap
from widemargin.problems.soft_margin import SoftMargin, c_classification


def length(vector: FloatArray, p: float) -> float:
    """Return the l_p norm, without overflow for any p.

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
    """Return q with 1/p + 1/q = 1."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


@dataclass(frozen=True, eq=False)
class NormMargin:
    """One of the problems above, for labels -1 and +1.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Labels.
    cost : ndarray of shape (n_rows,)
        c, the cost of a unit of slack; inf on every row is the hard margin.
    norm : float
        p.
    """

    y: FloatArray
    cost: FloatArray
    norm: float

    @property
    def hard(self) -> bool:
        """Whether there is no slack."""
        return bool(np.isinf(self.cost[0]))

    @property
    def squared(self) -> bool:
        """Whether half the square of the norm is minimised."""
        return self.norm == 2.0 and not self.hard

    @property
    def dual_norm(self) -> float:
        """q."""
        return conjugate(self.norm)

    @property
    def name(self) -> str:
        """Name of the formulation."""
        return f"{'hard' if self.hard else 'soft'} l_{self.norm:g} margin"

    @cached_property
    def box(self) -> SoftMargin:
        """The labels, the costs and the threshold: all that does not depend on the norm."""
        return c_classification(self.y, self.cost)

    def threshold(self, f: FloatArray) -> float:
        """Return the best b for f = w.x on the rows: the midpoint where there is an interval."""
        if not self.hard:
            return float(self.box.thresholds(f)[0])
        lowest, highest = f[self.y > 0].min(), f[self.y < 0].max()
        return -0.5 * float(lowest + highest)

    def functional_margin(self, f: FloatArray, b: float) -> float:
        """Return the least y (f + b), or 0 where it is within its rounding error."""
        least = float((self.y * (f + b)).min())
        return least if abs(least) > PRODUCT_ROUNDING * (float(np.abs(f).max()) + abs(b)) else 0.0

    def margin(self, w: FloatArray, f: FloatArray, b: float) -> float:
        """Return the l_q distance of the nearest row (hard) or of the planes w.x + b = +-1 (soft).

        For w = 0 there is no hyperplane: 0 for the hard margin, and infinity, the limit as w goes
        to zero, for the soft one.
        """
        size = length(w, self.norm)
        if self.hard:
            return self.functional_margin(f, b) / size if size > 0 else 0.0
        return 1.0 / size if size > 0 else np.inf

    def primal(self, w: FloatArray, f: FloatArray, b: float) -> float:
        """Return the objective at a plane, given f = w.x on the rows.

        For the hard margin that of the multiple of the plane that just meets its constraints; inf
        if the plane does not separate the classes.
        """
        size = length(w, self.norm)
        if self.hard:
            least = self.functional_margin(f, b)
            return size / least if least > 0 else np.inf
        slack = np.maximum(0.0, 1.0 - self.y * (f + b))
        return (0.5 * size * size if self.squared else size) + float(self.cost @ slack)

    def dual(self, a: FloatArray, v: FloatArray) -> float:
        """Return the dual objective at the feasible multiple of a, given v = sum_i y_i a_i x_i.

        The boxes hold for a and so for every shorter multiple; |v|_q <= 1 is met by division. For
        the hard margin v = 0 proves that no plane separates: inf.
        """
        total = float(a.sum())
        if self.squared:
            return total - 0.5 * float(v @ v)
        size = length(v, self.dual_norm)
        if self.hard and total > 0:
            return total / size if size > 0 else np.inf
        return total / max(1.0, size)

    def feasible(self, a: FloatArray, f: FloatArray, b: float) -> FloatArray:
        """Return a point near a in its boxes with sum_i y_i a_i = 0, for a plane with f = w.x.

        What the sum lacks is taken from the rows nearest to the margin, where a may have any value.
        """
        return self.y * self.box.repair(self.y * a, np.abs(1.0 - self.y * (f + b)))

    def certificate(
        self, X: Matrix, w: FloatArray, b: float, a: FloatArray, *, tol: float, n_iter: int
    ) -> Certificate:
        """Certify the plane w.x + b = 0 on rows X by a point that `feasible` has returned.

        Dense rows are taken from their mean, which spares sums of large terms. The KKT violation
        is that of the soft margin in the threshold: how much the thresholds differ that rows
        below and above their bounds ask for.
        """
        if not sp.issparse(X):
            origin = X.mean(axis=0, dtype=np.float64)
            X, b = X - origin, b + float(w @ origin)
        f, v = X @ w, X.T @ (self.y * a)
        primal, dual = self.primal(w, f, b), self.dual(a, v)
        known = np.isfinite(primal)
        found = Certificate.from_objectives(
            self.name,
            primal=primal,
            dual=dual,
            kkt_violation=max(0.0, self.box.kkt_violation(self.y * a, f)),
            converged=relative_gap(primal, dual) <= tol,
            n_iter=n_iter,
        )
        return found if known else replace(found, gap=np.inf, relative_gap=np.inf)
