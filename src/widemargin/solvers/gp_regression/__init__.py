"""Solve the linear system of Gaussian-process regression.

Problem: :class:`widemargin.problems.gp_regression.GPRegression`; data: the samples as `Rows`.

==========  ========================================================================================
method      algorithm
==========  ========================================================================================
cholesky    Cholesky factorisation of K + diag(tau), with iterative refinement
low_rank    the same for K ~ V V' by pivoted Cholesky (Epperly, Tropp and Webber 2024): regression
            with the pivots as inducing points; its evidence is the lower bound of Titsias (2009)
==========  ========================================================================================

"auto" is "cholesky" if two n x n matrices fit into the memory limit (leave-one-out needs the
second), else "low_rank".

>>> import numpy as np
>>> from widemargin.kernels import Kernel, Rows
>>> from widemargin.problems.gp_regression import GPRegression
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.gp_regression import solve
>>> problem = GPRegression(np.array([0.0, 1.0]), np.ones(2), 1.0, 0.1, 0.0)
>>> result = solve(problem, Rows(Kernel("rbf"), np.eye(2)), tol=1e-8, budget=Budget(1))
>>> result.status, result.coefficients.round(3)
('converged', array([-0.114,  0.923]))
"""

from __future__ import annotations

from widemargin._base.validation import require_choice
from widemargin.kernels import Rows
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers.base import Budget
from widemargin.solvers.gp_regression.dense import dense_factor, solve_dense
from widemargin.solvers.gp_regression.left_out import LeftOut, leave_out
from widemargin.solvers.gp_regression.low_rank import pivot_factors, solve_low_rank
from widemargin.solvers.gp_regression.posterior import (
    DensePosterior,
    LowRankPosterior,
    RegressionPosterior,
)
from widemargin.solvers.gp_regression.result import GPRegressionResult
from widemargin.solvers.gp_regression.scales import evident_scales

__all__ = [
    "METHODS",
    "DensePosterior",
    "GPRegressionResult",
    "LeftOut",
    "LowRankPosterior",
    "RegressionPosterior",
    "bytes_needed",
    "dense_factor",
    "evident_scales",
    "leave_out",
    "pivot_factors",
    "solve",
]

METHODS = ("auto", "cholesky", "low_rank")
MOST_PIVOTS = 2_000  # default limit: the factorisation then costs n times 4e6 multiplications
REMAINDER = 1e-6  # of the diagonal, relative: pivots beyond it change nothing that matters


def bytes_needed(n_rows: int) -> float:
    """Return the memory of the matrices of "cholesky" with leave-one-out."""
    return 16.0 * float(n_rows) ** 2


def solve(
    problem: GPRegression,
    data: Rows,
    *,
    tol: float,
    budget: Budget,
    start: None = None,
    method: str = "auto",
    rank: int | None = None,
) -> GPRegressionResult:
    """Solve the equations of the posterior mean.

    Parameters
    ----------
    problem : GPRegression
        Targets, weights and hyperparameters.
    data : Rows
        Samples with their kernel.
    tol : float
        Largest residual of the linear system, relative to the largest target.
    budget : Budget
        Memory limit; the methods are direct and have no steps to limit.
    start : None
        Not used: direct methods have no warm start.
    method : {"auto", "cholesky", "low_rank"}
        Algorithm.
    rank : int, optional
        Largest number of pivots of "low_rank"; None is 2,000, or fewer if memory is short.

    Returns
    -------
    GPRegressionResult
        The solution; "stalled" if rounding errors leave a larger residual than `tol`.
    """
    require_choice("method", method, METHODS)
    if method == "auto":
        fits = bytes_needed(data.n) <= budget.cache_bytes
        method = "cholesky" if fits else "low_rank"
    if method == "cholesky":
        return solve_dense(problem, data, tol)
    if rank is None:
        room = int(budget.cache_bytes / (24.0 * data.n))  # V, room to grow, and a scaled block
        rank = max(1, min(MOST_PIVOTS, room))
    return solve_low_rank(problem, data, tol, min(rank, data.n), REMAINDER)
