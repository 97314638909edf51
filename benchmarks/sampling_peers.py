"""Candidates and data of the sampling benchmark: exact solvers and approximate ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.data import SEED, DataSet, FloatArray
from benchmarks.measure import timed, usable_cores
from benchmarks.objectives import linear_primal
from benchmarks.peers import liblinear

EPOCHS = (20, 50, 100, 200, 500, 1000)
"""Iterations of LIBLINEAR; the first number that reaches the required gap is "matched"."""


@dataclass(frozen=True)
class Plane:
    """Hyperplane of a linear candidate, and the number of passes over the data."""

    coef: FloatArray
    intercept: float
    passes: float


def cube(
    rows: int, columns: int, *, noise: float = 0.0, gap: float = 0.0, C: float = 1.0
) -> DataSet:
    """Generate uniform samples labelled by a random hyperplane, with flipped labels or a gap.

    `noise` is the fraction of flipped labels; samples of each class are shifted away from the
    hyperplane by `gap`.
    """
    rng = np.random.default_rng(SEED)
    normal = rng.standard_normal(columns)
    normal /= np.linalg.norm(normal)
    X = rng.uniform(-1.0, 1.0, (rows, columns))
    y = np.where(X @ normal > 0, 1.0, -1.0)
    X += np.outer(gap * y, normal)
    y = np.where(rng.random(rows) < noise, -y, y)
    return DataSet(f"cube {rows:,} x {columns} C={C:g}", X, y, C=C, gamma=1.0 / columns)


def correlated(rows: int, columns: int, *, noise: float, C: float) -> DataSet:
    """Generate a cube whose features are mixed by a random matrix and then standardised.

    The features of a cube are independent and have one scale, which is easier for first-order
    methods than real data.
    """
    data = cube(rows, columns, noise=noise, C=C)
    X = data.X @ np.random.default_rng(SEED + 1).standard_normal((columns, columns))
    X /= X.std(axis=0)
    name = f"mixed cube {rows:,} x {columns} C={C:g}"
    return DataSet(name, X, data.y, C=C, gamma=1.0 / columns)


def crossed(rows: int, columns: int, k: int) -> DataSet:
    """Generate a cube with a gap, with (k - 1) // 2 samples of each class on the wrong side.

    The convex hulls of the classes then intersect; the reduced hulls, of means of k samples, do
    not.
    """
    data = cube(rows, columns, gap=0.3)
    normal = np.random.default_rng(SEED).standard_normal(columns)
    y = data.y.copy()
    for label in (1.0, -1.0):
        members = np.flatnonzero(data.y == label)
        nearest = np.argsort(label * (data.X[members] @ normal))[: (k - 1) // 2]
        y[members[nearest]] = -label
    return DataSet(f"cube {rows:,} x {columns} k={k}", data.X, y, C=1.0, gamma=1.0 / columns)


def curved(rows: int) -> DataSet:
    """Generate uniform samples on both sides of a curved gap: few support vectors with RBF."""
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-1.0, 1.0, (2 * rows, 5))
    height = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 - 0.35
    kept = np.flatnonzero(np.abs(height) > 0.15)[:rows]
    y = np.where(height[kept] > 0, 1.0, -1.0)
    return DataSet(f"curved gap {rows:,} x 5", X[kept], y, C=100.0, gamma=0.3)


def source_of(data: DataSet) -> Any:
    """Return the data as a source for solvers, with the classes already known."""
    from widemargin import sources

    return sources.from_arrays(data.X, data.y).binary(1.0, -1.0)


def exact(source: Any, data: DataSet) -> Plane:
    """Solve exactly by implicit outliers."""
    from widemargin.problems.linear_scan import LinearProblem
    from widemargin.solvers.base import Budget
    from widemargin.solvers.out_of_core import solve

    found = solve(LinearProblem("hinge", data.C), source, tol=1e-10, budget=Budget(100))
    if found.status != "converged":
        raise RuntimeError(f"out_of_core.solve ended as {found.status!r} on {data.name}")
    return Plane(found.coef, float(found.thresholds[0]), found.passes)


def our_estimator(data: DataSet) -> Plane:
    """Fit our LinearSVC with its default tolerance, a gap; validation is included."""
    from widemargin import LinearSVC

    model = LinearSVC(C=data.C, loss="hinge").fit(data.X, data.y)
    return Plane(model.coef_[0], float(model.intercept_[0]), float("nan"))


def coordinate_descent(data: DataSet, epochs: int) -> Plane:
    """Fit LIBLINEAR with at most `epochs` iterations."""
    model = _quietly(lambda: liblinear(data.C, tol=1e-12, max_iter=epochs).fit(data.X, data.y))
    return Plane(model.coef_[0], float(model.intercept_[0]), float(epochs))


def matched(data: DataSet, optimum: float, gap: float) -> tuple[float, Plane]:
    """Time LIBLINEAR with the fewest iterations that come within a gap of the optimum.

    If no number in `EPOCHS` does, the largest is used.
    """
    for epochs in EPOCHS:
        seconds, plane = timed(partial(coordinate_descent, data, epochs))
        if linear_primal(plane.coef, plane.intercept, data) <= (1 + gap) * optimum:
            break
    return seconds, plane


def stochastic(data: DataSet, epochs: int = 20) -> Plane:
    """Fit scikit-learn's SGDClassifier for a number of epochs."""
    from sklearn.linear_model import SGDClassifier

    alpha = 1.0 / (data.C * len(data.y))
    model = SGDClassifier(loss="hinge", alpha=alpha, max_iter=epochs, tol=None, random_state=SEED)
    _quietly(lambda: model.fit(data.X, data.y))
    return Plane(model.coef_[0], float(model.intercept_[0]), float(epochs))


