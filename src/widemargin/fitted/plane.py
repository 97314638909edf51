"""Fitted hyperplanes of norm margins and l1 penalties, with leave-one-out by refitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from widemargin._base.features import with_constant
from widemargin._base.multiclass import Sides
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import PairedModel
from widemargin.fitted.by_refit import BY_REFITS, RefittedModel
from widemargin.problems.l1_margin import L1Margin
from widemargin.problems.norm_margin import NormMargin
from widemargin.solvers import l1_margin, norm_margin
from widemargin.solvers.base import Budget, LinearResult
from widemargin.solvers.norm_margin import MarginResult

TIGHT = 1e-6  # a sample within this tolerance of the margin counts as on it


class Hyperplane(NamedTuple):
    """Linear decision function coef.x + intercept."""

    coef: FloatArray
    intercept: float
    converged: bool


@dataclass(frozen=True, eq=False)
class NormMachine:
    """Separating hyperplane of two classes, with the problem that it solves.

    Attributes
    ----------
    rows : ndarray
        Indices of its samples in the training set.
    problem : NormMargin
        The optimisation problem.
    result : MarginResult
        The optimum.
    tol : float
        Tolerance of the relative gap.
    max_iter : int
        Maximum number of iterations of one fit.
    seed : int
        Seed of the solver.
    """

    rows: IntArray
    problem: NormMargin
    result: MarginResult
    tol: float
    max_iter: int
    seed: int

    @property
    def fitted(self) -> Hyperplane:
        """Decision function fitted to all samples."""
        return _as_plane(self.result)

    def matters(self, X: Matrix) -> BoolArray:
        """Return a mask of the samples, given as X, that the hyperplane may depend on.

        Removing a sample whose dual variable is zero and whose margin exceeds 1 does not change
        the optimum: the plane and the dual variables stay feasible, with the same objectives. The
        exception is an intercept that is only determined up to an interval. The midpoint is then
        chosen, so no sample is on the margin, and the samples that limit the interval are not
        recognised by their margin; all samples are returned.
        """
        result = self.result
        beyond = self.problem.y * (X @ result.coef + result.intercept) - 1.0
        if not self.problem.hard and not (np.abs(beyond) <= TIGHT).any():
            return np.ones(len(beyond), dtype=bool)
        return np.asarray((result.alpha > 0) | (beyond <= TIGHT))

    def retrained(self, X: Matrix, kept: FloatArray) -> Hyperplane:
        """Refit with the fraction `kept` of each sample's weight; X holds those with kept > 0."""
        some = kept > 0
        y, cost = self.problem.y[some], self.problem.cost[some] * kept[some]
        if len(np.unique(y)) == 1:  # w = 0 and the label as intercept leave no slack
            return Hyperplane(np.zeros(X.shape[1]), float(y[0]), True)
        problem = replace(self.problem, y=y, cost=cost)
        result = norm_margin.solve(
            problem, X, tol=self.tol, budget=Budget(self.max_iter), seed=self.seed
        )
        return _as_plane(result)


@dataclass(frozen=True, eq=False)
class L1Machine:
    """Separating hyperplane with an l1 penalty, with the problem that it solves.

    Attributes
    ----------
    rows : ndarray
        Indices of its samples in the training set.
    problem : L1Margin
        The optimisation problem.
    result : LinearResult
        The optimum.
    tol : float
        Tolerance of the relative gap.
    max_iter : int
        Maximum number of steps of one fit.
    """

    rows: IntArray
    problem: L1Margin
    result: LinearResult
    tol: float
    max_iter: int

    @property
    def fitted(self) -> Hyperplane:
        """Decision function fitted to all samples."""
        return _as_plane(self.result)

    def matters(self, X: Matrix) -> BoolArray:
        """Return a mask of the samples, given as X, that the hyperplane may depend on.

        A sample without slack has no multiplier, and its removal changes nothing; if no sample has
        a slack, the solution is not unique and may depend on all of them.
        """
        f = np.asarray(X @ self.result.coef, dtype=np.float64)
        slack = 1.0 - self.problem.y * (f + self.result.intercept)
        used = slack > -TIGHT
        return used if used.any() else np.ones(len(used), dtype=bool)

    def retrained(self, X: Matrix, kept: FloatArray) -> Hyperplane:
        """Refit with the fraction `kept` of each sample's weight; X holds those with kept > 0."""
        some = kept > 0
        y, cost = self.problem.y[some], self.problem.cost[some] * kept[some]
        if len(np.unique(y)) == 1 and self.problem.intercept:
            return Hyperplane(np.zeros(X.shape[1]), float(y[0]), True)  # w = 0 leaves no slack
        problem = replace(self.problem, y=y, cost=cost)
        start = replace(self.result, alpha=None)
        budget = Budget(self.max_iter)
        result = l1_margin.solve(problem, X, tol=self.tol, budget=budget, start=start)
        return _as_plane(result)


class PlaneMachine(Protocol):
    """Protocol of a fitted hyperplane that can be refitted without some of its samples."""

    @property
    def rows(self) -> IntArray:
        """Indices of its samples in the training set."""
        ...

    @property
    def fitted(self) -> Hyperplane:
        """Decision function fitted to all samples."""
        ...

    def matters(self, X: Matrix) -> BoolArray:
        """Return a mask of the samples that the hyperplane may depend on."""
        ...

    def retrained(self, X: Matrix, kept: FloatArray) -> Hyperplane:
        """Refit with the fraction `kept` of each sample's weight."""
        ...


@dataclass(frozen=True, eq=False)
class PlaneTraining(RefittedModel, PairedModel):
    """Fitted model with one hyperplane per pair of classes, or per class.

    `constant` is the value of the feature whose weight is a penalised intercept, or None.
    """

    data: TrainingSet
    pairs: Sequence[Sides]
    machines: Sequence[PlaneMachine]
    seed: int
    constant: float | None = None

    method_advice: ClassVar[str] = (
        f"auto, {', '.join(BY_REFITS)}: the others rest on a norm of w that comes from an inner "
        "product, this one does not"
    )

    def _rows_of(self, machine: PlaneMachine) -> IntArray:
        return machine.rows

    def _matters(self, machine: PlaneMachine) -> BoolArray:
        return machine.matters(self._operand(self.data.X[machine.rows]))

    def _operand(self, X: Matrix, threads: int = 1) -> Matrix:
        return with_constant(X, self.constant)

    def _evaluate(self, fitted: Hyperplane, samples: Matrix, trained_on: Matrix) -> FloatArray:
        values = np.asarray(samples @ fitted.coef, dtype=np.float64) + fitted.intercept
        return values[:, None]


def _as_plane(result: MarginResult | LinearResult) -> Hyperplane:
    return Hyperplane(result.coef, result.intercept, result.status == "converged")
