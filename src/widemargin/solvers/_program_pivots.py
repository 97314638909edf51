r"""Pivots of a simplex method for sums of hinges over few basic coefficients.

From vertex to vertex of the program in :mod:`widemargin.solvers._program_state`. At a vertex the
margins of the tight rows I are what is asked, the multipliers z of the others are 0 (above) or w
(below), and those of I follow from (A z)_J = p_J. It is optimal if 0 <= z_I <= w_I and
(A z)_j <= p_j for coefficients at 0 (>= at their upper limit). Otherwise

- the edge with the steepest descent is chosen: a coefficient starts to change, or a row is let go
  to the side its multiplier points to (steepest edge, Forrest and Goldfarb 1992: the lengths of
  all edges are kept up to date, which costs one product and halves the number of pivots or more);
- one walks along it past the kinks of the objective until it rises (long step; for least absolute
  deviations: Barrodale and Roberts 1973) or a basic coefficient meets its bound;
- what stopped the walk takes its place in the basis.

Each pivot reads the rows of J once and those of I once: 2 |I| N numbers.
"""

from __future__ import annotations

import numpy as np

from widemargin._jit import jit
from widemargin._typing import FloatArray, IntArray
from widemargin.solvers._program_state import (
    ABOVE,
    BELOW,
    FLAT,
    PIVOTS,
    ROOM,
    SIZE,
    TIGHT,
    WANTED,
    State,
)

DONE, GO_ON, ROWS_WANTED, INACCURATE, UNBOUNDED = 0, 1, 2, 3, 4
TINY = 1e-9  # relative to the largest of their kind: changes this small stop no walk
NOISE = 1e-12  # relative to the sum that it is left of: rounding
STRETCH = 1024  # columns that stay in the first-level cache while rows are added up


@jit(fast=True)
def run(t: State, most: int, tol: float, tol_z: float, trust: float, least: float) -> int:
    """Take pivots until the vertex is optimal to tol or something has to be done outside."""
    for _ in range(most):
        if t.tally[SIZE] + 1 >= len(t.columns):
            return GO_ON  # the basis may outgrow its arrays
        kind, index, sign = _choose(t, tol, tol_z)
        if kind == 0:
            return DONE
        code = pivot(t, kind, index, sign, trust, least)
        if code != GO_ON:
            return code
    return GO_ON


@jit(fast=True)
def _choose(t: State, tol: float, tol_z: float) -> tuple[int, int, float]:
    """Return the steepest edge: (1, coefficient, direction), (2, position in I, direction)."""
    kind, index, sign, best = 0, 0, 0.0, 0.0
    for j in range(len(t.pull)):
        pull = t.pull[j]
        if t.place[j] >= 0 or pull * pull <= tol * tol * t.size2[j]:
            continue
        room = t.alpha[j] < t.upper[j] if pull > 0 else t.alpha[j] > t.lower[j]
        if room and pull * pull > best * t.edge[j]:
            best = pull * pull / t.edge[j]
            kind, index, sign = 1, j, np.sign(pull)
    p = t.tally[SIZE]
    length = t.undo
    length[:p] = 0.0
    for a in range(p):
        size2 = t.size2[t.columns[a]]
        for b in range(p):
            length[b] += size2 * t.inverse[a, b] ** 2
    for b in range(p):
        i = t.tight[b]
        if t.cost[i] == np.inf and t.lower[i] == -np.inf:
            continue  # the border: its multiplier is free
        slope = max(-t.z[i], t.z[i] - t.cost[i])
        if slope > tol_z * min(t.cost[i], 1.0) and slope * slope > best * length[b]:
            best = slope * slope / length[b]
            kind, index, sign = 2, b, 1.0 if t.z[i] < 0 else -1.0
    return kind, index, sign


