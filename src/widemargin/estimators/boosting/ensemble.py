"""Ensembles of weak hypotheses and their weighted votes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.solvers.boosting import Stump, add_stumps


@dataclass(frozen=True)
class StumpEnsemble:
    """Ensemble of decision stumps, stored as arrays.

    Attributes
    ----------
    feature, threshold, sign : ndarray of shape (n_rounds,)
        A stump predicts `sign` if the feature exceeds the threshold, otherwise ``-sign``.
    """

    has_stumps: ClassVar[bool] = True
    feature: IntArray
    threshold: FloatArray
    sign: FloatArray

    @classmethod
    def of(cls, stumps: Sequence[Stump]) -> StumpEnsemble:
        """Build the ensemble from a sequence of stumps."""
        return cls(
            np.array([stump.feature for stump in stumps], dtype=np.intp),
            np.array([stump.threshold for stump in stumps], dtype=np.float64),
            np.array([stump.sign for stump in stumps], dtype=np.float64),
        )

    def members(self) -> list[Stump]:
        """Return the list of stumps."""
        parts = zip(self.feature.tolist(), self.threshold.tolist(), self.sign, strict=True)
        return [Stump(feature, threshold, int(sign)) for feature, threshold, sign in parts]

    def staged(self, X: Matrix, alpha: FloatArray) -> Iterator[FloatArray]:
        """Yield the sum of alpha_t g_t after each round, always in the same array."""
        feature, X = self._used(X)
        total = np.zeros(X.shape[0])
        for t in range(len(alpha)):
            one = slice(t, t + 1)
            add_stumps(X, feature[one], self.threshold[one], (alpha * self.sign)[one], total)
            yield total

    def total(self, X: Matrix, alpha: FloatArray) -> FloatArray:
        """Return the sum of alpha_t g_t."""
        feature, X = self._used(X)
        total = np.zeros(X.shape[0])
        add_stumps(X, feature, self.threshold, alpha * self.sign, total)
        return total

    def feature_shares(self, alpha: FloatArray, n_features: int) -> FloatArray:
        """Return the share of each feature in the sum of the coefficients."""
        moves = np.isfinite(self.threshold)  # a constant stump uses no feature
        return np.bincount(self.feature[moves], alpha[moves], n_features) / alpha.sum()

    def _used(self, X: Matrix) -> tuple[IntArray, Matrix]:
        """Return feature indices and a dense X, restricted to the features in use if sparse."""
        most = X.shape[1]
        if not len(self.feature) == len(self.threshold) == len(self.sign) or (
            len(self.feature) and not 0 <= self.feature.min() <= self.feature.max() < most
        ):  # a corrupt or manipulated file; compiled loops do not check bounds
            raise ValueError(f"the stumps of this model do not fit rows of {most} features")
        if not sp.issparse(X):
            return self.feature, X
        used, place = np.unique(self.feature, return_inverse=True)
        return place.astype(np.intp), X[:, used].toarray(order="C")


@dataclass(frozen=True)
class ClassifierEnsemble:
    """Ensemble of classifiers with labels -1 and +1."""

    has_stumps: ClassVar[bool] = False
    classifiers: list[Any]

    def members(self) -> list[Any]:
        """Return the list of classifiers."""
        return list(self.classifiers)

    def staged(self, X: Matrix, alpha: FloatArray) -> Iterator[FloatArray]:
        """Yield the sum of alpha_t g_t after each round, always in the same array."""
        total = np.zeros(X.shape[0])
        for step, classifier in zip(alpha, self.classifiers, strict=True):
            total += np.where(classifier.predict(X) == 1, step, -step)
            yield total

    def total(self, X: Matrix, alpha: FloatArray) -> FloatArray:
        """Return the sum of alpha_t g_t."""
        return deque(self.staged(X, alpha), maxlen=1).pop()

    def feature_shares(self, alpha: FloatArray, n_features: int) -> FloatArray:
        """Raise AttributeError: the features used by a classifier are not known in general."""
        raise AttributeError("feature_importances_ is there for stumps only (base=None)")
