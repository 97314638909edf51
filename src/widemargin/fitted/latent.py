"""Latent functions of a fitted Gaussian-process classifier: means and prior variances.

One function for two classes, the second of which is positive; else one a class, against the rest.
Their posterior means are kernel expansions over all training rows, so prediction needs every row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.kernels import Kernel, Rows
from widemargin.problems.mean_field import Likelihood

UNEVEN = 1e-9  # relative range of a diagonal that still counts as constant


@dataclass(frozen=True, eq=False)
class LatentFunctions:
    """What prediction needs of a fit.

    Attributes
    ----------
    X : ndarray or CSR
        The training rows; of a precomputed kernel, the block of these rows.
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    index : ndarray
        For each row, its number in the user's data.
    offset : float
        Variance of the constant mean, which is added to the kernel.
    coefficients : ndarray of shape (n_rows, n_functions)
        A of each function: its posterior mean is sum_j A_j k(x, x_j).
    precision : ndarray of shape (n_rows, n_functions)
        How sharply each row fixes each function.
    input_noise, flip_noise : float
        Of the likelihood.
    """

    X: Matrix
    kernel: Kernel
    centre: FloatArray | None
    index: IntArray
    offset: float
    coefficients: FloatArray
    precision: FloatArray
    input_noise: float
    flip_noise: float

    @property
    def likelihood(self) -> Likelihood:
        """The probability of a label given a standardised field."""
        return Likelihood(self.flip_noise)

    @property
    def n_functions(self) -> int:
        """Number of functions."""
        return self.coefficients.shape[1]

    def kernel_matrix(self) -> FloatArray:
        """Return the covariance of the training rows."""
        return kernel_matrix(Rows(self.kernel, self.X, self.centre), self.offset)

    def cross(self, X: Matrix) -> FloatArray:
        """Return the covariance of new rows with the training rows, all dense or all sparse.

        Of a precomputed kernel, X has a column for each training row of positive weight.
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
        """Return the variance of new rows before the fit, k(x, x) and that of the mean."""
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

    def mean(self, cross: FloatArray) -> FloatArray:
        """Return the posterior means of new rows, a column for each function."""
        return cross @ self.coefficients


def kernel_matrix(rows: Rows, offset: float) -> FloatArray:
    """Return the kernel matrix of the rows plus a constant, in float64."""
    with worker_threads() as rows.threads:
        K = rows.matrix()
        diagonal = rows.diagonal()
    K[np.diag_indices_from(K)] = diagonal  # exact, where the block has rounding errors
    if offset:
        K += offset
    return K