def primal_lbfgs(data: DataSet, optimum: float, gap: float, threads: int) -> Plane:
    """Minimise the hinge loss by L-BFGS, as Spark does; stop within a gap of the known optimum.

    The hinge is not smooth, but a sum of very many of them nearly is. In practice the optimum is
    not known and cannot be used for stopping. `threads` is the number of BLAS threads.
    """
    objective = _Hinge(data, (1.0 + gap) * optimum)
    settings = {"maxiter": 2000, "maxfun": 2000, "ftol": 0.0, "gtol": 0.0, "maxcor": 10}
    start = np.zeros(data.X.shape[1] + 1)
    with threadpool_limits(threads):
        try:
            v = minimize(objective, start, jac=True, method="L-BFGS-B", options=settings).x
        except _GoodEnough as reached:
            v = reached.args[0]
    return Plane(v[:-1], float(v[-1]), float(objective.evaluations))


class _Hinge:
    """Soft-margin objective and a subgradient; raises _GoodEnough when the goal is reached.

    An evaluation costs two products with the data and a few operations on preallocated vectors.
    """

    def __init__(self, data: DataSet, goal: float) -> None:
        self.data, self.goal, self.evaluations = data, goal, 0
        self.slack = np.empty(len(data.y))
        self.loss = np.empty(len(data.y))

    def __call__(self, v: FloatArray) -> tuple[float, FloatArray]:
        X, y, C = self.data.X, self.data.y, self.data.C
        slack, loss, w = self.slack, self.loss, v[:-1]
        self.evaluations += 1
        np.dot(X, w, out=slack)
        slack += v[-1]
        slack *= y
        np.subtract(1.0, slack, out=slack)
        np.maximum(slack, 0.0, out=loss)
        value = 0.5 * float(w @ w) + C * float(loss.sum())
        if value <= self.goal:
            raise _GoodEnough(v.copy())
        np.multiply(slack > 0, y, out=loss)
        return value, np.append(w - C * (loss @ X), -C * loss.sum())


def fastest_blas_threads(data: DataSet) -> int:
    """Return 1 or the number of cores, whichever currently multiplies X by a vector faster."""
    w = np.ones(data.X.shape[1])
    seconds = {}
    for threads in (1, usable_cores()):
        with threadpool_limits(threads):
            seconds[threads] = min(timed(lambda: data.X @ w)[0] for _ in range(3))
    return min(seconds, key=lambda threads: seconds[threads])


class _GoodEnough(Exception):
    """Raised when the objective is within its gap; the argument is the point."""


def _quietly(fit: Callable[[], Any]) -> Any:
    """Call a fit that is stopped early on purpose, without its convergence warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit()
