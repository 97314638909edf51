r"""Implicit outliers: linear large-margin machines, exactly, in few reads of the data.

Problem: the three of :mod:`widemargin.problems.linear_scan`, soft margin with and without
intercept and nearest points of reduced hulls, over rows of any number that are read in parts.

The hinge of any row may be replaced by one of its two linear minorants, xi = 0 ("zero", s = 0) or
xi = slack ("bounded", s = cap). What is left is a **relaxed** problem: its optimum is a lower
bound, the true objective of its solution an upper one. All bounded rows together are one vector
and one number per class, however many outliers there are. The relaxation is exact as soon as no
row lies on the wrong side of its threshold, and only rows near the threshold are in doubt:

1. *Sample.* The solution of a sample, with caps scaled up, gives every row its side, except for
   a band of rows near the thresholds as wide as the sampling error.
2. *Solve.* The rows of the band are explicit: `numerics.box_qp` solves the relaxed
   problem exactly.
3. *Read.* One read of the data gives the upper and the lower bound, recomputed from the rows, and
   the rows on the wrong side. They become explicit, and step 2 follows; are they too many, the
   band is widened around the best plane so far.

It ends when no row is on the wrong side. The explicit set only grows, so it does end, and the
result does not depend on the sample, on the parts or on the order of the rows.

References: Balcázar et al. (2008), section 4, whose random sampling this replaces where there are
many outliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.linear_scan import Form
from widemargin.solvers.base import Monitor, Store
from widemargin.solvers.numerics.box_qp import InfeasibleSums
from widemargin.solvers.numerics.box_qp_nested import few_rows
from widemargin.solvers.out_of_core.rounds import Base, Best, Explicit, Progress, Rounds
from widemargin.solvers.out_of_core.scan import Limits, Plane, edges, multipliers
from widemargin.solvers.out_of_core.start import centre_of, draw_sample, sample_rows, start_from
from widemargin.solvers.out_of_core.state import resumed, state_of
from widemargin.sources.protocol import Source

__all__ = ["Form", "ImplicitResult", "dual_variables", "solve_implicit"]

Status: TypeAlias = Literal["converged", "max_iter", "stopped", "stalled", "not_separable"]

EXACT_GAP = 1e-9  # largest relative gap, recomputed from the data, of a result called optimal


@dataclass(frozen=True)
class ImplicitResult:
    """A linear model with the bounds that prove it.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights w.
    thresholds : ndarray of shape (n_thresholds,)
        The intercept; theta+ and theta- of reduced hulls; nothing. The middle of an interval where
        they are not unique.
    primal, dual : float
        Objective at the model and lower bound, both recomputed from the data by the last read.
    n_iter : int
        Rounds.
    passes : float
        Reads of the data; rows that are read by number count by their share.
    status : {"converged", "max_iter", "stopped", "stalled", "not_separable"}
        Exact; rounds ran out; the monitor said stop; exact but for what rounding left; the reduced
        hulls meet, so that w = 0.
    history : list of dict
        For each round: round, explicit_rows, violators, lower, upper, passes.
    explicit_part, explicit_rows, explicit_s : ndarray
        The explicit rows, sorted by part and row, and their multipliers.
    base : Plane
        Its sign is the side of every other row.
    centre : ndarray of shape (n_features,) or None
        What was subtracted from the rows before the planes were applied to them.
    """

    coef: FloatArray
    thresholds: FloatArray
    primal: float
    dual: float
    n_iter: int
    passes: float
    status: Status
    history: list[dict[str, Any]]
    explicit_part: IntArray
    explicit_rows: IntArray
    explicit_s: FloatArray
    base: Plane
    centre: FloatArray | None

    @property
    def relative_gap(self) -> float:
        """(primal - dual) / max(1, abs(primal))."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))