@jit(fast=True)
def pivot(t: State, kind: int, index: int, sign: float, trust: float, least: float) -> int:
    """Walk along one edge and change the basis; nothing is changed unless GO_ON is returned.

    The pivot is computed in two ways; a relative difference above trust asks for a new inverse.
    Gains below least are counted as none.
    """
    if kind == 1 and t.slot[index] < 0:
        t.which[0], t.tally[WANTED] = index, 1
        return ROWS_WANTED
    slope = _set_out(t, kind, index, sign)
    enter, leave, length, passed = _walk(t, kind, index, sign, slope)
    if length == np.inf:
        return UNBOUNDED
    if _missing(t, kind, index, enter, passed):
        return ROWS_WANTED
    exact = _tableau_row(t, kind, index, sign, enter, leave)
    seen = t.move[enter] * sign if enter >= 0 else (t.step[leave] * sign if leave >= 0 else exact)
    if abs(exact - seen) > trust * abs(seen):
        return INACCURATE
    t.tally[FLAT] = 0 if -slope * length > least else t.tally[FLAT] + 1
    t.tally[PIVOTS] += 1
    _advance(t, kind, index, sign, length)
    if enter < 0 and leave < 0:
        t.alpha[index] = t.upper[index] if sign > 0 else t.lower[index]
    _pass_kinks(t, passed)
    _combine_tight(t)
    _lengthen_edges(t, kind, index, sign, leave, exact)
    if enter >= 0 or leave >= 0:
        _move_multipliers(t, kind, index, sign, enter, exact)
        _exchange(t, kind, index, sign, enter, leave, exact)
    return GO_ON


@jit(fast=True)
def _set_out(t: State, kind: int, index: int, sign: float) -> float:
    """Fill step (of J) and move (of the margins) for a unit along the edge; return the slope."""
    p = t.tally[SIZE]
    if kind == 1:
        column = t.store[t.slot[index]]
        for a in range(p):
            total = 0.0
            for b in range(p):
                total += t.inverse[a, b] * column[t.tight[b]]
            t.step[a] = -sign * total
        for i in range(len(t.move)):
            t.move[i] = sign * column[i]
        slope = -sign * t.pull[index]
    else:
        i = t.tight[index]
        for a in range(p):
            t.step[a] = sign * t.inverse[a, index]
        t.move[:] = 0.0
        slope = t.z[i] if sign > 0 else t.cost[i] - t.z[i]
    _add_rows(t.store, t.slot, t.columns, t.step, p, t.move)
    for b in range(p):
        t.move[t.tight[b]] = 0.0
    if kind == 2:
        t.move[t.tight[index]] = sign
    return slope


