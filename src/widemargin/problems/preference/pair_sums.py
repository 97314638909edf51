"""Sums over all pairs of samples of different rank, in O(n log n) without forming the pairs.

Samples are sorted by (group, f). For every sample the loop sums a vector over the lower-ranked
samples of the same group whose f is in a window below its own. The window moves down with the
sample, so each sample enters and leaves it once; sums over the window are kept by rank, as prefix
sums in a small table for a few ranks, else in a Fenwick tree: O(n log(ranks)) after the sort.

Sums over higher-ranked samples use the same loop on (-f, reversed ranks, reversed samples).

The dual variables of all comparable pairs are too many to store. A dual point is therefore given by
the utilities, from which they are computed, and by a list of the few pairs near the kink of the
loss; the objectives depend on it through sums only, see :class:`PairSums`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

FEW_RANKS = 8  # up to this number, updating all prefix sums is faster than a Fenwick tree


@dataclass(frozen=True, eq=False)
class Listed:
    """Index pairs with their dual variables."""

    upper: IntArray
    lower: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Implicit representation of the dual variables of all pairs.

    Attributes
    ----------
    f : ndarray of shape (n_rows,)
        Utilities that define the slacks z = 1 - (f_i - f_j).
    width : float
        Smoothing width mu of the hinge: the variable of a pair rises from 0 to its cap as z rises
        from 0 to mu. With `listed`, pairs with z > mu are at their cap, pairs with z <= -mu are
        zero, and the others are listed. Not used by the squared hinge, whose variable is
        2 C s_i s_j z_+.
    listed : Listed, optional
        All pairs with -mu < z <= mu.
    """

    f: FloatArray
    width: float = 0.0
    listed: Listed | None = None


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over the pairs of a dual point, with the loss at its utilities.

    Attributes
    ----------
    C, squared : float, bool
        Cost, and whether the hinge is squared.
    rows : SortedRows
        Samples sorted by the utilities of the point.
    point : DualPoint
        The dual point.
    beta : ndarray of shape (n_rows,)
        Expansion coefficients.
    total : float
        Dual objective without the norm term.
    loss : float
        C times the loss of all pairs at the utilities of the point.
    smoothed : float
        C times the smoothed loss.
    """

    C: float
    squared: bool
    rows: SortedRows
    point: DualPoint
    beta: FloatArray
    total: float
    loss: float
    smoothed: float

    def curvature(self, width: float, ramp: float | None = None) -> Curvature:
        """Return the Hessian of the smoothed loss, see :class:`Curvature`."""
        return Curvature(self.rows, self.C, self.squared, width, ramp)


@jit
def _change(table: Any, code: Any, ranks: Any, values: Any, row: Any, sign: Any) -> None:
    """Add sign * values[row] to the prefix sums of all ranks above code."""
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
    """Write the sum over the ranks below code to out[row]."""
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
    """Write to out[i] the sum of values[j] over lower-ranked j with near < 1 - (f_i - f_j) <= far.

    f increases within each group, and code is the rank within it, 0 .. ranks - 1; starts has the
    first index of each group, and n. values and out have shape (n, k). far may be infinite.
    """
    # Invariant: table holds sums by rank over the samples entering + 1 .. leaving of group g. Both
    # ends only move down, because the slack of a fixed j rises as i moves down.
    most = 0
    for g in range(len(ranks)):
        most = max(most, ranks[g])
    table = np.empty((most + 1, values.shape[1]))
    for g in range(len(ranks)):
        first = starts[g]
        q = ranks[g]
        table[: q + 1] = 0.0
        entering = starts[g + 1] - 1
        leaving = entering
        for i in range(starts[g + 1] - 1, first - 1, -1):
            # Subtract f first, so that the mirrored loop has the same rounding errors.
            while entering >= first and 1.0 - (f[i] - f[entering]) > near:
                _change(table, code[entering], q, values, entering, 1.0)
                entering -= 1
            while leaving > entering and 1.0 - (f[i] - f[leaving]) > far:
                _change(table, code[leaving], q, values, leaving, -1.0)
                leaving -= 1
            _read(table, code[i], q, out, i)


@jit
def by_group(order: Any, group: Any, place: Any, out: Any) -> None:
    """Sort indices by group, stably, by one step of a radix sort.

    `place` is the first position of each group, and is changed.
    """
    for k in range(len(order)):
        g = group[order[k]]
        out[place[g]] = order[k]
        place[g] += 1


@jit
def renumber(group: Any, codes: Any, order: Any, code: Any, ranks: Any) -> None:
    """Renumber the codes of each group from 0; order sorts samples by (group, code)."""
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

    len(upper) + 1 is returned if there are too many pairs, or too many candidates to examine.
    """
    found = 0
    looks_left = 64 * (len(upper) + len(f))  # bounds the work on candidates of higher or equal rank
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
    """Samples sorted by (group, utility), with sums over the partners of each sample."""

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
        """Return (f, code, starts, ranks) with utilities, ranks and order of samples reversed."""
        ranks = self.ranks[::-1].copy()
        starts = len(self.f) - self.starts[::-1]
        code = np.repeat(ranks, np.diff(starts)) - 1 - self.code[::-1]
        return -self.f[::-1], code, starts, ranks

    def over_lower(self, values: FloatArray, near: float, far: float) -> FloatArray:
        """Sum values over lower-ranked samples j of each i with near < 1 - (f_i - f_j) <= far."""
        out = np.empty_like(values)
        window_sums(self.f, self.code, values, self.starts, self.ranks, near, far, out)
        return out

    def over_higher(self, values: FloatArray, near: float, far: float) -> FloatArray:
        """Sum values over higher-ranked samples j of each i with near < 1 - (f_j - f_i) <= far."""
        f, code, starts, ranks = self._mirrored
        values = np.ascontiguousarray(values[::-1])
        out = np.empty_like(values)
        window_sums(f, code, values, starts, ranks, near, far, out)
        return out[::-1]

    def slacks(self, near: float, far: float) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the total weight and the weighted slack of lower, then higher partners."""
        for sums, f in ((self.over_lower, self.f), (self.over_higher, -self.f)):
            weight, moment = sums(np.stack([self.weight, self.weight * f], axis=1), near, far).T
            yield weight, weight * (1.0 - f) + moment

    def n_pairs(self, near: float, far: float) -> float:
        """Return the number of pairs with near < slack <= far, in units of squared mean weight."""
        pairs = float(self.weight @ self.over_lower(self.weight[:, None], near, far)[:, 0])
        return pairs / float(self.weight.mean()) ** 2

    def scattered(self, values: FloatArray) -> FloatArray:
        """Return values in the original order of the samples."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def zone_slacks(self, width: float) -> FloatArray:
        """Return the net slack of each sample: pairs with 0 < z <= width, upper minus lower."""
        (_, excess), (_, deficit) = self.slacks(0.0, width)
        return self.scattered(self.weight * (excess - deficit))

    def pairs_near_kink(self, width: float, most: int) -> tuple[IntArray, IntArray] | None:
        """Return the index pairs with -width < z <= width, or None if more than `most`."""
        upper, lower = np.empty(most, np.intp), np.empty(most, np.intp)
        found = pairs_near(self.f, self.code, self.starts, -width, width, upper, lower)
        if found > most:
            return None
        return self.order[upper[:found]], self.order[lower[:found]]

    def sums(self, point: DualPoint, C: float, *, squared: bool) -> PairSums:
        """Return the sums of a dual point without a list, sorted by its utilities, in float64."""
        (above, excess), (below, deficit) = self.slacks(0.0, np.inf)
        loss = float(self.weight @ excess)
        if squared:
            slope, total = 2.0 * (excess - deficit), 2.0 * loss
            # For widely spread utilities, rounding may make the difference negative.
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
        """Return sums of min(z_+ / width, 1), and the difference of hinge and smoothed loss.

        The first result has one entry per sample, the sum over lower minus that over higher
        partners; the second is the sum over all pairs. The difference of the losses is
        z - z^2 / (2 width) for a pair with 0 < z <= width, and width / 2 beyond.
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
        """Return sum s_i s_j z^2 = sum s_i s_j z - sum s_i s_j z (f_i - f_j).

        The last sum is taken over samples instead of pairs.
        """
        across = float((self.weight * (excess - deficit)) @ self.f)
        return float(self.weight @ excess) - across


class Curvature:
    """Hessian C L of the smoothed loss, with L the Laplacian of the graph of curved pairs.

    The edges are the pairs with 0 < z <= width (squared hinge: z > 0). `ramp`, by default the
    width, is the slack over which a dual variable rises to its cap. L is never formed: products
    with it are sweeps over the sorted samples.
    """

    def __init__(
        self, rows: SortedRows, C: float, squared: bool, width: float, ramp: float | None = None
    ) -> None:
        self.rows = rows
        self.far = np.inf if squared else width
        self.scale = C * (2.0 if squared else 1.0 / (ramp or width))

    @cached_property
    def diagonal(self) -> FloatArray:
        """Return the diagonal of C L, in sorted order."""
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
        """Return C Phi' L Phi, for features Phi of shape (n_rows, k)."""
        # Each pair contributes from its upper sample only; adding the transpose completes it.
        rows, diagonal = self.rows, self.diagonal
        phi = features[rows.order]
        half = rows.over_lower(rows.weight[:, None] * phi, 0.0, self.far)
        half *= (-self.scale * rows.weight)[:, None]
        half += (0.5 * diagonal)[:, None] * phi
        product = phi.T @ half
        return np.asarray(product + product.T)
