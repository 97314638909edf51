r"""Soft-margin problems as one QP: C-hinge, squared hinge, nu, one-class, tubes.

The **primal** is

.. math::

    \min_{w, \lambda} \; \tfrac12 |w|^2 + \sum_v \phi_v(t_v - f(x_v) - \lambda_{g(v)})
    + \sum_g \lambda_g d_g, \qquad
    \phi_v(s) = \max_{l_v \le \alpha \le u_v} \, s \alpha - \tfrac12 \rho_v \alpha^2 ,

and the **dual**

.. math::

    \max_\alpha \; t'\alpha - \tfrac12 \beta'K\beta - \tfrac12 \sum_v \rho_v \alpha_v^2
    \quad\text{s.t.}\quad l_v \le \alpha_v \le u_v, \quad \sum_{v \in g} \alpha_v = d_g ,

where

- :math:`\alpha_v`: dual variable, with the sign of its label; one per sample, two for the tubes;
- :math:`\beta_r = \sum_{v \in r} \alpha_v`: expansion coefficient of sample r;
- :math:`f(x) = \sum_r \beta_r k(x_r, x)`: decision function without its threshold;
- :math:`t_v, l_v, u_v`: target, lower and upper bound;
- :math:`\rho_v`: ridge, positive for squared losses only;
- g: one of at most two groups, with total :math:`d_g` and threshold :math:`\lambda_g`.

===============  ===================  ==================  ======================================
problem          targets t            box of alpha        thresholds
===============  ===================  ==================  ======================================
C-hinge          y                    [0, C] y            one, the intercept (d = 0)
squared hinge    y                    [0, inf) y          one; ridge 1/(2 C)
hard margin      y                    [0, inf) y          one (d = 0)
nu               0                    [0, c] y            two: intercept -+ rho, d = +-nu sum(c)/2
one-class        0                    [0, c]              one: -rho, d = nu sum(c)
epsilon-tube     y - eps, y + eps     [0, C], [-C, 0]     one (d = 0)
squared tube     y - eps, y + eps     [0, inf), (-inf, 0] one; ridge 1/(2 C)
hard tube        y - eps, y + eps     [0, inf), (-inf, 0] one (d = 0)
nu-tube          y, y                 [0, C], [-C, 0]     two: intercept +- eps, d = +-nu sum(C)/2
===============  ===================  ==================  ======================================

A problem without intercept has no group: its threshold is fixed at zero. As alpha has the sign of
its label, labels do not appear in the formulas: a variable can increase if alpha < u and decrease
if alpha > l. With the *score* :math:`s_v = t_v - f(x_v) - \rho_v \alpha_v`, at the optimum every
variable that can increase has :math:`s_v \le \lambda_g`, and every one that can decrease
:math:`s_v \ge \lambda_g`; the overlap of the two is LIBSVM's KKT violation.

References: Smola et al. (2000), equations (1.25)-(1.29) and section 1.3; Balcázar et al. (2008),
P2 and P3 for nu; Schölkopf et al. (2001) for one-class. In full on the references page of the
documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import USEFUL_GAP, Bracket, Certificate, relative_gap
from widemargin.problems.best_threshold import hard_threshold, ridge_threshold, staircase_threshold
from widemargin.problems.soft_margin.loops import overlap


@dataclass(frozen=True)
class SoftMargin:
    """Box-constrained QP of the family stated in the module docstring.

    Attributes
    ----------
    name : str
        Name of the formulation, for the certificate.
    n_rows : int
        Number of training samples.
    row : ndarray of shape (n_variables,)
        Sample to which each variable belongs.
    target, lower, upper, ridge : ndarray of shape (n_variables,)
        t, l, u and rho.
    group : ndarray of shape (n_variables,)
        Group of each variable (all 0 without intercept).
    totals : ndarray of shape (n_groups,)
        d_g. Empty for a problem without intercept.
    """

    name: str
    n_rows: int
    row: IntArray
    target: FloatArray
    lower: FloatArray
    upper: FloatArray
    ridge: FloatArray
    group: IntArray
    totals: FloatArray

    @cached_property
    def n_variables(self) -> int:
        """Number of dual variables."""
        return len(self.row)

    @cached_property
    def n_groups(self) -> int:
        """Number of thresholds: 0 without intercept, 2 for the nu problems, else 1."""
        return len(self.totals)

    @cached_property
    def is_hard(self) -> bool:
        """Whether any slack costs infinitely much: hard margin, hard tube."""
        return bool(np.isinf(self.upper - self.lower).all()) and not self.ridge.any()

    def with_cap(self, cap: float) -> SoftMargin:
        """Return a hard problem with every multiplier limited to `cap`, the cost of slack."""
        return replace(self, lower=np.maximum(self.lower, -cap), upper=np.minimum(self.upper, cap))

    def tightened(self, by: float) -> SoftMargin:
        """Return a hard problem whose constraints are stricter by an amount."""
        return replace(self, target=self.target + np.where(self.upper > 0, by, -by))

    def excess(self, f: FloatArray) -> float:
        """Return by how much f misses the worst constraint of a hard problem, at best."""
        margin = self.target - f[self.row]
        if self.n_groups:
            margin = margin - self.thresholds(f)[self.group]
        return float(np.where(self.upper > 0, margin, -margin).max(initial=-np.inf))

    def variables_of(self, rows: IntArray) -> IntArray:
        """Return the variables of some samples; for the tubes, two blocks of them."""
        blocks = range(0, self.n_variables, self.n_rows)
        return np.concatenate([rows + first for first in blocks])

    def restrict(self, rows: IntArray, scale: float = 1.0) -> SoftMargin:
        """Return the problem on a subsample, with every box multiplied by scale.

        With scale = n / len(rows) each sample of a random subsample counts for as many as it
        represents, so that the optimum of the subsample estimates that of the full problem. The
        totals of the groups are not changed; the caller scales and repairs its variables.
        """
        chosen = self.variables_of(rows)
        return replace(
            self,
            n_rows=len(rows),
            row=np.tile(np.arange(len(rows)), self.n_variables // self.n_rows),
            target=self.target[chosen],
            lower=self.lower[chosen] * scale,
            upper=self.upper[chosen] * scale,
            ridge=self.ridge[chosen] / scale,
            group=self.group[chosen],
        )

    def bounded(self) -> SoftMargin:
        """Return the problem with finite boxes that contain the optimum.

        A ridge rho is a squared slack of cost c = 1 / (2 rho), with alpha = 2 c xi. The loss at the
        optimum is at most that of f = 0, P = sum c t^2, so alpha <= 2 sqrt(c P). Without a box, a
        solver would diverge on a kernel matrix that is indefinite through rounding.
        """
        if not self.ridge.any():
            return self
        cost = 0.5 / self.ridge
        most = 4.0 * np.sqrt(cost * float(cost @ self.target**2))
        return replace(
            self, lower=np.maximum(self.lower, -most), upper=np.minimum(self.upper, most)
        )

    def coefficients(self, alpha: FloatArray) -> FloatArray:
        """Return beta, the expansion coefficient of each sample."""
        if self.n_variables == self.n_rows:
            return alpha
        return np.asarray(np.bincount(self.row, alpha, self.n_rows), dtype=np.float64)

    def scores(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Return the score t - f - ridge * alpha of each variable; f has one value per sample."""
        return self.target - f[self.row] - self.ridge * alpha

    def repair(self, alpha: FloatArray, preference: FloatArray | None = None) -> FloatArray:
        """Return a feasible point near alpha: inside the boxes and with the group totals.

        The difference to the total of a group is distributed over its variables in the order of
        ``preference`` (smallest first), each changed up to its bound.
        """
        alpha = np.clip(alpha, self.lower, self.upper)
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.group == g)
            if preference is not None:
                members = members[np.argsort(preference[members], kind="stable")]
            lack = total - float(alpha[members].sum())
            if abs(lack) <= np.finfo(np.float64).eps * float(np.abs(alpha[members]).sum()):
                continue  # rounding error; correcting it would move a variable off its bound
            room = (self.upper if lack > 0 else self.lower)[members] - alpha[members]
            taken = np.cumsum(room)
            before = np.concatenate([[0.0], taken[:-1]])
            share = np.clip(lack - before, np.minimum(room, 0), np.maximum(room, 0))
            alpha[members] += share
        return np.clip(alpha, self.lower, self.upper)  # sums may round beyond a bound

    def dual(self, alpha: FloatArray, norm2: float) -> float:
        """Return the dual objective; ``norm2`` is beta'K beta."""
        return float(self.target @ alpha - 0.5 * norm2 - 0.5 * (self.ridge @ (alpha * alpha)))

    def primal(self, f: FloatArray, norm2: float, thresholds: FloatArray) -> float:
        """Return the primal objective at f and the thresholds, given |w|^2 = norm2."""
        margin = self.target - f[self.row]
        if self.n_groups:
            margin = margin - thresholds[self.group]
        offset = float(self.totals @ thresholds) if self.n_groups else 0.0
        if self.ridge.any():
            best = np.clip(margin / self.ridge, self.lower, self.upper)
            losses = margin * best - 0.5 * self.ridge * best * best
        else:
            losses = margin * np.where(margin > 0, self.upper, np.where(margin, self.lower, 0.0))
        return float(0.5 * norm2 + losses.sum() + offset)

    def thresholds(self, f: FloatArray) -> FloatArray:
        """Return the thresholds that minimise the primal at f.

        If an interval is optimal, its midpoint is returned, or its finite end if it is unbounded.
        """
        margin = self.target - f[self.row]
        found = np.empty(self.n_groups)
        for g, total in enumerate(self.totals):
            arrays = (margin, self.lower, self.upper, self.ridge)
            if self.n_groups > 1:
                arrays = tuple(array[self.group == g] for array in arrays)
            s, lower, upper, ridge = arrays
            if self.is_hard:
                found[g] = hard_threshold(s, lower, upper)
            elif ridge.any():
                found[g] = ridge_threshold(s, lower, upper, ridge, total)
            else:
                found[g] = staircase_threshold(s, lower, upper, total)
        return found

    def kkt_violation(self, alpha: FloatArray, f: FloatArray) -> float:
        """Return LIBSVM's KKT violation, the largest overlap of scores within a group."""
        return float(
            overlap(self.scores(alpha, f), alpha, self.lower, self.upper, self.group, self.n_groups)
        )

    def certificate(
        self,
        alpha: FloatArray,
        f: FloatArray,
        found: Bracket,
        *,
        tol: float,
        n_iter: int,
        kernel_evaluations: int = 0,
        unit: float = 1.0,
    ) -> Certificate:
        """Return the certificate of dual variables alpha and bounds `found` on the optimum.

        The bounds are those of :mod:`widemargin.problems.soft_margin.bounds`; f = K beta is in
        float64. `tol` and the KKT violation are in units of `unit`. A fit has converged if the
        violation is at most tol and the relative gap is small as well; an indefinite kernel has no
        lower bound (minus infinity) and no gap.
        """
        violation = self.kkt_violation(alpha, f) / unit
        near = relative_gap(found.primal, found.dual) <= USEFUL_GAP or found.dual == -np.inf
        return Certificate.from_objectives(
            self.name,
            primal=found.primal,
            dual=found.dual,
            kkt_violation=violation,
            converged=violation <= tol and near,
            n_iter=n_iter,
            kernel_evaluations=kernel_evaluations,
            rounding=found.rounding,
        )


