r"""Newton's method for the linear squared hinge, out of core: one step per pass over the data.

The primal objective of `problems.linear_scan` is piecewise quadratic. One pass computes its value,
gradient and Hessian at a point, and its values at shorter steps. Once the set of samples with
positive slack no longer changes, the Newton step leads exactly to the optimum. The multipliers at a
point are proportional to its positive slacks. The pass keeps the sums of the two classes apart, so
that the multipliers can be scaled to feasible ones and every point has a valid lower bound
(:mod:`widemargin.problems.linear_bounds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray
from widemargin.certificate import relative_gap
from widemargin.problems.linear_reads import FloatSums, Plane
from widemargin.problems.linear_scan import Evaluation, LinearProblem
from widemargin.solvers.base import Budget, LinearResult, Status, Store
from widemargin.solvers.out_of_core.result import OutOfCoreResult
from widemargin.solvers.out_of_core.start import draw_sample
from widemargin.sources.memory import Memory
from widemargin.sources.protocol import Part, Source

START_ROWS = 50_000  # samples of the subsample whose solution is the warm start
SHORTER = (0.5, 0.2, 0.05)  # fractions of the step whose losses a pass computes besides the whole
ENOUGH = 1e-4  # fraction of the predicted decrease that a step must achieve to be accepted
KNOWN = 1e-15  # eigenvalues below this fraction of the largest, times the size, are rounding errors


class Sums(FloatSums):
    """Sums over samples at a point, whose last coordinate is the intercept.

    Besides those of `FloatSums`, for the multipliers c xi: the losses at the shorter steps, the
    (d + 1, d + 1) sum of c (x, 1)(x, 1)' over positive slacks, and the number of these samples.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, squared=True)
        self.shorter, self.hessian = np.zeros(len(SHORTER)), np.zeros((n_features + 1,) * 2)
        self.active = 0

    def merge(self, other: FloatSums) -> None:
        """Add the sums over other samples."""
        assert isinstance(other, Sums)
        super().merge(other)
        self.shorter += other.shorter
        self.hessian += other.hessian
        self.active += other.active


@dataclass(frozen=True)
class Model:
    """Point of a pass, as it is published, with its sums and its objectives in float64."""

    point: FloatArray
    plane: Plane
    thresholds: FloatArray
    sums: Sums
    found: Evaluation

    def evaluation(self, problem: LinearProblem) -> Evaluation:
        """Return the objectives with bounds of their rounding errors."""
        sums = self.sums.enclosed(self.plane, centred=False)
        return problem.evaluation(self.plane, self.thresholds, sums)


def sum_up(part: Part, plane: Plane, step: FloatArray, intercept: bool) -> Sums:
    """Compute the sums of a part at a point; `step` is the step that led to it."""
    sums, both = Sums(len(plane.w)), np.column_stack([plane.w, step[:-1]])
    for _, block, y, weight in part.blocks():
        X = block.astype(np.float64, copy=False)
        products = X @ both
        slack = plane.slack(products[:, 0].copy(), y)
        back = y * (products[:, 1] + step[-1])
        for k, share in enumerate(SHORTER):
            sums.shorter[k] += weight @ np.square(np.maximum(slack + (1.0 - share) * back, 0.0))
        sums.add(X, y, weight, slack, weight * np.maximum(slack, 0.0))
        some = np.flatnonzero((slack > 0) & (weight > 0))
        ones = np.ones(len(some)) if intercept else np.zeros(len(some))
        bordered = np.column_stack([X[some], ones])
        bordered *= np.sqrt(weight[some])[:, None]
        sums.hessian += bordered.T @ bordered
        sums.active += len(some)
    return sums


def start_of_sample(
    problem: LinearProblem, source: Source, seed: int
) -> tuple[LinearResult | None, float]:
    """Return the optimum of a subsample with costs scaled up, and the fraction of data it read.

    The optimum is None if a class is missing in the subsample.
    """
    total = int(sum(source.sizes))
    number = min(START_ROWS, total)
    sample = draw_sample(source, number, seed)
    present = sample.y[sample.weight > 0]
    if not ((present > 0).any() and (present < 0).any()):
        return None, number / total
    scaled = replace(problem, cap=problem.cap * total / number)
    # Centre: far from the origin, products of samples would lose the digits that distinguish them.
    centre = sample.X.mean(axis=0) if problem.intercept else np.zeros(sample.X.shape[1])
    in_memory = Memory(sample.X - centre, sample.y, sample.weight)
    found = solve_squared(scaled, in_memory, tol=1e-4, budget=Budget(100), prove=False)
    return replace(found, thresholds=found.thresholds - found.coef @ centre), number / total


