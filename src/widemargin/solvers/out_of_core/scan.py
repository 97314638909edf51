r"""Read the data once for the implicit-outlier method: tasks that run beside a part.

The slack of a row at a *plane*, a weight vector with the thresholds of both classes, is by how much
it lies on the wrong side,

.. math:: \xi_i = l + y_i (d - w \cdot x_i),

with level l and shift d: (1, -b) for the hinge with intercept b, the half difference and the mean
of :math:`\theta_\pm` for reduced hulls. Rows that are not *explicit* keep the bound that a first
plane gave them, the base: s = cap where the slack there was positive, s = 0 elsewhere. A read
recomputes those sides, so nothing but two planes and the numbers of explicit rows crosses the
seam, and a task that is run again gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray, RealArray
from widemargin.problems.linear_scan import Plane, wrong_by
from widemargin.sources.protocol import Part


@dataclass(frozen=True)
class Limits:
    """Slacks between which a row is explicit, for the positive and the negative class."""

    low: tuple[float, float]
    high: tuple[float, float]

    def hold(self, slack: FloatArray, y: FloatArray) -> BoolArray:
        """Tell which rows lie in the zone."""
        if self.low[0] == self.low[1] and self.high[0] == self.high[1]:
            return (slack >= self.low[0]) & (slack <= self.high[0])
        positive = y > 0
        return np.where(positive, slack >= self.low[0], slack >= self.low[1]) & np.where(
            positive, slack <= self.high[0], slack <= self.high[1]
        )


@dataclass
class Sampled:
    """Some rows, read: numbers in their part, features in float64 about the centre, y, weight."""

    rows: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray


@dataclass
class Scan:
    """What one read finds out.

    Attributes
    ----------
    bounded_sum : ndarray of shape (n_features,)
        Sum of weight y x over the implicit rows whose side is the cap.
    mass : ndarray of shape (2,)
        Their weights, summed for the positive and the negative class.
    classes : ndarray of shape (2,)
        The weights of all rows, summed for each class; first read only.
    loss : float
        Sum of weight times slack over all rows of positive slack at the current plane.
    wrong : int
        Implicit rows that the current plane puts on the other side by more than a tolerance.
    wrong_by : ndarray of shape (2, 2)
        By how much implicit rows are on the other side, see `problems.linear_scan`; checks only.
    found : list of Sampled
        The rows that are to become explicit; empty where there are too many of them.
    """

    bounded_sum: FloatArray
    mass: FloatArray
    classes: FloatArray
    loss: float = 0.0
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
    """Read a part once.

    With `limits` this is the first read: rows whose slack at the base lies between them become
    explicit. Without, it is a check of the current plane: rows on the wrong side by more than tol
    are handed back, unless they are more than `most`.
    """
    n = len(base.w)
    total = Scan(np.zeros(n), np.zeros(2), np.zeros(2))
    same = current.w is base.w or np.array_equal(current.w, base.w)
    planes = np.stack([base.w] if same else [base.w, current.w])
    buffer = np.empty((0, n))
    for first, block, y, weight in part.blocks():
        if len(buffer) < len(block):
            buffer = np.empty((len(block), n))
        X = _exactly(block, centre, buffer)
        products = planes @ X.T
        slack = current.slack(products[-1].copy() if same else products[-1], y)
        sides = base.slack(products[0], y)
        here = known[slice(*np.searchsorted(known, (first, first + len(y))))] - first
        loss = np.maximum(slack, 0.0)
        total.loss += float(loss @ weight)
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
                found = wrong_by(slack[rows], y[rows], np.where(bounded[rows], caps, 0.0), caps)
                np.maximum(total.wrong_by, found, out=total.wrong_by)
                rows = rows[np.abs(slack[rows]) > tol]
        total.wrong += len(rows)
        if total.wrong <= most:
            kept = Sampled(rows + first, X[rows], y[rows], weight[rows])
            total.found.append(kept)
        if limits is not None:
            bounded[rows] = False
            total.classes += _by_class(float(weight.sum()), float(weight @ y))
        at_cap = np.where(bounded, weight, 0.0)
        mass = float(at_cap.sum())
        at_cap *= y
        total.bounded_sum += at_cap @ X
        total.mass += _by_class(mass, float(at_cap.sum()))
    if total.wrong > most:
        total.found.clear()
    return total


def _exactly(X: RealArray, centre: FloatArray | None, buffer: FloatArray) -> FloatArray:
    """Return rows in float64 about the centre: as they are, or in the buffer.

    A sum of float32 rows in float32 would leave six digits of w.
    """
    if X.dtype == np.float64 and centre is None:
        return np.asarray(X, dtype=np.float64)
    return np.subtract(X, 0.0 if centre is None else centre, out=buffer[: len(X)])


def _by_class(total: float, signed: float) -> FloatArray:
    """The sums over both classes, given the sum and the sum of positives less negatives."""
    return np.array([0.5 * (total + signed), 0.5 * (total - signed)])


def gather(part: Part, rows: IntArray, centre: FloatArray | None) -> Sampled:
    """Read some rows of a part, given by their sorted numbers."""
    X, y, weight = part.take(rows)
    exact = np.array(_exactly(X, centre, np.empty(X.shape)))  # the part may use its array again
    return Sampled(rows, exact, y, weight)


def draw(part: Part, size: int, number: int, seed: Sequence[int]) -> Sampled:
    """Read `number` of the `size` rows of a part, drawn without replacement."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(size, number, replace=False, shuffle=False)).astype(np.intp)
    return gather(part, rows, None)


def edges(
    part: Part, base: Plane, current: Plane, known: IntArray, centre: FloatArray | None
) -> FloatArray:
    """Return how far the slacks of the implicit rows of a part are from changing sign.

    Entry (0, c): the smallest slack of a row at its cap; (1, c): the smallest -slack of a row at
    zero, for the positive (c = 0) and the negative class.
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


def multipliers(
    part: Part,
    size: int,
    base: Plane,
    cap: float,
    known: IntArray,
    s: FloatArray,
    centre: FloatArray | None,
) -> FloatArray:
    """Return the multiplier of every row of a part: its default side, or what was solved for."""
    found = np.empty(size)
    for first, block, y, weight in part.blocks():
        X = _exactly(block, centre, np.empty(block.shape))
        bounded = base.slack(X @ base.w, y) > 0
        found[first : first + len(y)] = np.where(bounded, cap * weight, 0.0)
    found[known] = s
    return found
