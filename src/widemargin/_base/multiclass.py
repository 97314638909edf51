"""One-vs-one and one-vs-rest decompositions: binary problems and aggregated predictions."""

from __future__ import annotations

import functools
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray, IntArray

Sides: TypeAlias = tuple[int, int | None]
"""Positive and negative class of a binary problem; None: all other classes."""


def class_codes(y: Any) -> tuple[Any, IntArray]:
    """Return the sorted classes and the class code of each sample."""
    if y.dtype.kind in "iu" and len(y):
        first, last = int(y.min()), int(y.max())
        if last - first < 2 * len(y) and last < 2**62:  # counted in less time than sorted
            shifted = y.astype(np.intp) - first
            present = np.bincount(shifted) > 0
            classes = np.flatnonzero(present) + first
            return classes.astype(y.dtype), (np.cumsum(present) - 1)[shifted]
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes.astype(np.intp)


def check_classes(y: Any) -> tuple[Any, IntArray]:
    """Return the classes and the class code of each sample; raise if there is only one class."""
    classes, codes = class_codes(y)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes; got one class, {classes.tolist()[0]!r} "
            "(rows of zero sample_weight do not count)"
        )
    return classes, codes


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (positive class, negative class) in LIBSVM's order.

    With two classes the second one is positive, as in scikit-learn.
    """
    if n_classes == 2:
        return [(1, 0)]
    return list(combinations(range(n_classes), 2))


def rest_sides(n_classes: int) -> list[Sides]:
    """Return the sides of the one-vs-rest problems; two classes have one problem, their pair."""
    if n_classes == 2:
        return [(1, 0)]
    return [(k, None) for k in range(n_classes)]


def pair_rows(codes: IntArray, pair: Sides) -> tuple[IntArray, FloatArray]:
    """Return the indices of the samples of a binary problem, and their labels +1 and -1."""
    positive, negative = pair
    is_positive = codes == positive
    if negative is None:
        return np.arange(len(codes)), np.where(is_positive, 1.0, -1.0)
    rows = np.flatnonzero(is_positive | (codes == negative))
    return rows, np.where(is_positive[rows], 1.0, -1.0)


def pair_factors(factors: FloatArray, codes: IntArray, pair: Sides) -> FloatArray:
    """Return the cost factor of each sample in a binary problem, given those of the classes.

    In one-vs-rest only the positive class has its factor, as in LIBLINEAR.
    """
    positive, negative = pair
    if negative is None:
        return np.where(codes == positive, factors[positive], 1.0)
    return factors[codes]


def rest_labels(codes: IntArray, n_classes: int) -> list[FloatArray]:
    """Return the labels of the one-vs-rest problems.

    With two classes there is one problem, in which the second class is positive.
    """
    return [np.where(codes == k, 1.0, -1.0) for k in positive_classes(n_classes)]


def positive_classes(n_classes: int) -> range:
    """Return the positive class of each one-vs-rest problem."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


def combine(pair_values: FloatArray, n_classes: int) -> FloatArray:
    """Aggregate pairwise decision values into one score per class.

    The score is the number of votes of the class plus a fraction between -1/3 and 1/3 that grows
    with the sum of its decision values: votes decide, decision values break ties.
    """
    if n_classes == 2:
        return pair_values[:, 0]
    first, second = _members(n_classes)
    won = (pair_values > 0).astype(np.float64)
    votes = won @ first + (1.0 - won) @ second
    margins = pair_values @ (first - second)
    margins /= 3.0 * (np.abs(margins) + 1.0)
    return np.asarray(votes + margins)


@functools.lru_cache(maxsize=16)
def _members(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return two matrices of zeros and ones: the first and the second class of each pair."""
    pairs = np.array(class_pairs(n_classes))
    classes = np.arange(n_classes)
    first, second = ((pairs[:, side, None] == classes).astype(np.float64) for side in range(2))
    return first, second


@functools.lru_cache(maxsize=16)
def pair_places(n_classes: int) -> tuple[IntArray, IntArray]:
    """Return where the two parts of each pair's decision value are among sums by class.

    The sums over the support vectors of class c with row r of LIBSVM's coefficients are at
    c (n_classes - 1) + r. Pair (i, j), i < j, uses row j - 1 of class i and row i of class j.
    """
    i, j = np.array(class_pairs(n_classes)).T
    low, high = np.minimum(i, j), np.maximum(i, j)
    return low * (n_classes - 1) + high - 1, high * (n_classes - 1) + low


def predicted_class(scores: FloatArray) -> IntArray:
    """Return the code of the class with the highest score, or of the sign for two classes."""
    if scores.ndim == 1:
        return (scores > 0).astype(np.intp)
    return scores.argmax(axis=1)
