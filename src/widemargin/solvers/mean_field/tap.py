"""Solve the TAP equations: mean-field equations with self-consistent cavity variances.

Each round solves the equations at the current cavity variances by Newton's method, and computes the
cavity variances that the posterior implies.

With many samples, the first rounds compute the posterior in float32, and the next variances are
those of a Newton step (:mod:`widemargin.solvers.mean_field.cavities`). Two to four rounds in
float64 follow, with the response of the last float32 posterior. With few samples, with negative
precisions (flip noise), or if a Newton step does not improve the variances, the next variances are
the implied ones. This fixed-point iteration usually converges without damping; the step is halved
when the variances change by more than in the round before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.cavities import CavityStep, goal_after, rough_rounds
from widemargin.solvers.mean_field.newton import Direction, solve_by_continuation, solve_newton
from widemargin.solvers.mean_field.posterior import Posterior, factorise, room_for
from widemargin.solvers.mean_field.result import MeanFieldResult

INNER_TOL = 1e-2  # residual of the fields, relative to the last change of the variances
FIRST_TOL = 1e-2  # residual of the naive equations, which only provide the start
MOST_ROUNDS = 500
MANY_SAMPLES = 200  # from this number on, the first rounds are in float32
IMPROVED = 0.5  # factor by which a Newton step must reduce the change of the variances
LEAST_DAMPING = 1.0 / 64  # smallest step length of the variances
PATIENCE = 20  # consecutive rounds in which the cavity variance of some sample may not exist
RECOVERY = 1.2  # growth of the step length while the changes shrink


@dataclass(frozen=True, eq=False)
class _Round:
    """Fields and posterior at given cavity variances, and the relative change of the variances."""

    problem: MeanField
    fields: Fields
    posterior: Posterior
    change: float

    @property
    def residual(self) -> float:
        return max(self.change, self.fields.residual)


def solve_tap(
    problem: MeanField,
    K: Any,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> MeanFieldResult:
    """Solve the TAP equations, starting from a rough solution of the naive ones.

    `problem` states the naive equations, which are solved from `start`. The residual is the larger
    of that of the equations and the largest change of a cavity variance, relative to lambda.
    """
    fields = solve_by_continuation(problem, K, direction, tol=FIRST_TOL, budget=budget, start=start)
    z, response = fields.z, None
    many = isinstance(K, np.ndarray) and problem.n_rows >= MANY_SAMPLES
    if many and budget.status == "converged":
        problem, z, response = rough_rounds(problem, K, z, direction, tol=tol, budget=budget)
    last = _rounds(problem, K, z, direction, tol, budget, response)
    if last.residual <= tol:
        budget.status = "converged"
    elif budget.status == "converged":
        budget.status = "stalled"
    log_evidence = tap_evidence(last.problem, last.fields, last.posterior)
    return MeanFieldResult.at(
        last.problem,
        last.fields,
        budget,
        log_evidence=log_evidence,
        residual=last.residual,
        posterior=last.posterior,
    )


def _rounds(
    problem: MeanField,
    K: Any,
    z: FloatArray,
    direction: Direction,
    tol: float,
    budget: Budget,
    response: CavityStep | None,
) -> _Round:
    """Alternate between fields and cavity variances at the full flip noise.

    `response` proposes Newton steps until one fails.
    """
    scratch = room_for(K)
    change, damping, without = np.inf, 1.0, 0
    for _ in range(MOST_ROUNDS):
        budget.status = "converged"
        goal = max(0.1 * tol, goal_after(change) if response else INNER_TOL * min(1.0, change))
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
        response = response if change < IMPROVED * before else None
        proposed = response.moved(problem, cavity, z) if response and change < np.inf else None
        if proposed is not None:
            problem, z = replace(problem, cavity=proposed[0]), proposed[1]
            continue
        shrinks = change < before
        damping = min(1.0, RECOVERY * damping) if shrinks else max(LEAST_DAMPING, 0.5 * damping)
        wanted = np.where(cavity > 0, cavity, problem.cavity)
        cavity = problem.cavity + damping * (wanted - problem.cavity)
        problem = replace(problem, cavity=cavity)
    return here


def implied_cavity(problem: MeanField, posterior: Posterior, K: Any) -> FloatArray:
    """Return Sigma_ii / (1 - tau_i Sigma_ii), the variance without one copy of the sample.

    Not positive where it does not exist: for a weight below 1, one copy is more than the sample,
    and far from the solution its removal can leave a negative precision.
    """
    kept, variance = posterior.diagonals(K)
    rest = 1 - (1 - kept) / problem.weight
    return np.divide(variance, rest, out=np.full_like(rest, -np.inf), where=rest > 0)


def tap_evidence(problem: MeanField, fields: Fields, posterior: Posterior) -> float:
    """Return log p(y): the naive value minus half of log det (I + D (K - c)), D = d / lambda."""
    rest = problem.likelihood.slope(fields.z)[1]
    v, c = problem.input_noise, problem.cavity
    each = np.log((v + c * rest) / (c + v))  # log (1 - c d / lambda), per copy of a sample
    spread = float(problem.weight @ each) + posterior.log_determinant()
    return problem.log_evidence(fields) - 0.5 * spread
