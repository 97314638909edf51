"""Solutions of kernel machines whose certificates are computed when they are first read.

A certificate needs the kernel values between all samples and all support vectors in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import USEFUL_GAP, Certificate, gap_scale
from widemargin.kernels import Rows
from widemargin.kernels.sums import majorants, roundings
from widemargin.problems.soft_margin import SoftMargin
from widemargin.problems.soft_margin.bounds import Point, bracket, kernel_values
from widemargin.problems.soft_margin.loops import estimates

# An estimate of the relative gap below this, and rounding errors of the objectives below that,
# leave no doubt that the gap is at most USEFUL_GAP.
CLEAR_GAP, CLEAR_ROUNDING = 0.9 * USEFUL_GAP, 1e-2 * USEFUL_GAP


@dataclass(frozen=True, eq=False)
class Solution:
    """Dual solution of a soft-margin problem, with what its certificate depends on.

    Attributes
    ----------
    problem : SoftMargin
        The problem.
    rows : Rows
        Samples of the fit.
    chosen : ndarray or None
        Those that the problem is stated on; None: all.
    alpha, thresholds : ndarray
        Dual variables and thresholds.
    known : dict
        Further arguments of `Point`.
    tol, unit : float
        Tolerance of the fit, and its unit.
    n_iter, evaluations : int
        Numbers of steps and of kernel values.
    """

    problem: SoftMargin
    rows: Rows
    chosen: IntArray | None
    alpha: FloatArray
    thresholds: FloatArray
    known: dict[str, Any]
    tol: float
    unit: float
    n_iter: int
    evaluations: int = 0

    def certificate(self) -> Certificate:
        """Return the certificate, from the dual variables, the thresholds and the samples."""
        problem, everything = self.problem, np.arange(self.problem.n_rows)
        rows = self.rows if self.chosen is None else self.rows.part(self.chosen)
        beta = problem.coefficients(self.alpha)
        used = np.flatnonzero(beta)
        with worker_threads() as rows.threads:
            f = rows.weighted_sum(everything, rows, used, beta[used])
            known = {"thresholds": self.thresholds} | self.known
            point = Point(self.alpha, beta, size=majorants(rows), **known)
            found = bracket(problem, point, kernel_values(rows, beta, f, point.size))
        return problem.certificate(
            self.alpha, f, found, tol=self.tol, n_iter=self.n_iter,
            kernel_evaluations=self.evaluations, unit=self.unit,
        )  # fmt: skip


def without_doubt(
    problem: SoftMargin, alpha: FloatArray, f: FloatArray, thresholds: FloatArray, rows: Rows
) -> float | None:
    """Return the primal objective if the gap is surely small, in spite of rounding, else None.

    f = K beta in float64. The certificate, computed later, then confirms that the gap is small.
    """
    shifts = np.zeros(2)
    shifts[: problem.n_groups] = thresholds
    totals = np.zeros(2)
    totals[: problem.n_groups] = problem.totals
    primal, dual, mass, spent = estimates(
        alpha, f, problem.row, problem.target, problem.lower, problem.upper, problem.ridge,
        problem.group, shifts, totals,
    )  # fmt: skip
    bounded = rows.kernel.name == "rbf"
    size = 1.0 if bounded else float(np.sqrt(np.abs(rows.diagonal()).max()))
    rounding = (roundings(rows.stated, problem.n_rows) + 100.0) * U * mass * size
    rounding *= (mass + spent) * size + abs(shifts).max()
    scale = gap_scale(primal)
    clear = primal - dual <= CLEAR_GAP * scale and rounding <= CLEAR_ROUNDING * scale
    return float(primal) if clear else None
