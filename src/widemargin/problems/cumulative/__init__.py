r"""Penalised likelihood of the cumulative link (threshold) model for ordinal regression.

Rank k is observed if :math:`\theta_{k-1} < w \cdot x + \epsilon \le \theta_k`, so that
:math:`\Pr(y \le k \mid x) = P(\theta_k - w \cdot x)` for noise with distribution function P:
Herbrich et al. (2000), (2.3)-(2.5). The **problem** is to minimise the negative log-likelihood,
with a penalty on the weights w but not on the thresholds,

.. math::

    \min_{w,\; \theta_1 < \dots < \theta_{q-1}} \; J(w, \theta) = \tfrac{\alpha}{2} |w|^2
    - \sum_i s_i \log\bigl[P(\theta_{y_i} - u_i) - P(\theta_{y_i - 1} - u_i)\bigr],
    \qquad u_i = w \cdot x_i .

where

- :math:`x_i, y_i`: sample i and its rank, 1 to q;
- :math:`s_i`: sample weight; the likelihood is a sum, so weight 2 means the sample twice;
- w, u: weights and utilities;
- :math:`\theta_1, \dots, \theta_{q-1}`: thresholds, with :math:`\theta_0 = -\infty` and
  :math:`\theta_q = \infty`;
- alpha: penalty;
- P: distribution function of the noise (the link, see :mod:`widemargin.problems.cumulative.links`).

J is jointly convex in (w, theta). As every rank occurs, J tends to infinity as two thresholds
approach each other: **the likelihood keeps the thresholds in order**, and no change of variables,
which would destroy convexity, is needed.

**Bound on the suboptimality.** For alpha > 0, :math:`h(w) = \min_\theta J(w, \theta)` is strongly
convex with modulus alpha, hence :math:`h(w) - \min h \le |\nabla h(w)|^2 / (2 \alpha)`. At
thresholds that are optimal for w, :math:`\nabla h` is the gradient of J with respect to w. If the
gradient r with respect to theta is small but not zero, both are corrected by the Newton step
:math:`\delta = T^{-1} r`, where T is the Hessian with respect to theta. The solver stops at this
estimate. The certificate proves the same bound in exact arithmetic, for thresholds that need not
be optimal, see :mod:`widemargin.problems.cumulative.bounds`. For alpha = 0 there is no such bound,
and there is no minimiser if the ranks are separable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, solveh_banded

from widemargin._base.double_double import U
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket, Certificate, relative_gap, tightest
from widemargin.problems.cumulative.bounds import bracket
from widemargin.problems.cumulative.links import LINKS

WEIGHT_ERROR = 4.0 * U  # relative error of a sample weight that is not a sum of many


@dataclass(frozen=True)
class Slopes:
    """First and second derivatives of the likelihood term of J.

    Attributes
    ----------
    utility : ndarray of shape (n_rows,)
        First derivative with respect to the utility of each sample.
    threshold : ndarray of shape (n_thresholds,)
        First derivative with respect to each threshold.
    bend : ndarray of shape (n_rows,)
        Second derivative with respect to the utility of each sample.
    below, above : ndarray of shape (n_rows,)
        Mixed derivative with respect to the utility and the threshold below or above the sample's
        rank; 0 if there is no such threshold.
    diagonal, beside : ndarray of shape (n_thresholds,), (n_thresholds - 1,)
        Diagonal and off-diagonal of the tridiagonal Hessian with respect to the thresholds.
    """

    utility: FloatArray
    threshold: FloatArray
    bend: FloatArray
    below: FloatArray
    above: FloatArray
    diagonal: FloatArray
    beside: FloatArray

    def solve_thresholds(self, right: FloatArray) -> FloatArray:
        """Solve T v = right, with T the tridiagonal Hessian with respect to the thresholds."""
        band = np.zeros((min(2, len(self.diagonal)), len(self.diagonal)))
        band[-1] = self.diagonal
        if len(self.beside):
            band[0, 1:] = self.beside
        try:
            return np.asarray(solveh_banded(band, right, check_finite=False))
        except LinAlgError:  # positive definite up to rounding errors
            band[-1] *= 1.0 + 1e-8
            band[-1] += np.finfo(np.float64).tiny
            return np.asarray(solveh_banded(band, right, check_finite=False))


@dataclass(frozen=True)
class CumulativeProblem:
    """Penalised likelihood of a cumulative link model.

    Attributes
    ----------
    link : {"logit", "probit", "cloglog"}
        Distribution of the noise.
    codes : ndarray of shape (n_rows,)
        Rank of each sample, 0 for the lowest; every rank occurs.
    weight : ndarray of shape (n_rows,)
        Positive sample weights s.
    alpha : float
        Penalty.
    """

    link: str
    codes: IntArray
    weight: FloatArray
    alpha: float

    @cached_property
    def n_ranks(self) -> int:
        """Number of ranks, q."""
        return int(self.codes.max()) + 1

    def start(self) -> FloatArray:
        """Return the optimal thresholds for w = 0: quantiles of the cumulative frequencies."""
        share = np.bincount(self.codes, self.weight)
        below = np.cumsum(share)[:-1] / share.sum()
        return LINKS[self.link].quantile(np.asarray(below, dtype=np.float64))

    def ends(self, utility: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the interval of the noise that gives each sample its rank."""
        ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
        return ends[self.codes] - utility, ends[self.codes + 1] - utility

    def likelihood(self, utility: FloatArray, thresholds: FloatArray) -> float:
        """Return the log-likelihood."""
        return -float(self.weight @ LINKS[self.link].loss(*self.ends(utility, thresholds)))

    def objective(self, utility: FloatArray, thresholds: FloatArray, norm2: float) -> float:
        """Return J, given |w|^2 = norm2."""
        penalty = 0.5 * self.alpha * norm2 if self.alpha > 0 else 0.0
        return penalty - self.likelihood(utility, thresholds)

    def slopes(self, utility: FloatArray, thresholds: FloatArray) -> Slopes:
        """Return the first and second derivatives of the likelihood term of J."""
        c, s = LINKS[self.link].curvature(*self.ends(utility, thresholds)), self.weight
        return Slopes(
            utility=-s * (c.a + c.b),
            threshold=self._by_threshold(s * c.a, s * c.b),
            bend=s * np.maximum(c.aa + 2.0 * c.ab + c.bb, 0.0),  # negative only by rounding
            below=-s * (c.aa + c.ab),
            above=-s * (c.bb + c.ab),
            diagonal=self._by_threshold(s * c.aa, s * c.bb),
            beside=np.bincount(self.codes, s * c.ab, self.n_ranks)[1:-1].astype(np.float64),
        )

    def _by_threshold(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Sum per-sample values over the samples whose rank is bounded by each threshold."""
        q = self.n_ranks
        upper = np.bincount(self.codes, above, q)[:-1]
        return np.asarray(upper + np.bincount(self.codes, below, q)[1:], dtype=np.float64)

    def to_thresholds(self, slopes: Slopes, utility: FloatArray) -> FloatArray:
        """Return the change of the threshold gradient for a change of the utilities."""
        return self._by_threshold(slopes.below * utility, slopes.above * utility)

    def to_utilities(self, slopes: Slopes, thresholds: FloatArray) -> FloatArray:
        """Return the change of the utility gradient for a change of the thresholds."""
        padded = np.concatenate([[0.0], thresholds, [0.0]])
        return slopes.below * padded[self.codes] + slopes.above * padded[self.codes + 1]

    def profile(self, slopes: Slopes) -> tuple[FloatArray, float]:
        """Return the gradient of h with respect to the utilities, and an estimate of J - h."""
        rest = slopes.solve_thresholds(slopes.threshold)
        above = float(slopes.threshold @ rest)  # twice the second-order term, to be conservative
        return slopes.utility - self.to_utilities(slopes, rest), above

    def lower_bound(self, primal: float, above: float, gradient: FloatArray) -> float:
        """Return an estimate of a lower bound from J, J - h and the gradient of h at some w."""
        if self.alpha == 0.0:
            return 0.0  # probabilities are at most one, so J is not negative
        return max(0.0, primal - above - 0.5 * float(gradient @ gradient) / self.alpha)

    def certificate(
        self,
        X: Matrix,
        coef: FloatArray,
        thresholds: FloatArray,
        *,
        tol: float,
        n_iter: int,
        blur: float = WEIGHT_ERROR,
        threads: int = 1,
        solved: bool = False,
    ) -> Certificate:
        """Return the certificate of a model, recomputed from the data.

        `blur` is the relative error of the sample weights. The KKT violation is the largest entry
        of the gradient of h with respect to the weights, and of J with respect to the thresholds.
        Without a penalty the lower bound is 0, and `converged` is `solved`, the solver's word.
        """
        violations = []

        def evaluate(precise: bool) -> Bracket:
            found, violation = bracket(
                self, X, coef, thresholds, blur=blur, precise=precise, threads=threads
            )
            violations.append(violation)
            return found

        found = tightest(evaluate, tol) if self.alpha > 0 else evaluate(False)
        close = relative_gap(found.primal, found.dual) <= tol
        return Certificate.from_objectives(
            f"cumulative {self.link}",
            primal=found.primal,
            dual=found.dual,
            kkt_violation=violations[-1],
            converged=close if self.alpha > 0 else solved,
            n_iter=n_iter,
            rounding=found.rounding,
        )
