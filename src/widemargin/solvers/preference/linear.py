"""Newton's method for linear ranking models, warm-started from a subsample.

With few features the curvature is a small matrix. It may be estimated from a subsample, since an
approximate direction suffices; the gradient and the duality gap always use all samples. With many
features the directions are computed by conjugate gradients, whose iterations take one product with
X and one with X' each.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.bounds import dual_terms
from widemargin.problems.preference.pair_sums import Curvature
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import Descent, FeatureSpace, PreferenceResult

FEW_FEATURES = 500  # up to this number the curvature is formed as a matrix
SAMPLE_ROWS, SAMPLE_PER_FEATURE = 4096, 20  # size of the subsample: the larger of the two
SAMPLE_GAP = 1e-3  # tolerance for the subsample, whose optimum differs by more through chance
ENOUGH_PAIRS = 30  # pairs in the zone per feature; with fewer the estimated curvature is noise
MANY_GROUPS = 8  # with fewer samples per group than this, whole groups are drawn to keep pairs


def solve_in_features(
    problem: PreferenceProblem,
    rows: LinearRows,
    tol: float,
    budget: Budget,
    start: FloatArray | None,
) -> PreferenceResult:
    """Solve the linear problem, warm-started from `start` or from the solution of a subsample."""
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
    beta = dual_terms(problem, descent.point).beta.hi
    return PreferenceResult(
        coef=w,
        f=rows.dot(w),
        penalty=0.5 * float(w @ w),
        point=descent.point,
        beta=beta,
        image=rows.dot(rows.combine(beta)),
        n_iter=max(1, budget.used),
        status=status,
    )


def _space(
    problem: PreferenceProblem, rows: LinearRows
) -> tuple[FeatureSpace, PreferenceProblem | None]:
    """Return the space of the weights, and the subsampled problem that supplies its curvature.

    The problem is None for many features, where no matrix is formed, and for few samples, which
    are all used.
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
        # The curvature is a density of slacks: with few pairs in the zone, estimate it from a
        # wider one.
        sampled, wider = sample.sort(f[some]), width
        if not sample.squared:
            while wider < 1.0 and sampled.n_pairs(0.0, wider) < ENOUGH_PAIRS * rows.n_features:
                wider *= 3.0
        ramp = ramp if wider == width else None
        return Curvature(sampled, sample.C, sample.squared, wider, ramp)

    return FeatureSpace(rows, features, curvature), sample


def _sample(problem: PreferenceProblem, size: int) -> IntArray:
    """Draw about `size` samples at random; with many groups, draw whole groups.

    All samples are returned if `size` is more than half of them or the draw contains no pair.
    """
    n, n_groups = problem.n_rows, len(problem.starts) - 1
    rng = np.random.default_rng(0)  # a fixed seed keeps fits reproducible
    every = np.arange(n)
    if 2 * size > n:
        return every
    if n_groups * MANY_GROUPS > size:
        chosen = rng.random(n_groups) < size / n
        some = np.flatnonzero(chosen[problem.group])
    else:
        some = np.sort(rng.choice(n, size, replace=False))
    return some if len(some) and problem.restrict(some).n_pairs else every
