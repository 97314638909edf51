r"""Linear models evaluated in passes over the data: hinge, squared hinge and reduced hulls.

The **primal** problems are

=============  =========================================================================  =========
kind           minimise over w and the thresholds                                         alpha
=============  =========================================================================  =========
hinge          1/2 |w|^2 + sum_i C c_i max(0, xi_i), xi_i = 1 - y_i (w.x_i + b)           0 to C c
squared_hinge  1/2 |w|^2 + sum_i C c_i max(0, xi_i)^2, the same xi                        0 or more
hull           1/2 |w|^2 - (theta+ - theta-) + sum_i D c_i max(0, xi_i) (P2),             0 to D c
               xi_i = theta+ - w.x_i (y = 1), w.x_i - theta- (y = -1)
=============  =========================================================================  =========

and the **dual** is to maximise

.. math::

    \tau \sum_i \alpha_i - \tfrac12 \bigl|\sum_i \alpha_i y_i x_i\bigr|^2
    - [\text{squared}] \sum_i \frac{\alpha_i^2}{4 C c_i}

over alpha in the range given in the last column, subject to :math:`\sum_i y_i \alpha_i = 0` with an
intercept, and to :math:`\sum_{y_i = 1} \alpha_i = \sum_{y_i = -1} \alpha_i = 1` for hulls, where

- :math:`x_i, y_i`: sample i and its label, -1 or +1;
- :math:`c_i`: sample weight;
- w, b: weights and intercept (optional for the hinges);
- :math:`\theta_+, \theta_-`: thresholds of the two classes (theta+, theta-);
- :math:`\xi_i`: slack; here it may be negative;
- :math:`\alpha_i`: multiplier;
- C, D: cost or cap of a sample of weight one;
- :math:`\tau`: 1 for the hinges, 0 for hulls.

At the optimum :math:`w = \sum_i \alpha_i y_i x_i`; alpha is at its upper bound where xi > 0 and
zero where xi < 0, or :math:`2 C c_i \max(0, \xi_i)` for the squared hinge.

These are the problems of :mod:`widemargin.problems.soft_margin` for a linear kernel. There a
problem stores a box constraint per sample; here it is given by a few numbers, and its objectives
are functions of sums over all samples, so that the samples need not be in memory.

References: Balcázar et al. (2008), P2 and P3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate, relative_gap
from widemargin.problems.linear_bounds import (
    PLAIN_COST_ERROR,
    DualSums,
    ridge_bracket,
    squared_norm,
)
from widemargin.problems.linear_reads import (
    FloatSums,
    Plane,
    ReadSums,
    best_constant,
    constant_loss,
)

KINDS = {"hinge": "C-hinge", "squared_hinge": "C-squared-hinge", "hull": "reduced hulls"}
AT_BOUND = 1e-12  # fraction of the cap within which a multiplier counts as at its bound


class InfeasibleSums(ValueError):
    """Raised if no multipliers between 0 and their caps have the required sums."""


@dataclass(frozen=True)
class Evaluation:
    """Primal and dual objective and KKT violation, computed in one pass over all samples.

    For the hinges, both objectives hold in exact arithmetic; for hulls they are float64 numbers.

    Attributes
    ----------
    primal : float
        Primal objective at the model, rounded up.
    dual : float
        Dual objective at feasible multipliers, a lower bound on the optimum, rounded down.
    violation : float
        KKT violation of the model and its multipliers, see `LinearProblem.violation`. NaN for the
        squared hinge, whose multipliers are computed from the slacks at w, so that it would take
        another pass at the sum of alpha y x; and NaN for a model without multipliers.
    rounding : float
        Part of primal - dual that bounds rounding errors.
    """

    primal: float = np.inf
    dual: float = -np.inf
    violation: float = np.nan
    rounding: float = 0.0

    @cached_property
    def gap(self) -> float:
        """Relative duality gap."""
        return relative_gap(self.primal, self.dual)


def wrong_by(slack: FloatArray, y: FloatArray, alpha: FloatArray, cap: FloatArray) -> FloatArray:
    """Return the largest violations of complementary slackness per class.

    Entry (0, k) is the largest slack of a sample with alpha below its cap, entry (1, k) the largest
    -slack of a sample with alpha above zero, for the positive (k = 0) and the negative class
    (k = 1). No entry is negative.
    """
    found = np.zeros((2, 2))
    below, above = alpha < (1.0 - AT_BOUND) * cap, alpha > AT_BOUND * cap
    for k, mine in enumerate((y > 0, y < 0)):
        found[0, k] = slack[below & mine].max(initial=0.0)
        found[1, k] = (-slack[above & mine]).max(initial=0.0)
    return found


@dataclass(frozen=True)
class LinearProblem:
    """Linear problem of the family stated in the module docstring.

    Parameters
    ----------
    kind : {"hinge", "squared_hinge", "hull"}
        Soft margin, or nearest points of reduced convex hulls.
    cap : float
        C, or D of the reduced hulls. The cap (cost) of a sample is `cap` times its weight.
    intercept : bool, default=True
        Whether the hinges have an intercept b.
    constant : float or None, default=None
        Value of the last feature, if it is constant: the model is published with the rounded
        product of this value and its weight as a (penalised) intercept.

    Examples
    --------
    >>> from widemargin.problems.linear_scan import LinearProblem
    >>> LinearProblem("hull", 0.5).n_thresholds
    2
    """

    kind: Literal["hinge", "squared_hinge", "hull"]
    cap: float
    intercept: bool = True
    constant: float | None = None

    def __post_init__(self) -> None:
        """Validate the parameters."""
        if self.kind not in KINDS:
            raise ValueError(f'kind must be "hinge", "squared_hinge" or "hull"; got {self.kind!r}')
        if not 0 < self.cap < np.inf:
            raise ValueError(f"cap must be a positive finite number; got {self.cap!r}")

    @property
    def name(self) -> str:
        """Name of the formulation, for the certificate."""
        return KINDS[self.kind] + ("" if self.n_thresholds else ", no intercept")

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds."""
        return 2 if self.kind == "hull" else int(self.intercept)

    @property
    def target(self) -> float:
        """Margin that a sample has to reach: tau, and q of `numerics.box_qp`."""
        return 0.0 if self.kind == "hull" else 1.0

    def columns(self, y: FloatArray) -> FloatArray:
        """Return E of `numerics.box_qp`: coefficients of the thresholds in each sample's margin."""
        if self.kind == "hull":
            return np.stack([-(y > 0).astype(np.float64), (y < 0).astype(np.float64)], axis=1)
        return np.ascontiguousarray(y[:, None][:, : self.n_thresholds])

    def sums(self, mass: FloatArray) -> FloatArray:
        """Return the required E'alpha if samples of weight `mass` per class are at their caps.

        The sum is over the remaining samples.
        """
        if self.kind == "hull":
            return np.array([self.cap * mass[0] - 1.0, 1.0 - self.cap * mass[1]])
        return np.array([self.cap * (mass[1] - mass[0])])[: self.n_thresholds]

    def require_reachable(self, weight: FloatArray) -> None:
        """Raise if the caps of a class sum to less than one."""
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
        """Return the plane of weights w and thresholds t."""
        if self.kind == "hull":
            return Plane(w, 0.5 * float(t[0] - t[1]), 0.5 * float(t[0] + t[1]))
        return Plane(w, 1.0, -float(t[0]) if len(t) else 0.0)

    def primal(self, w: FloatArray, t: FloatArray, loss: float) -> float:
        """Return the primal objective, given the weighted sum of (squared) positive slacks."""
        width = float(t[0] - t[1]) if self.kind == "hull" else 0.0
        return 0.5 * float(w @ w) - width + self.cap * loss

    def dual(self, w: FloatArray, total: float) -> float:
        """Return the dual objective of multipliers alpha, given w = sum of alpha y x.

        `total` is the sum of alpha, minus that of alpha^2 / (4 C c) for the squared hinge.
        """
        return self.target * total - 0.5 * float(w @ w)

    def published(
        self, w: FloatArray, t: FloatArray, centre: FloatArray | None
    ) -> tuple[Plane, FloatArray]:
        """Return a model as it is published: its plane for samples - centre, and thresholds.

        The arguments are the weights, and thresholds for samples minus the centre. The published
        thresholds are those for the samples, rounded.
        """
        product = None if centre is None else Enclosure.exact(w).dot(centre)
        if self.kind == "hull":
            return self.plane(w, t), t if product is None else t + float(product.hi)
        b = float(t[0]) if self.intercept else 0.0
        if product is not None and self.intercept:
            b = float((t[0] - product).hi)
        if self.constant is not None:
            b, w = float(self.constant * w[-1]), np.append(w[:-1], 0.0)
        t = np.array([b])[: self.n_thresholds]
        if product is None:
            return Plane(w, 1.0, -b), t
        there = product + b
        with np.errstate(all="ignore"):
            return Plane(w, 1.0, -float(there.hi), float(abs(there.lo) + there.error)), t

    def estimate(self, plane: Plane, found: FloatSums) -> Evaluation:
        """Return the objectives of a hinge at a published model without a centre, in float64.

        They have unknown rounding errors: `evaluation` proves them.
        """
        factors = np.ones(2)
        with np.errstate(all="ignore"):
            norm2, last = float(plane.w @ plane.w), plane.shift / (self.constant or np.inf)
            primal = 0.5 * (norm2 + last * last) + self.cap * found.loss
            if self.intercept:
                factors = found.charge.min() / found.charge
            gain = self.cap * float(factors @ found.charge)
            pull = self.cap * (factors @ found.pull)
            curve = 0.5 * float(pull @ pull) + self.cap * float(factors**2 @ found.square)
            length = gain / np.float64(2.0 * curve)
            length = np.minimum(1.0, length) if self.kind == "hinge" else length
            dual = length * (gain - length * curve)
        if not np.isfinite(primal):
            primal = np.inf
        return Evaluation(primal, max(0.0, dual) if np.isfinite(dual) else 0.0)

    def evaluation(
        self,
        plane: Plane,
        thresholds: FloatArray,
        found: ReadSums,
        explicit: DualSums | None = None,
        violation: float = np.nan,
    ) -> Evaluation:
        """Return the objectives of a published model, from sums over all samples.

        `explicit` are the sums of multipliers to add to those of `found`; these are in units of
        the cap.
        """
        sums = found.dual.scaled(self.cap)
        sums = sums if explicit is None else sums + explicit
        if self.kind == "hull":
            t = np.array([plane.shift + plane.level, plane.shift - plane.level])
            primal = self.primal(plane.w, t, float(found.loss.hi))
            return Evaluation(primal, self.dual(sums.pull.hi.sum(axis=0), 0.0), violation)
        b = float(thresholds[0]) if len(thresholds) else -plane.shift
        bracket = ridge_bracket(
            squared_norm(plane.w, b, self.constant), found.loss * self.cap, sums,
            intercept=self.intercept, capped=self.kind == "hinge", blur=PLAIN_COST_ERROR,
        )  # fmt: skip
        return Evaluation(bracket.primal, bracket.dual, violation, bracket.rounding)

    def best_constant(
        self, weight: Enclosure, n_features: int
    ) -> tuple[FloatArray, FloatArray, Evaluation]:
        """Return weights, thresholds and objective of the best constant model.

        It has w = 0, but for the weight of a constant feature. `weight` are the sums of both
        classes.
        """
        squared, w = self.kind == "squared_hinge", np.zeros(n_features)
        b = best_constant(
            self.cap * weight.hi, squared=squared, intercept=self.intercept, constant=self.constant
        )
        if self.constant is not None:
            w[-1] = b / self.constant
            b = float(np.clip(self.constant * w[-1], -1.0, 1.0))
        with np.errstate(all="ignore"):
            last = np.float64(b) / (self.constant or np.inf)
            loss = constant_loss(weight.upper(), b, squared=squared)
            primal = 0.5 * last * last + self.cap * loss
            # A sum of products of numbers that are not negative, with about ten roundings.
            above = float(primal * (1.0 + (PLAIN_COST_ERROR + 20.0 * U)) + 1e-300)
        if not np.isfinite(above):
            return w, np.array([b]), Evaluation(np.inf, 0.0, np.nan, np.inf)
        return w, np.array([b]), Evaluation(above, 0.0, np.nan, above - float(primal))

    def violation(self, wrong: FloatArray) -> float:
        """Return LIBSVM's KKT violation, given the largest values of `wrong_by` over all samples.

        It is the difference of thresholds that are equal at the optimum: one sample requires the
        threshold to rise by one entry, another requires it to fall by another entry.
        """
        (rise_pos, rise_neg), (fall_pos, fall_neg) = wrong
        if self.kind == "hull":
            return float(max(rise_pos + fall_pos, rise_neg + fall_neg))
        if not self.intercept:
            return float(wrong.max())
        return float(max(rise_pos, fall_neg) + max(fall_pos, rise_neg))

    def certificate(self, found: Evaluation, *, tol: float, n_iter: int) -> Certificate:
        """Return the certificate of a model from the evaluation at its coefficients."""
        return Certificate.from_objectives(
            self.name,
            primal=found.primal,
            dual=found.dual,
            kkt_violation=found.violation,
            converged=found.gap <= tol,
            n_iter=n_iter,
            rounding=found.rounding,
        )

    def about(self, t: FloatArray, product: float) -> FloatArray:
        """Return the thresholds for samples x, given those for x - centre and w.centre."""
        return t + product if self.kind == "hull" else t - product

    def interval(self, t: FloatArray, room: FloatArray) -> FloatArray:
        """Return the interval (low, high) of each threshold in which no implicit sample moves.

        An implicit sample moves if its slack changes sign. Entry (0, k) of room is the smallest
        slack of a sample at its cap, (1, k) the smallest -slack of a sample at zero, in class k.
        """
        (cap_pos, cap_neg), (zero_pos, zero_neg) = room
        if self.kind == "hull":  # slacks rise with theta+ in the positive class, fall with theta-
            return np.array([[t[0] - cap_pos, t[0] + zero_pos], [t[1] - zero_neg, t[1] + cap_neg]])
        low, high = min(zero_pos, cap_neg), min(cap_pos, zero_neg)
        return np.array([[t[0] - low, t[0] + high]]) if len(t) else np.empty((0, 2))
