r"""Linear soft margins and tubes in the primal, in few passes over the data.

Problem: ``c_classification`` or ``epsilon_tube`` of :mod:`widemargin.problems.soft_margin` with a
linear kernel, the loss linear or squared, any costs, without intercept or with an intercept that is
not regularised.

====================  =============================================================================
method                for
====================  =============================================================================
"smoothed_newton"     all problems, dense or sparse samples: to a duality gap of tol
"coordinate_descent"  all problems that some tens of sweeps solve, by
                      :mod:`widemargin.solvers.linear.coordinate_descent`; "smoothed_newton"
                      continues where they do not
"out_of_core"         hinge loss of a classifier, dense samples, by
                      :mod:`widemargin.solvers.out_of_core`
"auto"                "coordinate_descent" for sparse samples, and for the hinge loss and few
                      values. "out_of_core" if it applies and there are at least 500,000 samples and
                      at most 30 features: it takes no longer there than a gap of 1e-4 by
                      "smoothed_newton" (``python -m benchmarks sampling``). Otherwise
                      "smoothed_newton"
====================  =============================================================================

Algorithm of "smoothed_newton":

1. *Warm start.* A subsample with its costs scaled up approximates a large data set (recursively).
   Its optimum predicts for nearly every sample on which side of the margin it is.
2. *Levels.* The loss is smoothed over a width h, and Newton's method minimises the smooth problem
   (`linear.smoothed_newton`). Its dual variables become the centre of the smoothing at the next,
   smaller width (`linear.levels`). Every iterate has a feasible dual point, hence a duality gap.
3. *Screening.* Samples farther from the margin than a multiple of their last move keep their bound
   and enter as one constant vector (implicit outliers), so that a step reads only the others. One
   pass over all samples then corrects those that were screened wrongly.

A Newton step factorises a matrix of order at most 2,000 or uses conjugate gradients, whichever is
cheaper. Up to an eighth of the data (or 32 MB) is copied at a time; no n x n matrix is formed.
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
from widemargin.solvers.linear import coordinate_descent
from widemargin.solvers.linear.levels import Search, Stopped, Supervisor
from widemargin.solvers.linear.smoothed_newton import Level
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.sources.memory import Memory

__all__ = ["LinearResult", "LinearRows", "can_read", "solve"]

METHODS = ("auto", "smoothed_newton", "coordinate_descent", "out_of_core")

# "auto" chooses "out_of_core" from this many samples on, up to this many features.
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
    constant: bool = False,
) -> LinearResult:
    """Solve soft-margin classification, or regression with a tube, with a linear kernel.

    Parameters
    ----------
    problem : SoftMargin
        Problem returned by ``c_classification`` or ``epsilon_tube``.
    data : ndarray or CSR matrix of shape (n, d)
        Samples, float32 or float64; read in place.
    tol : float
        Largest duality gap, primal - dual, relative to max(1, abs(primal)).
    budget : Budget
        Largest number of Newton steps, including those on subsamples (or of rounds), and the
        monitor, which is called between sweeps with (steps, relative gap).
    start : LinearResult, optional
        Model for a warm start.
    method : {"auto", "smoothed_newton", "coordinate_descent", "out_of_core"}
        See the table of this module. If the linear systems of "out_of_core" fail, because features
        have very different scales, "smoothed_newton" is used instead.
    seed : int
        Seed of the subsamples for the warm start.
    constant : bool
        Whether the last feature is constant: its weight is a regularised intercept. This changes
        the conditioning of linear systems, not the problem.

    Returns
    -------
    result : LinearResult
        Model with the dual variables `alpha`, signed by the labels, two per sample for the tubes.
        The intercept is the midpoint of its optimal interval.

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
    require_choice("method", method, METHODS)
    possible = can_read(problem, data)
    if method == "auto":
        method = _chosen(problem, data, tol, possible=possible, fresh=start is None)
    if method == "coordinate_descent":
        with worker_threads() as threads:
            rows = LinearRows(data, threads=threads, constant=constant)
            start = coordinate_descent.solve(problem, rows, tol=0.999 * tol, budget=budget)
        if start.status != "stalled":
            return start
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
    return _solve_smoothed(problem, data, tol, budget, start, seed, constant)


