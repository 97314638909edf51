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

from widemargin._base.double_double import CHARGE, U, add
from widemargin._base.enclosure import Enclosure
from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from widemargin.problems.preference import PreferenceProblem

READS = 64  # nodes of a Fenwick tree that a sum reads, at most


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
    def utility(self) -> Enclosure:
        """Utilities, without an error."""
        return Enclosure(self.hi, self.lo, np.zeros_like(self.hi))

    @cached_property
    def mass(self) -> FloatArray:
        """Weight of each sample's group, rounded up."""
        return np.bincount(self.group, self.weight)[self.group] * (1.0 + 1e-6)

    @property
    def pair_mass(self) -> float:
        """Upper bound of the weight of all pairs."""
        return float(self.weight @ self.mass) * (1.0 + 1e-6)

    def first(self, level: float) -> IntArray:
        """Return the first position of each sample's window of slacks above a level."""
        out = np.empty(len(self.hi), np.intp)
        first_partners(self.hi, self.lo, self.starts, level, out)
        return out

    def over_lower(self, values: Enclosure, first: IntArray) -> Enclosure:
        """Sum values, of shape (n, k), over the lower-ranked samples in each window."""
        hi, lo = np.zeros_like(values.hi), np.zeros_like(values.hi)
        trees = first, self.code, self.starts, self.ranks
        partner_sums(*trees, values.hi, values.lo, hi, lo)
        return self._with_errors(values, hi, lo)

    def over_higher(self, values: Enclosure, first: IntArray) -> Enclosure:
        """Sum values over the higher-ranked samples whose windows contain each sample.

        The same loop runs over the reversed samples with reversed ranks.
        """
        n = len(first)
        ranks = self.ranks[::-1].copy()
        starts = n - self.starts[::-1]
        code = np.repeat(ranks, np.diff(starts)) - 1 - self.code[::-1]
        beyond = np.searchsorted(first, np.arange(n), side="right")
        hi, lo = np.zeros_like(values.hi), np.zeros_like(values.hi)
        turned = np.ascontiguousarray(values.hi[::-1]), np.ascontiguousarray(values.lo[::-1])
        partner_sums((n - beyond)[::-1].copy(), code, starts, ranks, *turned, hi, lo)
        return self._with_errors(values, hi[::-1], lo[::-1])

    def _with_errors(self, values: Enclosure, hi: FloatArray, lo: FloatArray) -> Enclosure:
        """Return sums with the rounding errors of as many additions as a group has samples."""
        unit = CHARGE * U * U * (np.diff(self.starts) + READS) * (1.0 + 1e-6)
        error = np.empty_like(hi)
        for c in range(hi.shape[1]):
            size = np.bincount(self.group, np.abs(values.hi[:, c]))
            own = np.bincount(self.group, values.error[:, c])
            error[:, c] = ((unit * size + own) * (1.0 + 1e-6))[self.group]
        return Enclosure(hi, lo, error)

    def moments(self, level: float) -> Moments:
        """Return the sums over the pairs with a slack above a level."""
        first, v = self.first(level), self.utility
        weight = Enclosure.exact(self.weight)
        moment = weight * v
        parts = ((weight.hi, moment.hi), (weight.lo, moment.lo), (weight.error, moment.error))
        columns = Enclosure(*(np.stack(part, axis=1) for part in parts))
        lower, higher = self.over_lower(columns, first), self.over_higher(columns, first)
        above, below = lower[:, 0], higher[:, 0]
        excess = above * (1.0 - v) + lower[:, 1]
        deficit = below * (1.0 + v) - higher[:, 1]
        return Moments(above, excess, below, deficit)

    def partners(self, level: float) -> FloatArray:
        """Return the weight of the partners of each sample above a level, rounded up."""
        first, weight = self.first(level), Enclosure.exact(self.weight[:, None])
        both = self.over_lower(weight, first) + self.over_higher(weight, first)
        return np.asarray(both.upper()[:, 0])

    def squares(self, sums: Moments) -> Enclosure:
        """Return the weighted sum of squared slacks: sum s z^2 = sum s z - sum s z (v_i - v_j)."""
        across = (sums.excess - sums.deficit) * self.utility
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
def partner_sums(first, code, starts, ranks, high, low, out, rest):  # type: ignore[no-untyped-def]
    """Write to out + rest the sums of high + low over the lower ranks from position `first` on."""
    k = high.shape[1]
    table = np.zeros((ranks.max() + 1, 2 * k))
    for g in range(len(ranks)):
        q = ranks[g]
        table[: q + 1] = 0.0
        entering = starts[g + 1] - 1
        for i in range(starts[g + 1] - 1, starts[g] - 1, -1):
            while entering >= first[i]:
                node = code[entering] + 1
                while node <= q:
                    for c in range(k):
                        table[node, c], table[node, k + c] = add(
                            table[node, c], table[node, k + c], high[entering, c], low[entering, c]
                        )
                    node += node & -node
                entering -= 1
            node = code[i]
            while node > 0:
                for c in range(k):
                    out[i, c], rest[i, c] = add(
                        out[i, c], rest[i, c], table[node, c], table[node, k + c]
                    )
                node -= node & -node


@jit
def scatter(place, high, low, out, rest):  # type: ignore[no-untyped-def]
    """Add high + low to out + rest at the given places."""
    for k in range(len(place)):
        i = place[k]
        out[i], rest[i] = add(out[i], rest[i], high[k], low[k])
