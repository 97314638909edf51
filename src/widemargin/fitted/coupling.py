r"""Couple the probabilities of binary problems into class probabilities.

One-vs-rest probabilities are normalised; pairwise (one-vs-one) probabilities are coupled by the
second method of Wu, Lin and Weng. In both cases the result is then projected on the set of
probabilities for which the predicted class is the most probable one.

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

STRICT = 1e-9  # relative distance of the predicted class from the next one after projection
BLOCK_NUMBERS = 2**21  # entries of the matrices that are in memory at a time


def against_rest(each: FloatArray, values: FloatArray) -> FloatArray:
    """Normalise one-vs-rest probabilities into class probabilities.

    Parameters
    ----------
    each : ndarray of shape (n_samples, n_machines)
        Probability of the positive class of each binary problem; a single column is that of the
        second of two classes.
    values : ndarray of the same shape
        Decision values, which determine the predicted class.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows sum to 1; the largest entry is that of the predicted class.
    """
    if each.shape[1] == 1:
        second = without_contradiction(each[:, 0], values[:, 0])
        return np.column_stack([1.0 - second, second])
    shares = each / each.sum(axis=1, keepdims=True)
    return project_on_prediction(shares, predicted_class(values))


def couple(pairwise: Any, pairs: list[tuple[int, int]], n_classes: int) -> FloatArray:
    """Couple pairwise probabilities into class probabilities.

    With r_ij the probability of class i among i and j, p minimises
    ``sum_{i,j} (r_ji p_i - r_ij p_j)^2`` over the p that sum to 1 (Wu, Lin and Weng, 2004,
    second method). The minimiser is nonnegative, and p = r for two classes.

    Parameters
    ----------
    pairwise : array-like of shape (n_samples, n_pairs)
        Probability of the first class of each pair.
    pairs : list of (int, int)
        The two classes of each column; every pair of classes occurs once, in either order.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Positive entries; rows sum to 1.

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
    """Solve Q p = constant with Q_ii = sum_j r_ji^2, Q_ij = -r_ij r_ji, for a block of samples.

    Q p is a multiple of the vector of ones e, and so is (Q + e e') p. The matrix Q + e e' is
    positive definite, so p solves (Q + e e') p = e up to scaling.
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
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LIMIT)  # may be negative by rounding
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def project_on_prediction(P: Any, predicted: IntArray) -> FloatArray:
    """Project probabilities on those whose largest entry is the predicted class.

    The projection sets the predicted class and its largest rivals to their common mean, with the
    number of rivals that maximises this mean. A relative 1e-9 of these rivals is then moved to the
    predicted class, which makes it the unique maximum.

    Parameters
    ----------
    P : array-like of shape (n_samples, n_classes)
        Probabilities; rows sum to 1.
    predicted : ndarray of int, shape (n_samples,)
        Code of the predicted class of each sample.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows sum to 1 and have their unique maximum at the predicted class. Rows of P that
        satisfy this already are unchanged.

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
    # The mean of the predicted class and its m largest rivals increases with m as long as the
    # next rival is above it, so its maximum over m is the level of the projection.
    rivals = np.sort(rivals[wrong], axis=1)[:, :0:-1]
    sums = np.cumsum(np.hstack([own[wrong], rivals]), axis=1)
    level = (sums / np.arange(1, sums.shape[1] + 1)).max(axis=1, keepdims=True)
    lowered = np.minimum(result[wrong], level * (1 - STRICT))
    np.put_along_axis(lowered, chosen[wrong, None], 0.0, axis=1)
    # The predicted class gets the remaining mass, which is at least the level.
    rest = result[wrong].sum(axis=1, keepdims=True) - lowered.sum(axis=1, keepdims=True)
    np.put_along_axis(lowered, chosen[wrong, None], rest, axis=1)
    result[wrong] = lowered
    return result
