r"""Primal simplex pivots for the piecewise linear program in `linear_program.simplex.state`.

At a vertex the margins of the tight rows I equal b_I, the multipliers z of the other rows are 0
(margin above b) or w (below), and z_I follows from (A z)_J = p_J. The vertex is optimal if
0 <= z_I <= w_I and (A z)_j <= p_j for nonbasic coefficients at 0 (>= at their upper bound).
Otherwise a pivot consists of

- pricing: a nonbasic coefficient enters, or a tight row is released to the side that the sign of
  its multiplier indicates, whichever edge is steepest (Forrest and Goldfarb 1992; updating the
  lengths of all edges costs one product and halves the number of pivots or more);
- the ratio test: step along the edge until the objective rises or a basic coefficient reaches its
  bound (:mod:`widemargin.solvers.linear_program.simplex.walk`);
- the basis change: the row or coefficient that blocked the step is exchanged
  (`linear_program.simplex.exchange`).

Each pivot reads the rows of J once and those of I once: 2 |I| N numbers.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit
from widemargin.solvers.linear_program.simplex.exchange import (
    exchange,
    lengthen_edges,
    move_multipliers,
)
from widemargin.solvers.linear_program.simplex.state import (
    ABOVE,
    BELOW,
    FLAT,
    PIVOTS,
    SIZE,
    WANTED,
    State,
)
from widemargin.solvers.linear_program.simplex.walk import STRETCH, add_rows, set_out, walk

# Return codes: the vertex is optimal; go on with the next pivot; load the rows in
# which[:tally[WANTED]] and repeat the pivot; recompute the inverse; the program is unbounded.
DONE, GO_ON, ROWS_WANTED, INACCURATE, UNBOUNDED = 0, 1, 2, 3, 4

# State and invariants. All functions work in place on one `State`, t (first bound to local names:
# each use of an attribute takes time to compile), with p = tally[SIZE],
# I = tight[:p] and J = columns[:p]. An edge is (kind, index, sign): kind 1, the nonbasic
# coefficient `index` enters and changes by `sign`; kind 2, the tight row I[index] is released, to
# margins above (+1) or below (-1) b. A step is blocked by `enter`, a row that becomes tight, or by
# `leave`, the position in J of a coefficient that reaches its bound; if both are -1, the entering
# coefficient flips from one bound to the other.
#
# Between two pivots, up to rounding:
#   inverse[:p, :p] = A[I, J]^-1;  place[J] = 0..p-1 and -1 elsewhere;  slot[I], slot[J] >= 0;
#   margin = A alpha, margin[I] = aim[I];  nonbasic alpha are at a bound (not while a warm start is
#   pushed into the basis);
#   side[i] is TIGHT on I, else the side of margin[i]; z[i] = 0 above, cost[i] below;
#   pull = A z - price, pull[J] = 0;  edge[j] is the squared length of the edge of a nonbasic j.
# Within a pivot, in this order: step = change of alpha[J] and move = change of margins per unit
# step; which[:passed] = rows whose breakpoints were passed, row = the leaving variable's row of the
# tableau (complete after _combine_tight), across = its part over I, turn and tilt = inner products
# of edges over I and over all coefficients, undo = change of z[I] that restores pull[J] = 0.
# Only these, `times` and tally[WANTED] are written before the pivot is accepted, so that a pivot
# that returns another code than GO_ON can be repeated.


@jit(fast=True)
def run(
    t: State, most: int, tol: float, tol_z: float, trust: float, least: float, first: int
) -> int:
    """Pivot at most `most` times, until the vertex is optimal to tol or the caller has to act.

    The coefficient `first` enters first, unless it is -1.
    """
    tally, columns, pull = t.tally, t.columns, t.pull
    for count in range(most):
        if tally[SIZE] + 1 >= len(columns):
            return GO_ON  # the caller has to enlarge the arrays of the basis
        if count == 0 and first >= 0:
            kind, index, sign = 1, first, 1.0 if pull[first] > 0 else -1.0
        else:
            kind, index, sign = _choose(t, tol, tol_z)
        if kind == 0:
            return DONE
        code = pivot(t, kind, index, sign, trust, least)
        if code != GO_ON:
            return code
    return GO_ON


@jit(fast=True)
def _choose(t: State, tol: float, tol_z: float) -> tuple[int, int, float]:
    """Price all edges; return the steepest one as (kind, index, sign), kind 0 if none descends."""
    pull, place, size2, alpha, upper, lower = t.pull, t.place, t.size2, t.alpha, t.upper, t.lower
    edge, tally, undo, columns, inverse = t.edge, t.tally, t.undo, t.columns, t.inverse
    tight, cost, z = t.tight, t.cost, t.z
    kind, index, sign, best = 0, 0, 0.0, 0.0
    for j in range(len(pull)):
        gain = pull[j]
        if place[j] >= 0 or gain * gain <= tol * tol * size2[j]:
            continue
        room = alpha[j] < upper[j] if gain > 0 else alpha[j] > lower[j]
        if room and gain * gain > best * edge[j]:
            best = gain * gain / edge[j]
            kind, index, sign = 1, j, np.sign(gain)
    p = tally[SIZE]
    # The edges of tight rows are columns of the inverse: computing their lengths needs p^2
    # operations and no weights to update.
    length = undo
    length[:p] = 0.0
    for a in range(p):
        scale = size2[columns[a]]
        for b in range(p):
            length[b] += scale * inverse[a, b] ** 2
    for b in range(p):
        i = tight[b]
        if cost[i] == np.inf and lower[i] == -np.inf:
            continue  # the border row is an equation: its multiplier may have any sign
        slope = max(-z[i], z[i] - cost[i])
        if slope > tol_z * min(cost[i], 1.0) and slope * slope > best * length[b]:
            best = slope * slope / length[b]
            kind, index, sign = 2, b, 1.0 if z[i] < 0 else -1.0
    return kind, index, sign


@jit(fast=True)
def pivot(t: State, kind: int, index: int, sign: float, trust: float, least: float) -> int:
    """Step along one edge and change the basis; the vertex changes only if GO_ON is returned.

    The pivot element is computed from its column and from its row of the tableau; if the two differ
    by more than `trust`, relatively, the inverse has to be recomputed. Pivots that gain no more
    than `least` count as degenerate.
    """
    slot, which, tally, move, step, alpha = t.slot, t.which, t.tally, t.move, t.step, t.alpha
    upper, lower = t.upper, t.lower
    if kind == 1 and slot[index] < 0:
        which[0], tally[WANTED] = index, 1
        return ROWS_WANTED
    slope = set_out(t, kind, index, sign)
    enter, leave, length, passed = walk(t, kind, index, sign, slope)
    if length == np.inf:
        return UNBOUNDED
    if _missing(t, kind, index, enter, passed):
        return ROWS_WANTED
    # The pivot element by its row of the tableau, and by the column of the ratio test.
    exact = _tableau_row(t, kind, index, sign, enter, leave)
    seen = move[enter] * sign if enter >= 0 else (step[leave] * sign if leave >= 0 else exact)
    if abs(exact - seen) > trust * abs(seen):
        return INACCURATE
    tally[FLAT] = 0 if -slope * length > least else tally[FLAT] + 1
    tally[PIVOTS] += 1
    _advance(t, kind, index, sign, length)
    if enter < 0 and leave < 0:  # a bound flip; set the bound exactly
        alpha[index] = upper[index] if sign > 0 else lower[index]
    _pass_kinks(t, passed)
    _combine_tight(t)
    lengthen_edges(t, kind, index, leave, exact)
    if enter >= 0 or leave >= 0:
        move_multipliers(t, kind, index, sign, enter, exact)
        exchange(t, kind, index, sign, enter, leave, exact)
    return GO_ON


@jit
def _missing(t: State, kind: int, index: int, enter: int, passed: int) -> bool:
    """Return whether rows needed by the pivot are not cached; list all of them in `which`."""
    which, slot, tally = t.which, t.slot, t.tally
    wanted = 0
    needed = passed if enter < 0 else passed + 1
    for k in range(needed):
        i = enter if k == passed else which[k]
        if slot[i] < 0:
            wanted += 1
    if wanted == 0:
        return False
    if enter >= 0:
        which[passed] = enter
    if kind == 1:  # cached, but loading the others must not evict it
        which[needed] = index
        needed += 1
    tally[WANTED] = needed
    return True


@jit(fast=True)
def _tableau_row(t: State, kind: int, index: int, sign: float, enter: int, leave: int) -> float:
    """Compute the leaving variable's tableau row over I, `across`, and `turn`; return the pivot.

    The leaving variable is the margin of the row `enter` or a basic coefficient. Over the nonbasic
    coefficients its row is row - across' A[I], which `_combine_tight` completes.
    """
    tally, across, turn, row, store, slot = t.tally, t.across, t.turn, t.row, t.store, t.slot
    columns, size2, step, inverse, tight = t.columns, t.size2, t.step, t.inverse, t.tight
    p = tally[SIZE]
    across[:p] = 0.0
    turn[:p] = 0.0
    row[:] = 0.0
    if enter >= 0:
        found = store[slot[enter]]
        for j in range(len(row)):
            row[j] = found[j]
    for a in range(p):
        j = columns[a]
        weight = row[j] if enter >= 0 else 0.0
        tilt = size2[j] * step[a] * sign
        for b in range(p):
            across[b] += weight * inverse[a, b]
            turn[b] += tilt * inverse[a, b]
    if enter < 0 and leave >= 0:
        for b in range(p):
            across[b] = inverse[leave, b]
    if kind == 2:
        return across[index]
    if enter < 0 and leave < 0:
        return 1.0
    exact = row[index]
    column = store[slot[index]]
    for b in range(p):
        exact -= across[b] * column[tight[b]]
    return exact


@jit(fast=True)
def _advance(t: State, kind: int, index: int, sign: float, length: float) -> None:
    """Update coefficients and margins for the step length."""
    tally, alpha, columns, step, margin = t.tally, t.alpha, t.columns, t.step, t.margin
    move = t.move
    for a in range(tally[SIZE]):
        alpha[columns[a]] += length * step[a]
    if kind == 1:
        alpha[index] += sign * length
    for i in range(len(margin)):
        margin[i] += length * move[i]


@jit(fast=True)
def _pass_kinks(t: State, passed: int) -> None:
    """Switch the multipliers of the rows passed between 0 and w; correct z[I] for it.

    `undo`, the correction, keeps pull[J] = 0; `_combine_tight` adds its effect to `pull`.
    """
    which, cost, side, times, z, store = t.which, t.cost, t.side, t.times, t.z, t.store
    slot, pull, tally, undo, columns = t.slot, t.pull, t.tally, t.undo, t.columns
    inverse, tight = t.inverse, t.tight
    for k in range(passed):
        i = which[k]
        value = cost[i] if side[i] == ABOVE else 0.0
        times[k] = value - z[i]
        z[i] = value
        side[i] = BELOW if side[i] == ABOVE else ABOVE
    add_rows(store, slot, which, times, passed, pull)
    p = tally[SIZE]
    undo[:p] = 0.0
    for a in range(p):
        rest = pull[columns[a]]
        for b in range(p):
            undo[b] -= rest * inverse[a, b]
    for b in range(p):
        z[tight[b]] += undo[b]


@jit(fast=True)
def _combine_tight(t: State) -> None:
    """Add undo' A[I] to pull and -across' A[I] to row, set tilt to -turn' A[I].

    All three in one pass over the rows of I, so that each row is read from memory once.
    """
    pull, tally, store, slot, tight, undo = t.pull, t.tally, t.store, t.slot, t.tight, t.undo
    across, turn, row, tilt = t.across, t.turn, t.row, t.tilt
    N, p = len(pull), tally[SIZE]
    tilt[:] = 0.0
    for start in range(0, N, STRETCH):
        end = min(start + STRETCH, N)
        b = 0
        while b + 2 <= p:
            r0, r1 = store[slot[tight[b]]], store[slot[tight[b + 1]]]
            u0, u1, a0, a1 = undo[b], undo[b + 1], across[b], across[b + 1]
            s0, s1 = turn[b], turn[b + 1]
            for k in range(start, end):
                pull[k] += u0 * r0[k] + u1 * r1[k]
                row[k] -= a0 * r0[k] + a1 * r1[k]
                tilt[k] -= s0 * r0[k] + s1 * r1[k]
            b += 2
        while b < p:
            r0, u0, a0, s0 = store[slot[tight[b]]], undo[b], across[b], turn[b]
            for k in range(start, end):
                pull[k] += u0 * r0[k]
                row[k] -= a0 * r0[k]
                tilt[k] -= s0 * r0[k]
            b += 1
