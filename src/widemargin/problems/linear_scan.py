r"""The problems that the implicit-outlier method solves, as few numbers.

====================  =============================================================  ===========
kind                  minimise over w and the thresholds                             cap
====================  =============================================================  ===========
hinge                 1/2 |w|^2 + sum_i s_i xi_i, xi_i = 1 - y_i (w.x_i + b)         C weight_i
hinge_no_intercept    the same with b = 0                                            C weight_i
hull                  1/2 |w|^2 - (theta+ - theta-) + sum_i s_i xi_i (P2),           D weight_i
                      xi_i = theta+ - w.x_i (y = 1), w.x_i - theta- (y = -1)
====================  =============================================================  ===========

where :math:`s_i \xi_i` is short for the loss :math:`\max(0, \mathrm{cap}_i \xi_i)`. In all three
:math:`w = \sum_i s_i y_i x_i` at the optimum, with s = cap where xi > 0 and s = 0 where xi < 0.

References: Balcázar et al. (2008), P2 and P3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from widemargin._base.typing import FloatArray


class InfeasibleSums(ValueError):
    """No multipliers between 0 and D have the sums that were asked for."""


@dataclass(frozen=True)
class Plane:
    """Weights w with the two numbers that give the slack of a row: level + y (shift - w.x)."""

    w: FloatArray
    level: float
    shift: float

    def slack(self, products: FloatArray, y: FloatArray) -> FloatArray:
        """Turn w.x into the slacks, in place."""
        np.subtract(self.shift, products, out=products)
        products *= y
        products += self.level
        return products

    def moved(self, positive: float, negative: float) -> Plane:
        """Return the plane whose slacks are lower by so much in each class."""
        level, shift = 0.5 * (positive + negative), 0.5 * (positive - negative)
        return Plane(self.w, self.level - level, self.shift - shift)


@dataclass(frozen=True)
class Form:
    """Which problem, and the cap of a row of weight one.

    Parameters
    ----------
    kind : {"hinge", "hinge_no_intercept", "hull"}
        Soft margin with or without intercept, or nearest points of reduced convex hulls.
    cap : float
        C, or D of the reduced hulls. The cap of a row is this times its weight.

    Examples
    --------
    >>> from widemargin.solvers.out_of_core import Form
    >>> Form("hull", 0.5).n_thresholds
    2
    """

    kind: Literal["hinge", "hinge_no_intercept", "hull"]
    cap: float

    def __post_init__(self) -> None:
        if self.kind not in ("hinge", "hinge_no_intercept", "hull"):
            raise ValueError(
                f'kind must be "hinge", "hinge_no_intercept" or "hull"; got {self.kind!r}'
            )
        if not 0 < self.cap < np.inf:
            raise ValueError(f"cap must be a positive finite number; got {self.cap!r}")

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds."""
        return {"hinge": 1, "hinge_no_intercept": 0, "hull": 2}[self.kind]

    @property
    def target(self) -> float:
        """The margin that a row has to reach: q of the band problem."""
        return 0.0 if self.kind == "hull" else 1.0

    def columns(self, y: FloatArray) -> FloatArray:
        """E of the band problem: how the thresholds enter the margin of each row."""
        if self.kind == "hull":
            return np.stack([-(y > 0).astype(np.float64), (y < 0).astype(np.float64)], axis=1)
        return np.ascontiguousarray(y[:, None][:, : self.n_thresholds])

    def sums(self, mass: FloatArray) -> FloatArray:
        """What E's has to be on the explicit rows when so much weight per class is at its cap."""
        if self.kind == "hull":
            return np.array([self.cap * mass[0] - 1.0, 1.0 - self.cap * mass[1]])
        return np.array([self.cap * (mass[1] - mass[0])])[: self.n_thresholds]

    def require_reachable(self, weight: FloatArray) -> None:
        """Raise an error where the caps of a class cannot sum to one."""
        if self.kind != "hull":
            return
        for label, total in zip(("+1", "-1"), weight, strict=True):
            if self.cap * float(total) < 1.0 - 1e-12:
                raise InfeasibleSums(
                    f"cap = {self.cap:.6g} is too small: class {label} has a total weight of "
                    f"{total:.6g}, so its caps sum to {self.cap * float(total):.6g}, less than 1. "
                    f"The smallest possible cap is {1.0 / max(float(total), 1e-300):.6g}."
                )

    def plane(self, w: FloatArray, t: FloatArray) -> Plane:
        """The slack of a row as a function of w.x and y."""
        if self.kind == "hull":
            return Plane(w, 0.5 * float(t[0] - t[1]), 0.5 * float(t[0] + t[1]))
        return Plane(w, 1.0, -float(t[0]) if len(t) else 0.0)

    def primal(self, w: FloatArray, t: FloatArray, loss: float) -> float:
        """The objective, given the weighted sum of positive slacks."""
        width = float(t[0] - t[1]) if self.kind == "hull" else 0.0
        return 0.5 * float(w @ w) - width + self.cap * loss

    def dual(self, w: FloatArray, total: float) -> float:
        """The dual objective of multipliers whose sum is total and whose sum of s y x is w."""
        return self.target * total - 0.5 * float(w @ w)

    def about(self, t: FloatArray, product: float) -> FloatArray:
        """Thresholds for rows x, given those for x - centre and the product w.centre."""
        return t + product if self.kind == "hull" else t - product

    def interval(self, t: FloatArray, room: FloatArray) -> FloatArray:
        """The thresholds between which no implicit row changes sides, as pairs (low, high).

        Entry (0, c) of room is the smallest slack of a row at its cap, (1, c) the smallest of
        -slack of a row at zero, in class c.
        """
        (cap_pos, cap_neg), (zero_pos, zero_neg) = room
        if self.kind == "hull":  # the slack of positive rows rises with theta+, the other falls
            return np.array([[t[0] - cap_pos, t[0] + zero_pos], [t[1] - zero_neg, t[1] + cap_neg]])
        low, high = min(zero_pos, cap_neg), min(cap_pos, zero_neg)
        return np.array([[t[0] - low, t[0] + high]]) if len(t) else np.empty((0, 2))
