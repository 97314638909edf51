r"""Newton's method for the mean-field equations at given cavity variances.

With g the gradient of the convex function E in the coefficients A, one step solves

    (K + diag(1/n)) delta = -g,      g_i = h_i - y_i sqrt(lambda_i) z_i,

and updates every z by the equations linearised in F. A full step is Newton's method for A as well
as for z, but steps are better shortened in z, since any z corresponds to coefficients in the domain
of E. A step is shortened until E decreases, which makes the method globally convergent; from the
starting points used here this is rarely necessary. With little noise many fields of the solution
are far in the left tail, where F is nearly linear, and the iteration starts there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField, symmetric_product
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.posterior import factorise, room_for

# Continuation in the flip noise: fractions at which the equations are solved in turn.
CONTINUATION = (0.01, 0.1, 0.3, 0.6, 1.0)
LOOSE_TOL = 1e-4  # residual at all fractions but the last
SUFFICIENT_DESCENT = 1e-4  # fraction of the decrease predicted by the slope (Armijo)
SHORTEST = 2.0**-30  # step length below which the iteration has stalled
LITTLE_NOISE = 0.01  # relative to the cavity variance
LEFT = -3.0  # initial fields if there is little noise
# Squared distance between the hulls of the classes, relative to the kernel's diagonal, that counts
# as zero. There 1 - F(z) / alpha is of the same size, which a residual of 1e-10 still resolves.
SINGULAR = 1e-9
CAPS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # least fields tried after an early stop

Direction: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""(precisions n, right side) -> (K + diag(1/n))^-1 right side."""


def dense_direction(K: Any) -> Direction:
    """Return a function that computes Newton directions by factorisation, with reused memory."""
    scratch = room_for(K)
    return lambda precision, right: factorise(K, precision, scratch).solve(right)


def solve_newton(
    problem: MeanField,
    K: Any,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> Fields:
    """Solve the equations at given cavity variances and flip noise.

    Stops at a residual of tol, when the budget is exhausted (`budget.status`), or when no step
    length yields a decrease (status "stalled").
    """
    if start is None:
        start = np.full(problem.n_rows, LEFT if has_little_noise(problem) else 0.0)
    here = problem.at(K, start)
    # Without input noise a solution need not exist, and the iteration may diverge.
    unsure = problem.least_noise == 0 and problem.is_convex
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
        budget.status = "converged"  # the last allowed step sufficed
    return here


def has_little_noise(problem: MeanField) -> bool:
    """Return whether the noise is so small that fields can be far in the left tail of F."""
    return problem.least_noise < LITTLE_NOISE * float(np.max(problem.cavity))


def _newton_step(
    problem: MeanField, K: Any, here: Fields, direction: Direction
) -> tuple[FloatArray, float]:
    """Return the step in z and the slope of E along it."""
    missing = here.reached - here.z
    gradient = problem.label * problem.scale * missing
    delta = -direction(problem.precision(here.z), gradient)
    moved = symmetric_product(K, delta) - problem.cavity * delta / problem.weight
    return missing + problem.label * moved / problem.scale, float(gradient @ delta)


def _line_search(
    problem: MeanField, K: Any, here: Fields, step: tuple[FloatArray, float]
) -> Fields | None:
    """Backtrack until the residual halves or the merit function decreases sufficiently.

    The merit is E where it is convex (flip noise 0), else the norm of `reached` - z. Returns None
    if no step length qualifies.
    """
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
    K: Any,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
    start: FloatArray | None = None,
) -> Fields:
    """Solve by continuation in the flip noise, from the convex case 0, unless `start` is given."""
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


def not_worse_than_prior(problem: MeanField, K: Any, fields: Fields) -> Fields:
    """Return fields with E <= 0, its value at the prior (all coefficients zero).

    The given ones are returned if they satisfy this; otherwise the strengths are capped, at the cap
    with the smallest E. As A'KA is at most the square of the sum of w F, small caps suffice.
    """
    if problem.objective(fields.z, fields.field) <= 0.0:
        return fields
    capped = [problem.at(K, np.maximum(fields.z, least)) for least in CAPS]
    energies = [problem.objective(found.z, found.field) for found in capped]
    return capped[int(np.nanargmin(energies))]


def require_separable(K: Any, coefficients: FloatArray) -> None:
    """Raise if the coefficients prove that the equations without input noise have no solution.

    This is the case if and only if some coefficients with the signs of the labels, not all zero,
    combine the samples to zero: the classes are not separable without a threshold. The coefficients
    of the iterates then grow without bound in such a direction.
    """
    total = max(float(np.abs(coefficients).sum()), np.finfo(np.float64).tiny)
    share = coefficients / total
    largest = float(K.diagonal().max())
    if float(share @ symmetric_product(K, share)) <= SINGULAR * largest:
        raise ValueError(
            "input_noise=0 needs classes that the kernel separates (equal rows with different "
            "labels cannot be), and these are not: give a positive input_noise, e.g. "
            f"input_noise={0.1 * largest:.2g}, a tenth of the kernel's diagonal"
        )
