r"""Multiclass linear classification of Crammer and Singer: one loss per sample for all classes.

The **primal** is

.. math::

    \min_{W, b} \; \tfrac12 \sum_k |w_k|^2 + \sum_i c_i \xi_i, \qquad
    \xi_i = \max_k \, G_{ik} - G_{i y_i}, \quad
    G_{ik} = w_k \cdot x_i + b_k + [k \ne y_i],

so that a sample has no loss if the decision value of its class exceeds all others by 1. With
shares :math:`p_{ik} \ge 0`, :math:`\sum_k p_{ik} = 1`, the loss is
:math:`\max_{p_i} \sum_k p_{ik} (G_{ik} - G_{i y_i})`, and the **dual** is

.. math::

    \max_\alpha \; \sum_i \alpha_{i y_i} - \tfrac12 \sum_k \Bigl|\sum_i \alpha_{ik} x_i\Bigr|^2
    \quad\text{s.t.}\quad \alpha_{ik} = c_i ([k = y_i] - p_{ik}), \quad
    \sum_i \alpha_{ik} = 0 \text{ for all } k \text{ (with intercepts)},

where

- :math:`x_i, y_i`: sample i and its class;
- :math:`w_k, b_k`: weights and intercept of class k;
- :math:`c_i, \xi_i`: cost of a unit of slack, and slack;
- :math:`\alpha_{ik}`: dual variable; of the sample's class between 0 and :math:`c_i`, of the others
  not positive, with sum zero over the classes.

At the optimum :math:`w_k = \sum_i \alpha_{ik} x_i`, and :math:`p_{ik} > 0` only for classes with
the largest :math:`G_{ik}`. The weights sum to zero over the classes.

**Intercepts** are absent or free, that is, not penalised. Free ones are determined up to a common
constant, and their sum is zero by convention. Penalised ones, as in LIBLINEAR, are the weights of
a constant feature that the caller appends; the problem then has no intercepts of its own.

References: Crammer, K. and Singer, Y. (2001), "On the algorithmic implementation of multiclass
kernel-based vector machines", *Journal of Machine Learning Research*. Keerthi, S. et al. (2008),
"A sequential dual method for large scale multi-class linear SVMs", *KDD*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import combine, times
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket, Certificate, relative_gap
from widemargin.problems.linear_bounds import (
    NOTHING,
    PLAIN_COST_ERROR,
    best_on_ray,
    squared_norm,
)


@dataclass(frozen=True, eq=False)
class CrammerSinger:
    """Multiclass linear classification of Crammer and Singer.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        Class of each sample, 0 to n_classes - 1.
    cost : ndarray of shape (n_rows,)
        c, positive: C times the weight of each sample.
    n_classes : int
        Number of classes, at least two.
    intercept : bool, default=True
        Whether there are intercepts, which are not penalised.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.crammer_singer import CrammerSinger
    >>> problem = CrammerSinger(np.array([0, 1, 2]), np.ones(3), 3)
    >>> problem.primal(np.zeros((3, 2)), np.zeros((3, 3)))
    3.0
    """

    codes: IntArray
    cost: FloatArray
    n_classes: int
    intercept: bool = True

    @property
    def name(self) -> str:
        """Name of the formulation, for the certificate."""
        return "Crammer-Singer" + ("" if self.intercept else ", no intercept")

    @cached_property
    def own(self) -> FloatArray:
        """Indicator of each sample's class, of shape (n_rows, n_classes)."""
        indicator = np.zeros((len(self.codes), self.n_classes))
        indicator[np.arange(len(self.codes)), self.codes] = 1.0
        return indicator

    def rivals(self, F: FloatArray) -> FloatArray:
        """Return G, the decision values plus 1 for all classes but the sample's own."""
        return F + (1.0 - self.own)

    def losses(self, F: FloatArray) -> FloatArray:
        """Return the slack of each sample at decision values F, including the intercepts."""
        return self.rivals(F).max(axis=1) - F[np.arange(len(F)), self.codes]

    def primal(self, coef: FloatArray, F: FloatArray) -> float:
        """Return the primal objective, given the decision values F, including the intercepts."""
        return float(0.5 * np.vdot(coef, coef) + self.cost @ self.losses(F))

    def dual(self, alpha: FloatArray, expansion: FloatArray) -> float:
        """Return the dual objective; row k of the expansion is sum_i alpha_ik x_i."""
        gain = alpha[np.arange(len(alpha)), self.codes].sum()
        return float(gain - 0.5 * np.vdot(expansion, expansion))

    def scale(self, alpha: FloatArray, expansion: FloatArray) -> float:
        """Return the factor, at most 1, of feasible dual variables that maximises the dual."""
        gain = float(alpha[np.arange(len(alpha)), self.codes].sum())
        curve = float(np.vdot(expansion, expansion))
        return min(1.0, gain / curve) if curve > 0.0 else 1.0

    def variables(self, shares: FloatArray) -> FloatArray:
        """Return the dual variables of shares p."""
        return (self.own - shares) * self.cost[:, None]

    def shares(self, alpha: FloatArray) -> FloatArray:
        """Return shares near those of alpha that satisfy all constraints of the dual.

        Negative shares become zero and those of a sample are scaled to the sum 1. With intercepts,
        the total of class k over the samples, weighted by cost, must be the cost of its own
        samples: a class with a larger total passes the same fraction of its share in every sample
        on to the classes with smaller totals, in proportion to what these lack.
        """
        p = np.maximum(self.own - alpha / self.cost[:, None], 0.0)
        p = np.where(p.any(axis=1, keepdims=True), p, self.own)
        p /= p.sum(axis=1, keepdims=True)
        if not self.intercept:
            return p
        for _ in range(2):  # the second time for the rounding errors of the first
            totals, required = self.cost @ p, self.cost @ self.own
            excess = np.maximum(totals - required, 0.0)
            lack = np.maximum(required - totals, 0.0)
            if not (excess.any() and lack.any()):
                break
            passed = p * (excess / np.where(totals > 0.0, totals, 1.0))
            p += np.outer(passed.sum(axis=1), lack / lack.sum()) - passed
        return p

    def violation(self, shares: FloatArray, F: FloatArray) -> float:
        """Return the largest violation of complementary slackness over the samples.

        It is the slack of a sample minus what its shares give: zero if only classes with the
        largest G have shares.
        """
        G = self.rivals(F)
        return float((G.max(axis=1) - (shares * G).sum(axis=1)).max())

    def certificate(
        self,
        X: Matrix,
        coef: FloatArray,
        intercepts: FloatArray,
        alpha: FloatArray,
        *,
        tol: float,
        n_iter: int,
        constant: float | None = None,
        blur: float = PLAIN_COST_ERROR,
    ) -> Certificate:
        """Return the certificate of a model and of dual variables, recomputed from the data.

        The dual variables are made feasible first. The KKT violation is that of the model and the
        dual variables, in units of the decision values. With `constant`, the last feature of X has
        this value, `coef` is without it, and `intercepts` are the penalised products. `blur` is
        the relative error of the costs.
        """
        inner = X if constant is None else X[:, :-1]
        shares = self.shares(alpha)
        bracket = _bracket(self, X, coef, intercepts, self.variables(shares), constant, blur)
        F = np.asarray(inner @ coef.T, dtype=np.float64) + intercepts
        return Certificate.from_objectives(
            self.name,
            primal=bracket.primal,
            dual=bracket.dual,
            kkt_violation=self.violation(shares, F),
            converged=relative_gap(bracket.primal, bracket.dual) <= tol,
            n_iter=n_iter,
            rounding=bracket.rounding,
        )


