"""Solutions of badly conditioned programs from those with a larger price of coefficients.

Without a price c of the coefficients, or with a tiny one, the bases near the optimum can be so
badly conditioned that the methods stall far from it, even at alpha = 0. Programs with a larger
price have smaller coefficients and better bases. They are solved from the largest price down, each
starting from the solution before it; the solution with the lowest objective of the program asked
for is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from widemargin.certificate import USEFUL_GAP
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.linear_program.result import ProgramResult

PRICES = (1e-3, 1e-5, 1e-7, 1e-9)  # in units of the price at which alpha = 0 is optimal

Solve: TypeAlias = Callable[[MarginProgram, ProgramResult], ProgramResult]
"""Solves a program from a start."""


def has_failed(problem: MarginProgram, found: ProgramResult) -> bool:
    """Return whether a method has stalled far from the optimum of a program with a price."""
    if problem.nu is not None or found.status != "stalled":
        return False
    return not problem.is_optimal(found.alpha, found.f, found.z, found.g, USEFUL_GAP)


def from_larger_prices(
    problem: MarginProgram, found: ProgramResult, largest: float, solve: Solve, tol: float
) -> ProgramResult:
    """Return the best solution of programs with prices up to `largest`, or `found`."""
    candidates, start = [found], replace(found, alpha=np.zeros_like(found.alpha))
    for share in PRICES:
        price = share * largest
        if price <= problem.price:
            break
        start = solve(replace(problem, price=price), start)
        candidates.append(start)
    candidates.append(solve(problem, min(candidates, key=lambda c: problem.primal(c.alpha, c.f))))
    best = min(candidates, key=lambda c: problem.primal(c.alpha, c.f))
    bound = max(candidates, key=lambda c: problem.dual(c.z, c.g))
    done = problem.is_optimal(best.alpha, best.f, bound.z, bound.g, tol)
    return replace(
        best,
        z=bound.z,
        g=bound.g,
        n_iter=sum(candidate.n_iter for candidate in candidates),
        status="converged" if done else "stalled",
    )