def c_classification(
    y: FloatArray, cost: FloatArray, *, squared: bool = False, intercept: bool = True
) -> SoftMargin:
    """Return the soft-margin classification problem (Smola et al. 2000, (1.25)).

    Minimise 1/2 |w|^2 + sum_i cost_i xi_i (or cost_i xi_i^2) subject to
    y_i (f(x_i) + b) >= 1 - xi_i, xi_i >= 0.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1 and +1.
    cost : ndarray of shape (n,)
        C times the weight of each sample; all infinite for the hard margin.
    squared : bool
        Whether to square the slacks.
    intercept : bool
        Whether there is an intercept b.
    """
    cap = np.full_like(cost, np.inf) if squared else cost
    name = "hard margin" if np.isinf(cost).all() else "C-squared-hinge" if squared else "C-hinge"
    return SoftMargin(
        name=name + ("" if intercept else ", no intercept"),
        n_rows=len(y),
        row=np.arange(len(y)),
        target=y.astype(np.float64),
        lower=np.where(y > 0, 0.0, -cap),
        upper=np.where(y > 0, cap, 0.0),
        ridge=1.0 / (2.0 * cost) if squared else np.zeros(len(y)),
        group=np.zeros(len(y), dtype=np.intp),
        totals=np.zeros(1 if intercept else 0),
    )