def _bracket(
    problem: CrammerSinger,
    X: Matrix,
    coef: FloatArray,
    intercepts: FloatArray,
    alpha: FloatArray,
    constant: float | None,
    blur: float,
) -> Bracket:
    """Return the bounds of the optimum, from precise products: a fit takes far longer."""
    primal = _loss(problem, X, coef, intercepts, constant).blurred(blur)
    for w, b in zip(coef, intercepts, strict=True):
        primal = primal + squared_norm(w, float(b), constant) * 0.5
    gain, pulls, excess = _passed_on(problem, X, alpha)
    curve = NOTHING
    for pull in pulls:
        curve = curve + pull.dot(pull) * 0.5
    longest = (1.0 - 2.0 * blur) / (1.0 + excess) * (1.0 - 4.0 * U)
    return Bracket.of(primal, best_on_ray(gain, curve, longest), trivial=0.0)


def _loss(
    problem: CrammerSinger,
    X: Matrix,
    coef: FloatArray,
    intercepts: FloatArray,
    constant: float | None,
) -> Enclosure:
    """Return the weighted sum of the losses, max(0, 1 + the largest difference to a rival)."""
    weights = coef if constant is None else np.column_stack([coef, np.zeros(len(coef))])
    values = [
        times(X, w, precise=True) + float(b) for w, b in zip(weights, intercepts, strict=True)
    ]
    total = NOTHING
    for k in range(problem.n_classes):
        mine = np.flatnonzero(problem.codes == k)
        own, slack = values[k][mine], Enclosure.exact(np.zeros(len(mine)))
        for rival in range(problem.n_classes):
            if rival != k:
                slack = slack + (values[rival][mine] - own + 1.0 - slack).positive_part()
        total = total + slack.dot(problem.cost[mine])
    return total


