r"""Preference risk: the fraction of pairs that a score puts in the wrong order.

Of two samples with different ranks, the one of higher rank should have the higher score. The
**preference risk** counts the pairs that violate this, Herbrich et al. (2000), (2.11)-(2.13):

.. math:: R_{\mathrm{pref}} = \frac{2}{m^2} \sum_{y_i > y_j} c(s_i - s_j), \qquad
          c(d) = 1 \text{ for } d < 0, \quad c(0) = \text{ties}, \quad 0 \text{ otherwise},

where

- :math:`y_i, s_i`: rank and score of sample i;
- m: number of samples, or the sum of their weights;
- ties: cost of a pair with equal scores, 1 or 1/2.

This is the probability that two samples drawn at random (with replacement) are put in the wrong
order. (The factor is 2 / m^2 for a sum in which each pair occurs once; it is misprinted in (2.16)
of the reference.) The *scaled* risk is the fraction of wrong pairs among the comparable ones, those
of different ranks and, if there are queries, of the same query. With sample weights a pair counts
:math:`w_i w_j`, as if samples were repeated.

The risk depends on the order of the scores only; sorting and sweeps take O(n log n).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length

from widemargin._base.jit import jit
from widemargin._base.messages import warn
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import require, require_bool
from widemargin.problems.ranks import declared_order, places


def preference_risk(
    y: Any,
    score: Any,
    qid: Any = None,
    *,
    scaled: bool = False,
    ties: float = 1.0,
    sample_weight: Any = None,
) -> float:
    """Compute the fraction of pairs of samples that a score puts in the wrong order.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True ranks: numbers, or an ordered pandas Categorical or polars Enum.
    score : array-like of shape (n_samples,)
        Predicted utilities or ranks, higher for higher ranks: numbers, or a categorical in the
        same order as y.
    qid : array-like of shape (n_samples,), default=None
        Query (or user, or race) of each sample; only samples of the same query are compared.
    scaled : bool, default=False
        If False, divide by the number of all pairs, :math:`m^2 / 2`. If True, divide by the number
        of comparable pairs, so that 0 is a perfect order and 1 a reversed one.
    ties : {1.0, 0.5}, default=1.0
        Cost of a pair of different ranks with equal scores. With 1, as in the definition, a
        constant score is as bad as a reversed one; with 1/2, one minus the scaled risk of two ranks
        is the area under the ROC curve.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A pair counts as the product of its weights.

    Returns
    -------
    float
        The risk; NaN, with a warning, if no two samples are comparable.

    Examples
    --------
    >>> from widemargin import metrics
    >>> metrics.preference_risk([1, 2, 3], [0.1, 0.3, 0.2], scaled=True)  # one pair of three
    0.3333333333333333
    >>> metrics.preference_risk([1, 2, 1, 2], [1.0, 2.0, 5.0, 9.0], qid=[7, 7, 8, 8])
    0.0
    """
    require_bool("scaled", scaled)
    require(ties in (0.5, 1.0), "ties", ties, "1.0 or 0.5")
    order = declared_order(y)
    ranks, values = _numbers("y", y, order), _numbers("score", score, order)
    weight = np.ones(len(ranks))
    if sample_weight is not None:
        weight = _numbers("sample_weight", sample_weight).astype(np.float64)
        good = bool(np.isfinite(weight).all() and (weight >= 0).all())
        require(good, "sample_weight", sample_weight, "finite and not negative")
    query = np.zeros(len(ranks)) if qid is None else _labels("qid", qid)
    check_consistent_length(ranks, values, weight, query)
    used = weight > 0
    comparable, wrong, tied = _count(
        _codes(ranks[used]), values[used], _codes(query[used]), weight[used]
    )
    if comparable == 0:
        within = "" if qid is None else " of the same query"
        warn(
            f"the preference risk is undefined, nan: no two rows{within} have different ranks",
            UndefinedMetricWarning,
        )
        return float("nan")
    wrong += ties * tied
    return float(wrong / comparable if scaled else 2.0 * wrong / weight.sum() ** 2)


# ---------------------------------------------------------------------------------- validation


def _labels(name: str, values: Any) -> Any:
    """Return values as a one-dimensional array; a single column is accepted, too."""
    array = np.asarray(values)
    column = array.ndim == 2 and array.shape[1] == 1
    require(array.ndim == 1 or column, name, values, "an array with one axis")
    require(array.size > 0, name, values, "an array with at least one entry")
    return array.ravel()


def _numbers(name: str, values: Any, order: list[Any] | None = None) -> Any:
    """Return values as numbers; labels become their positions in `order`."""
    array = _labels(name, values)
    order = declared_order(values) or order
    if order is not None and array.dtype.kind in "OUS":
        return places(array, order, name, "the categories of y")
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError):  # arrays with strings are rejected below
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold numbers, or be an ordered categorical; got {array.dtype} such as "
            f"{array[0]!r}. Plain strings have no order: replace them by the numbers of their "
            "ranks."
        )
    if np.isnan(array).any():
        raise ValueError(f"{name} must not contain NaN; remove or fill in those rows")
    return array


def _codes(values: Any) -> IntArray:
    return np.unique(values, return_inverse=True)[1].astype(np.intp)


# ------------------------------------------------------------------------------ counting pairs


def _count(
    rank: IntArray, score: Any, query: IntArray, weight: FloatArray
) -> tuple[float, float, float]:
    """Return the total weights of the comparable, the reversed and the tied pairs.

    Two sorts and three sweeps take O(n log n).
    """
    order = np.lexsort((rank, query))
    comparable = _different(query[order], rank[order], weight[order])
    order = np.lexsort((rank, score, query))
    query, rank, weight, score = query[order], rank[order], weight[order], score[order]
    fresh = np.ones(len(rank), dtype=bool)
    fresh[1:] = (query[1:] != query[:-1]) | (score[1:] != score[:-1])
    block = np.cumsum(fresh)  # samples of the same query with equal scores
    tree = np.zeros(int(rank.max(initial=0)) + 2)
    wrong = _reversed(query, block, rank, weight, tree)
    return comparable, wrong, _different(block, rank, weight)


@jit
def _different(block: Any, rank: Any, weight: Any) -> Any:
    """Return the weight of pairs of different ranks within blocks; sorted by block and rank."""
    total = 0.0
    below = 0.0
    same = 0.0
    for i in range(len(rank)):
        if i > 0 and block[i] != block[i - 1]:
            below = 0.0
            same = 0.0
        elif i > 0 and rank[i] != rank[i - 1]:
            below += same
            same = 0.0
        total += weight[i] * below
        same += weight[i]
    return total


@jit
def _reversed(query: Any, block: Any, rank: Any, weight: Any, tree: Any) -> Any:
    """Return the weight of pairs of a query whose higher rank has the lower score.

    Samples are sorted by block. The Fenwick tree holds the weights of the samples of lower score by
    rank, highest rank first, so that no sum is computed as a difference of others.
    """
    n = len(rank)
    last = len(tree) - 1
    total = 0.0
    begin = 0
    i = 0
    while i < n:
        if i > 0 and query[i] != query[i - 1]:
            # Clear the entries of the previous query only; the tree may be much larger.
            for k in range(begin, i):
                p = last - rank[k]
                while p <= last:
                    tree[p] = 0.0
                    p += p & -p
            begin = i
        stop = i
        # Count the whole block before adding it: equal scores are ties, not reversed pairs.
        while stop < n and block[stop] == block[i]:
            p = last - rank[stop] - 1
            higher = 0.0
            while p > 0:
                higher += tree[p]
                p -= p & -p
            total += weight[stop] * higher
            stop += 1
        for k in range(i, stop):
            p = last - rank[k]
            while p <= last:
                tree[p] += weight[k]
                p += p & -p
        i = stop
    return total