def nu_classification(y: FloatArray, weight: FloatArray, nu: float) -> SoftMargin:
    """Return the nu-SVM problem in LIBSVM's scale.

    Minimise 1/2 |w|^2 - nu rho sum_i weight_i + sum_i weight_i xi_i subject to
    y_i (f(x_i) + b) >= rho - xi_i, xi_i >= 0. Group 0 holds the positive samples (threshold
    b - rho), group 1 the negative ones (b + rho).
    """
    return each_class_by_itself("nu-classification", y, weight, 0.5 * nu * float(weight.sum()))


def each_class_by_itself(name: str, y: FloatArray, cap: FloatArray, total: float) -> SoftMargin:
    """Return a problem with one threshold per class, in which multipliers sum to `total`.

    Group 0 holds the positive samples, group 1 the negative ones; multipliers are at most `cap`.
    """
    return replace(
        c_classification(y, cap),
        name=name,
        target=np.zeros(len(y)),
        group=np.where(y > 0, 0, 1).astype(np.intp),
        totals=np.array([total, -total]),
    )


def one_class(weight: FloatArray, nu: float) -> SoftMargin:
    """Return the one-class problem in LIBSVM's scale (Schölkopf et al. 2001).

    Minimise 1/2 |w|^2 - nu rho sum_i weight_i + sum_i weight_i xi_i subject to
    f(x_i) >= rho - xi_i, xi_i >= 0. The threshold of the only group is -rho.
    """
    total = np.array([nu * float(weight.sum())])
    hinge = c_classification(np.ones(len(weight)), weight)
    return replace(hinge, name="one-class", target=np.zeros(len(weight)), totals=total)