def solve_implicit(
    source: Source,
    form: Form,
    *,
    seed: int = 0,
    tol: float = 1e-10,
    max_rounds: int = 100,
    centre: FloatArray | None = None,
    monitor: Monitor | None = None,
    checkpoint: Store | None = None,
    start: tuple[FloatArray, FloatArray] | None = None,
    observe: Callable[[dict[str, Any]], None] | None = None,
) -> ImplicitResult:
    """Solve a linear large-margin problem exactly, over data in parts.

    Parameters
    ----------
    source : Source
        The rows, with labels -1 and +1 and weights.
    form : Form
        The problem and its cap.
    seed : int
        Seed of the sample; it changes the way, not the result.
    tol : float
        A row on the wrong side by less than this, relative to the margin, is on the threshold.
    max_rounds : int
        Largest number of rounds.
    centre : ndarray of shape (n_features,), optional
        Subtracted from the rows inside. Data far from the origin are centred anyway.
    monitor : callable, optional
        Called with (round, relative gap) after every round, and between steps inside one once a
        bound is known; returns whether to go on.
    checkpoint : object with load() and save(dict), optional
        Keeps the state after every round. A run that finds a state goes on from there and ends
        at the same bits.
    start : (coef, thresholds), optional
        A plane near the solution, in place of the sample's.
    observe : callable, optional
        Called with the new entry of the history after every round.

    Returns
    -------
    result : ImplicitResult
        Model, bounds and history.

    Raises
    ------
    InfeasibleSums
        Reduced hulls: the caps of a class sum to less than one.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> from widemargin.solvers.out_of_core import Form, solve_implicit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(20_000) > 0, 1.0, -1.0)
    >>> found = solve_implicit(sources.from_arrays(X, y).binary(1.0, -1.0), Form("hinge", 1.0))
    >>> found.status, found.relative_gap < 1e-12, found.passes < 6
    ('converged', True, True)
    """
    if not sum(source.sizes):
        raise ValueError("source has no rows")
    with worker_threads(), np.errstate(over="ignore", invalid="ignore"):
        saved = checkpoint.load() if checkpoint is not None else None
        if saved is not None:
            rounds = resumed(source, form, tol, saved)
        else:
            rounds = _started(source, form, tol, seed, centre, start)
        status = _Loop(rounds, max_rounds, monitor, checkpoint, observe).run()
        return _result(rounds, status)


def dual_variables(source: Source, form: Form, result: ImplicitResult) -> list[FloatArray]:
    """Return the multipliers s of all rows, one array for each part: 0 <= s <= cap * weight.

    Parameters
    ----------
    source : Source
        The data that were solved, in the same parts.
    form : Form
        The problem that was solved.
    result : ImplicitResult
        Its result.
    """
    arguments = []
    for k, size in enumerate(source.sizes):
        mine = slice(*np.searchsorted(result.explicit_part, (k, k + 1)))
        known, s = result.explicit_rows[mine], result.explicit_s[mine]
        arguments.append((size, result.base, form.cap, known, s, result.centre))
    return source.run(multipliers, arguments)


def _started(
    source: Source,
    form: Form,
    tol: float,
    seed: int,
    centre: FloatArray | None,
    start: tuple[FloatArray, FloatArray] | None,
) -> Rounds:
    """Draw a sample and put a band around its solution, or take all rows where they are few."""
    total, n = int(sum(source.sizes)), source.n_features
    few = few_rows(n)
    number = few if start is not None else sample_rows(total, n)
    passes = 0.0
    while total > 2 * few and number < total:
        sample = draw_sample(source, number, seed)
        passes += number / total
        centre = centre_of(sample.X, form) if centre is None else centre
        if centre is not None:
            sample.X -= centre
        plane = None
        if start is not None:
            coef, thresholds = (np.asarray(a, dtype=np.float64) for a in start)
            product = 0.0 if centre is None else float(coef @ centre)
            plane = coef, form.about(thresholds, -product)
        try:
            base = start_from(sample, form, total, plane, seed)
        except InfeasibleSums:  # a class is missing in the sample
            number *= 8
            continue
        return Rounds(
            source, form, centre, tol, Progress(base, Best(base.w, base.t), passes=passes)
        )
    everything = Limits((-np.inf, -np.inf), (np.inf, np.inf))
    base = Base(np.zeros(n), np.zeros(form.n_thresholds), everything, float(total))
    return Rounds(source, form, centre, tol, Progress(base, Best(base.w, base.t), passes=passes))


class _Stopped(Exception):
    """The monitor said stop in the middle of a round."""


