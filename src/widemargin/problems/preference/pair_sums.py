"""Sum over all pairs of rows of different rank without forming the pairs.

Rows are sorted by (group, f). For every row the loop sums a vector over the lower-ranked rows of
the same group whose f lies in a window below its own. The window moves down with the row, so each
row enters and leaves it once; what is inside is kept summed up by rank. A handful of ranks are
prefix sums in a small table, more of them a Fenwick tree: O(n log(ranks)) after the sort.

The mirrored sums over higher-ranked rows are the same loop on (-f, reversed ranks, reversed rows).

There are as many dual variables as comparable pairs, too many to hold. A dual point is therefore
given by the utilities that place the pairs and by the few pairs near the kink of the loss; what
the objectives need of it are sums, :class:`PairSums`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

FEW_RANKS = 8  # up to which updating all higher prefixes is faster than climbing a tree


@dataclass(frozen=True, eq=False)
class Listed:
    """Some pairs, by their rows, with their dual variables."""

    upper: IntArray
    lower: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Dual variables of all pairs, given by few numbers.

    Attributes
    ----------
    f : ndarray of shape (n_rows,)
        Utilities that place the pairs: z = 1 - (f_i - f_j).
    width : float
        Hinge: mu, the variable of a pair rises from 0 to its cap while z rises from 0 to mu. With
        `listed`: pairs with z > mu are at their cap, pairs with z <= -mu are zero, and those
        between are listed. Not used by the squared hinge, whose variable is 2 C s_i s_j z_+.
    listed : Listed, optional
        Every pair with -mu < z <= mu.
    """

    f: FloatArray
    width: float = 0.0
    listed: Listed | None = None


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over the pairs of a dual point, and the loss and its curvature at the utilities.

    Attributes
    ----------
    C, squared : float, bool
        The loss.
    rows : SortedRows
        The rows, sorted by the utilities of the point.
    point : DualPoint
        The dual point.
    beta : ndarray of shape (n_rows,)
        Expansion coefficients.
    total : float
        The dual objective without its norm.
    loss : float
        C times the loss of all pairs at the utilities of the point.
    smoothed : float
        The same of the smoothed loss (nan for a point with listed pairs, which has none).
    """

    C: float
    squared: bool
    rows: SortedRows
    point: DualPoint
    beta: FloatArray
    total: float
    loss: float
    smoothed: float = np.nan

    def curvature(self, width: float, ramp: float | None = None) -> Curvature:
        """Return the second derivative of the smoothed loss, see :class:`Curvature`."""
        return Curvature(self.rows, self.C, self.squared, width, ramp)


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

    f rises within each group, and code is the rank within it, 0 .. ranks - 1; starts has the first
    row of each group, and n. values and out have the shape (n, k). far may be infinite.
    """
    # Invariant: table sums the values of rows entering + 1 .. leaving of group g by rank. Both
    # ends only move down, for the slack of a row rises as i moves down.
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
    """Rows sorted by (group, utility), and sums over the partners of every row."""

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

    def n_pairs(self, near: float, far: float) -> float:
        """Return the number of pairs with a slack in a window, in units of the mean weight."""
        pairs = float(self.weight @ self.over_lower(self.weight[:, None], near, far)[:, 0])
        return pairs / float(self.weight.mean()) ** 2

    def scattered(self, values: FloatArray) -> FloatArray:
        """Return values in the order of the problem's rows."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def zone_slacks(self, width: float) -> FloatArray:
        """Return for each row the slack of its pairs in a zone, as upper less as lower row."""
        (_, excess), (_, deficit) = self.slacks(0.0, width)
        return self.scattered(self.weight * (excess - deficit))

    def pairs_near_kink(self, width: float, most: int) -> tuple[IntArray, IntArray] | None:
        """Return the rows (upper, lower) of the pairs with -width < z <= width, None if > most."""
        upper, lower = np.empty(most, np.intp), np.empty(most, np.intp)
        found = pairs_near(self.f, self.code, self.starts, -width, width, upper, lower)
        if found > most:
            return None
        return self.order[upper[:found]], self.order[lower[:found]]

    def sums(self, point: DualPoint, C: float, *, squared: bool) -> PairSums:
        """Return the sums of a dual point whose utilities these rows are sorted by."""
        if point.listed is not None and not squared:
            return self._listed_sums(point, point.listed, C)
        (above, excess), (below, deficit) = self.slacks(0.0, np.inf)
        loss = float(self.weight @ excess)
        if squared:
            slope, total = 2.0 * (excess - deficit), 2.0 * loss
            # Of utilities far apart, rounding may leave less than nothing.
            loss = max(0.0, self._sum_of_squares(excess, deficit))
            total -= loss
            smoothed = loss
        else:
            slope, total, less = self._ramp(point.width, above, below)
            smoothed = loss - less
        beta = self.scattered(C * self.weight * slope)
        return PairSums(C, squared, self, point, beta, C * total, C * loss, C * smoothed)

    def _ramp(
        self, width: float, above: FloatArray, below: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """Return sums of min(z_+ / width, 1): lower less higher partners, and over all pairs.

        Also by how much the smoothed loss is less than the hinge: z - z^2 / (2 width) in the
        zone, width / 2 beyond.
        """
        if width <= 0:
            return above - below, float(self.weight @ above), 0.0
        (near, excess), (near_higher, deficit) = self.slacks(0.0, width)
        beyond = 0.5 * width * float(self.weight @ (above - near))
        within = float(self.weight @ excess)
        less = beyond + within - 0.5 * self._sum_of_squares(excess, deficit) / width
        above = above - near + excess / width
        below = below - near_higher + deficit / width
        return above - below, float(self.weight @ above), less

    def _sum_of_squares(self, excess: FloatArray, deficit: FloatArray) -> float:
        """Return the sum of s_i s_j z^2: sum z less sum z (f_i - f_j), the last over rows."""
        across = float((self.weight * (excess - deficit)) @ self.f)
        return float(self.weight @ excess) - across

    def _listed_sums(self, point: DualPoint, listed: Listed, C: float) -> PairSums:
        ((_, excess), _) = self.slacks(0.0, np.inf)
        (above, _), (below, _) = self.slacks(point.width, np.inf)
        beta = C * self.scattered(self.weight * (above - below))
        beta += np.bincount(listed.upper, listed.values, len(beta))
        beta -= np.bincount(listed.lower, listed.values, len(beta))
        total = C * float(self.weight @ above) + float(listed.values.sum())
        return PairSums(C, False, self, point, beta, total, C * float(self.weight @ excess))


class Curvature:
    """C L at some utilities: the Laplacian L of the graph of the pairs where the loss is curved.

    These are the pairs in a zone of some width (squared hinge: with any slack); ramp, the width by
    default, is the slack over which their variables rise to the cap. L is never formed: its
    products are sweeps over the sorted rows.
    """

    def __init__(
        self, rows: SortedRows, C: float, squared: bool, width: float, ramp: float | None = None
    ) -> None:
        self.rows = rows
        self.far = np.inf if squared else width
        self.scale = C * (2.0 if squared else 1.0 / (ramp or width))

    @cached_property
    def diagonal(self) -> FloatArray:
        """The diagonal of C L, rows sorted."""
        weight = self.rows.weight[:, None]
        partners = self.rows.over_lower(weight, 0.0, self.far)
        partners += self.rows.over_higher(weight, 0.0, self.far)
        return self.scale * self.rows.weight * partners[:, 0]

    def times(self, v: FloatArray) -> FloatArray:
        """Return C L v."""
        rows = self.rows
        v = v[rows.order]
        moved = (rows.weight * v)[:, None]
        across = rows.over_lower(moved, 0.0, self.far) + rows.over_higher(moved, 0.0, self.far)
        return rows.scattered(self.diagonal * v - self.scale * rows.weight * across[:, 0])

    def gram(self, features: FloatArray) -> FloatArray:
        """Return C Phi' L Phi: half of each pair's share, from its upper row, and its mirror."""
        rows, diagonal = self.rows, self.diagonal
        phi = features[rows.order]
        half = rows.over_lower(rows.weight[:, None] * phi, 0.0, self.far)
        half *= (-self.scale * rows.weight)[:, None]
        half += (0.5 * diagonal)[:, None] * phi
        product = phi.T @ half
        return np.asarray(product + product.T)
