r"""The linear machine with squared hinge on data that are read, not held: one Newton step a pass.

Problem, over the rows of a :class:`~widemargin._base.typing.Source` with weights :math:`c_i`:

.. math::

    \min_{w, b} \; P = \tfrac12 |w|^2 + C \sum_i c_i \max(0, \xi_i)^2,
    \qquad \xi_i = 1 - y_i (w \cdot x_i + b) .

P is piecewise quadratic. One pass sums up its value, gradient and Hessian at a point and its values
at shorter steps; where the rows with :math:`\xi_i > 0` no longer change, the Newton step ends at
the optimum itself. :math:`\alpha_i = 2 C c_i \max(0, \xi_i)` is a point of the dual,

.. math::

    \max_{\alpha \ge 0} \; \sum_i \alpha_i - \tfrac12 \bigl|\sum_i y_i \alpha_i x_i\bigr|^2
    - \sum_i \frac{\alpha_i^2}{4 C c_i} \quad\text{s.t.}\quad \sum_i y_i \alpha_i = 0 ,

once the :math:`\alpha` of each class are multiplied by a factor that makes the two sums equal. The
sums of both classes are kept apart in the pass, so the bound is exact at every point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray
from widemargin.solvers.base import Budget, Monitor, Status, Store
from widemargin.sources.protocol import Part, Source

SHORTER = (0.5, 0.2, 0.05)  # steps that a pass tries besides the whole one
ENOUGH = 1e-4  # share of the predicted decrease that a step must bring
KNOWN = 1e-15  # eigenvalues, of the largest: below, they are rounding


@dataclass(frozen=True)
class ScannedModel:
    """A linear model and what one pass proves of it.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights.
    intercept : float
        Threshold.
    primal, dual : float
        Objectives, in float64 over all rows.
    passes : int
        Reads of the data.
    status : {"converged", "max_iter", "stopped", "stalled"}
        Why it ended.
    history : list of dict
        One entry a pass: objective, lower bound, rows with slack.
    """

    coef: FloatArray
    intercept: float
    primal: float
    dual: float
    passes: int
    status: Status
    history: list[dict[str, Any]]


@dataclass
class Sums:
    """What one pass sums up at a point, the last coordinate being the intercept."""

    loss: float
    shorter: FloatArray  # losses at the shorter steps
    pull: FloatArray  # (2, d + 1): sums of y alpha (x, 1) / 2C of the two classes
    charges: FloatArray  # (2,): sums of alpha / 2C
    squares: FloatArray  # (2,): sums of alpha^2 / (4 C^2 c)
    hessian: FloatArray
    active: int

    def add(self, other: Sums) -> None:
        """Add the sums of other rows."""
        self.loss += other.loss
        self.shorter += other.shorter
        self.pull += other.pull
        self.charges += other.charges
        self.squares += other.squares
        self.hessian += other.hessian
        self.active += other.active


def sum_up(part: Part, point: FloatArray, step: FloatArray, intercept: bool) -> Sums:
    """Read a part once; `step` is the way that led to the point."""
    size = len(point)
    total = Sums(0.0, np.zeros(len(SHORTER)), np.zeros((2, size)), np.zeros(2), np.zeros(2),
                 np.zeros((size, size)), 0)  # fmt: skip
    both = np.column_stack([point[:-1], step[:-1]])
    for _, X, y, weight in part.blocks():
        products = X.astype(np.float64, copy=False) @ both
        slack = 1.0 - y * (products[:, 0] + point[-1])
        back = y * (products[:, 1] + step[-1])
        for k, share in enumerate(SHORTER):
            total.shorter[k] += weight @ np.square(np.maximum(slack + (1.0 - share) * back, 0.0))
        some = np.flatnonzero((slack > 0) & (weight > 0))
        rows, xi, c, sign = X[some].astype(np.float64), slack[some], weight[some], y[some]
        bordered = np.column_stack([rows, np.ones(len(rows)) if intercept else np.zeros(len(rows))])
        total.loss += float(c @ (xi * xi))
        total.active += len(some)
        for k, side in enumerate((1.0, -1.0)):
            of_class = sign == side
            total.pull[k] += (sign * c * xi * of_class) @ bordered
            total.charges[k] += float((c * xi) @ of_class)
            total.squares[k] += float((c * xi * xi) @ of_class)
        bordered *= np.sqrt(c)[:, None]
        total.hessian += bordered.T @ bordered
    return total


def solve_squared(
    source: Source,
    C: float,
    *,
    intercept: bool,
    tol: float,
    max_iter: int,
    start: tuple[FloatArray, float] | None = None,
    monitor: Monitor | None = None,
    checkpoint: Store | None = None,
) -> ScannedModel:
    """Minimise P to a relative duality gap of tol.

    Parameters
    ----------
    source : Source
        The rows; those of weight zero do not count.
    C : float
        Cost of a unit of squared slack.
    intercept : bool
        Whether there is a threshold b.
    tol : float
        Bound on the gap, relative to max(1, abs(primal)).
    max_iter : int
        Largest number of passes.
    start : (ndarray, float), optional
        Weights and intercept to start from, e.g. the optimum of a sample.
    monitor : callable, optional
        Called after every pass with (passes, relative gap); returns whether to go on.
    checkpoint : object with load() and save(dict), optional
        Keeps the best point after every pass; a run that finds one goes on from there.
    """
    size = source.n_features + 1
    point, step = np.zeros(size), np.zeros(size)
    if start is not None:
        point[:-1], point[-1] = start[0], start[1]
    saved = checkpoint.load() if checkpoint is not None else None
    if saved is not None:
        point = np.asarray(saved["point"], dtype=np.float64)
    budget = Budget(max_iter, monitor)
    history: list[dict[str, Any]] = []
    best, primal, dual, promised = point, np.inf, 0.0, 0.0
    while True:
        found = _scan(source, point, step, intercept)
        value = 0.5 * float(point[:-1] @ point[:-1]) + C * found.loss
        dual = max(dual, _lower_bound(found, C, intercept))
        if value <= primal - ENOUGH * promised or not history:
            best, primal = point, value
            if checkpoint is not None:
                checkpoint.save({"point": best})
            step, promised = _newton_step(point, found, C, intercept)
            point = best + step
        else:
            point, step = _shorter_step(best, step, found, C)
            promised *= 1e-3  # any decrease will do: the piece was not what it seemed
        gap = (primal - dual) / max(1.0, abs(primal))
        history.append({"pass": len(history) + 1, "primal": primal, "dual": dual,
                        "rows with slack": found.active})  # fmt: skip
        if not budget.spend(1, gap) or gap <= tol or promised <= 1e-16 * primal:
            break
    status: Status = budget.status
    if gap <= tol:
        status = "converged"
    elif status == "converged":
        status = "stalled"
    return ScannedModel(best[:-1], float(best[-1]), primal, dual, len(history), status, history)


def _scan(source: Source, point: FloatArray, step: FloatArray, intercept: bool) -> Sums:
    parts = source.run(sum_up, [(point, step, intercept)] * len(source.sizes))
    total = parts[0]
    for part in parts[1:]:
        total.add(part)
    return total


def _newton_step(
    point: FloatArray, found: Sums, C: float, intercept: bool
) -> tuple[FloatArray, float]:
    """Return the step to the minimum of the quadratic piece, and the decrease it promises."""
    gradient = -2.0 * C * found.pull.sum(axis=0)
    gradient[:-1] += point[:-1]
    matrix = 2.0 * C * found.hessian
    flat = np.arange(len(point) - 1)
    matrix[flat, flat] += 1.0
    if not intercept or matrix[-1, -1] <= 0:
        matrix[-1, -1] = 1.0  # nothing depends on it
        gradient[-1] = 0.0
    step = -_solved(matrix, gradient)
    return step, -0.5 * float(gradient @ step)


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve with a matrix that is positive definite but for rounding."""
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except LinAlgError:  # features so far from zero that their differences are rounding
        size = np.sqrt(matrix.diagonal())
        values, vectors = np.linalg.eigh(matrix / size / size[:, None])
        known = values > KNOWN * len(values) * values[-1]
        inner = vectors[:, known]
        return np.asarray(inner @ ((inner.T @ (right / size)) / values[known]) / size)


def _shorter_step(
    origin: FloatArray, step: FloatArray, found: Sums, C: float
) -> tuple[FloatArray, FloatArray]:
    """Return the best of the shorter steps instead of one that led too far."""
    ends = [origin[:-1] + share * step[:-1] for share in SHORTER]
    values = [0.5 * float(w @ w) + C * loss for w, loss in zip(ends, found.shorter, strict=True)]
    step = SHORTER[int(np.argmin(values))] * step
    return origin + step, step


def _lower_bound(found: Sums, C: float, intercept: bool) -> float:
    """Return the best dual value on the ray of the point, classes scaled to equal sums.

    With factors f of the two classes, alpha = 2 C c xi f and all sums are linear or quadratic
    in f; a common factor is optimised as well.
    """
    factors = np.ones(2)
    if intercept:
        if found.charges.min() <= 0:
            return 0.0
        factors = found.charges.min() / found.charges
    linear = 2.0 * C * float(factors @ found.charges)
    w = 2.0 * C * (factors @ found.pull[:, :-1])
    quadratic = float(w @ w) + 2.0 * C * float(factors**2 @ found.squares)
    best = linear / quadratic if quadratic > 0 else 0.0
    return best * linear - 0.5 * best * best * quadratic
