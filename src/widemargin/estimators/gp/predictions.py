"""Predictions and leave-one-out of Gaussian-process classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import check_X
from widemargin.estimators._base.classification import OneVsRestClassifier, ScoredClassifier
from widemargin.estimators._base.diagnostics import Diagnosed
from widemargin.estimators._base.kernel import same_container
from widemargin.fitted.by_response import (
    Reading,
    posterior_variances,
    probabilities,
    readings,
    scores,
)
from widemargin.fitted.latent import LatentFunctions
from widemargin.fitted.record import Record, record_of

BLOCK_ROWS = 2_048  # test samples per block: bounds the memory of their kernel values


class LatentPredictions(OneVsRestClassifier, ScoredClassifier, Diagnosed):
    """Mixin that predicts from the latent functions of a fit, and leaves samples out."""

    kernel: Any
    classes_: Any
    _latent_: LatentFunctions
    _record_: Record

    # -- prediction ------------------------------------------------------------------------

    def _blocks(self, X: Any) -> Iterator[tuple[Matrix, FloatArray]]:
        """Yield blocks of samples with their kernel values against the training samples."""
        check_is_fitted(self)
        X = check_X(self, X, accept_sparse=self.kernel != "precomputed")
        latent = self._latent_
        if latent.kernel.name == "precomputed":
            X = X[:, latent.index]
        else:
            X, own = same_container(X, latent.X)
            latent = replace(latent, X=own)
        for start in range(0, X.shape[0], BLOCK_ROWS):
            block = X[start : start + BLOCK_ROWS]
            yield block, latent.cross(block)

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the latent function, without input noise.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        mean, variance : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class if there are more than two; with two classes, a positive mean
            favours ``classes_[1]``. The mean is not scaled by leave-one-out.
        """
        means, variances = [], []
        for block, cross in self._blocks(X):
            latent, prior = self._latent_, self._latent_.prior_variance(block)
            means.append(latent.mean(cross))
            variances.append(posterior_variances(self._record_, latent, cross, prior))
        mean, variance = np.concatenate(means), np.concatenate(variances)
        return (mean[:, 0], variance[:, 0]) if len(self.classes_) == 2 else (mean, variance)

    def _machine_values(self, X: Any) -> FloatArray:
        """Return the standardised latent means, one column per latent function."""
        found = []
        for block, cross in self._blocks(X):
            prior = self._latent_.prior_variance(block)
            found.append(scores(self._record_, self._latent_, cross, prior))
        return np.concatenate(found)

    def _deciding_scores(self, X: Any) -> FloatArray:
        """Return scores for `predict`: for two classes the latent mean, whose sign suffices."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            return self.decision_function(X)
        return np.concatenate([self._latent_.mean(cross) for _, cross in self._blocks(X)])[:, 0]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class; the largest is that of the predicted class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        fields = self._machine_values(X)
        return probabilities(self._latent_, fields)

    # -- leave-one-out ---------------------------------------------------------------------

    @property
    def loo_error_(self) -> float:
        """Leave-one-out error rate of the training samples by linear response, without refits."""
        return self.loo_error()

    @property
    def loo_proba_(self) -> FloatArray:
        """Leave-one-out probabilities of the training samples."""
        fields = record_of(self).left_out().values
        return probabilities(self._latent_, fields)

    @property
    def readings_(self) -> list[Reading]:
        """Scale and variance that map each latent function to probabilities, by leave-one-out."""
        return readings(record_of(self))

    def compact(self) -> Any:
        """Return a copy of the model without labels, weights and solutions, for storage.

        Predictions are unchanged. The training samples are kept, because the latent function needs
        all of them. The scale of the probabilities is computed first. Leave-one-out results that
        have been computed are kept; computing others raises ValueError.

        Returns
        -------
        MeanFieldGPClassifier
            The compact model.
        """
        readings(record_of(self))
        return super().compact()
