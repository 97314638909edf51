"""Fitted models of `problems.crammer_singer`, with leave-one-out by refitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from widemargin._base.features import with_constant
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.by_refit import BY_REFITS, RefittedModel
from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.solvers import crammer_singer
from widemargin.solvers.base import Budget
from widemargin.solvers.crammer_singer import CrammerSingerResult

TIGHT = 1e-6  # a sample within this tolerance of its margin counts as on it


class Hyperplanes(NamedTuple):
    """Linear decision functions: one per class, or their difference for two classes."""

    coef: FloatArray
    intercepts: FloatArray
    converged: bool


@dataclass(frozen=True, eq=False)
class CrammerSingerMachine:
    """Hyperplanes of all classes, with the problem that they solve together.

    Attributes
    ----------
    problem : CrammerSinger
        The optimisation problem.
    result : CrammerSingerResult
        The optimum.
    tol : float
        Tolerance of the relative gap.
    max_iter : int
        Maximum number of Newton steps of one fit.
    """

    problem: CrammerSinger
    result: CrammerSingerResult
    tol: float
    max_iter: int

    @property
    def fitted(self) -> Hyperplanes:
        """Decision functions fitted to all samples."""
        return _as_planes(self.result)

    def matters(self, X: Matrix) -> BoolArray:
        """Return a mask of the samples, given as X, that the solution may depend on.

        The removal of a sample with more margin than required changes nothing, unless no sample is
        on its margin and the intercepts are only determined up to an interval.
        """
        F = np.asarray(X @ self.result.coef.T, dtype=np.float64) + self.result.intercepts
        own = F[np.arange(len(F)), self.problem.codes]
        others = np.where(self.problem.own > 0, -np.inf, F).max(axis=1)
        used = own - others <= 1.0 + TIGHT
        on_margin = np.abs(own - others - 1.0) <= TIGHT
        if self.problem.intercept and not on_margin.any():
            return np.ones(len(used), dtype=bool)
        return np.asarray(used)

    def retrained(self, X: Matrix, kept: FloatArray) -> Hyperplanes:
        """Refit with the fraction `kept` of each sample's weight; X holds those with kept > 0."""
        some = kept > 0
        codes, cost = self.problem.codes[some], self.problem.cost[some] * kept[some]
        problem = replace(self.problem, codes=codes, cost=cost)
        start = replace(self.result, alpha=self.result.alpha[some] * kept[some, None])
        found = crammer_singer.solve(
            problem, X, tol=self.tol, budget=Budget(self.max_iter), start=start
        )
        return _as_planes(found)


@dataclass(frozen=True, eq=False)
class CrammerSingerTraining(RefittedModel):
    """Fitted model with one hyperplane per class, fitted together.

    `constant` is the value of the feature whose weights are penalised intercepts, or None.
    """

    data: TrainingSet
    machines: Sequence[CrammerSingerMachine]
    seed: int
    constant: float | None = None

    method_advice: ClassVar[str] = (
        f"auto, {', '.join(BY_REFITS)}: the others are for binary problems, and the hyperplanes of "
        "all classes are fitted together"
    )

    def _rows_of(self, machine: CrammerSingerMachine) -> IntArray:
        return np.arange(len(self.data.weight))

    def _matters(self, machine: CrammerSingerMachine) -> BoolArray:
        return machine.matters(self._operand(self.data.X))

    def _operand(self, X: Matrix, threads: int = 1) -> Matrix:
        return with_constant(X, self.constant)

    def _evaluate(self, fitted: Hyperplanes, samples: Matrix, trained_on: Matrix) -> FloatArray:
        return np.asarray(samples @ fitted.coef.T, dtype=np.float64) + fitted.intercepts

    def _columns(self) -> list[slice]:
        return [slice(0, len(self.machines[0].fitted.coef))]


def _as_planes(result: CrammerSingerResult) -> Hyperplanes:
    """Return the hyperplanes of a result; of two classes, their difference."""
    coef, intercepts = result.coef, result.intercepts
    if len(coef) == 2:
        coef, intercepts = coef[1:] - coef[:1], intercepts[1:] - intercepts[:1]
    return Hyperplanes(coef, intercepts, result.status == "converged")
