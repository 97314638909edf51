"""Compiled loops of sequential minimal optimisation: pair steps on one working set.

The caller recomputes everything it reports, so these loops may reorder sums (``fast=True``). Scores
and kernel block are float32 or float64; steps and variables are always float64.

Working arrays have shape (n_chunks, LANES). A search for the best of q candidates keeps one
running maximum per lane: elementwise arithmetic, which compilers vectorise, unlike a plain argmax.
The variables of threshold group 0 occupy the first `border` chunks, those of group 1 the remaining
ones; the padding at the end of each group has equal bounds and is never selected.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit

LANES = 128


@jit(fast=True)
def _descend(score, row_i, row_j, step, bar_up, bar_down, start, stop, top, bottom):
    """Subtract step * (row_i - row_j) from the scores of chunks start..stop - 1.

    Fused with the search for the next pair: `top` becomes, per lane, the highest score of a
    variable that can increase, `bottom` the lowest score of one that can decrease.
    """
    for c in range(start, stop):
        s = score[c]
        ri = row_i[c]
        rj = row_j[c]
        up = bar_up[c]
        down = bar_down[c]
        # Each loop writes one array: with more, the vectoriser's runtime checks for overlapping
        # arrays cost more than the arithmetic.
        for t in range(LANES):
            s[t] -= step * (ri[t] - rj[t])
        for t in range(LANES):
            x = s[t] - up[t]
            top[t] = x if x > top[t] else top[t]
        for t in range(LANES):
            x = s[t] + down[t]
            bottom[t] = x if x < bottom[t] else bottom[t]


@jit(fast=True)
def _gains(score, row, diagonal, own, highest, bar_down, tau, tiny, start, stop, best):
    """Compute, per lane, the largest second-order gain of a pair with the variable of row."""
    nothing = tau - tau  # a zero in the precision of the scores: a literal would be float64
    for c in range(start, stop):
        s = score[c]
        r = row[c]
        q = diagonal[c]
        down = bar_down[c]
        for t in range(LANES):
            # Branch-free, so that the loop vectorises: barred variables have d = 0.
            d = highest - s[t] - down[t]
            d = d if d > nothing else nothing
            both = own + q[t]
            floor = tau * both + tiny
            curve = both - r[t] - r[t]
            curve = curve if curve > floor else floor
            gain = d * d / curve
            best[t] = gain if gain > best[t] else best[t]


@jit(fast=True)
def _riser(score, bar_up, top, start, stop):
    """Return the position of the highest score that can increase, given the maxima per lane."""
    lane = 0
    for t in range(1, LANES):
        if top[t] > top[lane]:
            lane = t
    # The maxima do not include positions; only one lane has to be searched for it.
    for c in range(start, stop):
        if score[c, lane] - bar_up[c, lane] >= top[lane]:
            return c * LANES + lane
    return -1


@jit(fast=True)
def _faller(score, row, diagonal, own, highest, bar_down, tau, tiny, start, stop, best):
    """Return the position of the best partner, given the gains per lane; -1 if there is none."""
    lane = 0
    for t in range(1, LANES):
        if best[t] > best[lane]:
            lane = t
    # The gains are recomputed rather than compared with best[lane]: reordered arithmetic need
    # not give the same bits in two loops.
    winner = -1
    most = best[lane] - best[lane]
    for c in range(start, stop):
        d = highest - score[c, lane] - bar_down[c, lane]
        both = own + diagonal[c, lane]
        floor = tau * both + tiny
        curve = both - row[c, lane] - row[c, lane]
        curve = curve if curve > floor else floor
        if d > tau - tau and d * d / curve > most:
            most = d * d / curve
            winner = c * LANES + lane
    return winner


@jit(fast=True)
def sweep(kernel, diagonal, lower, upper, alpha, score, border, limits, max_steps):
    """Take at most max_steps pair steps on a working set.

    kernel (q, n_chunks, LANES): kernel block, ridge on its diagonal. diagonal, score
    (n_chunks, LANES). lower, upper, alpha (q,). alpha and score are changed in place. limits:
    smallest curvature of a pair relative to its diagonal (tau) and absolutely (tiny), a number
    larger than all scores (huge), the KKT violation at which to stop (tol).
    Returns the number of steps and the gain of the dual objective.
    """
    # Invariant between two steps: alpha is up to date, the scores lag behind by one step, the one
    # of length `move` that increased i and decreased j. _descend applies it in the same loop that
    # searches for the next pair, so the scores are read once per step. bar_up and bar_down are 0
    # where a variable can increase or decrease and `huge` where it cannot, so that a search over
    # all variables never selects a barred one. Steps preserve the sum of each group.
    tau, tiny, huge, tol = limits[0], limits[1], limits[2], limits[3]
    n_chunks = score.shape[0]
    bar_up = np.zeros_like(score)
    bar_down = np.zeros_like(score)
    flat_up = bar_up.reshape(-1)
    flat_down = bar_down.reshape(-1)
    flat_score = score.reshape(-1)
    flat_diagonal = diagonal.reshape(-1)
    for t in range(len(alpha)):
        flat_up[t] = 0 if alpha[t] < upper[t] else huge
        flat_down[t] = 0 if alpha[t] > lower[t] else huge
    top = np.empty(LANES, score.dtype)
    bottom = np.empty(LANES, score.dtype)
    best = np.empty(LANES, score.dtype)
    i = 0
    j = 0
    move = tau - tau  # nothing to apply before the first step; zero in the precision of the scores
    steps = 0
    gained = 0.0
    while True:
        violation = tau - tau
        most = tau - tau
        next_i = -1
        next_j = -1
        for g in range(2):
            start = 0 if g == 0 else border
            stop = border if g == 0 else n_chunks
            if start == stop:
                continue
            top[:] = -huge
            bottom[:] = huge
            # Both groups are updated, whichever one the last pair belongs to.
            _descend(score, kernel[i], kernel[j], move, bar_up, bar_down, start, stop, top, bottom)
            high = top.max()
            overlap = high - bottom.min()
            violation = overlap if overlap > violation else violation
            if overlap <= tol:
                continue
            p = _riser(score, bar_up, top, start, stop)
            best[:] = 0
            own = flat_diagonal[p]
            _gains(score, kernel[p], diagonal, own, high, bar_down, tau, tiny, start, stop, best)
            gain = best.max()
            if gain > most:
                q = _faller(
                    score, kernel[p], diagonal, own, high, bar_down, tau, tiny, start, stop, best
                )
                if q >= 0:
                    most = gain
                    next_i = p
                    next_j = q
        # Checked after the update, so that the scores are complete on return.
        if next_i < 0 or steps >= max_steps:
            break
        i = next_i
        j = next_j
        # The step itself is computed in float64: alpha accumulates the steps of a whole run.
        cross = np.float64(kernel[i, j // LANES, j % LANES])
        both = np.float64(flat_diagonal[i]) + np.float64(flat_diagonal[j])
        floor = tau * both + tiny
        curve = both - 2.0 * cross
        curve = curve if curve > floor else floor
        slope = np.float64(flat_score[i]) - np.float64(flat_score[j])
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
        move = score.dtype.type(step)
        flat_up[i] = 0 if alpha[i] < upper[i] else huge
        flat_down[i] = 0 if alpha[i] > lower[i] else huge
        flat_up[j] = 0 if alpha[j] < upper[j] else huge
        flat_down[j] = 0 if alpha[j] > lower[j] else huge
        steps += 1
    return steps, gained


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
