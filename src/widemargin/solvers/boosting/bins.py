"""Bin the features for the search of decision stumps, and sort them on demand.

A feature with at most 255 distinct values has one bin per value, other features have bins between
quantiles of a subsample. Codes take one byte per entry of X, whether X is dense or sparse. The
histogram search needs only the bins; the exact search also sorts features, but only those that may
contain the best cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.threads import for_each
from widemargin._base.typing import BoolArray, FloatArray, Matrix, RealArray
from widemargin.solvers.boosting.loops import (
    BINS,
    all_known,
    mark_last_of_equals,
    sort_column,
    write_codes,
)

EDGES = BINS - 1  # edges per feature, the last one infinite: 255 bins
SAMPLE = 16_384  # samples that determine the quantiles, about 64 per bin
BLOCK = 8  # features per task of a thread


@dataclass(frozen=True)
class Ordered:
    """Sorted feature.

    Attributes
    ----------
    order : ndarray of uint32 of shape (n_rows,)
        Indices of the samples, smallest value first.
    last : ndarray of bool of shape (n_rows,)
        Whether a cut can follow this position, because the next value differs.
    starts : ndarray of shape (BINS + 1,)
        First position of each bin.
    mixed : ndarray of bool of shape (BINS,)
        Whether the bin has more than one value.
    """

    order: Any
    last: BoolArray
    starts: Any
    mixed: BoolArray


class BinnedColumns:
    """Binned features of the training samples; parameters as for `stump_learners`.

    Attributes
    ----------
    codes : ndarray of uint8 of shape (n_features, n_rows)
        Bin of each entry.
    edges : ndarray of shape (n_features, 255)
        Edges between bins: a value above an edge belongs to a later bin. Padded with infinity.
    single : ndarray of bool of shape (n_features,)
        Whether every bin of the feature has a single value.
    """

    def __init__(self, X: Matrix, seed: int, threads: int) -> None:
        self.X = sp.csc_array(X) if sp.issparse(X) else X
        self.shape: tuple[int, int] = X.shape
        n, d = self.shape
        self.codes = np.empty((d, n), dtype=np.uint8)
        self.edges = np.full((d, EDGES), np.inf)
        self.single = np.zeros(d, dtype=bool)
        self._columns: dict[int, RealArray] = {}
        self._ordered: dict[int, Ordered] = {}
        sample = np.arange(n)
        if n > SAMPLE:
            sample = np.sort(np.random.default_rng(seed).choice(n, SAMPLE, replace=False))
        for_each(partial(self._code, sample), range(0, d, BLOCK), threads)

    def column(self, feature: int) -> RealArray:
        """Return a feature as a contiguous array (cached)."""
        if feature not in self._columns:
            part = self.X[:, [feature]].toarray() if sp.issparse(self.X) else self.X[:, feature]
            self._columns[feature] = np.ascontiguousarray(part).ravel()
        return self._columns[feature]

    def ordered(self, feature: int) -> Ordered:
        """Return a sorted feature (cached)."""
        if feature not in self._ordered:
            column, n = self.column(feature), self.shape[0]
            order, last = np.empty(n, dtype=np.uint32), np.empty(n, dtype=bool)
            sort_column(column, order)
            mark_last_of_equals(column, order, last)
            counts = np.bincount(self.codes[feature], minlength=BINS)
            starts = np.concatenate([[0], np.cumsum(counts)])
            cuts = np.concatenate([[0], np.cumsum(last)])[starts]
            self._ordered[feature] = Ordered(order, last, starts, np.diff(cuts) > 1)
        return self._ordered[feature]

    # ------------------------------------------------------------------------------- binning

    def _code(self, sample: Any, first: int) -> None:
        """Compute the edges of a block of features, and code their entries."""
        stop = min(first + BLOCK, self.shape[1])
        if sp.issparse(self.X):
            block, offset = self.X[:, first:stop].toarray(order="C"), 0
        else:
            block, offset = self.X, first
        columns = np.ascontiguousarray(block[:, offset : offset + stop - first][sample].T)
        found = [_edges(_sorted(column)) for column in columns]
        for k, (edges, _) in enumerate(found):
            self.edges[first + k, : len(edges)] = edges
        write_codes(block, offset, self.edges[first:stop], self.codes[first:stop])
        for k, (_, values) in enumerate(found):
            if values is not None:
                self._check_values(first + k, block, offset + k, values)

    def _check_values(self, feature: int, block: RealArray, at: int, values: RealArray) -> None:
        """Recompute the edges from all samples if the subsample has missed a value."""
        if not all_known(block[:, at], self.codes[feature], values):
            edges, known = _edges(_sorted(np.ascontiguousarray(block[:, at])))
            self.edges[feature] = np.inf
            self.edges[feature, : len(edges)] = edges
            write_codes(block, at, self.edges[[feature]], self.codes[feature : feature + 1])
            self.single[feature] = known is not None
            return
        self.single[feature] = True


def _sorted(column: RealArray) -> RealArray:
    order = np.empty(len(column), dtype=np.uint32)
    sort_column(column, order)
    return column[order]


def _edges(values: RealArray) -> tuple[FloatArray, RealArray | None]:
    """Return edges for sorted values, and the distinct values if there are at most 255."""
    cuts = np.flatnonzero(values[1:] != values[:-1])
    if len(cuts) < EDGES:
        return middle(values[cuts], values[cuts + 1]), values[np.append(cuts, len(values) - 1)]
    quantiles = np.arange(1, EDGES) * len(values) // EDGES - 1
    places = np.unique(np.searchsorted(cuts, quantiles))
    cuts = cuts[places[places < len(cuts)]]
    return middle(values[cuts], values[cuts + 1]), None


def middle(below: Any, above: Any) -> FloatArray:
    """Return the midpoint of two numbers, at least the first and less than the second."""
    low, high = np.asarray(below, dtype=np.float64), np.asarray(above, dtype=np.float64)
    # Halved before adding, since the sum may overflow; neighbouring floats have no midpoint.
    between = 0.5 * low + 0.5 * high
    return np.where((between >= low) & (between < high), between, low)
