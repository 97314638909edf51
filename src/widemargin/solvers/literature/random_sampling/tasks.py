r"""Tasks of the random-sampling solver: scan and draw from one part of the data.

Tasks run where the part is stored and return little data. A *plane* is a weight vector with the
thresholds of both classes. The **slack** of a sample is its distance, times |w|, beyond the
threshold of its class on the wrong side,

.. math:: \theta_+ - w \cdot x \;\; (y = +1), \qquad w \cdot x - \theta_- \;\; (y = -1),

and samples outside the subsample with a positive slack (above the tolerance) are the violators. The
drawing weight of a sample is :math:`2^{e}`, where the exponent e counts how often it was doubled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.protocol import Part

Exponents = npt.NDArray[np.uint16]
Sampled = tuple[IntArray, RealArray, FloatArray, FloatArray]  # indices in the part, X, y, weight


@dataclass(frozen=True)
class SamplePlane:
    """Hyperplane with thresholds and tolerance; samples with a slack above `tol` violate it."""

    coef: FloatArray
    plus: float
    minus: float
    tol: float

    def slacks(self, X: RealArray, y: FloatArray) -> FloatArray:
        """Return the slack of each sample, in float64 where the precision affects its sign.

        For float32 data the products are computed in float32. Those within their rounding error of
        a threshold are recomputed in float64.
        """
        slack = self._signed(X @ self.coef.astype(X.dtype), y)
        if X.dtype != np.float64:
            norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
            rounding = X.shape[1] * float(np.finfo(X.dtype).eps)
            doubt = rounding * norms * np.linalg.norm(self.coef)
            near = np.flatnonzero(np.abs(slack) <= doubt + self.tol)
            slack[near] = self._signed(X[near].astype(np.float64) @ self.coef, y[near])
        return slack

    def _signed(self, g: RealArray, y: FloatArray) -> FloatArray:
        threshold = np.where(y > 0, self.plus, -self.minus)
        return np.asarray(threshold - y * g, dtype=np.float64)


@dataclass(frozen=True)
class Scan:
    """Statistics of a plane, collected in one pass over a block, a part or all parts.

    Attributes
    ----------
    rows, slack : ndarray
        Indices of the violators in their part, and their slacks; empty after merging parts.
    histogram, violating : ndarray
        Number of samples, and of violators, per exponent.
    loss : float
        Sum of cap times slack over the samples with positive slack.
    worst : ndarray of shape (2,)
        Largest slack of the positive and of the negative class; -inf if all are below -tol.
    nearest : ndarray of shape (2,)
        Per class, the largest slack below -tol, that of the nearest sample strictly on the right
        side. It is valid only if there are no violators.
    mass : ndarray of shape (2,)
        Per class, the sum of the caps of all other samples, at the threshold or beyond it.
    """

    rows: IntArray
    slack: FloatArray
    histogram: IntArray
    violating: IntArray
    loss: float
    worst: FloatArray
    nearest: FloatArray
    mass: FloatArray

    @property
    def violators(self) -> int:
        """Number of violators."""
        return int(self.violating.sum())


def merged(scans: list[Scan]) -> Scan:
    """Merge scans, without the indices and slacks of their violators."""
    return Scan(
        rows=np.empty(0, dtype=np.intp),
        slack=np.empty(0),
        histogram=added([scan.histogram for scan in scans]),
        violating=added([scan.violating for scan in scans]),
        loss=sum(scan.loss for scan in scans),
        worst=np.max([scan.worst for scan in scans], axis=0),
        nearest=np.max([scan.nearest for scan in scans], axis=0),
        mass=np.sum([scan.mass for scan in scans], axis=0),
    )


def added(histograms: list[IntArray]) -> IntArray:
    """Return the sum of histograms of different lengths."""
    total = np.zeros(max(len(h) for h in histograms), dtype=np.intp)
    for histogram in histograms:
        total[: len(histogram)] += histogram
    return total


def caps(weight: FloatArray, cap: float) -> FloatArray:
    """Return D_i = min(1, cap * weight_i) for weights > 0; an infinite cap is the hard margin."""
    return np.minimum(1.0, cap * weight)


def scan(
    part: Part,
    plane: SamplePlane,
    cap: float,
    sampled: IntArray,
    exponents: Exponents | None = None,
) -> Scan:
    """Make one pass over a part: find the violators of a plane, their weights and the loss."""
    found = [_scan_block(*block, plane, cap, sampled, exponents) for block in part.blocks()]
    if not found:
        none = np.zeros(1, dtype=np.intp)
        never = np.full(2, -np.inf)
        return Scan(none[:0], never[:0], none, none, 0.0, never, never, np.zeros(2))
    rows = np.concatenate([block.rows for block in found])
    return replace(merged(found), rows=rows, slack=np.concatenate([b.slack for b in found]))


def _scan_block(
    first: int,
    X: RealArray,
    y: FloatArray,
    weight: FloatArray,
    plane: SamplePlane,
    cap: float,
    sampled: IntArray,
    exponents: Exponents | None,
) -> Scan:
    tol = plane.tol
    slack = plane.slacks(X, y)
    slack[weight <= 0] = -np.inf  # weight 0 means that the sample is absent
    e = np.zeros(len(y), np.uint16) if exponents is None else exponents[first : first + len(y)]
    beyond = np.flatnonzero(slack >= -tol)
    D = caps(weight[beyond], cap)
    violating = beyond[slack[beyond] > tol]
    violating = violating[~np.isin(violating + first, sampled)]
    worst, nearest, mass = np.full(2, -np.inf), np.full(2, -np.inf), np.zeros(2)
    for label, sign in enumerate((1.0, -1.0)):
        of_class = y[beyond] * sign > 0
        worst[label] = slack[beyond[of_class]].max(initial=-np.inf)
        mass[label] = D[of_class].sum()
        if not len(violating):  # needed at the optimum only
            nearest[label] = slack[(y * sign > 0) & (slack < -tol)].max(initial=-np.inf)
    return Scan(
        rows=violating + first,
        slack=slack[violating],
        histogram=np.bincount(e, minlength=1),
        violating=np.bincount(e[violating], minlength=1),
        loss=float(D @ np.maximum(slack[beyond], 0.0)),
        worst=worst,
        nearest=nearest,
        mass=mass,
    )


def draw(part: Part, draws: int, seed: list[int], exponents: Exponents) -> Sampled:
    """Draw samples with replacement, with probabilities proportional to 2^e; return each one once.

    A multinomial draw over the exponents is followed by uniform draws among the samples with the
    same exponent. This is exact and cannot overflow, since the weights 2^e are never formed.
    """
    if draws == 0:
        return take(part, np.empty(0, dtype=np.intp))
    rng = np.random.default_rng(seed)
    drawn = []
    for exponent, number in enumerate(rng.multinomial(draws, shares(np.bincount(exponents)))):
        if number:
            members = np.flatnonzero(exponents == exponent)
            drawn.append(members[rng.integers(len(members), size=number)])
    return take(part, np.unique(np.concatenate(drawn)))


def shares(histogram: IntArray) -> FloatArray:
    """Return the fraction of the total weight that the samples of each exponent have.

    Weights are scaled by a power of two so that the largest exponent becomes 0. This is exact in
    float64, also for exponents that are 60 smaller than the largest.
    """
    highest = int(np.flatnonzero(histogram)[-1])
    weights = np.ldexp(
        histogram[: highest + 1].astype(np.float64), np.arange(highest + 1) - highest
    )
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def total_weight(histogram: IntArray) -> int:
    """Return the sum of 2^e as a Python integer, which cannot overflow."""
    return sum(int(count) << exponent for exponent, count in enumerate(histogram))


def take(part: Part, rows: IntArray) -> Sampled:
    """Fetch samples by their sorted indices, without those of weight zero."""
    X, y, weight = part.take(rows)
    used = weight > 0
    if used.all():
        return rows, X, y, weight
    return rows[used], X[used], y[used], weight[used]


def count_classes(part: Part) -> IntArray:
    """Return the number of samples of positive weight: positives, then negatives."""
    counts = np.zeros(2, dtype=np.intp)
    for _, _, y, weight in part.blocks():
        counts += [np.count_nonzero((sign * y > 0) & (weight > 0)) for sign in (1, -1)]
    return counts


def draw_class(part: Part, positive: bool, number: int, seed: list[int]) -> Sampled:
    """Draw samples of one class uniformly, without replacement."""
    members = []
    if number:
        for first, _, y, weight in part.blocks():
            members.append(first + np.flatnonzero(((y > 0) == positive) & (weight > 0)))
    rows = np.concatenate(members) if members else np.empty(0, dtype=np.intp)
    chosen = np.random.default_rng(seed).choice(rows, size=number, replace=False)
    return take(part, np.sort(chosen).astype(np.intp))


@dataclass(frozen=True)
class Offenders:
    """Violators in a part, candidates for a growing subsample: the worst, and some random ones.

    `slack` holds the slacks of `worst`. `some` is in random order, so that its first entries are a
    random subset too.
    """

    scan: Scan
    slack: FloatArray
    worst: Sampled
    some: Sampled


def offenders(
    part: Part,
    plane: SamplePlane,
    cap: float,
    sampled: IntArray,
    worst: int,
    some: int,
    seed: list[int],
) -> Offenders:
    """Make one pass over a part; return its worst violators and a random subset of them all."""
    found = scan(part, plane, cap, sampled)
    order = np.argsort(-found.slack, kind="stable")[:worst]
    random = np.random.default_rng(seed).permutation(len(found.rows))[:some]
    chosen = np.union1d(order, random)
    rows, X, y, weight = take(part, found.rows[chosen])

    def these(positions: IntArray) -> Sampled:
        at = np.searchsorted(chosen, positions)
        return rows[at], X[at], y[at], weight[at]

    small = replace(found, rows=rows[:0], slack=found.slack[:0])
    return Offenders(small, found.slack[order], these(order), these(random))
