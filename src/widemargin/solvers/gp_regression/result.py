"""Result of the solvers of Gaussian-process regression."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers.base import Result
from widemargin.solvers.gp_regression.posterior import RegressionPosterior


@dataclass(frozen=True, eq=False, kw_only=True)
class GPRegressionResult(Result):
    """Posterior of a regression problem, with the symbols of `problems.gp_regression`.

    Attributes
    ----------
    problem : GPRegression
        The problem.
    coefficients : ndarray of shape (n,)
        beta, per sample.
    mean : float
        Posterior mean m of the constant.
    values : ndarray of shape (n,)
        K beta (of "low_rank": V V' beta), in float64.
    constant : ndarray of shape (n,)
        z = C^-1 1.
    mean_precision : float
        q; infinite without a mean.
    log_evidence : float
        Log evidence, or its lower bound by "low_rank".
    residual : float
        Largest residual of the linear system, relative to the largest target.
    posterior : RegressionPosterior
        The factorisation.
    basis : ndarray or None
        Indices of the samples of the kernel expansion: the pivots of "low_rank"; None for all.
    expansion, constant_expansion : ndarray
        Coefficients of the kernel expansions of beta and z over these samples.
    rest : ndarray of shape (n,) or None
        Prior variance that the pivots do not explain, in units of the amplitude; None for zero.
    """

    problem: GPRegression
    coefficients: FloatArray
    mean: float
    values: FloatArray
    constant: FloatArray
    mean_precision: float
    log_evidence: float
    residual: float
    posterior: RegressionPosterior
    basis: IntArray | None
    expansion: FloatArray
    constant_expansion: FloatArray
    rest: FloatArray | None
