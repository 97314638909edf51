"""Leave-one-out: what a fitted model would say of each of its rows had it not seen it.

``loo.result(model)`` needs no data and no retraining: the model keeps what it was trained on.

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
==================  ========  ====================================================================

What is left out: one row of weight w loses min(1, w) of its weight; gamma="scale" and balanced
class weights stay as they were on all rows. Several classes: the machines of the pairs that hold
the row's class are those without the row, the others as fitted. NuSVC and NuSVR: at the C (and
epsilon) that the fit found. Ties count as errors. Where the threshold is not unique, it is the
middle of its interval, in every left-out problem too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from widemargin._typing import BoolArray, FloatArray
from widemargin._validation import require
from widemargin.assess._left_out import TIE, LeftOutValues, bounded_errors, machine_values
from widemargin.assess.record import Record, Training, record_of
from widemargin.problems.one_vs_one import combine

__all__ = ["LOOResult", "decision_values", "error", "result"]

EXACT_ROWS = 5_000
WITH_VALUES = ("exact", "linear_response", "span")
METHODS = (*WITH_VALUES, "jaakkola_haussler", "support_vectors", "xi_alpha")


@dataclass(frozen=True, eq=False)
class LOOResult:
    """Leave-one-out of a fitted model.

    Attributes
    ----------
    method : str
        How it was computed.
    kind : {"exact", "estimate", "bound"}
        Whether `error` is what retraining would give, near it, or not below it.
    error : float
        Error rate of a classifier or mean absolute error of a regressor, rows counted by weight.
    errors : ndarray of shape (n_samples,)
        For each training row, whether it is misclassified (or its absolute error).
    values : ndarray or None
        Left-out decision values as `decision_function` (or `predict` of a regressor) returns
        them, in the order of the training rows; None for methods that only bound the error.
    cost : dict
        ``seconds``; for the exact method also ``events``, the rows that changed their state on
        all paths, and ``retrained``, the paths that were replaced by retraining.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> print(loo.result(model))
    leave-one-out error 0.0267 (exact)
    """

    method: str
    kind: str
    error: float
    errors: BoolArray | FloatArray = field(repr=False)
    values: FloatArray | None = field(repr=False)
    cost: dict[str, float]

    def __str__(self) -> str:
        how = self.kind if self.method == "exact" else f"{self.kind} by {self.method}"
        return f"leave-one-out error {self.error:.4f} ({how})"


def decision_values(est: Any, method: str = "auto") -> FloatArray:
    """Return the left-out decision value of each training row.

    Parameters
    ----------
    est : estimator
        A fitted SVC, NuSVC, SVR, NuSVR, LinearSVC, ReducedHullSVC or TubeSVR (the last two at
        their equivalent C and epsilon), or a pipeline that ends in one (its
        transformers, fitted on all rows, stay as they are).
    method : {"auto", "exact", "linear_response", "span"}, default="auto"
        "auto" is exact up to 5,000 rows, else the linear response.

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
    names = ", ".join(WITH_VALUES)
    fix = f"one of auto, {names} (the others only bound the error)"
    require(method in ("auto", *WITH_VALUES), "method", method, fix)
    values = result(est, method).values
    assert values is not None
    return values


def error(est: Any, method: str = "auto") -> float:
    """Return the leave-one-out error of a fitted model.

    Parameters
    ----------
    est : estimator
        As for :func:`decision_values`.
    method : str, default="auto"
        One of the methods of :mod:`widemargin.loo`; "auto" is exact up to 5,000 rows, else the
        linear response.

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
    return result(est, method).error


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
    require(method in ("auto", *METHODS), "method", method, f"one of auto, {', '.join(METHODS)}")
    record = record_of(est)
    if method == "auto":
        method = _affordable(record, "loo.result")
    question = f"loo.result with method {method!r}"
    return record.remember(question, lambda training: _result(record, training, method))


def _affordable(record: Record, asked: str) -> str:
    """Return what "auto" stands for; a compact model knows if it was asked before."""

    def choose(training: Training) -> str:
        return "exact" if len(training.data.weight) <= EXACT_ROWS else "linear_response"

    return record.remember(f"{asked} with method 'auto'", choose)


def left_out_values(record: Record, method: str = "auto") -> LeftOutValues:
    """Return the left-out values of every machine of a model, remembered by its record."""
    if method == "auto":
        method = _affordable(record, "loo.result")
    exact = method == "exact"
    question = f"left-out values, {'exact' if exact else 'first order'}"
    return record.remember(question, lambda training: machine_values(training, exact=exact))


def _result(record: Record, training: Training, method: str) -> LOOResult:
    started = time.perf_counter()
    weight = training.data.given_weight
    cost: dict[str, float] = {}
    values: FloatArray | None
    errors: BoolArray | FloatArray
    if method in WITH_VALUES:
        found = left_out_values(record, method)
        values, errors = judged(training, found.values.copy())
        cost = {"events": float(found.events), "retrained": float(found.retrained)}
        kind = "exact" if method == "exact" else "estimate"
    else:
        values, errors = None, bounded_errors(training, method)
        kind = "estimate" if method == "xi_alpha" and training.intercept else "bound"
    cost["seconds"] = time.perf_counter() - started
    mean = float(weight @ errors) / float(weight.sum())
    return LOOResult(method, kind, mean, errors, values, cost)


def judged(training: Training, left_out: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
    """Turn the values of the machines into decision values and errors of the rows."""
    data = training.data
    if not training.pairs:
        values = left_out[:, 0]
        return values, np.abs(data.given_y - values)
    classes = np.unique(data.y)
    codes = np.searchsorted(classes, data.given_y)
    codes = np.where(np.isin(data.given_y, classes), codes, -1)  # seen with zero weight only
    if len(classes) == 2:
        values = left_out[:, 0]
        return values, np.where(codes == 1, values <= TIE, values >= -TIE) | (codes < 0)
    for k, (positive, negative) in enumerate(training.pairs):
        tied = np.abs(left_out[:, k]) <= TIE
        lost = np.where(codes == positive, -0.0, np.where(codes == negative, TIE, 0.0))
        left_out[tied, k] = lost[tied]
    scores = combine(left_out, len(classes))
    own = np.take_along_axis(scores, np.maximum(codes, 0)[:, None], axis=1)
    rivals = np.count_nonzero(scores >= own, axis=1)  # the class itself is among them
    return scores, (rivals > 1) | (codes < 0)
