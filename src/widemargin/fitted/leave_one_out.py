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
folds               estimate  ten folds take turns (all copies of a row in one fold); only for
                              machines without a path
==================  ========  ====================================================================

The machines that are linear programs (LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC) have no path.
There, "exact" trains again without each row that has a coefficient or no more margin than is asked
for, from the fitted optimum; without any other row the machine is the same. "support_vectors"
counts these rows. The bounds of Jaakkola and Haussler and of Joachims do not hold for them and are
refused, as is the linear response. OrdinalSVC has no path either, and all of its rows have a say in
its thresholds: each of them is left out, at the same cost of a pair. Fitted with qid it is refused.
MaxMarginClassifier has a path for norm=2 with a finite C; the others are trained again.
MeanFieldGPClassifier has the linear response only, of its own equations: Opper and Winther (2000),
(8.41), one factorisation for all rows; the scale of its probabilities stays as it was on all rows.

What is left out: one row of weight w loses min(1, w) of its weight; gamma="scale" and balanced
class weights stay as they were on all rows. Several classes: the machines of the pairs that hold
the row's class are those without the row, the others as fitted; machines of one class against the
rest are all without it. NuSVC and NuSVR: at the C (and epsilon) that the fit found, NuLPSVC at the
lam. Ties count as errors. Where the threshold is not unique, it is the middle of its interval, in
every left-out problem too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from widemargin._base.multiclass import combine
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin._base.validation import require
from widemargin.fitted.by_path import TIE, LeftOutValues, bounded_errors, machine_values
from widemargin.fitted.by_refit import FOLDS, folded_values, refitted_values, rows_that_matter
from widemargin.fitted.latent import LatentTraining
from widemargin.fitted.latent_scores import left_out_scores
from widemargin.fitted.record import (
    KeptTraining,
    PlaneTraining,
    Record,
    RefittedTraining,
    RefitTraining,
    Training,
    class_codes,
    record_of,
)
from widemargin.problems.ranks.scores import rank_scores

__all__ = ["LOOResult", "decision_values", "error", "result"]

EXACT_ROWS = 5_000
REFIT_ROWS = 500  # "exact" may train again once for each of them
WITH_VALUES = ("exact", "linear_response", "span", "folds")
METHODS = (*WITH_VALUES, "jaakkola_haussler", "support_vectors", "xi_alpha")
BY_REFITS = ("exact", "folds", "support_vectors")  # what machines without a path know


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
        all paths, and ``retrained``, the paths that were replaced by retraining. For machines
        without a path ``retrained`` is how often one was trained again, and ``unfinished`` how
        many of these fits did not reach ``tol``: if there is any, `kind` is "estimate".

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
        A fitted SVC, NuSVC, SVR, NuSVR, LinearSVC, ReducedHullSVC, TubeSVR (the last two at
        their equivalent C and epsilon), LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC, OrdinalSVC or
        MeanFieldGPClassifier or MaxMarginClassifier, or a pipeline that ends in one (its
        transformers, fitted on all rows, stay as they are).
    method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
        "auto" is exact up to 5,000 rows, else the linear response; for machines without a path it
        is exact up to 500 rows, else "folds"; for MeanFieldGPClassifier it is the linear response.

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
    return result_of(record_of(est), method)


def result_of(record: Record, method: str = "auto") -> LOOResult:
    """Return the leave-one-out of the model whose record this is."""
    if method == "auto":
        method = _affordable(record, "loo.result")
    find = partial(_result, record, method=method)
    return record.remember_kept(_question(method), find)


def _question(method: str) -> str:
    """Return what a record calls the result of a method."""
    return f"loo.result with method {method!r}"


def known_result(record: Record) -> LOOResult | None:
    """Return the best result that was asked for before, if there is one; computes nothing."""
    found = (record.answers.get(_question(method)) for method in METHODS)
    return next((result for result in found if result is not None), None)


def _affordable(record: Record, asked: str) -> str:
    """Return what "auto" stands for; a compact model knows if it was asked before."""

    def choose(training: KeptTraining) -> str:
        if isinstance(training, LatentTraining):
            return "linear_response"
        n = len(training.data.weight)
        if isinstance(training, RefittedTraining):
            return "exact" if n <= REFIT_ROWS else "folds"
        return "exact" if n <= EXACT_ROWS else "linear_response"

    return record.remember_kept(f"{asked} with method 'auto'", choose)