@jit(fast=True)
def _add_rows(
    store: FloatArray, slot: IntArray, which: IntArray, factor: FloatArray, p: int, out: FloatArray
) -> None:
    """out += sum_a factor_a store[slot[which_a]], four rows at a time."""
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
def _walk(
    t: State, kind: int, index: int, sign: float, slope: float
) -> tuple[int, int, float, int]:
    """Return what ends the walk, its length and how many kinks were passed.

    A row or -1, a place in J or -1 (both -1: the moving coefficient itself is at its bound). The
    rows that were passed are listed in `which`.
    """
    leave, end = _first_bound(t, kind, index, sign)
    least = _least_move(t, kind, index)
    found = 0
    for i in range(len(t.move)):
        change = t.move[i]
        if abs(change) <= least:
            continue
        if (change > 0 and t.side[i] == BELOW) or (change < 0 and t.side[i] == ABOVE):
            time = max(0.0, (t.aim[i] - t.margin[i]) / change)
            if time <= end:
                t.times[found], t.which[found] = time, i
                found += 1
    for k in range(found // 2 - 1, -1, -1):
        _sink(t.times, t.which, k, found)
    heap = found
    while heap > 0:
        i, time = t.which[0], t.times[0]
        slope += t.cost[i] * abs(t.move[i])
        heap -= 1
        t.times[0], t.which[0] = t.times[heap], t.which[heap]
        t.times[heap], t.which[heap] = time, i
        _sink(t.times, t.which, 0, heap)
        if slope >= 0 or found - heap > t.tally[ROOM]:  # shorter walks are as valid
            _list_passed(t.which, heap + 1, found)
            return i, -1, time, found - heap - 1
    return -1, leave, end, found


@jit(fast=True)
def _least_move(t: State, kind: int, index: int) -> float:
    """Return how much a margin must change to count: more than rounding, and not next to nothing.

    Along a column that depends on those of the basis (a linear kernel has no others) nothing moves
    but for rounding, and a row that ended the walk would make the basis singular.
    """
    largest = 0.0
    for i in range(len(t.move)):
        largest = max(largest, abs(t.move[i]))
    parts = np.sqrt(t.size2[index]) if kind == 1 else 0.0
    for a in range(t.tally[SIZE]):
        parts += abs(t.step[a]) * np.sqrt(t.size2[t.columns[a]])
    return max(TINY * largest, NOISE * parts)


@jit(fast=True)
def _list_passed(which: IntArray, start: int, end: int) -> None:
    """Move the rows that left the heap to the front."""
    for k in range(start, end):
        which[k - start] = which[k]


@jit(fast=True)
def _sink(times: FloatArray, which: IntArray, k: int, size: int) -> None:
    """Restore the heap (smallest time on top) below entry k."""
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


@jit(fast=True)
def _first_bound(t: State, kind: int, index: int, sign: float) -> tuple[int, float]:
    """Return which basic coefficient meets a bound first (-1: the moving one itself), and when."""
    leave, end = -1, np.inf
    if kind == 1:
        own = t.upper[index] - t.alpha[index] if sign > 0 else t.alpha[index] - t.lower[index]
        end = max(0.0, own)
    largest = 0.0
    p = t.tally[SIZE]
    for a in range(p):
        largest = max(largest, abs(t.step[a]))
    for a in range(p):
        j, change = t.columns[a], t.step[a]
        if abs(change) <= TINY * largest:
            continue
        room = t.upper[j] - t.alpha[j] if change > 0 else t.alpha[j] - t.lower[j]
        time = max(0.0, room) / abs(change)
        if time < end or (time == end and leave >= 0 and abs(change) > abs(t.step[leave])):
            leave, end = a, time
    return leave, end


@jit
def _missing(t: State, kind: int, index: int, enter: int, passed: int) -> bool:
    """Tell whether rows that the pivot needs are not at hand, and list them."""
    wanted = 0
    needed = passed if enter < 0 else passed + 1
    for k in range(needed):
        i = enter if k == passed else t.which[k]
        if t.slot[i] < 0:
            wanted += 1
    if wanted == 0:
        return False
    if enter >= 0:
        t.which[passed] = enter
    if kind == 1:  # it is at hand, and must be still when the others have come
        t.which[needed] = index
        needed += 1
    t.tally[WANTED] = needed
    return True


@jit(fast=True)
def _tableau_row(t: State, kind: int, index: int, sign: float, enter: int, leave: int) -> float:
    """Fill across, the leaving variable's row over I, and turn; return the pivot.

    The leaving variable is the margin of the entering row or a basic coefficient. Over the other
    coefficients its row is row - across' A[I], which the next pass completes.
    """
    p = t.tally[SIZE]
    t.across[:p] = 0.0
    t.turn[:p] = 0.0
    t.row[:] = 0.0
    if enter >= 0:
        found = t.store[t.slot[enter]]
        for j in range(len(t.row)):
            t.row[j] = found[j]
    for a in range(p):
        j = t.columns[a]
        weight = t.row[j] if enter >= 0 else 0.0
        tilt = t.size2[j] * t.step[a] * sign
        for b in range(p):
            t.across[b] += weight * t.inverse[a, b]
            t.turn[b] += tilt * t.inverse[a, b]
    if enter < 0 and leave >= 0:
        for b in range(p):
            t.across[b] = t.inverse[leave, b]
    if kind == 2:
        return t.across[index]
    if enter < 0 and leave < 0:
        return 1.0
    exact = t.row[index]
    column = t.store[t.slot[index]]
    for b in range(p):
        exact -= t.across[b] * column[t.tight[b]]
    return exact


@jit(fast=True)
def _advance(t: State, kind: int, index: int, sign: float, length: float) -> None:
    """Change coefficients and margins."""
    for a in range(t.tally[SIZE]):
        t.alpha[t.columns[a]] += length * t.step[a]
    if kind == 1:
        t.alpha[index] += sign * length
    for i in range(len(t.margin)):
        t.margin[i] += length * t.move[i]


@jit(fast=True)
def _pass_kinks(t: State, passed: int) -> None:
    """Turn the multipliers of the rows that were passed, and prepare what I has to make good."""
    for k in range(passed):
        i = t.which[k]
        value = t.cost[i] if t.side[i] == ABOVE else 0.0
        t.times[k] = value - t.z[i]
        t.z[i] = value
        t.side[i] = BELOW if t.side[i] == ABOVE else ABOVE
    _add_rows(t.store, t.slot, t.which, t.times, passed, t.pull)
    p = t.tally[SIZE]
    t.undo[:p] = 0.0
    for a in range(p):
        rest = t.pull[t.columns[a]]
        for b in range(p):
            t.undo[b] -= rest * t.inverse[a, b]
    for b in range(p):
        t.z[t.tight[b]] += t.undo[b]


@jit(fast=True)
def _combine_tight(t: State) -> None:
    """Add undo' A[I] to pull and -across' A[I] to row, set tilt to -turn' A[I], in one pass."""
    N, p = len(t.pull), t.tally[SIZE]
    pull, row, tilt = t.pull, t.row, t.tilt
    tilt[:] = 0.0
    for start in range(0, N, STRETCH):
        end = min(start + STRETCH, N)
        b = 0
        while b + 2 <= p:
            r0, r1 = t.store[t.slot[t.tight[b]]], t.store[t.slot[t.tight[b + 1]]]
            u0, u1, a0, a1 = t.undo[b], t.undo[b + 1], t.across[b], t.across[b + 1]
            s0, s1 = t.turn[b], t.turn[b + 1]
            for k in range(start, end):
                pull[k] += u0 * r0[k] + u1 * r1[k]
                row[k] -= a0 * r0[k] + a1 * r1[k]
                tilt[k] -= s0 * r0[k] + s1 * r1[k]
            b += 2
        while b < p:
            r0, u0, a0, s0 = t.store[t.slot[t.tight[b]]], t.undo[b], t.across[b], t.turn[b]
            for k in range(start, end):
                pull[k] += u0 * r0[k]
                row[k] -= a0 * r0[k]
                tilt[k] -= s0 * r0[k]
            b += 1


@jit(fast=True)
def _lengthen_edges(t: State, kind: int, index: int, sign: float, leave: int, exact: float) -> None:
    """Bring the squared lengths of the edges up to date (of rows in I they are computed)."""
    length2 = t.size2[index] if kind == 1 else 0.0
    for a in range(t.tally[SIZE]):
        length2 += t.size2[t.columns[a]] * t.step[a] ** 2
    if kind == 1:
        t.edge[index] = length2
    for j in range(len(t.edge)):
        ratio = t.row[j] / exact
        t.edge[j] = max(t.edge[j] + ratio * (ratio * length2 - 2.0 * t.tilt[j]), t.size2[j])
    if kind == 1:
        t.edge[index] = length2
    if leave >= 0:
        j = t.columns[leave]
        t.edge[j] = max(length2 / exact**2, t.size2[j])


@jit(fast=True)
def _move_multipliers(
    t: State, kind: int, index: int, sign: float, enter: int, exact: float
) -> None:
    """Bring the pull of the entering coefficient to 0, or the multiplier let go to its bound."""
    if kind == 1:
        change = -t.pull[index] / exact
    else:
        i = t.tight[index]
        bound = 0.0 if sign > 0 else t.cost[i]
        change = (t.z[i] - bound) / exact
    for j in range(len(t.pull)):
        t.pull[j] += change * t.row[j]
    for b in range(t.tally[SIZE]):
        t.z[t.tight[b]] -= change * t.across[b]
    if enter >= 0:
        t.z[enter] += change


@jit(fast=True)
def _exchange(
    t: State, kind: int, index: int, sign: float, enter: int, leave: int, exact: float
) -> None:
    """Change I, J and the inverse: one of four rank-one updates."""
    p = t.tally[SIZE]
    if kind == 1:
        for a in range(p):  # minus the inverse times the entering column
            t.step[a] *= sign
    else:
        for a in range(p):
            t.step[a] = t.inverse[a, index]
    if enter >= 0:
        t.margin[enter] = t.aim[enter]
        t.side[enter] = TIGHT
    if kind == 2:
        i = t.tight[index]
        t.side[i] = ABOVE if sign > 0 else BELOW
        t.z[i] = 0.0 if sign > 0 else t.cost[i]
    if leave >= 0:
        j = t.columns[leave]
        low = abs(t.alpha[j] - t.lower[j]) <= abs(t.alpha[j] - t.upper[j])
        t.alpha[j] = t.lower[j] if low else t.upper[j]
        t.place[j] = -1
    if kind == 1 and enter >= 0:
        _grow(t, index, enter, exact)
    elif kind == 1:
        _swap_column(t, index, leave, exact)
    elif enter >= 0:
        _swap_row(t, index, enter, exact)
    else:
        _shrink(t, index, leave, exact)


@jit(fast=True)
def _grow(t: State, column: int, row: int, exact: float) -> None:
    """One more coefficient, one more tight row."""
    p = t.tally[SIZE]
    for a in range(p):
        factor = t.step[a] / exact
        for b in range(p):
            t.inverse[a, b] -= factor * t.across[b]
        t.inverse[a, p] = factor
    for b in range(p):
        t.inverse[p, b] = -t.across[b] / exact
    t.inverse[p, p] = 1.0 / exact
    t.columns[p], t.tight[p], t.place[column] = column, row, p
    t.tally[SIZE] = p + 1


@jit(fast=True)
def _swap_column(t: State, column: int, leave: int, exact: float) -> None:
    """A coefficient takes the place of another one."""
    p = t.tally[SIZE]
    for b in range(p):
        t.inverse[leave, b] = -t.across[b] / exact
    for a in range(p):
        if a != leave:
            for b in range(p):
                t.inverse[a, b] += t.step[a] * t.inverse[leave, b]
    t.columns[leave], t.place[column] = column, leave


@jit(fast=True)
def _swap_row(t: State, index: int, row: int, exact: float) -> None:
    """A row takes the place of another one."""
    p = t.tally[SIZE]
    t.across[index] = 0.0
    for a in range(p):
        factor = t.step[a] / exact
        for b in range(p):
            t.inverse[a, b] -= factor * t.across[b]
        t.inverse[a, index] = factor
    t.tight[index] = row


@jit(fast=True)
def _shrink(t: State, index: int, leave: int, exact: float) -> None:
    """A row and a coefficient leave; the last ones move into their places."""
    p = t.tally[SIZE]
    for a in range(p):
        factor = t.step[a] / exact
        for b in range(p):
            t.inverse[a, b] -= factor * t.across[b]
    last = p - 1
    for b in range(p):
        t.inverse[leave, b] = t.inverse[last, b]
    for a in range(p):
        t.inverse[a, index] = t.inverse[a, last]
    t.columns[leave], t.tight[index] = t.columns[last], t.tight[last]
    if leave != last:
        t.place[t.columns[leave]] = leave
    t.tally[SIZE] = last
