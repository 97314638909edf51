r"""Solve the linear soft margin by Newton's method on smoother and smoother hinges, in memory.

1. *Sample.* A sample with its costs scaled up stands for a large data set (recursively). Its
   optimum tells on which side of the margin nearly every row is.
2. *Levels.* The hinge is smoothed over a band of width h, and Newton's method minimises the
   smooth problem (`linear.smoothed_newton`); its dual variables are the centre
   of the next, narrower band. Every point comes with a feasible dual point, so the gap is known.
3. *Part.* Rows farther from the margin than they have lately moved keep their bound and enter as
   one constant vector (they become implicit outliers): a step reads only
   the others. One pass over all rows then tells which of them were wrong.

Steps factorise a matrix of at most 2,000 x 2,000 or use conjugate gradients, whichever is
cheaper. Up to an eighth of the data (or 32 MB) is copied at a time; nothing is n x n.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import relative_gap
from widemargin.problems.linear_scan import LinearProblem
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.linear.levels import Search, Stopped, Supervisor
from widemargin.solvers.linear.smoothed_newton import Level
from widemargin.solvers.numerics.data_products import LinearRows


def solve_smoothed(
    problem: SoftMargin,
    X: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None,
    seed: int,
) -> LinearResult:
    """Solve to a relative duality gap of tol; see `solve` of the package."""
    supervisor = Supervisor(budget)
    squared = bool(problem.ridge.any())
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    linear = LinearProblem(
        "squared_hinge" if squared else "hinge", 1.0, intercept=problem.n_groups > 0
    )
    with worker_threads() as threads, np.errstate(over="ignore", invalid="ignore"):
        rows = LinearRows(X, supervisor.tick, threads=threads)
        level = Level(linear, rows, problem.target, cost)
        # A little beyond tol, for the final evaluation differs in its last digits.
        search = Search(level, 0.999 * tol, supervisor, budget.max_iter)
        try:
            if start is None:
                search.start(np.random.default_rng(seed))
            else:
                search.start_from(start)
            search.run()
        except Stopped:
            pass
        return _result(search, problem, tol)


def _result(search: Search, problem: SoftMargin, tol: float) -> LinearResult:
    """Evaluate the best points of a search afresh and wrap them up."""
    rows = search.level.rows
    alpha = _balanced(problem, problem.target * search.a)
    expansion = rows.combine(alpha)
    dual = problem.dual(alpha, float(expansion @ expansion))
    f = rows.dot(search.w)
    intercept = _intercept(search, problem, f) if problem.n_groups else 0.0
    thresholds = np.full(problem.n_groups, intercept)
    primal = problem.primal(f, float(search.w @ search.w), thresholds)
    status: Status = "converged"
    if relative_gap(primal, dual) > tol:
        status = "stopped" if search.supervisor.stopped else "max_iter"
    return LinearResult(
        coef=search.w,
        thresholds=thresholds,
        alpha=alpha,
        n_iter=max(1, search.supervisor.steps),
        status=status,
        primal=primal,
        dual=dual,
    )


def _balanced(problem: SoftMargin, b: FloatArray) -> FloatArray:
    """Take the rounding error of the sum from the variable with the most room."""
    if problem.n_groups:
        room = np.minimum(b - problem.lower, problem.upper - b)
        widest = int(np.argmax(room))
        excess = min(max(float(b.sum()), -room[widest]), room[widest])
        b[widest] -= excess
    return b


def _intercept(search: Search, problem: SoftMargin, f: FloatArray) -> float:
    """Return the threshold that minimises the primal at f, sorting only the rows near a guess."""
    if search.level.squared:
        return search.level.best_intercept(f, search.lam)
    margin = problem.target - f
    near, width = search.lam, 1e-3 if len(margin) > 1000 else np.inf
    while width < 10.0:
        above, below = margin > near + width, margin < near - width
        inside = np.flatnonzero(~(above | below))
        fixed = float(problem.upper[above].sum() + problem.lower[below].sum())
        window = replace(
            problem,
            n_rows=len(inside),
            row=np.arange(len(inside)),
            target=problem.target[inside],
            lower=problem.lower[inside],
            upper=problem.upper[inside],
            ridge=problem.ridge[inside],
            group=problem.group[inside],
            totals=problem.totals - fixed,
        )
        rounding = 1e-9 * float((problem.upper - problem.lower).sum())
        if window.lower.sum() + rounding < window.totals[0] < window.upper.sum() - rounding:
            return float(window.thresholds(f[inside])[0])
        width *= 8.0
    return float(problem.thresholds(f)[0])
