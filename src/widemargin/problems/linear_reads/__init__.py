r"""Sums over samples that are read in parts, from which bounds of linear classifiers follow.

A read evaluates a hyperplane on all samples and adds the sums of
:mod:`widemargin.problems.linear_bounds` for costs equal to the weights; the cost of a sample is C
times its weight.

`FloatSums` adds float64 numbers, block by block, and those of all parts in the order of the parts.
The errors of the totals are bounded by norms, once an evaluation has to be proved: let
:math:`|x_t|` be the norm of feature t over all samples that were read. Float64 products
:math:`w \cdot x_i` have errors :math:`e_i \le \gamma_{d+2} \sum_t |w_t| |x_{it}|` (Higham 2002,
section 3.5), so that

.. math::

    |e| \le E = \gamma_{d+2} \sum_t |w_t| |x_t|, \qquad
    \sum_i v_i e_i \le |v| E, \qquad
    \sum_i v_i |x_{it}| \le |v| |x_t|

for any numbers v (Minkowski, Cauchy-Schwarz). Hence the norms of the features, of the weights and
of the multipliers bound all errors, at the price of one more product per value that is read.

Samples minus a centre c are as good as the samples: :math:`w \cdot x + b = w \cdot z + (b + w \cdot
c)` for :math:`z = x - c`, and multipliers that satisfy the constraint of an intercept,
:math:`\sum_i y_i a_i = 0`, have the same :math:`\sum_i y_i a_i x_i`. An entry of z has a relative
rounding error of at most U, so that the errors of products at most double.

`precise_sums` adds double-double numbers at the samples as stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.jit import jit
from widemargin._base.products import RUN, gamma, run_terms, times
from widemargin._base.typing import FloatArray, Matrix
from widemargin.problems.linear_bounds import (
    NOTHING,
    DualSums,
    dual_sums,
    loss_sum,
    positive_and_negative,
)

TINY = 1e-150  # norm of what squares of numbers lose by underflow, per square root of their number


@dataclass(frozen=True)
class Plane:
    """Hyperplane given by weights w and the slack of a sample, level + y (shift - w.x).

    `error` bounds the rounding error of the shift.
    """

    w: FloatArray
    level: float
    shift: float
    error: float = 0.0

    def slack(self, products: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the slacks from the products w.x, in place."""
        np.subtract(self.shift, products, out=products)
        products *= y
        products += self.level
        return products

    def moved(self, positive: float, negative: float) -> Plane:
        """Return the plane whose slacks are smaller by `positive` or `negative` in each class."""
        level, shift = 0.5 * (positive + negative), 0.5 * (positive - negative)
        return Plane(self.w, self.level - level, self.shift - shift)


@dataclass(frozen=True, eq=False)
class ReadSums:
    """Sums that a read of some samples computes at a hyperplane, for costs equal to the weights.

    Attributes
    ----------
    loss : Enclosure
        Sum of weight times (squared) loss.
    weight : Enclosure of shape (2,)
        Sums of the weights of the positive and the negative class.
    dual : DualSums
        Sums of the multipliers.
    """

    loss: Enclosure
    weight: Enclosure
    dual: DualSums

    @classmethod
    def total(cls, pieces: list[ReadSums], n_features: int) -> ReadSums:
        """Return the sums over all pieces; their order changes the last bits."""
        if len(pieces) == 1:
            return pieces[0]
        zero, pair = NOTHING, Enclosure.exact(np.zeros(2))
        empty = DualSums(pair, pair, pair, Enclosure.exact(np.zeros((2, n_features))))
        pieces = pieces or [cls(zero, pair, empty)]
        duals = [piece.dual for piece in pieces]
        names = ("charge", "gain", "square", "pull")
        return cls(
            added([piece.loss for piece in pieces]),
            added([piece.weight for piece in pieces]),
            DualSums(*(added([getattr(dual, name) for dual in duals]) for name in names)),
        )


