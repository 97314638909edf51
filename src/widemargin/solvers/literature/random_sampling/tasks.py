r"""What the sampling solvers ask of the data: tasks that run beside a part and return little.

A *plane* is a weight vector with the thresholds of both classes. The **slack** of a row is by how
much it lies on the wrong side of the threshold of its own class,

.. math:: \theta_+ - w \cdot x \;\; (y = +1), \qquad w \cdot x - \theta_- \;\; (y = -1),

and rows outside the sample with a positive slack are the violators. The weight of a row is
:math:`2^{e}`, where the exponent e counts the planes that doubled it: it is known from the planes
alone. So exponents are only a cache. A task gets them, or replays the past with one product of the
data with all planes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.protocol import Part

Exponents = npt.NDArray[np.uint16]
Sampled = tuple[IntArray, RealArray, FloatArray, FloatArray]  # local rows, X, y, weight


@dataclass(frozen=True)
class Planes:
    """Hyperplanes as columns: weights (n_features, T) and, for each, thresholds and tolerance.

    A row violates a plane if its slack exceeds `tol`.
    """

    coef: FloatArray
    plus: FloatArray
    minus: FloatArray
    tol: FloatArray

    @classmethod
    def none(cls, n_features: int) -> Planes:
        """Return no plane at all: the past before the first round."""
        empty = np.empty(0)
        return cls(np.empty((n_features, 0)), empty, empty, empty)

    @classmethod
    def one(cls, coef: FloatArray, plus: float, minus: float, tol: float) -> Planes:
        """Return a single plane."""
        return cls(coef[:, None], np.array([plus]), np.array([minus]), np.array([tol]))

    def and_then(self, other: Planes) -> Planes:
        """Return these planes followed by others."""
        return Planes(
            np.hstack([self.coef, other.coef]),
            np.concatenate([self.plus, other.plus]),
            np.concatenate([self.minus, other.minus]),
            np.concatenate([self.tol, other.tol]),
        )

    def slacks(self, X: RealArray, y: FloatArray) -> FloatArray:
        """Return the slack of each row at each plane, right in float64 wherever its sign is not.

        Products of float32 rows are made in float32. Those within their rounding error of a
        threshold are made again in float64.
        """
        coef = self.coef.astype(X.dtype)
        # One plane is a product with a vector, for which BLAS has a faster routine.
        g = (X @ coef[:, 0])[:, None] if coef.shape[1] == 1 else X @ coef
        slack = self._signed(g, y)
        if X.dtype != np.float64:
            norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
            rounding = X.shape[1] * float(np.finfo(X.dtype).eps)
            doubt = rounding * np.outer(norms, np.linalg.norm(self.coef, axis=0))
            near = np.flatnonzero((np.abs(slack) <= doubt + self.tol).any(axis=1))
            slack[near] = self._signed(X[near].astype(np.float64) @ self.coef, y[near])
        return slack

    def _signed(self, g: RealArray, y: FloatArray) -> FloatArray:
        threshold = np.where(y[:, None] > 0, self.plus, -self.minus)
        return np.asarray(threshold - y[:, None] * g, dtype=np.float64)


@dataclass(frozen=True)
class Past:
    """The planes that doubled weights, and the rows of a part that they spared.

    `spared` holds, once for each such plane, the sampled rows that it misclassified: a row that
    had its say in the sample is no violator.
    """

    planes: Planes
    spared: IntArray

    def exponents(self, first: int, X: RealArray, y: FloatArray, weight: FloatArray) -> Exponents:
        """Rebuild the exponents of a block of rows that starts at row `first`."""
        if not len(self.planes.tol):
            return np.zeros(len(y), dtype=np.uint16)
        violated = (self.planes.slacks(X, y) > self.planes.tol) & (weight > 0)[:, None]
        e = violated.sum(axis=1)
        inside = (self.spared >= first) & (self.spared < first + len(y))
        np.subtract.at(e, self.spared[inside] - first, 1)
        return np.maximum(e, 0).astype(np.uint16)


@dataclass(frozen=True)
class Scan:
    """What one read of a part, or of all, finds out about a plane.

    Attributes
    ----------
    rows, slack : ndarray
        Violators by number in their part, and their slack (empty if not asked for).
    histogram, violating : ndarray
        Number of rows, and of violators, by exponent.
    loss : float
        Sum of cap times slack over the rows of positive slack.
    worst, nearest, mass : ndarray of shape (2,)
        For the positive and the negative class: the largest slack if any is positive; the largest
        of a row on the right side of the threshold (if nobody violates); the sum of caps of the
        others, at the threshold or beyond it.
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
    """Add up the scans of all parts; the rows stay with their parts."""
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
    """Add histograms of different lengths."""
    total = np.zeros(max(len(h) for h in histograms), dtype=np.intp)
    for histogram in histograms:
        total[: len(histogram)] += histogram
    return total


def caps(weight: FloatArray, cap: float) -> FloatArray:
    """Return D_i = min(1, cap * weight_i); an infinite cap is the hard margin. Weights are > 0."""
    return np.minimum(1.0, cap * weight)


def scan(
    part: Part,
    plane: Planes,
    cap: float,
    sampled: IntArray,
    past: Past,
    exponents: Exponents | None,
    keep_rows: bool,
) -> Scan:
    """Read a part once: who violates a plane, with which weight, and what the loss is."""
    found = [_scan_block(*block, plane, cap, sampled, past, exponents) for block in part.blocks()]
    if not found:
        none = np.zeros(1, dtype=np.intp)
        never = np.full(2, -np.inf)
        return Scan(none[:0], never[:0], none, none, 0.0, never, never, np.zeros(2))
    if not keep_rows:
        return merged(found)
    rows = np.concatenate([block.rows for block in found])
    return replace(merged(found), rows=rows, slack=np.concatenate([b.slack for b in found]))


