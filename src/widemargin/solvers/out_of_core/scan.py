r"""Tasks of the implicit-outlier method, run on each part of the data in one pass.

A *plane* is a weight vector with the thresholds of both classes. The slack of a sample at a plane,
positive on the wrong side, is

.. math:: \xi_i = l + y_i (d - w \cdot x_i),

with level l and shift d: (1, -b) for the hinge with intercept b, the half difference and the mean
of :math:`\theta_\pm` for reduced hulls. Samples that are not *explicit* keep the bound given by a
first plane, the *base*: s = cap if the slack there is positive, s = 0 otherwise. Every pass
recomputes these sides, so that a task is stateless, can be rerun with the same result, and receives
two planes and the row numbers of the explicit samples instead of a side per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray, RealArray
from widemargin.problems.linear_reads import FloatSums, Plane, ReadSums
from widemargin.problems.linear_scan import wrong_by
from widemargin.sources.protocol import Part


@dataclass(frozen=True)
class Limits:
    """Zone: slacks between which a sample is explicit, for the positive and negative class."""

    low: tuple[float, float]
    high: tuple[float, float]

    def hold(self, slack: FloatArray, y: FloatArray) -> BoolArray:
        """Return a mask of the samples in the zone."""
        if self.low[0] == self.low[1] and self.high[0] == self.high[1]:
            return (slack >= self.low[0]) & (slack <= self.high[0])
        positive = y > 0
        return np.where(positive, slack >= self.low[0], slack >= self.low[1]) & np.where(
            positive, slack <= self.high[0], slack <= self.high[1]
        )


@dataclass
class Sampled:
    """Samples in memory: row numbers in their part, X minus the centre in float64, y, weight."""

    rows: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray


@dataclass
class Scan:
    """Sums and samples that one pass over a part computes.

    Attributes
    ----------
    sums : ReadSums
        Sums over the samples: the losses at the current plane, and the multipliers of the implicit
        samples at their cap, in units of the cap.
    wrong : int
        Number of implicit samples on the wrong side of the current plane by more than a
        tolerance; in the first pass, number of samples in the zone.
    wrong_by : ndarray of shape (2, 2)
        Largest slacks on the wrong side, see `problems.linear_scan.wrong_by`; checks only.
    found : list of Sampled
        Samples that become explicit; empty if there are too many.
    """

    sums: ReadSums
    wrong: int = 0
    wrong_by: FloatArray = field(default_factory=lambda: np.zeros((2, 2)))
    found: list[Sampled] = field(default_factory=list)


def scan(
    part: Part,
    base: Plane,
    limits: Limits | None,
    current: Plane,
    known: IntArray,
    tol: float,
    most: int,
    centre: FloatArray | None,
) -> Scan:
    """Read a part once, to determine the sides of its samples or to check the current plane.

    With `limits` this is the first pass: samples whose slack at the base is between the limits
    are returned to become explicit. Otherwise it is a check: samples on the wrong side of the
    current plane by more than `tol` are returned, unless there are more than `most`. `known` are
    the sorted row numbers of the explicit samples in this part.
    """
    wrong_slacks, n_wrong, found = np.zeros((2, 2)), 0, []
    sums = FloatSums(current, squared=False, centred=centre is not None)
    same = current.w is base.w or np.array_equal(current.w, base.w)
    planes = np.stack([base.w] if same else [base.w, current.w])
    buffer = np.empty((0, len(base.w)))
    for first, block, y, weight in part.blocks():
        if len(buffer) < len(block):
            buffer = np.empty((len(block), len(base.w)))
        X = _exactly(block, centre, buffer)
        products = planes @ X.T
        slack = current.slack(products[-1].copy() if same else products[-1], y)
        sides = base.slack(products[0], y)
        here = known[slice(*np.searchsorted(known, (first, first + len(y))))] - first
        bounded = sides > 0
        bounded[here] = False
        if limits is not None:
            change = limits.hold(sides, y)
            change &= weight > 0
            rows = np.flatnonzero(change)
        else:
            wrong = (slack > 0) != bounded
            wrong[here] = False
            rows = np.flatnonzero(wrong)
            rows = rows[weight[rows] > 0]
            if len(rows):
                caps = np.ones(len(rows))
                by = wrong_by(slack[rows], y[rows], np.where(bounded[rows], caps, 0.0), caps)
                np.maximum(wrong_slacks, by, out=wrong_slacks)
                rows = rows[np.abs(slack[rows]) > tol]
        n_wrong += len(rows)
        if n_wrong <= most:
            found.append(Sampled(rows + first, X[rows], y[rows], weight[rows]))
        if limits is not None:
            bounded[rows] = False
        sums.add(X, y, weight, slack, np.where(bounded, weight, 0.0))
    return Scan(sums.result(), n_wrong, wrong_slacks, found if n_wrong <= most else [])


def _exactly(X: RealArray, centre: FloatArray | None, buffer: FloatArray) -> FloatArray:
    """Return samples minus the centre in float64: X itself if unchanged, else in the buffer.

    Sums of float32 samples in float32 would give w to six digits only.
    """
    if X.dtype == np.float64 and centre is None:
        return np.asarray(X, dtype=np.float64)
    return np.subtract(X, 0.0 if centre is None else centre, out=buffer[: len(X)])


def gather(part: Part, rows: IntArray, centre: FloatArray | None) -> Sampled:
    """Read the samples of a part with the given sorted row numbers."""
    X, y, weight = part.take(rows)
    exact = np.array(_exactly(X, centre, np.empty(X.shape)))  # copy: the part may reuse its array
    return Sampled(rows, exact, y, weight)


def draw(part: Part, size: int, number: int, seed: Sequence[int]) -> Sampled:
    """Read `number` of the `size` samples of a part, drawn without replacement."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(size, number, replace=False, shuffle=False)).astype(np.intp)
    return gather(part, rows, None)


