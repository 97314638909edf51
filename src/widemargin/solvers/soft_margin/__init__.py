"""Soft-margin problems with any kernel: C-hinge, squared hinge, nu, one-class and the tubes.

Problem: :mod:`widemargin.problems.soft_margin`; data: kernel rows.

==========  =============================================  =====================================
method      algorithm                                      when
==========  =============================================  =====================================
"auto"      linear kernel: primal algorithm, see below;    default
            otherwise an active set, warm-started from
            subsamples that double
"smo"       active set, started from zero                  comparison with LIBSVM
"sampling"  linear kernel: as "auto"; otherwise an active  many samples, few support vectors
            set, warm-started from a subsample to which
            violators are added
"adatron"   one variable at a time, Opper and Winther      historical baseline, never by "auto"
            (2000)
==========  =============================================  =====================================

The algorithm for the linear kernel, :mod:`widemargin.solvers.linear`, makes a few passes over many
samples and is exact; it applies to the C-hinge (dense samples) and to the epsilon-tube. Up to 5,000
samples all of them are in the active set and no subsample is drawn.

The package also exports `solve_dense`, for a kernel matrix in memory that the caller keeps, and
`solve_squared_hinge`, Newton's method on the support set.
"""

from __future__ import annotations

import numpy as np

from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import linear
from widemargin.solvers.base import Budget, DualResult
from widemargin.solvers.literature import adatron
from widemargin.solvers.soft_margin import active_set, on_demand
from widemargin.solvers.soft_margin.smo import padded, solve_dense
from widemargin.solvers.soft_margin.squared_newton import SquaredHingeResult, solve_squared_hinge

__all__ = ["SquaredHingeResult", "padded", "solve", "solve_dense", "solve_squared_hinge"]

EXACT = 1e-12  # linear kernel: a run that ends early has converged if its relative gap is below
# The linear algorithm is chosen from this many samples on, in total and per feature, up to this
# many features: its cost per pass grows with n d, that of its linear systems with d^3.
MANY_ROWS, ROWS_PER_FEATURE, FEW_FEATURES = 150, 5, 100
# The same for tubes, which are solved by another linear algorithm, for any number of features.
MANY_TUBE_ROWS, TUBE_ROWS_PER_FEATURE = 150, 2
# Below this many samples as many pair steps are tried first as take the time of that algorithm.
FEW_ROWS, STEPS_TIMES_ROWS = 500, 3_000_000

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
        Problem to solve.
    data : Rows
        Training samples with their kernel.
    tol : float
        Largest KKT violation of the result.
    budget : Budget
        Steps (pair steps; single-variable steps for "adatron"; rounds of passes for the linear
        kernel) and memory for kernel values.
    start : DualResult, optional
        Dual variables for a warm start; they need not be feasible.
    method : {"auto", "smo", "sampling", "adatron"}
        See the table of the module.
    seed : int
        Seed of subsamples and orders; it changes the result within the tolerance only.

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
    small = on_demand.fits(problem, data, budget)
    linear_kernel = data.kernel.name == "linear" and method in ("auto", "sampling")
    if linear_kernel and start is None and _reading_wins(problem, data):
        steps = STEPS_TIMES_ROWS // data.n
        if small and data.n < FEW_ROWS and steps < budget.left:  # that many may be enough
            found = on_demand.solve(problem, data, tol=tol, budget=budget, most_steps=steps)
            if found.status != "stalled":
                return found
        start = _solve_linear(problem, data, tol, budget, seed)
        if start.status not in ("stalled", "max_iter"):
            return start
        # Rounding errors, from features of very different scales: continue with pair steps.
        budget = Budget(budget.max_iter, budget.monitor, budget.cache_bytes)
    if small:
        found = on_demand.solve(problem, data, tol=tol, budget=budget, start=start)
        if found.status != "stalled":
            return found
        start = found
    return active_set.solve(
        problem, data, tol=tol, budget=budget, start=start, samples=SAMPLES[method], seed=seed
    )


def _reading_wins(problem: SoftMargin, rows: Rows) -> bool:
    """Return whether passes over the samples are faster than computing kernel values."""
    n_features = rows.X.shape[1]
    if _is_tube(problem):
        return rows.n >= max(MANY_TUBE_ROWS, TUBE_ROWS_PER_FEATURE * n_features)
    many = rows.n >= max(MANY_ROWS, ROWS_PER_FEATURE * n_features)
    return many and n_features <= FEW_FEATURES and linear.can_read(problem, rows.X)


def _is_tube(problem: SoftMargin) -> bool:
    """Return whether the problem is an epsilon-tube: two variables per sample, one threshold."""
    return problem.n_variables > problem.n_rows and problem.n_groups <= 1


def _solve_linear(
    problem: SoftMargin, rows: Rows, tol: float, budget: Budget, seed: int
) -> DualResult:
    """Solve the C-hinge or a tube with a linear kernel as exactly as rounding allows."""
    method = "smoothed_newton" if _is_tube(problem) else "out_of_core"
    found = linear.solve(problem, rows.X, tol=EXACT, budget=budget, method=method, seed=seed)
    assert found.alpha is not None
    beta = problem.coefficients(found.alpha)
    used = np.flatnonzero(beta)
    f = rows.weighted_sum(np.arange(rows.n), rows, used, beta[used])
    status = "converged" if problem.kkt_violation(found.alpha, f) <= tol else found.status
    return DualResult(alpha=found.alpha, f=f, n_iter=found.n_iter, status=status)
