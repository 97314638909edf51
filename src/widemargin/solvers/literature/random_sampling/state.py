"""Data classes of random sampling: plan, subsample, its optimum, and the result."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.solvers.base import LinearResult
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.tasks import Sampled, SamplePlane
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp

NO_MARGIN = 1e-9  # |w|, in units of the spread of the samples, up to which it counts as zero


def basis_size(n_features: int, k: float = 1) -> int:
    """Return delta, the largest number of samples in a basis of the optimum.

    It is n + 2k - 1 for integer k and n + 1 + 2 floor(k) otherwise, for n features; the docstring
    of `literature.random_sampling` has the proof. If some weights are below 1, a basis may be
    larger; this does not affect the exactness of the result.

    Examples
    --------
    >>> from widemargin.solvers.literature.random_sampling import basis_size
    >>> basis_size(2), basis_size(3, k=3)
    (3, 8)
    """
    whole = float(k).is_integer()
    return n_features + (2 * int(k) - 1 if whole else 2 * math.floor(k) + 1)


@dataclass(frozen=True)
class Plan:
    """Parameters of the sampling rounds of the method "weights".

    Attributes
    ----------
    delta : int
        Assumed size of a basis.
    sample_size : int
        Number of draws per round, r.
    success_test : bool
        Double weights only if the violators have at most 1 / (3 delta) of the total weight.
    patience : int, optional
        Number of rounds after which delta and the sample size are doubled, repeatedly. None: never.
    """

    delta: int
    sample_size: int
    success_test: bool = True
    patience: int | None = None

    def doubled(self) -> Plan:
        """Return the plan with delta and the sample size doubled."""
        return replace(self, delta=2 * self.delta, sample_size=2 * self.sample_size)


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplingResult(LinearResult):
    r"""Separating hyperplane of the reduced hulls and the history of the sampling rounds.

    The norm of `coef` is the distance between the reduced hulls; `thresholds` are theta_plus and
    theta_minus, the midpoints of their intervals or their finite ends. Each entry of `history`
    describes a round:

    ===========  ==================================================================================
    k            reduction of the hulls
    draws, rows  number of draws, and of different samples in the subsample
    violators    samples outside the subsample that violate the constraints at its optimum
    success      whether their weights were doubled (growing subsample: whether some were added)
    log2_weight  binary logarithm of the total drawing weight before the round
    lower, upper bounds on the distance between the reduced hulls, the norm of w at the optimum
    ===========  ==================================================================================

    Attributes
    ----------
    intervals : ndarray of shape (2, 2)
        Intervals of the optimal values of both thresholds.
    support_part, support_row : ndarray of int
        Part, and index within the part, of the samples with a nonzero multiplier.
    multipliers : ndarray
        Multipliers s in (0, D] of these samples.
    round_bound : float
        :math:`6 \delta \ln m`, a bound on the expected number of rounds with :func:`proved_plan`.
    separable : bool
        False if the reduced hulls of a subsample intersect, hence those of all samples; then w = 0.
    """

    intervals: FloatArray
    support_part: IntArray
    support_row: IntArray
    multipliers: FloatArray
    round_bound: float
    separable: bool = True


@dataclass(frozen=True)
class Sample:
    """Subsample in memory, without repeated samples: part, index in the part, X, y and weight."""

    part: IntArray
    row: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray
    draws: int

    @classmethod
    def of(cls, fetched: list[Sampled], draws: int) -> Sample:
        """Return the subsample made of the samples fetched from each part."""
        part = np.repeat(np.arange(len(fetched)), [len(rows) for rows, *_ in fetched])
        row, X, y, weight = (np.concatenate(column) for column in zip(*fetched, strict=True))
        return cls(part, row, X.astype(np.float64), y, weight, draws)

    def and_also(self, fetched: list[Sampled]) -> Sample:
        """Return the union with more samples, each kept once: the caps of copies would add up."""
        more = Sample.of(fetched, 0)
        both = [np.concatenate(pair) for pair in zip(self._columns(), more._columns(), strict=True)]
        _, first = np.unique(np.stack(both[:2]), axis=1, return_index=True)
        part, row, X, y, weight = (column[np.sort(first)] for column in both)
        return Sample(part, row, X, y, weight, self.draws)

    def _columns(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]:
        return self.part, self.row, self.X, self.y, self.weight

    def rows_of(self, part: int) -> IntArray:
        """Return the sorted indices of the samples that belong to a part."""
        return np.sort(self.row[self.part == part])

    def mass(self, cap: float) -> FloatArray:
        """Return the sum of the caps of the positives and of the negatives."""
        D = tasks.caps(self.weight, cap)
        return np.array([D[self.y > 0].sum(), D[self.y < 0].sum()])


@dataclass(frozen=True)
class Optimum:
    """Optimum of a subsample: hyperplane with the thresholds that define violators, multipliers."""

    plane: SamplePlane
    s: FloatArray
    distance: float
    is_zero: bool

    @property
    def thresholds(self) -> FloatArray:
        """Return theta_plus and theta_minus."""
        return np.array([self.plane.plus, self.plane.minus])


def solve_sample(sample: Sample, cap: float, tol: float) -> Optimum:
    """Solve P2 on a subsample, centred first: a shift does not change the multipliers."""
    centre = sample.X.mean(axis=0)
    shifted = sample.X - centre
    D = tasks.caps(sample.weight, cap)
    E = np.stack([-(sample.y > 0).astype(np.float64), (sample.y < 0).astype(np.float64)], axis=1)
    ends = np.array([-1.0, 1.0])
    zero = np.zeros(len(D))
    Z = shifted * sample.y[:, None]
    found = solve_box_qp(BoxQP(Z, E, ends, zero, D, np.zeros(sample.X.shape[1])))
    g = sample.X @ found.w
    positive, negative = sample.y > 0, sample.y < 0
    plus = _entering(g[positive], D[positive])
    minus = -_entering(-g[negative], D[negative])
    distance = float(np.linalg.norm(found.w))
    spread = math.sqrt(float(np.einsum("ij,ij->", shifted, shifted)) / len(D))
    rounding = 16 * np.finfo(np.float64).eps * float(np.abs(sample.X).max()) * len(centre)
    tol = distance * (tol * spread + rounding)
    plane = SamplePlane(found.w, plus, minus, tol)
    return Optimum(plane, found.s, distance, distance <= NO_MARGIN * spread)


def _entering(g: FloatArray, D: FloatArray) -> float:
    """Return the smallest g up to which the caps sum to 1: the k-th smallest for D = 1/k."""
    order = np.argsort(g, kind="stable")
    reached = np.cumsum(D[order]) >= 1.0 - 1e-12
    return float(g[order[np.argmax(reached)]])