def added(pieces: list[Enclosure]) -> Enclosure:
    """Return the sum of enclosures of the same shape: in pairs, all pairs at once."""
    columns = zip(*((p.hi, p.lo, p.error) for p in pieces), strict=True)
    found = Enclosure(*(np.stack(column) for column in columns))
    while len(found.hi) > 1:
        half = len(found.hi) // 2
        first, odd = found[:half] + found[half : 2 * half], found[2 * half :]
        parts = zip(*((p.hi, p.lo, p.error) for p in (first, odd)), strict=True)
        found = Enclosure(*(np.concatenate(part) for part in parts))
    return found[0]


class FloatSums:
    """Float64 sums over the samples of a read; see the module for the bounds of their errors.

    Parameters
    ----------
    n_features : int
        Number of features.
    squared : bool
        Whether the loss is squared.
    """

    def __init__(self, n_features: int, *, squared: bool) -> None:
        self.squared = squared
        self.loss, self.square, self.sides = 0.0, np.zeros(2), np.zeros(2)
        self.charge, self.pull = np.zeros(2), np.zeros((2, n_features))
        self.features, self.weights, self.alphas = np.zeros(n_features), 0.0, 0.0
        self.n, self.terms = 0, 0  # samples, and roundings of an entry of a sum

    def add(
        self, X: FloatArray, y: FloatArray, weight: FloatArray, slack: FloatArray, alpha: FloatArray
    ) -> None:
        """Add samples with the slacks of a plane and multipliers that are not negative."""
        found = np.zeros((5, 2))
        add_runs(y, weight, slack, alpha, self.squared, found, np.empty_like(found))
        self.loss += float(found[0, 0])
        self.weights += float(found[0, 1])
        self.alphas += float(found[4, 0])
        self.sides += found[1]
        self.charge += found[2]
        self.square += 0.25 * found[3]  # alpha^2 / 4 weight, as alpha = weight xi
        positive = np.where(y > 0, alpha, 0.0)
        for k, signed in enumerate((positive, positive - alpha)):
            self.pull[k] += run_combine(X, signed)
        add_squares(X, self.features)
        self.n += len(y)
        self.terms = max(self.terms, run_terms(len(y)) + 1) + 1

    def merge(self, other: FloatSums) -> None:
        """Add the sums over other samples."""
        for name in ("loss", "square", "sides", "charge", "pull", "features", "weights", "alphas"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.n += other.n
        self.terms = max(self.terms, other.terms) + 1

    def enclosed(self, plane: Plane, *, centred: bool) -> ReadSums:
        """Return the sums with the bounds of their errors.

        `plane` is the hyperplane of the slacks. `centred` says whether the samples are rounded,
        being differences from a centre.
        """
        d, root = len(plane.w), float(np.sqrt(self.n))
        with np.errstate(all="ignore"):
            # Norms, rounded up.
            unit, more = gamma(self.terms + 8), 1.0 + 1e-6 + 2.0 * gamma(self.n + 8)
            features = np.sqrt(self.features) * more + TINY * root
            weights, alphas = (
                float(np.sqrt(v)) * more + TINY * root for v in (self.weights, self.alphas)
            )
            product = (2.0 if centred else 1.0) * gamma(d + 2)
            wrong = (product + 4.0 * U) * float(np.abs(plane.w) @ features) * (1.0 + d * U)
            wrong += (4.0 * U * (abs(plane.level) + abs(plane.shift)) + plane.error + TINY) * root
            wrong *= 1.0 + 1e-6
            error = unit * self.loss
            error += (2.0 * alphas + weights * wrong) * wrong if self.squared else weights * wrong
            pulled = (2.0 * unit if centred else unit) * alphas * features + TINY
            charge = Enclosure.within(self.charge, unit * self.charge)
            square = Enclosure.within(self.square, unit * self.square + TINY)
            dual = DualSums(charge, charge, square, Enclosure.within(self.pull, pulled))
            loss = Enclosure.within(self.loss, error * (1.0 + 1e-6) + TINY)
            return ReadSums(loss, self.weight(), dual)

    def weight(self) -> Enclosure:
        """Return the sums of the weights of both classes."""
        return Enclosure.within(self.sides, gamma(self.terms + 8) * self.sides)


def merged(pieces: list[FloatSums]) -> FloatSums:
    """Return the sums over all pieces, added to the first; their order changes the last bits."""
    found, *others = pieces
    for other in others:
        found.merge(other)
    return found


def run_combine(X: FloatArray, a: FloatArray) -> FloatArray:
    """Return X'a as a sum of sums over runs of samples.

    Its error is gamma(run_terms(n) + 1) of the sum of absolute values.
    """
    whole = len(a) - len(a) % RUN
    runs = a[:whole].reshape(-1, 1, RUN) @ X[:whole].reshape(-1, RUN, X.shape[1])
    return np.asarray(runs.sum(axis=(0, 1)) + a[whole:] @ X[whole:])


@jit
def add_runs(y, weight, slack, alpha, squared, out, run):  # type: ignore[no-untyped-def]
    """Add sums over runs of samples to out, each a sum of sums as in `run_combine`.

    These are the loss and the squared weights; per class the weights, the multipliers and their
    products with the slack; and the squared multipliers. `run` holds the sums of one run.
    """
    for first in range(0, len(y), RUN):
        run[:] = 0.0
        for i in range(first, min(first + RUN, len(y))):
            k = 0 if y[i] > 0.0 else 1
            xi = 0.0 if slack[i] < 0.0 else slack[i]  # NaN stays NaN
            run[0, 0] += weight[i] * xi * xi if squared else weight[i] * xi
            run[0, 1] += weight[i] * weight[i]
            run[1, k] += weight[i]
            run[2, k] += alpha[i]
            if squared:
                run[3, k] += alpha[i] * xi
            run[4, 0] += alpha[i] * alpha[i]
        for a in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[a, k] += run[a, k]


@jit
def add_squares(X, out):  # type: ignore[no-untyped-def]
    """Add the sums of the squares of each feature to out."""
    for i in range(X.shape[0]):
        for t in range(X.shape[1]):
            out[t] += X[i, t] * X[i, t]


def precise_sums(
    X: Matrix, y: FloatArray, weight: FloatArray, plane: Plane, alpha: FloatArray | None
) -> ReadSums:
    """Return the sums over some samples in double-double arithmetic.

    `alpha` are multipliers of the hinge; for the squared hinge (None) they are the weighted slacks.
    """
    f = times(X, plane.w, precise=True)
    squared = alpha is None
    if alpha is None:
        alpha = weight * np.maximum(plane.slack(f.hi.copy(), y), 0.0)
    loss = loss_sum(y, f, -plane.shift, y, weight, squared=squared)
    dual = dual_sums(
        X, positive_and_negative(y * alpha), (y, y), (weight, weight), squared=squared, precise=True
    )
    sides = [Enclosure.exact(np.where(y == sign, weight, 0.0)).sum() for sign in (1.0, -1.0)]
    parts = zip(*((s.hi, s.lo, s.error) for s in sides), strict=True)
    return ReadSums(loss, Enclosure(*(np.stack(part) for part in parts)), dual)


def best_constant(
    weight: FloatArray, *, squared: bool, intercept: bool, constant: float | None
) -> float:
    """Return the constant decision value with the smallest objective, approximately.

    Parameters
    ----------
    weight : ndarray of shape (2,)
        Total costs of the positive and the negative class.
    squared, intercept, constant
        As for `ridge_bracket` and `squared_norm`.
    """
    push, total = weight[0] - weight[1], weight[0] + weight[1]
    with np.errstate(all="ignore"):
        stiff = 0.0 if intercept else np.inf if constant is None else np.float64(constant) ** -2
        best = 2.0 * push / (stiff + 2.0 * total) if squared else np.clip(push / stiff, -1.0, 1.0)
    return float(best) if np.isfinite(best) else 0.0


def constant_loss(weight: FloatArray, b: float, *, squared: bool) -> float:
    """Return the loss of the constant decision value b, between -1 and 1."""
    slack = np.array([1.0 - b, 1.0 + b])
    return float(weight @ (slack * slack if squared else slack))
