"""Multiclass classification by one machine per class, against the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet
from widemargin.estimators._base.scored import AgainstRest, ProbabilisticClassifier
from widemargin.fitted.coupling import against_rest
from widemargin.fitted.record import record_of


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
        calibrations = record_of(self).calibrations(self.calibration)
        each = np.column_stack([c.probability(values[:, k]) for k, c in enumerate(calibrations)])
        return against_rest(each, values)


def of_given_rows(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Return each machine's values of the user's rows; 0 for rows of zero weight (member -1)."""
    return np.pad(values, ((0, 0), (0, 1)))[:, data.member]
