r"""Thresholds on a utility that separate the ranks: optimal for the training error, or by margin.

Rank r (from 0) is predicted where :math:`\theta_{r-1} < f \le \theta_r`, so that a utility equal to
a threshold gets the lower rank (Herbrich et al. 2000, (2.19)).

*Optimal.* With ranks :math:`y_i`, predicted ranks :math:`g_i = g(x_i)` and sample weights
:math:`s_i`, the training error :math:`\sum_i s_i |g(x_i) - y_i|` counts, for every threshold, the
samples on its wrong side, hence

.. math::

    \sum_i s_i |g_i - y_i| = \sum_k E_k(\theta_k), \qquad
    E_k(\theta) = \sum_{i: f_i \le \theta} s_i [y_i > k] + \sum_{i: f_i > \theta} s_i [y_i \le k] ,

and :math:`E_{k+1} - E_k` decreases in theta. Functions with that property have increasing leftmost
minimisers, so that each threshold can be chosen separately and the monotone optimum is still exact.
From one threshold to the next only the samples of one rank change sides; a tree of minima over the
cuts is updated in O(log n) per sample: O(n log n) for any number of ranks.

*Margin.* (2.26)-(2.28) set a threshold midway between samples of neighbouring ranks at the margin.
As printed, (2.28) chooses the farthest of these pairs; all of them have distance 1, and where their
midpoints differ, their mean is used here. For ranks without such a pair, which are common, the
fallback is the closest pair in the right order, then the optimal cut; isotonic regression makes the
result monotone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

BEYOND = 1.0  # distance from the outermost utility of a threshold above or below all samples


def optimal_thresholds(
    f: FloatArray, codes: IntArray, weight: FloatArray | None = None, n_ranks: int | None = None
) -> FloatArray:
    """Return the thresholds that minimise the weighted sum of abs(predicted rank - rank).

    Samples with equal utility are never separated; a threshold is midway between its neighbours.
    If several cuts are optimal, the leftmost one is returned.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Utilities.
    codes : int array of shape (n,)
        Ranks, 0 .. n_ranks - 1.
    weight : ndarray of shape (n,), optional
        Sample weights.
    n_ranks : int, optional
        Number of ranks, by default the largest code plus one.

    Returns
    -------
    ndarray of shape (n_ranks - 1,)
        Thresholds in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.ranks.thresholds import optimal_thresholds, rank_of
    >>> f = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> theta = optimal_thresholds(f, np.array([0, 0, 1, 2, 2]))
    >>> theta, rank_of(f, theta)
    (array([1.5, 2.5]), array([0, 0, 1, 2, 2]))
    """
    n_ranks = int(codes.max()) + 1 if n_ranks is None else n_ranks
    weight = np.ones(len(f)) if weight is None else weight
    values, place = np.unique(f, return_inverse=True)
    by_rank = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[by_rank], np.arange(n_ranks + 1))
    cuts = np.empty(n_ranks - 1, np.int64)
    _best_cuts(place[by_rank], weight[by_rank], starts, len(values) + 1, cuts)
    return between(values, cuts)


def rank_of(f: FloatArray, thresholds: FloatArray) -> IntArray:
    """Return the predicted rank of each utility; the lower rank if it equals a threshold."""
    return np.searchsorted(thresholds, f, side="left")


def rank_scores(above: FloatArray) -> FloatArray:
    r"""Return one score per rank: the signed distance of the utility to the rank's interval.

    The score of rank r is :math:`\min(f - \theta_{r-1}, \theta_r - f)`, positive inside the
    interval; the first and the last rank have only one threshold. The first of the largest scores
    belongs to the rank r with :math:`\theta_{r-1} < f \le \theta_r`, Herbrich et al. (2000),
    (2.19): on a threshold both neighbours have score 0.

    Parameters
    ----------
    above : ndarray of shape (n, n_ranks - 1)
        Utilities minus the thresholds, which do not decrease.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.ranks.thresholds import rank_scores
    >>> rank_scores(np.array([[0.5, -1.0], [1.5, 0.25]]))
    array([[-0.5 ,  0.5 , -1.  ],
           [-1.5 , -0.25,  0.25]])
    """
    scores = np.full((above.shape[0], above.shape[1] + 1), np.inf)
    scores[:, 1:] = above
    np.minimum(scores[:, :-1], -above, out=scores[:, :-1])
    return scores


def between(values: FloatArray, cuts: IntArray) -> FloatArray:
    """Return thresholds with ``cuts`` of the sorted distinct values at or below them."""
    # For large values the spacing of floating-point numbers exceeds BEYOND.
    first = np.minimum(values[:1] - 2 * BEYOND, np.nextafter(values[:1], -np.inf))
    last = np.maximum(values[-1:] + 2 * BEYOND, np.nextafter(values[-1:], np.inf))
    outer = np.concatenate([first, values, last])
    below, above = outer[cuts], outer[cuts + 1]
    middle = below + 0.5 * (above - below)
    return np.where(middle < above, middle, below)  # adjacent floats have no number in between


@jit
def _best_cuts(place: Any, weight: Any, starts: Any, n_cuts: Any, cuts: Any) -> None:
    """Write for every threshold the leftmost cut with the smallest weight on the wrong side.

    A segment tree over the cuts: a node holds the minimum over its leaves, without the amounts
    added at its ancestors. place is the number of distinct values below that of a sample; samples
    are sorted by rank.
    """
    size = 1
    while size < n_cuts:
        size *= 2
    least = np.zeros(2 * size)
    added = np.zeros(2 * size)
    for leaf in range(n_cuts, size):
        least[size + leaf] = np.inf
    for node in range(size - 1, 0, -1):
        least[node] = min(least[2 * node], least[2 * node + 1])
    # Leaf c is the cut with c values at or below it. Initially every sample belongs above the
    # threshold, and is an error for the cuts with the sample below. Once its rank has been passed
    # it is an error for the other cuts: up to a constant, twice its weight is subtracted.
    for k in range(len(place)):
        _raise_from(least, added, size, place[k] + 1, weight[k])
    for k in range(len(cuts)):
        for row in range(starts[k], starts[k + 1]):
            _raise_from(least, added, size, place[row] + 1, -2.0 * weight[row])
        node = 1
        while node < size:
            node = 2 * node if least[2 * node] <= least[2 * node + 1] else 2 * node + 1
        cuts[k] = node - size


@jit
def _raise_from(least: Any, added: Any, size: Any, first: Any, amount: Any) -> None:
    """Add amount to the leaves from `first` on."""
    node = size + first
    least[node] += amount
    added[node] += amount
    while node > 1:
        if node % 2 == 0:  # all leaves of the right sibling are in the range
            least[node + 1] += amount
            added[node + 1] += amount
        node //= 2
        least[node] = min(least[2 * node], least[2 * node + 1]) + added[node]


def margin_thresholds(
    f: FloatArray,
    codes: IntArray,
    weight: FloatArray | None = None,
    n_ranks: int | None = None,
    *,
    slack: float = 1e-3,
) -> FloatArray:
    """Return thresholds midway between neighbouring ranks at the margin, with fallbacks.

    Parameters
    ----------
    f, codes, weight, n_ranks
        As for :func:`optimal_thresholds`, with utilities in units of the margin.
    slack : float, default=1e-3
        A pair is at the margin if its difference is within slack of 1. With zero (for the squared
        hinge, which has no such pairs) the closest pair in the right order is used.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.ranks.thresholds import margin_thresholds
    >>> margin_thresholds(np.array([0.0, 0.5, 1.5, 3.0]), np.array([0, 0, 1, 1]))
    array([1.])
    """
    weight = np.ones(len(f)) if weight is None else weight
    n_ranks = int(codes.max()) + 1 if n_ranks is None else n_ranks
    rows = np.flatnonzero(weight > 0)
    rows = rows[np.lexsort((f[rows], codes[rows]))]
    starts = np.searchsorted(codes[rows], np.arange(n_ranks + 1))
    theta = np.empty(n_ranks - 1)
    for k in range(n_ranks - 1):
        lower, upper = (rows[starts[r] : starts[r + 1]] for r in (k, k + 1))
        theta[k] = _at_margin(f[lower], weight[lower], f[upper], weight[upper], slack)
        if np.isnan(theta[k]):
            theta[k] = _closest(f[lower], f[upper])
    if np.isnan(theta).any():
        theta = np.where(np.isnan(theta), optimal_thresholds(f, codes, weight, n_ranks), theta)
    return np.asarray(isotonic_regression(theta).x)


def _at_margin(
    lower: FloatArray, weight_lower: FloatArray, upper: FloatArray, weight: FloatArray, slack: float
) -> float:
    """Return the mean midpoint of the pairs whose difference is within slack of 1, or NaN."""
    first = np.searchsorted(lower, upper - (1.0 + slack), side="left")
    last = np.searchsorted(lower, upper - (1.0 - slack), side="right")
    mass = np.concatenate([[0.0], np.cumsum(weight_lower)])
    moment = np.concatenate([[0.0], np.cumsum(weight_lower * lower)])
    partners = mass[last] - mass[first]
    total = float(weight @ partners)
    if slack <= 0 or not total > 0:
        return np.nan
    sums = float(weight @ (upper * partners + moment[last] - moment[first]))
    return 0.5 * sums / total


def _closest(lower: FloatArray, upper: FloatArray) -> float:
    """Return the midpoint of the closest pair in the right order, or NaN if there is none."""
    place = np.searchsorted(lower, upper, side="left") - 1  # largest value of `lower` below
    pairs = np.flatnonzero(place >= 0)
    if len(pairs) == 0:
        return np.nan
    distance = upper[pairs] - lower[place[pairs]]
    best = pairs[int(np.argmin(distance))]
    return float(lower[place[best]] + 0.5 * (upper[best] - lower[place[best]]))
