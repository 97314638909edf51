"""Several classes by one machine for each pair of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.messages import warn
from widemargin._base.multiclass import class_pairs, combine, predicted_class
from widemargin._base.typing import FloatArray
from widemargin.estimators._base.scored import ProbabilisticClassifier
from widemargin.fitted.by_path import Refused, fitted_values
from widemargin.fitted.calibration import Calibration, fit_calibration
from widemargin.fitted.coupling import couple, project_on_prediction
from widemargin.fitted.leave_one_out import left_out_values
from widemargin.fitted.record import (
    KeptTraining,
    PlaneTraining,
    ReadTraining,
    Record,
    Training,
    record_of,
)


class OneVsOneClassifier(ProbabilisticClassifier):
    """Decision function and prediction of classifiers with one machine for each pair of classes."""

    calibration: str

    def _pair_values(self, X: Any) -> FloatArray:
        """Return the decision values of the pairs, shape (n_samples, n_pairs)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> FloatArray:
        """Return the signed distance to the boundary in units of the margin.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. More: won pairs plus a fraction from the
            margins, so that the largest score is the predicted class.
        """
        check_is_fitted(self)
        return combine(self._pair_values(X), len(self.classes_))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, calibrated on leave-one-out decision values.

        The first call computes them for the training rows (see :mod:`widemargin.loo`); nothing is
        refitted and nothing is random. The likeliest class is always the predicted one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        values = self._pair_values(X)
        calibrations = self._calibrations()
        each = [c.probability(values[:, k]) for k, c in enumerate(calibrations)]
        if len(each) == 1:
            return np.column_stack([1.0 - each[0], each[0]])
        n_classes = len(self.classes_)
        coupled = couple(np.column_stack(each), class_pairs(n_classes), n_classes)
        return project_on_prediction(coupled, predicted_class(combine(values, n_classes)))

    def _calibrations(self) -> list[Calibration]:
        """Return how each machine's values become probabilities; found at the first call."""
        record = record_of(self)
        method = self.calibration
        question = f"predict_proba with calibration={method!r}"
        read = record.training
        if isinstance(read, ReadTraining):
            return record.remember_any(question, lambda: self._calibrate_by_reading(read))
        return record.remember_kept(question, lambda training: _calibrate(record, training, method))

    def _calibrate_by_reading(self, training: ReadTraining) -> list[Calibration]:
        """Calibrate on a sample of the rows; one in so many has no weight of its own in the fit."""
        raise NotImplementedError


def _calibrate(record: Record, training: KeptTraining, method: str) -> list[Calibration]:
    """Fit the probabilities of each pair on the left-out values of the rows of its classes."""
    assert isinstance(training, Training | PlaneTraining)  # others have no pairs
    data = training.data
    try:
        values = left_out_values(record).values
    except Refused as refusal:
        assert isinstance(training, Training)
        warn(
            f"probabilities are calibrated on values of the rows that the model was fitted to, "
            f"and hence too certain: {refusal}", UserWarning,
        )  # fmt: skip
        values = fitted_values(training, needed=np.ones(len(data.member), dtype=bool))
    codes = data.given_codes()
    found = []
    for k, (positive, negative) in enumerate(training.pairs):
        own = (codes == positive) | (codes == negative)
        is_positive, weight = codes[own] == positive, data.given_weight[own]
        found.append(fit_calibration(values[own, k], is_positive, weight, method))
    return found
