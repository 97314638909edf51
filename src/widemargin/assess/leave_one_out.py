"""Leave-one-out predictions and errors of a fitted model, see :mod:`widemargin.loo`."""

from __future__ import annotations

from typing import Any

from widemargin._base.typing import FloatArray
from widemargin.fitted.base import LOOResult
from widemargin.fitted.record import record_of

__all__ = ["LOOResult", "decision_values", "error", "result"]


def decision_values(est: Any, method: str = "auto", *, verbose: int = 0) -> FloatArray:
    """Return the leave-one-out decision values of the training samples.

    Parameters
    ----------
    est : estimator
        Any fitted estimator with a method `loo_error` (reduced hulls and tubes use their
        equivalent C and epsilon), or a pipeline that ends in one (its transformers, fitted on all
        samples, are not refitted).
    method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
        "auto" selects "exact" for up to 5,000 samples, else "linear_response". For models without
        a solution path it selects "exact" for up to 500 samples, else "folds"; for Gaussian
        processes always "linear_response".
    verbose : int, default=0
        If positive, display a progress bar.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values in the form that `decision_function` returns (for regressors, `predict`),
        not multiplied by the label, in the order of the training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVC, loo
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = SVC(kernel="linear").fit(X, [0, 0, 1, 1])
    >>> loo.decision_values(model).round(3)
    array([-2.   , -0.333,  0.333,  2.   ])
    """
    return record_of(est).decision_values(method, verbose)


def error(est: Any, method: str = "auto", *, verbose: int = 0) -> float:
    """Return the leave-one-out error of a fitted model.

    Parameters
    ----------
    est : estimator
        As for :func:`decision_values`.
    method : str, default="auto"
        One of the methods of :mod:`widemargin.loo`; "auto" as for :func:`decision_values`.
    verbose : int, default=0
        If positive, display a progress bar.

    Returns
    -------
    float
        Error rate of a classifier, mean absolute error of a regressor; for OneClassSVM, the
        fraction of the samples that the model fitted without them flags as outliers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> round(loo.error(model), 4)
    0.0267
    """
    return record_of(est).result(method, verbose).error


def result(est: Any, method: str = "auto", *, verbose: int = 0) -> LOOResult:
    """Return the leave-one-out error, decision values and computational cost.

    Parameters
    ----------
    est : estimator
        As for :func:`decision_values`.
    method : str, default="auto"
        As for :func:`error`.
    verbose : int, default=0
        If positive, display a progress bar.

    Returns
    -------
    LOOResult
        The result is cached in the fitted model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(fit_intercept=False).fit(*load_iris(return_X_y=True))
    >>> loo.result(model, "xi_alpha").kind
    'bound'
    """
    return record_of(est).result(method, verbose)
