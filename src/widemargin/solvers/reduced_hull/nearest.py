"""Nearest points of reduced hulls for any kernel, to a tolerance relative to their distance.

Problem: P3 of :mod:`widemargin.problems.reduced_hull`. Its solution is divided by the margin, which
is not known in advance: the hulls may be as near as a millionth of the data's extent. The
soft-margin solver therefore runs with decreasing tolerances, warm-started from the last solution,
until the KKT violation is small compared with the margin found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import NearestPoints
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult

# Hulls nearer than this fraction of the data's extent cannot be distinguished from hulls that
# intersect: its square is the rounding error of a squared distance after some thousand additions.
TOUCHING = 1e-6
FIRST = 0.1  # first guess of the unit, relative to the range of w.x for w the difference of means
LEAST_STEPS, STEPS_PER_ROW = 500_000, 100  # default budget of a run
NEXT = 0.03  # largest ratio of consecutive tolerances


@dataclass(frozen=True, eq=False, kw_only=True)
class HullResult(DualResult):
    """Nearest points of two reduced hulls; `alpha` is negative for the negative class.

    Attributes
    ----------
    points : NearestPoints
        Thresholds and values of w.x at the nearest points.
    separable : bool
        Whether the hulls are proved to be disjoint. If False, and the budget did not run out, they
        intersect within the accuracy of float64.
    history : list of dict
        One entry per round; empty for methods without rounds.
    """

    points: NearestPoints
    separable: bool
    history: tuple[dict[str, Any], ...] | list[dict[str, Any]] = ()


Unit = Callable[[FloatArray, NearestPoints], float]
"""From dual variables and points to the size that violations are measured by."""


def half_margin(_: FloatArray, points: NearestPoints) -> float:
    """Return the unit of the KKT violation of a classifier: half of theta_plus - theta_minus."""
    return 0.5 * points.margin


def solve_nearest(
    hulls: SoftMargin,
    rows: Rows,
    unit: Unit,
    *,
    tol: float,
    budget: Budget,
    start: HullResult | None = None,
    touching: float = TOUCHING,
    sample: bool = True,
    seed: int = 0,
) -> HullResult:
    """Find the nearest points by the soft-margin solver, to a KKT violation of tol units.

    The parameters are those of :func:`widemargin.solvers.reduced_hull.solve`. Hulls nearer than the
    fraction `touching` of the data's extent count as intersecting; `sample` allows the soft-margin
    solver to predict its solution from subsamples (method "auto" instead of "smo").
    """
    # Scale of w.x. The class means belong to their hulls, so the optimal w is no longer than their
    # difference, and the range of w.x is at most the length of w times the extent of the data.
    means = hulls.upper / hulls.upper.sum() - hulls.lower / hulls.lower.sum()
    used = np.flatnonzero(means)
    f = rows.weighted_sum(used, rows, used, means[used])
    extent2 = max(float(f.max() - f.min()), np.finfo(np.float64).tiny)
    floor = touching**2 * extent2
    accuracy = max(floor, FIRST * tol * extent2)
    max_iter = budget.max_iter if budget.max_iter > 0 else max(LEAST_STEPS, STEPS_PER_ROW * rows.n)
    nearest: DualResult | None = start
    method, steps = "auto" if sample else "smo", 0
    while True:
        run = Budget(max_iter, budget.monitor, budget.cache_bytes)
        found = soft_margin.solve(
            hulls, rows, tol=accuracy, budget=run, start=nearest, method=method, seed=seed
        )
        nearest, alpha = found, found.alpha
        steps += found.n_iter
        norm2 = float(alpha @ found.f)
        points = NearestPoints.of(hulls, found.f, norm2)
        size = unit(alpha, points)
        apart = points.separated and norm2 > floor
        met = apart and hulls.kkt_violation(alpha, found.f) <= tol * size
        if met or found.status != "converged" or accuracy <= floor or norm2 <= floor:
            return HullResult(
                alpha=alpha, f=found.f, n_iter=steps, status=found.status, points=points,
                separable=apart,
            )  # fmt: skip
        # Aim at the unit found; it may shrink with the tolerance, hence the loop. If the hulls are
        # not yet proved disjoint, the unit is meaningless.
        wanted = 0.9 * tol * size if apart else NEXT * accuracy
        accuracy = max(floor, min(NEXT * accuracy, wanted))
