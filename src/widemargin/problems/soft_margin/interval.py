"""Interval that contains the optimum of a soft-margin problem, in compiled code.

The formulas are those of :mod:`widemargin.problems.soft_margin.bounds`. One call returns both ends,
since a call per term would take a notable part of the fit of a few samples.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.double_double import CHARGE, U, add, two_product
from widemargin._base.jit import jit
from widemargin.problems.soft_margin.loops import (
    TINY,
    dual_sums,
    losses,
    norm_squared,
    roomy,
    slacks,
)

FEW = 32.0 * U  # relative error of a short formula of scalars
FULL = 1e-11  # relative distance from its cap within which a variable counts as at its cap
ADDED = 64.0 * CHARGE * U * U  # relative error of a few double-double additions

# Positions in the array of numbers that describe a point.
SCALE, COST_ERROR, BLUR, THRESHOLD_ERROR, MERCER = range(5)


@jit
def interval(  # type: ignore[no-untyped-def]
    row, target, lower, upper, ridge, group, totals, alpha, beta, thresholds, size, hi, lo, error,
    model_hi, model_lo, model_error, model_norm, sums, numbers,
):  # fmt: skip
    """Return an upper bound, a lower bound, the part due to rounding, and whether sums are asked.

    hi, lo and error enclose f = K beta; `model_norm` holds |w|^2 of the model and its error, or NaN
    if the model is scale * beta. `sums` are the sums of alpha per group, correctly rounded, or NaN:
    they are asked for only if no variable of a group is free.
    """
    n = len(beta)
    mass = 0.0
    for i in range(n):
        mass += abs(beta[i]) * size[i]
    mass *= 1.0 + n * U
    norm = norm_squared(beta, hi, lo, error)
    own, blur = norm, numbers[BLUR]
    if not np.isnan(model_norm[0]):
        own, blur = (model_norm[0], model_norm[1], model_norm[2], 0.0), 0.0
    theta = abs(numbers[SCALE])
    wrong = np.empty(n)
    for i in range(n):
        wrong[i] = model_error[i] * theta + blur * theta * mass * size[i]
    slack = np.empty((2, len(row)))
    slacks(row, target, lower, upper, group, thresholds, numbers[SCALE], model_hi, model_lo, wrong,
           target_error(row, n), numbers[THRESHOLD_ERROR], slack)  # fmt: skip
    loss, rounding = losses(slack[0], slack[1], lower, upper, ridge)
    above, spent = upper_bound(totals, thresholds, own, loss, mass, blur, len(row), numbers)
    rounding += spent
    # A negative |w|^2 proves that a matrix or function of the user is indefinite.
    if numbers[MERCER] == 0.0 or norm[0] + norm[1] + norm[2] < 0.0:
        return known(above), -np.inf, known(rounding), False
    below = trivial_bound(totals, size, len(row) > n)
    for v in range(len(row)):
        if not (lower[v] <= alpha[v] and alpha[v] <= upper[v]):
            return known(above), below, known(rounding), False
    dual, spent, asked = lower_bound(
        row, target, lower, upper, ridge, group, totals, alpha, thresholds, size, hi, lo, error,
        norm, mass, n, sums, numbers)  # fmt: skip
    if dual > below:
        below = dual
    return known(above), below, known(rounding + spent), asked


@jit
def known(value):  # type: ignore[no-untyped-def]
    """Return the value, or infinity if it is NaN."""
    return np.inf if np.isnan(value) else value


@jit
def target_error(row, n):  # type: ignore[no-untyped-def]
    """Return the relative error of the targets: those of tubes are rounded sums."""
    return 2.0 * U if len(row) > n else 0.0


@jit
def upper_bound(totals, thresholds, norm, loss, mass, blur, n_variables, numbers):  # type: ignore[no-untyped-def]
    """Return the primal objective of the model, rounded up, and what was added for rounding."""
    high, low, error_of_norm, size_of_norm = norm
    scale, cost_error = numbers[SCALE], numbers[COST_ERROR] + n_variables * U
    half = 0.5 * scale * scale
    h, t = 0.5 * high, 0.5 * low
    if scale != 1.0:
        h, t = half * (high + low) * (1.0 + FEW), 0.0
    size = abs(h) + loss
    h, t = add(h, t, loss, 0.0)
    offsets = thickness = 0.0
    for g in range(len(totals)):
        p, e = two_product(totals[g], thresholds[g])
        h, t = add(h, t, p, e)
        offsets += abs(p) + abs(e)
        thickness += abs(totals[g])
    # Coefficients beta (1 + eps): Q changes by 2 sum eps beta f + (sum eps beta q)^2 at most.
    spread = error_of_norm + 2.0 * blur * size_of_norm + (blur * mass) ** 2
    spent = offsets * cost_error + thickness * numbers[THRESHOLD_ERROR] * (1.0 + cost_error)
    spent += half * spread + (loss + half * abs(high)) * FEW + loss * cost_error
    spent += ADDED * (size + offsets)
    h, t = add(h, t, spent * (1.0 + FEW) + TINY, 0.0)
    return np.nextafter(h, np.inf), spent


@jit
def trivial_bound(totals, size, is_tube):  # type: ignore[no-untyped-def]
    """Return the lower bound that every feasible point gives.

    It is 0 if alpha = 0 is feasible, or if the two variables of a sample of a tube can cancel. In
    the other problems all targets are zero and |w| is at most the sum of |d_g| q.
    """
    total = largest = 0.0
    for g in range(len(totals)):
        total += abs(totals[g])
    if total == 0.0 or is_tube:
        return 0.0
    for i in range(len(size)):
        if np.isnan(size[i]):
            return -np.inf
        largest = max(largest, size[i])
    largest = total * largest * (1.0 + 1e-9)
    return -0.5 * largest * largest * (1.0 + FEW) - TINY


@jit
def shrinkage(totals, n_variables, cost_error):  # type: ignore[no-untyped-def]
    """Return by how much alpha is reduced to fit into boxes known up to a relative error.

    If totals are not zero, they are uncertain as well. The reduction then leaves a residual whose
    sign is certain, so that variables at zero have room for it.
    """
    units = np.ceil(cost_error / U)
    for g in range(len(totals)):
        if totals[g] != 0.0:
            return (2.0 * (units + n_variables) + 8.0) * U
    return units * U


@jit
def lower_bound(  # type: ignore[no-untyped-def]
    row, target, lower, upper, ridge, group, totals, alpha, thresholds, size, hi, lo, error,
    norm, mass, n, sums, numbers,
):  # fmt: skip
    """Return a lower bound of the optimum, its rounding, and whether sums are asked."""
    less = shrinkage(totals, len(row), numbers[COST_ERROR])
    shrink = 1.0 - less
    of_group = np.zeros((4, max(1, len(totals))))
    linear, quadratic, cost = dual_sums(alpha, target, ridge, group, totals, shrink, of_group)
    high, low, error_of_norm, size_of_norm = norm
    if len(row) > n:  # beta is a rounded sum of two variables
        error_of_norm += 4.0 * U * size_of_norm + (2.0 * U * mass) ** 2
        for v in range(len(row)):
            cost += target_error(row, n) * abs(target[v]) * abs(alpha[v])
    norm2 = shrink * shrink * (high + low) + error_of_norm
    gain, growth, reach, may_scale, free = 0.0, 0.0, 0.0, True, True
    for g in range(len(totals)):
        more, grown, paid, reached, status = moved(
            row, target, lower, upper, ridge, group, alpha, thresholds, size, hi, lo, error, g,
            totals[g], of_group[:, g], sums[g], mass, less, numbers)  # fmt: skip
        if status != DONE:
            return -np.inf, 0.0, status == ASKS
        gain, growth, cost, reach = gain + more, growth + grown, cost + paid, reach + reached
        may_scale = may_scale and totals[g] == 0.0
    growth += reach * reach * (1.0 + FEW)
    for v in range(len(row)):
        free = free and np.isinf(upper[v] - lower[v])
    T = shrink * linear + gain - cost - FEW * (abs(linear) + abs(gain) + cost) - TINY
    quadratic *= shrink * shrink * (1.0 + 2.0 * numbers[COST_ERROR])
    Q = norm2 + quadratic + growth
    if Q < 0.0:
        Q = 0.0
    Q += FEW * (abs(high) + quadratic + abs(growth)) + TINY
    theta = 1.0
    if may_scale and not (T >= Q and not free):
        theta = T / Q if T > 0.0 else 0.0
    dual = theta * T - 0.5 * theta * theta * Q
    dual -= FEW * (abs(theta * T) + theta * theta * Q)
    if not np.isfinite(dual):
        return -np.inf, np.inf, False
    rounding = theta * cost + 0.5 * theta * theta * error_of_norm
    return np.nextafter(dual, -np.inf), rounding, False


DONE, ASKS, IMPOSSIBLE = range(3)


@jit
def moved(  # type: ignore[no-untyped-def]
    row, target, lower, upper, ridge, group, alpha, thresholds, size, hi, lo, error, g, total,
    of_group, exact, mass, less, numbers,
):  # fmt: skip
    """Return what moving the residual of group g adds to both terms, its error, and a status.

    `of_group` are the sum of alpha (two parts), its error and the sum of absolute values. If no
    variable has room for the residual with either sign, the exact sum tells which sign it has.
    """
    shrink = 1.0 - less
    p, e = two_product(shrink, of_group[0])
    tail = shrink * of_group[1]
    h, t = add(p, e, tail, 0.0)
    h, t = add(h, t, -total, 0.0)
    residual = h + t
    doubt = abs(total) * (numbers[COST_ERROR] + len(row) * U) + of_group[2]
    doubt += 2.0 * U * (abs(tail) + abs(residual)) + ADDED * (abs(p) + abs(total))
    if residual == 0.0 and doubt == 0.0:
        return 0.0, 0.0, 0.0, 0.0, DONE
    threshold = thresholds[g] / numbers[SCALE] if numbers[SCALE] != 0.0 else 0.0
    k = roomy(alpha, target, lower, upper, ridge, group, row, hi, error, g, threshold, shrink,
              residual, doubt)  # fmt: skip
    if k < 0 and total == 0.0:  # without free variables the sign of the residual matters
        if np.isnan(exact):
            return 0.0, 0.0, 0.0, 0.0, ASKS
        residual = shrink * exact
        doubt = 4.0 * U * abs(residual)
        if residual == 0.0:
            return 0.0, 0.0, 0.0, 0.0, DONE
        k = roomy(alpha, target, lower, upper, ridge, group, row, hi, error, g, threshold, shrink,
                  residual, doubt)  # fmt: skip
    if k < 0:
        return full(row, target, lower, upper, group, alpha, size, g, total, mass, less)
    r = row[k]
    value = hi[r] + lo[r]
    most = abs(residual) + doubt
    growth = -2.0 * shrink * residual * value
    growth += 2.0 * (most * (error[r] + 4.0 * U * abs(value)) + doubt * abs(value))
    growth += ridge[k] * (2.0 * abs(alpha[k]) * most + most * most)
    return -residual * target[k], growth, doubt * abs(target[k]), most * size[r], DONE


@jit
def full(row, target, lower, upper, group, alpha, size, g, total, mass, less):  # type: ignore[no-untyped-def]
    """Return the errors of a group whose variables are all at their caps.

    The total of such a group is the sum of its caps, so that there is no residual; the caps are
    known up to their relative error, and alpha was reduced by as much.
    """
    below = of_size = of_target = 0.0
    for v in range(len(row)):
        if group[v] != g:
            continue
        cap = upper[v] if total > 0.0 else lower[v]
        distance = abs(cap - alpha[v]) / abs(cap)
        if not distance <= FULL:
            return 0.0, 0.0, 0.0, 0.0, IMPOSSIBLE
        below = max(below, distance)
        of_size += abs(cap) * size[row[v]]
        of_target += abs(cap) * abs(target[v])
    doubt = 2.0 * (less + below) * (1.0 + FEW) * (1.0 + len(row) * U)
    return 0.0, 2.0 * doubt * of_size * mass, doubt * of_target, doubt * of_size, DONE
