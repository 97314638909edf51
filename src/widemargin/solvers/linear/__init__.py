r"""Solve the linear soft margin in the features themselves: ``SVC(kernel="linear")`` in few passes.

Problem: ``c_classification`` of :mod:`widemargin.problems.soft_margin` with a linear kernel, hinge
or squared hinge, any costs, the intercept unregularised (or absent).

=================  ================================================================================
method             for
=================  ================================================================================
"smoothed_newton"  all problems, dense or sparse samples: to a gap of tol
"out_of_core"      the hinge of dense samples: exact, by :mod:`widemargin.solvers.out_of_core`
"auto"             "out_of_core" where it applies, for half a million samples and more of at most 30
                   features: it takes no longer there than a gap of 1e-4 by "smoothed_newton"
                   (``python -m benchmarks sampling``). Else "smoothed_newton"
=================  ================================================================================

"smoothed_newton" works as follows:

1. *Sample.* A sample with its costs scaled up stands for a large data set (recursively). Its
   optimum tells on which side of the margin nearly every row is.
2. *Levels.* The hinge is smoothed over a width h, and Newton's method minimises the
   smooth problem (`linear.smoothed_newton`); its dual variables are the centre
   of the next, narrower one (`linear.levels`). Every point comes with a feasible dual point,
   so the gap is known.
3. *Part.* Rows farther from the margin than they have lately moved keep their bound and enter as
   one constant vector (they become implicit outliers): a step reads only
   the others. One pass over all rows then tells which of them were wrong.

Steps factorise a matrix of at most 2,000 x 2,000 or use conjugate gradients, whichever is
cheaper. Up to an eighth of the data (or 32 MB) is copied at a time; nothing is n x n.

Coordinate descent on the dual needs many more passes where C is large, and would have to keep the
sum of the variables at zero by pairs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import require_choice
from widemargin.certificate import relative_gap
from widemargin.problems.linear_scan import LinearProblem
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import out_of_core
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.linear.levels import Search, Stopped, Supervisor
from widemargin.solvers.linear.smoothed_newton import Level
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.sources.memory import Memory

__all__ = ["LinearResult", "LinearRows", "can_read", "solve"]

MANY_ROWS = 500_000
FEW_FEATURES = 30


def solve(
    problem: SoftMargin,
    data: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None = None,
    method: str = "auto",
    seed: int = 0,
) -> LinearResult:
    """Solve soft-margin classification with a linear kernel.

    Parameters
    ----------
    problem : SoftMargin
        Made by ``c_classification``.
    data : ndarray or CSR matrix of shape (n, d)
        Samples, float32 or float64; read in place.
    tol : float
        Bound on the gap, primal - dual, relative to max(1, abs(primal)).
    budget : Budget
        Largest number of Newton steps, those on samples included (or of rounds), and the monitor:
        called between sweeps with (steps, relative gap).
    start : LinearResult, optional
        A model near the solution.
    method : {"auto", "smoothed_newton", "out_of_core"}
        See the table of this module. Where features too far apart in scale make the systems of
        "out_of_core" fail, "smoothed_newton" takes its place.
    seed : int
        Seed of samples that predict the solution.

    Returns
    -------
    result : LinearResult
        With the dual variables `alpha`, signed by the labels. The intercept is the midpoint of its
        optimal interval.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.soft_margin import c_classification
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.linear import solve
    >>> X, y = np.array([[-2.0], [0.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> found = solve(c_classification(y, np.full(4, 10.0)), X, tol=1e-9, budget=Budget(100))
    >>> found.coef.round(6), round(found.intercept, 6), found.status
    (array([2.]), -1.0, 'converged')
    """
    require_choice("method", method, ("auto", "smoothed_newton", "out_of_core"))
    possible = can_read(problem, data)
    if method == "auto" and possible:
        many = data.shape[0] >= MANY_ROWS and data.shape[1] <= FEW_FEATURES
        method = "out_of_core" if many else "smoothed_newton"
    if method == "out_of_core":
        if not possible:
            raise ValueError('method must not be "out_of_core": it is for the hinge, dense samples')
        try:
            found = _solve_by_reads(problem, data, tol, budget, start, seed)
            if np.isfinite(found.coef).all():
                return found
        except np.linalg.LinAlgError:
            pass
        budget = Budget(budget.max_iter, budget.monitor, budget.cache_bytes)
    return _solve_smoothed(problem, data, tol, budget, start, seed)


def can_read(problem: SoftMargin, data: Matrix) -> bool:
    """Tell whether "out_of_core" applies: the hinge of a classifier, dense samples."""
    hinge = problem.n_variables == problem.n_rows and problem.n_groups <= 1
    hinge = hinge and not problem.ridge.any() and bool((np.abs(problem.target) == 1.0).all())
    return hinge and not sp.issparse(data)


def _solve_by_reads(
    problem: SoftMargin,
    X: Matrix,
    tol: float,
    budget: Budget,
    start: LinearResult | None,
    seed: int,
) -> LinearResult:
    """Solve the hinge exactly, the samples in memory being read in parts."""
    y = problem.target
    source = Memory(X, y, problem.upper - problem.lower)
    reads = LinearProblem("hinge", 1.0, intercept=problem.n_groups > 0)
    found = out_of_core.solve(reads, source, tol=tol, budget=budget, start=start, seed=seed)
    alpha = y * np.concatenate(out_of_core.dual_variables(reads, source, found))
    # Rounding may have moved the sum of the variables, or one of them out of its box.
    alpha = problem.repair(alpha, np.maximum(problem.lower - alpha, alpha - problem.upper))
    return replace(found, alpha=alpha, multipliers=None)


def _solve_smoothed(
    problem: SoftMargin,
    X: Matrix,
    tol: float,
    budget: Budget,
    start: LinearResult | None,
    seed: int,
) -> LinearResult:
    """Solve to a relative duality gap of tol, all samples in memory."""
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
    alpha = problem.target * search.a
    if problem.n_groups:  # the variable with the most room takes the rounding error of the sum
        room = np.minimum(alpha - problem.lower, problem.upper - alpha)
        widest = int(np.argmax(room))
        alpha[widest] -= min(max(float(alpha.sum()), -room[widest]), room[widest])
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


def _intercept(search: Search, problem: SoftMargin, f: FloatArray) -> float:
    """Return the threshold that minimises the primal at f, sorting only the rows near a guess."""
    if search.level.squared:
        return search.level.best_intercept(f, search.b)
    margin = problem.target - f
    near, width = search.b, 1e-3 if len(margin) > 1000 else np.inf
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
