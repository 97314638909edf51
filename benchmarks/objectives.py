"""Objectives of fitted models, recomputed in float64 by the same functions for all candidates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.data import DataSet, FloatArray

BLOCK = 1024  # rows of the kernel matrix computed at a time


@dataclass(frozen=True)
class DualPoint:
    """Dual objective and feasibility of a fitted kernel SVM.

    Attributes
    ----------
    objective : float
        sum(alpha) - 1/2 beta' K beta with beta = alpha y.
    infeasibility : float
        Largest violation of 0 <= alpha <= C (duplicates taken together) and sum(beta) = 0, in
        units of C. The objective of an infeasible point may be better than the optimum.
    n_support : int
        Number of support vectors.
    """

    objective: float
    infeasibility: float
    n_support: int


def rbf_block(A: Any, B: Any, gamma: float) -> FloatArray:
    """Return exp(-gamma |a - b|^2) in float64 for the rows of A and B, dense or CSR."""
    product = A @ B.T
    if sp.issparse(product):
        product = product.toarray()
    squared = _squared_norms(A)[:, None] + _squared_norms(B)[None, :] - 2.0 * np.asarray(product)
    return np.exp(-gamma * np.maximum(squared, 0.0))


def _squared_norms(A: Any) -> FloatArray:
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", A, A), dtype=np.float64)


def quadratic_form(X: Any, beta: FloatArray, gamma: float) -> float:
    """Return beta' K beta, computed in blocks of rows without forming the whole matrix."""
    total = 0.0
    for start in range(0, len(beta), BLOCK):
        rows = slice(start, start + BLOCK)
        total += float(beta[rows] @ (rbf_block(X[rows], X, gamma) @ beta))
    return total


def dual_objective(model: Any, data: DataSet) -> DualPoint:
    """Recompute the dual objective of a fitted binary SVC with hinge loss.

    Only ``support_`` and ``dual_coef_`` of the model are used. The samples are taken from the data,
    so a float32 copy in the model has no effect.
    """
    support = np.asarray(model.support_, dtype=np.intp)
    coefficients = model.dual_coef_
    if sp.issparse(coefficients):
        coefficients = coefficients.toarray()
    beta = np.asarray(coefficients, dtype=np.float64).ravel()
    alpha = beta * data.y[support]
    quadratic = quadratic_form(data.X[support], beta, data.gamma)
    violation = max(_outside_box(alpha, support, data), abs(float(beta.sum())))
    return DualPoint(float(alpha.sum()) - 0.5 * quadratic, violation / data.C, len(support))


def _outside_box(alpha: FloatArray, support: npt.NDArray[np.intp], data: DataSet) -> float:
    """Return the largest violation of 0 <= alpha <= C.

    Duplicates with equal labels may share their coefficients in any way, or be merged into one
    sample, so the upper bound applies to their sum: C times the number of duplicates.
    """
    keys = _row_keys(data)
    room = {key: data.C * count for key, count in Counter(keys).items()}
    for row, value in zip(support.tolist(), alpha.tolist(), strict=True):
        room[keys[row]] -= value
    return max(0.0, -float(alpha.min(initial=0.0)), -min(room.values()))


def _row_keys(data: DataSet) -> list[bytes]:
    """Return a key per sample, the bytes of its row and label: duplicates have equal keys."""
    labels = [label.tobytes() for label in data.y]
    if data.sparse:
        indices, values, bounds = data.X.indices, data.X.data, data.X.indptr
        rows = [
            indices[start:end].tobytes() + values[start:end].tobytes()
            for start, end in pairwise(bounds)
        ]
    else:
        rows = [row.tobytes() for row in data.X + 0.0]  # -0.0 becomes 0.0
    return [row + label for row, label in zip(rows, labels, strict=True)]


def linear_primal(w: npt.ArrayLike, b: float, data: DataSet) -> float:
    """Return 1/2 |w|^2 + C sum_i max(0, 1 - y_i (w.x_i + b)); the intercept is not regularised."""
    weights = np.asarray(w, dtype=np.float64).ravel()
    margins = data.y * (data.X @ weights + float(b))
    return float(0.5 * (weights @ weights) + data.C * np.maximum(0.0, 1.0 - margins).sum())


def relative_difference(value: float, reference: float) -> float:
    """Return (value - reference) / |reference|."""
    return (value - reference) / max(abs(reference), 1e-300)
