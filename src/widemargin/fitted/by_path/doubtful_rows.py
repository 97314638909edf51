"""Bounds of the leave-one-out errors of soft-margin models, which need no solution path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import KERNEL_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray
from widemargin.fitted.base import TIE, LeavingRows
from widemargin.kernels import Rows

if TYPE_CHECKING:
    from widemargin.fitted.by_path import Machine, Training

BLOCK = 512


def doubtful(training: Training, machine: Machine, leaving: LeavingRows, method: str) -> BoolArray:
    """Return a mask of the left-out rows that a bound counts as errors."""
    rows, problem = training.rows_of(machine), machine.problem
    beta = problem.coefficients(machine.alpha)
    if method == "support_vectors":
        return np.asarray(beta[leaving.rows] != 0)
    used = np.flatnonzero(beta)
    with worker_threads() as rows.threads:
        f = rows.weighted_sum(np.arange(rows.n), rows, used, beta[used])
        diagonal = rows.diagonal()
        radius = _radius(rows, diagonal, training.intercept) if method == "xi_alpha" else 0.0
    alpha = np.abs(beta)[leaving.rows]
    cap = np.maximum(problem.upper, -problem.lower)[leaving.rows]
    kept = 1.0 - leaving.fraction
    # Part of the coefficient that the remaining copies of a merged row can keep.
    kept_cap = np.where(np.isfinite(cap), np.where(np.isfinite(cap), cap, 0.0) * kept, 0.0)
    if problem.is_hard:
        kept_cap = np.where(kept > 0, np.inf, 0.0)
    leaves = np.maximum(0.0, alpha - kept_cap)
    margin = (problem.target * (f + machine.threshold))[leaving.rows]
    # The bounds hold at the optimum and for exact kernel values (those of narrow kernels have few
    # digits), hence a tolerance for the KKT violation and rounding errors of the margins.
    doubt = TIE + problem.kkt_violation(machine.alpha, f) + KERNEL_ROUNDING * np.abs(margin)
    if method == "jaakkola_haussler":
        return np.asarray(margin - leaves * diagonal[leaving.rows] <= doubt)
    slack = np.maximum(0.0, 1.0 - margin)
    return np.asarray(2.0 * leaves * radius + slack >= 1.0 - doubt)


def _radius(rows: Rows, diagonal: FloatArray, intercept: bool) -> float:
    """Return R^2: the largest k(x, x), minus the smallest k(x, x') if there is an intercept.

    An intercept makes the model invariant to adding a constant to the kernel.
    """
    largest = float(diagonal.max())
    if not intercept or rows.kernel.name == "rbf":
        return largest
    everything = np.arange(rows.n)
    parts = (everything[k : k + BLOCK] for k in range(0, rows.n, BLOCK))
    return largest - min(float(rows.block(part, rows, everything).min()) for part in parts)
