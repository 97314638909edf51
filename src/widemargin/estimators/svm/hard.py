"""Fit hard margins and hard tubes (C = inf) by costs that are raised until none of them limits.

With a finite cost the dual variables have caps. A solution of which none is at its cap is that of
the hard problem. Any dual variables prove a lower bound on the norm of all functions that satisfy
the constraints; if the bound is so large that none is left in float64, the problem is infeasible.

The objective of a model that misses a constraint is infinite, however little it misses it. The
model is therefore fitted to constraints that are tightened by the error which the solver left, so
that its objective can be proved with the constraints as stated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.certificate import USEFUL_GAP
from widemargin.estimators.svm.certified import CertifiedModel
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult

# A cost is proposed whose slack is at most so many times the least, among powers of ten.
NEAR_LEAST, NEXT_COST = 1.1, 10.0
# Caps that are tried, in units of the data; the norm beyond which no model is looked for.
CAPS = (1e4, 1e8, 1e12)
LARGEST_NORM = 1e8
AT_CAP = 1.0 - 1e-6
# The constraints are tightened by these shares of tol, and solved to as much, until the model
# satisfies them as stated and its gap is small. Few samples are solved more precisely: it is cheap.
FEW_ROWS, PRECISE = 1500, (1e-6, 1e-5)
SHARES = (1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9)

Certify: TypeAlias = Callable[[FloatArray, FloatArray], CertifiedModel]


def solve(
    problem: SoftMargin, rows: Rows, certify: Certify, tol: float, how: dict[str, Any]
) -> tuple[DualResult, CertifiedModel]:
    """Return a solution of a hard problem and its certified model.

    `how` has the budget and the other arguments of `solvers.soft_margin.solve`. Raises ValueError
    if the problem is infeasible.
    """
    budget: Budget = how["budget"]
    precise = PRECISE[-1] if rows.n <= FEW_ROWS else 1.0
    result, cap = _with_enough_cost(problem, rows, certify, precise * tol, how)
    model = certify(result.alpha, result.f)
    latest = result
    for share in PRECISE * (rows.n <= FEW_ROWS) + SHARES:
        if model.relative_gap <= USEFUL_GAP or budget.status != "converged":
            break
        by = share * tol
        if by > _room(problem):
            continue
        part = Budget(budget.left // 2, budget.monitor, budget.cache_bytes)
        stricter = problem.tightened(by).with_cap(cap)
        latest = soft_margin.solve(stricter, rows, tol=by, start=latest, **how | {"budget": part})
        budget.used += part.used
        budget.status = part.status if part.status == "stopped" else budget.status
        better = certify(latest.alpha, latest.f)
        if better.relative_gap < model.relative_gap:
            result, model = latest, better
    status = budget.status
    if status == "converged" and model.relative_gap > USEFUL_GAP:
        status = "stalled"
    return replace(result, status=status, n_iter=max(1, budget.used)), model


def _with_enough_cost(
    problem: SoftMargin, rows: Rows, certify: Certify, tol: float, how: dict[str, Any]
) -> tuple[DualResult, float]:
    """Return a solution that no cost limits, with the cost; raise if the problem is infeasible."""
    extent, radius = _extent(problem), _radius(problem, rows)
    unit = extent / radius**2
    proposal = norm = 0.0
    for cap in CAPS:
        soft = problem.with_cap(cap * unit)
        result = soft_margin.solve(soft, rows, tol=tol, **how)
        limited = np.abs(result.alpha) >= AT_CAP * cap * unit
        if result.status in ("max_iter", "stopped") or not limited.any():
            return result, cap * unit
        if not proposal:
            proposal = _proposed_cost(problem, rows, cap * unit, result, tol, how)
        norm = np.sqrt(2.0 * max(0.0, certify(result.alpha, result.f).bounds.dual))
        if norm * radius > LARGEST_NORM * extent:
            break
    raise ValueError(_why_infeasible(problem, norm, proposal))


def _extent(problem: SoftMargin) -> float:
    """Return the size of the targets, up to the intercept: 1 for classes."""
    ends = float(problem.target.max()), float(problem.target.min())
    size = 0.5 * (ends[0] - ends[1]) if problem.n_groups else max(map(abs, ends))
    return size if size > 0 else 1.0


def _radius(problem: SoftMargin, rows: Rows) -> float:
    """Return the typical distance of a sample in feature space: from another one, or from zero.

    With an intercept, a constant added to the kernel has no effect.
    """
    square = rows.diagonal()
    if problem.n_groups:
        to_first = rows.block(np.arange(rows.n), rows, np.zeros(1, dtype=np.intp))[:, 0]
        square = square + square[0] - 2.0 * to_first
    square = square[square > 0]
    return float(np.sqrt(np.median(square))) if len(square) else 1.0


def _room(problem: SoftMargin) -> float:
    """Return by how much the constraints can be tightened: half of the width of a tube."""
    n = problem.n_rows
    if problem.n_variables == n:
        return np.inf
    return 0.5 * float((problem.target[n:] - problem.target[:n]).min())


def _slack(soft: SoftMargin, result: DualResult) -> float:
    """Return the sum of the slacks of a solution."""
    return soft.primal(result.f, 0.0, soft.thresholds(result.f)) / float(soft.upper.max())


def _proposed_cost(
    problem: SoftMargin, rows: Rows, cap: float, result: DualResult, tol: float, how: dict[str, Any]
) -> float:
    """Return the least power of ten times a cost whose slack is near that of the solution at cap.

    The first cost is that at which this slack costs as much as the norm of the solution.
    """
    least = _slack(problem.with_cap(cap), result)
    norm2 = float(problem.coefficients(result.alpha) @ result.f)
    cost = 0.5 * norm2 / least if least > 0.0 < norm2 else 1.0
    while cost < NEXT_COST * cap and how["budget"].status == "converged":
        soft = problem.with_cap(cost)
        if _slack(soft, soft_margin.solve(soft, rows, tol=tol, **how)) <= NEAR_LEAST * least:
            break
        cost *= NEXT_COST
    return cost


def _why_infeasible(problem: SoftMargin, norm: float, proposal: float) -> str:
    """Return the error message; `norm` is a lower bound of the norm of all feasible functions."""
    what, missed, more = "no slack", "this kernel does not separate the classes", ""
    bound = "their margin is zero"
    if norm > 0:
        bound = f"any margin is proved to be below {1.0 / norm:.1e}"
    if problem.n_variables > problem.n_rows:
        what, more = "no error beyond epsilon", ". Or raise epsilon"
        missed = "no function of this kernel is so close to y"
        bound = f"any such function is proved to have a norm |w| above {norm:.1e}"
    return (
        f"C=inf allows {what}, but {missed}, or not to the precision of float64 with features of "
        f"this offset and scale: {bound}. Use a finite C; with C={proposal:.1g} the slack is "
        f"nearly as small as with larger ones{more}"
    )
