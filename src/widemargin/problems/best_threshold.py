"""Thresholds that minimise the primal objective of a soft-margin problem, given f.

Each function minimises over one variable, the threshold of a group: a sum of piecewise linear
losses (hinge, tubes) or of piecewise quadratic ones (with a ridge).
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray


def hard_threshold(s: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the x whose largest violation of s <= x (upper > 0) and s >= x (lower < 0) is least.

    If one of the two kinds is absent, an interval without end is optimal, and its end is returned.
    """
    least = float(s[upper > 0].max(initial=-np.inf))
    most = float(s[lower < 0].min(initial=np.inf))
    return 0.5 * (least + most) if np.isfinite(least - most) else min(least, most, key=abs)


def staircase_threshold(s: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> float:
    """Minimise sum_v max(upper_v (s_v - x), lower_v (s_v - x)) + total x over x.

    The derivative, ``total - sum(upper where s > x, else lower)``, is a step function that rises by
    ``upper - lower`` at each s; the minimisers are where it crosses zero.
    """
    order = np.argsort(s)
    return float(crossing(s, lower, upper, order, total))


@jit
def crossing(s, lower, upper, order, total):  # type: ignore[no-untyped-def]
    """Return where the derivative crosses zero; the kinks in the given order are ascending."""
    level, climb = -total, 0.0
    for v in range(len(s)):
        level += upper[v]
        climb += upper[v] - lower[v]
    rounding = 1e-12 * max(climb, 1e-300)
    last = s[order[-1]]
    left = right = last
    climbed, found = 0.0, False
    for v in order:
        climbed += upper[v] - lower[v]
        if not found and climbed >= level - rounding:
            left, found = s[v], True
        if climbed > level + rounding:
            right = s[v]
            break
    if level <= rounding:  # all variables at their upper bounds: (-inf, right] is optimal
        return right
    if level >= climb - rounding:  # all variables at their lower bounds: [left, inf)
        return left
    return 0.5 * (left + right)


def ridge_threshold(
    s: FloatArray, lower: FloatArray, upper: FloatArray, ridge: FloatArray, total: float
) -> float:
    """Solve sum_v clip((s_v - x) / ridge_v, lower_v, upper_v) = total for x.

    The left side is piecewise linear and decreasing: each variable is at its upper bound up to the
    kink s - ridge * upper, and at its lower bound from s - ridge * lower on. Between two kinks the
    left side is height - slope * x, and both are cumulative sums over the sorted kinks.
    """
    kinks = np.concatenate([s - ridge * upper, s - ridge * lower])
    slope, height = 1.0 / ridge, s / ridge
    slopes = np.concatenate([slope, -slope])
    heights = np.concatenate([height - upper, lower - height])
    started = np.isinf(kinks[: len(s)])  # unbounded on that side: sloped from the start
    start = float(np.where(started, height, upper).sum()) - total
    first = float(slope[started].sum())
    return float(descent(kinks, heights, slopes, np.argsort(kinks), start, first, slope.max()))


@jit
def descent(kinks, heights, slopes, order, height, slope, steepest):  # type: ignore[no-untyped-def]
    """Return where height - slope * x is zero, if both change at each kink.

    It is just before the first kink, in the given ascending order, at which the value is not
    positive. Infinite kinks are skipped.
    """
    h, largest = height, abs(height)
    for k in order:
        if not np.isinf(kinks[k]):
            h += heights[k]
            largest = max(largest, abs(h))
    rounding = 1e-12 * max(1.0, largest)
    before_height, before_slope, at, below = height, slope, 0.0, -np.inf
    crossed, level, begin, end = False, 0, 0.0, 0.0
    for k in order:
        if np.isinf(kinks[k]):
            continue
        if not crossed:
            before_height, before_slope, at = height, slope, kinks[k]
        height += heights[k]
        slope += slopes[k]
        excess = height - slope * kinks[k]
        if excess <= rounding and not crossed:
            crossed, below = True, excess
        if abs(excess) <= rounding:
            begin = kinks[k] if level == 0 else begin
            end = kinks[k]
            level += 1
    if level > 1 and below >= -rounding:
        return 0.5 * (begin + end)  # midpoint of a flat segment
    if not crossed:
        before_height, before_slope = height, slope
    return before_height / before_slope if before_slope > 1e-12 * steepest else at