class _Loop:
    """Rounds until nothing is wrong, the budget is spent or the monitor says stop."""

    def __init__(
        self,
        rounds: Rounds,
        max_rounds: int,
        monitor: Monitor | None,
        checkpoint: Store | None,
        observe: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.rounds, self.max_rounds = rounds, max_rounds
        self.monitor, self.checkpoint, self.observe = monitor, checkpoint, observe

    def run(self) -> Status:
        at = self.rounds.at
        try:
            while True:
                if at.explicit is None:
                    self.rounds.read_sides()
                    self._centre_few()
                    self._save()
                if not self.rounds.solve(self._tick):
                    self.rounds.widen_infeasible()
                    continue
                assert at.solution is not None
                if self.rounds.form.kind == "hull" and not at.solution.w.any():
                    return "not_separable"
                wrong = self.rounds.check()
                if self.observe is not None:
                    self.observe(at.history[-1])
                if not at.wrong:
                    return "converged" if self._is_exact() else "stalled"
                if at.round >= self.max_rounds:
                    return "max_iter"
                self.rounds.correct(wrong)
                self._save()
                self._tick()
        except _Stopped:
            return "stopped"

    def _centre_few(self) -> None:
        """Centre rows that were read without a sample, so that nothing was known about them."""
        rounds, rows = self.rounds, self.rounds.at.explicit
        if rounds.centre is None and rounds.everything_explicit and rows is not None:
            rounds.centre = centre_of(rows.X, rounds.form)
            if rounds.centre is not None:
                rows.X -= rounds.centre

    def _is_exact(self) -> bool:
        """Whether the bounds meet; those of reduced hulls are far smaller than one."""
        at = self.rounds.at
        assert at.solution is not None
        gap = at.best.primal - at.best.dual
        return at.best.gap <= EXACT_GAP and (
            at.solution.exact or gap <= EXACT_GAP * abs(at.best.primal)
        )

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(state_of(self.rounds))

    def _tick(self) -> None:
        at = self.rounds.at
        if self.monitor is not None and at.round and not self.monitor(at.round, at.best.gap):
            raise _Stopped


def _result(rounds: Rounds, status: Status) -> ImplicitResult:
    """Wrap up the solution, or the best point where it is not one."""
    at, form = rounds.at, rounds.form
    w, t, primal, dual = at.best.w, at.best.t, at.best.primal, at.best.dual
    exact = status in ("converged", "stalled", "not_separable")
    if exact and at.solution is not None:
        w, t = at.solution.w, at.solution.t
    if status == "not_separable":
        primal = dual = 0.0
    elif exact:
        t = _middle_thresholds(rounds)
    product = 0.0 if rounds.centre is None else float(w @ rounds.centre)
    explicit = at.explicit
    s = at.solution.s if at.solution is not None else np.empty(0)
    if explicit is None or len(explicit) != len(s):
        explicit, s = Explicit.joined([], len(w)), np.empty(0)
    return ImplicitResult(
        coef=w,
        thresholds=form.about(t, product),
        primal=primal,
        dual=dual,
        n_iter=max(1, at.round),
        passes=at.passes,
        status=status,
        history=at.history,
        explicit_part=explicit.part,
        explicit_rows=explicit.rows,
        explicit_s=s,
        base=at.base.sides(form)[0],
        centre=rounds.centre,
    )


def _middle_thresholds(rounds: Rounds) -> FloatArray:
    """Return the thresholds; where no explicit row fixes them, implicit ones may narrow them."""
    at, form = rounds.at, rounds.form
    assert at.solution is not None
    assert at.explicit is not None
    interval = at.solution.interval
    if not np.any(interval[:, 0] < interval[:, 1]) or rounds.everything_explicit:
        return at.solution.t
    plane, current = at.base.sides(form)[0], form.plane(at.solution.w, at.solution.t)
    known = [at.explicit.of_part(k) for k in range(len(rounds.source.sizes))]
    at.passes += 1.0
    found = rounds.source.run(edges, [(plane, current, rows, rounds.centre) for rows in known])
    limits = form.interval(at.solution.t, np.maximum(np.min(found, axis=0), 0.0))
    low = np.maximum(interval[:, 0], limits[:, 0])
    high = np.minimum(interval[:, 1], limits[:, 1])
    middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), at.solution.t)
    return np.where(interval[:, 0] < interval[:, 1], middle, at.solution.t)
