r"""Solve the TAP equations by parallel expectation propagation (EP).

Every copy of a sample has a Gaussian factor :math:`\exp(\nu f - \tau f^2/2)`. All factors are
updated in parallel: remove the factor from its marginal to obtain the cavity (mean h, variance c),
multiply by the true likelihood, and match mean and variance by a new factor. Updates are damped
when they stop shrinking. The implementation shares only the likelihood with Newton's method.

References: Minka (2001); Rasmussen and Williams (2006), section 3.6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, cholesky

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.result import MeanFieldResult

LEAST_DAMPING = 1.0 / 64  # smallest step length for updates that grow
SMALLEST_STEP = 1e-6  # if even such a step leaves an improper cavity, the run has stalled
RECOVERY = 1.1  # growth of the step length while updates shrink


@dataclass(frozen=True, eq=False)
class _Factors:
    """Factors of one copy of each sample, with the marginals and cavities they imply.

    Attributes
    ----------
    tau, nu : ndarray
        Precision and shift of each factor.
    mean, variance : ndarray
        Marginals of f at the samples.
    h : ndarray
        Cavity mean, without one factor of the sample; `problem.cavity` is the variance.
    problem : MeanField
        The equations at these cavity variances.
    log_determinant : float
        log det (I + diag(w tau) K).
    """

    tau: FloatArray
    nu: FloatArray
    mean: FloatArray
    variance: FloatArray
    h: FloatArray
    problem: MeanField
    log_determinant: float


def solve_ep(problem: MeanField, K: FloatArray, *, tol: float, budget: Budget) -> MeanFieldResult:
    """Run EP until no factor changes by more than tol, in units of its cavity.

    `problem` states the naive equations; its cavity variances are replaced.
    """
    nothing = np.zeros(problem.n_rows)
    here = _factors(problem, K, nothing, nothing)
    assert here is not None  # without factors the posterior is the prior
    here, change = _sweeps(here, K, tol, budget)
    found = _fields(here, K)
    residual = max(change, found.residual)
    return MeanFieldResult.at(
        here.problem, found, budget, log_evidence=_evidence(here), residual=residual
    )


def _sweeps(here: _Factors, K: FloatArray, tol: float, budget: Budget) -> tuple[_Factors, float]:
    """Update all factors until the largest change is at most tol."""
    damping, change = 1.0, np.inf
    while True:
        tau, nu = _matched(here)
        # Dimensionless changes: cavity variance for tau, deviation of the noisy field for nu.
        c, scale = here.problem.cavity, here.problem.scale
        changes = np.maximum(np.abs(tau - here.tau) * c, np.abs(nu - here.nu) * scale)
        before, change = change, float(changes.max(initial=0.0))
        # A small change does not imply a small residual; require both while the change shrinks.
        met = change <= tol and (change >= before or _fields(here, K).residual <= tol)
        if met or not budget.spend(1, change):
            return here, change
        shrinks = change < before
        damping = min(1.0, RECOVERY * damping) if shrinks else max(LEAST_DAMPING, 0.5 * damping)
        there = None
        while there is None:  # too long a step can make a variance negative
            moved_tau = here.tau + damping * (tau - here.tau)
            moved_nu = here.nu + damping * (nu - here.nu)
            there = _factors(here.problem, K, moved_tau, moved_nu)
            if there is None and damping < SMALLEST_STEP:
                budget.status = "stalled"
                return here, change
            damping = damping if there is not None else 0.5 * damping
        here = there


def _factors(problem: MeanField, K: FloatArray, tau: FloatArray, nu: FloatArray) -> _Factors | None:
    """Compute marginals and cavities of given factors; return None if they are not proper."""
    precision, shift = problem.weight * tau, problem.weight * nu
    if (precision >= 0).all():
        root = np.sqrt(precision)
        lower = cholesky(np.eye(len(K)) + root[:, None] * K * root, lower=True, check_finite=False)
        covariance = K - (K * root) @ cho_solve((lower, True), root[:, None] * K)
        log_determinant = 2.0 * float(np.log(np.diagonal(lower)).sum())
    else:
        system = np.eye(len(K)) + K * precision
        sign, log_determinant = (float(part) for part in np.linalg.slogdet(system))
        if sign == 0:
            return None
        covariance = np.linalg.solve(system, K)
    mean, variance = covariance @ shift, np.diagonal(covariance).copy()
    left = 1 - tau * variance
    # A variance of 0 is legitimate: the kernel of that sample is zero.
    if (variance < 0).any() or (left <= 0).any():
        return None
    cavity = variance / left
    h = (mean - variance * nu) / left
    return _Factors(tau, nu, mean, variance, h, replace(problem, cavity=cavity), log_determinant)


def _fields(here: _Factors, K: FloatArray) -> Fields:
    """Evaluate the mean-field equations at the cavity fields of the factors.

    The coefficients follow from the fields; nu - tau mean would suffer from cancellation.
    """
    return here.problem.at(K, here.problem.label * here.h / here.problem.scale)


def _matched(here: _Factors) -> tuple[FloatArray, FloatArray]:
    """Return the factors that match the moments of the true likelihood."""
    problem, h = here.problem, here.h
    c, lam = problem.cavity, problem.cavity + problem.input_noise
    z = problem.label * h / np.sqrt(lam)
    push = problem.label * problem.likelihood.strength(z) / np.sqrt(lam)
    d, rest = problem.likelihood.slope(z)
    shrink = (problem.input_noise + c * rest) / lam  # tilted variance / c
    return d / lam / shrink, (push + h * d / lam) / shrink


def _evidence(here: _Factors) -> float:
    """Return the log of the integral of prior times factors, each normalised to its likelihood."""
    problem, h, tau, nu = here.problem, here.h, here.tau, here.nu
    w, c = problem.weight, problem.cavity
    likely = problem.likelihood.log_probability(problem.label * h / problem.scale)
    widened = 1 + tau * c
    scale = likely + 0.5 * np.log(widened) - (h * nu + 0.5 * c * nu**2 - 0.5 * tau * h**2) / widened
    whole = 0.5 * float((w * nu) @ here.mean) - 0.5 * here.log_determinant
    return float(w @ scale) + whole