def solve_squared(
    problem: LinearProblem,
    source: Source,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None = None,
    checkpoint: Store | None = None,
    passes: float = 0.0,
    prove: bool = True,
) -> OutOfCoreResult:
    """Minimise the squared hinge to a relative duality gap of tol; see `solve` of the package.

    The checkpoint stores the best point so far. `passes` is the number of passes already made.
    Without `prove`, the objectives of the result are float64 numbers with unknown errors.
    """
    point = _first_point(source.n_features, start, checkpoint)
    step = np.zeros(len(point))
    history: list[dict[str, Any]] = []
    best = lower = None
    promised, gap, found = 0.0, np.inf, Evaluation()
    while True:
        here = _read(source, problem, point, step)
        if lower is None or here.found.dual > lower.found.dual:
            lower = here
        if best is None or here.found.primal <= best.found.primal - ENOUGH * promised:
            best = here
            if checkpoint is not None:
                checkpoint.save({"point": best.point})
            step, promised = _newton_step(point, here.sums, problem)
            point = point + step
        else:
            point, step = _shorter_step(best.point, step, here.sums, problem)
            # The prediction of the quadratic piece was wrong: accept almost any decrease.
            promised *= 1e-3
        primal, dual = best.found.primal, lower.found.dual
        gap = relative_gap(primal, dual)
        if prove and gap <= tol:  # it may stop
            found = _proved(problem, best, lower)
            gap = found.gap
        history.append({"pass": len(history) + 1, "primal": primal, "dual": dual,
                        "rows with slack": here.sums.active})  # fmt: skip
        if not budget.spend(1, gap) or gap <= tol or promised <= 1e-16 * primal:
            break
    coef, thresholds = best.point[:-1], best.point[-1:]
    if not prove:
        found = replace(best.found, dual=lower.found.dual)
    elif gap > tol:
        coef, thresholds, found = _not_worse_than_constant(problem, best, lower)
    status: Status = "stalled" if budget.status == "converged" else budget.status
    return OutOfCoreResult(
        coef=coef,
        thresholds=thresholds[: problem.n_thresholds],
        primal=found.primal,
        dual=found.dual,
        n_iter=len(history),
        passes=len(history) + passes,
        status="converged" if found.gap <= tol else status,
        history=history,
        evaluation=found,
    )


def _read(source: Source, problem: LinearProblem, point: FloatArray, step: FloatArray) -> Model:
    """Evaluate a point by one pass over the data; `step` is the step that led to it."""
    plane, thresholds = problem.published(point[:-1], point[-1:], None)
    arguments = [(plane, step, problem.intercept)] * len(source.sizes)
    sums, *others = source.run(sum_up, arguments)
    for other in others:
        sums.merge(other)
    return Model(point, plane, thresholds, sums, problem.estimate(plane, sums))


def _first_point(
    n_features: int, start: LinearResult | None, checkpoint: Store | None
) -> FloatArray:
    """Return weights and intercept of a checkpoint, else of a warm start, else zeros."""
    saved = checkpoint.load() if checkpoint is not None else None
    if saved is not None:
        return np.asarray(saved["point"], dtype=np.float64)
    if start is not None:
        return np.append(start.coef, start.intercept)
    return np.zeros(n_features + 1)


def _not_worse_than_constant(
    problem: LinearProblem, best: Model, lower: Model
) -> tuple[FloatArray, FloatArray, Evaluation]:
    """Return weights, thresholds and bounds of the best point or of the best constant model."""
    coef, thresholds = best.point[:-1], best.point[-1:]
    found = _proved(problem, best, lower)
    weight = best.sums.enclosed(best.plane, centred=False).weight
    w, t, constant = problem.best_constant(weight, len(coef))
    if constant.primal < found.primal:
        return w, t, replace(constant, dual=found.dual)
    return coef, thresholds, found


def _proved(problem: LinearProblem, best: Model, lower: Model) -> Evaluation:
    """Return the objectives of the best model, with the lower bound of another if it is better."""
    found = best.evaluation(problem)
    if lower is not best:
        found = replace(found, dual=max(found.dual, lower.evaluation(problem).dual))
    return found


def _newton_step(
    point: FloatArray, found: Sums, problem: LinearProblem
) -> tuple[FloatArray, float]:
    """Return the step to the minimum of the quadratic piece, and the decrease it predicts."""
    C = problem.cap
    pull = np.append(found.pull.sum(axis=0), found.charge[0] - found.charge[1])
    gradient = -2.0 * C * pull
    gradient[:-1] += point[:-1]
    matrix = 2.0 * C * found.hessian
    flat = np.arange(len(point) - 1)
    matrix[flat, flat] += 1.0
    if not problem.intercept or matrix[-1, -1] <= 0:
        matrix[-1, -1] = 1.0  # no intercept, or no positive slack: no step
        gradient[-1] = 0.0
    step = -_solved(matrix, gradient)
    return step, -0.5 * float(gradient @ step)


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a linear system whose matrix is positive definite up to rounding errors.

    If the Cholesky factorisation fails, eigenvectors that rounding errors dominate are left out.
    """
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except LinAlgError:  # features so far from zero that rounding hides their differences
        size = np.sqrt(matrix.diagonal())
        values, vectors = np.linalg.eigh(matrix / size / size[:, None])
        known = values > KNOWN * len(values) * values[-1]
        inner = vectors[:, known]
        return np.asarray(inner @ ((inner.T @ (right / size)) / values[known]) / size)


def _shorter_step(
    origin: FloatArray, step: FloatArray, found: Sums, problem: LinearProblem
) -> tuple[FloatArray, FloatArray]:
    """Return the end point of the best shorter step, and this step, after one that was too long."""
    ends = [origin[:-1] + share * step[:-1] for share in SHORTER]
    losses = zip(ends, found.shorter, strict=True)
    values = [problem.primal(w, origin[-1:], loss) for w, loss in losses]
    step = SHORTER[int(np.argmin(values))] * step
    return origin + step, step
