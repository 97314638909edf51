"""Compute leave-one-out predictions and errors of a fitted model without retraining it.

``loo.result(model)`` needs no data: the model keeps what it was trained on.

==================  ========  ====================================================================
method              kind      what it computes
==================  ========  ====================================================================
exact               exact     the value of retraining without the row, by following the solution
                              path, event by event
linear_response     estimate  the first step of that path, as if no other row changed its group:
                              Opper and Winther (2000), (8.26)-(8.32), corrected
span                estimate  the same number by the name of Vapnik and Chapelle: the coefficient
                              times the squared distance to the span of the free vectors
jaakkola_haussler   bound     y f <= alpha k(x, x), Smola et al. (2000), (1.84) with its signs set
                              right; without intercept only
xi_alpha            bound     Joachims: 2 alpha R^2 + xi >= 1; with an intercept an estimate
support_vectors     bound     every support vector counts as an error
folds               estimate  ten folds take turns (all copies of a row in one fold); only for
                              machines without a path
==================  ========  ====================================================================

Which methods hold, and which one "auto" is, depends on how a model leaves samples out; each kind of
:class:`widemargin.fitted.base.FittedModel` says so itself and refuses the others:

- `fitted.by_path`: optima of a quadratic program have a solution path, and all methods but "folds".
- `fitted.by_refit`: linear programs, ordinal machines and other norms are trained again, "exact"
  without each row that the machine depends on, from the fitted optimum; "support_vectors" counts
  these rows.
- `fitted.by_response`: the mean-field equations have their own linear response, Opper and Winther
  (2000), (8.41), one factorisation for all rows; the scale of the probabilities stays as it was.
- `fitted.by_reading`: data in parts are not kept, and no row is left out.

What is left out: one row of weight w loses min(1, w) of its weight; gamma="scale" and balanced
class weights stay as they were on all rows. Several classes: the machines of the pairs that hold
the row's class are those without the row, the others as fitted; machines of one class against the
rest are all without it. NuSVC and NuSVR: at the C (and epsilon) that the fit found, NuLPSVC at the
lam. Ties count as errors. Where the threshold is not unique, it is the middle of its interval, in
every left-out problem too.
"""

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
