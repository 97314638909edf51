"""Run rounds of the implicit-outlier method: solve the explicit rows, read, correct the sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.linear_scan import (
    Evaluation,
    InfeasibleSums,
    LinearProblem,
    Plane,
    wrong_by,
)
from widemargin.solvers.numerics.box_qp import BoxQP, BoxSolution
from widemargin.solvers.numerics.box_qp_nested import few_rows, solve_nested
from widemargin.solvers.out_of_core.scan import Limits, Sampled, Scan, gather, scan
from widemargin.sources.protocol import Source

TOO_MANY = 1.5  # violators, as a share of the zone, that call for a wider zone
WIDER = (2.0, 4.0)  # the best plane so far is better than the last one: a little will do
NARROWEST = 1e-2  # least width of a widened zone, relative to the other class and the thresholds
PATIENCE = 4  # zones without a solution before all rows become explicit
SAME_SIDE = 1e-10  # a row on the wrong side by less, relative to the margin, is on the threshold
UNKNOWN = Evaluation()  # before the first read
MUCH_WIDER = 8.0  # where the zone had too little in it for the relaxed problem to have a solution


@dataclass
class Explicit:
    """Rows that the relaxed problem holds one by one, sorted by part and row."""

    part: IntArray
    rows: IntArray
    X: FloatArray
    y: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def of_part(self, number: int) -> IntArray:
        """Sorted row numbers in one part."""
        first, end = np.searchsorted(self.part, (number, number + 1))
        return self.rows[first:end]

    @classmethod
    def joined(cls, pieces: list[tuple[int, Sampled]], n_features: int) -> Explicit:
        """Put rows from all parts together."""
        empty = (np.empty(0, np.intp), np.empty((0, n_features)), np.empty(0), np.empty(0))
        found = [empty, *((p.rows, p.X, p.y, p.weight) for _, p in pieces)]
        rows, X, y, weight = (np.concatenate(column) for column in zip(*found, strict=True))
        part = np.repeat([k for k, _ in pieces], [len(p.rows) for _, p in pieces]).astype(np.intp)
        return cls(part, rows, X, y, weight)

    def with_more(self, other: Explicit) -> Explicit:
        """Return these rows and others, in order."""
        columns = [
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("part", "rows", "X", "y", "weight")
        ]
        order = np.lexsort((columns[1], columns[0]))
        return Explicit(*(column[order] for column in columns))


@dataclass
class Base:
    """The plane that gives every implicit row its side, and the zone of rows it cannot tell."""

    w: FloatArray
    t: FloatArray
    limits: Limits  # slacks at (w, t) between which rows are explicit
    size: float  # rows that the zone is meant to hold

    @property
    def middles(self) -> list[float]:
        """The slack in the middle of the zone, for each class."""
        return [_middle(a, b) for a, b in zip(self.limits.low, self.limits.high, strict=True)]

    def sides(self, problem: LinearProblem) -> tuple[Plane, Limits]:
        """The plane whose sign is the side, in the middle of the zone, and the zone about it.

        An edge row may round to either side of an edge, never to the other side of the middle.
        """
        middles = self.middles
        low = tuple(a - mid for a, mid in zip(self.limits.low, middles, strict=True))
        high = tuple(b - mid for b, mid in zip(self.limits.high, middles, strict=True))
        return problem.plane(self.w, self.t).moved(*middles), Limits(low, high)  # type: ignore[arg-type]

    def wider(self, problem: LinearProblem, w: FloatArray, t: FloatArray, factor: float) -> Base:
        """A zone about another plane, with this zone's half widths times factor."""
        half = [
            factor * max(b - mid, mid - a)
            for a, b, mid in zip(self.limits.low, self.limits.high, self.middles, strict=True)
        ]
        # Ties in a sample can make a zone without width, which no factor would widen.
        plane = problem.plane(w, t)
        least = NARROWEST * (abs(plane.level) + abs(plane.shift))
        half = [max(width, least, NARROWEST * max(half)) for width in half]
        limits = Limits((-half[0], -half[1]), (half[0], half[1]))
        return Base(w, t, limits, factor * self.size)


def _middle(low: float, high: float) -> float:
    if np.isfinite(low) and np.isfinite(high):
        return 0.5 * (low + high)
    if np.isfinite(high):  # all rows below are explicit: any number below the edge will do
        return high - 1e-3 * max(abs(high), 1e-3)
    return low + 1e-3 * max(abs(low), 1e-3) if np.isfinite(low) else 0.0


@dataclass
class Best:
    """The best model so far with what a read found at it, and the best lower bound."""

    w: FloatArray
    t: FloatArray
    found: Evaluation = UNKNOWN

    def offer(self, w: FloatArray, t: FloatArray, found: Evaluation) -> None:
        """Take what is better; the violation is that of the model with its own multipliers."""
        dual = max(self.found.dual, found.dual)
        if found.primal < self.found.primal:
            self.w, self.t, self.found = w, t, found
        if self.found.dual != dual:  # also where it is NaN
            self.found = replace(self.found, dual=dual)


