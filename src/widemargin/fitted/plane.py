"""Keep fitted hyperplanes of `problems.norm_margin` such that they can be trained again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import PairedModel
from widemargin.fitted.by_refit import BY_REFITS, RefittedModel
from widemargin.problems.norm_margin import NormMargin
from widemargin.solvers import norm_margin
from widemargin.solvers.base import Budget
from widemargin.solvers.norm_margin import MarginResult

TIGHT = 1e-6  # a margin this little above what is asked for may be at it


class Hyperplane(NamedTuple):
    """A linear machine: values are coef.x + intercept."""

    coef: FloatArray
    intercept: float
    converged: bool


@dataclass(frozen=True, eq=False)
class NormMachine:
    """One hyperplane between two classes.

    Attributes
    ----------
    rows : ndarray
        Rows of the training set that it saw.
    problem : NormMargin
        What was solved.
    result : MarginResult
        Its optimum.
    tol : float
        Relative gap asked for.
    max_iter : int
        Steps that one fit may take.
    seed : int
        Of the solver.
    """

    rows: IntArray
    problem: NormMargin
    result: MarginResult
    tol: float
    max_iter: int
    seed: int

    @property
    def fitted(self) -> Hyperplane:
        """The machine as it was trained."""
        return _as_plane(self.result)

    def matters(self, X: Matrix) -> BoolArray:
        """Return which of its rows, given as X, the machine may depend on.

        A row with no dual variable and more margin than is asked for can leave: the plane stays
        feasible and the dual variables prove it. But where the threshold has an interval no row is
        at its margin, and a row that ends the interval has more than its margin at the midpoint;
        then every row matters.
        """
        result = self.result
        beyond = self.problem.y * (X @ result.coef + result.intercept) - 1.0
        if not self.problem.hard and not (np.abs(beyond) <= TIGHT).any():
            return np.ones(len(beyond), dtype=bool)
        return np.asarray((result.alpha > 0) | (beyond <= TIGHT))

    def retrained(self, X: Matrix, kept: FloatArray) -> Hyperplane:
        """Train with the fraction `kept` of each row's weight; X are its rows with kept > 0."""
        some = kept > 0
        y, cost = self.problem.y[some], self.problem.cost[some] * kept[some]
        if len(np.unique(y)) == 1:  # no slack anywhere without any weights
            return Hyperplane(np.zeros(X.shape[1]), float(y[0]), True)
        problem = replace(self.problem, y=y, cost=cost)
        result = norm_margin.solve(
            problem, X, tol=self.tol, budget=Budget(self.max_iter), seed=self.seed
        )
        return _as_plane(result)


@dataclass(frozen=True, eq=False)
class PlaneTraining(RefittedModel, PairedModel):
    """Hyperplanes, one per pair of classes, in their order."""

    data: TrainingSet
    pairs: list[tuple[int, int]]
    machines: list[NormMachine]
    seed: int

    method_advice: ClassVar[str] = (
        f"auto, {', '.join(BY_REFITS)}: the others rest on a norm of w that comes from an inner "
        "product, this one does not"
    )

    def _rows_of(self, machine: NormMachine) -> IntArray:
        return machine.rows

    def _matters(self, machine: NormMachine) -> BoolArray:
        return machine.matters(self.data.X[machine.rows])

    def _operand(self, X: Matrix, threads: int = 1) -> Matrix:
        return X

    def _evaluate(self, fitted: Hyperplane, samples: Matrix, trained_on: Matrix) -> FloatArray:
        values = np.asarray(samples @ fitted.coef, dtype=np.float64) + fitted.intercept
        return values[:, None]


def _as_plane(result: MarginResult) -> Hyperplane:
    return Hyperplane(result.coef, result.intercept, result.status == "converged")
