"""Leave-one-out predictions and errors of a fitted model; the methods: :mod:`widemargin.loo`."""

from __future__ import annotations

from typing import Any

from widemargin._base.typing import FloatArray
from widemargin.fitted.base import LOOResult
from widemargin.fitted.record import record_of

__all__ = ["LOOResult", "decision_values", "error", "result"]


def decision_values(est: Any, method: str = "auto") -> FloatArray:
    """Return the left-out decision value of each training row.

    Parameters
    ----------
    est : estimator
        Any fitted estimator with a method `loo_error` (reduced hulls and tubes are taken at their
        equivalent C and epsilon), or a pipeline that ends in one (its transformers, fitted on all
        rows, stay as they are).
    method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
        "auto" is exact up to 5,000 rows, else the linear response; for machines without a path it
        is exact up to 500 rows, else "folds"; for Gaussian processes it is the linear response.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_classes)
        As `decision_function` returns them (`predict` for regressors), not multiplied by the
        label, in the order of the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVC, loo
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = SVC(kernel="linear").fit(X, [0, 0, 1, 1])
    >>> loo.decision_values(model).round(3)
    array([-2.   , -0.333,  0.333,  2.   ])
    """
    return record_of(est).decision_values(method)


def error(est: Any, method: str = "auto") -> float:
    """Return the leave-one-out error of a fitted model.

    Parameters
    ----------
    est : estimator
        As for :func:`decision_values`.
    method : str, default="auto"
        One of the methods of :mod:`widemargin.loo`; "auto" as for :func:`decision_values`.

    Returns
    -------
    float
        Error rate of a classifier, mean absolute error of a regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> round(loo.error(model), 4)
    0.0267
    """
    return record_of(est).result(method).error


def result(est: Any, method: str = "auto") -> LOOResult:
    """Return the leave-one-out error with its values, kind and cost.

    Parameters
    ----------
    est : estimator
        As for :func:`decision_values`.
    method : str, default="auto"
        As for :func:`error`.

    Returns
    -------
    LOOResult
        Remembered by the model: asking again costs nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(fit_intercept=False).fit(*load_iris(return_X_y=True))
    >>> loo.result(model, "xi_alpha").kind
    'bound'
    """
    return record_of(est).result(method)
