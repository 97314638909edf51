"""Screening for large box QPs: fix samples far from their threshold, solve for the others.

The interior-point method reads all samples in every iteration. Once a hyperplane near the solution
is known, it determines the bound of most samples, and only a few are uncertain: `numerics.box_qp`
solves the far smaller problem of these, and one product with all samples finds those that were
fixed at the wrong bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray
from widemargin.solvers.numerics.box_qp import BoxQP, BoxSolution, InfeasibleSums, solve_box_qp

SHARE = 4  # ratio of the number of samples to the size of the subsample
IN_DOUBT = 1.6  # number of uncertain samples in units of m sqrt(n / r), see `out_of_core.start`
LOOSE = 0.02  # loose solution: samples at the wrong bound relative to the number of uncertain ones
MAX_ROUNDS = 50


def few_rows(n_features: int) -> int:
    """Return the smallest useful size of a subsample; up to it, problems are solved directly."""
    return max(3000, 60 * n_features)


def solve_nested(
    problem: BoxQP,
    *,
    few: int,
    start: tuple[FloatArray, FloatArray, int] | None = None,
    loose: bool = False,
    seed: int = 0,
    tick: Callable[[], None] | None = None,
) -> BoxSolution:
    """Solve a box QP with screening; the solution and `tick` are those of `solve_box_qp`.

    Up to `few` samples are solved directly. `start` is a hyperplane (w, t) near the solution, with
    the number of samples whose bound it leaves uncertain. With `loose`, for subsamples, some
    samples may remain at the wrong bound.
    """
    m = len(problem.D)
    if m <= few:
        return solve_box_qp(problem, rough=loose, tick=tick)
    if start is None:
        start = _from_sample(problem, few, seed, tick)
    w, t, doubt = start
    doubt = max(doubt, few // 4)
    while True:
        slack = problem.slack(w, t)
        explicit = _in_doubt(problem, slack, doubt)
        found = _rounds(problem, explicit, slack > 0, doubt, loose, tick)
        if found is not None:
            return found
        doubt *= 4


def _from_sample(
    problem: BoxQP, few: int, seed: int, tick: Callable[[], None] | None
) -> tuple[FloatArray, FloatArray, int]:
    """Solve a subsample loosely, or a larger one if its constraints are infeasible."""
    m, order = len(problem.D), problem.Z.shape[1] + len(problem.a)
    rng = np.random.default_rng((seed, m))
    r = max(few // 2, m // SHARE)
    while r < m:
        rows = np.sort(rng.choice(m, r, replace=False, shuffle=False)).astype(np.intp)
        try:
            found = solve_nested(problem.sample(rows), few=few, loose=True, seed=seed, tick=tick)
        except InfeasibleSums:
            r *= 4
            continue
        if not problem.vanishes(found.w):
            return found.w, found.t, int(IN_DOUBT * m * np.sqrt(order / r))
        break  # w = 0 does not separate samples by their bound
    return problem.c, np.zeros(len(problem.a)), m


def _in_doubt(problem: BoxQP, slack: FloatArray, number: int) -> BoolArray:
    """Mark the `number` samples nearest to their threshold.

    Reduced hulls: the equality constraint of a class has coefficients of one sign and is met by the
    samples of largest slack, so the threshold is the rank at which their caps add up to the sum,
    independently of t, with the same number of samples on either side.
    """
    if number >= len(slack):
        return np.ones(len(slack), dtype=bool)
    if len(problem.a) < 2:
        distance = np.abs(slack)
        return distance <= np.partition(distance, number)[number]
    explicit = np.zeros(len(slack), dtype=bool)
    for j, total in enumerate(np.abs(problem.a)):
        mine = np.flatnonzero(problem.E[:, j])
        order = mine[np.argsort(-slack[mine], kind="stable")]
        threshold = int(np.searchsorted(np.cumsum(problem.D[order]), total))
        half = number * len(mine) // (2 * len(slack)) + 8
        explicit[order[max(0, threshold - half) : threshold + half]] = True
    return explicit


def _rounds(
    problem: BoxQP,
    explicit: BoolArray,
    at_cap: BoolArray,
    doubt: int,
    loose: bool,
    tick: Callable[[], None] | None,
) -> BoxSolution | None:
    """Solve and add wrongly fixed samples until there are none; None if there are too many."""
    for _ in range(MAX_ROUNDS):
        capped = at_cap & ~explicit
        try:
            part = solve_box_qp(problem.some(explicit, capped), rough=loose, tick=tick)
        except InfeasibleSums:
            if explicit.all():
                raise
            return None
        slack = problem.slack(part.w, part.t)
        size = float(np.abs(problem.q).max()) + float(np.sqrt(np.mean((problem.q - slack) ** 2)))
        # A slack at rounding level has no sign: such a sample is optimal at either bound.
        wrong = ((slack > 0) != capped) & (np.abs(slack) > OBJECTIVE_ROUNDING * size) & ~explicit
        number = int(wrong.sum())
        if number <= (LOOSE * doubt if loose else 0):
            s = np.where(capped, problem.D, 0.0)
            s[explicit] = part.s
            return replace(part, s=s, interval=_narrowed(problem, part, slack, capped, explicit))
        if number > doubt:
            return None
        explicit = explicit | wrong
    return None


def _narrowed(
    problem: BoxQP,
    part: BoxSolution,
    slack: FloatArray,
    capped: BoolArray,
    explicit: BoolArray,
) -> FloatArray:
    """Return the optimal intervals of the thresholds, narrowed by the samples fixed at bounds."""
    interval = part.interval.copy()
    for j, (low, high) in enumerate(interval):
        if low < high:
            column = problem.E[:, j]
            mine = (column != 0) & ~explicit & (problem.D > 0)
            kink = part.t[j] + slack[mine] / column[mine]
            from_below = capped[mine] == (column[mine] < 0)
            interval[j, 0] = max(low, kink[from_below].max(initial=-np.inf))
            interval[j, 1] = min(high, kink[~from_below].min(initial=np.inf))
    return interval