@dataclass
class Progress:
    """Where the rounds are. All of it but the rows themselves goes into a checkpoint."""

    base: Base
    best: Best
    explicit: Explicit | None = None  # None: the sides have still to be read
    bounded_sum: FloatArray = field(default_factory=lambda: np.empty(0))
    mass: FloatArray = field(default_factory=lambda: np.zeros(2))
    round: int = 0
    passes: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    solution: BoxSolution | None = None
    checked: Evaluation = UNKNOWN  # of the solution
    wrong: int = 0
    near: tuple[FloatArray, FloatArray, int] | None = None  # a plane, and how many rows it may miss


class Rounds:
    """Solve, read and correct until no row is on the wrong side."""

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
        """Whether the zone holds all rows, so that nothing has to be checked outside of it."""
        limits = self.at.base.limits
        return bool(np.all(np.isinf([*limits.low, *limits.high])))

    def read_sides(self) -> Explicit:
        """Read all rows once to give them their sides; the zone becomes explicit."""
        at = self.at
        plane, limits = at.base.sides(self.problem)
        current = self.problem.plane(at.base.w, at.base.t)
        none = np.empty(0, dtype=np.intp)
        scans = self._scan(plane, limits, current, [none] * len(self.source.sizes), self.total)
        at.explicit = explicit = _found(scans, self.source.n_features)
        at.bounded_sum = np.sum([s.bounded_sum for s in scans], axis=0)
        at.mass = np.sum([s.mass for s in scans], axis=0)
        self.problem.require_reachable(np.sum([s.classes for s in scans], axis=0))
        loss = sum(s.loss for s in scans)
        primal = self.problem.primal(at.base.w, at.base.t, loss)
        at.best.offer(at.base.w, at.base.t, Evaluation(primal))
        return explicit

    def solve(self, tick: Callable[[], None] | None) -> bool:
        """Solve the relaxed problem; False where the zone is too narrow to have a solution."""
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
        """Read all rows once: bounds of the solution, and the rows on the wrong side."""
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
        """Evaluate a solution with thresholds t over all rows; return those on the wrong side too.

        They are read once, unless all of them are explicit.
        """
        at, problem = self.at, self.problem
        w, alpha = solution.w, solution.s
        plane = problem.plane(w, t)
        slack = plane.slack(rows.X @ w, rows.y)
        wrong = wrong_by(slack, rows.y, alpha, problem.cap * rows.weight)
        expansion, total = (alpha * rows.y) @ rows.X, float(alpha.sum())
        at.wrong, found = 0, Explicit.joined([], self.source.n_features)
        if self.everything_explicit:
            loss = float(np.maximum(slack, 0.0) @ rows.weight)
        else:
            known = [rows.of_part(k) for k in range(len(self.source.sizes))]
            most = int(max(1000.0, TOO_MANY * at.base.size))
            scans = self._scan(at.base.sides(problem)[0], None, plane, known, most)
            at.bounded_sum = np.sum([s.bounded_sum for s in scans], axis=0)
            at.mass = np.sum([s.mass for s in scans], axis=0)
            expansion = problem.cap * at.bounded_sum + expansion
            total = problem.cap * float(at.mass.sum()) + total
            loss = sum(s.loss for s in scans)
            wrong = np.max([wrong, *(s.wrong_by for s in scans)], axis=0)
            at.wrong = sum(s.wrong for s in scans)
            if at.wrong <= most:
                found = _found(scans, self.source.n_features)
        primal, dual = problem.primal(w, t, loss), problem.dual(expansion, total)
        return Evaluation(primal, dual, problem.violation(wrong)), found

    def correct(self, wrong: Explicit) -> None:
        """Make the rows on the wrong side explicit, or widen the zone where they are too many."""
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
        at.near = at.solution.w, at.solution.t, 4 * at.wrong

    def widen(self, factor: float) -> None:
        """Start over from the best plane so far, with a wider zone."""
        at = self.at
        at.base = at.base.wider(self.problem, at.best.w, at.best.t, factor)
        at.explicit = at.near = None

    def widen_infeasible(self) -> None:
        """Start over after a zone that was too narrow for the sums; at last with all rows."""
        self.failures += 1
        self.widen(MUCH_WIDER if self.failures < PATIENCE else np.inf)

    def regather(self, part: IntArray, rows: IntArray) -> None:
        """Read the explicit rows of a resumed run again."""
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
        tol = SAME_SIDE * max(self.target, abs(current.level))
        self.at.passes += 1.0
        return self.source.run(
            scan, [(plane, limits, current, rows, tol, most, self.centre) for rows in known]
        )


def _found(scans: list[Scan], n_features: int) -> Explicit:
    pieces = [(k, piece) for k, found in enumerate(scans) for piece in found.found]
    return Explicit.joined(pieces, n_features)
