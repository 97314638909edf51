"""Functional and geometric margins of samples, see :mod:`widemargin.margins`."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin._base.validation import require_number
from widemargin.assess.planes import (
    class_numbers,
    last_step,
    nearest_plane,
    plane_values,
    planes_of,
)
from widemargin.estimators._base.inspection import class_scores
from widemargin.fitted.record import machine_of
from widemargin.problems.boosting import margins_of

__all__ = ["geometric", "margin_error", "margins"]


def margins(est: Any, X: Any, y: Any) -> FloatArray:
    r"""Return the functional margin of each sample.

    For two classes it is y f(x), with the decision function f and y = +1 for ``classes_[1]``, -1
    for ``classes_[0]``. For more classes it is the score of the sample's class minus the largest
    score of another class; for :class:`~widemargin.AdaBoostClassifier` and
    :class:`~widemargin.LPBoostClassifier` half of that, so that margins are between -1 and 1. For
    :class:`~widemargin.OrdinalSVC` it is the distance of the utility from the nearer threshold of
    the sample's rank, negative outside.

    Parameters
    ----------
    est : estimator
        Any fitted classifier with a `decision_function`, or a pipeline that ends in one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        True labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Margins; positive if the label is predicted, negative if another one is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVC, margins
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> margins.margins(model, X, y).round(6)
    array([2., 1., 1., 2.])
    """
    machine = machine_of(est)
    codes = class_numbers(machine, y)
    if not hasattr(est, "decision_function"):
        raise TypeError(f"{type(machine).__name__} has no decision_function to take margins of")
    _refuse_utilities(machine)
    scores = class_scores(machine, np.asarray(est.decision_function(X), dtype=np.float64))
    _check_lengths(scores, codes)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    if hasattr(machine, "utility") and hasattr(machine, "thresholds"):
        return scores[np.arange(len(codes)), codes]  # scores of ranks are such distances
    half = margins_of(scores, codes)
    return half if hasattr(machine, "alphas_") else 2.0 * half


def geometric(est: Any, X: Any, y: Any) -> FloatArray:
    r"""Return the signed distance of each sample to the decision boundary, in feature space.

    This is the functional margin divided by the norm of w. The norm is :math:`\|w\|_2` for linear
    models (for those with a parameter `norm` that norm, and distances are in the dual norm) and
    :math:`\sqrt{\beta' K \beta}` for kernel models. With several classes the result is the
    smallest distance to the boundaries between the sample's class and any other. For
    :class:`~widemargin.AdaBoostClassifier` and :class:`~widemargin.LPBoostClassifier` it equals
    :func:`margins`, as the weights of its
    hypotheses sum to 1.

    Parameters
    ----------
    est : estimator
        A fitted classifier with `coef_` or `dual_coef_`, or a pipeline that ends in one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, in the form that `predict` takes.
    y : array-like of shape (n_samples,)
        True labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Distances; negative if a sample is on the wrong side.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVC, margins
    >>> X, y = np.array([[-6.0], [-3.0], [3.0], [6.0]]), [0, 0, 1, 1]
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> margins.geometric(model, X, y).round(6)
    array([6., 3., 3., 6.])
    """
    machine, seen = last_step(est, X)
    if hasattr(machine, "alphas_"):
        return margins(machine, seen, y)
    codes = class_numbers(machine, y)
    _refuse_utilities(machine)
    planes = planes_of(machine, seen)
    if hasattr(machine, "utility"):
        if not hasattr(machine, "thresholds"):
            raise TypeError(f"{type(machine).__name__} has scores that are no distances in space")
        return margins(machine, seen, y) / planes.size(np.ones(1))
    values = plane_values(machine, planes, seen)
    _check_lengths(values, codes)
    return nearest_plane(planes, values, codes, len(machine.classes_))


def margin_error(est: Any, X: Any, y: Any, rho: float) -> float:
    r"""Return the fraction of samples with a functional margin below rho.

    Smola et al. (2000), (1.30): :math:`R_\rho = \frac1m \sum_i 1_{y_i f(x_i) < \rho}`. A sample
    whose margin is exactly rho does not count as an error.

    Parameters
    ----------
    est : estimator
        As for :func:`margins`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        True labels.
    rho : float
        The required margin, in units of the decision function.

    Returns
    -------
    float
        Margin error, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVC, margins
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> margins.margin_error(model, X, y, rho=0.5), margins.margin_error(model, X, y, rho=1.5)
    (0.0, 0.5)
    """
    require_number("rho", rho, "a finite number", above=-np.inf)
    return float((margins(est, X, y) < rho).mean())


def _refuse_utilities(machine: Any) -> None:
    """Raise ValueError for models that rank within queries, which do not predict classes."""
    if hasattr(machine, "utility") and not hasattr(machine, "thresholds_"):
        raise ValueError(
            "est was fitted with qid and sorts the rows of a query: it predicts no ranks, and rows "
            "have no margins. Fit without qid, or with pooled_ranks=True"
        )


def _check_lengths(scores: FloatArray, codes: Any) -> None:
    if len(scores) != len(codes):
        raise ValueError(f"X and y must have as many rows: {len(scores)} and {len(codes)}")
