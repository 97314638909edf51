r"""Solve the mean-field equations at given cavity variances by Newton's method.

With g the gradient of the convex function E in the coefficients A, one step solves

    (K + diag(1/n)) delta = -g,      g_i = h_i - y_i sqrt(lambda_i) z_i,

and moves every z to what the equations, linearised in F, give it. Taken whole, that is Newton's
method for A and for z alike; the fields z are the better coordinates to shorten a step in, since
any z belongs to coefficients in the domain of E. A step is shortened until E falls, so that the
method converges from any start; from those taken here it hardly ever happens. With little noise
many rows end far on the left, where F is nearly linear: steps from there need not find the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField, symmetric_product
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.posterior import factorise

# Fractions of the flip noise at which the equations are solved in turn.
CONTINUATION = (0.01, 0.1, 0.3, 0.6, 1.0)
LOOSE_TOL = 1e-4  # residual at which the next fraction takes over
SUFFICIENT_DESCENT = 1e-4  # of the descent that the slope promises
SHORTEST = 2.0**-30
LITTLE_NOISE = 0.01  # relative to the cavity variance
LEFT = -3.0  # where fields start if there is little noise
# Squared distance of the classes' hulls, relative to the kernel's diagonal. At that distance 1 -
# F(z) / alpha is of its size, which a residual of 1e-10 can still tell from 0.
SINGULAR = 1e-9

Direction: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""(precisions n, right side) -> (K + diag(1/n))^-1 right side."""


def dense_direction(K: FloatArray) -> Direction:
    """Return the Newton direction by factorisation, in memory that is used again."""
    scratch = np.empty_like(K)
    return lambda precision, right: factorise(K, precision, scratch).solve(right)


def solve_newton(
    problem: MeanField,
    K: FloatArray,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> Fields:
    """Solve the equations at given cavity variances and flip noise.

    Ends at a residual of tol, when the budget says so (`budget.status`), or when no step, however
    short, improves the point (status "stalled").
    """
    if start is None:
        start = np.full(problem.n_rows, LEFT if has_little_noise(problem) else 0.0)
    here = problem.at(K, start)
    unsure = problem.input_noise == 0 and problem.is_convex
    while here.residual > tol:
        if unsure:
            require_separable(K, here.coefficients)
        step = _newton_step(problem, K, here, direction)
        there = _line_search(problem, K, here, step)
        if there is None:
            budget.status = "stalled"
            return here
        here = there
        if not budget.spend(1, here.residual) and here.residual > tol:
            return here
    if unsure:
        require_separable(K, here.coefficients)
    if budget.status in ("max_iter", "stalled"):
        budget.status = "converged"  # it was the last step that was allowed, and it sufficed
    return here


def has_little_noise(problem: MeanField) -> bool:
    """Whether the noise is so small that rows can have fields far on the left."""
    return problem.input_noise < LITTLE_NOISE * float(np.max(problem.cavity))


def _newton_step(
    problem: MeanField, K: FloatArray, here: Fields, direction: Direction
) -> tuple[FloatArray, float]:
    """Return the step in z and the slope of E along it."""
    missing = here.reached - here.z
    gradient = problem.label * problem.scale * missing
    delta = -direction(problem.precision(here.z), gradient)
    moved = symmetric_product(K, delta) - problem.cavity * delta / problem.weight
    return missing + problem.label * moved / problem.scale, float(gradient @ delta)


def _line_search(
    problem: MeanField, K: FloatArray, here: Fields, step: tuple[FloatArray, float]
) -> Fields | None:
    """Go along the step until the residual halves or (flip noise 0) E falls as it should."""
    change, slope = step
    convex = problem.is_convex
    before = problem.objective(here.z, here.field) if convex else 0.0
    distance = float(np.linalg.norm(here.reached - here.z))
    length = 1.0
    while length >= SHORTEST:
        there = problem.at(K, here.z + length * change)
        if there.residual <= 0.5 * here.residual:
            return there
        if convex:
            after = problem.objective(there.z, there.field)
            better = after < before + SUFFICIENT_DESCENT * length * slope
        else:
            better = (
                float(np.linalg.norm(there.reached - there.z)) < (1 - SUFFICIENT_DESCENT) * distance
            )
        if better:
            return there
        length *= 0.5
    return None


def solve_by_continuation(
    problem: MeanField,
    K: FloatArray,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> Fields:
    """Solve the equations at flip noise 0 first, then by continuation, unless there is a start."""
    flip_noise = problem.likelihood.flip_noise
    if start is not None:
        return solve_newton(problem, K, direction, tol=tol, budget=budget, start=start)
    sharp = problem.with_flip_noise(0.0)
    fields = solve_newton(
        sharp, K, direction, tol=tol if flip_noise == 0 else LOOSE_TOL, budget=budget
    )
    for fraction in CONTINUATION if flip_noise > 0 else ():
        if budget.status in ("max_iter", "stopped"):
            break
        budget.status = "converged"
        fields = solve_newton(
            problem.with_flip_noise(fraction * flip_noise),
            K,
            direction,
            tol=tol if fraction == 1 else LOOSE_TOL,
            budget=budget,
            start=fields.z,
        )
    return fields


def require_separable(K: FloatArray, coefficients: FloatArray) -> None:
    """Raise if coefficients prove that equations without input noise have no solution.

    They have none if and only if some coefficients of the labels' signs, not all zero, combine the
    rows to zero: the classes cannot be separated without a threshold. An iteration then leads
    there, its coefficients growing without bound.
    """
    total = max(float(np.abs(coefficients).sum()), np.finfo(np.float64).tiny)
    share = coefficients / total
    largest = float(np.diagonal(K).max())
    if float(share @ symmetric_product(K, share)) <= SINGULAR * largest:
        raise ValueError(
            "input_noise=0 needs classes that the kernel separates (equal rows with different "
            "labels cannot be), and these are not: give a positive input_noise, e.g. "
            f"input_noise={0.1 * largest:.2g}, a tenth of the kernel's diagonal"
        )
