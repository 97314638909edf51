"""The implicit-outlier method on rows in memory, in the terms of the other linear solver."""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Monitor, Status
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


def _balanced(problem: SoftMargin, b: FloatArray) -> FloatArray:
    """Return feasible dual variables: rounding may have moved the sum, or one out of its box."""
    return problem.repair(b, np.maximum(problem.lower - b, b - problem.upper))
