"""Plan, sample, optimum of a sample, and result of the sampling solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.solvers.base import LinearResult
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.tasks import Sampled, SamplePlane
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp

NO_MARGIN = 1e-9  # |w| in units of the spread of the rows that counts as zero


def basis_size(n_features: int, k: float = 1) -> int:
    """Return delta, the largest number of rows that determine the optimum.

    n + 2k - 1 for whole k, n + 1 + 2 floor(k) for others (`literature.random_sampling` has
    the proof). Rows of weight below 1 may need more; the result is exact all the same.

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
    """How to sample.

    Attributes
    ----------
    delta : int
        Size of a basis that is reckoned with.
    sample_size : int
        Draws of a round, r.
    success_test : bool
        Double weights only if the violators weigh at most 1 / (3 delta) of the total.
    patience : int, optional
        Rounds after which delta and the sample size are doubled, again and again.
    """

    delta: int
    sample_size: int
    success_test: bool = True
    patience: int | None = None

    def doubled(self) -> Plan:
        """Return the plan with twice the delta and the sample size."""
        return replace(self, delta=2 * self.delta, sample_size=2 * self.sample_size)


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplingResult(LinearResult):
    r"""A separating plane and how it was found.

    `coef` has the distance of the reduced hulls as its length; `thresholds` are theta_plus and
    theta_minus, the middle of their intervals or the finite end. An entry of `history` has the
    numbers of a round:

    ===========  ==================================================================================
    k            reduction of the hulls
    draws, rows  size of the sample with and without copies
    violators    rows outside the sample that its optimum misclassifies
    success      whether their weights were doubled (growing sample: whether some were added)
    log2_weight  binary logarithm of the total weight before the round
    lower, upper bounds on the distance of the reduced hulls, the length of w at the optimum
    ===========  ==================================================================================

    Attributes
    ----------
    intervals : ndarray of shape (2, 2)
        All optimal values of both thresholds.
    support_part, support_row : ndarray of int
        Part and row of the rows with a multiplier.
    multipliers : ndarray
        Their multipliers s in (0, D].
    round_bound : float
        :math:`6 \delta \ln m`, which bounds the expected number of rounds of the paper's plan.
    separable : bool
        False if the reduced hulls of a sample meet, and so those of all rows; then w = 0.
    """

    intervals: FloatArray
    support_part: IntArray
    support_row: IntArray
    multipliers: FloatArray
    round_bound: float
    separable: bool = True


@dataclass(frozen=True)
class Sample:
    """Rows that were fetched: where they are and what they hold, each one once."""

    part: IntArray
    row: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray
    draws: int

    @classmethod
    def of(cls, fetched: list[Sampled], draws: int) -> Sample:
        """Put together what the parts sent."""
        part = np.repeat(np.arange(len(fetched)), [len(rows) for rows, *_ in fetched])
        row, X, y, weight = (np.concatenate(column) for column in zip(*fetched, strict=True))
        return cls(part, row, X.astype(np.float64), y, weight, draws)

    def and_also(self, fetched: list[Sampled]) -> Sample:
        """Return the union with more rows; copies are merged, or their caps would add up."""
        more = Sample.of(fetched, 0)
        both = [np.concatenate(pair) for pair in zip(self._columns(), more._columns(), strict=True)]
        _, first = np.unique(np.stack(both[:2]), axis=1, return_index=True)
        part, row, X, y, weight = (column[np.sort(first)] for column in both)
        return Sample(part, row, X, y, weight, self.draws)

    def _columns(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]:
        return self.part, self.row, self.X, self.y, self.weight

    def rows_of(self, part: int) -> IntArray:
        """Return the rows of one part, sorted."""
        return np.sort(self.row[self.part == part])

    def mass(self, cap: float) -> FloatArray:
        """Return the sum of the caps of the positives and of the negatives."""
        D = tasks.caps(self.weight, cap)
        return np.array([D[self.y > 0].sum(), D[self.y < 0].sum()])


@dataclass(frozen=True)
class Optimum:
    """The optimum of a sample: w, the thresholds that violators are judged by, multipliers."""

    plane: SamplePlane
    s: FloatArray
    distance: float
    is_zero: bool

    @property
    def thresholds(self) -> FloatArray:
        """Return theta_plus and theta_minus."""
        return np.array([self.plane.plus, self.plane.minus])


def solve_sample(sample: Sample, cap: float, tol: float) -> Optimum:
    """Solve P2 on a sample. Its rows are centred: a shift of all rows changes no multiplier."""
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
    """Return the smallest g up to which the caps add up to 1: the k-th smallest for D = 1/k."""
    order = np.argsort(g, kind="stable")
    reached = np.cumsum(D[order]) >= 1.0 - 1e-12
    return float(g[order[np.argmax(reached)]])
