r"""Combine the probabilities of single machines into those of several classes.

Machines of one class against the rest: their probabilities are normalised. Machines of pairs of
classes: pairwise probabilities are coupled by the second method of Wu, Lin and Weng. In both cases
the result is moved by the least amount that makes the predicted class the likeliest one.

References
----------
T.-F. Wu, C.-J. Lin, R. Weng, Probability estimates for multi-class classification by pairwise
coupling, JMLR 5, 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.multiclass import predicted_class
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import require
from widemargin.fitted.calibration import LIMIT, without_contradiction

STRICT = 1e-9  # relative distance of the predicted class from the next one after a projection
BLOCK_NUMBERS = 2**21  # entries of the matrices that coupling holds at a time


def against_rest(each: FloatArray, values: FloatArray) -> FloatArray:
    """Return the probabilities of the classes from those of machines of one class against the rest.

    Parameters
    ----------
    each : ndarray of shape (n_samples, n_machines)
        Probability that each machine gives to its class (one machine: the second of two).
    values : ndarray of the same shape
        The decision values that predict.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows that sum to 1; the largest entry is that of the predicted class.
    """
    if each.shape[1] == 1:
        second = without_contradiction(each[:, 0], values[:, 0])
        return np.column_stack([1.0 - second, second])
    shares = each / each.sum(axis=1, keepdims=True)
    return project_on_prediction(shares, predicted_class(values))


def couple(pairwise: Any, pairs: list[tuple[int, int]], n_classes: int) -> FloatArray:
    """Turn the probabilities of pairs of classes into probabilities of the classes.

    With r_ij the probability of class i among i and j, p minimises
    ``sum_{i,j} (r_ji p_i - r_ij p_j)^2`` over the p that sum to 1 (Wu, Lin and Weng, 2004,
    second method). The minimum is not negative, and is p = r for two classes.

    Parameters
    ----------
    pairwise : array-like of shape (n_samples, n_pairs)
        Probability of the first class of each pair.
    pairs : list of (int, int)
        The two classes of each column; every pair of classes once, in either order.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Positive rows that sum to 1.

    Examples
    --------
    >>> from widemargin.fitted.coupling import couple
    >>> couple([[0.9, 0.8, 0.5]], [(0, 1), (0, 2), (1, 2)], 3).round(3)
    array([[0.735, 0.102, 0.163]])
    """
    r = np.clip(np.asarray(pairwise, dtype=np.float64), LIMIT, 1 - LIMIT)
    known = {frozenset(pair) for pair in pairs}
    complete = len(pairs) == len(known) == n_classes * (n_classes - 1) // 2
    complete = complete and all(len(k) == 2 and max(k) < n_classes for k in known)
    require(complete, "pairs", pairs, f"every pair of the {n_classes} classes, once")
    fits = r.ndim == 2 and r.shape[1] == len(pairs)
    require(fits, "the shape of pairwise", r.shape, f"(n_samples, {len(pairs)})")
    p = np.empty((len(r), n_classes))
    if n_classes == 2:
        p[:, pairs[0][0]], p[:, pairs[0][1]] = r[:, 0], 1 - r[:, 0]
        return p
    size = max(1, BLOCK_NUMBERS // n_classes**2)
    for start in range(0, len(r), size):
        p[start : start + size] = _couple_block(r[start : start + size], pairs, n_classes)
    return p


def _couple_block(r: FloatArray, pairs: list[tuple[int, int]], n_classes: int) -> FloatArray:
    """Solve Q p = constant, Q_ii = sum_j r_ji^2, Q_ij = -r_ij r_ji, for some rows.

    Q p is a multiple of the vector of ones e, and so is (Q + e e') p. The second matrix is
    positive definite, so p is its solution for e, scaled to sum to 1.
    """
    matrix = np.ones((len(r), n_classes, n_classes))
    for k, (i, j) in enumerate(pairs):
        r_ij = r[:, k]
        r_ji = 1 - r_ij
        matrix[:, i, i] += r_ji**2
        matrix[:, j, j] += r_ij**2
        matrix[:, i, j] -= r_ij * r_ji
        matrix[:, j, i] -= r_ij * r_ji
    p = np.linalg.solve(matrix, np.ones((len(r), n_classes, 1)))[:, :, 0]
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LIMIT)  # rounding may leave it below 0
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def project_on_prediction(P: Any, predicted: IntArray) -> FloatArray:
    """Return the nearest probabilities whose largest entry is the predicted class.

    The projection levels the predicted class with those above it, at the mean of as many of the
    largest as makes that mean largest; the levelled ones then give a relative 1e-9 to the
    predicted class, which makes it the only largest one.

    Parameters
    ----------
    P : array-like of shape (n_samples, n_classes)
        Probabilities, rows summing to 1.
    predicted : ndarray of int, shape (n_samples,)
        The predicted class of each row.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows that sum to 1 and have their only largest entry at the predicted class. Rows of P
        that have it there already are returned as they are.

    Examples
    --------
    >>> from widemargin.fitted.coupling import project_on_prediction
    >>> project_on_prediction([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [0, 1]).round(3)
    array([[0.5, 0.3, 0.2],
           [0.4, 0.4, 0.2]])
    """
    result = np.array(P, dtype=np.float64)
    chosen = np.asarray(predicted, dtype=np.intp)
    fits = result.ndim == 2 and chosen.shape == result.shape[:1]
    require(fits, "the shape of predicted", chosen.shape, f"(n_samples,) with P {result.shape}")
    own = np.take_along_axis(result, chosen[:, None], axis=1)
    rivals = result.copy()
    np.put_along_axis(rivals, chosen[:, None], -1.0, axis=1)
    wrong = np.flatnonzero(rivals.max(axis=1) >= own[:, 0])
    if len(wrong) == 0:
        return result
    # The mean of the predicted class and its m largest rivals rises as long as the next rival is
    # above it: its largest value over m is the level of the projection.
    rivals = np.sort(rivals[wrong], axis=1)[:, :0:-1]
    sums = np.cumsum(np.hstack([own[wrong], rivals]), axis=1)
    level = (sums / np.arange(1, sums.shape[1] + 1)).max(axis=1, keepdims=True)
    lowered = np.minimum(result[wrong], level * (1 - STRICT))
    np.put_along_axis(lowered, chosen[wrong, None], 0.0, axis=1)
    # What the others no longer have is the predicted class's: at least the level.
    rest = result[wrong].sum(axis=1, keepdims=True) - lowered.sum(axis=1, keepdims=True)
    np.put_along_axis(lowered, chosen[wrong, None], rest, axis=1)
    result[wrong] = lowered
    return result
