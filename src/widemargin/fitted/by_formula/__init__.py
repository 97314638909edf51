"""Gaussian-process regression: leave-one-out in closed form.

The formulas are those of :mod:`widemargin.solvers.gp_regression.left_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import FittedModel, LeftOutValues, first_in
from widemargin.fitted.by_formula.process import BLOCK_ROWS, RegressionProcess
from widemargin.fitted.record import Record
from widemargin.kernels import Rows
from widemargin.solvers.gp_regression import LeftOut, leave_out


@dataclass(frozen=True, eq=False)
class RegressionTraining(FittedModel):
    """Fitted Gaussian-process regression, with leave-one-out in closed form.

    Attributes
    ----------
    process : RegressionProcess
        The posterior process.
    coefficients, constant : ndarray of shape (n,)
        beta and C^-1 1, per training sample.
    fixed : str
        Hyperparameters that were estimated from all samples; empty if none were.
    """

    data: TrainingSet
    process: RegressionProcess
    coefficients: FloatArray
    constant: FloatArray
    fixed: str

    methods: ClassVar[tuple[str, ...]] = ("exact",)
    method_advice: ClassVar[str] = "auto or exact, which is a closed form and as fast as any other"

    @property
    def held(self) -> str:
        """Hyperparameters that were estimated, and the pivots of a low-rank fit."""
        return self.fixed

    def auto_method(self) -> str:
        """Return "exact", the only method."""
        return "exact"

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return the leave-one-out means of the user's samples; `chosen` is ignored."""
        return LeftOutValues(self.predictions(record).mean[:, None])

    def predictions(self, record: Record) -> LeftOut:
        """Return the leave-one-out means and variances of f at the user's samples."""
        return record.held("left-out predictions", lambda: self._predictions(record))

    def _predictions(self, record: Record) -> LeftOut:
        data, process = self.data, self.process
        ridge = process.noise / (process.amplitude * data.weight)
        inverse, rest = self._inverse_diagonal(record, ridge)
        inverse = inverse - self.constant**2 / process.mean_precision
        member = data.member
        share = np.minimum(1.0, data.given_weight) / np.append(data.weight, 1.0)[member]
        found = leave_out(
            data.given_y.astype(np.float64),
            self.coefficients[member],
            inverse[member],
            ridge[member],
            share,
            process.amplitude,
        )
        mean, variance = found.mean, found.variance + process.amplitude * rest[member]
        unseen = member < 0
        if unseen.any():
            cross = process.prior.cross(self._columns(data.outside))
            own = process.prior.prior_variance(data.outside)
            mean[unseen] = process.predictive_mean(cross)
            variance[unseen] = process.variance(record, cross, own)
        return LeftOut(mean, variance)

    def _inverse_diagonal(self, record: Record, ridge: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the diagonal of C^-1, and the prior variance that pivots do not explain."""
        process, n = self.process, len(ridge)
        if process.low_rank is None:
            posterior: Any = process.posterior(record)
            return posterior.inverse_diagonal(), np.zeros(n)
        low, prior, X = process.low_rank, process.prior, self.data.X
        inverse, rest = np.empty(n), np.empty(n)
        for start in range(0, n, BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            features = low.features(prior.cross(self._columns(X[part])))
            inside = low.shrunk(features)
            kept = np.einsum("ij,ij->j", inside, inside) / ridge[part]
            inverse[part] = (1.0 - kept) / ridge[part]
            rest[part] = np.einsum("ij,ij->j", features, features)
        largest = Rows(prior.kernel, X, prior.centre).diagonal()
        return inverse, np.maximum(largest - rest, 0.0)

    def _columns(self, X: Matrix) -> Matrix:
        """Return the samples, or for a precomputed kernel the values with the pivots."""
        if self.process.prior.kernel.name != "precomputed":
            return X
        places: IntArray = self.data.member[self.process.prior.index]
        return X[:, places]

    # -- errors and suspects -----------------------------------------------------------------

    def values(self) -> FloatArray:
        """Return the fitted values of the user's samples."""
        process, data = self.process, self.data
        ridge = process.noise / (process.amplitude * data.weight)
        found = (data.y - ridge * self.coefficients)[data.member]
        unseen = data.member < 0
        if unseen.any():
            found[unseen] = process.predictive_mean(
                process.prior.cross(self._columns(data.outside))
            )
        return found[:, None]

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Return predictions and absolute errors of the samples."""
        return values[:, 0], np.abs(self.data.given_y - values[:, 0])

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return minus the absolute errors, and the predictions."""
        return -np.abs(self.data.given_y - decision), decision

    def coefficient_sizes(self) -> FloatArray | None:
        """Return the absolute coefficients of the user's samples, split by weight."""
        data = self.data
        size = np.append(np.abs(self.coefficients) / data.weight, 0.0)
        return (size[data.member] * data.given_weight)[None, :]

    def most_suspicious(self, count: int) -> BoolArray:
        """Return a mask of the samples with the largest coefficients per unit of weight."""
        size = np.append(np.abs(self.coefficients) / self.data.weight, -np.inf)
        return first_in(np.argsort(-size[self.data.member], kind="stable"), count)
