"""Solve the C-hinge with a linear kernel exactly, in a few reads of the samples."""

from __future__ import annotations

import numpy as np

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import linear
from widemargin.solvers.base import Budget, DualResult

EXACT = 1e-12  # relative gap up to which a run that was stopped counts as done
# Samples from which on this wins, also in units of features, and the largest number of those.
MANY_ROWS, ROWS_PER_FEATURE, FEW_FEATURES = 500, 5, 100


def applies(problem: SoftMargin, rows: Rows) -> bool:
    """Return whether few reads of samples with a linear kernel are faster than kernel values."""
    n_features = rows.X.shape[1]
    many = rows.n >= max(MANY_ROWS, ROWS_PER_FEATURE * n_features)
    return many and n_features <= FEW_FEATURES and linear.can_read(problem, rows.X)


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
    found = linear.solve(problem, rows.X, tol=EXACT, budget=budget, method="out_of_core", seed=seed)
    assert found.alpha is not None
    used = np.flatnonzero(found.alpha)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, found.alpha[used])
    status = "converged" if problem.kkt_violation(found.alpha, f) <= tol else found.status
    return DualResult(alpha=found.alpha, f=f, n_iter=found.n_iter, status=status)
