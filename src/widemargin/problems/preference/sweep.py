"""Sums over all pairs of rows of different rank, without the pairs: the one loop behind them.

Rows are sorted by (group, f). For every row the loop sums a vector over the lower-ranked rows of
the same group whose f lies in a window below its own. The window moves down with the row, so each
row enters and leaves it once; what is inside is kept summed up by rank. A handful of ranks are
prefix sums in a small table, more of them a Fenwick tree: O(n log(ranks)) after the sort.

The mirrored sums over higher-ranked rows are the same loop on (-f, reversed ranks, reversed rows).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

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

    The number may exceed the room in upper and lower, by one: then it only says "too many", of
    these or of the rows that would have to be looked at for them.
    """
    found = 0
    looks_left = 64 * (len(upper) + len(f))
    for g in range(len(starts) - 1):
        begin = starts[g]
        for i in range(starts[g], starts[g + 1]):
            while begin < starts[g + 1] and 1.0 - (f[i] - f[begin]) <= low:
                begin += 1
            j = begin if code[i] > 0 else starts[g + 1]
            while j < starts[g + 1] and 1.0 - (f[i] - f[j]) <= high:
                looks_left -= 1
                if looks_left < 0:
                    return len(upper) + 1
                if code[j] < code[i]:
                    if found == len(upper):
                        return found + 1
                    upper[found] = i
                    lower[found] = j
                    found += 1
                j += 1
    return found


class SortedRows:
    """Rows of a problem sorted by (group, utility), and sums over partners of every row."""

    def __init__(
        self,
        f: FloatArray,
        order: IntArray,
        code: IntArray,
        weight: FloatArray,
        starts: IntArray,
        ranks: IntArray,
    ) -> None:
        self.order, self.starts, self.ranks = order, starts, ranks
        self.code, self.weight, self.f = code[order], weight[order], f[order]

    @cached_property
    def _mirrored(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """The same rows seen from above: utilities and ranks change sign, rows their order."""
        ranks = self.ranks[::-1].copy()
        starts = len(self.f) - self.starts[::-1]
        code = np.repeat(ranks, np.diff(starts)) - 1 - self.code[::-1]
        return -self.f[::-1], code, starts, ranks

    def over_lower(self, values: FloatArray, near: float, far: float) -> FloatArray:
        """Sum values over the lower-ranked rows j of each i with near < 1 - (f_i - f_j) <= far."""
        out = np.empty_like(values)
        window_sums(self.f, self.code, values, self.starts, self.ranks, near, far, out)
        return out

    def over_higher(self, values: FloatArray, near: float, far: float) -> FloatArray:
        """Sum values over the higher-ranked rows j with near < 1 - (f_j - f_i) <= far."""
        f, code, starts, ranks = self._mirrored
        values = np.ascontiguousarray(values[::-1])
        out = np.empty_like(values)
        window_sums(f, code, values, starts, ranks, near, far, out)
        return out[::-1]

    def slacks(self, near: float, far: float) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield for lower, then higher partners: their weight, and their slack times weight."""
        for sums, f in ((self.over_lower, self.f), (self.over_higher, -self.f)):
            weight, moment = sums(np.stack([self.weight, self.weight * f], axis=1), near, far).T
            yield weight, weight * (1.0 - f) + moment

    def scattered(self, values: FloatArray) -> FloatArray:
        """Return values in the order of the problem's rows."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def sum_of_squares(self, excess: FloatArray, deficit: FloatArray) -> float:
        """Return the sum of s_i s_j z^2: sum z less sum z (f_i - f_j), the last over rows."""
        across = float((self.weight * (excess - deficit)) @ self.f)
        return float(self.weight @ excess) - across
