r"""Solve the TAP equations by expectation propagation, independently of Newton's method.

Every copy of a row has a Gaussian factor :math:`\exp(\nu f - \tau f^2/2)`. All factors are updated
at once: take the row's factor out of its marginal (mean h, variance c), multiply by the true
likelihood instead, and choose the factor that gives the same mean and variance. Updates are damped
when they stop shrinking. Nothing is shared with Newton's method but the likelihood.

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

LEAST_DAMPING = 1.0 / 64  # of updates that grow
SMALLEST_STEP = 1e-6
RECOVERY = 1.1  # of the damping while updates shrink


@dataclass(frozen=True, eq=False)
class _Factors:
    """The factors of one copy of each row, and what they make of f.

    Attributes
    ----------
    tau, nu : ndarray
        Precision and shift of each factor.
    mean, variance : ndarray
        Marginals of f at the rows.
    h : ndarray
        Mean at each row without one of its factors; the variance is the problem's cavity.
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
    """Run expectation propagation until no factor moves by more than tol of its cavity.

    `problem` states the naive equations; its cavity variances are replaced.
    """
    nothing = np.zeros(problem.n_rows)
    here = _factors(problem, K, nothing, nothing)
    assert here is not None  # the prior itself
    here, change = _sweeps(here, K, tol, budget)
    found = _fields(here, K)
    residual = max(change, found.residual)
    return MeanFieldResult.at(
        here.problem, found, budget, log_evidence=_evidence(here), residual=residual
    )


def _sweeps(here: _Factors, K: FloatArray, tol: float, budget: Budget) -> tuple[_Factors, float]:
    """Update all factors until the largest change is tol."""
    damping, change = 1.0, np.inf
    while True:
        tau, nu = _matched(here)
        # The largest change of a factor in units of its cavity, the noise counted in.
        c, scale = here.problem.cavity, here.problem.scale
        changes = np.maximum(np.abs(tau - here.tau) * c, np.abs(nu - here.nu) * scale)
        before, change = change, float(changes.max(initial=0.0))
        # Factors that hardly move are not yet strengths that meet the equations as well.
        met = change <= tol and (change >= before or _fields(here, K).residual <= tol)
        if met or not budget.spend(1, change):
            return here, change
        shrinks = change < before
        damping = min(1.0, RECOVERY * damping) if shrinks else max(LEAST_DAMPING, 0.5 * damping)
        there = None
        while there is None:  # a step too long can leave a variance negative
            moved_tau = here.tau + damping * (tau - here.tau)
            moved_nu = here.nu + damping * (nu - here.nu)
            there = _factors(here.problem, K, moved_tau, moved_nu)
            if there is None and damping < SMALLEST_STEP:
                budget.status = "stalled"
                return here, change
            damping = damping if there is not None else 0.5 * damping
        here = there


def _factors(problem: MeanField, K: FloatArray, tau: FloatArray, nu: FloatArray) -> _Factors | None:
    """Return the marginals and cavities of some factors; None where there are none."""
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
    if (variance < 0).any() or (left <= 0).any():  # 0 is that of a row of zeros
        return None
    cavity = variance / left
    h = (mean - variance * nu) / left
    return _Factors(tau, nu, mean, variance, h, replace(problem, cavity=cavity), log_determinant)


def _fields(here: _Factors, K: FloatArray) -> Fields:
    """Return the fields of some factors with the coefficients that they ask for.

    Those of the factors, nu - tau mean, are differences that cancel.
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
    """Return log of the integral of the prior times the factors, each scaled to its likelihood."""
    problem, h, tau, nu = here.problem, here.h, here.tau, here.nu
    w, c = problem.weight, problem.cavity
    likely = problem.likelihood.log_probability(problem.label * h / problem.scale)
    widened = 1 + tau * c
    scale = likely + 0.5 * np.log(widened) - (h * nu + 0.5 * c * nu**2 - 0.5 * tau * h**2) / widened
    whole = 0.5 * float((w * nu) @ here.mean) - 0.5 * here.log_determinant
    return float(w @ scale) + whole
