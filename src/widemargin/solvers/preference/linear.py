"""Linear preference machines: Newton's method in the features, started from a sample of the rows.

With few features the curvature is a small matrix. It may come from a sample of the rows, for an
approximate direction is as good; gradient and gap never do. With many features the directions come
from conjugate gradients, one product with X and one with X' each.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import gap_scale
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.pair_sums import Curvature
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import Descent, FeatureSpace, PreferenceResult

FEW_FEATURES = 500  # up to which the curvature is a matrix
SAMPLE_ROWS, SAMPLE_PER_FEATURE = 4096, 20  # rows whose curvature stands for that of all
SAMPLE_GAP = 1e-3  # gap of the sample's solution: chance makes it differ by more than that
ENOUGH_PAIRS = 30  # curved pairs for each feature: with fewer a sample's curvature is noise
MANY_GROUPS = 8  # a sample with fewer rows of a group than this takes whole groups instead


def solve_in_features(
    problem: PreferenceProblem,
    rows: LinearRows,
    tol: float,
    budget: Budget,
    start: FloatArray | None,
) -> PreferenceResult:
    """Solve the linear machine from some weights, or from the solution of a sample."""
    w = np.zeros(rows.n_features) if start is None else np.asarray(start, dtype=np.float64)
    width = 1.0
    space, sample = _space(problem, rows)
    if sample is not None and start is None:
        some = LinearRows(space.features)
        ahead = FeatureSpace(some, space.features)
        origin = ahead.at(np.zeros(some.n_features))
        first = Descent(sample, ahead, max(tol, SAMPLE_GAP), budget, origin)
        first.run()
        w, width = first.best.coef, first.width
    descent = Descent(
        problem, space, tol, budget, space.at(w), width, polished=space.trust == "exact"
    )
    status = descent.run()
    w = descent.best.coef
    image = rows.dot(rows.combine(problem.evaluate_point(descent.point).beta))
    rounding = problem.rounding(descent.point, image) / gap_scale(descent.primal)
    if status == "converged" and descent.gap + rounding > tol:
        status = "stalled"
    return PreferenceResult(
        coef=w,
        f=rows.dot(w),
        penalty=0.5 * float(w @ w),
        point=descent.point,
        image=image,
        n_iter=max(1, budget.used),
        status=status,
    )


def _space(
    problem: PreferenceProblem, rows: LinearRows
) -> tuple[FeatureSpace, PreferenceProblem | None]:
    """Return the space of the weights, and the problem of the sample its curvature comes from.

    Only where there are few features the curvature is a matrix, from a sample of many rows.
    """
    if rows.n_features > FEW_FEATURES:
        return FeatureSpace(rows), None
    some = _sample(problem, max(SAMPLE_ROWS, SAMPLE_PER_FEATURE * rows.n_features))
    X = rows.X[some]
    features = np.asarray(X.toarray() if rows.sparse else X, dtype=np.float64)
    if len(some) == problem.n_rows:
        return FeatureSpace(rows, features), None
    sample = problem.restrict(some)

    def curvature(f: FloatArray, width: float, ramp: float | None) -> Curvature:
        # Slacks have a density: where few pairs are in the zone, a wider one tells it.
        sampled, wider = sample.sort(f[some]), width
        if not sample.squared:
            while wider < 1.0 and sampled.n_pairs(0.0, wider) < ENOUGH_PAIRS * rows.n_features:
                wider *= 3.0
        ramp = ramp if wider == width else None
        return Curvature(sampled, sample.C, sample.squared, wider, ramp)

    return FeatureSpace(rows, features, curvature), sample


def _sample(problem: PreferenceProblem, size: int) -> IntArray:
    """Return about so many rows at random: of every group, or all rows of some where they are many.

    All rows are returned where the sample would be half of them, or would have no pair.
    """
    n, n_groups = problem.n_rows, len(problem.starts) - 1
    rng = np.random.default_rng(0)
    every = np.arange(n)
    if 2 * size > n:
        return every
    if n_groups * MANY_GROUPS > size:
        chosen = rng.random(n_groups) < size / n
        some = np.flatnonzero(chosen[problem.group])
    else:
        some = np.sort(rng.choice(n, size, replace=False))
    return some if len(some) and problem.restrict(some).n_pairs else every
