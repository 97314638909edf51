"""Fitted one-class models, with leave-one-out by warm-started refits.

Without a sample, the sum of the multipliers is nu times the remaining weight: every multiplier can
change, also if the sample was no support vector. The solution paths of `by_path` hold the sum, so
the model is refitted, with nu and the kernel held. An error is a sample that the model fitted
without it flags as an outlier.

All support vectors between their bounds have the score rho. The region is enlarged by the rounding
error of a score: otherwise rounding would decide which of them are outliers, and these could be
more than nu allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray
from widemargin.fitted.base import Refused
from widemargin.fitted.by_refit import Refit, RefitTraining
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin, one_class
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult


@dataclass(frozen=True, eq=False)
class OneClassMachine:
    """Solved one-class problem over all samples of a training set.

    Attributes
    ----------
    weight : ndarray of shape (n_rows,)
        Sample weights.
    nu : float
        Upper bound on the fraction of outliers.
    alpha : ndarray of shape (n_rows,)
        Multipliers.
    threshold : float
        Threshold, -rho plus the rounding error of a score.
    converged : bool
        Whether the tolerance was reached.
    tol : float
        Largest KKT violation of a refit.
    max_iter : int
        Largest number of steps of a refit; -1 is the default of the solver.
    """

    weight: FloatArray
    nu: float
    alpha: FloatArray
    threshold: float
    converged: bool
    tol: float
    max_iter: int

    @property
    def fitted(self) -> Refit:
        """Expansion fitted to all samples."""
        return Refit(self.alpha, np.array([self.threshold]), self.converged)

    def matters(self) -> BoolArray:
        """Return a mask of all samples: each of them contributes to the sum of the multipliers."""
        return np.ones(len(self.weight), dtype=bool)

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Refit with the fraction `kept` of each sample's weight, from the fitted multipliers."""
        some = np.flatnonzero(kept)
        if not len(some):
            raise Refused("leave-one-out needs at least two samples")
        problem = one_class(self.weight[some] * kept[some], self.nu)
        start = DualResult(
            alpha=self.alpha[some], f=np.zeros(len(some)), n_iter=1, status="converged"
        )
        steps = self.max_iter if self.max_iter > 0 else max(500_000, 100 * len(some))
        found = soft_margin.solve(problem, rows, tol=self.tol, budget=Budget(steps), start=start)
        thresholds = problem.thresholds(found.f)
        converged = problem.kkt_violation(found.alpha, found.f) <= self.tol
        converged &= has_region(-float(thresholds[0]), self.tol)
        error = PRODUCT_ROUNDING * largest_score(problem, rows)
        return Refit(found.alpha, thresholds + error, converged)


@dataclass(frozen=True, eq=False)
class OneClassTraining(RefitTraining):
    """Fitted one-class model: each training sample counts as an inlier, labelled 1."""

    machines: Sequence[OneClassMachine]
    refusal: str = ""

    methods: ClassVar[tuple[str, ...]] = ("exact", "folds")
    method_advice: ClassVar[str] = (
        "auto, exact or folds: a one-class model depends on every sample through its nu, so it is "
        "fitted again"
    )

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Return decision values and errors of the samples: those flagged as outliers."""
        return values[:, 0], values[:, 0] < 0.0

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return the decision values and the predictions, 1 for inliers and -1 for outliers."""
        return decision, np.where(decision < 0.0, -1, 1)


def has_region(rho: float, tol: float) -> bool:
    """Return whether rho, which is never negative at the optimum, exceeds the tolerance.

    If the origin is among the weighted means of the images, then w = 0 and rho = 0: all scores are
    zero, and the multipliers that the solver returns decide which samples are flagged.
    """
    return rho > tol


def largest_score(problem: SoftMargin, rows: Rows) -> float:
    """Return an upper bound of the absolute scores: the total times the largest k(x, x)."""
    return float(problem.totals[0]) * float(np.abs(rows.diagonal()).max())
