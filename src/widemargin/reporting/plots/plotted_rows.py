"""Samples to plot, and the plane of two features that they are plotted in."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import class_pairs, predicted_class
from widemargin._base.typing import BoolArray, FloatArray
from widemargin._base.validation import require
from widemargin.estimators._base.inspection import pair_values, votes_by_pairs
from widemargin.fitted.record import find_training_set, machine_of, record_of
from widemargin.reporting.strengths import strengths

BORDER = 0.08  # on each side, relative to the range of the samples


@dataclass(frozen=True, eq=False)
class PlottedRows:
    """Samples to plot.

    Attributes
    ----------
    est : estimator
        Fitted classifier, or a pipeline that ends in one.
    X : ndarray of shape (n, n_inputs)
        Samples before any step of a pipeline.
    y : ndarray of shape (n,)
        Labels of the samples.
    names : list of str
        Names of the features.
    seen : ndarray of bool or None
        Mask of the samples in the training data, or None if they are not training samples.
    frame : type or None
        Type of the data frame that held the samples, or None.
    """

    est: Any
    X: FloatArray
    y: Any
    names: list[str]
    seen: BoolArray | None
    frame: Any = None

    def strengths(self) -> FloatArray | None:
        """Return the embedding strengths of training samples; None if there are none."""
        if self.seen is None:
            return None
        size = strengths(machine_of(self.est), len(self.seen))
        return None if size is None else size[self.seen]

    def wrong(self) -> tuple[BoolArray, str]:
        """Return which samples are errors, and the name of this kind of error in the legend.

        Errors are leave-one-out errors for training samples, prediction errors for others.
        """
        if self.seen is None:
            return np.asarray(ask(self, "predict", self.X) != self.y), "wrong"
        errors = record_of(self.est).result().errors
        return np.asarray(errors, dtype=bool)[self.seen], "wrong when left out"


def _steps_before(est: Any) -> Any:
    """Return the steps of a pipeline before its final estimator; None if there are none."""
    return est[:-1] if len(getattr(est, "steps", ())) > 1 else None


def check_classifier(est: Any, asked: str) -> Any:
    """Return the final estimator, or raise an error if it is not a fitted classifier."""
    machine = machine_of(est)
    check_is_fitted(machine)
    good = hasattr(machine, "classes_") and hasattr(machine, "decision_function")
    require(good, "est", machine, f"a fitted classifier of widemargin for plot.{asked}")
    fix = f'another one for plot.{asked}: with "precomputed" there are no inputs to draw'
    require(getattr(machine, "kernel", "") != "precomputed", "kernel", "precomputed", fix)
    return machine


def rows_shown(est: Any, X: Any, y: Any, asked: str) -> PlottedRows:
    """Return the given samples, or the training samples of the model if X is None."""
    check_classifier(est, asked)
    require((X is None) == (y is None), "y", y, "given together with X, or both left out")
    if X is None:
        data = find_training_set(est)  # also available from models without leave-one-out
        if data is None:
            data = record_of(est).require(f"plot.{asked} without X and y").data
        seen = data.given_weight > 0
        rows = _before_steps(est, _dense(data.X[data.member[seen]]), asked)
        return PlottedRows(est, rows, data.given_y[seen], _names(est, None, rows.shape[1]), seen)
    frame = type(X) if hasattr(X, "iloc") else None
    rows, labels = _dense(X), np.asarray(y)
    require(rows.ndim == 2, "the shape of X", rows.shape, "(n_samples, n_features)")
    require(len(rows) == len(labels), "len(y)", len(labels), f"{len(rows)}, one label a row of X")
    shown = PlottedRows(est, rows, labels, _names(est, X, rows.shape[1]), None, frame)
    trained = _if_trained_on(shown)
    if trained is None:
        return shown
    return PlottedRows(est, rows[trained], labels[trained], shown.names, trained, frame)


def _dense(X: Any) -> FloatArray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _before_steps(est: Any, rows: FloatArray, asked: str) -> FloatArray:
    """Invert the preceding steps of a pipeline for its training samples."""
    head = _steps_before(est)
    if head is None:
        return rows
    if not hasattr(head, "inverse_transform"):
        raise ValueError(
            f"plot.{asked} needs X and y for this pipeline: its machine has kept the rows as its "
            f"steps have made them, and {type(head[-1]).__name__} cannot be undone"
        )
    return _dense(head.inverse_transform(rows))


def _if_trained_on(shown: PlottedRows) -> BoolArray | None:
    """Return the mask of positive weights if these are the training samples, else None."""
    data = find_training_set(shown.est)
    if data is None or len(data.given_y) != len(shown.y):
        return None
    seen = data.given_weight > 0
    given = after_steps(shown, shown.X)[seen]
    kept = _dense(data.X[data.member[seen]])
    same = given.shape == kept.shape and np.array_equal(given.astype(data.X.dtype), kept)
    return seen if same and np.array_equal(data.given_y, shown.y) else None


def _names(est: Any, X: Any, n_inputs: int) -> list[str]:
    names = getattr(X, "columns", None)
    if names is None:
        names = getattr(est, "feature_names_in_", None)
    if names is None or len(names) != n_inputs:
        names = [f"input {j + 1}" for j in range(n_inputs)]
    return [str(name) for name in names]


# -- model evaluation ----------------------------------------------------------------------------


def after_steps(shown: PlottedRows, X: FloatArray) -> FloatArray:
    """Apply the steps of a pipeline that precede its final estimator."""
    head = _steps_before(shown.est)
    if head is None:
        return X
    framed = X if shown.frame is None else shown.frame(X, columns=shown.names)
    with _nameless():
        return _dense(head.transform(framed))


def ask(shown: PlottedRows, method: str, X: FloatArray) -> Any:
    """Call a method of the final estimator on samples."""
    rows = after_steps(shown, X)
    with _nameless():
        return getattr(machine_of(shown.est), method)(rows)


@contextmanager
def _nameless() -> Iterator[None]:
    """Suppress the warning that X has no feature names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


