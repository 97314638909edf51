"""Solve the C-hinge with a linear kernel exactly, in a few reads of the rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, DualResult, Status
from widemargin.solvers.out_of_core import Form, dual_variables, solve_implicit
from widemargin.sources.memory import Memory

EXACT = 1e-12  # relative gap up to which a run that was stopped counts as done
# Rows from which on this wins, also in units of features, and the largest number of those.
MANY_ROWS, ROWS_PER_FEATURE, FEW_FEATURES = 500, 5, 100


def applies(problem: SoftMargin, rows: Rows) -> bool:
    """Return whether few reads of rows with a linear kernel are faster than kernel values.

    The problem must be the hinge of a classifier, the rows dense and many.
    """
    n_features = rows.X.shape[1]
    if sp.issparse(rows.X) or n_features > FEW_FEATURES:
        return False
    if rows.n < max(MANY_ROWS, ROWS_PER_FEATURE * n_features):
        return False
    hinge = problem.n_variables == problem.n_rows and problem.n_groups <= 1
    return hinge and not problem.ridge.any() and bool((np.abs(problem.target) == 1.0).all())


def solve(
    problem: SoftMargin, rows: Rows, *, tol: float, budget: Budget, seed: int = 0
) -> DualResult:
    """Solve a problem that `applies` accepts; the result does not depend on the seed.

    Parameters
    ----------
    problem, rows
        As for :func:`widemargin.solvers.soft_margin.solve`.
    tol : float
        KKT violation to reach; that of an exact solution is rounding.
    budget : Budget
        Rounds of reads.
    seed : int
        Seed of the samples.
    """
    alpha, n_iter, status = _solve_out_of_core(problem, rows.X, budget, seed)
    used = np.flatnonzero(alpha)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, alpha[used])
    if problem.kkt_violation(alpha, f) <= tol:
        status = "converged"
    return DualResult(alpha=alpha, f=f, n_iter=n_iter, status=status)


def _solve_out_of_core(
    problem: SoftMargin, X: FloatArray, budget: Budget, seed: int
) -> tuple[FloatArray, int, Status]:
    """Return feasible dual variables, the rounds and why they ended."""
    # MERGE: the single call of another package. It becomes
    #   found = linear.solve(problem, X, tol=EXACT, budget=budget, method="out_of_core", seed=seed)
    #   return found.alpha, found.n_iter, found.status
    source = Memory(X, problem.target, problem.upper - problem.lower)
    form = Form("hinge" if problem.n_groups else "hinge_no_intercept", 1.0)
    found = solve_implicit(
        source, form, seed=seed, max_rounds=budget.max_iter, monitor=budget.monitor
    )
    alpha = problem.target * np.concatenate(dual_variables(source, form, found))
    # Rounding may have moved the sum, or a variable out of its box.
    alpha = problem.repair(alpha, np.maximum(problem.lower - alpha, alpha - problem.upper))
    if found.relative_gap <= EXACT:
        return alpha, found.n_iter, "converged"
    return alpha, found.n_iter, "max_iter" if found.status == "not_separable" else found.status
