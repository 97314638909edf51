r"""Implicit-outlier method: exact out-of-core solution of the hinge and of reduced hulls.

The hinge loss of a sample may be replaced by one of its two linear minorants, xi = 0 (multiplier at
zero) or xi = slack (multiplier at the cap). The result is a **relaxed** problem: its optimum is a
lower bound, the true objective at its solution an upper bound. All *implicit* samples at the cap
enter as one vector and one number per class, independently of how many outliers there are. The
relaxation is exact if no implicit sample is on the wrong side of its threshold, and only samples
near the threshold are uncertain:

1. *Subsample.* The solution of a subsample, with caps scaled up, determines the side of every
   sample, except in a zone around the thresholds as wide as the sampling error.
2. *Solve.* The samples in the zone are explicit variables: `numerics.box_qp` solves the relaxed
   problem exactly.
3. *Check.* One pass over the data computes the upper and the lower bound and finds the samples on
   the wrong side. They become explicit, and step 2 is repeated; if there are too many, the zone is
   widened around the best hyperplane so far.

The method terminates when no sample is on the wrong side, after finitely many rounds because the
explicit set only grows. This result is exact: it does not depend on the subsample, on the parts or
on the order of the samples. The hinge is solved to a relative gap of tol, which may be reached
before; a tol up to 1e-9 demands the exact result.

References: Balcázar et al. (2008), section 4, whose random sampling this replaces if there are
many outliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin.problems.linear_scan import Evaluation, InfeasibleSums, LinearProblem
from widemargin.solvers.base import Budget, LinearResult, Status, Store
from widemargin.solvers.numerics.box_qp_nested import few_rows
from widemargin.solvers.out_of_core.result import Multipliers, OutOfCoreResult
from widemargin.solvers.out_of_core.rounds import Base, Best, Explicit, Progress, Rounds
from widemargin.solvers.out_of_core.scan import Limits, edges
from widemargin.solvers.out_of_core.start import centre_of, draw_sample, sample_rows, start_from
from widemargin.solvers.out_of_core.state import resumed, state_of
from widemargin.sources.protocol import Source

EXACT_GAP = 1e-9  # largest relative gap, recomputed from the data, of a converged result

Observer: TypeAlias = Callable[[str, int, float], None]
"""Called after every round with a text to show, the number of the round and the relative gap."""


def solve_implicit(
    problem: LinearProblem,
    source: Source,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None,
    seed: int,
    centre: FloatArray | None,
    checkpoint: Store | None,
    observe: Observer | None,
) -> OutOfCoreResult:
    """Solve the hinge to a gap of tol, or reduced hulls exactly; see `solve` of the package."""
    with worker_threads(), np.errstate(over="ignore", invalid="ignore"):
        saved = checkpoint.load() if checkpoint is not None else None
        if saved is not None:
            rounds = resumed(source, problem, saved)
        else:
            rounds = _started(source, problem, seed, centre, start)
        status = _run(rounds, tol, budget, checkpoint, observe)
        budget.used = rounds.at.round
        return _result(rounds, status, tol)


def _started(
    source: Source,
    problem: LinearProblem,
    seed: int,
    centre: FloatArray | None,
    start: LinearResult | None,
) -> Rounds:
    """Return the initial state: a zone around a subsample's solution, or all samples if few."""
    total, n = int(sum(source.sizes)), source.n_features
    few = few_rows(n)
    number = total  # no subsample: all samples become explicit
    if total > 2 * few:
        # A warm start only needs the subsample to determine the width of the zone.
        number = few if start is not None else sample_rows(total, n)
    passes = 0.0
    base = None
    while base is None and number < total:
        sample = draw_sample(source, number, seed)
        passes += number / total
        centre = centre_of(sample.X, problem) if centre is None else centre
        if centre is not None:
            sample.X -= centre
        plane = None
        if start is not None:
            product = 0.0 if centre is None else float(start.coef @ centre)
            plane = start.coef, problem.about(start.thresholds, -product)
        try:
            base = start_from(sample, problem, total, plane, seed)
        except InfeasibleSums:  # a class is missing in the subsample
            number *= 8
    if base is None:
        everything = Limits((-np.inf, -np.inf), (np.inf, np.inf))
        base = Base(np.zeros(n), np.zeros(problem.n_thresholds), everything, float(total))
    progress = Progress(base, Best(base.w, base.t), Best(base.w, base.t), passes=passes)
    return Rounds(source, problem, centre, progress)


class _Stopped(Exception):
    """Exception raised when the monitor ends the run inside a round."""


