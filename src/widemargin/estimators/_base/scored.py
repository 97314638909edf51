"""Classifiers that predict the class with the largest score."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import predicted_class
from widemargin._base.typing import FloatArray


class ScoredClassifier(ClassifierMixin):
    """Prediction from `decision_function`."""

    classes_: Any

    def decision_function(self, X: Any) -> FloatArray:
        """Return a score for each class, or one for two classes."""
        raise NotImplementedError

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
        scores = self._deciding(X)
        return self.classes_[predicted_class(scores)]

    def _deciding(self, X: Any) -> FloatArray:
        """Return scores that predict the same as `decision_function`, if others are cheaper."""
        return self.decision_function(X)


class AgainstRest(ScoredClassifier):
    """One machine for each class against all others.

    Two classes need one machine only, for which the second class is positive.
    """

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
        return self._shaped(self._machine_values(X))

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Return one value a row for two classes, one a class for more."""
        return values[:, 0] if len(self.classes_) == 2 else values


class ProbabilisticClassifier(ScoredClassifier):
    """Prediction from `decision_function`, and logarithms of `predict_proba`."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class."""
        raise NotImplementedError

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

    def _note(self, **found: FloatArray) -> None:
        """Set attributes: the value itself for two classes, one for each class for more."""
        for name, values in found.items():
            value = values[0] if len(values) == 1 else values
            setattr(self, name, float(value) if np.ndim(value) == 0 else value)
