r"""The linear machine in its own features: the optimum of ``SVC(kernel="linear")`` in a few passes.

Problem: ``c_classification`` of :mod:`widemargin.problems.soft_margin` with a linear kernel,

.. math:: \min_{w, \lambda} \; \tfrac12 |w|^2 + \sum_i \phi_i(1 - y_i (w \cdot x_i + \lambda)),

hinge or squared hinge, any costs, lambda unregularised (or absent).

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

Coordinate descent on the dual, which gave the module its name, needs many more passes where C
is large, and would have to keep the sum of the variables at zero by pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Certificate
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, Monitor, Status
from widemargin.solvers.linear.levels import Search, Stopped, Supervisor
from widemargin.solvers.linear.smoothed_newton import Level
from widemargin.solvers.numerics.data_products import LinearRows


@dataclass(frozen=True)
class LinearResult:
    """A linear model with the dual point that proves how good it is.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights w.
    intercept : float
        Threshold; the midpoint of its optimal interval at w.
    dual : ndarray of shape (n_rows,)
        Feasible signed dual variables.
    n_iter : int
        Newton steps.
    status : {"converged", "max_iter", "stopped"}
        Whether the tolerance was met, the budget (or the arithmetic's precision) ran out, or the
        monitor said stop.
    primal, dual_value : float
        Objectives at (coef, intercept) and at dual, in float64.
    history : list of dict
        Rounds of :mod:`widemargin.solvers.out_of_core`; empty for this solver.
    passes : float
        Reads of the data, where they were counted.
    """

    coef: FloatArray
    intercept: float
    dual: FloatArray
    n_iter: int
    status: Status
    primal: float
    dual_value: float
    history: list[dict[str, Any]] = field(default_factory=list)
    passes: float = 0.0


def solve_linear(
    X: Matrix,
    problem: SoftMargin,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    monitor: Monitor | None = None,
) -> LinearResult:
    """Solve soft-margin classification with a linear kernel to a relative duality gap of tol.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Data, float32 or float64; read in place.
    problem : SoftMargin
        Made by ``c_classification``.
    tol : float
        Bound on the gap, primal - dual, relative to max(1, abs(primal)).
    max_iter : int
        Largest number of Newton steps, those on samples included.
    seed : int
        Seed of the samples.
    monitor : callable, optional
        Called between sweeps with (steps, relative gap); returns whether to go on.
    """
    supervisor = Supervisor(Budget(max_iter, monitor))
    squared = bool(problem.ridge.any())
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    with worker_threads() as threads, np.errstate(over="ignore", invalid="ignore"):
        rows = LinearRows(X, supervisor.tick, threads=threads)
        level = Level(rows, problem.target, cost, squared=squared, intercept=problem.n_groups > 0)
        # A little beyond tol, for the final evaluation differs in its last digits.
        search = Search(level, 0.999 * tol, supervisor, max_iter)
        try:
            search.start(np.random.default_rng(seed))
            search.run()
        except Stopped:
            pass
        return _result(search, problem, tol)


def certify_linear(
    X: Matrix,
    problem: SoftMargin,
    result_coef: FloatArray,
    intercept: float,
    dual: FloatArray,
    *,
    tol: float,
    n_iter: int,
) -> Certificate:
    """Certify a linear model: both objectives recomputed in float64 from model and data.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Training data.
    problem : SoftMargin
        The problem that was solved.
    result_coef, intercept, dual
        The model and its signed dual variables.
    tol : float
        Relative gap up to which the certificate says converged.
    n_iter : int
        Steps of the solver, for the record.
    """
    with worker_threads() as threads:
        rows = LinearRows(X, threads=threads)
        primal = _primal(problem, rows.dot(result_coef), result_coef, intercept)
        expansion = rows.combine(dual)
        images = rows.dot(expansion)
    dual_value = problem.dual(dual, float(expansion @ expansion))
    return Certificate.from_objectives(
        problem.name,
        primal=primal,
        dual=dual_value,
        kkt_violation=problem.kkt_violation(dual, images),
        converged=primal - dual_value <= tol * max(1.0, abs(primal)),
        n_iter=n_iter,
    )


def _primal(problem: SoftMargin, f: FloatArray, coef: FloatArray, intercept: float) -> float:
    thresholds = np.full(problem.n_groups, intercept)
    return problem.primal(f, float(coef @ coef), thresholds)


def _result(search: Search, problem: SoftMargin, tol: float) -> LinearResult:
    """Evaluate the best points of a search afresh and wrap them up."""
    rows = search.level.rows
    dual = _balanced(problem, problem.target * search.a)
    expansion = rows.combine(dual)
    dual_value = problem.dual(dual, float(expansion @ expansion))
    f = rows.dot(search.w)
    intercept = _intercept(search, problem, f) if problem.n_groups else 0.0
    primal = _primal(problem, f, search.w, intercept)
    status: Status = "converged"
    if primal - dual_value > tol * max(1.0, abs(primal)):
        status = "stopped" if search.supervisor.stopped else "max_iter"
    return LinearResult(
        coef=search.w,
        intercept=intercept,
        dual=dual,
        n_iter=max(1, search.supervisor.steps),
        status=status,
        primal=primal,
        dual_value=dual_value,
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
