"""Exact methods for the nearest points of reduced hulls with the linear kernel.

Problem: P2 of :mod:`widemargin.problems.reduced_hull` on dense data in memory. The package
docstring has the table of methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require_choice
from widemargin.kernels import Rows
from widemargin.problems.linear_scan import LinearProblem
from widemargin.problems.reduced_hull import NearestPoints
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.literature import random_sampling
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp
from widemargin.solvers.out_of_core import dual_variables, solve
from widemargin.solvers.reduced_hull.nearest import HullResult
from widemargin.sources.memory import Memory

LINEAR_METHODS = ("qp", "implicit", "sampling")
QP_ROWS = 5_000  # largest number of samples that "auto" passes to the quadratic program at once
QP_FEATURES = 100  # with more features its normal matrix costs more than kernel values
ZERO = 1e-10  # rounding error of |w| relative to the longest sample: w counts as 0 below it
ROUNDS = {"qp": 1, "implicit": 100, "sampling": 10_000}  # default budgets


def resolve_method(method: str, rows: Rows) -> str:
    """Resolve "auto"; raise ValueError if the method cannot be used with this data."""
    require_choice("method", method, ("auto", "smo", *LINEAR_METHODS))
    dense = rows.kernel.name == "linear" and isinstance(rows.X, np.ndarray)
    if method in LINEAR_METHODS and not dense:
        raise ValueError(f"solver={method!r} needs dense X: use solver='smo', or X.toarray()")
    if method != "auto":
        return method
    if not dense or rows.X.shape[1] > QP_FEATURES:
        return "smo"
    return "qp" if rows.n <= QP_ROWS else "implicit"


def solve_linear_hulls(
    hulls: SoftMargin, X: FloatArray, method: str, *, budget: Budget, seed: int = 0
) -> HullResult:
    """Find the nearest points of the hulls of centred samples by "qp", "implicit" or "sampling"."""
    rounds = Budget(
        budget.max_iter if budget.max_iter > 0 else ROUNDS[method],
        budget.monitor,
        budget.cache_bytes,
    )
    y, D = np.where(hulls.group == 0, 1.0, -1.0), hulls.upper - hulls.lower
    solve = {"qp": _by_qp, "implicit": _by_implicit, "sampling": _by_sampling}[method]
    s, n_iter, status, history = solve(X, y, D, seed, rounds)
    if s is None:  # the hulls intersect: w = 0, and any feasible dual variables serve as a result
        s, status = np.abs(hulls.repair(np.zeros(hulls.n_variables))), "converged"
    # The methods rescale the caps. Snap dual variables to a bound that they miss by rounding only:
    # KKT conditions of free and bound samples differ.
    s = np.where(
        s >= (1.0 - OBJECTIVE_ROUNDING) * D, D, np.where(s <= OBJECTIVE_ROUNDING * D, 0.0, s)
    )
    alpha = np.where(hulls.group == 0, s, -s)
    alpha = hulls.repair(alpha, _order(hulls, alpha, X))
    w = alpha @ X
    f = X @ w
    norm2 = float(w @ w)
    points = NearestPoints.of(hulls, f, norm2)
    longest = float(np.sqrt(np.einsum("ij,ij->i", X, X).max(initial=0.0)))
    return HullResult(
        alpha=alpha,
        f=f,
        n_iter=max(1, n_iter),
        status=status,
        points=points,
        separable=points.separated and norm2 > (ZERO * longest) ** 2,
        history=list(history),
    )


_Found = tuple[FloatArray | None, int, Status, Sequence[dict[str, Any]]]


def _by_qp(X: FloatArray, y: FloatArray, D: FloatArray, seed: int, budget: Budget) -> _Found:
    problem = LinearProblem("hull", 1.0)
    sums, zero = problem.sums(np.zeros(2)), np.zeros(len(y))
    qp = BoxQP(X * y[:, None], problem.columns(y), sums, zero, D, np.zeros(X.shape[1]))
    found = solve_box_qp(qp)
    return found.s, found.n_iter, "converged", []


def _by_implicit(X: FloatArray, y: FloatArray, D: FloatArray, seed: int, budget: Budget) -> _Found:
    source, problem = Memory(X, y, D), LinearProblem("hull", 1.0)
    found = solve(problem, source, tol=0.0, budget=budget, seed=seed)
    s = np.concatenate(dual_variables(problem, source, found)) if found.separable else None
    return s, found.n_iter, found.status, found.history


def _by_sampling(X: FloatArray, y: FloatArray, D: FloatArray, seed: int, budget: Budget) -> _Found:
    k = max(1.0, 1.0 / float(D[D > 0].min()))
    source = Memory(X, y, D * k)
    found = random_sampling.solve(LinearProblem("hull", 1.0 / k), source, budget=budget, seed=seed)
    s = np.zeros(len(D))
    first = np.concatenate([[0], np.cumsum(source.sizes)])
    s[first[found.support_part] + found.support_row] = found.multipliers
    return s if found.separable else None, found.n_iter, found.status, found.history


def _order(hulls: SoftMargin, b: FloatArray, X: FloatArray) -> FloatArray:
    """Return the order in which `repair` changes dual variables to correct the class sums.

    Free samples come first, then those nearest to their threshold: a sample that is moved off its
    bound violates the KKT conditions by its distance to the threshold.
    """
    f = X @ (b @ X)
    distance = np.abs(NearestPoints.of(hulls, f, 0.0).slack(hulls, f))
    free = (b > hulls.lower) & (b < hulls.upper)
    return np.where(free, -np.minimum(b - hulls.lower, hulls.upper - b), distance)
