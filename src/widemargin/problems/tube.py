r"""Tube regression as the separation of a curve lifted by eps from the same curve lowered by it.

Example (x, t) becomes a positive example (x, t + eps) and a negative one (x, t - eps). A
hyperplane (w, sigma) with thresholds :math:`\theta_\pm` that separates them is a function

.. math:: f(x) = -\frac{w \cdot x}{\sigma} + \frac{\theta_+ + \theta_-}{2 \sigma}

within a tube of half width :math:`\epsilon^* = \epsilon - (\theta_+ - \theta_-) / (2 \sigma)`
around the examples. P6 (hard: k = 1) and P7 (soft) of Balcázar et al. (2008) are P1 and P2 of
:mod:`widemargin.problems.reduced_hull` on these 2 m examples, with the kernel
:math:`k(x, x') + z z'`, where z is the lifted target.

:math:`\sigma > 0` if and only if the hulls do not meet, since
:math:`2 \epsilon \sigma \ge |w|^2 + \sigma^2`. The same f is the optimum of

* SVR with :math:`C = D / \sigma` and :math:`\epsilon^*` for its epsilon,
* NuSVR with that C and :math:`\nu = 2 / \sum_i D_i` (= 2 k / m).

So eps is the **regulariser**: the larger, the flatter f. The tube is what comes out. Where
:math:`\nu > 1` (k > m / 2) its width would be negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.kernels import Kernel, Rows
from widemargin.problems.reduced_hull import NearestPoints, reduced_hulls
from widemargin.problems.soft_margin import SoftMargin, epsilon_tube


def tube_hulls(D: FloatArray) -> SoftMargin:
    """State P7 for examples with the largest masses D: first all lifted ones, then all lowered."""
    y = np.repeat([1.0, -1.0], len(D))
    return replace(reduced_hulls(y, np.tile(D, 2)), name="reduced hulls of a tube")


def lifted_targets(t: FloatArray, epsilon: float) -> FloatArray:
    """Return t + eps and t - eps, t taken from its middle: a shift of t changes no mass."""
    centred = t - 0.5 * (t.min() + t.max())
    return np.concatenate([centred + epsilon, centred - epsilon])


def lifted_rows(rows: Rows, z: FloatArray) -> Rows:
    """Return the 2 m examples seen through the kernel k(x, x') + z z'.

    The linear kernel sees one more feature; the others are evaluated on the m rows as asked.
    """
    if rows.kernel.name == "linear" and isinstance(rows.X, np.ndarray):
        both = np.vstack([rows.X, rows.X]).astype(np.float64)
        return Rows(rows.kernel, np.column_stack([both, z]))
    m = rows.n

    def block(left: FloatArray, right: FloatArray) -> FloatArray:
        at, of = left[:, 0].astype(np.intp), right[:, 0].astype(np.intp)
        values = np.asarray(rows.block(at % m, rows, of % m), dtype=np.float64)
        return values + np.outer(z[at], z[of])

    return Rows(Kernel("callable", function=block), np.arange(2.0 * m)[:, None])


@dataclass(frozen=True)
class Tube:
    """The function and its tube, read from an answer of P7.

    Attributes
    ----------
    sigma : float
        Weight of the lifted target: the scale between the hulls and the regression.
    beta : ndarray of shape (m,)
        Coefficients of f in the kernel expansion.
    half_width : float
        eps*, half of the tube's width.
    """

    sigma: float
    beta: FloatArray
    half_width: float

    @classmethod
    def of(cls, s: FloatArray, z: FloatArray, epsilon: float, points: NearestPoints) -> Tube:
        """Read the tube from the signed masses s of the 2 m examples."""
        m = len(s) // 2
        sigma = float(z @ s)
        beta = -(s[:m] + s[m:]) / sigma
        return cls(sigma, beta, epsilon - points.margin / (2.0 * sigma))

    def as_svr(self, t: FloatArray, s: FloatArray, D: FloatArray) -> tuple[SoftMargin, FloatArray]:
        """Return the problem of SVR with the same optimum, and its dual variables."""
        m = len(t)
        problem = epsilon_tube(t, D / self.sigma, max(0.0, self.half_width))
        return problem, np.concatenate([-s[m:], -s[:m]]) / self.sigma
