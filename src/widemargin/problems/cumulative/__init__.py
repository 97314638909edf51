r"""State the cumulative (threshold) model: ordered ranks as intervals of a noisy linear utility.

Rank k is seen when :math:`\theta_{k-1} < w \cdot x + \epsilon \le \theta_k`, so that
:math:`\Pr(y \le k \mid x) = P(\theta_k - w \cdot x)` for noise of distribution P: Herbrich et al.
(2000), (2.3)-(2.5). The **problem** is the negative log-likelihood of rows of weight
:math:`s_i`, with a penalty on the weights w but not on the thresholds,

.. math::

    \min_{w,\; \theta_1 < \dots < \theta_{q-1}} \; J(w, \theta) = \tfrac{\alpha}{2} |w|^2
    - \sum_i s_i \log\bigl[P(\theta_{y_i} - u_i) - P(\theta_{y_i - 1} - u_i)\bigr],
    \qquad u_i = w \cdot x_i .

The likelihood is a sum, not a mean: weight 2 is the row twice. J is convex in (w, theta) jointly
(`cumulative.links`), and since every rank has a row, J grows beyond all bounds as
two thresholds meet: **the likelihood itself keeps them in order**, no change of variables is
needed, and none that would spoil the convexity is made.

**How far from the optimum.** With alpha > 0, :math:`h(w) = \min_\theta J(w, \theta)` is strongly
convex with modulus alpha, hence :math:`h(w) - \min h \le |\nabla h(w)|^2 / (2 \alpha)`. At
thresholds that are optimal for w, :math:`\nabla h` is the gradient of J by w. If they are so but
for a small gradient r, both are corrected by the Newton step :math:`\delta = T^{-1} r` that would
remove it (T is the curvature by theta). With alpha = 0 there is no such bound, and where the ranks
can be separated, no optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, solveh_banded

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import Certificate, relative_gap
from widemargin.problems.cumulative.links import LINKS


@dataclass(frozen=True)
class Slopes:
    """First and second derivatives of the likelihood by the utilities and thresholds.

    Attributes
    ----------
    utility : ndarray of shape (n_rows,)
        By the utility of each row.
    threshold : ndarray of shape (n_thresholds,)
        By each threshold.
    bend : ndarray of shape (n_rows,)
        Twice by the utility of a row.
    below, above : ndarray of shape (n_rows,)
        By the utility and the threshold below or above the row's rank; 0 where there is none.
    diagonal, beside : ndarray of shape (n_thresholds,), (n_thresholds - 1,)
        Twice by a threshold; by a threshold and the next one. Others never meet in a row.
    """

    utility: FloatArray
    threshold: FloatArray
    bend: FloatArray
    below: FloatArray
    above: FloatArray
    diagonal: FloatArray
    beside: FloatArray

    def solve_thresholds(self, right: FloatArray) -> FloatArray:
        """Return T^-1 right, T being the tridiagonal curvature by the thresholds."""
        band = np.zeros((min(2, len(self.diagonal)), len(self.diagonal)))
        band[-1] = self.diagonal
        if len(self.beside):
            band[0, 1:] = self.beside
        try:
            return np.asarray(solveh_banded(band, right, check_finite=False))
        except LinAlgError:  # positive definite but for rounding
            band[-1] *= 1.0 + 1e-8
            band[-1] += np.finfo(np.float64).tiny
            return np.asarray(solveh_banded(band, right, check_finite=False))


class CumulativeModel(Protocol):
    """What a certificate needs to know of a model.

    `primal` is J there, `above` how far that is above h, `gradient` the gradient of h by w, and
    `threshold_gradient` that of J by the thresholds.
    """

    @property
    def primal(self) -> float: ...  # noqa: D102
    @property
    def above(self) -> float: ...  # noqa: D102
    @property
    def gradient(self) -> FloatArray: ...  # noqa: D102
    @property
    def threshold_gradient(self) -> FloatArray: ...  # noqa: D102
    @property
    def n_iter(self) -> int: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class CumulativeProblem:
    """The penalised likelihood above, as data.

    Attributes
    ----------
    link : {"logit", "probit", "cloglog"}
        Distribution of the noise.
    codes : ndarray of shape (n_rows,)
        Rank of each row, 0 for the lowest; every rank has a row.
    weight : ndarray of shape (n_rows,)
        Positive weights s.
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
        """Return the best thresholds of w = 0: the quantiles of the shares of the ranks."""
        share = np.bincount(self.codes, self.weight)
        below = np.cumsum(share)[:-1] / share.sum()
        return LINKS[self.link].quantile(np.asarray(below, dtype=np.float64))

    def _ends(self, utility: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the interval of the noise in which each row has its rank."""
        ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
        return ends[self.codes] - utility, ends[self.codes + 1] - utility

    def likelihood(self, utility: FloatArray, thresholds: FloatArray) -> float:
        """Return the log-likelihood, which is negative."""
        return -float(self.weight @ LINKS[self.link].loss(*self._ends(utility, thresholds)))

    def objective(self, utility: FloatArray, thresholds: FloatArray, norm2: float) -> float:
        """Return J at |w|^2 = norm2."""
        penalty = 0.5 * self.alpha * norm2 if self.alpha > 0 else 0.0
        return penalty - self.likelihood(utility, thresholds)

    def slopes(self, utility: FloatArray, thresholds: FloatArray) -> Slopes:
        """Return the derivatives of the likelihood's part of J."""
        c, s = LINKS[self.link].curvature(*self._ends(utility, thresholds)), self.weight
        return Slopes(
            utility=-s * (c.a + c.b),
            threshold=self._by_threshold(s * c.a, s * c.b),
            bend=s * np.maximum(c.aa + 2.0 * c.ab + c.bb, 0.0),
            below=-s * (c.aa + c.ab),
            above=-s * (c.bb + c.ab),
            diagonal=self._by_threshold(s * c.aa, s * c.bb),
            beside=np.bincount(self.codes, s * c.ab, self.n_ranks)[1:-1].astype(np.float64),
        )

    def _by_threshold(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Sum over the rows that have a threshold below or above them."""
        q = self.n_ranks
        upper = np.bincount(self.codes, above, q)[:-1]
        return np.asarray(upper + np.bincount(self.codes, below, q)[1:], dtype=np.float64)

    def to_thresholds(self, slopes: Slopes, utility: FloatArray) -> FloatArray:
        """Return the change of the thresholds' gradient that a change of utilities makes."""
        return self._by_threshold(slopes.below * utility, slopes.above * utility)

    def to_utilities(self, slopes: Slopes, thresholds: FloatArray) -> FloatArray:
        """Return the change of the rows' gradient that a change of thresholds makes."""
        padded = np.concatenate([[0.0], thresholds, [0.0]])
        return slopes.below * padded[self.codes] + slopes.above * padded[self.codes + 1]

    def profile(self, slopes: Slopes) -> tuple[FloatArray, float]:
        """Return the derivative of h by each row's utility, and how far J is above h at w."""
        rest = slopes.solve_thresholds(slopes.threshold)
        above = float(slopes.threshold @ rest)  # twice the second-order term: on the safe side
        return slopes.utility - self.to_utilities(slopes, rest), above

    def lower_bound(self, primal: float, above: float, gradient: FloatArray) -> float:
        """Return a bound below the optimum from J, J - h and the gradient of h at one w."""
        if self.alpha == 0.0:
            return 0.0  # no probability exceeds one
        return max(0.0, primal - above - 0.5 * float(gradient @ gradient) / self.alpha)

    def certificate(self, model: CumulativeModel, *, tol: float) -> Certificate:
        """Return what is known of the optimum, from quantities evaluated at a model.

        Without a penalty there is no bound that could tell whether a fit has converged: then it has
        if the solver says so.
        """
        dual = self.lower_bound(model.primal, model.above, model.gradient)
        violation = max(
            np.abs(model.gradient).max(initial=0.0), np.abs(model.threshold_gradient).max()
        )
        close = relative_gap(model.primal, dual) <= tol
        return Certificate.from_objectives(
            f"cumulative {self.link}",
            primal=model.primal,
            dual=dual,
            kkt_violation=float(violation),
            converged=close if self.alpha > 0 else model.status == "converged",
            n_iter=model.n_iter,
        )
