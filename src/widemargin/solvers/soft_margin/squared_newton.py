r"""Newton's method for the kernel squared hinge, warm-started from a nearby support set.

Problem (see :mod:`widemargin.problems.soft_margin`), with the decision values f = K beta + b:

.. math::

    \min_{\beta, b} \; F = \tfrac12 \beta'K\beta
    + \sum_l \frac{1}{2 v_l} \max(0, 1 - y_l f_l)^2 , \qquad v_l = \frac{1}{2 C w_l}.

F is convex, differentiable and piecewise quadratic. With M = {l : y_l f_l < 1}, a Newton step
leads to the solution of (K_MM + V) beta + 1 b = y_M, 1'beta = 0 (no second equation without b),
beta = 0 outside M: one Cholesky factorisation. The full step is taken if F decreases, otherwise an
exact line search, so the method terminates at the optimum after finitely many steps; after two or
three if the initial support set is nearly correct, as between neighbouring points of a
hyperparameter search. The last factorisation is reused for leave-one-out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from widemargin._base.tolerances import MARGIN_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.base import Budget, Result
from widemargin.solvers.soft_margin.smo import padded, solve_dense

NEWTON_ITERATIONS = 40
MOST_PAIR_STEPS = 1_000_000  # of the fallback, if the Newton steps do not terminate


@dataclass(frozen=True, eq=False, kw_only=True)
class SquaredHingeResult(Result):
    """Solution of a squared-hinge problem with the factorisation of its linear system.

    Attributes
    ----------
    support : ndarray of shape (m,)
        Indices of the support vectors M.
    beta : ndarray of shape (m,)
        Their coefficients.
    intercept : float
        Intercept b.
    f : ndarray of shape (n,)
        Decision values of all samples, including b.
    factor : ndarray of shape (m, m)
        Lower Cholesky factor of K_MM + V, zero above its diagonal.
    lifted : ndarray of shape (m,), optional
        (K_MM + V)^-1 1; None without intercept.
    """

    support: IntArray
    beta: FloatArray
    intercept: float
    f: FloatArray
    factor: FloatArray
    lifted: FloatArray | None


def solve_squared_hinge(
    K: FloatArray, y: FloatArray, v: FloatArray, *, intercept: bool, start: BoolArray | None = None
) -> SquaredHingeResult:
    """Solve a squared-hinge problem whose kernel matrix is in memory.

    The solution is exact up to rounding. There is no budget: Newton's method terminates after
    finitely many steps, and if rounding prevents that, pair steps of `soft_margin.smo` are used.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, positive semi-definite; otherwise a FloatingPointError may be raised.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    v : ndarray of shape (n,)
        1 / (2 C w), positive.
    intercept : bool
        Whether to fit an intercept b.
    start : ndarray of shape (n,), optional
        Mask of the support vectors of a nearby problem; by default all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.soft_margin import solve_squared_hinge
    >>> y, v = np.array([-1.0, 1.0]), np.full(2, 0.5)
    >>> found = solve_squared_hinge(np.eye(2), y, v, intercept=True)
    >>> found.support, found.beta.round(3)
    (array([0, 1]), array([-0.667,  0.667]))
    """
    member = np.ones(len(y), dtype=bool) if start is None or not start.any() else start
    before: SquaredHingeResult | None = None
    value = np.inf
    for step in range(NEWTON_ITERATIONS):
        machine = _solve_on(K, y, v, np.flatnonzero(member), intercept)
        if machine is None:
            break
        slack = 1.0 - y * machine.f
        # A margin of rounding on either side: samples exactly on the margin (slack 0) would
        # otherwise enter and leave M for ever.
        wanted = slack > np.where(member, -MARGIN_ROUNDING, MARGIN_ROUNDING)
        if np.array_equal(wanted, member):
            return replace(machine, n_iter=step + 1)
        reached = _objective(machine, slack, v)
        if before is not None and reached >= value:
            machine = _best_between(before, machine, y, v)
            slack = 1.0 - y * machine.f
            wanted = slack > 0
            reached = _objective(machine, slack, v)
            if not reached < value:
                break  # rounding errors prevent a decrease
        before, value, member = machine, reached, wanted
        if not member.any():  # an empty set has no linear system: start over with all samples
            member = np.ones(len(y), dtype=bool)
    return _by_pairs(K, y, v, intercept)


def _solve_on(
    K: FloatArray, y: FloatArray, v: FloatArray, support: IntArray, intercept: bool
) -> SquaredHingeResult | None:
    """Solve the linear system of a support set; return None if it is numerically singular."""
    columns = K[:, support] if len(support) < len(K) else K
    A = columns[support] if len(support) < len(K) else K.copy()
    A.flat[:: len(support) + 1] += v[support]
    # A is symmetric, so its transpose is the same matrix in Fortran order: LAPACK makes no copy.
    factor, failed = dpotrf(A.T, lower=1, overwrite_a=1)
    if failed:
        return None
    right = np.empty((len(support), 2 if intercept else 1), order="F")
    right[:, 0] = y[support]
    right[:, 1:] = 1.0
    solved, _ = dpotrs(factor, right, lower=1, overwrite_b=1)
    beta, b, lifted = solved[:, 0], 0.0, None
    if intercept:
        lifted = solved[:, 1]
        b = float(beta.sum() / lifted.sum())
        beta = beta - b * lifted
    return SquaredHingeResult(
        support=support, beta=beta, intercept=b, f=columns @ beta + b, factor=factor,
        lifted=lifted, n_iter=1, status="converged",
    )  # fmt: skip


def _objective(machine: SquaredHingeResult, slack: FloatArray, v: FloatArray) -> float:
    norm2 = float(machine.beta @ (machine.f[machine.support] - machine.intercept))
    return 0.5 * norm2 + 0.5 * float((np.maximum(slack, 0.0) ** 2 / v).sum())


def _best_between(
    before: SquaredHingeResult, after: SquaredHingeResult, y: FloatArray, v: FloatArray
) -> SquaredHingeResult:
    """Minimise F on the segment between two points by bisection of its derivative."""
    first, last = _spread(before, len(y)), _spread(after, len(y))
    change, step = last - first, after.f - before.f
    offset = after.intercept - before.intercept
    low, high = 0.0, 1.0
    for _ in range(40):
        t = 0.5 * (low + high)
        f = before.f + t * step
        loss = np.maximum(1.0 - y * f, 0.0) / v
        b = before.intercept + t * offset
        slope = float(change @ (f - b)) - float((loss * y) @ step)
        low, high = (low, t) if slope > 0 else (t, high)
    t = 0.5 * (low + high)
    beta = first + t * change
    b = before.intercept + t * offset
    f = before.f + t * step
    return replace(after, support=np.arange(len(y)), beta=beta, intercept=b, f=f)


def _spread(machine: SquaredHingeResult, n: int) -> FloatArray:
    beta = np.zeros(n)
    beta[machine.support] = machine.beta
    return beta


def _by_pairs(K: FloatArray, y: FloatArray, v: FloatArray, intercept: bool) -> SquaredHingeResult:
    """Solve by pair steps (SMO), then once exactly on the support set found."""
    n = len(y)
    problem = c_classification(y, 0.5 / v, squared=True, intercept=intercept)
    block = np.zeros((padded(n), padded(n)))
    block[:n, :n] = K
    alpha, f = np.zeros(n), np.zeros(n)
    budget = Budget(MOST_PAIR_STEPS)
    solve_dense(block, problem, alpha, f, tol=1e-9, budget=budget)
    support = np.flatnonzero(alpha)
    machine = _solve_on(K, y, v, support if len(support) else np.arange(n), intercept)
    if machine is None:
        raise FloatingPointError("the kernel matrix is not positive semi-definite")
    return replace(machine, n_iter=budget.used)
