"""Rounds of the implicit-outlier method: solve for the explicit samples, check all, correct sides.

See `implicit` for the method. The state of a run is a `Progress`; one round solves the relaxed
problem, checks its solution in one pass over the data, and makes the samples on the wrong side
explicit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import relative_gap
from widemargin.problems.linear_bounds import dual_sums, positive_and_negative
from widemargin.problems.linear_reads import FloatSums, Plane, ReadSums
from widemargin.problems.linear_scan import (
    Evaluation,
    InfeasibleSums,
    LinearProblem,
    wrong_by,
)
from widemargin.solvers.numerics.box_qp import BoxQP, BoxSolution
from widemargin.solvers.numerics.box_qp_nested import few_rows, solve_nested
from widemargin.solvers.out_of_core.scan import Limits, Sampled, Scan, gather, scan
from widemargin.sources.protocol import Source

TOO_MANY = 1.5  # violators, relative to the zone's size, above which it is widened (if over 1000)
WIDER = (2.0, 4.0)  # range of this widening factor; small, as the zone also moves to the best plane
NARROWEST = 1e-2  # least half width of a widened zone, relative to the thresholds or other class
PATIENCE = 4  # number of zones with an infeasible problem after which all samples are explicit
SAME_SIDE = 1e-10  # tolerance for the side of a sample, as a slack relative to the margin
UNKNOWN = Evaluation()  # before the first pass
MUCH_WIDER = 8.0  # factor for a zone whose relaxed problem is infeasible


@dataclass
class Explicit:
    """Explicit samples, the variables of the relaxed problem, sorted by part and row number."""

    part: IntArray
    rows: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def of_part(self, number: int) -> IntArray:
        """Return the sorted row numbers of the explicit samples in one part."""
        first, end = np.searchsorted(self.part, (number, number + 1))
        return self.rows[first:end]

    @classmethod
    def joined(cls, pieces: list[tuple[int, Sampled]], n_features: int) -> Explicit:
        """Concatenate samples of several parts, given as (part, samples)."""
        empty = (np.empty(0, np.intp), np.empty((0, n_features)), np.empty(0), np.empty(0))
        found = [empty, *((p.rows, p.X, p.y, p.weight) for _, p in pieces)]
        rows, X, y, weight = (np.concatenate(column) for column in zip(*found, strict=True))
        part = np.repeat([k for k, _ in pieces], [len(p.rows) for _, p in pieces]).astype(np.intp)
        return cls(part, rows, X, y, weight)

    def with_more(self, other: Explicit) -> Explicit:
        """Return the union of two disjoint sets, in order."""
        columns = [
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("part", "rows", "X", "y", "weight")
        ]
        order = np.lexsort((columns[1], columns[0]))
        return Explicit(*(column[order] for column in columns))


@dataclass
class Base:
    """Plane that determines the sides of implicit samples, and the zone of explicit samples."""

    w: FloatArray
    t: FloatArray
    limits: Limits  # slacks at (w, t) between which samples are explicit
    size: float  # expected number of samples in the zone

    @property
    def middles(self) -> list[float]:
        """Slack in the middle of the zone, per class."""
        return [_middle(a, b) for a, b in zip(self.limits.low, self.limits.high, strict=True)]

    def sides(self, problem: LinearProblem) -> tuple[Plane, Limits]:
        """Return the plane in the middle of the zone, and the zone relative to this plane.

        The sign of the slack at this plane is the side of a sample. Rounding may move a sample
        across an edge of the zone between two passes, but not across its middle, so that implicit
        samples keep their sides.
        """
        middles = self.middles
        low = tuple(a - mid for a, mid in zip(self.limits.low, middles, strict=True))
        high = tuple(b - mid for b, mid in zip(self.limits.high, middles, strict=True))
        return problem.plane(self.w, self.t).moved(*middles), Limits(low, high)  # type: ignore[arg-type]

    def wider(self, problem: LinearProblem, w: FloatArray, t: FloatArray, factor: float) -> Base:
        """Return a zone around another plane, with the half widths of this zone times `factor`."""
        half = [
            factor * max(b - mid, mid - a)
            for a, b, mid in zip(self.limits.low, self.limits.high, self.middles, strict=True)
        ]
        # Ties in a subsample can make a zone of width zero, which no factor would widen.
        plane = problem.plane(w, t)
        least = NARROWEST * (abs(plane.level) + abs(plane.shift))
        half = [max(width, least, NARROWEST * max(half)) for width in half]
        limits = Limits((-half[0], -half[1]), (half[0], half[1]))
        return Base(w, t, limits, factor * self.size)


def _middle(low: float, high: float) -> float:
    """Return a slack inside an interval: its midpoint, near its only finite end, or zero."""
    if np.isfinite(low) and np.isfinite(high):
        return 0.5 * (low + high)
    if np.isfinite(high):  # all samples below are explicit, so any slack below `high` is correct
        return high - 1e-3 * max(abs(high), 1e-3)
    return low + 1e-3 * max(abs(low), 1e-3) if np.isfinite(low) else 0.0


@dataclass
class Best:
    """Best model so far with its evaluation, and the best lower bound so far.

    The thresholds are those for samples minus the centre.
    """

    w: FloatArray
    t: FloatArray
    found: Evaluation = UNKNOWN

    def offer(self, w: FloatArray, t: FloatArray, found: Evaluation) -> None:
        """Keep the model with the smaller primal and the larger of the lower bounds.

        The KKT violation remains that of the model with its own multipliers.
        """
        dual = max(self.found.dual, found.dual)
        if found.primal < self.found.primal:
            self.w, self.t, self.found = w, t, found
        if self.found.dual != dual:  # true also if self.found.dual is NaN
            self.found = replace(self.found, dual=dual)


@dataclass
class Progress:
    """State of a run between rounds; `state` saves it, without the samples, in checkpoints."""

    base: Base
    best: Best
    constant: Best  # the best constant model
    explicit: Explicit | None = None  # None: `read_sides` comes next
    bounded_sum: FloatArray = field(default_factory=lambda: np.empty(0))
    mass: FloatArray = field(default_factory=lambda: np.zeros(2))
    round: int = 0
    passes: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    solution: BoxSolution | None = None
    checked: Evaluation = UNKNOWN  # of the solution
    wrong: int = 0  # number of implicit samples on the wrong side
    near: tuple[FloatArray, FloatArray, int] | None = None  # warm start of `solve_nested`

    @property
    def gap(self) -> float:
        """Relative gap of the best model so far, which may be the best constant."""
        primal = min(self.best.found.primal, self.constant.found.primal)
        return relative_gap(primal, self.best.found.dual)


class Rounds:
    """Steps of a round: solve the relaxed problem, check it, correct sides or widen the zone."""

    def __init__(
        self,
        source: Source,
        problem: LinearProblem,
        centre: FloatArray | None,
        progress: Progress,
    ) -> None:
        self.source, self.problem, self.centre = source, problem, centre
        self.at, self.target = progress, problem.target
        self.total = int(sum(source.sizes))
        self.failures = 0

    @property
    def everything_explicit(self) -> bool:
        """Whether the zone contains all samples, so that there are no implicit ones to check."""
        limits = self.at.base.limits
        return bool(np.all(np.isinf([*limits.low, *limits.high])))

    def read_sides(self) -> Explicit:
        """Determine the sides of all samples in one pass; those in the zone become explicit."""
        at = self.at
        plane, limits = at.base.sides(self.problem)
        current, t = self.problem.published(at.base.w, at.base.t, self.centre)
        none = np.empty(0, dtype=np.intp)
        scans = self._scan(plane, limits, current, [none] * len(self.source.sizes), self.total)
        at.explicit = explicit = _found(scans, self.source.n_features)
        sums = self._implicit(scans)
        self.problem.require_reachable(sums.weight.hi)
        at.best.offer(at.base.w, at.base.t, self.problem.evaluation(current, t, sums))
        if self.problem.kind != "hull":
            at.constant = Best(*self.problem.best_constant(sums.weight, len(at.base.w)))
        return explicit

    def solve(self, tick: Callable[[], None] | None) -> bool:
        """Solve the relaxed problem; return False if it is infeasible: the zone is too narrow."""
        at, problem = self.at, self.problem
        assert at.explicit is not None
        rows = at.explicit
        relaxed = BoxQP(
            rows.y[:, None] * rows.X,
            problem.columns(rows.y),
            problem.sums(at.mass),
            np.full(len(rows), self.target),
            problem.cap * rows.weight,
            problem.cap * at.bounded_sum,
        )
        few = few_rows(self.source.n_features)
        try:
            at.solution = solve_nested(relaxed, few=few, start=at.near, tick=tick)
        except InfeasibleSums:
            if self.everything_explicit:
                raise
            return False
        return True

    def check(self) -> Explicit:
        """Compute the bounds at the solution in one pass; return the samples on the wrong side."""
        at = self.at
        assert at.explicit is not None
        assert at.solution is not None
        at.checked, wrong = self.evaluate(at.explicit, at.solution, at.solution.t)
        at.best.offer(at.solution.w, at.solution.t, at.checked)
        at.round += 1
        at.history.append(
            {
                "round": at.round,
                "explicit_rows": len(at.explicit),
                "violators": at.wrong,
                "lower": at.best.found.dual,
                "upper": at.best.found.primal,
                "passes": at.passes,
            }
        )
        return wrong

    def evaluate(
        self, rows: Explicit, solution: BoxSolution, t: FloatArray
    ) -> tuple[Evaluation, Explicit]:
        """Evaluate a solution with thresholds t; return also the samples on the wrong side.

        This takes one pass, or none if all samples are explicit. If there are too many samples on
        the wrong side, `at.wrong` is their number and none is returned.
        """
        at, problem = self.at, self.problem
        w, alpha = solution.w, solution.s
        plane, published = problem.published(w, t, self.centre)
        slack = plane.slack(rows.X @ plane.w, rows.y)
        cap = problem.cap * rows.weight
        wrong = wrong_by(slack, rows.y, alpha, cap)
        known = [rows.of_part(k) for k in range(len(self.source.sizes))]
        at.wrong, found = 0, Explicit.joined([], self.source.n_features)
        if self.everything_explicit:
            held = FloatSums(plane, squared=False, centred=self.centre is not None)
            held.add(rows.X, rows.y, rows.weight, slack, np.zeros(len(rows)))
            sums = held.result()
        else:
            most = int(max(1000.0, TOO_MANY * at.base.size))
            scans = self._scan(at.base.sides(problem)[0], None, plane, known, most)
            sums = self._implicit(scans)
            wrong = np.max([wrong, *(s.wrong_by for s in scans)], axis=0)
            at.wrong = sum(s.wrong for s in scans)
            if at.wrong <= most:
                found = _found(scans, self.source.n_features)
        explicit = dual_sums(
            rows.X, positive_and_negative(rows.y * np.clip(alpha, 0.0, cap)), (rows.y, rows.y),
            (cap, cap), squared=False,
        )  # fmt: skip
        if self.centre is not None:
            explicit = replace(explicit, pull=explicit.pull.widened(explicit.pull.error))
        violation = problem.violation(wrong)
        return problem.evaluation(plane, published, sums, explicit, violation), found

    def _implicit(self, scans: list[Scan]) -> ReadSums:
        """Return the sums over all parts; keep those of the implicit samples at their caps."""
        sums = ReadSums.total([s.sums for s in scans], self.source.n_features)
        self.at.bounded_sum = sums.dual.pull.hi.sum(axis=0)
        self.at.mass = sums.dual.charge.hi
        return sums

    def correct(self, wrong: Explicit) -> None:
        """Make the samples on the wrong side explicit, or widen the zone if there are too many."""
        at = self.at
        assert at.explicit is not None
        if len(wrong) < at.wrong:
            self.widen(float(np.clip(at.wrong / at.base.size, *WIDER)))
            return
        plane, _ = at.base.sides(self.problem)
        bounded = plane.slack(wrong.X @ plane.w, wrong.y) > 0
        weight = wrong.weight * bounded
        at.bounded_sum = at.bounded_sum - (weight * wrong.y) @ wrong.X
        at.mass = at.mass - np.array([weight[wrong.y > 0].sum(), weight[wrong.y < 0].sum()])
        at.explicit = at.explicit.with_more(wrong)
        assert at.solution is not None
        # Warm start; four times the violators is the number of bounds taken to be uncertain.
        at.near = at.solution.w, at.solution.t, 4 * at.wrong

    def widen(self, factor: float) -> None:
        """Restart with a wider zone around the best plane so far."""
        at = self.at
        at.base = at.base.wider(self.problem, at.best.w, at.best.t, factor)
        at.explicit = at.near = None

    def widen_infeasible(self) -> None:
        """Restart with a wider zone after an infeasible relaxed problem.

        The caps in the zone did not allow the required sums. After PATIENCE zones all samples
        become explicit.
        """
        self.failures += 1
        self.widen(MUCH_WIDER if self.failures < PATIENCE else np.inf)

    def regather(self, part: IntArray, rows: IntArray) -> None:
        """Read the explicit samples of a resumed run."""
        numbers = range(len(self.source.sizes))
        mine = [rows[slice(*np.searchsorted(part, (k, k + 1)))] for k in numbers]
        found = self.source.run(gather, [(mine[k], self.centre) for k in numbers])
        self.at.explicit = Explicit.joined(list(enumerate(found)), self.source.n_features)

    def _scan(
        self,
        plane: Plane,
        limits: Limits | None,
        current: Plane,
        known: list[IntArray],
        most: int,
    ) -> list[Scan]:
        """Run `scan` on all parts: one pass."""
        tol = SAME_SIDE * max(self.target, abs(current.level))
        self.at.passes += 1.0
        return self.source.run(
            scan, [(plane, limits, current, rows, tol, most, self.centre) for rows in known]
        )


def _found(scans: list[Scan], n_features: int) -> Explicit:
    """Return the samples found by the scans of all parts."""
    pieces = [(k, piece) for k, found in enumerate(scans) for piece in found.found]
    return Explicit.joined(pieces, n_features)