def left_out_values(record: Record, method: str = "auto") -> LeftOutValues:
    """Return the left-out values of every machine of a model, remembered by its record."""
    if method == "auto":
        method = _affordable(record, "loo.result")
    name = {"exact": "exact", "folds": "folds"}.get(method, "first order")

    def find(training: KeptTraining) -> LeftOutValues:
        if isinstance(training, Training):
            return machine_values(training, exact=method == "exact")
        if isinstance(training, LatentTraining):
            return LeftOutValues(left_out_scores(record, training), 0, 0)
        return refitted_values(training) if method == "exact" else folded_values(training)

    return record.remember_kept(f"left-out values, {name}", find)


def _result(record: Record, training: KeptTraining, method: str) -> LOOResult:
    started = time.perf_counter()
    _check_method(training, method)
    weight = training.data.given_weight
    cost: dict[str, float] = {}
    values: FloatArray | None
    errors: BoolArray | FloatArray
    if method in WITH_VALUES:
        found = left_out_values(record, method)
        values, errors = judged(training, found.values.copy())
        cost = {"events": float(found.events), "retrained": float(found.retrained)}
        unfinished = getattr(found, "unfinished", 0)
        if isinstance(training, RefittedTraining):
            cost["unfinished"] = float(unfinished)
        kind = "exact" if method == "exact" and not unfinished else "estimate"
    elif isinstance(training, RefittedTraining):
        values, errors, kind = None, rows_that_matter(training), "bound"
    else:
        assert isinstance(training, Training)  # others have been refused
        values, errors = None, bounded_errors(training, method)
        kind = "estimate" if method == "xi_alpha" and training.intercept else "bound"
    cost["seconds"] = time.perf_counter() - started
    mean = float(weight @ errors) / float(weight.sum())
    name = f"{FOLDS}-fold" if method == "folds" else method
    return LOOResult(name, kind, mean, errors, values, cost)


def _check_method(training: KeptTraining, method: str) -> None:
    """Refuse methods that do not hold for the machines of a model."""
    if isinstance(training, Training):
        fix = '"exact" or "linear_response": this machine need not be trained again'
        require(method != "folds", "method", method, fix)
    elif isinstance(training, LatentTraining):
        fix = (
            "auto or linear_response: these equations have no solution path, and to train again "
            "without each row would tell little more than Opper and Winther (2000), (8.41)"
        )
        require(method == "linear_response", "method", method, fix)
    elif method not in BY_REFITS:
        why = (
            "theorem 1 is not valid for the machines that are linear programs (Smola et al. 2000, "
            "below (2.9)), nor is what else rests on the optimum of a quadratic program"
        )
        if isinstance(training, PlaneTraining):
            why = (
                "the others rest on a norm of w that comes from an inner product, this one does not"
            )
        elif training.ranks is not None:
            why = "the others need one dual variable a row, and here each pair of rows has its own"
        require(False, "method", method, f"auto, {', '.join(BY_REFITS)}: {why}")


def judged(
    training: KeptTraining, left_out: FloatArray
) -> tuple[FloatArray, BoolArray | FloatArray]:
    """Turn the values of the machines into decision values and errors of the rows."""
    data = training.data
    if isinstance(training, Training) and not training.pairs:
        values = left_out[:, 0]
        return values, np.abs(data.given_y - values)
    classes, codes = class_codes(training)
    if len(classes) == 2:
        values = left_out[:, 0]
        return values, np.where(codes == 1, values <= TIE, values >= -TIE) | (codes < 0)
    scores, slip = left_out, TIE
    if isinstance(training, Training | PlaneTraining):
        scores, slip = _votes(training, left_out, codes), 0.0
    elif isinstance(training, RefitTraining) and training.ranks is not None:
        scores = rank_scores(left_out)
    own = np.take_along_axis(scores, np.maximum(codes, 0)[:, None], axis=1)
    rivals = np.count_nonzero(scores >= own - slip, axis=1)  # the class itself is among them
    return scores, (rivals > 1) | (codes < 0)


def _votes(training: Training | PlaneTraining, left_out: FloatArray, codes: IntArray) -> FloatArray:
    """Return the scores of the classes; a row loses the ties of its own class."""
    for k, (positive, negative) in enumerate(training.pairs):
        tied = np.abs(left_out[:, k]) <= TIE
        lost = np.where(codes == positive, -0.0, np.where(codes == negative, TIE, 0.0))
        left_out[tied, k] = lost[tied]
    return combine(left_out, len(np.unique(training.data.y)))
