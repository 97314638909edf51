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
from widemargin.problems.linear_reads import FloatSums, Plane, ReadSums
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


@dataclass
class Sums:
    """Sums over samples at a point, whose last coordinate is the intercept."""

    read: ReadSums  # losses, and multipliers c xi
    shorter: FloatArray  # losses at the shorter steps
    hessian: FloatArray  # (d + 1, d + 1): sum of c (x, 1)(x, 1)' over positive slacks
    active: int  # number of samples with positive slack

    @classmethod
    def total(cls, pieces: list[Sums], n_features: int) -> Sums:
        """Return the sums over all pieces; their order changes the last bits."""
        read = ReadSums.total([piece.read for piece in pieces], n_features)
        found = cls(read, np.zeros(len(SHORTER)), np.zeros((n_features + 1,) * 2), 0)
        for piece in pieces:
            found.shorter += piece.shorter
            found.hessian += piece.hessian
            found.active += piece.active
        return found


def sum_up(part: Part, plane: Plane, step: FloatArray, intercept: bool) -> Sums:
    """Compute the sums of a part at a point; `step` is the step that led to it."""
    size, active = len(step), 0
    read, shorter = FloatSums(plane, squared=True, centred=False), np.zeros(len(SHORTER))
    hessian, both = np.zeros((size, size)), np.column_stack([plane.w, step[:-1]])
    for _, block, y, weight in part.blocks():
        X = block.astype(np.float64, copy=False)
        products = X @ both
        slack = plane.slack(products[:, 0].copy(), y)
        back = y * (products[:, 1] + step[-1])
        for k, share in enumerate(SHORTER):
            shorter[k] += weight @ np.square(np.maximum(slack + (1.0 - share) * back, 0.0))
        read.add(X, y, weight, slack, weight * np.maximum(slack, 0.0))
        some = np.flatnonzero((slack > 0) & (weight > 0))
        ones = np.ones(len(some)) if intercept else np.zeros(len(some))
        bordered = np.column_stack([X[some], ones])
        bordered *= np.sqrt(weight[some])[:, None]
        hessian += bordered.T @ bordered
        active += len(some)
    return Sums(read.result(), shorter, hessian, active)


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
    found = solve_squared(scaled, in_memory, tol=1e-4, budget=Budget(100))
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
) -> OutOfCoreResult:
    """Minimise the squared hinge to a relative duality gap of tol; see `solve` of the package.

    The checkpoint stores the best point so far. `passes` is the number of passes already made.
    """
    size = source.n_features + 1
    point, step = np.zeros(size), np.zeros(size)
    if start is not None:
        point[:-1], point[-1] = start.coef, start.intercept
    saved = checkpoint.load() if checkpoint is not None else None
    if saved is not None:
        point = np.asarray(saved["point"], dtype=np.float64)
    history: list[dict[str, Any]] = []
    best, found, promised = point, Evaluation(dual=0.0), 0.0
    while True:
        plane, t = problem.published(point[:-1], point[-1:], None)
        arguments = [(plane, step, problem.intercept)] * len(source.sizes)
        sums = Sums.total(source.run(sum_up, arguments), size - 1)
        here = problem.evaluation(plane, t, sums.read)
        found = replace(found, dual=max(found.dual, here.dual))
        if here.primal <= found.primal - ENOUGH * promised or not history:
            best, found = point, replace(here, dual=found.dual)
            if checkpoint is not None:
                checkpoint.save({"point": best})
            step, promised = _newton_step(point, sums, problem)
            point = best + step
        else:
            point, step = _shorter_step(best, step, sums, problem)
            # The prediction of the quadratic piece was wrong: accept almost any decrease.
            promised *= 1e-3
        history.append({"pass": len(history) + 1, "primal": found.primal, "dual": found.dual,
                        "rows with slack": sums.active})  # fmt: skip
        spent = not budget.spend(1, found.gap)
        if spent or found.gap <= tol or promised <= 1e-16 * found.primal:
            break
    w, t, constant = problem.best_constant(sums.read.weight, size - 1)
    if found.gap > tol and constant.primal < found.primal:  # never worse than the best constant
        best, found = np.append(w, t), replace(constant, dual=found.dual)
    status: Status = "stalled" if budget.status == "converged" else budget.status
    return OutOfCoreResult(
        coef=best[:-1],
        thresholds=best[-1:][: problem.n_thresholds],
        primal=found.primal,
        dual=found.dual,
        n_iter=len(history),
        passes=len(history) + passes,
        status="converged" if found.gap <= tol else status,
        history=history,
        evaluation=found,
    )


def _newton_step(
    point: FloatArray, found: Sums, problem: LinearProblem
) -> tuple[FloatArray, float]:
    """Return the step to the minimum of the quadratic piece, and the decrease it predicts."""
    C = problem.cap
    dual = found.read.dual
    pull = np.append(dual.pull.hi.sum(axis=0), dual.charge.hi[0] - dual.charge.hi[1])
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
