"""Solve the TAP equations: mean-field equations with self-consistent cavity variances.

Rounds of two halves: solve the equations at the present cavity variances (Newton), then read off
the posterior what the cavity variances are. The rounds converge by themselves; a round after which
the variances move more than before is taken half way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.newton import Direction, solve_by_continuation, solve_newton
from widemargin.solvers.mean_field.posterior import Posterior, factorise
from widemargin.solvers.mean_field.result import MeanFieldResult

INNER_TOL = 1e-2  # the fields are solved for to this fraction of the variances' last change
FIRST_TOL = 1e-2  # residual of the naive equations, where the rounds start
MOST_ROUNDS = 500
LEAST_DAMPING = 1.0 / 64
PATIENCE = 20  # rounds in a row in which some row has no cavity variance
RECOVERY = 1.2


@dataclass(frozen=True, eq=False)
class _Round:
    """Fields at some cavity variances, the posterior there, and how far the variances are off."""

    problem: MeanField
    fields: Fields
    posterior: Posterior
    change: float

    @property
    def residual(self) -> float:
        return max(self.change, self.fields.residual)


def solve_tap(
    problem: MeanField,
    K: FloatArray,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> MeanFieldResult:
    """Solve the TAP equations, starting from the naive ones, and these from `start`.

    `problem` states the naive equations. The residual covers both halves: that of the equations
    and the largest change of a cavity variance, relative to lambda.
    """
    fields = solve_by_continuation(problem, K, direction, tol=FIRST_TOL, budget=budget, start=start)
    last = _rounds(problem, K, fields.z, direction, tol, budget)
    if last.residual <= tol:
        budget.status = "converged"
    elif budget.status == "converged":
        budget.status = "stalled"
    log_evidence = tap_evidence(last.problem, last.fields, last.posterior)
    return MeanFieldResult.at(
        last.problem, last.fields, budget, log_evidence=log_evidence, residual=last.residual
    )


def _rounds(
    problem: MeanField,
    K: FloatArray,
    z: FloatArray,
    direction: Direction,
    tol: float,
    budget: Budget,
) -> _Round:
    """Alternate between fields and variances at one flip noise."""
    scratch = np.empty_like(K)
    change, damping, without = np.inf, 1.0, 0
    for _ in range(MOST_ROUNDS):
        budget.status = "converged"
        goal = max(0.1 * tol, INNER_TOL * min(1.0, change))
        fields = solve_newton(problem, K, direction, tol=goal, budget=budget, start=z)
        z = fields.z
        posterior = factorise(K, problem.precision(z), scratch)
        cavity = implied_cavity(problem, posterior, K)
        before, change = change, np.inf
        if not (cavity <= 0).any():
            moved = np.abs(cavity - problem.cavity) / (problem.cavity + problem.input_noise)
            change = float(moved.max(initial=0.0))
        here = _Round(problem, fields, posterior, change)
        if here.residual <= tol or budget.status in ("max_iter", "stopped"):
            break
        without = without + 1 if change == np.inf else 0
        if without > PATIENCE:
            break
        shrinks = change < before
        damping = min(1.0, RECOVERY * damping) if shrinks else max(LEAST_DAMPING, 0.5 * damping)
        wanted = np.where(cavity > 0, cavity, problem.cavity)
        cavity = problem.cavity + damping * (wanted - problem.cavity)
        problem = replace(problem, cavity=cavity)
    return here


def implied_cavity(problem: MeanField, posterior: Posterior, K: FloatArray) -> FloatArray:
    """Return Sigma_ii / (1 - tau_i Sigma_ii): the variance without one copy of the row.

    Not positive where there is none: far from the solution a row of weight below 1, of which more
    is left out than there is, can take away more than the prior has.
    """
    kept, variance = posterior.diagonals(K)
    rest = 1 - (1 - kept) / problem.weight
    return np.divide(variance, rest, out=np.full_like(rest, -np.inf), where=rest > 0)


def tap_evidence(problem: MeanField, fields: Fields, posterior: Posterior) -> float:
    """Return log p(y): the naive one less half of log det (I + D (K - c)), D = d / lambda."""
    rest = problem.likelihood.slope(fields.z)[1]
    v, c = problem.input_noise, problem.cavity
    each = np.log((v + c * rest) / (c + v))  # log (1 - c d / lambda), one for each copy
    spread = float(problem.weight @ each) + posterior.log_determinant()
    return problem.log_evidence(fields) - 0.5 * spread
