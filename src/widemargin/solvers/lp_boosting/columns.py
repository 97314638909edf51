"""Column generation for LPBoost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.problems.boosting.soft_margin import SoftMarginVote, rounded_vote
from widemargin.solvers.base import Budget, Result, Status
from widemargin.solvers.lp_boosting.interior import InteriorPoint

BASE_STEPS = 40  # most steps between two calls of a learner that does not know the largest edge
SOLVED = 0.7  # part of tol at which the iteration ends; the rest is for trimming and rounding
DROPPED = 0.1  # total of the smallest coefficients that are set to zero, as a part of tol
MOST_LOST = 40  # calls in a row without a new hypothesis, or with one but without progress


class ColumnLearner(Protocol):
    """Protocol of base learners that return several hypotheses at a time."""

    def price(self, mass: FloatArray, above: float) -> tuple[list[Any], float | None]:
        """Return hypotheses of large edge, and the largest edge of all, None if it is not known.

        The edge of a hypothesis is 1 - 2 error, with the error weighted by mass. Hypotheses with an
        edge of at most `above` need not be returned.
        """
        ...

    def predictions(self, hypothesis: Any) -> BoolArray:
        """Return for each training sample whether the hypothesis predicts +1."""
        ...

    def constant(self, positive: bool) -> Any:
        """Return the hypothesis that always predicts +1, or -1."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class VoteResult(Result):
    """Convex combination of hypotheses, and a distribution over the samples.

    Attributes
    ----------
    hypotheses : list
        Hypotheses of the learner, those of large coefficients first.
    alpha : ndarray of shape (n_hypotheses,)
        Their coefficients, positive multiples of the UNIT of the problem that sum to 1.
    margins : ndarray of shape (n_rows,)
        y f(x) of the training samples, exact.
    distribution : ndarray of shape (n_rows,)
        u, multiples of UNIT.
    edge : float or None
        Largest edge of all hypotheses for this distribution, None if the learner does not know it.
    """

    hypotheses: list[Any]
    alpha: FloatArray
    margins: FloatArray
    distribution: FloatArray
    edge: float | None


class _Columns:
    """Distinct hypotheses found so far and their values, as rows y g(x) of a matrix."""

    def __init__(self, problem: SoftMarginVote, learner: ColumnLearner) -> None:
        self.learner, self.positive = learner, problem.positive
        self.hypotheses: list[Any] = []
        self.store = np.empty((32, len(problem.positive)))
        self.seen: set[bytes] = set()
        self.add([learner.constant(True), learner.constant(False)])

    @property
    def agrees(self) -> FloatArray:
        """Values y g(x), one row per hypothesis."""
        return self.store[: len(self.hypotheses)]

    def add(self, hypotheses: list[Any]) -> int:
        """Add the hypotheses that predict otherwise than those before; return their number."""
        before = len(self.hypotheses)
        for hypothesis in hypotheses:
            right = self.learner.predictions(hypothesis) == self.positive
            key = hashlib.blake2b(np.packbits(right).tobytes(), digest_size=16).digest()
            if key in self.seen:
                continue
            self.seen.add(key)
            place = len(self.hypotheses)
            if place == len(self.store):
                self.store = np.concatenate([self.store, np.empty_like(self.store)])
            self.store[place] = np.where(right, 1.0, -1.0)
            self.hypotheses.append(hypothesis)
        return len(self.hypotheses) - before

    def keep(self, chosen: Any) -> None:
        """Forget all hypotheses but the chosen ones; the learner may return others again."""
        kept = np.flatnonzero(chosen)
        self.store[: len(kept)] = self.store[kept]
        self.hypotheses = [self.hypotheses[k] for k in kept]
        self.seen.clear()
        for row in self.agrees:
            self.seen.add(hashlib.blake2b(np.packbits(row > 0).tobytes(), digest_size=16).digest())


