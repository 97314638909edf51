r"""Nearest points of reduced convex hulls, and the equivalent nu- and C-SVMs.

The *reduced hull* of a class is the set of convex combinations of its samples with weights of at
most :math:`D_i` (:math:`D_i = 1/k` involves at least k samples). The classifier is the hyperplane
between the nearest points of the two reduced hulls.

P2 (**primal**, Balcázar et al. 2008)

.. math::

    \min_{w, \theta_+, \theta_-} \tfrac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i
    \quad\text{s.t.}\quad w \cdot x_i \ge \theta_+ - \xi_i \;(y_i = 1), \quad
    w \cdot x_i \le \theta_- + \xi_i \;(y_i = -1), \quad \xi_i \ge 0 .

P3 (**dual**)

.. math::

    \max_s \; -\tfrac12 |w|^2, \quad w = \sum_i y_i s_i x_i
    \quad\text{s.t.}\quad 0 \le s_i \le D_i, \quad
    \sum_{y_i = 1} s_i = \sum_{y_i = -1} s_i = 1 .

where

- :math:`x_i, y_i`: sample i (in feature space) and its label, -1 or +1;
- w: weights, :math:`\theta_+, \theta_-`: thresholds of the two classes;
- :math:`\xi_i`: slack;
- :math:`s_i, D_i`: dual variable (mass) of a sample, and its cap.

P1, the hard margin, is any D > 1. P5, the same problem on the means of k samples ("composed
examples"), is P3 with every s written as a mixture of such means.

In terms of :mod:`widemargin.problems.soft_margin` this is target 0, box [0, D] y and two groups
with totals +1 and -1, whose thresholds are :math:`-\theta_+` and :math:`-\theta_-`.

=======================  ==========================================================================
at the optimum           value
=======================  ==========================================================================
margin                   :math:`\theta_+ - \theta_- = |w|^2 + \sum_i D_i \xi_i`
:math:`\theta_+`         any value between two neighbours of the sorted w.x of its class, where the
                         cumulative sum of D from the lowest reaches 1; mirrored for
                         :math:`\theta_-`
nearest points           :math:`\eta_+ = \theta_+ - \sum_+ D_i \xi_i`,
                         :math:`\eta_- = \theta_- + \sum_- D_i \xi_i` (their values of w.x)
nu-SVM                   nu = 2 / sum(D), sample weights proportional to D
C-SVM                    :math:`C_i = 2 D_i / (\theta_+ - \theta_-)`,
                         :math:`w_C = 2 w / (\theta_+ - \theta_-)`,
                         :math:`b = -(\theta_+ + \theta_-) / (\theta_+ - \theta_-)`
=======================  ==========================================================================

The reduced hulls intersect if and only if w = 0. Any w with :math:`\eta_+ > \eta_-` proves that
they are disjoint: scaled suitably, its primal objective is negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.soft_margin import SoftMargin, each_class_by_itself

HARD = 2.0  # stands for any D > 1


def reduced_hulls(y: FloatArray, D: FloatArray) -> SoftMargin:
    """Return the problem P2/P3 for labels -1 and +1 and caps D.

    A sample with D = 0 is ignored; D > 1 has the same dual as D = 1, since the masses of a class
    sum to 1. Group 0 holds the positive samples, group 1 the negative ones.
    """
    return each_class_by_itself("reduced hulls", y, D, 1.0)


def masses(weight: FloatArray, k: float) -> FloatArray:
    """Return the caps D = weight / k; for k <= 1, the hard margin, caps >= 1 become > 1.

    D > 1 has the same w as D = 1. With D = 1, however, a sample that is a nearest point by itself
    is at its bound, and the threshold may be beyond it, which a hard margin does not allow.
    """
    D = np.asarray(weight / k, dtype=np.float64)
    return np.where(D >= 1.0, np.maximum(D, HARD), D) if k <= 1.0 else D


def shrink(hulls: SoftMargin, k_plus: float, k_minus: float) -> SoftMargin:
    """Return the problem with caps for k_plus and k_minus, given the one with D = weights."""
    return replace(hulls, lower=-masses(-hulls.lower, k_minus), upper=masses(hulls.upper, k_plus))


def class_masses(hulls: SoftMargin) -> tuple[float, float]:
    """Return the sums of D over the two classes; both must be at least 1."""
    return float(hulls.upper.sum()), float(-hulls.lower.sum())


def threshold_interval(values: FloatArray, D: FloatArray) -> tuple[float, float]:
    """Return the interval of optimal theta_plus, given w.x and D of the positive samples.

    If the cumulative sum of D in the order of w.x reaches 1 exactly at a sample, the interval ends
    at the next one; if it passes 1 there, the interval is a point. The upper end is infinite if D
    sums to 1. For theta_minus, reverse the signs of the values and of the result.

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
    """Thresholds and nearest points of P2, computed from w.

    Attributes
    ----------
    norm2 : float
        Squared norm of w.
    theta_plus, theta_minus : float
        Thresholds: midpoints of the intervals of optimal values, or their finite ends.
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
        """Compute thresholds and nearest points from f = w.x on the samples."""
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
        """Margin theta_plus - theta_minus, the scale of the equivalent C-SVM."""
        return self.theta_plus - self.theta_minus

    @property
    def separated(self) -> bool:
        """Whether this w proves that the reduced hulls are disjoint."""
        return self.eta_plus > self.eta_minus

    def slack(self, hulls: SoftMargin, f: FloatArray) -> FloatArray:
        """Return theta_plus - w.x (y = 1) or w.x - theta_minus (y = -1): slack before clipping."""
        return np.where(hulls.group == 0, self.theta_plus - f, f - self.theta_minus)

    def cut(self, kind: str) -> float:
        """Return w.x at the boundary: midpoint of the thresholds, or of the nearest points."""
        if kind == "hull":
            return 0.5 * (self.eta_plus + self.eta_minus)
        return 0.5 * (self.theta_plus + self.theta_minus)


def _middle(low: float, high: float) -> float:
    return 0.5 * (low + high) if np.isfinite(high) else low


def equivalent_nu(hulls: SoftMargin) -> float:
    """Return nu of the equivalent nu-SVM with sample weights proportional to D.

    With D = 1/k for all m samples this is 2 k / m.
    """
    return 2.0 / sum(class_masses(hulls))


def equivalent_cost(hulls: SoftMargin, margin: float) -> FloatArray:
    """Return the cost C of each sample in the C-SVM with the same boundary."""
    return np.asarray(2.0 * (hulls.upper - hulls.lower) / margin)
