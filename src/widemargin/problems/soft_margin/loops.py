"""Compiled sums over the variables of a soft-margin problem, for the bounds of its certificate.

Sums are double-double, and each function returns bounds of its own rounding errors.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.double_double import CHARGE, U, add, multiply, two_product
from widemargin._base.jit import jit

TINY = 1e-280  # covers underflow


@jit
def norm_squared(beta, hi, lo, error):  # type: ignore[no-untyped-def]
    """Return beta'f as hi and lo, its error, and the sum of the absolute terms."""
    h, low, wrong, size = 0.0, 0.0, 0.0, 0.0
    for i in range(len(beta)):
        if beta[i] != 0.0:
            ph, pl = multiply(hi[i], lo[i], beta[i], 0.0)
            h, low = add(h, low, ph, pl)
            wrong += abs(beta[i]) * error[i]
            size += abs(ph)
    n = len(beta) + 4
    return h, low, (wrong + n * CHARGE * U * U * size) * (1.0 + n * U) + TINY, size


@jit
def slacks(  # type: ignore[no-untyped-def]
    row, target, lower, upper, group, thresholds, scale, hi, lo, error, uncertain,
    threshold_error, out,
):  # fmt: skip
    """Write the slack of each variable, at the end of its error bound with the larger loss.

    The slack is t - scale f - threshold. It is set to zero if surely no bound of the box makes a
    loss of it. The second row of out is its error.
    """
    for v in range(len(row)):
        r = row[v]
        shift = thresholds[group[v]]
        fh, fl = multiply(hi[r], lo[r], scale, 0.0)
        sh, sl = add(target[v], 0.0, -fh, -fl)
        sh, sl = add(sh, sl, -shift, 0.0)
        size = abs(target[v]) + abs(fh) + abs(shift)
        wrong = error[r] + uncertain * size + threshold_error + 4.0 * CHARGE * U * U * size
        s = sh + sl
        wrong = wrong * (1.0 + 16.0 * U) + 4.0 * U * abs(s)
        out[0, v], out[1, v] = 0.0, 0.0
        above, below = s + wrong, s - wrong
        if upper[v] > 0.0 and above > 0.0:
            out[0, v], out[1, v] = above, wrong
        if lower[v] < 0.0 and below < 0.0 and -below > out[0, v]:
            out[0, v], out[1, v] = below, wrong


@jit
def losses(slack, error, lower, upper, ridge):  # type: ignore[no-untyped-def]
    """Return the sum of the losses, rounded up, and the part that is due to errors of slacks."""
    h, low, blur = 0.0, 0.0, 0.0
    for v in range(len(slack)):
        s = slack[v]
        if s == 0.0:
            continue
        if ridge[v] > 0.0:
            value = 0.5 * s * s / ridge[v]
            slope = abs(s) / ridge[v]
        else:
            slope = upper[v] if s > 0.0 else -lower[v]
            value = slope * abs(s)
        h, low = add(h, low, value, 0.0)
        blur += slope * error[v]
    return (h + low) * (1.0 + 16.0 * U), blur


@jit
def dual_sums(alpha, target, ridge, group, totals, shrink, out):  # type: ignore[no-untyped-def]
    """Return sum t alpha, sum ridge alpha^2 rounded up, and the error of the first.

    The rows of out are, per group: the sum of alpha as two numbers, its error, and the sum of the
    absolute values.
    """
    h, low, size, square = 0.0, 0.0, 0.0, 0.0
    for v in range(len(alpha)):
        a = alpha[v]
        if a == 0.0:
            continue
        g = group[v]
        out[0, g], out[1, g] = add(out[0, g], out[1, g], a, 0.0)
        out[3, g] += abs(a)
        ph, pl = two_product(target[v], a)
        h, low = add(h, low, ph, pl)
        size += abs(ph)
        square += ridge[v] * a * a
    n = len(alpha) + 4
    for g in range(out.shape[1]):
        out[2, g] = n * CHARGE * U * U * out[3, g]
    return h + low, square * (1.0 + n * U), n * CHARGE * U * U * size + 2.0 * U * abs(h)


@jit
def roomy(  # type: ignore[no-untyped-def]
    alpha, target, lower, upper, ridge, group, row, hi, error, g, threshold, shrink, residual,
    doubt,
):  # fmt: skip
    """Return the variable of a group that the residual changes the objective least, or -1.

    It must have room for the residual within its box, which is known up to a relative error.
    """
    best, chosen = np.inf, -1
    for v in range(len(alpha)):
        if group[v] != g:
            continue
        moved = shrink * alpha[v] - residual
        spare = doubt + 4.0 * U * (abs(moved) + abs(residual))
        # A variable that surely decreases stays below its upper bound, and conversely.
        if residual < doubt and moved + spare > shrink * upper[v]:
            continue
        if residual > -doubt and moved - spare < shrink * lower[v]:
            continue
        price = abs(target[v] - hi[row[v]] - ridge[v] * alpha[v] - threshold) + error[row[v]]
        if price < best:
            best, chosen = price, v
    return chosen


@jit
def overlap(score, alpha, lower, upper, group, n_groups):  # type: ignore[no-untyped-def]
    """Return the largest overlap of scores within a group; without groups, with zero."""
    worst, beyond = 0.0, np.inf if n_groups else 0.0
    for g in range(max(1, n_groups)):
        highest, lowest = -beyond, beyond
        for v in range(len(alpha)):
            if np.isnan(score[v]):
                return np.nan
            if n_groups > 1 and group[v] != g:
                continue
            if alpha[v] < upper[v] and score[v] > highest:
                highest = score[v]
            if alpha[v] > lower[v] and score[v] < lowest:
                lowest = score[v]
        if n_groups:
            worst = max(worst, highest - lowest)
        else:
            worst = max(highest, -lowest)
    return worst


@jit
def estimates(  # type: ignore[no-untyped-def]
    alpha, f, row, target, lower, upper, ridge, group, thresholds, totals
):
    """Return the primal and dual objective in float64, and two sums for their rounding errors.

    These are the sum of abs(alpha), and that of the multipliers of the losses.
    """
    linear = norm2 = squares = loss = mass = spent = 0.0
    for v in range(len(alpha)):
        a = alpha[v]
        linear += target[v] * a
        norm2 += a * f[row[v]]
        squares += ridge[v] * a * a
        mass += abs(a)
        m = target[v] - f[row[v]] - thresholds[group[v]]
        if ridge[v] > 0.0:
            best = min(max(m / ridge[v], lower[v]), upper[v])
            loss += m * best - 0.5 * ridge[v] * best * best
        else:
            best = upper[v] if m > 0.0 else lower[v]
            loss += m * best
        spent += abs(best)
    offset = totals[0] * thresholds[0] + totals[1] * thresholds[1]
    primal = 0.5 * norm2 + loss + offset
    return primal, linear - 0.5 * (norm2 + squares), mass, spent