@dataclass(frozen=True, eq=False)
class FeaturePlane:
    """Grid of points in two features, with the other features at their mean over the samples.

    Attributes
    ----------
    features : (int, int)
        Indices of the two features.
    x, y : ndarray of shape (resolution,)
        Grid values along the axes.
    points : ndarray of shape (resolution ** 2, n_inputs)
        The grid points, in row-major order of the image.
    """

    features: tuple[int, int]
    x: FloatArray
    y: FloatArray
    points: FloatArray

    def shaped(self, values: FloatArray) -> FloatArray:
        """Reshape values at the points to the image; float32 keeps pages small."""
        return values.reshape(len(self.y), len(self.x)).astype(np.float32)


def plane_around(shown: PlottedRows, features: Any, resolution: int) -> FeaturePlane:
    """Return the grid of two features around the samples."""
    whole = isinstance(resolution, int | np.integer) and not isinstance(resolution, bool)
    require(whole and resolution > 1, "resolution", resolution, "an integer, 2 or more")
    first, second = _two_of(features, shown.X.shape[1])
    low, high = shown.X.min(axis=0), shown.X.max(axis=0)
    room = np.where(high > low, BORDER * (high - low), 0.5)
    x = np.linspace(low[first] - room[first], high[first] + room[first], resolution)
    y = np.linspace(low[second] - room[second], high[second] + room[second], resolution)
    points = np.tile(shown.X.mean(axis=0), (resolution**2, 1))
    across, up = np.meshgrid(x, y)
    points[:, first], points[:, second] = across.ravel(), up.ravel()
    return FeaturePlane((first, second), x, y, points)


def _two_of(features: Any, n_inputs: int) -> tuple[int, int]:
    if features is None:
        fix = "two inputs to draw: name them by features=(i, j), two columns of X"
        require(n_inputs == 2, "est", f"a model of {n_inputs} input(s)", fix)
        return 0, 1
    fix = f"two different columns of X, each from 0 to {n_inputs - 1}"
    listed = isinstance(features, tuple | list) and len(features) == 2
    require(listed, "features", features, fix)
    good = all(isinstance(j, int | np.integer) and 0 <= j < n_inputs for j in features)
    require(good and features[0] != features[1], "features", features, fix)
    return int(features[0]), int(features[1])


def leads(shown: PlottedRows, points: FloatArray, scores: FloatArray) -> FloatArray:
    """Return continuous functions, one per class, whose zero contour bounds the class's region.

    The margin of the scores has this property in one-vs-rest. Votes in one-vs-one are not
    continuous: there the function of the winner is its smallest pairwise decision value, and that
    of another class its pairwise decision value against the winner.
    """
    winner, classes = predicted_class(scores), range(scores.shape[1])
    if not votes_by_pairs(machine_of(shown.est)):
        best_other = [np.delete(scores, k, axis=1).max(axis=1) for k in classes]
        return scores - np.column_stack(best_other)
    rows = after_steps(shown, points)
    with _nameless():
        values = pair_values(machine_of(shown.est), rows)
    duel = np.full((len(scores), len(classes), len(classes)), np.inf)
    for pair, (i, j) in enumerate(class_pairs(len(classes))):
        duel[:, i, j], duel[:, j, i] = values[:, pair], -values[:, pair]
    # The winner of the vote may lose a pair: clip, so that it is the only class above 0.
    tiny = np.finfo(np.float32).tiny
    against = np.take_along_axis(duel, winner[:, None, None], axis=2)[:, :, 0]
    lead = np.minimum(against, -tiny)
    lead[np.arange(len(winner)), winner] = np.maximum(
        duel.min(axis=2)[np.arange(len(winner)), winner], tiny
    )
    return lead
