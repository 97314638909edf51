"""Run of the random-sampling solver: draws, passes, drawing weights, bounds and history."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin.solvers.base import Status
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.state import (
    Optimum,
    Plan,
    Sample,
    SamplingResult,
    basis_size,
    solve_sample,
)
from widemargin.solvers.literature.random_sampling.tasks import Exponents, Scan
from widemargin.sources.protocol import Source

MOST_ROUNDS = 2**16 - 1  # a round adds at most 1 to an exponent, which is a uint16


class Run:
    """State of a random-sampling run over a source.

    `k` is the reduction of the hulls, 1 for the hard margin; `tol` is the smallest slack of a
    violator, in units of |w| times the spread of the samples.
    """

    def __init__(self, source: Source, k: float, plan: Plan, seed: int, tol: float) -> None:
        self.source, self.sizes = source, source.sizes
        self.k, self.plan, self.seed, self.tol = k, plan, seed, tol
        self.cap = np.inf if k == 1 else 1.0 / k
        self.rng = np.random.default_rng(seed)
        self.exponents: list[Exponents] = [np.zeros(size, np.uint16) for size in self.sizes]
        self.histograms = [np.array([size]) for size in self.sizes]
        self.scans: list[Scan] = []
        self.counts: list[IntArray] | None = None
        self.history: list[dict[str, Any]] = []
        self.passes = self.gathers = self.waited = 0
        self.lower, self.upper = 0.0, math.inf

    # -- drawing ---------------------------------------------------------------------------

    def draw(self) -> Sample:
        """Draw a subsample by weight, or return all samples if there are no more than that."""
        m = sum(self.sizes)
        if self.plan.sample_size >= m:
            return self.topped_up(self._fetch([np.arange(size) for size in self.sizes], m))
        totals = [tasks.total_weight(histogram) for histogram in self.histograms]
        shares = [total / sum(totals) for total in totals]  # Python integers do not overflow
        draws = self.rng.multinomial(self.plan.sample_size, shares)
        fetched = self.source.run(
            tasks.draw,
            [(int(draws[i]), self.next_seed(i), self.exponents[i]) for i in range(len(self.sizes))],
        )
        return self.topped_up(Sample.of(fetched, self.plan.sample_size))

    def draw_uniformly(self, number: int) -> Sample:
        """Draw a uniform random subsample without replacement."""
        number = min(number, sum(self.sizes))
        quota = self.rng.multivariate_hypergeometric(self.sizes, number, method="marginals")
        rows = [
            np.sort(self.rng.choice(size, count, replace=False))
            for size, count in zip(self.sizes, quota, strict=True)
        ]
        return self.topped_up(self._fetch(rows, number))

    def _fetch(self, rows: list[IntArray], draws: int) -> Sample:
        return Sample.of(self.source.run(tasks.take, [(these,) for these in rows]), draws)

    def next_seed(self, part: int) -> list[int]:
        """Return a new seed for a draw in a part: a repeated task then draws the same samples."""
        self.gathers += 1
        return [self.seed, self.gathers, part]

    def topped_up(self, sample: Sample) -> Sample:
        """Add samples of each class until its caps sum to at least 1, else P2 is infeasible."""
        for label in (0, 1):
            mass = sample.mass(self.cap)[label]
            while mass < 1.0 - 1e-12:
                present = int(np.count_nonzero((sample.y > 0) == (label == 0)))
                lacking = max(1, math.ceil((1.0 - mass) * self.k)) + present
                sample, complete = self._add_of_class(sample, label == 0, lacking)
                mass = sample.mass(self.cap)[label]
                if complete and mass < 1.0 - 1e-12:
                    if present == 0 and mass == 0:
                        raise ValueError("y holds one class only: both are needed to separate them")
                    raise ValueError(
                        f"k={self.k:g} must be at most {mass * self.k:g}, the weight of the "
                        "smaller class"
                    )
        return sample

    def _add_of_class(self, sample: Sample, positive: bool, number: int) -> tuple[Sample, bool]:
        """Add random samples of a class; also return whether these are the whole class."""
        if self.counts is None:
            self.counts = self.source.run(tasks.count_classes, [() for _ in self.sizes])
            self.passes += 1
        counts = np.array([count[0 if positive else 1] for count in self.counts])
        number = min(number, int(counts.sum()))
        quota = self.rng.multivariate_hypergeometric(counts, number, method="marginals")
        fetched = self.source.run(
            tasks.draw_class,
            [(positive, int(count), self.next_seed(i)) for i, count in enumerate(quota)],
        )
        return sample.and_also(fetched), number == int(counts.sum())

    # -- rounds ----------------------------------------------------------------------------

    def solve(self, sample: Sample) -> Optimum:
        """Solve P2 on the subsample."""
        with worker_threads():
            return solve_sample(sample, self.cap, self.tol)

    def scan(self, optimum: Optimum, sample: Sample) -> Scan:
        """Make one pass over all samples to find the violators of the subsample's optimum."""
        self.scans = self.source.run(
            tasks.scan,
            [
                (optimum.plane, self.cap, sample.rows_of(i), self.exponents[i])
                for i in range(len(self.sizes))
            ],
        )
        self.passes += 1
        return tasks.merged(self.scans)

    def succeeds(self, found: Scan) -> bool:
        """Return whether the weight of the violators is small enough for it to be doubled."""
        if found.violators == 0:
            return False
        if not self.plan.success_test:
            return True
        violating = tasks.total_weight(found.violating)
        return 3 * self.plan.delta * violating <= tasks.total_weight(found.histogram)

    def double_weights(self) -> None:
        """Double the weights of the violators of the last pass by adding 1 to their exponents."""
        for i, scan in enumerate(self.scans):
            self.exponents[i][scan.rows] += np.uint16(1)
            moved = np.concatenate([[0], scan.violating])
            stay = np.zeros_like(scan.histogram)
            stay[: len(scan.violating)] = scan.violating
            self.histograms[i] = tasks.added([scan.histogram - stay, moved])

    def record(self, optimum: Optimum, sample: Sample, found: Scan, success: bool) -> None:
        """Append a round to the history, with the best bounds on the distance of the hulls.

        Upper bound: the hulls of a subsample lie inside those of all samples, so their distance is
        at least as large. Lower bound: w and the thresholds, multiplied by the best common factor,
        are feasible for P2, whose optimal value is minus half the squared distance.
        """
        theta = optimum.thresholds
        width = theta[0] - theta[1] - found.loss
        if np.isinf(self.cap):  # thresholds at the extreme samples need no slack
            width = max(width, theta[0] - theta[1] - np.maximum(found.worst, 0.0).sum())
        self.upper = min(self.upper, optimum.distance)
        self.lower = max(self.lower, float(width) / optimum.distance)
        self.history.append(
            {
                "k": self.k,
                "draws": sample.draws,
                "rows": len(sample.y),
                "violators": found.violators,
                "success": success,
                "log2_weight": math.log2(tasks.total_weight(found.histogram)),
                "lower": min(self.lower, self.upper),
                "upper": self.upper,
            }
        )

    def spread(self) -> float:
        """Return the gap between the bounds on the distance, relative to the upper bound."""
        return (self.upper - min(self.lower, self.upper)) / self.upper

    def result(
        self, optimum: Optimum, sample: Sample, found: Scan | None, status: Status
    ) -> SamplingResult:
        """Return the result of the run, given its last round.

        `found` is None if the reduced hulls of the subsample intersect. Then those of all samples
        do as well, and w = 0.
        """
        n = self.source.n_features
        if found is None:
            self.lower = self.upper = 0.0
            coef, intervals, used = np.zeros(n), np.zeros((2, 2)), np.empty(0, dtype=np.intp)
        else:
            coef, intervals = optimum.plane.coef, _intervals(optimum.thresholds, found)
            used = np.flatnonzero(optimum.s)
        finite = np.isfinite(intervals)
        return SamplingResult(
            coef=coef,
            thresholds=np.where(finite, intervals, 0.0).sum(axis=1) / finite.sum(axis=1),
            primal=-0.5 * min(self.lower, self.upper) ** 2,
            dual=-0.5 * self.upper**2,
            passes=self.passes,
            history=self.history,
            n_iter=max(1, len(self.history)),
            status=status,
            intervals=intervals,
            support_part=sample.part[used],
            support_row=sample.row[used],
            multipliers=optimum.s[used],
            round_bound=6 * basis_size(n, self.k) * math.log(sum(self.sizes)),
            separable=found is not None,
        )


def _intervals(theta: FloatArray, found: Scan) -> FloatArray:
    """Return the intervals of optimal thresholds: points, unless the caps up to them sum to 1."""
    intervals = np.stack([theta, theta], axis=1)
    for label, outward in ((0, 1), (1, 0)):
        if found.mass[label] <= 1.0 + 1e-9:
            reach = -found.nearest[label]  # to the first sample with multiplier zero
            intervals[label, outward] += reach if label == 0 else -reach
    return intervals
