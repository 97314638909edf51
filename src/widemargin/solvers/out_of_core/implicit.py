r"""Solve the hinge and the reduced hulls exactly, most samples being left at a bound unseen.

The hinge of any row may be replaced by one of its two linear minorants, xi = 0 ("zero", alpha = 0)
or xi = slack ("bounded", alpha = cap). What is left is a **relaxed** problem: its optimum is a
lower bound, the true objective of its solution an upper one. All bounded rows together are one
vector and one number per class, however many outliers there are. The relaxation is exact as soon
as no row lies on the wrong side of its threshold, and only rows near the threshold are in doubt:

1. *Sample.* The solution of a sample, with caps scaled up, gives every row its side, except for
   a zone of rows near the thresholds as wide as the sampling error.
2. *Solve.* The rows of the zone are explicit: `numerics.box_qp` solves the relaxed
   problem exactly.
3. *Read.* One read of the data gives the upper and the lower bound, recomputed from the rows, and
   the rows on the wrong side. They become explicit, and step 2 follows; are they too many, the
   zone is widened around the best plane so far.

It ends when no row is on the wrong side. The explicit set only grows, so it does end, and the
result does not depend on the sample, on the parts or on the order of the rows.

References: Balcázar et al. (2008), section 4, whose random sampling this replaces where there are
many outliers.
"""

from __future__ import annotations

from collections.abc import Callable
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

EXACT_GAP = 1e-9  # largest relative gap, recomputed from the data, of a result called optimal

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
    """Solve a linear large-margin problem exactly; see `solve` of the package."""
    with worker_threads(), np.errstate(over="ignore", invalid="ignore"):
        saved = checkpoint.load() if checkpoint is not None else None
        if saved is not None:
            rounds = resumed(source, problem, saved)
        else:
            rounds = _started(source, problem, seed, centre, start)
        status = _run(rounds, budget, checkpoint, observe)
        budget.used = rounds.at.round
        return _result(rounds, status, tol)


def _started(
    source: Source,
    problem: LinearProblem,
    seed: int,
    centre: FloatArray | None,
    start: LinearResult | None,
) -> Rounds:
    """Draw a sample and put a zone around its solution, or take all rows where they are few."""
    total, n = int(sum(source.sizes)), source.n_features
    few = few_rows(n)
    number = total  # no sample where the rows are few
    if total > 2 * few:
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
        except InfeasibleSums:  # a class is missing in the sample
            number *= 8
    if base is None:
        everything = Limits((-np.inf, -np.inf), (np.inf, np.inf))
        base = Base(np.zeros(n), np.zeros(problem.n_thresholds), everything, float(total))
    progress = Progress(base, Best(base.w, base.t), passes=passes)
    return Rounds(source, problem, centre, progress)


class _Stopped(Exception):
    """The monitor said stop in the middle of a round."""


def _run(
    rounds: Rounds, budget: Budget, checkpoint: Store | None, observe: Observer | None
) -> Status:
    """Repeat rounds until nothing is wrong, the budget is spent or the monitor says stop."""
    at, problem, monitor = rounds.at, rounds.problem, budget.monitor

    def save() -> None:
        if checkpoint is not None:
            checkpoint.save(state_of(rounds))

    def tick() -> None:
        if monitor is not None and not monitor(at.round, at.best.found.gap):
            raise _Stopped

    try:
        while True:
            if at.explicit is None:
                explicit = rounds.read_sides()
                if rounds.centre is None and rounds.everything_explicit:
                    # Rows that were read without a sample, so that nothing was known about them.
                    rounds.centre = centre_of(explicit.X, problem)
                    if rounds.centre is not None:
                        explicit.X -= rounds.centre
                save()
            # Before the first round there is no bound to report and no model to stop with.
            if not rounds.solve(tick if at.round and monitor else None):
                rounds.widen_infeasible()
                continue
            assert at.solution is not None
            if problem.kind == "hull" and not at.solution.w.any():
                return "converged"
            wrong = rounds.check()
            found, entry = at.best.found, at.history[-1]
            if observe is not None:
                text = (
                    f"{entry['passes']:.1f} reads, {entry['explicit_rows']:,} rows at work, "
                    f"{entry['violators']:,} violators, optimum in "
                    f"[{entry['lower']:.6g}, {entry['upper']:.6g}]"
                )
                observe(text, at.round, found.gap)
            if not at.wrong:
                # The objectives of reduced hulls are far smaller than one.
                small = found.primal - found.dual <= EXACT_GAP * abs(found.primal)
                exact = found.gap <= EXACT_GAP and (at.solution.exact or small)
                return "converged" if exact else "stalled"
            if at.round >= budget.max_iter:
                return "max_iter"
            rounds.correct(wrong)
            save()
            tick()
    except _Stopped:
        return "stopped"


def _result(rounds: Rounds, status: Status, tol: float) -> OutOfCoreResult:
    """Publish the solution, or the best model where it is not one, as a read has evaluated it."""
    at, problem = rounds.at, rounds.problem
    w, t, found = at.best.w, at.best.t, at.best.found
    if status in ("converged", "stalled") and at.solution is not None:
        w, t, found = at.solution.w, at.solution.t, at.checked
        if problem.kind == "hull" and not w.any():  # without a check
            found = Evaluation(0.0, 0.0)
        else:
            middle = _middle_thresholds(rounds)
            if not np.array_equal(middle, t):
                assert at.explicit is not None
                t = middle
                found, _ = rounds.evaluate(at.explicit, at.solution, t)
    if status != "converged" and problem.kind != "hull" and found.gap <= tol:
        status = "converged"
    product = 0.0 if rounds.centre is None else float(w @ rounds.centre)
    explicit = at.explicit
    alpha = at.solution.s if at.solution is not None else np.empty(0)
    if explicit is None or len(explicit) != len(alpha):
        explicit, alpha = Explicit.joined([], len(w)), np.empty(0)
    base = at.base.sides(problem)[0]
    return OutOfCoreResult(
        coef=w,
        thresholds=problem.about(t, product),
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
    """Return the thresholds; where no explicit row fixes them, implicit ones may narrow them."""
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
