"""Bounds on the optimum of a soft-margin problem whose kernel matrix is given."""

from __future__ import annotations

import numpy as np

from widemargin.certificate import Bracket
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.sums import majorants
from widemargin.problems.soft_margin import SoftMargin
from widemargin.problems.soft_margin.bounds import Point, bracket, kernel_values


def bounds_of(problem: SoftMargin, alpha: np.ndarray, K: np.ndarray) -> Bracket:
    """Return the bounds at dual variables alpha, with the best thresholds of their model."""
    rows = Rows(Kernel("precomputed"), np.ascontiguousarray(K))
    beta = problem.coefficients(alpha)
    f = K @ beta
    size = majorants(rows)
    point = Point(alpha, beta, problem.thresholds(f), size)
    return bracket(problem, point, kernel_values(rows, beta, f, size))
