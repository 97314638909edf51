"""Several classes by one machine for each of them, against all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import positive_classes
from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet
from widemargin.estimators._base.scored import AgainstRest, ProbabilisticClassifier
from widemargin.fitted.calibration import Calibration, fit_calibration
from widemargin.fitted.coupling import against_rest
from widemargin.fitted.leave_one_out import left_out_values
from widemargin.fitted.record import KeptTraining, Record, record_of


class OneVsRestClassifier(AgainstRest, ProbabilisticClassifier):
    """Prediction and calibrated probabilities of classifiers with one machine for each class."""

    calibration: str

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, calibrated on left-out decision values.

        The first call computes them for the training rows (see :mod:`widemargin.loo`). With more
        than two classes the probabilities of the machines are normalised. The likeliest class is
        always the predicted one.

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
        values = self._machine_values(X)
        each = np.column_stack(
            [c.probability(values[:, k]) for k, c in enumerate(self._calibrations())]
        )
        return against_rest(each, values)

    def _calibrations(self) -> list[Calibration]:
        """Return how each machine's values become probabilities; found at the first call."""
        record = record_of(self)
        method = self.calibration
        question = f"predict_proba with calibration={method!r}"
        return record.remember_kept(question, lambda training: _calibrate(record, training, method))


def _calibrate(record: Record, training: KeptTraining, method: str) -> list[Calibration]:
    """Fit the probabilities of each machine on the left-out values of all rows."""
    data = training.data
    values = left_out_values(record).values
    codes = data.given_codes()
    positives = positive_classes(max(2, values.shape[1]))
    return [
        fit_calibration(values[:, k], codes == positive, data.given_weight, method)
        for k, positive in enumerate(positives)
    ]


def of_given_rows(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Return each machine's values of the user's rows; 0 for rows of zero weight (member -1)."""
    return np.pad(values, ((0, 0), (0, 1)))[:, data.member]
