"""Compiled loops that follow the path of a soft-margin solution while a sample is removed.

The exchange tableau T of A = [[K + ridge, 1], [1', 0]] maps quantities that are held to those that
respond. Held are the coefficients x of samples at a bound and the values h of free samples; the
values h at a bound and the coefficients x of free samples ("basic") respond. Making a sample free
or fixed is a principal pivot. All paths share columns of the fitted model's tableau; each path
stores the columns of its own pivots and computes from both the few columns that it needs.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit

# States of a sample: at the lower cap, free below zero, at zero, free above zero, at the upper cap.
LOWER, FREE_BELOW, ZERO, FREE_ABOVE, UPPER = -2, -1, 0, 1, 2
# Outcomes of a path.
DONE, MISSING_COLUMN, TOO_MANY_PIVOTS, CYCLING, INEXACT = 0, 1, 2, 3, 4
# Rows of the array of limits: caps of a coefficient above and below zero (both nonnegative), and
# the values h at which a sample is free there.
CAP_ABOVE, CAP_BELOW, TARGET_ABOVE, TARGET_BELOW = 0, 1, 2, 3

NEVER = 1e300  # time of an event that does not occur
TIE = 1e-13  # events closer than this fraction of the remaining path coincide
SMALL_RATE = 1e-12  # rates below this fraction of the largest are rounding errors
DRIFT = 1e-9  # largest error of a tracked value, against one recomputed from the coefficients
DEPENDENT = 1e-11  # pivot, relative to the diagonal, below which a sample depends on the free ones


@jit
def exchange(column, p, pivot_column):
    """Update a column of the tableau in place for a pivot on p."""
    factor = column[p] / pivot_column[p]
    if factor != 0.0:
        for i in range(column.shape[0]):
            column[i] -= factor * pivot_column[i]
    column[p] = -factor


@jit
def write_column(q, columns, slot, n_pivots, pivot_index, pivot_columns, out):
    """Write column q of the current tableau to out; return False if its base column is missing."""
    start = -1
    for s in range(n_pivots):
        if pivot_index[s] == q:
            start = s
    if start >= 0:  # start from the last pivot on q itself
        scale = 1.0 / pivot_columns[start, q]
        for i in range(out.shape[0]):
            out[i] = pivot_columns[start, i] * scale
        out[q] = scale
    elif slot[q] >= 0:
        for i in range(out.shape[0]):
            out[i] = columns[slot[q], i]
    else:
        return False
    for s in range(start + 1, n_pivots):
        exchange(out, pivot_index[s], pivot_columns[s])
    return True


@jit
def push_pivot(q, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z, held):
    """Pivot on q and store its column as number n_pivots; return False if it is missing.

    The held and the responding quantity of q change places.
    """
    pivot_index[n_pivots] = q
    out = pivot_columns[n_pivots]
    if not write_column(q, columns, slot, n_pivots, pivot_index, pivot_columns, out):
        return False
    basic[q] = 1.0 - basic[q]
    z[q], held[q] = held[q], z[q]
    return True


@jit
def set_interval(i, state, limits, joined, low, high):
    """Set the interval in which the responding quantity of sample i moves without an event."""
    low[i], high[i] = -np.inf, np.inf
    above, below = limits[CAP_ABOVE, i], limits[CAP_BELOW, i]
    if abs(state) == FREE_ABOVE:
        # With a tube of width zero (joined) a sample is free from the lower to the upper cap.
        low[i] = -below if state == FREE_BELOW or joined[i] else 0.0
        high[i] = above if state == FREE_ABOVE or joined[i] else 0.0
    elif state == UPPER:
        high[i] = limits[TARGET_ABOVE, i]
    elif state == LOWER:
        low[i] = limits[TARGET_BELOW, i]
    else:
        if above > 0:
            low[i] = limits[TARGET_ABOVE, i]
        if below > 0:
            high[i] = limits[TARGET_BELOW, i]


@jit
def set_intervals(state, limits, joined, low, high):
    """Set the intervals of all samples."""
    for i in range(low.shape[0]):
        set_interval(i, state[i], limits, joined, low, high)


@jit(fast=True)
def write_times(rate, direction, z, low, high, basic, when):
    """Write the time at which each sample reaches an end of its interval; NEVER at tiny rates."""
    by_x, by_h = 0.0, 0.0
    for i in range(low.shape[0]):
        size, share = abs(rate[i]), basic[i]
        by_x = max(by_x, size * share)
        by_h = max(by_h, size * (1.0 - share))
    floor_h = SMALL_RATE * by_h
    more = SMALL_RATE * by_x - floor_h
    for i in range(low.shape[0]):
        # Loading all operands before choosing between them lets the compiler vectorise the loop.
        speed, down, up = direction * rate[i], low[i] - z[i], high[i] - z[i]
        floor = floor_h + more * basic[i]
        time = (up if speed > 0 else down) / speed
        when[i] = time if abs(speed) > floor else NEVER


@jit(fast=True)
def earliest(when, room):
    """Return the smallest time, at most room."""
    best = room
    for i in range(when.shape[0]):
        best = min(best, when[i])
    return best


@jit
def next_event(rate, direction, room, z, low, high, basic, when):
    """Return the step to the first event within `room`, and the sample that causes it (-1: none).

    Of several that coincide, the sample with the largest rate is returned, as its pivot is the most
    stable. Negative times are rounding errors and count as zero.
    """
    write_times(rate, direction, z, low, high, basic, when)
    best = earliest(when, room)
    if best >= room:
        return room, -1
    best = max(best, 0.0)
    limit = best + TIE * room
    who, fastest = -1, -1.0
    for i in range(when.shape[0]):
        if when[i] <= limit and abs(rate[i]) > fastest:
            who, fastest = i, abs(rate[i])
    return best, who


@jit
def receiver(sign, b, z, low, high):
    """Return the sample that becomes free when none is (-1: none can), and the threshold there.

    To keep their sum, other coefficients must move in the direction of `sign`. The threshold moves
    to the first that can: a coefficient can rise once h falls to the lower end of its interval.
    """
    who, threshold = -1, 0.0
    for i in range(low.shape[0]):
        end = low[i] if sign > 0 else high[i]
        if abs(end) == np.inf:
            continue
        e = end - (z[i] - b)
        if who < 0 or sign * (e - threshold) > 0:
            who, threshold = i, e
    return who, threshold


@jit
def free_state(state, speed):
    """Return the state of a sample that becomes free while its value moves at `speed`."""
    if state == ZERO:
        return FREE_ABOVE if speed < 0 else FREE_BELOW
    return FREE_ABOVE if state == UPPER else FREE_BELOW


@jit
def fixed_state(state, speed, joined):
    """Return the state of a free sample whose coefficient has reached a limit at `speed`."""
    if speed > 0 and (state > 0 or joined):
        return UPPER
    if speed < 0 and (state < 0 or joined):
        return LOWER
    return ZERO


@jit
def middle_threshold(gone, kept, b, x, h, ridge, limits, eps):
    """Return the threshold: b if a free sample determines it, else the optimal interval's midpoint.

    The sample `gone` has only the fraction `kept` of its weight.
    """
    low, high = -NEVER, NEVER
    for i in range(x.shape[0]):
        cp, cm = limits[CAP_ABOVE, i], limits[CAP_BELOW, i]
        if i == gone:
            if kept <= 0.0:
                continue
            cp *= kept
            cm *= kept
        f = h[i] - ridge[i] * x[i] - b
        if x[i] > eps[i]:
            if x[i] < cp - eps[i]:
                return b
            high = min(high, limits[TARGET_ABOVE, i] - f)
        elif x[i] < -eps[i]:
            if x[i] > -cm + eps[i]:
                return b
            low = max(low, limits[TARGET_BELOW, i] - f)
        else:
            if cp > 0:
                low = max(low, limits[TARGET_ABOVE, i] - f)
            if cm > 0:
                high = min(high, limits[TARGET_BELOW, i] - f)
    if low > -NEVER and high < NEVER:
        return 0.5 * (low + high)
    if low > -NEVER:
        return low
    return high if high < NEVER else 0.0


@jit
def left_out_value(gone, kept, b, x, h, ridge, limits, eps, intercept):
    """Return the leave-one-out prediction of sample `gone` at the end of its path."""
    value = h[gone] - ridge[gone] * x[gone]
    if not intercept:
        return value
    threshold = middle_threshold(gone, kept, b, x, h, ridge, limits, eps)
    return value if threshold == b else value - b + threshold


@jit
def unmoved_values(leaving, kept, x, h, b, ridge, limits, eps, intercept, values):
    """Write the predictions of samples whose removal changes at most the threshold."""
    for k in range(leaving.shape[0]):
        values[k] = left_out_value(leaving[k], kept[k], b, x, h, ridge, limits, eps, intercept)


@jit
def drifted(gone, b, x, h, ridge, K):
    """Return whether the tracked value of sample `gone` is inaccurate (see DRIFT) or NaN."""
    exact = b + ridge[gone] * x[gone]
    size = abs(b)
    row = K[gone]
    for i in range(x.shape[0]):
        term = row[i] * x[i]
        exact += term
        size += abs(term)
    return not abs(exact - h[gone]) <= DRIFT + 1e-13 * size


@jit
def follow_path(
    gone, cap, stiffness, columns, slot, z, held, low, high, state, basic, limits, ridge, diagonal,
    joined, intercept, max_steps, pivot_index, pivot_columns, rate, blocked, when,
):  # fmt: skip
    """Remove sample `gone`; return the outcome, the number of events and a missing column.

    The path ends when its coefficient is `cap` (its new cap, 0 if all its weight is removed) or,
    with squared slack, `stiffness` times its slack.
    """
    # State, changed in place. Per index (the samples, then the threshold n): basic is 1 if the
    # coefficient responds and the value is held, else 0; z is the responding quantity, held the
    # other; low, high is the interval of z up to the next event. The current tableau is the fitted
    # model's (columns, slot) after the first n_pivots pivots. Invariants: z is optimal for held;
    # free counts the basic samples; the threshold is basic if free > 0; only held[gone] moves.
    n = low.shape[0]
    sign = 1.0 if (z[gone] if basic[gone] else held[gone]) > 0 else -1.0
    direction = -sign
    target = limits[TARGET_ABOVE if sign > 0 else TARGET_BELOW, gone]
    n_pivots, events, n_blocked = 0, 0, 0
    free = 0
    for i in range(n):
        free += int(basic[i])
    if basic[gone]:
        if intercept and free == 1:
            push_pivot(n, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z, held)
            n_pivots += 1
        push_pivot(gone, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z, held)
        n_pivots += 1
        free -= 1
    state[gone] = ZERO
    low[gone], high[gone] = -np.inf, np.inf
    fresh = False  # whether `rate` is the current column of `gone`
    while True:
        if n_pivots + 4 > pivot_index.shape[0]:  # two for a receiver, two for an event
            return TOO_MANY_PIVOTS, events, -1
        if events > max_steps:
            return CYCLING, events, -1
        if intercept and free == 0:
            b = held[n]
            who, threshold = receiver(sign, b, z, low, high)
            if who < 0:
                return DONE, events, -1
            for i in range(n):
                z[i] += threshold - b
            held[n] = threshold
            if not push_pivot(who, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z,
                              held):  # fmt: skip
                return MISSING_COLUMN, events, who
            push_pivot(n, columns, slot, n_pivots + 1, pivot_index, pivot_columns, basic, z, held)
            n_pivots += 2
            state[who] = free_state(state[who], -sign)
            set_interval(who, state[who], limits, joined, low, high)
            free = 1
            fresh = False
        if not fresh:
            write_column(gone, columns, slot, n_pivots, pivot_index, pivot_columns, rate)
            fresh = True
        slack = target - (z[gone] - ridge[gone] * held[gone])
        ahead = sign * held[gone] - cap - stiffness * sign * slack
        if ahead <= 0.0:
            return DONE, events, -1
        softness = 1.0 + stiffness * (rate[gone] - ridge[gone])
        if not softness >= 0.5:  # without rounding errors it is at least 1
            return INEXACT, events, -1
        room = ahead / softness
        step, who = next_event(rate, direction, room, z, low, high, basic, when)
        entering = who >= 0 and not basic[who]
        if entering:
            column = pivot_columns[n_pivots]
            if not write_column(who, columns, slot, n_pivots, pivot_index, pivot_columns, column):
                return MISSING_COLUMN, events, who
            if column[who] <= DEPENDENT * diagonal[who]:
                if n_blocked == n:
                    return CYCLING, events, -1
                # Its value cannot move while the samples that it depends on are free.
                low[who], high[who] = -np.inf, np.inf
                blocked[n_blocked] = who
                n_blocked += 1
                continue
        moved = direction * step
        for i in range(z.shape[0]):
            z[i] += moved * rate[i]
        held[gone] += moved
        if who < 0:
            return DONE, events, -1
        events += 1
        for k in range(n_blocked):
            set_interval(blocked[k], state[blocked[k]], limits, joined, low, high)
        n_blocked = 0
        speed = direction * rate[who]
        if entering:
            pivot_index[n_pivots] = who
            basic[who] = 1.0
            z[who], held[who] = held[who], z[who]
            state[who] = free_state(state[who], speed)
            free += 1
        else:
            z[who] = high[who] if speed > 0 else low[who]
            state[who] = fixed_state(state[who], speed, joined[who])
            if intercept and free == 1:
                push_pivot(n, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z, held)
                n_pivots += 1
            push_pivot(who, columns, slot, n_pivots, pivot_index, pivot_columns, basic, z, held)
            free -= 1
        set_interval(who, state[who], limits, joined, low, high)
        if free > 0 or not intercept:  # else a receiver is found first
            exchange(rate, who, pivot_columns[n_pivots])
        n_pivots += 1


@jit
def follow_paths(
    first, last, leaving, kept, caps, stiffness, columns, slot, z0, held0, low0, high0, state0,
    basic0, K, limits, ridge, diagonal, joined, eps, intercept, max_steps,
    values, events, outcome, needed, pivot_columns, pivot_index, work, state, blocked,
):  # fmt: skip
    """Follow the paths of the samples leaving[first:last], each from the fitted model."""
    # Arrays named *0 are the fitted model's, copied for each path and never changed; values,
    # events, outcome and needed get one entry per path, so that threads write to distinct entries;
    # those after them are a thread's own memory (to allocate it here takes long to compile).
    n, z, held, basic, rate = low0.shape[0], work[0], work[1], work[2], work[3]
    low, high, x, h, when = work[4, :n], work[5, :n], work[6, :n], work[7, :n], work[8, :n]
    for k in range(first, last):
        gone = leaving[k]
        for i in range(z0.shape[0]):
            z[i], held[i], basic[i] = z0[i], held0[i], basic0[i]
        for i in range(n):
            low[i], high[i], state[i] = low0[i], high0[i], state0[i]
        outcome[k], events[k], needed[k] = follow_path(
            gone, caps[k], stiffness[k], columns, slot, z, held, low, high, state, basic, limits,
            ridge, diagonal, joined, intercept, max_steps, pivot_index, pivot_columns, rate,
            blocked, when,
        )  # fmt: skip
        if outcome[k] != DONE:
            continue
        for i in range(n):
            x[i] = z[i] if basic[i] else held[i]
            h[i] = held[i] if basic[i] else z[i]
        b = 0.0
        if intercept:
            b = z[n] if basic[n] else held[n]
        if drifted(gone, b, x, h, ridge, K):
            outcome[k] = INEXACT
            continue
        values[k] = left_out_value(gone, kept[k], b, x, h, ridge, limits, eps, intercept)
        if values[k] != h[gone] - ridge[gone] * x[gone]:
            events[k] += 1  # the threshold moved: the last free sample met its bound at the end
