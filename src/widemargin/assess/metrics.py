"""Metrics for ordinal regression and ranking: the preference risk and scorers based on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from widemargin._base.validation import require
from widemargin.problems.preference.risk import preference_risk
from widemargin.problems.ranks import comparable_numbers

__all__ = ["PreferenceScorer", "preference_risk", "preference_scorer"]


def preference_scorer(*, scaled: bool = True, ties: float = 1.0) -> PreferenceScorer:
    """Make a scorer for grid search and cross-validation: one minus the preference risk.

    Parameters
    ----------
    scaled : bool, default=True
        As for :func:`preference_risk`. If True, the score is the fraction of comparable pairs that
        are in the right order.
    ties : {1.0, 0.5}, default=1.0
        As for :func:`preference_risk`.

    Returns
    -------
    PreferenceScorer
        To be passed as `scoring`. With scikit-learn's metadata routing enabled it requests `qid`
        (and, after ``set_score_request(sample_weight=True)``, sample weights) from the search.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from widemargin import CumulativeLinkClassifier, metrics
    >>> X, y = load_iris(return_X_y=True)
    >>> scorer = metrics.preference_scorer()
    >>> scores = cross_val_score(CumulativeLinkClassifier(), X, y, scoring=scorer, cv=3)
    >>> bool(scores.min() > 0.98)
    True
    """
    return PreferenceScorer(scaled=scaled, ties=ties)


class PreferenceScorer:
    """Scorer made by :func:`preference_scorer`: higher is better.

    A model is scored by its `utility` if it has one (also as the last step of a pipeline), else by
    a decision function with one value per sample, else by its predicted ranks, including ties.

    Parameters
    ----------
    scaled, ties
        As for :func:`preference_risk`.

    Examples
    --------
    >>> from widemargin import metrics
    >>> metrics.PreferenceScorer(ties=0.5)
    preference_scorer(scaled=True, ties=0.5)
    """

    def __init__(self, *, scaled: bool = True, ties: float = 1.0) -> None:
        self.scaled = scaled
        self.ties = ties
        self.requests: dict[str, bool | str | None] = {"qid": True, "sample_weight": None}

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None
    ) -> float:
        """Return one minus the preference risk of a fitted model."""
        ranks, values = _judged(estimator, X, y)
        return 1.0 - preference_risk(
            ranks, values, qid, scaled=self.scaled, ties=self.ties, sample_weight=sample_weight
        )

    def set_score_request(self, **requests: bool | str | None) -> PreferenceScorer:
        """Set the metadata requests for ``qid`` and ``sample_weight``: True, False or an alias.

        Parameters
        ----------
        **requests : bool, str or None
            As for scikit-learn's scorers.

        Returns
        -------
        self : PreferenceScorer
            The scorer.
        """
        for name, alias in requests.items():
            require(name in self.requests, "request", name, '"qid" or "sample_weight"')
            self.requests[name] = alias
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer requests, for scikit-learn.

        Returns
        -------
        MetadataRequest
            The requests set by :meth:`set_score_request`.
        """
        routing = MetadataRequest(owner=self)
        for name, alias in self.requests.items():
            routing.score.add_request(param=name, alias=alias)
        return routing

    def __repr__(self) -> str:
        return f"preference_scorer(scaled={self.scaled}, ties={self.ties})"


def _judged(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return the true ranks and the scores of samples, as numbers."""
    from sklearn.pipeline import Pipeline  # imported late, as it imports progress bars

    estimator = getattr(estimator, "best_estimator_", estimator)
    machine, rows = estimator, X
    if isinstance(estimator, Pipeline):
        machine = estimator[-1]
        if hasattr(machine, "utility"):
            rows = estimator[:-1].transform(X) if len(estimator) > 1 else X
    ranks = _as_ranks(machine, y)
    if hasattr(machine, "utility"):
        return ranks, machine.utility(rows)
    if hasattr(estimator, "decision_function"):
        values = np.asarray(estimator.decision_function(X))
        if values.ndim == 1:
            return ranks, values
    return ranks, _as_ranks(machine, estimator.predict(X))


def _as_ranks(machine: Any, labels: Any) -> Any:
    """Return labels as numbers, in the class order of the estimator."""
    if not hasattr(machine, "classes_"):
        return labels
    return comparable_numbers(labels, getattr(machine, "classes", None), machine.classes_)
