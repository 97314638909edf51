"""Multiclass classification by one machine per pair of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import class_pairs, combine, predicted_class
from widemargin._base.typing import FloatArray
from widemargin.estimators._base.scored import ProbabilisticClassifier
from widemargin.fitted.coupling import couple, project_on_prediction
from widemargin.fitted.record import record_of


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
        calibrations = record_of(self).calibrations(self.calibration)
        each = [c.probability(values[:, k]) for k, c in enumerate(calibrations)]
        if len(each) == 1:
            return np.column_stack([1.0 - each[0], each[0]])
        n_classes = len(self.classes_)
        coupled = couple(np.column_stack(each), class_pairs(n_classes), n_classes)
        return project_on_prediction(coupled, predicted_class(combine(values, n_classes)))
