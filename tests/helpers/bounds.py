"""Bounds on the optimum of a soft-margin problem whose kernel matrix is given."""

from __future__ import annotations

import numpy as np

from widemargin.certificate import Bracket, Certificate
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.sums import majorants
from widemargin.problems.soft_margin import SoftMargin
from widemargin.problems.soft_margin.bounds import Point, bracket, kernel_values
from widemargin.solvers.base import DualResult


def bounds_of(problem: SoftMargin, alpha: np.ndarray, K: np.ndarray) -> Bracket:
    """Return the bounds at dual variables alpha, with the best thresholds of their model."""
    rows = Rows(Kernel("precomputed"), np.ascontiguousarray(K))
    return _bounds(problem, rows, alpha, K @ problem.coefficients(alpha))


def certified(problem: SoftMargin, rows: Rows, result: DualResult, *, tol: float) -> Certificate:
    """Return the certificate of a solver's result."""
    found = _bounds(problem, rows, result.alpha, result.f)
    return problem.certificate(result.alpha, result.f, found, tol=tol, n_iter=result.n_iter)


def _bounds(problem: SoftMargin, rows: Rows, alpha: np.ndarray, f: np.ndarray) -> Bracket:
    beta, size = problem.coefficients(alpha), majorants(rows)
    point = Point(alpha, beta, problem.thresholds(f), size)
    return bracket(problem, point, kernel_values(rows, beta, f, size))
