"""Classifiers that predict the class with the largest score."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from widemargin._typing import FloatArray
from widemargin.problems.one_vs_one import predicted_class


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
        scores = self.decision_function(X)
        return self.classes_[predicted_class(scores)]


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
