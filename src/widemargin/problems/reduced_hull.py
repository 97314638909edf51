r"""Nearest points of reduced convex hulls, and the nu- and C-machines with the same boundary.

Every class may put at most the mass :math:`D_i` on its example i (:math:`D_i = 1/k`: on no fewer
than k examples). The points that it can reach form its *reduced hull*; the machine is the
hyperplane between the nearest points of the two.

P2 (primal, Balcázar et al. 2008)

.. math::

    \min_{w, \theta_+, \theta_-} \tfrac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i
    \quad\text{s.t.}\quad w \cdot x_i \ge \theta_+ - \xi_i \;(y_i = 1), \quad
    w \cdot x_i \le \theta_- + \xi_i \;(y_i = -1), \quad \xi_i \ge 0 .

P3 (dual)

.. math::

    \max_s \; -\tfrac12 |w|^2, \quad w = \sum_i y_i s_i x_i
    \quad\text{s.t.}\quad 0 \le s_i \le D_i, \quad
    \sum_{y_i = 1} s_i = \sum_{y_i = -1} s_i = 1 .

P1, the hard margin, is any D > 1; P5, the same machine on the means of k examples ("composed
examples"), is what P3 says when every s is written as a mixture of such means.

In the family of :mod:`widemargin.problems.soft_margin` this is target 0, box [0, D] y and two
groups with totals +1 and -1, whose thresholds are :math:`-\theta_+` and :math:`-\theta_-`.

=======================  ==========================================================================
at the optimum           value
=======================  ==========================================================================
margin                   :math:`\theta_+ - \theta_- = |w|^2 + \sum_i D_i \xi_i`
:math:`\theta_+`         anywhere between two neighbours of the sorted w.x of its class: where D,
                         added up from the lowest, reaches 1; mirrored for :math:`\theta_-`
nearest points           :math:`\eta_+ = \theta_+ - \sum_+ D_i \xi_i`,
                         :math:`\eta_- = \theta_- + \sum_- D_i \xi_i` (their values of w.x)
nu-machine               nu = 2 / sum(D), weights in proportion to D
C-machine                :math:`C_i = 2 D_i / (\theta_+ - \theta_-)`,
                         :math:`w_C = 2 w / (\theta_+ - \theta_-)`,
                         :math:`b = -(\theta_+ + \theta_-) / (\theta_+ - \theta_-)`
=======================  ==========================================================================

The hulls meet if and only if w = 0. That they do not is proved by any w with
:math:`\eta_+ > \eta_-`: its objective, with w scaled at will, is below zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.soft_margin import SoftMargin, each_class_by_itself

HARD = 2.0  # any D > 1


def reduced_hulls(y: FloatArray, D: FloatArray) -> SoftMargin:
    """State P2 and P3 for labels -1 and +1 and the largest mass D of each example.

    An example with D = 0 is ignored; D > 1 is the same as D = 1, since a class has mass 1 in all.
    Group 0 holds the positive rows, group 1 the negative ones.
    """
    return each_class_by_itself("reduced hulls", y, D, 1.0)


def masses(weight: FloatArray, k: float) -> FloatArray:
    """Return D = weight / k; at k = 1, the hard margin, more than 1.

    D > 1 has the same w as D = 1. But with D = 1 an example that is a nearest point all by itself
    is at its bound, and the threshold may be beyond it; a hard margin has no example beyond.
    """
    D = np.asarray(weight / k, dtype=np.float64)
    return np.where(D >= 1.0, np.maximum(D, HARD), D) if k <= 1.0 else D


def shrink(hulls: SoftMargin, k_plus: float, k_minus: float) -> SoftMargin:
    """Return the hulls with the masses of k_plus and k_minus, given those with D the weights."""
    return replace(hulls, lower=-masses(-hulls.lower, k_minus), upper=masses(hulls.upper, k_plus))


def class_masses(hulls: SoftMargin) -> tuple[float, float]:
    """Return the sums of D over the two classes: each must be at least 1."""
    return float(hulls.upper.sum()), float(-hulls.lower.sum())


def threshold_interval(values: FloatArray, D: FloatArray) -> tuple[float, float]:
    """Return all best theta_plus, given w.x and D of the positive examples.

    The interval between the neighbours, in sorted order, where the running sum of D reaches 1; a
    point where it passes 1 inside an example. It has no upper end where the class has no mass
    beyond 1. For theta_minus, change the signs of the values and of the answer.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.reduced_hull import threshold_interval
    >>> values, D = np.array([1.0, 2.0, 3.0, 7.0]), np.full(4, 0.5)
    >>> threshold_interval(values, D)
    (2.0, 3.0)
    >>> threshold_interval(values, np.full(4, 0.25))
    (7.0, inf)
    """
    counted = D > 0
    order = np.argsort(values[counted], kind="stable")
    values, mass = values[counted][order], np.cumsum(D[counted][order])
    rounding = 1e-12 * max(1.0, float(mass[-1]))
    if mass[-1] < 1.0 - rounding:
        raise ValueError(f"D must add up to at least 1 over the class; got a sum of {mass[-1]:g}")
    low = float(values[int(np.searchsorted(mass, 1.0 - rounding))])
    above = int(np.searchsorted(mass, 1.0 + rounding))
    return low, float(values[above]) if above < len(values) else np.inf


@dataclass(frozen=True)
class NearestPoints:
    """A solution of P2, computed from w alone.

    Attributes
    ----------
    norm2 : float
        The squared length of w.
    theta_plus, theta_minus : float
        Thresholds; midpoints of their intervals, or the finite end.
    eta_plus, eta_minus : float
        w.x of the nearest points.
    """

    norm2: float
    theta_plus: float
    theta_minus: float
    eta_plus: float
    eta_minus: float

    @classmethod
    def of(cls, hulls: SoftMargin, f: FloatArray, norm2: float) -> NearestPoints:
        """Compute thresholds and nearest points from f = w.x on the rows of a problem."""
        plus = hulls.group == 0
        D_plus, D_minus = hulls.upper[plus], -hulls.lower[~plus]
        theta_plus = _middle(*threshold_interval(f[plus], D_plus))
        theta_minus = -_middle(*threshold_interval(-f[~plus], D_minus))
        return cls(
            norm2=norm2,
            theta_plus=theta_plus,
            theta_minus=theta_minus,
            eta_plus=theta_plus - float(D_plus @ np.maximum(0.0, theta_plus - f[plus])),
            eta_minus=theta_minus + float(D_minus @ np.maximum(0.0, f[~plus] - theta_minus)),
        )

    @property
    def margin(self) -> float:
        """theta_plus - theta_minus: the scale of the other machines."""
        return self.theta_plus - self.theta_minus

    @property
    def separated(self) -> bool:
        """Whether this w proves that the hulls do not meet."""
        return self.eta_plus > self.eta_minus

    def slack(self, hulls: SoftMargin, f: FloatArray) -> FloatArray:
        """Return theta - w.x (positive rows) and w.x - theta: above zero it is xi."""
        return np.where(hulls.group == 0, self.theta_plus - f, f - self.theta_minus)

    def cut(self, kind: str) -> float:
        """Return the value of w.x at the boundary: the middle of thresholds or of hull points."""
        if kind == "hull":
            return 0.5 * (self.eta_plus + self.eta_minus)
        return 0.5 * (self.theta_plus + self.theta_minus)


def _middle(low: float, high: float) -> float:
    return 0.5 * (low + high) if np.isfinite(high) else low


def equivalent_nu(hulls: SoftMargin) -> float:
    """Return nu of the nu-machine with the same answer, weights in proportion to D.

    With one D = 1/k for all m examples it is 2 k / m.
    """
    return 2.0 / sum(class_masses(hulls))


def equivalent_cost(hulls: SoftMargin, margin: float) -> FloatArray:
    """Return C of every row in the C-machine with the same boundary."""
    return np.asarray(2.0 * (hulls.upper - hulls.lower) / margin)
