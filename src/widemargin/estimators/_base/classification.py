"""Mixins of the classifiers: prediction by scores, one-vs-one, one-vs-rest, probabilities.

They stand side by side in the bases of a classifier, those that define `decision_function` and
`predict_proba` before `ScoredClassifier`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import class_pairs, combine, predicted_class
from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet, check_X
from widemargin.fitted.coupling import against_rest, couple, project_on_prediction
from widemargin.fitted.record import record_of


class ScoredClassifier(ClassifierMixin):
    """Prediction from `decision_function`, and logarithms of `predict_proba` if there is one."""

    classes_: Any

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row; where scores are equal, the first class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._deciding_scores(X)
        return self.classes_[predicted_class(scores)]

    def _deciding_scores(self, X: Any) -> FloatArray:
        """Return scores that predict the same as `decision_function`, if others are cheaper."""
        scores: FloatArray = self.decision_function(X)
        return scores

    @available_if(lambda self: hasattr(self, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        return np.log(self.predict_proba(X))


class OneVsOneClassifier:
    """Scores and calibrated probabilities of one machine per pair of classes."""

    classes_: Any
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


class OneVsRestClassifier:
    """Scores of one machine per class against the others; two classes have one machine."""

    classes_: Any

    def _machine_values(self, X: Any) -> FloatArray:
        """Return the decision values of the machines, shape (n_samples, n_machines)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> FloatArray:
        """Return the values of the machines.

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


class CalibratedOneVsRest:
    """Calibrated probabilities of one machine per class; stands beside `OneVsRestClassifier`."""

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
        values: FloatArray = self._machine_values(X)  # type: ignore[attr-defined]
        calibrations = record_of(self).calibrations(self.calibration)
        each = np.column_stack([c.probability(values[:, k]) for k, c in enumerate(calibrations)])
        return against_rest(each, values)


def set_per_machine(estimator: Any, **found: Any) -> None:
    """Set attributes: the value itself for one machine, one value per machine for more."""
    for name, values in found.items():
        value = values[0] if len(values) == 1 else values
        setattr(estimator, name, value.item() if isinstance(value, np.generic) else value)


def hyperplane_values(estimator: Any, X: Any) -> FloatArray:
    """Return the values of the hyperplanes `coef_` and `intercept_`, one column per machine."""
    X = check_X(estimator, X)
    return np.asarray(safe_sparse_dot(X, estimator.coef_.T)) + estimator.intercept_


def of_given_rows(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Return each machine's values of the user's rows; 0 for rows of zero weight (member -1)."""
    return np.pad(values, ((0, 0), (0, 1)))[:, data.member]


def shared_by_weight(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Return `of_given_rows`, rows that were merged with others with their share by weight."""
    share = data.given_weight / np.append(data.weight, 1.0)[data.member]
    return of_given_rows(values, data) * share
