"""Candidates and data of the sampling benchmark: exact solvers and those that only come near."""

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
"""Iterations of LIBLINEAR from cheap to dear; the first good enough is its matched run."""


@dataclass(frozen=True)
class Plane:
    """What a linear candidate found: the plane, and how many reads of the data it took."""

    coef: FloatArray
    intercept: float
    passes: float


def cube(
    rows: int, columns: int, *, noise: float = 0.0, gap: float = 0.0, C: float = 1.0
) -> DataSet:
    """Generate uniform rows on both sides of a random plane, some labels flipped, or with a gap."""
    rng = np.random.default_rng(SEED)
    normal = rng.standard_normal(columns)
    normal /= np.linalg.norm(normal)
    X = rng.uniform(-1.0, 1.0, (rows, columns))
    y = np.where(X @ normal > 0, 1.0, -1.0)
    X += np.outer(gap * y, normal)
    y = np.where(rng.random(rows) < noise, -y, y)
    return DataSet(f"cube {rows:,} x {columns} C={C:g}", X, y, C=C, gamma=1.0 / columns)


def correlated(rows: int, columns: int, *, noise: float, C: float) -> DataSet:
    """Generate a cube seen through a random mixture of its features, then standardised.

    The features of a cube are independent and of one scale, which spares first-order methods
    what they find hard in measured data.
    """
    data = cube(rows, columns, noise=noise, C=C)
    X = data.X @ np.random.default_rng(SEED + 1).standard_normal((columns, columns))
    X /= X.std(axis=0)
    name = f"mixed cube {rows:,} x {columns} C={C:g}"
    return DataSet(name, X, data.y, C=C, gamma=1.0 / columns)


def crossed(rows: int, columns: int, k: int) -> DataSet:
    """Generate a cube with a gap that (k - 1) // 2 rows of each class have crossed.

    The hulls of single rows then meet, those of means of k rows do not.
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
    """Generate uniform rows on both sides of a curved gap: few support vectors by RBF."""
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-1.0, 1.0, (2 * rows, 5))
    height = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 - 0.35
    kept = np.flatnonzero(np.abs(height) > 0.15)[:rows]
    y = np.where(height[kept] > 0, 1.0, -1.0)
    return DataSet(f"curved gap {rows:,} x 5", X[kept], y, C=100.0, gamma=0.3)


def source_of(data: DataSet) -> Any:
    """Return rows in memory as solvers see them; the classes are known from then on."""
    from widemargin import sources

    return sources.from_arrays(data.X, data.y).binary(1.0, -1.0)


def exact(source: Any, data: DataSet) -> Plane:
    """Solve by implicit outliers to the last digit."""
    from widemargin.problems.linear_scan import LinearProblem
    from widemargin.solvers.base import Budget
    from widemargin.solvers.out_of_core import solve

    found = solve(LinearProblem("hinge", data.C), source, tol=1e-10, budget=Budget(100))
    if found.status != "converged":
        raise RuntimeError(f"out_of_core.solve ended as {found.status!r} on {data.name}")
    return Plane(found.coef, float(found.thresholds[0]), found.passes)


def our_estimator(data: DataSet) -> Plane:
    """Fit LinearSVC at its defaults: its tolerance is a gap, and validation is included."""
    from widemargin import LinearSVC

    model = LinearSVC(C=data.C).fit(data.X, data.y)
    return Plane(model.coef_[0], float(model.intercept_[0]), float("nan"))


def coordinate_descent(data: DataSet, epochs: int) -> Plane:
    """Fit LIBLINEAR with so many iterations."""
    model = _quietly(lambda: liblinear(data.C, tol=1e-12, max_iter=epochs).fit(data.X, data.y))
    return Plane(model.coef_[0], float(model.intercept_[0]), float(epochs))


def matched(data: DataSet, optimum: float, gap: float) -> tuple[float, Plane]:
    """Time LIBLINEAR with the fewest iterations that come within a gap of the optimum.

    Where none do, with the most.
    """
    for epochs in EPOCHS:
        seconds, plane = timed(partial(coordinate_descent, data, epochs))
        if linear_primal(plane.coef, plane.intercept, data) <= (1 + gap) * optimum:
            break
    return seconds, plane


def stochastic(data: DataSet, epochs: int = 20) -> Plane:
    """Fit scikit-learn's stochastic gradient descent for some epochs."""
    from sklearn.linear_model import SGDClassifier

    alpha = 1.0 / (data.C * len(data.y))
    model = SGDClassifier(loss="hinge", alpha=alpha, max_iter=epochs, tol=None, random_state=SEED)
    _quietly(lambda: model.fit(data.X, data.y))
    return Plane(model.coef_[0], float(model.intercept_[0]), float(epochs))


def primal_lbfgs(data: DataSet, optimum: float, gap: float, threads: int) -> Plane:
    """Minimise the hinge itself by L-BFGS, as Spark does; stop it within a gap of the optimum.

    The hinge is not smooth, but the sum of very many of them nearly is. To be told the optimum is
    an advantage that it has here only. `threads` is the number that BLAS may use.
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
    """The soft-margin objective with a subgradient; raises _GoodEnough at the goal.

    Two products with the data and a few sweeps over vectors that are made once.
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
    """Return one or all cores, whichever multiplies these rows faster at the moment."""
    w = np.ones(data.X.shape[1])
    seconds = {}
    for threads in (1, usable_cores()):
        with threadpool_limits(threads):
            seconds[threads] = min(timed(lambda: data.X @ w)[0] for _ in range(3))
    return min(seconds, key=lambda threads: seconds[threads])


class _GoodEnough(Exception):
    """The objective is within its gap; the argument is the point."""


def _quietly(fit: Callable[[], Any]) -> Any:
    """Run a fit that is stopped early on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit()
