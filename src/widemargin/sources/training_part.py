"""Conversion of the raw rows of a part into training samples of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray, RealArray
from widemargin.sources.reading.rows import Rows
from widemargin.sources.reading.strips import AnyArray

WIDE = 4_096  # values per inner loop of a NumPy ufunc

_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class View:
    """Conversion of raw rows into training samples: selection, labels, weights and scaling.

    Attributes
    ----------
    positive, negative : label or None
        The classes that become +1 and -1. Both are None in regression: the target is kept. Only
        `negative` is None in one-vs-rest: all other classes become -1.
    everything : bool
        Whether all rows belong to the two classes, so that none has to be skipped.
    cost_factors : tuple of float
        Factors of the weights of the two classes.
    centre, scale : ndarray of shape (n_features,) or None
        Features become (x - centre) / scale. Both have the type of the data, so that the
        reported values are exactly those used.
    constant : float or None
        Value of a feature that is appended to those of the data, if any.
    """

    positive: Any
    negative: Any
    everything: bool
    cost_factors: tuple[float, float]
    centre: RealArray | None
    scale: RealArray | None
    constant: float | None = None

    def kept(self, target: AnyArray) -> BoolArray | None:
        """Return the mask of the rows that belong to the two classes, or None if all do."""
        if self.everything:
            return None
        return np.asarray((target == self.positive) | (target == self.negative), dtype=np.bool_)

    def sides(self, target: AnyArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return y and weight of selected rows."""
        if weight is None:
            weight = np.ones(len(target))
        if self.positive is None:
            return target.astype(np.float64), weight
        is_positive = np.asarray(target == self.positive)
        if self.cost_factors != (1.0, 1.0):
            weight = weight * np.where(is_positive, *self.cost_factors)
        y = is_positive * 2.0
        y -= 1.0
        return y, weight

    def features(self, X: RealArray, buffer: RealArray) -> RealArray:
        """Centre and scale features into the buffer; return X itself if nothing applies."""
        block = buffer[: len(X)]
        if self.centre is not None:
            X = _for_each_row(np.subtract, X, self.centre, block)
        if self.scale is not None:
            X = _for_each_row(np.divide, X, self.scale, block)
        if self.constant is not None:
            X = np.column_stack([X, np.full(len(X), self.constant, dtype=X.dtype)])
        return X


def _for_each_row(function: Any, X: RealArray, unit: RealArray, out: RealArray) -> RealArray:
    """Apply a ufunc to each row and `unit`, several rows at a time: short inner loops are slow."""
    n_rows, width = X.shape
    together = max(1, WIDE // max(1, width))
    whole = n_rows - n_rows % together
    wide = (-1, together * width)
    tiled = np.tile(unit, together)
    function(X[:whole].reshape(wide), tiled, out=out[:whole].reshape(wide))
    function(X[whole:], unit, out=out[whole:])
    return out


class TrainingPart:
    """Training samples of one part of a data set (implements the protocol `Part`).

    Rows of other classes are skipped, and sample indices do not count them.

    Parameters
    ----------
    rows : Rows
        The raw rows.
    view : View
        Conversion of raw rows into training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> source = sources.from_arrays(np.eye(3), np.array([0, 1, 0])).binary(1, 0)
    >>> source.run(lambda part: part.take(np.array([1]))[1].tolist(), [()])
    [[1.0]]
    """

    def __init__(self, rows: Rows, view: View) -> None:
        self.rows, self.view = rows, view

    def blocks(self) -> Iterator[tuple[int, RealArray, FloatArray, FloatArray]]:
        """Read the samples in order, a few megabytes at a time.

        Yields
        ------
        tuple
            Index of the first sample, X, y and weight; the next block may overwrite X.
        """
        first = 0
        buffer: RealArray = np.empty((0, 0))
        for _, X, target, weight in self.rows.blocks():
            if len(buffer) < len(X):
                buffer = np.empty_like(X)
            keep = self.view.kept(target)
            if keep is not None and not keep.all():
                X, target = X[keep], target[keep]
                weight = None if weight is None else weight[keep]
            if len(X):
                yield (first, self.view.features(X, buffer), *self.view.sides(target, weight))
            first += len(X)

    def take(self, rows: IntArray) -> tuple[RealArray, FloatArray, FloatArray]:
        """Return X, y and weight of some samples.

        Parameters
        ----------
        rows : ndarray of int
            Sorted indices of the samples in this part.

        Returns
        -------
        tuple of ndarray
            X, y and weight.
        """
        X, target, weight = self.rows.take(self._numbers(np.asarray(rows, dtype=np.intp)))
        y, weight = self.view.sides(target, weight)
        return self.view.features(X, X), y, weight

    def _numbers(self, rows: IntArray) -> IntArray:
        """Map sample indices to indices of raw rows."""
        if self.view.everything or len(rows) == 0:
            return rows
        found, n_kept, n_raw = [], 0, 0
        for target in self.rows.targets():
            keep = self.view.kept(target)
            assert keep is not None
            raw = np.flatnonzero(keep)
            begin, end = np.searchsorted(rows, [n_kept, n_kept + len(raw)])
            found.append(raw[rows[begin:end] - n_kept] + n_raw)
            n_kept, n_raw = n_kept + len(raw), n_raw + len(target)
        return np.concatenate(found)


def on_training_part(
    rows: Rows, view: View, task: Callable[..., _Found], *arguments: Any
) -> _Found:
    """Run a solver's task on the training samples of a part."""
    return task(TrainingPart(rows, view), *arguments)
