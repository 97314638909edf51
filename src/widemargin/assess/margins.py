"""Compute functional and geometric margins of samples: see :mod:`widemargin.margins`."""

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
from widemargin.fitted.record import machine_of
from widemargin.problems.boosting import margins_of

__all__ = ["geometric", "margin_error", "margins"]


def margins(est: Any, X: Any, y: Any) -> FloatArray:
    r"""Return the functional margin of each row.

    For two classes it is y f(x), f the decision function, y = +1 for ``classes_[1]`` and -1 for
    ``classes_[0]``. For more it is the score of the row's class less the largest score of another
    class; for :class:`~widemargin.AdaBoostClassifier` half of that, so that margins lie between -1
    and 1. For :class:`~widemargin.OrdinalSVC` it is the distance of the utility from the nearer
    bound of the row's rank, negative outside.

    Parameters
    ----------
    est : estimator
        A fitted classifier, or a pipeline that ends in one. Any with a `decision_function` will do.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Their true labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Margins; positive where the label is predicted, negative where another is.

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
    scores = np.asarray(est.decision_function(X), dtype=np.float64)
    _check_lengths(scores, codes)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    if hasattr(machine, "utility") and hasattr(machine, "thresholds"):
        return scores[np.arange(len(codes)), codes]  # distances from the bounds of ranks already
    half = margins_of(scores, codes)
    return half if hasattr(machine, "staged_margins") else 2.0 * half


def geometric(est: Any, X: Any, y: Any) -> FloatArray:
    r"""Return the signed distance of each row from the boundary, in the machine's own space.

    That is the functional margin divided by the norm of w: of linear machines
    :math:`\|w\|_2` (the norm that they minimise, if they have a parameter `norm`: distances are
    then in the dual one), of kernel machines the norm in feature space,
    :math:`\sqrt{\beta' K \beta}`. With several classes it is the smallest distance from the
    boundaries between the row's class and any other. For :class:`~widemargin.AdaBoostClassifier` it
    is :func:`margins`, as the weights of its hypotheses add up to 1.

    Parameters
    ----------
    est : estimator
        A fitted classifier with `coef_` or `dual_coef_`, or a pipeline that ends in one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows, as for prediction.
    y : array-like of shape (n_samples,)
        Their true labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Distances; negative where the row is on the wrong side.

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
    if hasattr(machine, "staged_margins"):
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
    r"""Return the share of rows with a functional margin below rho.

    Smola et al. (2000), (1.30): :math:`R_\rho = \frac1m \sum_i 1_{y_i f(x_i) < \rho}`. Rows whose
    margin is exactly rho are no errors.

    Parameters
    ----------
    est : estimator
        As for :func:`margins`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Their true labels.
    rho : float
        The margin asked for, in units of the decision function.

    Returns
    -------
    float
        A share between 0 and 1.

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
    """Refuse rank machines that sort within queries: they predict no classes."""
    if hasattr(machine, "utility") and not hasattr(machine, "thresholds_"):
        raise ValueError(
            "est was fitted with qid and sorts the rows of a query: it predicts no ranks, and rows "
            "have no margins. Fit without qid, or with pooled_ranks=True"
        )


def _check_lengths(scores: FloatArray, codes: Any) -> None:
    if len(scores) != len(codes):
        raise ValueError(f"X and y must have as many rows: {len(scores)} and {len(codes)}")
