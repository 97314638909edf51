"""Bounds in more digits: one more read, if rounding is a notable part of the gap.

The reads of the solvers sum in float64 and bound their rounding errors. This is enough for
ordinary data. With large costs, or features far from zero relative to their spread, these bounds
can exceed the gap. Then the published model and its multipliers are evaluated once more, in
double-double arithmetic and at the samples as stored.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from widemargin.certificate import BLUR, Bracket, tightest
from widemargin.problems.linear_reads import Plane, ReadSums, precise_sums
from widemargin.problems.linear_scan import Evaluation, LinearProblem
from widemargin.solvers.out_of_core.result import Multipliers, OutOfCoreResult
from widemargin.solvers.out_of_core.scan import at_cap
from widemargin.sources.protocol import Part, Source


def proved(
    problem: LinearProblem, source: Source, result: OutOfCoreResult, tol: float
) -> OutOfCoreResult:
    """Return the result, evaluated in more digits in one more pass if rounding asks for it."""
    found = result.evaluation
    first = Bracket(found.primal, found.dual, found.rounding)
    passes = result.passes

    def evaluate(precise: bool) -> Bracket:
        nonlocal passes
        if not precise:
            return first
        passes += 1.0
        again = _evaluated(problem, source, result)
        return Bracket(again.primal, again.dual, again.rounding)

    in_doubt = not found.rounding <= BLUR * (found.primal - found.dual)
    best = tightest(evaluate, tol if in_doubt else np.inf)
    if best is first:
        return result
    found = replace(found, primal=best.primal, dual=best.dual, rounding=best.rounding)
    status = "converged" if found.gap <= tol else result.status
    return replace(
        result, primal=found.primal, dual=found.dual, passes=passes, status=status, evaluation=found
    )


def _evaluated(problem: LinearProblem, source: Source, result: OutOfCoreResult) -> Evaluation:
    """Return the objectives of a result in one precise pass over the data."""
    plane, thresholds = problem.published(result.coef, result.thresholds, None)
    arguments = []
    for k in range(len(source.sizes)):
        given = None if result.multipliers is None else result.multipliers.of_part(k, problem.cap)
        arguments.append((plane, given))
    pieces = source.run(sum_precisely, arguments)
    return problem.evaluation(plane, thresholds, ReadSums.total(pieces, source.n_features))


def sum_precisely(part: Part, plane: Plane, given: Multipliers | None) -> ReadSums:
    """Compute the sums of a part at a plane.

    `given` are the multipliers of the hinge; those of the squared hinge follow from the slacks.
    """
    pieces = []
    for first, X, y, weight in part.blocks():
        alpha = None
        if given is not None:
            alpha = np.where(at_cap(X, y, given.base, given.centre), weight, 0.0)
            mine = slice(*np.searchsorted(given.rows, (first, first + len(y))))
            here = given.rows[mine] - first
            alpha[here] = np.clip(given.alpha[mine], 0.0, weight[here])
        pieces.append(precise_sums(X, y, weight, plane, alpha))
    return ReadSums.total(pieces, len(plane.w))
