r"""Sums over all pairs with proved error bounds, in O(n log n).

The utilities are v = hi + lo with about 32 digits, exactly these numbers. Samples are sorted by
(group, v). For a level t the *window* of sample i are the samples of its group from position
`first` on; sums over the lower-ranked samples in the window are sums over the pairs whose slack
1 - (v_i - v_j) exceeds t. A pair is on the wrong side of this decision only if its slack differs
from t by at most `decision_error(t)`: the difference of two sorted utilities and the slack are
double-double sums, whose rounding errors are relative to their results, and windows are monotone.

The sums are kept by rank in Fenwick trees of double-doubles; values enter, but never leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from widemargin._base.double_double import CHARGE, U, add, multiply
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from widemargin.problems.preference import PreferenceProblem

READS = 80  # 64 nodes of a Fenwick tree that a sum reads at most, and a few operations


def decision_error(level: float) -> float:
    """Return by how much a slack can differ from a level if it is on the wrong side of it."""
    return 2.0 * CHARGE * U * U * (1.0 + abs(level))


class Moments(NamedTuple):
    """Sums over the partners of each sample in a window, in sorted order.

    Attributes
    ----------
    above, below : Enclosure
        Weight of the lower-ranked partners, and of the higher-ranked ones.
    excess, deficit : Enclosure
        Weighted slacks of the same partners.
    """

    above: Enclosure
    excess: Enclosure
    below: Enclosure
    deficit: Enclosure


@dataclass(frozen=True, eq=False)
class EnclosedPairs:
    """Samples sorted by (group, utility), with utilities hi + lo.

    Attributes
    ----------
    order : ndarray of int
        Indices of the samples in sorted order.
    hi, lo, weight : ndarray
        Utilities and sample weights, sorted.
    code, starts, ranks : ndarray of int
        As in :class:`~widemargin.problems.preference.pair_sums.SortedRows`.
    """

    order: IntArray
    hi: FloatArray
    lo: FloatArray
    weight: FloatArray
    code: IntArray
    starts: IntArray
    ranks: IntArray

    @classmethod
    def of(
        cls, problem: PreferenceProblem, hi: FloatArray, lo: FloatArray | None = None
    ) -> EnclosedPairs:
        """Sort the samples of a problem by utilities hi + lo."""
        order = problem.order(hi, lo)
        code, ranks = problem.local_ranks
        low = np.zeros(len(hi)) if lo is None else lo[order]
        arrays = hi[order], low, problem.weight[order], code[order]
        return cls(order, *arrays, problem.starts, ranks)

    @cached_property
    def group(self) -> IntArray:
        """Group of each sample, sorted."""
        return np.repeat(np.arange(len(self.ranks)), np.diff(self.starts))

    @cached_property
    def mass(self) -> FloatArray:
        """Weight of each sample's group, rounded up."""
        return np.asarray(np.bincount(self.group, self.weight)[self.group] * (1.0 + 1e-6))

    @property
    def pair_mass(self) -> float:
        """Upper bound of the weight of all pairs."""
        return float(self.weight @ self.mass) * (1.0 + 1e-6)

    def first(self, level: float) -> IntArray:
        """Return the first position of each sample's window of slacks above a level."""
        out = np.empty(len(self.hi), np.intp)
        first_partners(self.hi, self.lo, self.starts, level, out)
        return out

    def moments(self, level: float) -> Moments:
        """Return the sums over the pairs with a slack above a level.

        Sums over higher-ranked partners use the same loop on the reversed samples, with reversed
        ranks and negated utilities.
        """
        first, n = self.first(level), len(self.hi)
        lower, higher = np.zeros((4, n)), np.zeros((4, n))
        trees = first, self.code, self.starts, self.ranks
        window_moments(*trees, self.hi, self.lo, self.weight, lower)
        ranks = self.ranks[::-1].copy()
        starts = n - self.starts[::-1]
        code = np.repeat(ranks, np.diff(starts)) - 1 - self.code[::-1]
        beyond = np.searchsorted(first, np.arange(n), side="right")
        trees = (n - beyond)[::-1].copy(), code, starts, ranks
        turned = (-self.hi[::-1], -self.lo[::-1], self.weight[::-1].copy())
        window_moments(*trees, *turned, higher)
        error = self._errors
        found = [Enclosure(part[k], part[k + 1], error[k // 2])
                 for part in (lower, higher[:, ::-1]) for k in (0, 2)]  # fmt: skip
        return Moments(*found)

    @cached_property
    def _errors(self) -> tuple[FloatArray, FloatArray]:
        """Rounding errors of weights and of weighted slacks of partners.

        A sum has at most as many additions as the group has samples, and the nodes that are read.
        """
        unit = CHARGE * U * U * (np.diff(self.starts) + READS)[self.group] * (1.0 + 1e-6)
        size = np.abs(self.hi)
        moment = np.bincount(self.group, self.weight * size)[self.group]
        slack = unit * (self.mass * (1.0 + size) + moment) * (1.0 + 1e-6)
        dust = DUST * (1.0 + len(size))  # underflow
        return unit * self.mass + dust, slack + dust

    def partners(self, level: float) -> FloatArray:
        """Return the weight of the partners of each sample above a level, rounded up."""
        sums = self.moments(level)
        return np.asarray((sums.above + sums.below).upper())

    def squares(self, sums: Moments) -> Enclosure:
        """Return the weighted sum of squared slacks: sum s z^2 = sum s z - sum s z (v_i - v_j)."""
        utility = Enclosure(self.hi, self.lo, np.zeros_like(self.hi))
        across = (sums.excess - sums.deficit) * utility
        return (sums.excess - across).dot(self.weight)

    def scattered(self, values: Enclosure) -> Enclosure:
        """Return values in the original order of the samples."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        return values[place]


@jit
def exceeds(ah, al, bh, bl, level):  # type: ignore[no-untyped-def]
    """Return whether the slack 1 - (a - b) exceeds a level."""
    dh, dl = add(bh, bl, -ah, -al)
    zh, zl = add(1.0, 0.0, dh, dl)
    return zh > level or (zh == level and zl > 0.0)


@jit
def first_partners(hi, lo, starts, level, out):  # type: ignore[no-untyped-def]
    """Write the first position of each window; see `EnclosedPairs.first`."""
    for g in range(len(starts) - 1):
        place = starts[g + 1]
        for i in range(starts[g + 1] - 1, starts[g] - 1, -1):
            while place > starts[g] and exceeds(hi[i], lo[i], hi[place - 1], lo[place - 1], level):
                place -= 1
            out[i] = place


@jit
def window_moments(first, code, starts, ranks, hi, lo, weight, out):  # type: ignore[no-untyped-def]
    """Write weight and weighted slack of the lower-ranked samples in each window to out.

    The rows of out are two pairs of high and low parts. The table has the same sums of weights and
    of weighted utilities for each node.
    """
    most = 0
    for g in range(len(ranks)):
        most = max(most, ranks[g])
    table = np.empty((most + 1, 4))
    for g in range(len(ranks)):
        q = ranks[g]
        table[: q + 1] = 0.0
        entering = starts[g + 1] - 1
        for i in range(starts[g + 1] - 1, starts[g] - 1, -1):
            while entering >= first[i]:
                s = weight[entering]
                mh, ml = multiply(s, 0.0, hi[entering], lo[entering])
                node = code[entering] + 1
                while node <= q:
                    t = table[node]
                    t[0], t[1] = add(t[0], t[1], s, 0.0)
                    t[2], t[3] = add(t[2], t[3], mh, ml)
                    node += node & -node
                entering -= 1
            sh, sl, mh, ml = 0.0, 0.0, 0.0, 0.0
            node = code[i]
            while node > 0:
                t = table[node]
                sh, sl = add(sh, sl, t[0], t[1])
                mh, ml = add(mh, ml, t[2], t[3])
                node -= node & -node
            vh, vl = add(1.0, 0.0, -hi[i], -lo[i])
            vh, vl = multiply(sh, sl, vh, vl)
            out[0, i], out[1, i] = sh, sl
            out[2, i], out[3, i] = add(vh, vl, mh, ml)


@jit
def scatter(place, high, low, out, rest):  # type: ignore[no-untyped-def]
    """Add high + low to out + rest at the given places."""
    for k in range(len(place)):
        i = place[k]
        out[i], rest[i] = add(out[i], rest[i], high[k], low[k])
