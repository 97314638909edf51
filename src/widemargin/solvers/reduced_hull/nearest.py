"""Nearest points of reduced hulls to an accuracy that is relative to their distance.

Problem: P3 of :mod:`widemargin.problems.reduced_hull`. Its answer is read divided by the margin,
and the margin is not known before the answer: hulls may be a millionth of the data's extent apart.
So the solver of the soft-margin family is asked for more and more, each time from where it stood,
until its violation is small beside the margin it found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import NearestPoints
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult, Monitor

# Hulls nearer than this fraction of the data's extent are not told from hulls that meet: the
# square of it is what float64 leaves of a squared distance after some thousand additions.
TOUCHING = 1e-6
FIRST = 0.1  # the first guess of the unit, relative to the squared distance of the class means
NEXT = 0.03  # how much further the next run goes where the unit is not settled

Unit = Callable[[FloatArray, NearestPoints], float]
"""From dual variables and points to the size that violations are measured by."""


def half_margin(_: FloatArray, points: NearestPoints) -> float:
    """Return the unit of a classifier: half of theta_plus - theta_minus."""
    return 0.5 * points.margin


def solve_nearest(
    hulls: SoftMargin,
    rows: Rows,
    unit: Unit,
    *,
    tol: float,
    max_iter: int,
    cache_bytes: float,
    touching: float = TOUCHING,
    sample: bool = True,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> tuple[DualResult, NearestPoints, bool]:
    """Find the nearest points to a KKT violation of tol units.

    Parameters
    ----------
    hulls : SoftMargin
        The problem; every class must have a mass of at least 1.
    rows : Rows
        The examples seen through the kernel.
    unit : callable
        What violations are measured by.
    tol : float
        Violation to reach, in units.
    touching : float
        Hulls nearer than this fraction of the data's extent count as meeting.
    max_iter, cache_bytes, monitor
        Budget of each run of the solver.
    sample : bool
        Whether the first run may start from samples of the rows.
    seed : int
        Seed of the samples.

    Returns
    -------
    result : DualResult
        The dual variables.
    points : NearestPoints
        What they say.
    apart : bool
        Whether the hulls are known to be apart. If not, and the status is not that of a budget
        that ran out, they meet as far as float64 can tell.
    """
    extent2 = _extent2(hulls, rows)
    floor = touching**2 * extent2
    accuracy = max(floor, FIRST * tol * extent2)
    start: DualResult | None = None
    steps = 0
    while True:
        result = soft_margin.solve(
            hulls,
            rows,
            tol=accuracy,
            budget=Budget(max_iter, monitor, cache_bytes),
            start=start,
            method="auto" if sample else "smo",
            seed=seed,
        )
        steps += result.n_iter
        result = replace(result, n_iter=steps)
        norm2 = float(result.alpha @ result.f)
        points = NearestPoints.of(hulls, result.f, norm2)
        size = unit(result.alpha, points)
        apart = points.separated and norm2 > floor
        if apart and hulls.kkt_violation(result.alpha, result.f) <= tol * size:
            return result, points, True
        if result.status != "converged" or accuracy <= floor or norm2 <= floor:
            return result, points, apart
        wanted = 0.9 * tol * size if apart else NEXT * accuracy
        accuracy = max(floor, min(NEXT * accuracy, wanted))
        start = result


def _extent2(hulls: SoftMargin, rows: Rows) -> float:
    """Return the scale of w.x: how far apart it puts the rows where w is longest.

    The means of the classes are in their hulls, so no w is longer than their difference; values
    of w.x on all rows spread by the length of w times the extent of the data.
    """
    means = hulls.upper / hulls.upper.sum() - hulls.lower / hulls.lower.sum()
    used = np.flatnonzero(means)
    f = rows.weighted_sum(used, rows, used, means[used])
    return max(float(f.max() - f.min()), np.finfo(np.float64).tiny)
