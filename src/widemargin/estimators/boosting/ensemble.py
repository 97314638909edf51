"""The hypotheses of a boosted model, and their weighted votes on new samples."""

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
    """The stumps of a machine, as arrays.

    Attributes
    ----------
    feature, threshold, sign : ndarray of shape (n_rounds,)
        Each stump says `sign` where the feature exceeds the threshold, ``-sign`` elsewhere.
    """

    has_stumps: ClassVar[bool] = True
    feature: IntArray
    threshold: FloatArray
    sign: FloatArray

    @classmethod
    def of(cls, stumps: Sequence[Stump]) -> StumpEnsemble:
        """Return some stumps as arrays."""
        return cls(
            np.array([stump.feature for stump in stumps], dtype=np.intp),
            np.array([stump.threshold for stump in stumps], dtype=np.float64),
            np.array([stump.sign for stump in stumps], dtype=np.float64),
        )

    def members(self) -> list[Stump]:
        """Return the stumps one by one."""
        parts = zip(self.feature.tolist(), self.threshold.tolist(), self.sign, strict=True)
        return [Stump(feature, threshold, int(sign)) for feature, threshold, sign in parts]

    def staged(self, X: Matrix, alpha: FloatArray) -> Iterator[FloatArray]:
        """Yield the sum of alpha_t g_t after each round; the array is used again."""
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
        """Return the share of the coefficients that the stumps of each feature have."""
        moves = np.isfinite(self.threshold)  # a constant stump looks at no feature
        return np.bincount(self.feature[moves], alpha[moves], n_features) / alpha.sum()

    def _used(self, X: Matrix) -> tuple[IntArray, Matrix]:
        """Return X as it is if dense, else the dense columns that stumps look at."""
        most = X.shape[1]
        if not len(self.feature) == len(self.threshold) == len(self.sign) or (
            len(self.feature) and not 0 <= self.feature.min() <= self.feature.max() < most
        ):  # of a file that was tampered with: compiled loops do not look
            raise ValueError(f"the stumps of this model do not fit rows of {most} features")
        if not sp.issparse(X):
            return self.feature, X
        used, place = np.unique(self.feature, return_inverse=True)
        return place.astype(np.intp), X[:, used].toarray(order="C")


@dataclass(frozen=True)
class ClassifierEnsemble:
    """The classifiers of a machine, whose labels are -1 and +1."""

    has_stumps: ClassVar[bool] = False
    classifiers: list[Any]

    def members(self) -> list[Any]:
        """Return the classifiers."""
        return list(self.classifiers)

    def staged(self, X: Matrix, alpha: FloatArray) -> Iterator[FloatArray]:
        """Yield the sum of alpha_t g_t after each round; the array is used again."""
        total = np.zeros(X.shape[0])
        for step, classifier in zip(alpha, self.classifiers, strict=True):
            total += np.where(classifier.predict(X) == 1, step, -step)
            yield total

    def total(self, X: Matrix, alpha: FloatArray) -> FloatArray:
        """Return the sum of alpha_t g_t."""
        return deque(self.staged(X, alpha), maxlen=1).pop()

    def feature_shares(self, alpha: FloatArray, n_features: int) -> FloatArray:
        """Refuse: classifiers need not tell which features they use."""
        raise AttributeError("feature_importances_ is there for stumps only (base=None)")
