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
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.curvature import DenseCurvature
from widemargin.solvers.preference.descent import Descent, FeatureSpace
from widemargin.solvers.preference.polish import Polish
from widemargin.solvers.preference.result import PreferenceResult

FEW_FEATURES = 500  # up to which the curvature is a matrix
SAMPLE_ROWS, SAMPLE_PER_FEATURE = 4096, 20  # rows whose curvature stands for that of all
SAMPLE_GAP = 1e-3  # gap of the sample's solution: chance makes it differ by more than that
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
    dense = _curvature(problem, rows)
    if dense is not None and not dense.whole and start is None:
        w, width = _start_from_sample(dense, max(tol, SAMPLE_GAP), budget)
    space = FeatureSpace(rows, dense)
    polish = Polish(problem, dense.features) if dense is not None and dense.whole else None
    descent = Descent(problem, space, tol, budget, space.at(w), width, polish)
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


def _curvature(problem: PreferenceProblem, rows: LinearRows) -> DenseCurvature | None:
    """Return the curvature as a matrix where there are few features, from a sample of many rows."""
    if rows.n_features > FEW_FEATURES:
        return None
    some = _sample(problem, max(SAMPLE_ROWS, SAMPLE_PER_FEATURE * rows.n_features))
    X = rows.X[some]
    features = np.asarray(X.toarray() if rows.sparse else X, dtype=np.float64)
    return DenseCurvature(problem, features, some)


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


def _start_from_sample(
    dense: DenseCurvature, tol: float, budget: Budget
) -> tuple[FloatArray, float]:
    """Solve the sample's own problem; return its weights and the band it ended with."""
    rows = LinearRows(dense.features)
    whole = DenseCurvature(dense.problem, dense.features, np.arange(rows.n_rows))
    space = FeatureSpace(rows, whole)
    origin = space.at(np.zeros(rows.n_features))
    descent = Descent(dense.problem, space, tol, budget, origin)
    descent.run()
    return descent.best.coef, descent.width
