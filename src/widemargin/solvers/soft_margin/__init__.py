"""Solve the soft-margin problems with any kernel: C-hinge, squared hinge, nu and the tubes.

Problem: :mod:`widemargin.problems.soft_margin`, on rows seen through a kernel.

==========  =============================================  =====================================
method      algorithm                                      when
==========  =============================================  =====================================
"auto"      the linear kernel's, else an active set        by default
            started from samples that double
"smo"       an active set started from zero                to compare with LIBSVM
"sampling"  the linear kernel's, else an active set        many rows with few support vectors
            started from a sample that violators join
"adatron"   one variable at a time, Opper and Winther      historical baseline, never by "auto"
            (2000)
==========  =============================================  =====================================

The linear kernel's algorithm, by :mod:`widemargin.solvers.linear`, reads many dense rows a few
times and is exact; it is for the C-hinge. Up to 5,000 rows the active set is everything and no
sample is drawn.

Beside the door there are `solve_dense`, for a kernel matrix in memory that the caller keeps, and
`solve_squared_hinge`, Newton's method on the support set.
"""

from __future__ import annotations

import numpy as np

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import linear
from widemargin.solvers.base import Budget, DualResult
from widemargin.solvers.literature import adatron
from widemargin.solvers.soft_margin import active_set
from widemargin.solvers.soft_margin.smo import padded, solve_dense
from widemargin.solvers.soft_margin.squared_newton import SquaredHingeResult, solve_squared_hinge

__all__ = ["SquaredHingeResult", "padded", "solve", "solve_dense", "solve_squared_hinge"]

EXACT = 1e-12  # linear kernel: relative gap up to which a run that was stopped counts as done
# Samples from which on reading them wins, also in units of features, and the most of those.
MANY_ROWS, ROWS_PER_FEATURE, FEW_FEATURES = 500, 5, 100

SAMPLES: dict[str, active_set.Samples] = {
    "auto": "doubling",
    "smo": "none",
    "sampling": "violators",
}


def solve(
    problem: SoftMargin,
    data: Rows,
    *,
    tol: float,
    budget: Budget,
    start: DualResult | None = None,
    method: str = "auto",
    seed: int = 0,
) -> DualResult:
    """Solve a soft-margin problem to a KKT violation of tol, checked in float64.

    Parameters
    ----------
    problem : SoftMargin
        What to solve.
    data : Rows
        The training rows seen through the kernel.
    tol : float
        KKT violation to reach.
    budget : Budget
        Steps (of pairs; of single variables for "adatron"; rounds of reads for the linear
        kernel) and memory for kernel values.
    start : DualResult, optional
        Dual variables to start from; they need not be feasible.
    method : {"auto", "smo", "sampling", "adatron"}
        See the module's table.
    seed : int
        Seed of samples and orders; it moves the result within the tolerance only.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel, Rows
    >>> from widemargin.problems.soft_margin import c_classification
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.soft_margin import solve
    >>> problem = c_classification(np.array([-1.0, 1.0]), np.ones(2))
    >>> rows = Rows(Kernel("linear"), np.array([[-1.0], [1.0]]))
    >>> found = solve(problem, rows, tol=1e-6, budget=Budget(1000))
    >>> found.status, found.alpha
    ('converged', array([-0.5,  0.5]))
    """
    if method == "adatron":
        return adatron.solve(problem, data, tol=tol, budget=budget, start=start, seed=seed)
    if method not in SAMPLES:
        raise ValueError(f'method must be "adatron" or one of {list(SAMPLES)}; got {method!r}')
    linear_kernel = data.kernel.name == "linear" and method in ("auto", "sampling")
    if linear_kernel and start is None and _reading_wins(problem, data):
        start = _solve_by_reads(problem, data, tol, budget, seed)
        if start.status not in ("stalled", "max_iter"):
            return start
        # Rounding, where features are far apart in scale: go on by steps of another kind.
        budget = Budget(budget.max_iter, budget.monitor, budget.cache_bytes)
    return active_set.solve(
        problem, data, tol=tol, budget=budget, start=start, samples=SAMPLES[method], seed=seed
    )


def _reading_wins(problem: SoftMargin, rows: Rows) -> bool:
    """Return whether few reads of samples with a linear kernel are faster than kernel values."""
    n_features = rows.X.shape[1]
    many = rows.n >= max(MANY_ROWS, ROWS_PER_FEATURE * n_features)
    return many and n_features <= FEW_FEATURES and linear.can_read(problem, rows.X)


def _solve_by_reads(
    problem: SoftMargin, rows: Rows, tol: float, budget: Budget, seed: int
) -> DualResult:
    """Solve the C-hinge with a linear kernel exactly; the result does not depend on the seed."""
    found = linear.solve(problem, rows.X, tol=EXACT, budget=budget, method="out_of_core", seed=seed)
    assert found.alpha is not None
    used = np.flatnonzero(found.alpha)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, found.alpha[used])
    status = "converged" if problem.kkt_violation(found.alpha, f) <= tol else found.status
    return DualResult(alpha=found.alpha, f=f, n_iter=found.n_iter, status=status)
