"""Thresholds that minimise the primal objective of a soft-margin problem, given f.

Each function minimises over one variable, the threshold of a group: a sum of piecewise linear
losses (hinge, tubes) or of piecewise quadratic ones (with a ridge).
"""

from __future__ import annotations

import numpy as np

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
    order = np.argsort(s, kind="stable")
    s = s[order]
    climbed = np.cumsum((upper - lower)[order])
    level = float(upper.sum()) - total
    rounding = 1e-12 * max(float(climbed[-1]), 1e-300)
    last = len(s) - 1
    left = s[min(int(np.searchsorted(climbed, level - rounding)), last)]
    right = s[min(int(np.searchsorted(climbed, level + rounding, side="right")), last)]
    if level <= rounding:  # all variables at their upper bounds: (-inf, right] is optimal
        return float(right)
    if level >= climbed[-1] - rounding:  # all variables at their lower bounds: [left, inf)
        return float(left)
    return float(0.5 * (left + right))


def ridge_threshold(
    s: FloatArray, lower: FloatArray, upper: FloatArray, ridge: FloatArray, total: float
) -> float:
    """Solve sum_v clip((s_v - x) / ridge_v, lower_v, upper_v) = total for x.

    The left side is piecewise linear and decreasing: each variable is at its upper bound up to the
    kink s - ridge * upper, and at its lower bound from s - ridge * lower on. Between two kinks the
    left side is height - slope * x, and both are cumulative sums over the sorted kinks.
    """
    begin, end = s - ridge * upper, s - ridge * lower
    kinks = np.concatenate([begin, end])
    heights = np.concatenate([s / ridge - upper, lower - s / ridge])
    slopes = np.concatenate([1.0 / ridge, -1.0 / ridge])
    always = np.isinf(kinks)  # unbounded on that side: sloped from the start, or to the end
    started = always[: len(s)]
    height = float((s / ridge)[started].sum() + upper[~started].sum()) - total
    order = np.argsort(kinks[~always], kind="stable")
    kinks = kinks[~always][order]
    height_after = height + np.concatenate([[0.0], np.cumsum(heights[~always][order])])
    slope_after = float((1.0 / ridge)[started].sum()) + np.concatenate(
        [[0.0], np.cumsum(slopes[~always][order])]
    )
    # First kink at which the left side is at most the total; the solution is just before it.
    excess = height_after[1:] - slope_after[1:] * kinks
    rounding = 1e-12 * max(1.0, float(np.abs(height_after).max()))
    crossing = int(np.argmax(excess <= rounding)) if (excess <= rounding).any() else len(kinks)
    slope = float(slope_after[crossing])
    if slope > 1e-12 * float((1.0 / ridge).max()):
        x = float(height_after[crossing] / slope)
    else:
        x = float(kinks[min(crossing, len(kinks) - 1)])
    level = np.flatnonzero(np.abs(excess) <= rounding)
    if len(level) > 1 and excess[crossing] >= -rounding:
        return float(0.5 * (kinks[level[0]] + kinks[level[-1]]))  # midpoint of a flat segment
    return x