class _Best:
    """Best coefficients and best distribution so far, in exact arithmetic up to `objective`."""

    def __init__(self, problem: SoftMarginVote) -> None:
        self.problem = problem
        self.primal = np.inf
        self.hypotheses: list[Any] = []
        self.alpha = np.empty(0)
        self.margins = np.empty(0)
        self.distribution = problem.rounded_distribution(problem.share)
        self.edge: float | None = None

    @property
    def gap(self) -> float:
        """Difference between the objective and the lower bound, which is -1 if none is known."""
        return self.primal + (1.0 if self.edge is None else self.edge)

    def offer(self, columns: _Columns, alpha: FloatArray) -> None:
        """Keep coefficients, rounded, if they are better."""
        vote = rounded_vote(alpha)
        margins = vote @ columns.agrees
        primal = self.problem.objective(margins)
        if primal < self.primal:
            used = np.flatnonzero(vote)
            used = used[np.argsort(-vote[used], kind="stable")]
            self.primal, self.alpha, self.margins = primal, vote[used], margins
            self.hypotheses = [columns.hypotheses[k] for k in used]

    def trim(self, learner: ColumnLearner, tol: float) -> None:
        """Set the smallest coefficients to zero, unless the objective rises by more than allowed.

        If their total is d, margins and objective change by at most 2 d.
        """
        total = np.cumsum(self.alpha)
        length = int(np.searchsorted(total, 1.0 - DROPPED * tol)) + 1
        if length >= len(self.alpha):
            return
        vote, hypotheses = rounded_vote(self.alpha[:length]), self.hypotheses[:length]
        margins = np.zeros_like(self.margins)
        for share, hypothesis in zip(vote, hypotheses, strict=True):
            right = learner.predictions(hypothesis) == self.problem.positive
            margins += np.where(right, share, -share)
        primal = self.problem.objective(margins)
        if primal <= self.primal + 2.0 * DROPPED * tol:
            self.primal, self.alpha, self.margins = primal, vote, margins
            self.hypotheses = hypotheses

    def bound(self, distribution: FloatArray, edge: float | None) -> None:
        """Keep a distribution if its largest edge is smaller, or if none is known."""
        if self.edge is None or (edge is not None and edge < self.edge):
            self.distribution, self.edge = distribution, edge


def generate_columns(
    problem: SoftMarginVote, learner: ColumnLearner, *, tol: float, budget: Budget
) -> VoteResult:
    """Run column generation; each interior-point step spends one step of the budget."""
    columns, best = _Columns(problem, learner), _Best(problem)
    first = problem.rounded_distribution(problem.share)
    hypotheses, edge = learner.price(first, -1.0)
    best.bound(first, edge)
    columns.add(hypotheses)
    for k in range(len(columns.hypotheses)):  # the constants and single hypotheses
        best.offer(columns, np.eye(len(columns.hypotheses))[k])
    best.offer(columns, (np.arange(len(columns.hypotheses)) < 2).astype(np.float64))
    # Near nu = 1 the caps leave u no room, and the best single hypothesis is optimal up to 2(1-nu).
    if best.gap <= SOLVED * tol or 1.0 - problem.nu <= 0.1 * tol:
        return _result(best, budget, "converged")
    point = InteriorPoint.start(problem, columns.agrees, 1.0 if edge is None else edge)
    status = _iterate(problem, columns, best, point, tol, budget)
    return _result(best, budget, status)


def _iterate(
    problem: SoftMarginVote,
    columns: _Columns,
    best: _Best,
    point: InteriorPoint,
    tol: float,
    budget: Budget,
) -> Status:
    """Alternate between interior-point steps and calls of the learner."""
    most = max(64, int(budget.cache_bytes / (8.0 * len(problem.weight))) // 2)
    idle, known = 0, best.edge is not None
    while True:
        u, inner, going = _steps(problem, columns, best, point, tol, budget)
        distribution = problem.rounded_distribution(u)
        hypotheses, edge = columns.learner.price(distribution, inner)
        before = best.gap
        best.bound(distribution, edge)
        if known and best.gap <= SOLVED * tol:
            break
        added = columns.add(hypotheses)
        if not known and not (added and _edge(columns, distribution) > inner + tol):
            break
        if not going:
            return budget.status if budget.status != "converged" else "stalled"
        idle = 0 if best.gap < before or added else idle + 1
        if idle > MOST_LOST:
            return "stalled"
        if len(columns.hypotheses) > most:
            kept = np.arange(len(columns.hypotheses)) >= len(columns.hypotheses) - added
            kept[: -added or None] |= point.largest(most // 2)
            columns.keep(kept)
            point.keep(kept[: len(point.alpha)])
        if added:
            point.extend(columns.agrees)
    best.trim(columns.learner, tol)
    return "converged"


def _edge(columns: _Columns, distribution: FloatArray) -> float:
    return float(columns.agrees[-1] @ distribution)


def _steps(
    problem: SoftMarginVote,
    columns: _Columns,
    best: _Best,
    point: InteriorPoint,
    tol: float,
    budget: Budget,
) -> tuple[FloatArray, float, bool]:
    """Make steps on the known hypotheses; return u, their largest edge, and whether to go on."""
    known = best.edge is not None
    # An exact search for stumps costs less than a step; other learners are called at an optimum.
    for _ in range(1 if known else BASE_STEPS):
        moved = point.step(columns.agrees, best.gap if known else 0.0)
        best.offer(columns, point.alpha)
        u = problem.feasible(point.u)
        inner = float((columns.agrees @ u).max())
        going = budget.spend(1, max(best.gap, 0.0)) and moved
        if not going or best.primal + inner <= 0.25 * tol:
            break
    return u, inner, going


def _result(best: _Best, budget: Budget, status: Status) -> VoteResult:
    return VoteResult(
        hypotheses=best.hypotheses,
        alpha=best.alpha,
        margins=best.margins,
        distribution=best.distribution,
        edge=best.edge,
        n_iter=max(1, budget.used),
        status=status,
    )
