"""Solve the linear kernel machine of many dense rows by reads of its data."""

from __future__ import annotations

import numpy as np

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, Monitor, SolverResult
from widemargin.solvers.linear import can_read, solve


def can_sample(problem: SoftMargin, rows: Rows) -> bool:
    """Tell whether the method applies: the hinge of a classifier, a linear kernel, dense rows."""
    return rows.kernel.name == "linear" and can_read(problem, rows.X)


def solve_expansion(
    problem: SoftMargin,
    rows: Rows,
    *,
    tol: float,
    max_iter: int,
    seed: int,
    monitor: Monitor | None = None,
) -> SolverResult:
    """Solve by reads of the data, for a machine that keeps its dual variables.

    Parameters
    ----------
    problem, rows
        As for :func:`widemargin.solvers.soft_margin.active_set.solve`; see :func:`can_sample`.
    tol : float
        KKT violation to reach; that of an exact solution is rounding.
    max_iter : int
        Largest number of rounds.
    seed : int
        Seed of the samples; the result does not depend on it.
    monitor : callable, optional
        Called between rounds with (rounds, relative gap); returns whether to go on.
    """
    budget = Budget(max_iter, monitor)
    found = solve(problem, rows.X, tol=1e-12, budget=budget, method="out_of_core", seed=seed)
    assert found.alpha is not None
    used = np.flatnonzero(found.alpha)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, found.alpha[used])
    status = "converged" if problem.kkt_violation(found.alpha, f) <= tol else found.status
    return SolverResult(found.alpha, f, found.n_iter, status)
