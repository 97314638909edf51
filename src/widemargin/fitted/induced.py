r"""Latent functions of a low-rank fit: features of inducing samples instead of all samples.

With r inducing samples u, L the Cholesky factor of their kernel matrix and s^2 the prior variance
of the constant mean, the features of x are :math:`v(x) = (L^{-1} k(u, x), s)`. The prior is
:math:`f(x) = v(x)'w + e(x)` with standard normal weights w and independent
:math:`e(x) \sim N(0,\, k(x, x) + s^2 - |v(x)|^2)`, the part of f that the inducing samples leave
open: its variances are those of the kernel everywhere, its covariances those of rank r (the fully
independent training conditional of Snelson and Ghahramani, 2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin.fitted.latent import LatentFunctions
from widemargin.kernels import Kernel, Rows
from widemargin.solvers.mean_field import InnerPosterior, LowRankCovariance, Posterior

BLOCK_ROWS = 4_096  # rows per block of kernel values


@dataclass(frozen=True, eq=False)
class InducedFunctions(LatentFunctions):
    """Latent functions whose posterior means are expansions over the inducing samples.

    X has the inducing samples, `coefficients` the posterior mean of the weights, one column per
    function.

    Attributes
    ----------
    whitening : ndarray of shape (r - 1, r - 1)
        Inverse of L; r counts the constant feature.
    inner : ndarray of shape (n_functions, r, r)
        Inverse Cholesky factors of the posterior precision of the weights.
    """

    whitening: FloatArray
    inner: FloatArray

    def cross(self, X: Matrix) -> FloatArray:
        """Return the features of new samples."""
        return features(self.kernel, self.centre, self.X, self.whitening, self.offset, X)

    def posterior(self, k: int, K: Any = None) -> Any:
        """Return the posterior of the weights of latent function k."""
        return InnerPosterior(self.inner[k])

    def covariance(self, X: Matrix) -> LowRankCovariance:
        """Return the prior covariance of the training samples X."""
        return LowRankCovariance(self.cross(X))

    def posterior_at_samples(self, k: int, K: Any) -> Posterior | None:
        """Return the posterior at the training samples; K is their covariance."""
        found: Posterior = K.factorise(self.precision[:, k])
        return found


def features(
    kernel: Kernel,
    centre: FloatArray | None,
    inducing: Matrix,
    whitening: FloatArray,
    offset: float,
    X: Matrix,
) -> FloatArray:
    """Return the features of samples, one row per sample."""
    rank = len(whitening)
    found = np.empty((X.shape[0], rank + 1))
    found[:, rank] = np.sqrt(offset)
    right = Rows(kernel, inducing, centre)
    with worker_threads() as threads:
        left = Rows(kernel, X, right.centre, threads)
        for start in range(0, left.n if rank else 0, BLOCK_ROWS):
            part = np.arange(start, min(start + BLOCK_ROWS, left.n))
            block = left.block(part, right, np.arange(rank))
            found[start : part[-1] + 1, :rank] = block @ whitening.T
    return found
