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
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Certificate, relative_gap
from widemargin.problems.soft_margin import SoftMargin, c_classification


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
        self, X: Matrix, w: FloatArray, b: float, a: FloatArray, *, tol: float, n_iter: int
    ) -> Certificate:
        """Return the certificate of the hyperplane w.x + b = 0 and of the dual variables a.

        `a` was returned by `feasible`. The KKT violation is that of the soft margin with respect
        to the threshold, see `SoftMargin.kkt_violation`.
        """
        if not sp.issparse(X):  # centring reduces the rounding errors of the products
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
