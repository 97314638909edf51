r"""Linear classification with an l1 penalty and the squared hinge loss.

The **primal** is LIBLINEAR's ``penalty="l1", loss="squared_hinge"``,

.. math::

    \min_{w, b} \; |w|_1 + \sum_i c_i \xi_i^2, \qquad
    \xi_i = \max(0,\, 1 - y_i (w \cdot x_i + b)),

and the **dual**

.. math::

    \max_{a \ge 0} \; \sum_i a_i - \sum_i \frac{a_i^2}{4 c_i}
    \quad\text{s.t.}\quad \Bigl|\sum_i a_i y_i x_{ij}\Bigr| \le 1 \text{ for all } j,
    \quad \sum_i y_i a_i = 0 \text{ (with an intercept)},

where

- :math:`x_i, y_i`: sample i and its label, -1 or +1;
- w, b: weights and intercept; b is not penalised, or absent;
- :math:`\xi_i, c_i`: slack and cost of a squared unit of slack;
- :math:`a_i`: multiplier, unsigned.

A penalised intercept, as in LIBLINEAR, is the weight of a constant feature that the caller appends;
the problem then has no intercept of its own.

At the optimum :math:`a_i = 2 c_i \xi_i`, and the *correlation* :math:`\sum_i a_i y_i x_{ij}` of
feature j equals the sign of :math:`w_j` where :math:`w_j \ne 0`. Any model gives a **feasible dual
point**: the multipliers :math:`2 c_i \xi_i`, scaled so that both classes have the same sum (they
have it already if b is optimal for w) and that no correlation exceeds 1; the scale that maximises
the dual on this ray is known. The optimal w need not be unique, the slacks are.

For small costs w = 0 is optimal, see `L1Margin.empty_model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import times
from widemargin._base.tolerances import SHORT_SUM_ROUNDING
from widemargin._base.typing import FloatArray
from widemargin.certificate import Bracket, Certificate, relative_gap, tightest
from widemargin.problems.linear_bounds import (
    NOTHING,
    PLAIN_COST_ERROR,
    best_on_ray,
    dual_sums,
    loss_sum,
    positive_and_negative,
)
from widemargin.problems.soft_margin.linear import Products


@dataclass(frozen=True, eq=False)
class L1Margin:
    """Linear classification with an l1 penalty and the squared hinge loss.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    cost : ndarray of shape (n_rows,)
        c, positive: C times the weight of each sample.
    intercept : bool, default=True
        Whether there is an intercept b, which is not penalised.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.l1_margin import L1Margin
    >>> problem = L1Margin(np.array([1.0, -1.0, -1.0]), np.full(3, 0.1))
    >>> round(problem.best_intercept(np.zeros(3)), 9)
    -0.333333333
    """

    y: FloatArray
    cost: FloatArray
    intercept: bool = True

    @property
    def name(self) -> str:
        """Name of the formulation, for the certificate."""
        return "l1 C-squared-hinge" + ("" if self.intercept else ", no intercept")

    def slack(self, f: FloatArray, b: float) -> FloatArray:
        """Return the slacks xi at the products f = Xw."""
        return np.maximum(1.0 - self.y * (f + b), 0.0)

    def multipliers(self, f: FloatArray, b: float) -> FloatArray:
        """Return 2 c xi, the multipliers of a model."""
        return 2.0 * self.cost * self.slack(f, b)

    def best_intercept(self, f: FloatArray, guess: float = 0.0) -> float:
        """Return the b that minimises the loss at f = Xw, or 0 without an intercept.

        The loss is quadratic in b as long as the same samples have a slack, and its minimiser is
        then their mean residual y - f, weighted by cost. Repeating this is Newton's method, which
        a bracket safeguards. If all b of an interval have no loss, one of them is returned.
        """
        if not self.intercept:
            return 0.0
        z, b, low, high = self.y - f, guess, -np.inf, np.inf
        for _ in range(200):
            used = np.flatnonzero(self.y * (z - b) > 0.0)
            if len(used) == 0:
                break
            weight, pull = self.cost[used], self.cost[used] * (z[used] - b)
            slope = float(pull.sum())
            if abs(slope) <= SHORT_SUM_ROUNDING * float(np.abs(pull).sum()):
                break
            low, high = (b, high) if slope > 0 else (low, b)
            new = b + slope / float(weight.sum())
            if not low < new < high:
                new = 0.5 * (low + high)
            if new == b or not low < new < high:
                break
            b = new
        return b

    def primal(self, w: FloatArray, f: FloatArray, b: float) -> float:
        """Return the primal objective, given f = Xw."""
        xi = self.slack(f, b)
        return float(np.abs(w).sum() + self.cost @ (xi * xi))

    def dual(self, alpha: FloatArray) -> float:
        """Return the dual objective of feasible multipliers."""
        return float(alpha.sum() - 0.25 * (alpha @ (alpha / self.cost)))

    def balanced(self, alpha: FloatArray) -> FloatArray:
        """Return nonnegative multipliers; with an intercept those of both classes sum to the same.

        The multipliers of the class with the larger sum are scaled down.
        """
        alpha = np.maximum(alpha, 0.0)
        if not self.intercept:
            return alpha
        positive, negative = self.y > 0, self.y < 0
        sums = float(alpha[positive].sum()), float(alpha[negative].sum())
        if min(sums) <= 0.0:
            return np.zeros_like(alpha)
        alpha[positive] *= min(1.0, sums[1] / sums[0])
        alpha[negative] *= min(1.0, sums[0] / sums[1])
        return alpha

    def scale(self, alpha: FloatArray, correlation: FloatArray) -> float:
        """Return the factor of balanced multipliers that maximises the dual.

        `correlation` is X'(y alpha) of the same multipliers; the factor makes the point feasible.
        """
        total, curve = float(alpha.sum()), 0.5 * float(alpha @ (alpha / self.cost))
        largest = float(np.abs(correlation).max(initial=0.0))
        best = total / curve if curve > 0 else 0.0
        return min(best, 1.0 / largest) if largest > 0 else best

    def violation(self, w: FloatArray, correlation: FloatArray) -> float:
        """Return the largest distance of a correlation from its value at the optimum.

        That is the sign of the weight, or the interval [-1, 1] if the weight is zero.
        """
        used = w != 0.0
        wrong = np.abs(correlation[used] - np.sign(w[used])).max(initial=0.0)
        return float(max(wrong, np.abs(correlation[~used]).max(initial=1.0) - 1.0))

    def empty_model(self) -> tuple[float, FloatArray]:
        """Return the optimal intercept for w = 0, and the multipliers of that model.

        w = 0 is optimal if and only if no correlation of these multipliers exceeds 1.
        """
        nothing = np.zeros(len(self.y))
        b = self.best_intercept(nothing)
        return b, self.multipliers(nothing, b)

    def certificate(
        self,
        rows: Products,
        coef: FloatArray,
        intercept: float,
        alpha: FloatArray,
        *,
        tol: float,
        n_iter: int,
        constant: float | None = None,
        blur: float = PLAIN_COST_ERROR,
    ) -> Certificate:
        """Return the certificate of a model and of multipliers alpha, recomputed from the data.

        The multipliers are made feasible first. The KKT violation is that of the multipliers
        2 c xi of the model: see `violation`, and with an intercept their signed sum. `constant` and
        `blur` are as in :func:`~widemargin.problems.linear_scan.linear_certificate`.
        """
        alpha = np.maximum(alpha, 0.0)
        bracket = tightest(
            partial(self._bracket, rows, coef, intercept, alpha, constant, blur), tol
        )
        weights = coef if constant is None else np.append(coef, intercept / constant)
        own = 0.0 if constant is not None else intercept
        signed = self.y * self.multipliers(rows.dot(weights), own)
        unbalanced = abs(float(signed.sum())) if self.intercept else 0.0
        return Certificate.from_objectives(
            self.name,
            primal=bracket.primal,
            dual=bracket.dual,
            kkt_violation=max(self.violation(weights, rows.combine(signed)), unbalanced),
            converged=relative_gap(bracket.primal, bracket.dual) <= tol,
            n_iter=n_iter,
            rounding=bracket.rounding,
        )

    def _bracket(
        self,
        rows: Products,
        coef: FloatArray,
        intercept: float,
        alpha: FloatArray,
        constant: float | None,
        blur: float,
        precise: bool,
    ) -> Bracket:
        """Return the bounds of the optimum, in float64 or in more digits."""
        weights = coef if constant is None else np.append(coef, 0.0)
        f = times(rows.X, weights, precise=precise, threads=rows.threads)
        size = abs(Enclosure.exact(coef)).sum()
        if constant is not None:
            size = size + abs(Enclosure.exact(intercept) / constant)
        loss = loss_sum(self.y, f, intercept, self.y, self.cost, squared=True)
        sums = dual_sums(
            rows.X, positive_and_negative(self.y * alpha), (self.y,) * 2, (self.cost,) * 2,
            squared=True, precise=precise, threads=rows.threads,
        )  # fmt: skip
        dual, found = NOTHING, sums.balanced(self.intercept)
        if found is not None:
            gain, square, pull = found
            largest = float(np.max(pull.size(), initial=0.0)) * (1.0 + 4.0 * U)
            longest = (1.0 - 4.0 * U) / largest if largest > 0.0 else np.inf
            dual = best_on_ray(gain, square.blurred(blur), longest)
        return Bracket.of(size + loss.blurred(blur), dual, trivial=0.0)
