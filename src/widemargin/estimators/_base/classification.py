"""Classifier mixins: prediction from scores, one-vs-one, one-vs-rest, probabilities.

In the bases of a classifier, mixins that define `decision_function` or `predict_proba` precede
`ScoredClassifier`.
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
    """Mixin that derives `predict` from scores and `predict_log_proba` from `predict_proba`."""

    classes_: Any

    def predict(self, X: Any) -> Any:
        """Predict the class of each sample; ties are resolved in favour of the first class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted class labels.
        """
        scores = self._deciding_scores(X)
        return self.classes_[predicted_class(scores)]

    def _deciding_scores(self, X: Any) -> FloatArray:
        """Return the scores used by `predict`; subclasses override this with cheaper ones."""
        scores: FloatArray = self.decision_function(X)
        return scores

    @available_if(lambda self: hasattr(self, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the log-probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        return np.log(self.predict_proba(X))


class OneVsOneClassifier:
    """Mixin for one-vs-one classifiers: scores and calibrated probabilities."""

    classes_: Any
    calibration: str
    decision_function_shape: str = "ovr"  # overridden by estimators with these parameters
    break_ties: bool = False

    def _pair_values(self, X: Any) -> FloatArray:
        """Return the pairwise decision values, shape (n_samples, n_pairs)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision function, which is +1 and -1 on the margins of a binary problem.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. More: number of pairs won plus a fraction
            that grows with the sum of the margins; the largest score is the predicted class. With
            ``decision_function_shape="ovo"``, one column per pair of classes instead.
        """
        check_is_fitted(self)
        values = self._pair_values(X)
        if self.decision_function_shape == "ovo" and len(self.classes_) > 2:
            return values
        return combine(values, len(self.classes_))

    def _deciding_scores(self, X: Any) -> FloatArray:
        """Return one score per class, whatever `decision_function_shape` is."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return combine(self._pair_values(X), len(self.classes_))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, calibrated on leave-one-out decision values.

        The first call computes the leave-one-out values of the training samples and caches them
        (see :mod:`widemargin.loo`). The most probable class is always the predicted one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        values = self._pair_values(X)
        each = _calibrated(self, values)
        if each.shape[1] == 1:
            return np.column_stack([1.0 - each, each])
        n_classes = len(self.classes_)
        coupled = couple(each, class_pairs(n_classes), n_classes)
        return project_on_prediction(coupled, predicted_class(combine(values, n_classes)))


class OneVsRestClassifier:
    """Mixin for one-vs-rest classifiers; two classes have a single binary submodel."""

    classes_: Any

    def _machine_values(self, X: Any) -> FloatArray:
        """Return the decision values of the binary submodels, shape (n_samples, n_machines)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision function, one score per class if there are more than two.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. More: decision value of each class against
            the others; the largest score is the predicted class.
        """
        check_is_fitted(self)
        values = self._machine_values(X)
        return values[:, 0] if len(self.classes_) == 2 else values


class CalibratedOneVsRest:
    """Mixin for calibrated probabilities; used together with `OneVsRestClassifier`."""

    calibration: str

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, calibrated on leave-one-out decision values.

        The first call computes the leave-one-out values of the training samples and caches them
        (see :mod:`widemargin.loo`). With more than two classes the one-vs-rest probabilities are
        normalised. The most probable class is always the predicted one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        values: FloatArray = self._machine_values(X)  # type: ignore[attr-defined]
        return against_rest(_calibrated(self, values), values)


class RestOrPairsClassifier(CalibratedOneVsRest, OneVsRestClassifier):
    """Mixin for classifiers that are fitted one-vs-rest or one-vs-one.

    `fit` stores which of the two as `_one_vs_one_`.
    """

    _one_vs_one_: bool

    def _pair_values(self, X: Any) -> FloatArray:
        return self._machine_values(X)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision function, which is +1 and -1 on the margins of a binary problem.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. More: one-vs-rest, the decision value of
            each class against the others; one-vs-one, the number of pairs won plus a fraction that
            grows with the sum of the margins. The largest score is the predicted class.
        """
        if not self._is_one_vs_one():
            return super().decision_function(X)
        return combine(self._pair_values(X), len(self.classes_))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, calibrated on leave-one-out decision values.

        The first call computes the leave-one-out values of the training samples and caches them
        (see :mod:`widemargin.loo`). With more than two classes the one-vs-rest probabilities are
        normalised, and pairwise probabilities are coupled. The most probable class is always the
        predicted one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        way: Any = OneVsOneClassifier if self._is_one_vs_one() else CalibratedOneVsRest
        return np.asarray(way.predict_proba(self, X))

    def _is_one_vs_one(self) -> bool:
        check_is_fitted(self)
        return self._one_vs_one_


def _calibrated(estimator: Any, values: FloatArray) -> FloatArray:
    """Return the probability of the positive class of each binary problem, one per column."""
    calibrations = record_of(estimator).calibrations(estimator.calibration)
    return np.column_stack([c.probability(values[:, k]) for k, c in enumerate(calibrations)])


def set_per_machine(estimator: Any, **found: Any) -> None:
    """Set fitted attributes: a single value for one binary problem, else one per problem."""
    for name, values in found.items():
        value = values[0] if len(values) == 1 else values
        setattr(estimator, name, value.item() if isinstance(value, np.generic) else value)


def hyperplane_values(estimator: Any, X: Any) -> FloatArray:
    """Return X @ coef_.T + intercept_, one column per hyperplane."""
    X = check_X(estimator, X)
    products = safe_sparse_dot(X, estimator.coef_.T, dense_output=True)
    return np.asarray(products) + estimator.intercept_


def of_given_rows(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Map values per training-set row to the user's samples; 0 for samples of zero weight."""
    # Member -1, a sample of zero weight, indexes the zero that is appended here.
    return np.pad(values, ((0, 0), (0, 1)))[:, data.member]


def shared_by_weight(values: FloatArray, data: TrainingSet) -> FloatArray:
    """Map values as `of_given_rows`, and split those of merged samples in proportion to weight."""
    share = data.given_weight / np.append(data.weight, 1.0)[data.member]
    return of_given_rows(values, data) * share