def edges(
    part: Part, base: Plane, current: Plane, known: IntArray, centre: FloatArray | None
) -> FloatArray:
    """Return how far the slacks of the implicit samples of a part are from changing sign.

    Entry (0, c) is the smallest slack of a sample at its cap, entry (1, c) the smallest -slack of
    a sample at zero, for the positive (c = 0) and the negative class (c = 1).
    """
    found = np.full((2, 2), np.inf)
    for first, block, y, weight in part.blocks():
        X = _exactly(block, centre, np.empty(block.shape))
        slack = current.slack(X @ current.w, y)
        bounded = base.slack(X @ base.w, y) > 0
        implicit = weight > 0
        implicit[known[slice(*np.searchsorted(known, (first, first + len(y))))] - first] = False
        for c, label in enumerate((1.0, -1.0)):
            mine = implicit & (y == label)
            at_cap, at_zero = slack[mine & bounded], slack[mine & ~bounded]
            found[0, c] = min(found[0, c], at_cap.min(initial=np.inf))
            found[1, c] = min(found[1, c], (-at_zero).min(initial=np.inf))
    return found


def at_cap(X: RealArray, y: FloatArray, base: Plane, centre: FloatArray | None) -> BoolArray:
    """Return which samples, if implicit, have their multiplier at its cap."""
    exact = _exactly(X, centre, np.empty(X.shape))
    return np.asarray(base.slack(exact @ base.w, y) > 0)


def multipliers(
    part: Part,
    size: int,
    base: Plane,
    cap: float,
    known: IntArray,
    s: FloatArray,
    centre: FloatArray | None,
) -> FloatArray:
    """Return the multipliers of a part: s for the explicit samples, else the bound of the side."""
    found = np.empty(size)
    for first, block, y, weight in part.blocks():
        bounded = at_cap(block, y, base, centre)
        found[first : first + len(y)] = np.where(bounded, cap * weight, 0.0)
    found[known] = s
    return found
