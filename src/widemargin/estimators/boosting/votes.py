"""Prediction by weighted votes of hypotheses, shared by the classifiers that combine them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet, check_X
from widemargin.estimators.boosting.ensemble import ClassifierEnsemble, StumpEnsemble
from widemargin.problems.boosting import margins_of


class VotingEnsemble:
    """Mixin for weighted votes of hypotheses; one ensemble for two classes, else one per class.

    Precedes OneVsRestClassifier and ScoredClassifier in the bases of a classifier.
    """

    base: Any
    cache_size: float
    classes_: Any
    n_features_in_: int
    _ensembles_: list[StumpEnsemble | ClassifierEnsemble]
    _alphas_: list[FloatArray]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    def _takes_sparse(self) -> bool:
        return self.base is None or bool(get_tags(self.base).input_tags.sparse)

    def _check_memory(self, X: Matrix) -> None:
        """Raise if the binned features of stumps do not fit into cache_size."""
        needed = 1e-6 * X.shape[0] * X.shape[1]
        if needed > self.cache_size:
            raise ValueError(
                f"cache_size must be at least {math.ceil(needed)} megabytes for stumps on "
                f"{X.shape[0]} x {X.shape[1]} entries, a byte for each; got "
                f"cache_size={self.cache_size!r}. Raise it if the machine has the memory, select "
                "features, or give a base that reads sparse rows as they are"
            )

    # -- fitted attributes ------------------------------------------------------------------

    def _keep_votes(self, hypotheses: list[list[Any]], alphas: list[FloatArray]) -> None:
        """Store the ensembles and their coefficients."""
        ensemble: Any = StumpEnsemble.of if self.base is None else ClassifierEnsemble
        self._ensembles_ = [ensemble(each) for each in hypotheses]
        self._alphas_ = alphas

    def _training_margins(self, data: TrainingSet, totals: list[FloatArray]) -> FloatArray:
        """Return the margins of the user's samples, including those of zero weight.

        `totals` are the sums of alpha_t g_t at the samples of the training set, one per ensemble.
        """
        values = np.empty((len(data.member), len(totals)))
        used = data.member >= 0
        values[used] = np.column_stack(totals)[data.member[used]]
        if not used.all():
            values[~used] = self._totals(data.outside)
        known = np.isin(data.given_y, self.classes_)
        codes = np.searchsorted(self.classes_, data.given_y[known])
        margins = np.full(len(known), np.nan)
        margins[known] = margins_of(normalised(values[known], self._alpha_sums()), codes)
        return margins

    def _checked(self, X: Any) -> Matrix:
        check_is_fitted(self)
        return check_X(self, X, accept_sparse=self._takes_sparse())

    def _totals(self, X: Matrix) -> FloatArray:
        """Return the sums of alpha_t g_t, one column per ensemble."""
        pairs = zip(self._ensembles_, self._alphas_, strict=True)
        return np.column_stack([ensemble.total(X, alpha) for ensemble, alpha in pairs])

    def _alpha_sums(self) -> FloatArray:
        return np.array([alpha.sum() for alpha in self._alphas_])

    def _machine_values(self, X: Any) -> FloatArray:
        """Return f, the weighted mean of the hypotheses, in [-1, 1]."""
        return normalised(self._totals(self._checked(X)), self._alpha_sums())

    @property
    def estimators_(self) -> list[Any]:
        """Hypotheses in the order of the rounds; one list per class if there are more than two."""
        check_is_fitted(self)
        members = [ensemble.members() for ensemble in self._ensembles_]
        return members if len(members) > 1 else members[0]

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each feature in the sum of the coefficients (stumps only)."""
        check_is_fitted(self)
        total = np.zeros(self.n_features_in_)
        for ensemble, alpha in zip(self._ensembles_, self._alphas_, strict=True):
            total += ensemble.feature_shares(alpha, len(total))
        return total / max(float(total.sum()), np.finfo(np.float64).tiny)

    def _each(self, of_machines: Any) -> list[Any]:
        """Return an attribute as a list with one entry per ensemble."""
        return of_machines if len(self._alphas_) > 1 else [of_machines]

    def _codes(self, y: Any, n_rows: int) -> IntArray:
        y = column_or_1d(y)
        if len(y) != n_rows:
            raise ValueError(f"y must have a label for each of the {n_rows} rows; got {len(y)}")
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"y must hold labels among the classes {self.classes_.tolist()}; got "
                f"{strange.tolist()[0]!r}, for which there is no margin"
            )
        return np.searchsorted(self.classes_, y)


def normalised(totals: FloatArray, scale: FloatArray) -> FloatArray:
    """Return F divided by the sum of alpha, clipped to [-1, 1] against rounding."""
    return np.clip(totals / scale, -1.0, 1.0)
