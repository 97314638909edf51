r"""Evidence and leave-one-out log density of Gaussian-process regression, with their gradients.

The symbols are those of :mod:`widemargin.problems.gp_regression`; both losses are in nats per
sample, with the total weight W as the number of samples. In the parameters log a and log s,

.. math:: d\tau = \tau\, (d\log s - d\log a), \qquad db_1 = -b_1\, d\log a .

**Evidence**, :math:`J = -\frac1W \log p(y)`:

.. math::

    dJ = \frac{1}{2W} \sum_{ij} (P - \beta\beta'/a)_{ij}\, dC_{ij}, \qquad
    \frac{dJ}{d\log a} = \frac{1}{2W} \bigl(\operatorname{tr} PK - \beta'K\beta / a\bigr) .

**Leave-one-out**, with the scale, residual and variance of
:mod:`widemargin.solvers.gp_regression.left_out`,

.. math::

    g = \frac{\tau}{1 - \sigma + \sigma c \tau}, \quad \rho = \beta g, \quad
    v = a (1 - c\tau) g + s, \quad
    J = \frac1W \sum_i w_i \Bigl[\tfrac12 \log 2\pi v_i + \frac{\rho_i^2}{2 v_i}\Bigr] ,

and the derivatives of :math:`\beta` and :math:`c` are

.. math:: d\beta = -P\, (dC + 11' db_1)\, \beta, \qquad dc_i = -[P\, (dC + 11' db_1)\, P]_{ii} .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from widemargin._base.typing import FloatArray
from widemargin.problems.gp_regression import GPRegression
from widemargin.tuning.kernel_paths import KernelGradient


@dataclass(frozen=True, eq=False)
class RegressionGradient(KernelGradient):
    """Loss with its derivatives with respect to the kernel matrix, log a and log s.

    Attributes
    ----------
    by_amplitude, by_noise : float
        Derivatives with respect to log a and log s.
    """

    by_amplitude: float
    by_noise: float


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse covariance matrix of a regression problem in units of the amplitude.

    Attributes
    ----------
    P : ndarray of shape (n, n)
        P.
    coefficients : ndarray of shape (n,)
        beta = P y.
    mean_precision : float
        q.
    log_determinant : float
        log det C.
    """

    P: FloatArray
    coefficients: FloatArray
    mean_precision: float
    log_determinant: float

    @classmethod
    def of(cls, problem: GPRegression, K: FloatArray) -> Inverse:
        """Factorise and invert; raise LinAlgError if rounding makes the matrix indefinite."""
        C = K.copy()
        C[np.diag_indices_from(C)] += problem.ridge
        factor, failed = dpotrf(C.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the covariance matrix is not positive definite")
        log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
        half = dpotri(factor, lower=1, overwrite_c=1)[0]
        P = np.tril(half)
        P += np.tril(half, -1).T
        y, precision = problem.target, np.inf
        if problem.has_mean:
            constant = P.sum(axis=1)
            precision = problem.mean_precision + float(constant.sum())
            P -= np.outer(constant, constant / precision)
            if np.isinf(problem.mean_variance):
                y = y - np.median(y)  # P 1 = 0
        return cls(P, P @ y, precision, log_determinant)


def evidence_loss(problem: GPRegression, K: FloatArray) -> RegressionGradient:
    """Compute minus the log evidence per sample and its gradient."""
    known = Inverse.of(problem, K)
    P, beta, ridge, a = known.P, known.coefficients, problem.ridge, problem.amplitude
    total = float(problem.weight.sum())
    y = problem.target - (np.median(problem.target) if np.isinf(problem.mean_variance) else 0.0)
    evidence = problem.log_evidence(float(beta @ y), known.log_determinant, known.mean_precision)
    own = np.diagonal(P)
    by_ridge = 0.5 * float((own - beta**2 / a) @ ridge)
    copies = total - len(beta)
    by_kernel = 0.5 * (float(np.vdot(P, K)) - float(beta @ (K @ beta)) / a)
    return RegressionGradient(
        -evidence / total,
        -0.5 / (a * total) * beta,
        beta,
        np.triu(P).T * (0.5 / total),
        np.ones(len(beta), dtype=bool),
        by_kernel / total,
        (by_ridge + 0.5 * copies) / total,
    )


def left_out_loss(problem: GPRegression, K: FloatArray) -> RegressionGradient:
    """Compute minus the mean log density of the leave-one-out predictions and its gradient."""
    known = Inverse.of(problem, K)
    P, beta, t = known.P, known.coefficients, problem.ridge
    a, s, w = problem.amplitude, problem.noise, problem.weight
    share, c = np.minimum(1.0, w) / w, np.diagonal(P)
    parts = w / w.sum()
    left = 1.0 - share + share * c * t
    g = t / left
    inside = a * (1.0 - c * t)
    residual, v = beta * g, inside * g + s
    loss = 0.5 * float(parts @ (np.log(2.0 * np.pi * v) + residual**2 / v))
    by_residual = parts * residual / v
    by_v = 0.5 * parts * (1.0 - residual**2 / v) / v
    by_g = by_residual * beta + by_v * inside
    by_c = -by_v * a * t * g - by_g * share * g**2
    by_beta = -(P @ (by_residual * g))
    W = -(P * by_c) @ P
    own = by_beta * beta + np.diagonal(W)
    by_t = own - by_v * a * c * g + by_g * (1.0 - share) / left**2
    ridge = float(by_t @ t)
    by_amplitude = float(by_v @ (v - s)) - ridge
    if problem.has_mean and np.isfinite(problem.mean_variance):
        spread = problem.mean_variance / a
        by_amplitude -= spread * (float(by_beta.sum()) * float(beta.sum()) + float(W.sum()))
    return RegressionGradient(
        loss,
        by_beta,
        beta,
        np.triu(W).T,
        np.ones(len(beta), dtype=bool),
        by_amplitude,
        ridge + s * float(by_v.sum()),
    )
