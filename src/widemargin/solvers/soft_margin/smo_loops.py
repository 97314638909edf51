"""Compiled loops of sequential minimal optimisation: pair steps, and kernel rows on demand.

The caller recomputes everything it reports, so these loops may reorder sums (``fast=True``). Scores
and kernel values are float32 or float64; steps and variables are always float64.

Variables stand in chunks of LANES, which compilers turn into vector instructions. With C chunks of
kernel columns there are C or 2 C chunks of variables: variable v belongs to column v or, for the
second variable of a sample of the tubes, v - C * LANES. The variables of threshold group 0 occupy
the first `border` chunks, those of group 1 the remaining ones; the padding at the end of each group
has equal bounds and is never selected.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.jit.extremes import maximum, minimum
from widemargin.kernels.row_loops import LANES, own_row

# Why `take_steps` ended.
CONVERGED, NO_STEPS_LEFT, SETTLED, NO_GAIN = range(4)
# The last arguments of `take_steps` if all kernel rows are known.
NO_FORMULA = (
    np.zeros((1, 4, LANES)), np.zeros((1, 4)), np.zeros((1, LANES)), np.array([0, 0, 0, 0, -1.0]),
    np.zeros((2, LANES)), np.zeros(LANES), np.zeros(LANES, dtype=np.int64),
)  # fmt: skip


@jit(fast=True)
def take_steps(
    K, slot, grid, flat, box, border, limits, max_steps, patience,
    columns, samples, norms, form, work, power, bits,
):  # fmt: skip
    """Take at most max_steps pair steps; stop early after `patience` steps without a new row.

    K (n_rows, n_chunks, LANES): kernel rows. slot (n_columns,): the row of K that belongs to each
    column, -1 if it is not known yet; rows are added in order. grid (4, n_variable_chunks, LANES):
    score, barrier against increase, barrier against decrease, diagonal with ridge; flat: the same
    memory as (4, n_variables). box (4, n_variables): lower, upper, alpha, ridge. limits: smallest
    curvature of a pair relative to its diagonal (tau) and absolutely (tiny), a number larger than
    all scores (huge), the KKT violation at which to stop (tol), the number of known rows of K. The
    remaining arguments are those of `kernel_row`. Scores, alpha and slot are changed in place.

    Returns the reason, the number of steps, the gain of the dual objective, the KKT violation and
    the number of rows.
    """
    # Invariant between two steps: alpha is up to date, the scores lag behind by one step, the one
    # of length `move` that increased i and decreased j. It is applied in the same loop that
    # searches for the next pair, so the scores are read once per step. A barrier is 0 where a
    # variable can move and `huge` where it cannot, so that a search never selects it. Steps
    # preserve the sum of each group.
    tau, tiny, huge, tol = limits[0], limits[1], limits[2], limits[3]
    nothing = tau - tau  # a zero in the precision of the scores
    made = int(limits[4])
    n_chunks = K.shape[1]
    n_columns = n_chunks * LANES
    score, up, down, diagonal = grid[0], grid[1], grid[2], grid[3]
    s, bar_up, bar_down, diag = flat[0], flat[1], flat[2], flat[3]
    lower, upper, alpha, ridge = box[0], box[1], box[2], box[3]
    pi = 0
    pj = 0
    move = nothing
    steps = 0
    hits = 0
    gained = 0.0
    while True:
        violation = nothing
        most = nothing
        i = -1
        j = -1
        for g in range(2):
            start = 0 if g == 0 else border
            stop = border if g == 0 else score.shape[0]
            high = -huge
            low = huge
            at = start
            for b in range(start, stop):
                c = b if b < n_chunks else b - n_chunks
                if move != nothing:
                    for t in range(LANES):
                        score[b, t] -= move * (K[pi, c, t] - K[pj, c, t])
                top = -huge
                for t in range(LANES):
                    top = maximum(top, score[b, t] - up[b, t])
                    low = minimum(low, score[b, t] + down[b, t])
                if top > high:
                    high = top
                    at = b
            if start == stop or high - low <= tol:
                continue
            violation = max(violation, high - low)
            first = at * LANES
            while s[first] - bar_up[first] < high:
                first += 1
            r = first if first < n_columns else first - n_columns
            if slot[r] < 0:
                own_row(K, made, columns, samples, norms, r, form, work, power, bits)
                slot[r] = made
                made += 1
                hits = 0
            p = slot[r]
            # The partner: the largest gain of the quadratic model.
            own = diag[first]
            gain = nothing
            at = start
            for b in range(start, stop):
                c = b if b < n_chunks else b - n_chunks
                top = nothing
                for t in range(LANES):
                    d = maximum(high - score[b, t] - down[b, t], nothing)
                    both = own + diagonal[b, t]
                    curve = maximum(both - K[p, c, t] - K[p, c, t], tau * abs(both) + tiny)
                    top = maximum(top, d * d / curve)
                if top > gain:
                    gain = top
                    at = b
            if gain > most:
                most = gain
                c = at if at < n_chunks else at - n_chunks
                top = nothing
                second = -1
                for t in range(LANES):
                    d = high - s[at * LANES + t] - bar_down[at * LANES + t]
                    both = own + diag[at * LANES + t]
                    curve = max(both - K[p, c, t] - K[p, c, t], tau * abs(both) + tiny)
                    if d > nothing and d * d / curve > top:
                        top = d * d / curve
                        second = at * LANES + t
                if second >= 0:
                    i = first
                    j = second
        # Checked after the update, so that the scores are complete on return.
        move = nothing
        if violation <= tol:
            return CONVERGED, steps, gained, violation, made
        if i < 0:
            return NO_GAIN, steps, gained, violation, made
        if steps >= max_steps:
            return NO_STEPS_LEFT, steps, gained, violation, made
        if hits >= patience:
            return SETTLED, steps, gained, violation, made
        r = j if j < n_columns else j - n_columns
        if slot[r] < 0:
            own_row(K, made, columns, samples, norms, r, form, work, power, bits)
            slot[r] = made
            made += 1
            hits = 0
        pj = slot[r]
        q = i if i < n_columns else i - n_columns
        pi = slot[q]
        # The step itself is computed in float64: alpha accumulates the steps of a whole run.
        cross = np.float64(K[pi, r // LANES, r % LANES])
        both = np.float64(diag[i]) + np.float64(diag[j])
        curve = max(both - 2.0 * cross, tau * abs(both) + tiny)
        slope = np.float64(s[i]) - np.float64(s[j])
        step = slope / curve
        room_up = upper[i] - alpha[i]
        room_down = alpha[j] - lower[j]
        # A variable that reaches its bound is set to it exactly, so that it counts as bound.
        if step < room_up and step < room_down:
            alpha[i] += step
            alpha[j] -= step
        elif room_up <= room_down:
            step = room_up
            alpha[j] = lower[j] if room_up == room_down else alpha[j] - step
            alpha[i] = upper[i]
        else:
            step = room_down
            alpha[i] += step
            alpha[j] = lower[j]
        gained += step * (slope - 0.5 * step * curve)
        move = nothing + step
        s[i] -= step * ridge[i]
        s[j] += step * ridge[j]
        bar_up[i] = nothing if alpha[i] < upper[i] else huge
        bar_down[i] = nothing if alpha[i] > lower[i] else huge
        bar_up[j] = nothing if alpha[j] < upper[j] else huge
        bar_down[j] = nothing if alpha[j] > lower[j] else huge
        steps += 1
        hits += 1


@jit(fast=True)
def sum_rows(
    K, slot, made, coefficients, out, columns, samples, norms, form, work, power, bits
):  # fmt: skip
    """Add coefficients[r] times the kernel row of each column r to out (n_chunks, LANES), float64.

    Rows that are not known yet are computed. Returns the number of rows of K.
    """
    for r in range(len(coefficients)):
        x = coefficients[r]
        if x == 0.0:
            continue
        if slot[r] < 0:
            own_row(K, made, columns, samples, norms, r, form, work, power, bits)
            slot[r] = made
            made += 1
        p = slot[r]
        for c in range(out.shape[0]):
            for t in range(LANES):
                out[c, t] += x * K[p, c, t]
    return made


@jit(fast=True)
def gather(kernel, rows, block, start, stop):
    """Copy kernel[rows[p], rows[q]] to block[p, q] for p in start..stop - 1 and all q."""
    for p in range(start, stop):
        source = kernel[rows[p]]
        target = block[p]
        for q in range(len(rows)):
            target[q] = source[rows[q]]


@jit(fast=True)
def add_rows(K, rows, coefficients, field, start, stop):
    """Add coefficients @ K[rows, start:stop] to the float64 array field[start:stop].

    Blocks of 64 rows are summed in the precision of K: for float32 that is faster, and only sums of
    64 terms are rounded to float32.
    """
    part = np.empty(stop - start, K.dtype)
    for first in range(0, len(rows), 64):
        part[:] = 0
        for r in range(first, min(first + 64, len(rows))):
            c = coefficients[r]
            row = K[rows[r], start:stop]
            for t in range(len(part)):
                part[t] += c * row[t]
        for t in range(len(part)):
            field[start + t] += part[t]
