r"""Solve the pairwise ranking problem to a given duality gap, without forming pairs.

Problem: :class:`widemargin.problems.preference.PreferenceProblem`. Newton's method minimises the
pairwise loss, with the hinge smoothed over a zone of slacks that is narrowed in stages
(:mod:`widemargin.solvers.preference.descent`). Every iterate has a feasible dual point, so the
duality gap of the original problem is known in each iteration and serves as stopping criterion.

=========  ==========  ==================================================================
norm       data        method
=========  ==========  ==================================================================
2          a matrix    "features" (:mod:`.linear`): Newton's method in the weights
2          a matrix    "rows" (:mod:`.kernel`): expansion in the samples; chosen by "auto"
                       for many features and at most as many samples as features
2          Rows        "rows": in the span of a subset of the samples, then in the whole
                       kernel space; float32 products for the steps, float64 for the gap
1          a matrix    "features" (:mod:`.l1`): quadratic models, then a linear program
=========  ==========  ==================================================================

Small problems with the hinge are finished by a quadratic program over the pairs at the kink
(:mod:`widemargin.solvers.preference.polish`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import Matrix
from widemargin._base.validation import require_choice
from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import PreferenceProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import PreferenceResult
from widemargin.solvers.preference.kernel import KernelRun
from widemargin.solvers.preference.l1 import solve_l1
from widemargin.solvers.preference.linear import FEW_FEATURES, solve_in_features

__all__ = ["PreferenceResult", "solve"]

# Largest number of samples for which "auto" replaces many features by an expansion in the samples.
FEW_ROWS = 2000


def solve(
    problem: PreferenceProblem,
    data: Matrix | Rows,
    *,
    tol: float,
    budget: Budget,
    start: PreferenceResult | None = None,
    method: str = "auto",
) -> PreferenceResult:
    """Solve a pairwise problem to a relative duality gap of tol.

    Parameters
    ----------
    problem : PreferenceProblem
        Ranks, groups, weights, loss and norm.
    data : ndarray or CSR matrix of shape (n_rows, n_features), or Rows
        Samples of a linear model, or kernel rows.
    tol : float
        Bound on primal - dual, relative to max(1, abs(primal)).
    budget : Budget
        Newton steps, monitor, and memory for kernel values and for coordinates in a basis.
    start : PreferenceResult, optional
        Warm start from its coefficients; ignored with an l_1 norm and where `method` is "rows"
        and `data` a matrix.
    method : {"auto", "features", "rows"}
        See the table in the docstring of the package.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.preference import preference_problem
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.preference import solve
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> problem = preference_problem(np.array([0, 1, 2]), C=10.0)
    >>> result = solve(problem, X, tol=1e-9, budget=Budget(100))
    >>> result.coef.round(6), result.status
    (array([1.]), 'converged')
    """
    require_choice("method", method, ("auto", "features", "rows"))
    n_rows = data.n if isinstance(data, Rows) else data.shape[0]
    if n_rows != problem.n_rows:
        raise ValueError(f"data has {n_rows} rows, the problem {problem.n_rows}")
    coef = None if start is None else start.coef
    # Trial steps may overflow; the line searches reject infinite and NaN objectives.
    with worker_threads() as threads, np.errstate(over="ignore", invalid="ignore"):
        if isinstance(data, Rows):
            if problem.norm == 1:
                raise ValueError("data must be a matrix with an l_1 norm, got Rows")
            return KernelRun(problem, data, tol, budget).solve(coef)
        rows = LinearRows(data, threads=threads)
        if problem.norm == 1:
            return solve_l1(problem, rows, tol, budget)
        if method == "auto":
            wide = rows.n_features > FEW_FEATURES and n_rows <= min(FEW_ROWS, rows.n_features)
            method = "rows" if wide and start is None else "features"
        if method == "features":
            return solve_in_features(problem, rows, tol, budget, coef)
        seen = Rows(Kernel("linear"), data, threads=threads)
        # `start` holds weights of features, not the expansion coefficients of this method.
        found = KernelRun(problem, seen, tol, budget).solve(None)
        return replace(found, coef=rows.combine(found.coef), kernel_evaluations=0)
