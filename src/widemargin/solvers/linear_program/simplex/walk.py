r"""Long-step ratio test along an edge of the program in `linear_program.simplex.state`.

The objective is convex and piecewise linear along an edge: its slope increases by the cost of a row
at the breakpoint where the row's margin crosses its right-hand side. The step ends where the slope
is no longer negative or where a basic coefficient reaches its bound (for least absolute deviations:
Barrodale and Roberts 1973). Breakpoints are taken from a heap, because most are never reached.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray
from widemargin.solvers.linear_program.simplex.state import ABOVE, BELOW, ROOM, SIZE, State

TINY = 1e-9  # pivot tolerance of the ratio test, relative to the largest entry of the direction
NOISE = 1e-12  # rounding error of a change of margin, relative to the terms of its sum
STRETCH = 1024  # columns per block: the block stays in the L1 cache while rows are added up


@jit(fast=True)
def set_out(t: State, kind: int, index: int, sign: float) -> float:
    """Compute the changes of alpha[J] and of the margins per unit step; return the slope."""
    tally, store, slot, inverse, tight, step = t.tally, t.store, t.slot, t.inverse, t.tight, t.step
    move, pull, z, cost, columns = t.move, t.pull, t.z, t.cost, t.columns
    p = tally[SIZE]
    if kind == 1:
        column = store[slot[index]]
        for a in range(p):
            total = 0.0
            for b in range(p):
                total += inverse[a, b] * column[tight[b]]
            step[a] = -sign * total
        for i in range(len(move)):
            move[i] = sign * column[i]
        slope = -sign * pull[index]
    else:
        i = tight[index]
        for a in range(p):
            step[a] = sign * inverse[a, index]
        move[:] = 0.0
        slope = z[i] if sign > 0 else cost[i] - z[i]
    add_rows(store, slot, columns, step, p, move)
    for b in range(p):  # tight rows stay tight along the edge; remove the rounding residual
        move[tight[b]] = 0.0
    if kind == 2:
        move[tight[index]] = sign
    return slope


@jit(fast=True)
def add_rows(
    store: FloatArray, slot: IntArray, which: IntArray, factor: FloatArray, p: int, out: FloatArray
) -> None:
    """Add sum_a factor_a store[slot[which_a]] to `out`, four rows at a time."""
    N = len(out)
    for start in range(0, N, STRETCH):
        end = min(start + STRETCH, N)
        a = 0
        while a + 4 <= p:
            r0, r1 = store[slot[which[a]]], store[slot[which[a + 1]]]
            r2, r3 = store[slot[which[a + 2]]], store[slot[which[a + 3]]]
            f0, f1, f2, f3 = factor[a], factor[a + 1], factor[a + 2], factor[a + 3]
            for k in range(start, end):
                out[k] += f0 * r0[k] + f1 * r1[k] + f2 * r2[k] + f3 * r3[k]
            a += 4
        while a < p:
            r0, f0 = store[slot[which[a]]], factor[a]
            for k in range(start, end):
                out[k] += f0 * r0[k]
            a += 1


@jit(fast=True)
def walk(t: State, kind: int, index: int, sign: float, slope: float) -> tuple[int, int, float, int]:
    """Return (enter, leave, step length, number of breakpoints passed) of the long-step ratio test.

    `enter` is the row that becomes tight, `leave` the position in J of the coefficient that reaches
    its bound; -1 for none, and both -1 if the entering coefficient itself reaches its other bound.
    The rows of the breakpoints passed are in `which`.
    """
    move, side, aim, margin, times, which = t.move, t.side, t.aim, t.margin, t.times, t.which
    cost, tally = t.cost, t.tally
    leave, end = _first_bound(t, kind, index, sign)
    least = _least_move(t, kind, index)
    found = 0
    for i in range(len(move)):
        change = move[i]
        if abs(change) <= least:
            continue
        if (change > 0 and side[i] == BELOW) or (change < 0 and side[i] == ABOVE):
            time = max(0.0, (aim[i] - margin[i]) / change)
            if time <= end:
                times[found], which[found] = time, i
                found += 1
    for k in range(found // 2 - 1, -1, -1):
        _sink(times, which, k, found)
    heap = found
    while heap > 0:
        i, time = which[0], times[0]
        slope += cost[i] * abs(move[i])
        heap -= 1
        times[0], which[0] = times[heap], which[heap]
        times[heap], which[heap] = time, i
        _sink(times, which, 0, heap)
        # The rows passed must fit into the cache together. Stopping at an earlier breakpoint is
        # valid: it also gives a vertex, and the slope up to it is negative.
        if slope >= 0 or found - heap > tally[ROOM]:
            for k in range(heap + 1, found):  # move the rows taken off the heap to the front
                which[k - heap - 1] = which[k]
            return i, -1, time, found - heap - 1
    return -1, leave, end, found


@jit(fast=True)
def _first_bound(t: State, kind: int, index: int, sign: float) -> tuple[int, float]:
    """Return the basic coefficient that reaches a bound first (-1: the entering one) and the step.

    Of equal steps the largest pivot is taken, for stability.
    """
    upper, alpha, lower, tally, step = t.upper, t.alpha, t.lower, t.tally, t.step
    columns = t.columns
    leave, end = -1, np.inf
    if kind == 1:
        own = upper[index] - alpha[index] if sign > 0 else alpha[index] - lower[index]
        end = max(0.0, own)
    largest = 0.0
    p = tally[SIZE]
    for a in range(p):
        largest = max(largest, abs(step[a]))
    for a in range(p):
        j, change = columns[a], step[a]
        if abs(change) <= TINY * largest:
            continue
        room = upper[j] - alpha[j] if change > 0 else alpha[j] - lower[j]
        time = max(0.0, room) / abs(change)
        if time < end or (time == end and leave >= 0 and abs(change) > abs(step[leave])):
            leave, end = a, time
    return leave, end


@jit(fast=True)
def _least_move(t: State, kind: int, index: int) -> float:
    """Return the pivot tolerance for rows: the smallest change of a margin that is not rounding.

    Along a column that depends linearly on those of the basis (always so with a linear kernel, once
    the basis is large enough) margins change by rounding only, and a row that became tight there
    would make the basis singular.
    """
    move, size2, tally, step, columns = t.move, t.size2, t.tally, t.step, t.columns
    largest = 0.0
    for i in range(len(move)):
        largest = max(largest, abs(move[i]))
    parts = np.sqrt(size2[index]) if kind == 1 else 0.0
    for a in range(tally[SIZE]):
        parts += abs(step[a]) * np.sqrt(size2[columns[a]])
    return max(TINY * largest, NOISE * parts)


@jit(fast=True)
def _sink(times: FloatArray, which: IntArray, k: int, size: int) -> None:
    """Restore the heap order (smallest breakpoint on top) below entry k."""
    while True:
        child = 2 * k + 1
        if child >= size:
            return
        if child + 1 < size and times[child + 1] < times[child]:
            child += 1
        if times[k] <= times[child]:
            return
        times[k], times[child] = times[child], times[k]
        which[k], which[child] = which[child], which[k]
        k = child
