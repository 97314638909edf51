"""Base class of the estimators that keep a training record: leave-one-out and `compact`."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from widemargin._base.typing import FloatArray
from widemargin.estimators._base.display import Displayed
from widemargin.fitted.record import record_of


class Diagnosed(Displayed):
    """Leave-one-out of a machine that keeps its training record, and a copy without it.

    `loo_scorings` are the scores by which `LOOSearch` can choose its parameters.
    """

    loo_scorings: ClassVar[tuple[str, ...]] = ("error",)

    def loo_decision_values(self, method: str = "auto") -> FloatArray:
        """Return the decision value of each training row by the model without that row.

        Parameters
        ----------
        method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
            See :func:`widemargin.loo.decision_values`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Left-out values, in the order of the training rows.
        """
        return record_of(self).decision_values(method)

    def loo_error(self, method: str = "auto") -> float:
        """Return the leave-one-out error.

        Parameters
        ----------
        method : str, default="auto"
            See :func:`widemargin.loo.error`.

        Returns
        -------
        float
            Error rate of a classifier, mean absolute error of a regressor.
        """
        return record_of(self).result(method).error

    def compact(self) -> Any:
        """Return a copy without the training data, for storage.

        It predicts as before. Leave-one-out results and probabilities that were computed before
        are kept; others need the training data and are refused.

        Returns
        -------
        estimator
            The smaller model.
        """
        smaller = copy.copy(self)
        smaller._record_ = record_of(self).compact()  # type: ignore[attr-defined]
        return smaller
