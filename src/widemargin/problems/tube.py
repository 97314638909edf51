r"""Tube regression as the separation of the targets shifted up by eps from those shifted down.

A sample (x, t) becomes a positive sample (x, t + eps) and a negative one (x, t - eps). A
hyperplane (w, sigma) with thresholds :math:`\theta_\pm` that separates them defines a function

.. math:: f(x) = -\frac{w \cdot x}{\sigma} + \frac{\theta_+ + \theta_-}{2 \sigma}

with the samples in a tube of half width
:math:`\epsilon^* = \epsilon - (\theta_+ - \theta_-) / (2 \sigma)` around it, where

- t: target; z: shifted ("lifted") target, t + eps or t - eps;
- eps: shift, the parameter of the problem;
- w, sigma: weights of the features (in feature space) and of z;
- m, :math:`D_i`: number of samples, and cap of a sample, 1 / k;
- :math:`\epsilon^*`: half width of the tube, a result.

P6 (hard: k = 1) and P7 (soft) of Balcázar et al. (2008) are P1 and P2 of
:mod:`widemargin.problems.reduced_hull`, which states primal and dual, on these 2 m samples with the
kernel :math:`k(x, x') + z z'`.

:math:`\sigma > 0` if and only if the reduced hulls are disjoint, since
:math:`2 \epsilon \sigma \ge |w|^2 + \sigma^2`. The same f is the optimum of

* SVR with :math:`C = D / \sigma` and epsilon :math:`\epsilon^*`,
* NuSVR with that C and :math:`\nu = 2 / \sum_i D_i` (= 2 k / m).

Thus eps is the **regularisation parameter**: the larger it is, the flatter is f. The width of the
tube is a result; for :math:`\nu > 1` (k > m / 2) it would be negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.sums import enclosed_sum, majorants
from widemargin.problems.reduced_hull import NearestPoints, reduced_hulls
from widemargin.problems.soft_margin import SoftMargin, epsilon_tube
from widemargin.problems.soft_margin.bounds import Enclose, linear_values


def tube_hulls(D: FloatArray) -> SoftMargin:
    """Return problem P7 for caps D: first the m samples shifted up, then those shifted down."""
    y = np.repeat([1.0, -1.0], len(D))
    return replace(reduced_hulls(y, np.tile(D, 2)), name="reduced hulls of a tube")


def lifted_targets(t: FloatArray, epsilon: float) -> FloatArray:
    """Return t + eps and t - eps with t centred, which does not change the solution."""
    centred = t - 0.5 * (t.min() + t.max())
    return np.concatenate([centred + epsilon, centred - epsilon])


def lifted_rows(rows: Rows, z: FloatArray) -> Rows:
    """Return the 2 m samples with the kernel k(x, x') + z z'.

    For the linear kernel and dense data z is one more feature; otherwise blocks of k(x, x') are
    computed from the m samples on demand.
    """
    if rows.kernel.name == "linear" and isinstance(rows.X, np.ndarray):
        both = np.vstack([rows.X, rows.X]).astype(np.float64)
        return Rows(rows.kernel, np.column_stack([both, z]))
    m = rows.n

    def block(left: FloatArray, right: FloatArray) -> FloatArray:
        at, of = left[:, 0].astype(np.intp), right[:, 0].astype(np.intp)
        # Each sample once: noise of a kernel object is on the diagonal of a block of distinct ones.
        columns, back = np.unique(of % m, return_inverse=True)
        values = np.asarray(rows.block(at % m, rows, columns), dtype=np.float64)[:, back]
        return values + np.outer(z[at], z[of])

    return Rows(Kernel("callable", function=block), np.arange(2.0 * m)[:, None])


def lifted_values(rows: Rows, s: FloatArray, z: FloatArray, error: FloatArray) -> Enclose:
    """Return a function that encloses the values of w.x + sigma z of the 2 m samples.

    `rows` are the m samples, s the signed dual variables of the 2 m, `error` bounds the rounding of
    z. The masses of a sample's two copies are added before the kernel expansion.
    """
    m = rows.n
    added = Enclosure.exact(s[:m]) + s[m:]
    used = np.flatnonzero((added.hi != 0) | (added.lo != 0))
    beta, rest = added.hi[used], added.lo[used]
    targets = Enclosure.within(z, error)
    sigma = targets.dot(s)
    size = majorants(rows)

    def enclose(at: IntArray | None, precise: bool) -> Enclosure:
        at = np.arange(2 * m) if at is None else at
        sums = enclosed_sum(rows, at % m, used, beta, size=size, precise=precise)
        if rest.any():  # rounding of the coefficients
            sums = sums + enclosed_sum(rows, at % m, used, rest, size=size)
        return sums + targets[at] * sigma

    return enclose


def lifted_model(
    X: Matrix, w: FloatArray, sigma: float, z: FloatArray, error: FloatArray, precise: bool
) -> tuple[Enclosure, Enclosure]:
    """Return w.x + sigma z of the 2 m samples, and |w|^2 + sigma^2, for a linear kernel.

    w and sigma are known up to a rounding error, z up to `error`.
    """
    values, norm2 = linear_values(X, w, precise)
    both = np.tile(np.arange(X.shape[0]), 2)
    weight = Enclosure.exact(sigma).blurred(8.0 * U)
    return values[both] + Enclosure.within(z, error) * weight, norm2 + weight * weight


@dataclass(frozen=True)
class Tube:
    """Regression function and tube width computed from a solution of P7.

    Attributes
    ----------
    sigma : float
        Weight of the lifted target, the scale between the hulls and the regression.
    beta : ndarray of shape (m,)
        Coefficients of f in the kernel expansion.
    half_width : float
        Half width eps* of the tube.
    """

    sigma: float
    beta: FloatArray
    half_width: float

    @classmethod
    def of(cls, s: FloatArray, z: FloatArray, epsilon: float, points: NearestPoints) -> Tube:
        """Compute the tube from the signed dual variables s of the 2 m samples."""
        m = len(s) // 2
        sigma = float(z @ s)
        beta = -(s[:m] + s[m:]) / sigma
        return cls(sigma, beta, epsilon - points.margin / (2.0 * sigma))

    def as_svr(self, t: FloatArray, s: FloatArray, D: FloatArray) -> tuple[SoftMargin, FloatArray]:
        """Return the SVR problem with the same optimum, and its dual variables."""
        m = len(t)
        problem = epsilon_tube(t, D / self.sigma, max(0.0, self.half_width))
        return problem, np.concatenate([-s[m:], -s[:m]]) / self.sigma
