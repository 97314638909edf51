r"""Choose the thresholds on a utility that separate the ranks.

Rank r (from 0) is predicted where :math:`\theta_{r-1} < f \le \theta_r`, so a value on a threshold
goes to the lower rank (Herbrich et al. 2000, (2.19)).

*Optimal.* The training error :math:`\sum_i s_i |g(x_i) - y_i|` counts, for every threshold, the
rows on its wrong side, hence

.. math::

    \sum_i s_i |g_i - y_i| = \sum_k E_k(\theta_k), \qquad
    E_k(\theta) = \sum_{i: f_i \le \theta} s_i [y_i > k] + \sum_{i: f_i > \theta} s_i [y_i \le k] ,

and :math:`E_{k+1} - E_k` falls as theta rises. Functions with that property have leftmost
minimisers in rising order, so each threshold can be chosen by itself and the monotone optimum is
still exact. From one threshold to the next only the rows of one rank change sides; a tree of
minima over the cuts follows them in O(log n) each: O(n log n) for any number of ranks.

*Margin.* (2.26)-(2.28) put a threshold midway between rows of neighbouring ranks at the margin.
As printed, (2.28) picks the farthest of them; all of them have the distance 1, and where their
midpoints differ here it is their mean that counts. Ranks without such a pair, which are common,
fall back on the closest pair in the right order, then on the optimal cut; the result is made
monotone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

BEYOND = 1.0  # a threshold that no row exceeds (or all do) lies this far from the outermost one


def optimal_thresholds(
    f: FloatArray, codes: IntArray, weight: FloatArray | None = None, n_ranks: int | None = None
) -> FloatArray:
    """Return the thresholds with the smallest weighted sum of abs(predicted rank - rank).

    Rows with equal utility are never parted, and a threshold lies midway between its neighbours.
    Of several optimal cuts the one with the smallest value is taken.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Utilities.
    codes : int array of shape (n,)
        Ranks, 0 .. n_ranks - 1.
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    n_ranks : int, optional
        Number of ranks, by default the largest code plus one.

    Returns
    -------
    ndarray of shape (n_ranks - 1,)
        Thresholds in rising order.

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
    """Return the predicted rank of each utility; a value on a threshold goes to the lower one."""
    return np.searchsorted(thresholds, f, side="left")


def rank_scores(above: FloatArray) -> FloatArray:
    r"""Return the distance of each utility to the nearer bound of every rank, negative outside.

    The score of rank r is :math:`\min(f - \theta_{r-1}, \theta_r - f)`, without a bound at either
    end. The first of the largest scores belongs to the rank r with
    :math:`\theta_{r-1} < f \le \theta_r`, Herbrich et al. (2000), (2.19): on a threshold both
    neighbours score 0.

    Parameters
    ----------
    above : ndarray of shape (n, n_ranks - 1)
        Utilities less the thresholds, which do not decrease.

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
    """Return thresholds that leave ``cuts`` of the sorted distinct values at or below them."""
    # Beside large values the next number is farther away than BEYOND.
    first = np.minimum(values[:1] - 2 * BEYOND, np.nextafter(values[:1], -np.inf))
    last = np.maximum(values[-1:] + 2 * BEYOND, np.nextafter(values[-1:], np.inf))
    outer = np.concatenate([first, values, last])
    below, above = outer[cuts], outer[cuts + 1]
    middle = below + 0.5 * (above - below)
    return np.where(middle < above, middle, below)  # between neighbours there may be no number


@jit
def _best_cuts(place: Any, weight: Any, starts: Any, n_cuts: Any, cuts: Any) -> None:
    """Write the leftmost cut with the fewest rows on the wrong side, for every threshold.

    A node of the tree holds the minimum over its leaves, less what is added to all of them on
    the way up; place is the number of distinct values below a row's, rows sorted by rank.
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
    # Leaf c is the cut with c values at or below it. Rows start above every threshold: one is on
    # the wrong side of the cuts that leave it below. A row that has been passed is on the wrong
    # side of the others, and the constant that both share is left out.
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
    """Add amount to the leaves from first on."""
    node = size + first
    least[node] += amount
    added[node] += amount
    while node > 1:
        if node % 2 == 0:  # the right sibling is in the range as a whole
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
        As for :func:`optimal_thresholds`, utilities in units of the margin.
    slack : float, default=1e-3
        A pair is at the margin if its difference is within slack of 1. Zero (for the squared
        hinge, which has no such pairs) goes straight to the closest pair in the right order.

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
    """Return the mean midpoint of pairs whose difference is within slack of 1, nan without any."""
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
    """Return the midpoint of the closest pair in the right order, nan without any."""
    place = np.searchsorted(lower, upper, side="left") - 1  # the last lower value below
    pairs = np.flatnonzero(place >= 0)
    if len(pairs) == 0:
        return np.nan
    distance = upper[pairs] - lower[place[pairs]]
    best = pairs[int(np.argmin(distance))]
    return float(lower[place[best]] + 0.5 * (upper[best] - lower[place[best]]))