def _run(
    rounds: Rounds,
    tol: float,
    budget: Budget,
    checkpoint: Store | None,
    observe: Observer | None,
) -> Status:
    """Repeat rounds until the gap is at most tol, or the budget or the monitor ends the run.

    The problem is solved exactly if no sample is on the wrong side, which a tol up to EXACT_GAP
    demands. The objectives of reduced hulls are far smaller than one, so that the relative gap has
    no meaning there: they are solved exactly.
    """
    at, problem, monitor = rounds.at, rounds.problem, budget.monitor

    def save() -> None:
        if checkpoint is not None:
            checkpoint.save(state_of(rounds))

    def tick() -> None:
        if monitor is not None and not monitor(at.round, at.gap):
            raise _Stopped

    try:
        while True:
            if at.explicit is None:
                explicit = rounds.read_sides()
                if rounds.centre is None and rounds.everything_explicit:
                    # No subsample was drawn, so this is the first chance to find the centre.
                    rounds.centre = centre_of(explicit.X, problem)
                    if rounds.centre is not None:
                        explicit.X -= rounds.centre
                save()
            # In the first round there is no bound to report and no model to return: no monitor.
            if not rounds.solve(tick if at.round and monitor else None):
                rounds.widen_infeasible()
                continue
            assert at.solution is not None
            if problem.kind == "hull" and not at.solution.w.any():
                return "converged"  # hulls that intersect: w = 0 is optimal, see `_result`
            wrong = rounds.check()
            found, entry = at.best.found, at.history[-1]
            if observe is not None:
                text = (
                    f"{entry['passes']:.1f} reads, {entry['explicit_rows']:,} rows at work, "
                    f"{entry['violators']:,} violators, optimum in "
                    f"[{entry['lower']:.6g}, {entry['upper']:.6g}]"
                )
                observe(text, at.round, at.gap)
            if not at.wrong:
                # The gap is relative to max(1, primal), but the objectives of reduced hulls are far
                # smaller than one: without an exact solution, require a gap relative to primal.
                small = found.primal - found.dual <= EXACT_GAP * abs(found.primal)
                exact = found.gap <= EXACT_GAP and (at.solution.exact or small)
                return "converged" if exact else "stalled"
            if problem.kind != "hull" and at.checked.gap <= tol and tol > EXACT_GAP:
                return "converged"
            if at.round >= budget.max_iter:
                return "max_iter"
            rounds.correct(wrong)
            save()
            tick()
    except _Stopped:
        return "stopped"


def _result(rounds: Rounds, status: Status, tol: float) -> OutOfCoreResult:
    """Return the solution, or the best model of an unfinished run, with its evaluation."""
    at, problem = rounds.at, rounds.problem
    w, t, found = at.best.w, at.best.t, at.best.found
    if status in ("converged", "stalled") and at.solution is not None:
        w, t, found = at.solution.w, at.solution.t, at.checked
        if problem.kind == "hull" and not w.any():  # was not evaluated: both objectives are 0
            found = Evaluation(0.0, 0.0)
        elif not at.wrong:
            middle = _middle_thresholds(rounds)
            if not np.array_equal(middle, t):
                # One more pass: objectives and violation belong to the thresholds returned.
                assert at.explicit is not None
                t = middle
                found, _ = rounds.evaluate(at.explicit, at.solution, t)
    if problem.kind != "hull" and status != "converged":
        least = min((at.constant, at.best), key=lambda model: model.found.primal)
        if least.found.primal < found.primal:  # never worse than the best constant
            w, t, found = least.w, least.t, replace(least.found, dual=found.dual)
        found = replace(found, dual=max(found.dual, at.best.found.dual))
        if found.gap <= tol:
            status = "converged"
    thresholds = problem.published(w, t, rounds.centre)[1]
    explicit = at.explicit
    alpha = at.solution.s if at.solution is not None else np.empty(0)
    if explicit is None or len(explicit) != len(alpha):
        explicit, alpha = Explicit.joined([], len(w)), np.empty(0)
    base = at.base.sides(problem)[0]
    return OutOfCoreResult(
        coef=w,
        thresholds=thresholds,
        primal=found.primal,
        dual=found.dual,
        n_iter=max(1, at.round),
        passes=at.passes,
        status=status,
        history=at.history,
        evaluation=found,
        multipliers=Multipliers(base, rounds.centre, explicit.part, explicit.rows, alpha),
    )


def _middle_thresholds(rounds: Rounds) -> FloatArray:
    """Return the midpoints of the optimal thresholds, taking implicit samples into account.

    If a threshold is not determined by a free explicit sample, its interval is that of the explicit
    problem, intersected with the one in which no implicit sample changes sides.
    """
    at, problem = rounds.at, rounds.problem
    assert at.solution is not None
    assert at.explicit is not None
    interval = at.solution.interval
    if not np.any(interval[:, 0] < interval[:, 1]) or rounds.everything_explicit:
        return at.solution.t
    plane, current = at.base.sides(problem)[0], problem.plane(at.solution.w, at.solution.t)
    known = [at.explicit.of_part(k) for k in range(len(rounds.source.sizes))]
    at.passes += 1.0
    found = rounds.source.run(edges, [(plane, current, rows, rounds.centre) for rows in known])
    limits = problem.interval(at.solution.t, np.maximum(np.min(found, axis=0), 0.0))
    low = np.maximum(interval[:, 0], limits[:, 0])
    high = np.minimum(interval[:, 1], limits[:, 1])
    middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), at.solution.t)
    return np.where(interval[:, 0] < interval[:, 1], middle, at.solution.t)