def _scan_block(
    first: int,
    X: RealArray,
    y: FloatArray,
    weight: FloatArray,
    plane: Planes,
    cap: float,
    sampled: IntArray,
    past: Past,
    exponents: Exponents | None,
) -> Scan:
    tol = float(plane.tol[0])
    slack = plane.slacks(X, y)[:, 0]
    slack[weight <= 0] = -np.inf  # as if the row were not there
    if exponents is None:
        e = past.exponents(first, X, y, weight)
    else:
        e = exponents[first : first + len(y)]
    beyond = np.flatnonzero(slack >= -tol)
    D = caps(weight[beyond], cap)
    violating = beyond[slack[beyond] > tol]
    violating = violating[~np.isin(violating + first, sampled)]
    worst, nearest, mass = np.full(2, -np.inf), np.full(2, -np.inf), np.zeros(2)
    for label, sign in enumerate((1.0, -1.0)):
        of_class = y[beyond] * sign > 0
        worst[label] = slack[beyond[of_class]].max(initial=-np.inf)
        mass[label] = D[of_class].sum()
        if not len(violating):  # wanted at the optimum only
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


def draw(
    part: Part, size: int, draws: int, seed: list[int], past: Past, exponents: Exponents | None
) -> Sampled:
    """Draw rows with probability proportional to 2^e, with replacement; copies are merged.

    A multinomial over the exponents, then uniformly among the rows that share one: exact, and no
    weight is ever formed.
    """
    if draws == 0:
        return take(part, np.empty(0, dtype=np.intp))
    e = replay(part, size, past) if exponents is None else exponents
    rng = np.random.default_rng(seed)
    drawn = []
    for exponent, number in enumerate(rng.multinomial(draws, shares(np.bincount(e)))):
        if number:
            members = np.flatnonzero(e == exponent)
            drawn.append(members[rng.integers(len(members), size=number)])
    return take(part, np.unique(np.concatenate(drawn)))


def replay(part: Part, size: int, past: Past) -> Exponents:
    """Rebuild all exponents of a part from the planes that doubled weights."""
    e = np.zeros(size, dtype=np.uint16)
    if past.planes.plus.size:
        for first, X, y, weight in part.blocks():
            e[first : first + len(y)] = past.exponents(first, X, y, weight)
    return e


def shares(histogram: IntArray) -> FloatArray:
    """Return the share of the total weight that the rows of each exponent have.

    Rows with exponents 60 below the largest one in use count exactly all the same: powers of two
    only shift a float64.
    """
    highest = int(np.flatnonzero(histogram)[-1])
    weights = np.ldexp(
        histogram[: highest + 1].astype(np.float64), np.arange(highest + 1) - highest
    )
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def total_weight(histogram: IntArray) -> int:
    """Return the sum of 2^e as a whole number of any size."""
    return sum(int(count) << exponent for exponent, count in enumerate(histogram))


def take(part: Part, rows: IntArray) -> Sampled:
    """Fetch rows by number, without those of weight zero."""
    X, y, weight = part.take(rows)
    used = weight > 0
    if used.all():
        return rows, X, y, weight
    return rows[used], X[used], y[used], weight[used]


def count_classes(part: Part) -> IntArray:
    """Count the rows of positive weight of each class: positives, then negatives."""
    counts = np.zeros(2, dtype=np.intp)
    for _, _, y, weight in part.blocks():
        counts += [
            np.count_nonzero((y > 0) & (weight > 0)),
            np.count_nonzero((y < 0) & (weight > 0)),
        ]
    return counts


def draw_class(part: Part, positive: bool, number: int, seed: list[int]) -> Sampled:
    """Draw rows of one class, uniformly and without replacement."""
    members = []
    if number:
        for first, _, y, weight in part.blocks():
            members.append(first + np.flatnonzero(((y > 0) == positive) & (weight > 0)))
    rows = np.concatenate(members) if members else np.empty(0, dtype=np.intp)
    chosen = np.random.default_rng(seed).choice(rows, size=number, replace=False)
    return take(part, np.sort(chosen).astype(np.intp))


@dataclass(frozen=True)
class Offenders:
    """Violators that a part sends to a growing sample: its worst ones, and some at random.

    `slack` belongs to `worst`; `some` is in random order, so its beginnings are random samples too.
    """

    scan: Scan
    slack: FloatArray
    worst: Sampled
    some: Sampled


def offenders(
    part: Part,
    plane: Planes,
    cap: float,
    sampled: IntArray,
    worst: int,
    some: int,
    seed: list[int],
) -> Offenders:
    """Read a part once; fetch its worst violators and a random sample of all of them."""
    none = Past(Planes.none(len(plane.coef)), np.empty(0, dtype=np.intp))
    found = scan(part, plane, cap, sampled, none, None, True)
    order = np.argsort(-found.slack, kind="stable")[:worst]
    random = np.random.default_rng(seed).permutation(len(found.rows))[:some]
    chosen = np.union1d(order, random)
    rows, X, y, weight = take(part, found.rows[chosen])

    def these(positions: IntArray) -> Sampled:
        at = np.searchsorted(chosen, positions)
        return rows[at], X[at], y[at], weight[at]

    small = replace(found, rows=rows[:0], slack=found.slack[:0])
    return Offenders(small, found.slack[order], these(order), these(random))
