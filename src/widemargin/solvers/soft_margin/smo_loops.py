"""Take pair steps of sequential minimal optimisation on one working set, in compiled loops.

They only steer (the caller recomputes what it reports), so sums may be reordered. Scores and
kernel block are float32 or float64; steps and variables are always float64.

Working arrays have shape (n_chunks, LANES). A search for the best of q candidates keeps one
running best per lane: that is elementwise arithmetic, which compilers vectorise, where a plain
argmax is not. The variables of threshold group 0 fill the first `border` chunks, those of
group 1 the rest; the padding at the end of each group is barred from moving.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit

LANES = 128


@jit(fast=True)
def _descend(score, row_i, row_j, step, bar_up, bar_down, start, stop, top, bottom):
    """Subtract step * (row_i - row_j) from the scores of chunks start..stop.

    top and bottom get, per lane, the highest score that may rise and the lowest that may fall.
    """
    for c in range(start, stop):
        s = score[c]
        ri = row_i[c]
        rj = row_j[c]
        up = bar_up[c]
        down = bar_down[c]
        # One array is written per loop: with more, the checks for overlap cost more than the work.
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
    """Second-order gain of pairing the highest score with each one that may fall, per lane."""
    nothing = tau - tau
    for c in range(start, stop):
        s = score[c]
        r = row[c]
        q = diagonal[c]
        down = bar_down[c]
        for t in range(LANES):
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
    """Position of the highest score that may rise, from the per-lane bests."""
    lane = 0
    for t in range(1, LANES):
        if top[t] > top[lane]:
            lane = t
    for c in range(start, stop):
        if score[c, lane] - bar_up[c, lane] >= top[lane]:
            return c * LANES + lane
    return -1


@jit(fast=True)
def _faller(score, row, diagonal, own, highest, bar_down, tau, tiny, start, stop, best):
    """Position of the best partner, from the per-lane gains; -1 where nothing is gained."""
    lane = 0
    for t in range(1, LANES):
        if best[t] > best[lane]:
            lane = t
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
    beyond all scores (huge), the violation to reach (tol).
    Returns the number of steps and what the dual objective gained by them.
    """
    # State between two steps: alpha is up to date; the scores lag behind by one step, the one of
    # length `move` that raises i and lowers j, which _descend applies while it looks for the next
    # pair. bar_up and bar_down are 0 where a variable may rise or fall and `huge` where it may
    # not, so that barred variables never win a search. Steps keep the sum of each group.
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
    move = tau - tau
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
        if next_i < 0 or steps >= max_steps:
            break
        i = next_i
        j = next_j
        cross = np.float64(kernel[i, j // LANES, j % LANES])
        both = np.float64(flat_diagonal[i]) + np.float64(flat_diagonal[j])
        floor = tau * both + tiny
        curve = both - 2.0 * cross
        curve = curve if curve > floor else floor
        slope = np.float64(flat_score[i]) - np.float64(flat_score[j])
        step = slope / curve
        room_up = upper[i] - alpha[i]
        room_down = alpha[j] - lower[j]
        # A variable that reaches its bound is set to it exactly.
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
    """block[p, q] = kernel[rows[p], rows[q]] for p in start..stop."""
    for p in range(start, stop):
        source = kernel[rows[p]]
        target = block[p]
        for q in range(len(rows)):
            target[q] = source[rows[q]]


@jit(fast=True)
def add_rows(K, rows, coefficients, field, start, stop):
    """field[start:stop] += coefficients @ K[rows, start:stop], summed in float64 blocks."""
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
