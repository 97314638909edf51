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
    length2 = t.size2[index] if kind == 1 else 0.0
    for a in range(t.tally[SIZE]):
        length2 += t.size2[t.columns[a]] * t.step[a] ** 2
    if kind == 1:
        t.edge[index] = length2
    for j in range(len(t.edge)):
        ratio = t.row[j] / exact
        # No edge is shorter than its own coefficient's part; rounding could make it negative.
        t.edge[j] = max(t.edge[j] + ratio * (ratio * length2 - 2.0 * t.tilt[j]), t.size2[j])
    if kind == 1:
        t.edge[index] = length2
    if leave >= 0:
        j = t.columns[leave]
        t.edge[j] = max(length2 / exact**2, t.size2[j])


@jit(fast=True)
def move_multipliers(
    t: State, kind: int, index: int, sign: float, enter: int, exact: float
) -> None:
    """Update multipliers and reduced costs for the new basis.

    The reduced cost of an entering coefficient becomes 0; the multiplier of a released row reaches
    its bound.
    """
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
def exchange(
    t: State, kind: int, index: int, sign: float, enter: int, leave: int, exact: float
) -> None:
    """Change I, J and the inverse by one of four rank-one updates."""
    p = t.tally[SIZE]
    if kind == 1:
        for a in range(p):  # minus the inverse times the entering column
            t.step[a] *= sign
    else:
        for a in range(p):
            t.step[a] = t.inverse[a, index]
    # Margins, multipliers and coefficients that reached a bound are set to it, free of rounding.
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
def _subtract_product(t: State, exact: float) -> None:
    """Subtract step across' / exact from the inverse."""
    p = t.tally[SIZE]
    for a in range(p):
        factor = t.step[a] / exact
        for b in range(p):
            t.inverse[a, b] -= factor * t.across[b]


@jit(fast=True)
def _grow(t: State, column: int, row: int, exact: float) -> None:
    """Add a coefficient and a tight row to the basis."""
    p = t.tally[SIZE]
    _subtract_product(t, exact)
    for a in range(p):
        t.inverse[a, p] = t.step[a] / exact
    for b in range(p):
        t.inverse[p, b] = -t.across[b] / exact
    t.inverse[p, p] = 1.0 / exact
    t.columns[p], t.tight[p], t.place[column] = column, row, p
    t.tally[SIZE] = p + 1


@jit(fast=True)
def _swap_column(t: State, column: int, leave: int, exact: float) -> None:
    """Replace a basic coefficient by another one."""
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
    """Replace a tight row by another one."""
    p = t.tally[SIZE]
    t.across[index] = 0.0  # column `index` of the inverse is set below
    _subtract_product(t, exact)
    for a in range(p):
        t.inverse[a, index] = t.step[a] / exact
    t.tight[index] = row


@jit(fast=True)
def _shrink(t: State, index: int, leave: int, exact: float) -> None:
    """Remove a tight row and a coefficient; the last ones take their positions."""
    p = t.tally[SIZE]
    _subtract_product(t, exact)
    last = p - 1
    for b in range(p):
        t.inverse[leave, b] = t.inverse[last, b]
    for a in range(p):
        t.inverse[a, index] = t.inverse[a, last]
    t.columns[leave], t.tight[index] = t.columns[last], t.tight[last]
    if leave != last:
        t.place[t.columns[leave]] = leave
    t.tally[SIZE] = last
