"""Basis change of a pivot: update multipliers, steepest-edge weights, basis and its inverse.

The inverse of A[I, J] changes by one of four rank-one updates: a coefficient and a row are added, a
coefficient or a row is replaced by another, or a row and a coefficient are removed.
"""

from __future__ import annotations

from widemargin._base.jit import jit
from widemargin.solvers.linear_program.simplex.state import ABOVE, BELOW, SIZE, TIGHT, State

# State and invariants: those of `simplex.pivots`. The functions are called in the order of this
# file, after alpha and margin were moved and z, pull and side updated for the breakpoints passed;
# `exact` is the pivot element, row and across are complete. `lengthen_edges` and `move_multipliers`
# need I, J and the inverse of the old basis, so `exchange` comes last; it restores the invariants.
# Its updates use step = -A[I, J]^-1 A[I, index] for kind 1, and column `index` of the inverse for
# kind 2.


@jit(fast=True)
def lengthen_edges(t: State, kind: int, index: int, leave: int, exact: float) -> None:
    """Update the steepest-edge weights of the coefficients (tight rows do not store theirs)."""
    size2, tally, columns, step, edge, row = t.size2, t.tally, t.columns, t.step, t.edge, t.row
    tilt = t.tilt
    length2 = size2[index] if kind == 1 else 0.0
    for a in range(tally[SIZE]):
        length2 += size2[columns[a]] * step[a] ** 2
    if kind == 1:
        edge[index] = length2
    for j in range(len(edge)):
        ratio = row[j] / exact
        # No edge is shorter than its own coefficient's part; rounding could make it negative.
        edge[j] = max(edge[j] + ratio * (ratio * length2 - 2.0 * tilt[j]), size2[j])
    if kind == 1:
        edge[index] = length2
    if leave >= 0:
        j = columns[leave]
        edge[j] = max(length2 / exact**2, size2[j])


@jit(fast=True)
def move_multipliers(
    t: State, kind: int, index: int, sign: float, enter: int, exact: float
) -> None:
    """Update multipliers and reduced costs for the new basis.

    The reduced cost of an entering coefficient becomes 0; the multiplier of a released row reaches
    its bound.
    """
    pull, tight, cost, z, row, tally = t.pull, t.tight, t.cost, t.z, t.row, t.tally
    across = t.across
    if kind == 1:
        change = -pull[index] / exact
    else:
        i = tight[index]
        bound = 0.0 if sign > 0 else cost[i]
        change = (z[i] - bound) / exact
    for j in range(len(pull)):
        pull[j] += change * row[j]
    for b in range(tally[SIZE]):
        z[tight[b]] -= change * across[b]
    if enter >= 0:
        z[enter] += change


@jit(fast=True)
def exchange(
    t: State, kind: int, index: int, sign: float, enter: int, leave: int, exact: float
) -> None:
    """Change I, J and the inverse by one of four rank-one updates."""
    tally, step, inverse, margin, aim, side = t.tally, t.step, t.inverse, t.margin, t.aim, t.side
    tight, z, cost, columns, alpha, lower = t.tight, t.z, t.cost, t.columns, t.alpha, t.lower
    upper, place = t.upper, t.place
    p = tally[SIZE]
    if kind == 1:
        for a in range(p):  # minus the inverse times the entering column
            step[a] *= sign
    else:
        for a in range(p):
            step[a] = inverse[a, index]
    # Margins, multipliers and coefficients that reached a bound are set to it, free of rounding.
    if enter >= 0:
        margin[enter] = aim[enter]
        side[enter] = TIGHT
    if kind == 2:
        i = tight[index]
        side[i] = ABOVE if sign > 0 else BELOW
        z[i] = 0.0 if sign > 0 else cost[i]
    if leave >= 0:
        j = columns[leave]
        low = abs(alpha[j] - lower[j]) <= abs(alpha[j] - upper[j])
        alpha[j] = lower[j] if low else upper[j]
        place[j] = -1
    if kind == 1 and enter >= 0:
        _grow(t, index, enter, exact)
    elif kind == 1:
        _swap_column(t, index, leave, exact)
    elif enter >= 0:
        _swap_row(t, index, enter, exact)
    else:
        _shrink(t, index, leave, exact)


@jit(fast=True)
def _subtract_product(t: State, exact: float) -> None:
    """Subtract step across' / exact from the inverse."""
    tally, step, inverse, across = t.tally, t.step, t.inverse, t.across
    p = tally[SIZE]
    for a in range(p):
        factor = step[a] / exact
        for b in range(p):
            inverse[a, b] -= factor * across[b]


@jit(fast=True)
def _grow(t: State, column: int, row: int, exact: float) -> None:
    """Add a coefficient and a tight row to the basis."""
    tally, inverse, step, across, columns = t.tally, t.inverse, t.step, t.across, t.columns
    tight, place = t.tight, t.place
    p = tally[SIZE]
    _subtract_product(t, exact)
    for a in range(p):
        inverse[a, p] = step[a] / exact
    for b in range(p):
        inverse[p, b] = -across[b] / exact
    inverse[p, p] = 1.0 / exact
    columns[p], tight[p], place[column] = column, row, p
    tally[SIZE] = p + 1


@jit(fast=True)
def _swap_column(t: State, column: int, leave: int, exact: float) -> None:
    """Replace a basic coefficient by another one."""
    tally, inverse, across, step, columns = t.tally, t.inverse, t.across, t.step, t.columns
    place = t.place
    p = tally[SIZE]
    for b in range(p):
        inverse[leave, b] = -across[b] / exact
    for a in range(p):
        if a != leave:
            for b in range(p):
                inverse[a, b] += step[a] * inverse[leave, b]
    columns[leave], place[column] = column, leave


@jit(fast=True)
def _swap_row(t: State, index: int, row: int, exact: float) -> None:
    """Replace a tight row by another one."""
    tally, across, inverse, step, tight = t.tally, t.across, t.inverse, t.step, t.tight
    p = tally[SIZE]
    across[index] = 0.0  # column `index` of the inverse is set below
    _subtract_product(t, exact)
    for a in range(p):
        inverse[a, index] = step[a] / exact
    tight[index] = row


@jit(fast=True)
def _shrink(t: State, index: int, leave: int, exact: float) -> None:
    """Remove a tight row and a coefficient; the last ones take their positions."""
    tally, inverse, columns, tight, place = t.tally, t.inverse, t.columns, t.tight, t.place
    p = tally[SIZE]
    _subtract_product(t, exact)
    last = p - 1
    for b in range(p):
        inverse[leave, b] = inverse[last, b]
    for a in range(p):
        inverse[a, index] = inverse[a, last]
    columns[leave], tight[index] = columns[last], tight[last]
    if leave != last:
        place[columns[leave]] = leave
    tally[SIZE] = last
