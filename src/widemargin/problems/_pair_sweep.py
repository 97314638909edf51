"""Sums over all pairs of rows of different rank, without the pairs: the one loop behind them.

Rows are sorted by (group, f). For every row the loop sums a vector over the lower-ranked rows of
the same group whose f lies in a window below its own. The window moves down with the row, so each
row enters and leaves it once; what is inside is kept summed up by rank. A handful of ranks are
prefix sums in a small table, more of them a Fenwick tree: O(n log(ranks)) after the sort.

The mirrored sums over higher-ranked rows are the same loop on (-f, reversed ranks, reversed rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._jit import jit

FEW_RANKS = 8  # up to which updating all higher prefixes is faster than climbing a tree


@jit
def _change(table: Any, code: Any, ranks: Any, values: Any, row: Any, sign: Any) -> None:
    """Add sign * values[row] to what the ranks above code see."""
    k = values.shape[1]
    if ranks <= FEW_RANKS:
        for r in range(code + 1, ranks):
            for c in range(k):
                table[r, c] += sign * values[row, c]
        return
    node = code + 1
    while node <= ranks:
        for c in range(k):
            table[node, c] += sign * values[row, c]
        node += node & -node


@jit
def _read(table: Any, code: Any, ranks: Any, out: Any, row: Any) -> None:
    """Write to out[row] the sum over the ranks below code."""
    k = out.shape[1]
    if ranks <= FEW_RANKS:
        for c in range(k):
            out[row, c] = table[code, c]
        return
    for c in range(k):
        out[row, c] = 0.0
    node = code
    while node > 0:
        for c in range(k):
            out[row, c] += table[node, c]
        node -= node & -node


@jit
def window_sums(
    f: Any, code: Any, values: Any, starts: Any, ranks: Any, near: Any, far: Any, out: Any
) -> None:
    """out[i] = sum of values[j] over j below i in rank with near < 1 - (f_i - f_j) <= far.

    Parameters
    ----------
    f : float64 array of shape (n,)
        Rising within each group.
    code : int array of shape (n,)
        Rank within the group, 0 .. ranks - 1.
    values : float64 array of shape (n, k)
        What is summed.
    starts : int array of shape (n_groups + 1,)
        First row of each group, and n.
    ranks : int array of shape (n_groups,)
        Number of different ranks in each group.
    near, far : float
        The window of slacks; far may be infinite.
    out : float64 array of shape (n, k)
        The sums.
    """
    table = np.zeros((ranks.max() + 1, values.shape[1]))
    for g in range(len(ranks)):
        first = starts[g]
        q = ranks[g]
        table[: q + 1] = 0.0
        entering = starts[g + 1] - 1
        leaving = entering
        for i in range(starts[g + 1] - 1, first - 1, -1):
            # The difference first: it rounds alike when the mirrored loop asks the other row.
            while entering >= first and 1.0 - (f[i] - f[entering]) > near:
                _change(table, code[entering], q, values, entering, 1.0)
                entering -= 1
            while leaving > entering and 1.0 - (f[i] - f[leaving]) > far:
                _change(table, code[leaving], q, values, leaving, -1.0)
                leaving -= 1
            _read(table, code[i], q, out, i)


@jit
def by_group(order: Any, group: Any, starts: Any, out: Any) -> None:
    """Sort rows by group, keeping their order inside each: one step of a radix sort."""
    place = starts[:-1].copy()
    for k in range(len(order)):
        g = group[order[k]]
        out[place[g]] = order[k]
        place[g] += 1


@jit
def local_ranks(group: Any, codes: Any, order: Any, code: Any, ranks: Any) -> None:
    """Number the different codes of each group from 0; order sorts rows by (group, code)."""
    last_group = -1
    last_code = codes[order[0]]
    for k in range(len(order)):
        i = order[k]
        if group[i] != last_group:
            last_group = group[i]
            last_code = codes[i]
            ranks[last_group] = 1
        elif codes[i] != last_code:
            last_code = codes[i]
            ranks[last_group] += 1
        code[i] = ranks[last_group] - 1


@jit
def pairs_near(f: Any, code: Any, starts: Any, low: Any, high: Any, upper: Any, lower: Any) -> Any:
    """Write the pairs (i above j) with low < 1 - (f_i - f_j) <= high; return their number.

    The number may exceed the room in upper and lower, by one: then it only says "too many".
    """
    found = 0
    for g in range(len(starts) - 1):
        begin = starts[g]
        for i in range(starts[g], starts[g + 1]):
            while begin < starts[g + 1] and 1.0 - (f[i] - f[begin]) <= low:
                begin += 1
            j = begin
            while j < starts[g + 1] and 1.0 - (f[i] - f[j]) <= high:
                if code[j] < code[i]:
                    if found == len(upper):
                        return found + 1
                    upper[found] = i
                    lower[found] = j
                    found += 1
                j += 1
    return found
