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
from functools import partial
from typing import Literal, Protocol

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.products import times
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Bracket, Certificate, relative_gap, tightest
from widemargin.problems.linear_bounds import (
    NOTHING,
    PLAIN_COST_ERROR,
    dual_sums,
    halves,
    loss_sum,
    positive_and_negative,
    ridge_bracket,
    squared_norm,
)
from widemargin.problems.soft_margin import SoftMargin

KINDS = {"hinge": "C-hinge", "squared_hinge": "C-squared-hinge", "hull": "reduced hulls"}
AT_BOUND = 1e-12  # fraction of the cap within which a multiplier counts as at its bound


class InfeasibleSums(ValueError):
    """Raised if no multipliers between 0 and their caps have the required sums."""


@dataclass(frozen=True)
class Plane:
    """Hyperplane given by weights w and the slack of a sample, level + y (shift - w.x)."""

    w: FloatArray
    level: float
    shift: float

    def slack(self, products: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the slacks from the products w.x, in place."""
        np.subtract(self.shift, products, out=products)
        products *= y
        products += self.level
        return products

    def moved(self, positive: float, negative: float) -> Plane:
        """Return the plane whose slacks are smaller by `positive` or `negative` in each class."""
        level, shift = 0.5 * (positive + negative), 0.5 * (positive - negative)
        return Plane(self.w, self.level - level, self.shift - shift)


@dataclass(frozen=True)
class Evaluation:
    """Primal and dual objective and KKT violation, computed in one pass over all samples.

    Attributes
    ----------
    primal : float
        Primal objective at the model.
    dual : float
        Dual objective at feasible multipliers, a lower bound on the optimum.
    violation : float
        KKT violation of the model and its multipliers, see `LinearProblem.violation`. NaN for the
        squared hinge, whose multipliers are computed from the slacks at w, so that it would take
        another pass at the sum of alpha y x; and NaN for a model without multipliers.
    """

    primal: float = np.inf
    dual: float = -np.inf
    violation: float = np.nan

    @property
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

    Examples
    --------
    >>> from widemargin.problems.linear_scan import LinearProblem
    >>> LinearProblem("hull", 0.5).n_thresholds
    2
    """

    kind: Literal["hinge", "squared_hinge", "hull"]
    cap: float
    intercept: bool = True

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

    def squared_bound(self, pull: FloatArray, charges: FloatArray, squares: FloatArray) -> float:
        """Return the best dual objective of the squared hinge on a ray of feasible multipliers.

        The multipliers are proportional to c xi with the positive slacks xi at some model. With an
        intercept, those of one class are scaled down so that both classes have the same sum.

        Parameters
        ----------
        pull : ndarray of shape (2, n_features)
            Sums of c xi y x over each class.
        charges, squares : ndarray of shape (2,)
            Sums of c xi and of c xi^2 over each class.
        """
        factors = np.ones(2)
        if self.intercept:
            if charges.min() <= 0:
                return 0.0
            factors = charges.min() / charges
        linear = 2.0 * self.cap * float(factors @ charges)
        w = 2.0 * self.cap * (factors @ pull)
        quadratic = float(w @ w) + 2.0 * self.cap * float(factors**2 @ squares)
        best = linear / quadratic if quadratic > 0 else 0.0
        return best * linear - 0.5 * best * best * quadratic

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


class Products(Protocol):
    """Products with a matrix of samples in memory, in float64."""

    X: Matrix
    threads: int

    def dot(self, w: FloatArray) -> FloatArray:
        """Return Xw."""
        ...

    def combine(self, coef: FloatArray) -> FloatArray:
        """Return X'coef."""
        ...


def linear_certificate(
    problem: SoftMargin,
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
    """Return the certificate of a linear model in memory, recomputed from model and data.

    Parameters
    ----------
    problem : SoftMargin
        Problem with at most one threshold.
    rows : Products
        Samples; with `constant`, their last feature has this value.
    coef, intercept
        The model: weights of the features, without the constant one, and intercept.
    alpha : ndarray of shape (n_variables,)
        Dual variables, with the signs of the labels.
    tol : float
        Relative gap up to which the fit has converged.
    n_iter : int
        Number of steps of the solver.
    constant : float or None
        Value of the constant feature of which `intercept` is the penalised product.
    blur : float
        Relative error of the costs, see `TrainingSet.cost_error`.
    """
    alpha = np.clip(alpha, problem.lower, problem.upper)
    bracket = tightest(
        partial(_bracket, problem, rows, coef, intercept, alpha, constant, blur), tol
    )
    expansion = rows.combine(problem.coefficients(alpha))
    return Certificate.from_objectives(
        problem.name,
        primal=bracket.primal,
        dual=bracket.dual,
        kkt_violation=problem.kkt_violation(alpha, rows.dot(expansion)),
        converged=relative_gap(bracket.primal, bracket.dual) <= tol,
        n_iter=n_iter,
        rounding=bracket.rounding,
    )


def _bracket(
    problem: SoftMargin,
    rows: Products,
    coef: FloatArray,
    intercept: float,
    alpha: FloatArray,
    constant: float | None,
    blur: float,
    precise: bool,
) -> Bracket:
    """Return the bounds of a linear soft margin or tube, in float64 or in more digits."""
    squared, tube = bool(problem.ridge.any()), problem.n_variables > problem.n_rows
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    weights = coef if constant is None else np.append(coef, 0.0)
    f = times(rows.X, weights, precise=precise, threads=rows.threads)
    if tube:  # the targets y - eps and y + eps are rounded
        error, targets, costs, signed = U, halves(problem.target), halves(cost), halves(alpha)
        signs: list[FloatArray] = [np.ones(problem.n_rows), -np.ones(problem.n_rows)]
    else:
        error, targets, costs = 0.0, (problem.target,) * 2, (cost,) * 2
        signs, signed = [problem.target], positive_and_negative(alpha)
    loss = NOTHING
    for k, sign in enumerate(signs):
        loss = loss + loss_sum(
            targets[k], f, intercept, sign, costs[k], squared=squared, target_error=error
        )
    sums = dual_sums(
        rows.X, signed, targets, costs, squared=squared, target_error=error, precise=precise,
        threads=rows.threads,
    )  # fmt: skip
    return ridge_bracket(
        squared_norm(coef, intercept, constant), loss, sums,
        intercept=problem.n_groups > 0, capped=not squared, blur=blur,
    )  # fmt: skip
