"""Several classes by one machine for each of them, against all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import FloatArray
from widemargin._validation import TrainingSet
from widemargin.assess.loo import left_out_values
from widemargin.assess.probability import Calibration, against_rest, fit_calibration
from widemargin.assess.record import KeptTraining, Record, record_of
from widemargin.estimators._scored import ProbabilisticClassifier


class OneVsRestClassifier(ProbabilisticClassifier):
    """Decision function and prediction of classifiers with one machine for each class.

    Two classes need one machine only, for which the second class is positive.
    """

    calibration: str

    def _machine_values(self, X: Any) -> FloatArray:
        """Return the decision values of the machines, shape (n_samples, n_machines)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> FloatArray:
        """Return the values of the machines in units of the margin.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. More: the value of each class's machine, so
            that the largest score is the predicted class.
        """
        check_is_fitted(self)
        values = self._machine_values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

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
    codes = np.append(np.unique(data.y, return_inverse=True)[1], -1)[data.member]
    n_machines = values.shape[1]
    positives = [1] if n_machines == 1 else range(n_machines)
    return [
        fit_calibration(values[:, k], codes == positive, data.given_weight, method)
        for k, positive in enumerate(positives)
    ]


def of_given_rows(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Return each machine's values of the user's rows; 0 for rows of zero weight (member -1)."""
    return np.pad(values, ((0, 0), (0, 1)))[:, data.member]