def _chosen(problem: SoftMargin, X: Matrix, tol: float, *, possible: bool, fresh: bool) -> str:
    """Return the method that "auto" stands for; `possible`: "out_of_core" applies."""
    if fresh and coordinate_descent.fits(problem, X, tol):
        return "coordinate_descent"
    many = X.shape[0] >= MANY_ROWS and X.shape[1] <= FEW_FEATURES
    return "out_of_core" if possible and many else "smoothed_newton"


def can_read(problem: SoftMargin, data: Matrix) -> bool:
    """Return whether "out_of_core" applies: hinge loss of a classifier, dense samples."""
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
    """Solve the hinge problem by the out-of-core method on samples in memory."""
    y = problem.target
    source = Memory(X, y, problem.upper - problem.lower)
    reads = LinearProblem("hinge", 1.0, intercept=problem.n_groups > 0)
    found = out_of_core.solve(reads, source, tol=tol, budget=budget, start=start, seed=seed)
    alpha = y * np.concatenate(out_of_core.dual_variables(reads, source, found))
    # Rounding may violate the equality constraint or a bound of alpha.
    alpha = problem.repair(alpha, np.maximum(problem.lower - alpha, alpha - problem.upper))
    return replace(found, alpha=alpha, multipliers=None)


def _solve_smoothed(
    problem: SoftMargin,
    X: Matrix,
    tol: float,
    budget: Budget,
    start: LinearResult | None,
    seed: int,
    constant: bool,
) -> LinearResult:
    """Solve to a relative duality gap of tol by the smoothed Newton method."""
    supervisor = Supervisor(budget)
    with worker_threads() as threads, np.errstate(over="ignore", invalid="ignore"):
        rows = LinearRows(X, supervisor.tick, threads=threads, constant=constant)
        level = _level(problem, rows)
        # Slightly below tol: the final evaluation differs by rounding.
        search = Search(level, 0.999 * tol, supervisor, budget.max_iter)
        try:
            if start is None:
                search.start(np.random.default_rng(seed))
            else:
                signed = None if start.alpha is None else problem.coefficients(start.alpha)
                search.start_from(replace(start, alpha=signed))
            search.run()
        except Stopped:
            pass
        return _result(search, problem, tol)


def _level(problem: SoftMargin, rows: LinearRows) -> Level:
    """Return the first level of a classification or regression problem."""
    n, squared = problem.n_rows, bool(problem.ridge.any())
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    linear = LinearProblem(
        "squared_hinge" if squared else "hinge", 1.0, intercept=problem.n_groups > 0
    )
    if problem.n_variables == n:
        return Level(linear, rows, problem.target, cost)
    # A tube: the targets are y - eps and y + eps. The sample with the smallest |y| gives eps with
    # the smallest rounding error.
    y, cost = 0.5 * (problem.target[:n] + problem.target[n:]), cost[:n]
    least = int(np.argmin(np.abs(y)))
    tube = 0.5 * float(problem.target[n + least] - problem.target[least])
    middle = float(np.average(y, weights=cost)) if problem.n_groups else 0.0
    unit = float(np.sqrt(np.average((y - middle) ** 2, weights=cost))) or 1.0
    level = Level(linear, rows, np.ones(n), cost, target=y - middle, tube=tube, unit=unit)
    level.origin = middle
    return level


def _signed(problem: SoftMargin, a: FloatArray) -> FloatArray:
    """Return the variables of the problem from those of a level."""
    if problem.n_variables == problem.n_rows:
        return problem.target * a
    return np.concatenate([np.maximum(a, 0.0), np.minimum(a, 0.0)])


def _result(search: Search, problem: SoftMargin, tol: float) -> LinearResult:
    """Recompute the objectives of the best primal and dual points and return the result."""
    rows = search.level.rows
    alpha = _signed(problem, search.a)
    if problem.n_groups:
        alpha = coordinate_descent.balanced(problem, alpha)
    expansion = rows.combine(problem.coefficients(alpha))
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
    """Return the intercept that minimises the primal at f, sorting only samples near a guess."""
    level = search.level
    if level.squared:
        return level.origin + level.best_intercept(f, search.b)
    if level.tube is not None:
        f = f[problem.row]
    margin = problem.target - f
    near, width = level.origin + search.b, level.unit * 1e-3 if len(margin) > 1000 else np.inf
    # Samples whose kink is outside the window are at a known bound. The minimiser is inside if the
    # remaining sum can be attained there; otherwise the window is enlarged.
    while width < 10.0 * level.unit:
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
    return float(replace(problem, row=np.arange(len(f))).thresholds(f)[0])
