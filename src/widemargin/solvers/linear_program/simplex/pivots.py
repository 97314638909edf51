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

# State and invariants. All functions work in place on one `State`, t, with p = tally[SIZE],
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
    for count in range(most):
        if t.tally[SIZE] + 1 >= len(t.columns):
            return GO_ON  # the caller has to enlarge the arrays of the basis
        if count == 0 and first >= 0:
            kind, index, sign = 1, first, 1.0 if t.pull[first] > 0 else -1.0
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
    # The edges of tight rows are columns of the inverse: computing their lengths needs p^2
    # operations and no weights to update.
    length = t.undo
    length[:p] = 0.0
    for a in range(p):
        size2 = t.size2[t.columns[a]]
        for b in range(p):
            length[b] += size2 * t.inverse[a, b] ** 2
    for b in range(p):
        i = t.tight[b]
        if t.cost[i] == np.inf and t.lower[i] == -np.inf:
            continue  # the border row is an equation: its multiplier may have any sign
        slope = max(-t.z[i], t.z[i] - t.cost[i])
        if slope > tol_z * min(t.cost[i], 1.0) and slope * slope > best * length[b]:
            best = slope * slope / length[b]
            kind, index, sign = 2, b, 1.0 if t.z[i] < 0 else -1.0
    return kind, index, sign


@jit(fast=True)
def pivot(t: State, kind: int, index: int, sign: float, trust: float, least: float) -> int:
    """Step along one edge and change the basis; the vertex changes only if GO_ON is returned.

    The pivot element is computed from its column and from its row of the tableau; if the two differ
    by more than `trust`, relatively, the inverse has to be recomputed. Pivots that gain no more
    than `least` count as degenerate.
    """
    if kind == 1 and t.slot[index] < 0:
        t.which[0], t.tally[WANTED] = index, 1
        return ROWS_WANTED
    slope = set_out(t, kind, index, sign)
    enter, leave, length, passed = walk(t, kind, index, sign, slope)
    if length == np.inf:
        return UNBOUNDED
    if _missing(t, kind, index, enter, passed):
        return ROWS_WANTED
    # The pivot element by its row of the tableau, and by the column of the ratio test.
    exact = _tableau_row(t, kind, index, sign, enter, leave)
    seen = t.move[enter] * sign if enter >= 0 else (t.step[leave] * sign if leave >= 0 else exact)
    if abs(exact - seen) > trust * abs(seen):
        return INACCURATE
    t.tally[FLAT] = 0 if -slope * length > least else t.tally[FLAT] + 1
    t.tally[PIVOTS] += 1
    _advance(t, kind, index, sign, length)
    if enter < 0 and leave < 0:  # a bound flip; set the bound exactly
        t.alpha[index] = t.upper[index] if sign > 0 else t.lower[index]
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
    if kind == 1:  # cached, but loading the others must not evict it
        t.which[needed] = index
        needed += 1
    t.tally[WANTED] = needed
    return True


@jit(fast=True)
def _tableau_row(t: State, kind: int, index: int, sign: float, enter: int, leave: int) -> float:
    """Compute the leaving variable's tableau row over I, `across`, and `turn`; return the pivot.

    The leaving variable is the margin of the row `enter` or a basic coefficient. Over the nonbasic
    coefficients its row is row - across' A[I], which `_combine_tight` completes.
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
    """Update coefficients and margins for the step length."""
    for a in range(t.tally[SIZE]):
        t.alpha[t.columns[a]] += length * t.step[a]
    if kind == 1:
        t.alpha[index] += sign * length
    for i in range(len(t.margin)):
        t.margin[i] += length * t.move[i]


@jit(fast=True)
def _pass_kinks(t: State, passed: int) -> None:
    """Switch the multipliers of the rows passed between 0 and w; correct z[I] for it.

    `undo`, the correction, keeps pull[J] = 0; `_combine_tight` adds its effect to `pull`.
    """
    for k in range(passed):
        i = t.which[k]
        value = t.cost[i] if t.side[i] == ABOVE else 0.0
        t.times[k] = value - t.z[i]
        t.z[i] = value
        t.side[i] = BELOW if t.side[i] == ABOVE else ABOVE
    add_rows(t.store, t.slot, t.which, t.times, passed, t.pull)
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
    """Add undo' A[I] to pull and -across' A[I] to row, set tilt to -turn' A[I].

    All three in one pass over the rows of I, so that each row is read from memory once.
    """
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
