"""The implicit-outlier method on rows in memory, in the terms of the other linear solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, RealArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Monitor, SolverResult, Status
from widemargin.solvers.linear import LinearResult
from widemargin.solvers.out_of_core import Form, dual_variables, solve_implicit
from widemargin.sources.memory import Memory


def solve_linear_sampling(
    X: RealArray,
    problem: SoftMargin,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    monitor: Monitor | None = None,
) -> LinearResult:
    """Solve soft-margin classification with the hinge and a linear kernel, exactly.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Data, float32 or float64.
    problem : SoftMargin
        Made by ``c_classification``, not squared.
    tol : float
        Relative gap up to which a run that was stopped counts as done.
    max_iter : int
        Largest number of rounds.
    seed : int
        Seed of the samples; the result does not depend on it.
    monitor : callable, optional
        Called between rounds with (rounds, relative gap); returns whether to go on.
    """
    y = problem.target
    cost = problem.upper - problem.lower
    source = Memory(X, y, cost)
    form = Form("hinge" if problem.n_groups else "hinge_no_intercept", 1.0)
    found = solve_implicit(source, form, seed=seed, max_rounds=max_iter, monitor=monitor)
    s = np.concatenate(dual_variables(source, form, found))
    status: Status = "converged"
    if found.relative_gap > tol:
        status = "max_iter" if found.status == "not_separable" else found.status
    return LinearResult(
        coef=found.coef,
        intercept=float(found.thresholds[0]) if problem.n_groups else 0.0,
        dual=_balanced(problem, y * s),
        n_iter=found.n_iter,
        status=status,
        primal=found.primal,
        dual_value=found.dual,
        history=found.history,
        passes=found.passes,
    )


def can_sample(problem: SoftMargin, rows: Rows) -> bool:
    """Whether the method applies: the hinge of a classifier, a linear kernel, dense rows."""
    hinge = problem.n_variables == problem.n_rows and problem.n_groups <= 1
    hinge = hinge and not problem.ridge.any() and bool((np.abs(problem.target) == 1.0).all())
    return hinge and rows.kernel.name == "linear" and not sp.issparse(rows.X)


def solve_expansion(
    problem: SoftMargin,
    rows: Rows,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    monitor: Monitor | None = None,
) -> SolverResult:
    """Solve as :func:`solve_linear_sampling`, for a machine that keeps its dual variables.

    Parameters
    ----------
    problem, rows
        As for :func:`widemargin.solvers.soft_margin.active_set.solve`; see :func:`can_sample`.
    tol : float
        KKT violation to reach; that of an exact solution is rounding.
    max_iter, seed, monitor
        As for :func:`solve_linear_sampling`.
    """
    options: dict[str, Any] = {"max_iter": max_iter, "seed": seed, "monitor": monitor}
    found = solve_linear_sampling(rows.X, problem, tol=1e-12, **options)
    used = np.flatnonzero(found.dual)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, found.dual[used])
    status = "converged" if problem.kkt_violation(found.dual, f) <= tol else found.status
    return SolverResult(found.dual, f, found.n_iter, status)


def _balanced(problem: SoftMargin, b: FloatArray) -> FloatArray:
    """Return feasible dual variables: rounding may have moved the sum, or one out of its box."""
    return problem.repair(b, np.maximum(problem.lower - b, b - problem.upper))
