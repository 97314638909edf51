r"""Decision stumps of least weighted error, by branch and bound over binned features.

A stump predicts `sign` where a feature exceeds a threshold, ``-sign`` elsewhere. Thresholds are the
midpoints between neighbouring values, and minus infinity for the constant. Among stumps whose
errors are within 1e-12 of the least (relative to the total weight), the one of the smallest
feature, then of the smallest threshold, then of sign +1 is chosen.

**Cost of a round.** The masses of both classes in each bin are updated from the samples whose
weights have changed. They determine the error of every cut between bins, and a lower bound on the
error of every cut inside a bin, which cannot move more mass to one side than the bin holds. With
255 bins the bound is within half a percent of the truth, so that an exact search examines a few
bins of a few features, which are sorted when first needed. The search is exact: a bin is skipped
only if its bound exceeds the least error by more than the tolerance for ties.

The histogram search considers the cuts between bins only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from widemargin._base.threads import for_each
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin.solvers.boosting.bins import BinnedColumns, middle
from widemargin.solvers.boosting.loops import (
    BINS,
    add_mass,
    first_between,
    first_inside,
    scan_bins,
    search_inside,
)

TIE = 1e-12  # errors that differ by less than this share of the total weight are equal
PARTS = 4  # of the bins of a feature, each of which may contribute a cut to `price`
MOST_CUTS = 20  # of one call of `price`
WORTH_A_THREAD = 400_000  # entries; with fewer, starting a thread takes longer than the work


class Stump(NamedTuple):
    """Decision stump: `sign` where the feature exceeds the threshold, ``-sign`` elsewhere.

    With a threshold of minus infinity it is constant.
    """

    feature: int
    threshold: float
    sign: int


class StumpLearner:
    """Base learner for :func:`widemargin.solvers.boosting.solve`: stumps of least weighted error.

    Several learners may share the binned columns; the other parameters are as for `stump_learners`.
    """

    def __init__(
        self, columns: BinnedColumns, positive: BoolArray, *, exact: bool, threads: int
    ) -> None:
        n, d = columns.shape
        self.columns, self.positive, self.exact, self.threads = columns, positive, exact, threads
        self.side = positive.astype(np.uint8)
        self.mass = np.zeros(n)
        self.sums = np.zeros((d, 2 * BINS))
        self.signed = np.zeros(n)
        self.everything = np.arange(n, dtype=np.uint32)

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Stump:
        """Return the stump of least weighted error."""
        least, sides = self._least_errors(mass, changed)
        tie = TIE * float(sides.sum())
        goal = min(float(least.min()), float(sides.min())) + tie
        return self._first(least, sides, goal, tie)

    def price(self, mass: FloatArray, above: float) -> tuple[list[Stump], float]:
        """Return stumps of large edge, and the largest edge of all stumps.

        The edge of a stump is 1 - 2 error. The first stump has the largest one; others are the best
        of a quarter of the bins of a feature, where their edges exceed `above`. If mass is in
        multiples of 2**-52 and sums to at most 1, all sums are exact and so is the edge.
        """
        least, sides = self._least_errors(mass, None)
        tie, error = TIE * float(sides.sum()), min(float(least.min()), float(sides.min()))
        best = self._first(least, sides, error + tie, tie)
        found = [best, *self._good_cuts(sides, 0.5 - 0.5 * above)]
        return found, 1.0 - 2.0 * error

    def _good_cuts(self, sides: FloatArray, below: float) -> list[Stump]:
        """Return the best cut between bins in each part of a feature, of an error < `below`."""
        balance = np.cumsum(self.sums[:, BINS:] - self.sums[:, :BINS], axis=1)
        error = np.minimum(sides[0] + balance, sides[1] - balance)
        error[:, :-1][~np.isfinite(self.columns.edges)] = np.inf
        error[:, -1] = np.inf
        parts = error.reshape(len(error), PARTS, BINS // PARTS)
        feature, part = np.nonzero(parts.min(axis=2) < below)
        place = parts.argmin(axis=2)[feature, part] + part * (BINS // PARTS)
        chosen = np.argsort(error[feature, place], kind="stable")[:MOST_CUTS]
        stumps = []
        for f, b in zip(feature[chosen].tolist(), place[chosen].tolist(), strict=True):
            plus = sides[0] + balance[f, b] <= sides[1] - balance[f, b]
            stumps.append(Stump(f, float(self.columns.edges[f, b]), 1 if plus else -1))
        return stumps

    def predictions(self, hypothesis: Stump) -> BoolArray:
        """Return for each training sample whether the stump predicts +1."""
        if hypothesis.threshold == -np.inf:
            return np.full(len(self.side), hypothesis.sign > 0)
        above = self.columns.column(hypothesis.feature) > hypothesis.threshold
        return above if hypothesis.sign > 0 else ~above

    def constant(self, positive: bool) -> Stump:
        """Return the constant stump."""
        return Stump(0, -np.inf, 1 if positive else -1)

    # ---------------------------------------------------------------------- steps of `learn`

    def _least_errors(
        self, mass: FloatArray, changed: IntArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least error of each feature that may contain the best cut, and the sides."""
        self._update_sums(mass, changed)
        sides = np.array([self.sums[0, :BINS].sum(), self.sums[0, BINS:].sum()])
        least, floor = np.empty(len(self.sums)), np.empty(len(self.sums))
        scan_bins(self.sums, sides[0], sides[1], least, floor)
        if self.exact:
            self._look_inside(least, floor, sides, 2.0 * TIE * float(sides.sum()))
        return least, sides

    def _update_sums(self, mass: FloatArray, changed: IntArray | None) -> None:
        """Update the sums over bins for the samples whose mass has changed."""
        if changed is None:
            self.sums[:] = 0.0
            rows, gain, side = self.everything, mass, self.side
            self.mass[:] = mass
            self.signed = np.where(self.positive, mass, -mass)
        else:
            rows, now, side = changed.astype(np.uint32), mass[changed], self.side[changed]
            gain = now - self.mass[changed]
            self.mass[changed] = now
            self.signed[changed] = np.where(side, now, -now)
        d = len(self.sums)
        threads = self.threads if len(rows) * d > WORTH_A_THREAD else 1
        # Two shares per thread, in multiples of the four features that `add_mass` interleaves.
        size = max(4, -(-d // (8 * threads)) * 4)
        shares = [slice(first, first + size) for first in range(0, d, size)]

        def add(share: slice) -> None:
            add_mass(self.columns.codes[share], rows, side, gain, self.sums[share])

        for_each(add, shares, threads)

    def _look_inside(
        self, least: FloatArray, floor: FloatArray, sides: FloatArray, slack: float
    ) -> None:
        """Update `least` by cuts inside bins, for the features that may contain the best one."""
        best = [min(float(least.min()), float(sides.min()))]

        def look(feature: int) -> None:
            if floor[feature] > best[0] + slack:
                return
            c = self.columns.ordered(feature)
            found = search_inside(
                self.sums[feature], c.order, c.last, c.starts, c.mixed,
                self.signed, sides, best[0], slack,
            )  # fmt: skip
            least[feature] = min(least[feature], found)
            best[0] = min(best[0], found)

        # Most promising features first: a lower `best` rules out more of the others.
        open_ = np.flatnonzero((floor <= best[0] + slack) & ~self.columns.single)
        promising = open_[np.argsort(floor[open_], kind="stable")]
        entries = len(self.side) * len(promising)
        threads = self.threads if entries > WORTH_A_THREAD else 1
        for_each(look, promising.tolist(), threads)

    def _first(self, least: FloatArray, sides: FloatArray, goal: float, tie: float) -> Stump:
        """Return the first stump, in tie-breaking order, with an error of at most goal."""
        if sides[0] <= goal:
            return self.constant(True)
        if sides[1] <= goal:
            return self.constant(False)
        feature = int(np.flatnonzero(least <= goal)[0])
        sums, columns = self.sums[feature], self.columns
        if not self.exact or columns.single[feature]:
            bin_below, sign = first_between(sums, sides, goal)
            return Stump(feature, float(columns.edges[feature, bin_below]), int(sign))
        c = columns.ordered(feature)
        place, sign = first_inside(
            sums, c.order, c.last, c.starts, c.mixed, self.signed, sides, goal, tie
        )
        below, above = columns.column(feature)[c.order[[place, place + 1]]]
        return Stump(feature, float(middle(below, above)), int(sign))


def stump_learners(
    X: Matrix, positives: list[BoolArray], *, exact: bool, seed: int, threads: int
) -> list[StumpLearner]:
    """Return one stump learner per labelling of the samples; they share their bins.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers, float32 or float64. A dense array is read in place.
    positives : list of ndarray of bool of shape (n_samples,)
        Whether the label is +1.
    exact : bool
        Consider all thresholds, not only those between bins.
    seed : int
        Seed of the subsample that determines the bins.
    threads : int
        Largest number of threads.
    """
    columns = BinnedColumns(X, seed, threads)
    return [StumpLearner(columns, each, exact=exact, threads=threads) for each in positives]