def epsilon_tube(
    y: FloatArray,
    cost: FloatArray,
    epsilon: float,
    *,
    squared: bool = False,
    intercept: bool = True,
) -> SoftMargin:
    """Return the epsilon-insensitive regression problem.

    Minimise 1/2 |w|^2 + sum_i cost_i max(0, |y_i - f(x_i) - b| - epsilon), or its square. With
    infinite costs no error beyond the tube is allowed.
    """
    n, cap = len(y), np.full_like(cost, np.inf) if squared else cost
    name = "hard tube" if np.isinf(cost).all() else "squared " * squared + "epsilon-tube"
    return SoftMargin(
        name=name + ", no intercept" * (not intercept),
        n_rows=n,
        row=np.tile(np.arange(n), 2),
        target=np.concatenate([y - epsilon, y + epsilon]),
        lower=np.concatenate([np.zeros(n), -cap]),
        upper=np.concatenate([cap, np.zeros(n)]),
        ridge=np.tile(1.0 / (2.0 * cost), 2) if squared else np.zeros(2 * n),
        group=np.zeros(2 * n, dtype=np.intp),
        totals=np.zeros(1 if intercept else 0),
    )


def nu_tube(y: FloatArray, cost: FloatArray, nu: float) -> SoftMargin:
    """Return the nu regression problem.

    Minimise 1/2 |w|^2 + nu eps sum_i cost_i + sum_i cost_i max(0, |y_i - f(x_i) - b| - eps)
    over w, b and eps >= 0. Group 0 holds the variables alpha >= 0 (threshold b + eps), group 1
    those with alpha <= 0 (b - eps).
    """
    half = 0.5 * nu * float(cost.sum())
    return replace(
        epsilon_tube(y, cost, 0.0),
        name="nu-tube",
        group=np.repeat(np.arange(2), len(y)),
        totals=np.array([half, -half]),
    )
