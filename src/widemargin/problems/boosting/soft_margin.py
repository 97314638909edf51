r"""LPBoost: the convex combination of weak hypotheses with the best soft margin.

The **primal** is the linear program (Demiriz, Bennett and Shawe-Taylor 2002; Raetsch et al. 2000)

.. math::

    \min_{\alpha, \rho, \xi} \; -\rho + \sum_i c_i \xi_i
    \quad\text{s.t.}\quad y_i f(x_i) + \xi_i \ge \rho, \;
    \sum_t \alpha_t = 1, \; \alpha, \xi \ge 0,
    \qquad f = \sum_t \alpha_t g_t, \quad c_i = \frac{s_i}{\nu \sum_j s_j},

and the **dual**, over distributions u of the samples,

.. math::

    \max_u \; -\max_g \sum_i u_i y_i g(x_i) \quad\text{s.t.}\quad
    \sum_i u_i = 1, \; 0 \le u_i \le c_i,

where

- :math:`x_i, y_i, s_i`: sample i, its label -1 or +1, and its weight; weight 2 means the sample
  twice;
- g: any hypothesis of the class, with values -1 and +1; :math:`\alpha_t` is the coefficient of one
  of them;
- :math:`\rho`: margin, :math:`\xi_i`: slack, :math:`c_i`: cost of a unit of slack;
- :math:`\sum_i u_i y_i g(x_i) = 1 - 2 \varepsilon`: **edge** of g, where :math:`\varepsilon` is its
  error weighted by u, (1.85) of Smola et al. (2000).

It is (1.20) of Smola et al. (2000) in the space whose coordinates are the values of all hypotheses,
without intercept, since the hypotheses include the constants, and softened as in (1.23)-(1.25). For
:math:`\nu` at most the smallest :math:`s_i / \sum_j s_j` no slack pays, and rho is the largest
possible smallest margin. At an optimum at most a fraction :math:`\nu` of the samples has a margin
below rho, and at least that fraction a margin of at most rho.

**Numbers.** Coefficients and distributions are rounded to multiples of :data:`UNIT`, coefficients
so that their sum is 1. Sums of values -1 and +1 with such weights are exact in float64, in any
order: margins, weighted errors and edges have no rounding error. A distribution that is rounded
down lacks some mass d; a feasible one that is nowhere smaller exists, and its edges are at most
those of the rounded one plus d, which is :math:`1 - 2 \varepsilon` with the error of the rounded
one. Hence the largest edge over all stumps is a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.typing import BoolArray, FloatArray
from widemargin.certificate import Certificate, relative_gap

UNIT = 2.0**-52
"""Coefficients and distributions are multiples of it, so that their sums are exact."""

TRIVIAL = -1.0
"""Lower bound for any hypotheses: no edge exceeds 1."""

LARGEST_CAP = 2.0
"""Caps of u above it are replaced by it; as u sums to 1, they do not bind."""


@dataclass(frozen=True, eq=False)
class SoftMarginVote:
    """Linear program of LPBoost, as stated in the module docstring.

    Attributes
    ----------
    positive : ndarray of bool of shape (n_rows,)
        Whether the label is +1.
    weight : ndarray of shape (n_rows,)
        Positive weights s.
    nu : float
        In (0, 1].
    blur : float
        Bound on the relative error of each weight (sums of the weights of merged samples).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.boosting.soft_margin import SoftMarginVote
    >>> problem = SoftMarginVote(np.array([True, True, False, False]), np.ones(4), nu=0.5)
    >>> margins = np.array([0.2, 0.6, -0.4, 0.6])
    >>> problem.demand(margins), round(problem.objective(margins), 9)
    (0.2, 0.1)
    """

    positive: BoolArray
    weight: FloatArray
    nu: float
    blur: float = 0.0

    @property
    def label(self) -> FloatArray:
        """Labels -1.0 and +1.0."""
        return np.where(self.positive, 1.0, -1.0)

    @property
    def share(self) -> FloatArray:
        """Share of each sample in the weights, the uniform distribution."""
        return self.weight / self.weight.sum()

    @property
    def cap(self) -> FloatArray:
        """Upper bound c of u, the cost of a unit of slack."""
        return np.minimum(self.share, LARGEST_CAP * self.nu) / self.nu

    def demand(self, margins: FloatArray) -> float:
        """Return the rho that minimises the objective, one of the margins."""
        order = np.argsort(margins, kind="stable")
        below = np.cumsum(self.share[order])
        place = int(np.searchsorted(below, self.nu * (1.0 - 1e-12)))
        return float(margins[order[min(place, len(order) - 1)]])

    def objective(self, margins: FloatArray) -> float:
        """Return the primal objective of margins y f(x), at the best rho."""
        rho = self.demand(margins)
        return float(self.share @ np.maximum(rho - margins, 0.0)) / self.nu - rho

    def feasible(self, u: FloatArray) -> FloatArray:
        """Return a point near u that satisfies the constraints, up to rounding."""
        cap = self.cap
        u = np.clip(u, 0.0, cap)
        total, room = float(u.sum()), cap - u
        if total >= 1.0:
            return u / total
        return u + room * min(1.0, (1.0 - total) / max(float(room.sum()), U))

    def rounded_distribution(self, u: FloatArray) -> FloatArray:
        """Return multiples of UNIT near u that sum to at most 1 and do not exceed the exact caps.

        The sum is 1 if the caps have room for it.
        """
        error = 16.0 * U + 4.0 * self.blur + 2.0 * len(u) * U
        highest = np.floor(np.minimum(self.cap * (1.0 - error), 1.0) / UNIT) * UNIT
        found = np.minimum(np.floor(np.maximum(u, 0.0) / UNIT) * UNIT, highest)
        if found.sum() > 1.0:
            found = np.floor(found / (float(found.sum()) * (1.0 + 8.0 * U)) / UNIT) * UNIT
        missing, room = 1.0 - float(found.sum()), highest - found
        if missing > 0.0:
            order = np.argsort(-room, kind="stable")
            before = np.concatenate([[0.0], np.cumsum(np.minimum(room[order], 1.0))[:-1]])
            found[order] += np.clip(missing - before, 0.0, room[order])
        return found if float(found.sum()) <= 1.0 else np.zeros_like(found)

    def certificate(
        self,
        margins: FloatArray,
        rho: float,
        edge: float | None,
        *,
        tol: float,
        n_iter: int,
        satisfied: bool = False,
    ) -> Certificate:
        """Return the certificate of a vote with coefficients rounded by :func:`rounded_vote`.

        Parameters
        ----------
        margins : ndarray of shape (n_rows,)
            y f(x) of the rounded coefficients, exact.
        rho : float
            Published margin.
        edge : float or None
            Largest edge of all hypotheses, 1 - 2 error, for a distribution rounded by
            `rounded_distribution`; None if it is not known for all of them.
        tol : float
            Gap to reach.
        n_iter : int
            Number of rounds.
        satisfied : bool, default=False
            Whether the stopping rule holds for a learner whose largest edge is not known.
        """
        with np.errstate(over="ignore"):
            slack = np.maximum(rho - margins, 0.0)
        used = np.flatnonzero(slack)
        loss = Enclosure.exact(self.weight[used]).dot(slack[used])
        cost = loss / (Enclosure.exact(self.weight).sum() * self.nu)
        primal = cost.blurred(3.0 * self.blur) - rho
        dual = TRIVIAL if edge is None else -edge
        # An edge, and a margin without slacks, are exact: rounding them would only lose a digit.
        above = primal.upper() if len(used) else -rho
        unmet = relative_gap(above, dual)
        return Certificate.from_objectives(
            "LPBoost" if edge is not None else "LPBoost on the hypotheses of base",
            primal=above,
            dual=dual,
            kkt_violation=unmet if edge is not None else np.nan,
            converged=unmet <= tol if edge is not None else satisfied,
            n_iter=n_iter,
            rounding=above - float(primal.hi),
        )


def rounded_vote(alpha: FloatArray) -> FloatArray:
    """Return coefficients near alpha, divided by their sum, as multiples of UNIT that sum to 1."""
    scaled = np.maximum(alpha, 0.0) / np.maximum(alpha, 0.0).sum()
    units = np.floor(scaled / UNIT).astype(np.int64)
    units[units.argmax()] += round(1.0 / UNIT) - int(units.sum())
    return units * UNIT
