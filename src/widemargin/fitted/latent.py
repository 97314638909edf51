"""Prior of a Gaussian process at its samples, and latent functions of a fitted classifier.

Two classes have one latent function, with the second class as the positive one; more classes have
one per class (one-vs-rest). The posterior means are kernel expansions over all training samples,
so prediction needs all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.kernels import Kernel, Rows
from widemargin.problems.mean_field import Likelihood
from widemargin.solvers.mean_field import Posterior, factorise

UNEVEN = 1e-9  # relative range of a diagonal that still counts as constant


@dataclass(frozen=True, eq=False)
class Prior:
    """Samples of a Gaussian process with their prior covariances.

    Attributes
    ----------
    X : ndarray or CSR
        Training samples; for a precomputed kernel, their kernel matrix.
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    index : ndarray
        For each training sample, its index in the user's data.
    offset : float
        Prior variance of the constant mean, which is added to the kernel.
    """

    X: Matrix
    kernel: Kernel
    centre: FloatArray | None
    index: IntArray
    offset: float

    def covariance(self, X: Matrix) -> Any:
        """Return the prior covariance matrix of the training samples X."""
        return kernel_matrix(Rows(self.kernel, X, self.centre), self.offset)

    def cross(self, X: Matrix) -> FloatArray:
        """Return the prior covariance of new samples with the training samples.

        X is dense or sparse as the training samples are. With a precomputed kernel it holds kernel
        values, one column per training sample of positive weight.
        """
        if self.kernel.name == "precomputed":
            return np.asarray(X, dtype=np.float64) + self.offset
        right = Rows(self.kernel, self.X, self.centre)
        with worker_threads() as threads:
            left = Rows(self.kernel, X, right.centre, threads)
            block = left.block(np.arange(left.n), right, np.arange(right.n))
        found = np.asarray(block, dtype=np.float64)
        if self.offset:
            found += self.offset
        return found

    def prior_variance(self, X: Matrix) -> FloatArray:
        """Return the prior variance of new samples: k(x, x) plus the variance of the mean."""
        if self.kernel.name != "precomputed":
            return Rows(self.kernel, X, self.centre).diagonal() + self.offset
        diagonal = np.diagonal(self.X).astype(np.float64)
        if np.ptp(diagonal) > UNEVEN * float(np.abs(diagonal).max()):
            raise ValueError(
                'kernel="precomputed" does not tell k(x, x) of new rows, which their variance '
                "needs, and the diagonal of the training matrix is not constant: pass the kernel "
                "as a function instead"
            )
        return np.full(X.shape[0], float(diagonal[0]) + self.offset)

    def prior_covariance(self, X: Matrix) -> FloatArray:
        """Return the prior covariance matrix of new samples."""
        if self.kernel.name == "precomputed":
            raise ValueError(
                'kernel="precomputed" does not have the kernel values between new samples, which '
                "their covariance needs: ask for the standard deviations, or pass the kernel as a "
                "function"
            )
        return kernel_matrix(Rows(self.kernel, X, self.centre), self.offset)


@dataclass(frozen=True, eq=False)
class LatentFunctions(Prior):
    """Latent functions of a fit, with everything that prediction needs.

    Attributes
    ----------
    X, kernel, centre, index, offset
        As for `Prior`.
    coefficients : ndarray of shape (n_rows, n_functions)
        A of each function: its posterior mean is sum_j A_j k(x, x_j).
    precision : ndarray of shape (n_rows, n_functions)
        Site precision of each training sample, per function.
    input_noise, flip_noise : float
        Noise parameters of the likelihood.
    """

    coefficients: FloatArray
    precision: FloatArray
    input_noise: float
    flip_noise: float

    @property
    def likelihood(self) -> Likelihood:
        """Probability of a label given a standardised field."""
        return Likelihood(self.flip_noise)

    @property
    def n_functions(self) -> int:
        """Number of latent functions."""
        return self.coefficients.shape[1]

    def posterior(self, k: int, K: Any = None) -> Any:
        """Return the factorised posterior of function k; K is the kernel matrix if known."""
        found = factorise(self.covariance(self.X) if K is None else K, self.precision[:, k])
        found.invert()  # now, since other threads may read the factor later
        return found

    def posterior_at_samples(self, k: int, K: Any) -> Posterior | None:
        """Return None: `posterior` is that at the training samples."""
        return None

    def mean(self, cross: FloatArray) -> FloatArray:
        """Return the posterior means of new samples, one column per latent function."""
        return cross @ self.coefficients


def resolved_mean_variance(setting: Any, diagonal: FloatArray, weight: FloatArray) -> float:
    """Return the prior variance of the constant mean; "auto" is the mean of k(x, x)."""
    if setting != "auto":
        return float(setting)
    return float((weight * diagonal).sum() / weight.sum())


def kernel_matrix(rows: Rows, offset: float) -> FloatArray:
    """Return the kernel matrix of the samples plus a constant, in float64."""
    with worker_threads() as rows.threads:
        K = rows.matrix()
        diagonal = rows.diagonal()
    K[np.diag_indices_from(K)] = diagonal  # exact; the values of the block are rounded
    if offset:
        K += offset
    return K
