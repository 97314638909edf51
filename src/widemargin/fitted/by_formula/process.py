"""Posterior process of Gaussian-process regression: means, variances, covariances.

The formulas are those of :mod:`widemargin.solvers.gp_regression.posterior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import FloatArray
from widemargin.fitted.latent import Prior
from widemargin.fitted.record import Record
from widemargin.kernels import Rows
from widemargin.solvers.gp_regression import (
    GPRegressionResult,
    LowRankPosterior,
    RegressionPosterior,
    dense_factor,
)

BLOCK_ROWS = 512  # samples per block of whitened columns, to bound the memory


@dataclass(frozen=True, eq=False)
class RegressionProcess:
    """Posterior process of a fit, with everything that prediction needs.

    Attributes
    ----------
    prior : Prior
        The samples of the kernel expansion with their kernel.
    amplitude, noise : float
        Factor of the kernel, and noise variance.
    mean : float
        Posterior mean of the constant.
    coefficients : ndarray of shape (n_basis,)
        The posterior mean is mean + sum_j coefficients_j k(x, x_j).
    ridge : ndarray of shape (n_basis,)
        Noise variances of these samples in units of the amplitude; empty if they are pivots.
    constant : ndarray of shape (n_basis,)
        Coefficients of the kernel expansion of 1' C^-1 k_x.
    mean_precision : float
        Posterior precision of the constant in units of the amplitude; infinite without one.
    low_rank : LowRankPosterior or None
        The factorisation, if the samples are pivots; None if it is that of all samples.
    """

    prior: Prior
    amplitude: float
    noise: float
    mean: float
    coefficients: FloatArray
    ridge: FloatArray
    constant: FloatArray
    mean_precision: float
    low_rank: LowRankPosterior | None

    @classmethod
    def of(cls, prior: Prior, result: GPRegressionResult) -> RegressionProcess:
        """Return the process of a solution; `prior` has the samples of its kernel expansion."""
        problem, exact = result.problem, result.basis is None
        return cls(
            prior,
            problem.amplitude,
            problem.noise,
            result.mean,
            result.expansion,
            problem.ridge if exact else np.empty(0),
            result.constant_expansion,
            result.mean_precision,
            None if exact else cast(LowRankPosterior, result.posterior),
        )

    def posterior(self, record: Record) -> RegressionPosterior:
        """Return the factorised posterior, which is computed again after loading a model."""
        if self.low_rank is not None:
            return self.low_rank
        prior = self.prior

        def find() -> RegressionPosterior:
            return dense_factor(Rows(prior.kernel, prior.X, prior.centre), self.ridge).posterior

        return record.held("posterior", find)

    def predictive_mean(self, cross: FloatArray) -> FloatArray:
        """Return the posterior means; `cross` has the kernel values, one row per new sample."""
        return np.asarray(self.mean + cross @ self.coefficients)

    def variance(self, record: Record, cross: FloatArray, prior: FloatArray) -> FloatArray:
        """Return the posterior variances of f, given the prior variances k(x, x)."""
        found = prior.copy()
        posterior = self.posterior(record)

        def reduce(start: int) -> None:
            part = slice(start, start + BLOCK_ROWS)
            for sign, columns in posterior.whitened(cross[part]):
                found[part] -= sign * np.einsum("ij,ij->j", columns, columns)

        with worker_threads() as threads:
            for_each(reduce, range(0, len(cross), BLOCK_ROWS), threads)
        np.maximum(found, 0.0, out=found)  # negative only through rounding
        found += self._off_mean(cross) ** 2 / self.mean_precision
        return self.amplitude * found

    def covariance(self, record: Record, cross: FloatArray, prior: FloatArray) -> FloatArray:
        """Return the posterior covariance matrix of f, given that of the prior."""
        found = prior.copy()
        for sign, columns in self.posterior(record).whitened(cross):
            found -= sign * (columns.T @ columns)
        off = self._off_mean(cross)
        found += np.outer(off, off) / self.mean_precision
        return self.amplitude * found

    def _off_mean(self, cross: FloatArray) -> FloatArray:
        """Return 1 - 1' C^-1 k_x: the effect of the constant on f(x)."""
        return np.asarray(1.0 - cross @ self.constant)
