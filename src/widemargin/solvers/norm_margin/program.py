r"""Solve the duals of :mod:`widemargin.problems.norm_margin` for p = 1 and p = inf by HiGHS.

Soft: maximise :math:`\sum a` over :math:`0 \le a \le c`, :math:`\sum_i y_i a_i = 0`,
:math:`v = \sum_i y_i a_i x_i`, :math:`|v|_q \le 1`. Hard: minimise :math:`|v|_q` over
:math:`a \ge 0` with sum 1 in each class, the nearest points of the hulls. The multipliers of the
equations that define v are -w.

The constraint matrix has few rows (one per feature) and many columns (one per sample): the simplex
method is some twenty times faster on it than on the primal in w and the slacks. With many features
or very many samples an interior-point method with crossover to a vertex is faster still.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, Matrix
from widemargin.solvers.numerics.highs import solve_linear_program

MANY_FEATURES, MANY_ROWS = 100, 20_000  # beyond either, the interior-point method is used


def solve_program(
    X: Matrix, y: FloatArray, cost: FloatArray, norm: float, *, max_iter: int, seconds: float
) -> tuple[FloatArray, FloatArray, int, bool]:
    """Solve the dual by HiGHS; return w, a, the number of steps and whether it hit no limit.

    The entries of X must have size about 1; infinite costs select the hard margin; the norm p is 1
    or inf.
    """
    n, d = X.shape
    hard = bool(np.isinf(cost[0]))
    parts = _hull_program(X, y, norm) if hard else _soft_program(X, y, cost, norm)
    method = "highs-ipm" if d > MANY_FEATURES or n > MANY_ROWS else "highs-ds"
    limits: dict[str, Any] = {"max_iter": max_iter, "seconds": seconds}
    found = solve_linear_program(**parts, **limits, method=method, sharp=True)
    if found.ended == "failed":  # retry with the default method and tolerances of HiGHS
        found = solve_linear_program(**parts, **limits)
    if found.x is None:
        return np.zeros(d), np.zeros(n), max(1, found.n_iter), False
    return -found.equalities[:d], found.x[:n], max(1, found.n_iter), found.ended != "limit"


def _soft_program(X: Matrix, y: FloatArray, cost: FloatArray, norm: float) -> dict[str, Any]:
    """State the soft margin as a linear program.

    The variables are a, then v (p = 1, between -1 and 1) or the positive and negative parts of v
    (p = inf, their sum at most 1).
    """
    n, d = X.shape
    parts = _parts_of_v(d, norm)
    k = parts.shape[1]
    balance = np.concatenate([y, np.zeros(k)])[None, :]
    low, high = (-1.0, 1.0) if norm == 1 else (0.0, np.inf)
    program: dict[str, Any] = {
        "c": np.concatenate([-np.ones(n), np.zeros(k)]),
        "A_eq": _stacked([[_signed(X, y), parts], [sp.csr_array(balance)]]),
        "b_eq": np.zeros(d + 1),
        "bounds": _bounds((0.0, cost), (np.full(k, low), np.full(k, high))),
    }
    if norm != 1:
        program["A_ub"] = sp.csr_array(np.concatenate([np.zeros(n), np.ones(k)])[None, :])
        program["b_ub"] = np.ones(1)
    return program


def _hull_program(X: Matrix, y: FloatArray, norm: float) -> dict[str, Any]:
    """State the nearest points of the hulls as a linear program.

    The variables are a, then v and its largest absolute entry (p = 1) or the positive and negative
    parts of v (p = inf).
    """
    n, d = X.shape
    parts = _parts_of_v(d, norm)
    k = parts.shape[1]
    extra = 1 if norm == 1 else 0
    sums = np.zeros((2, n + k + extra))
    sums[0, :n], sums[1, :n] = y > 0, y < 0
    free = np.full(k, -np.inf if norm == 1 else 0.0)
    definition = [_signed(X, y), parts, *([sp.csr_array((d, 1))] * extra)]
    program: dict[str, Any] = {
        "c": np.concatenate([np.zeros(n), np.zeros(k) if extra else np.ones(k), np.ones(extra)]),
        "A_eq": _stacked([definition, [sp.csr_array(sums)]]),
        "b_eq": np.concatenate([np.zeros(d), np.ones(2)]),
        "bounds": _bounds(
            (0.0, np.full(n, np.inf)),
            (np.append(free, [0.0] * extra), np.full(k + extra, np.inf)),
        ),
    }
    if extra:
        one, nothing = sp.eye_array(d), sp.csr_array((d, n))
        largest = sp.csr_array(-np.ones((d, 1)))
        program["A_ub"] = _stacked([[nothing, one, largest], [nothing, -one, largest]])
        program["b_ub"] = np.zeros(2 * d)
    return program


def _signed(X: Matrix, y: FloatArray) -> Any:
    """Return the matrix with columns y_i x_i."""
    return (sp.csr_array(X).multiply(y[:, None])).T


def _parts_of_v(d: int, norm: float) -> Any:
    """Return the columns of -v in the equations that define it: v itself, or its two parts."""
    one = sp.eye_array(d)
    return -one if norm == 1 else sp.hstack([-one, one])


def _stacked(blocks: list[list[Any]]) -> Any:
    return sp.vstack([sp.hstack(row) for row in blocks], format="csc")


def _bounds(a: tuple[float, FloatArray], rest: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return the bounds of all variables, one row per variable."""
    of_a = np.column_stack([np.full(len(a[1]), a[0]), a[1]])
    return np.vstack([of_a, np.column_stack(rest)])