def _passed_on(
    problem: CrammerSinger, X: Matrix, alpha: FloatArray
) -> tuple[Enclosure, list[Enclosure], float]:
    """Return the gain and the expansions of feasible dual variables near alpha.

    The variables are what each sample passes on to its rivals, -alpha_ik for k other than its
    class; their sum is the variable of its own class, an exact sum. With intercepts each class has
    to receive what it passes on. The difference, an exact real number, is passed on in addition
    between the class and the first one, by all samples of a class in proportion to their costs. The
    last value bounds the fraction of its cost by which a sample passes on too much.
    """
    n, d = problem.n_classes, X.shape[1]
    zero = Enclosure.exact(np.zeros(d))
    pulls, gain, balance = [zero] * n, NOTHING, [NOTHING] * n
    means, masses, excess = [], [], 0.0

    def move(sender: int, receiver: int, amount: Enclosure, pull: Enclosure) -> None:
        nonlocal gain
        gain = gain + amount
        balance[sender] = balance[sender] + amount
        balance[receiver] = balance[receiver] - amount
        pulls[sender] = pulls[sender] + pull
        pulls[receiver] = pulls[receiver] - pull

    for k in range(n):
        mine = np.flatnonzero(problem.codes == k)
        some, passed = X[mine], np.maximum(-alpha[mine], 0.0)
        passed[:, k] = 0.0
        fraction = passed.sum(axis=1) / problem.cost[mine] * (1.0 + (n + 2) * U)
        excess = max(excess, float(fraction.max(initial=0.0)) - 1.0)
        for rival in range(n):
            if rival != k:
                amount = Enclosure.exact(passed[:, rival]).sum()
                move(k, rival, amount, combine(some, passed[:, rival], precise=True))
        masses.append(Enclosure.exact(problem.cost[mine]).sum())
        means.append(combine(some, problem.cost[mine], precise=True))
    if not problem.intercept:
        return gain, pulls, excess
    extra = np.zeros(n)
    for k in range(1, n):
        lack = balance[k]
        least = float(lack.size())
        for sender, receiver, amount in ((0, k, lack + least), (k, 0, Enclosure.exact(least))):
            share = amount / masses[sender]
            extra[sender] += share.upper()
            move(sender, receiver, amount, means[sender] * share)
    return gain, pulls, (excess + float(extra.max())) * (1.0 + 4.0 * U)
