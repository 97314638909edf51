"""Fitted linear programs, with leave-one-out by warm-started refits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.fitted.by_refit import Refit, RefitTraining
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget
from widemargin.solvers.linear_program import ProgramResult, solve

NO_SLACK = 1e-8  # an objective this small, relative to that of alpha = 0, counts as zero
TIGHT = 1e-6  # a sample within this tolerance of the margin counts as on it


@dataclass(frozen=True, eq=False)
class ProgramMachine:
    """Linear program over all samples of a training set and its optimum.

    Attributes
    ----------
    problem : MarginProgram
        The program; for a nu machine with a margin, that of the equivalent LP machine.
    result : ProgramResult
        The optimum.
    tol : float
        Tolerance of the relative gap.
    max_iter : int
        Maximum number of iterations of one fit.
    cache_bytes : float
        Memory that one fit may use.
    seed : int
        Seed of the solver.
    held : str
        Parameter of the program that the estimator does not have; empty if there is none.
    """

    problem: MarginProgram
    result: ProgramResult
    tol: float
    max_iter: int
    cache_bytes: float
    seed: int
    held: str = ""

    @property
    def fitted(self) -> Refit:
        """Expansion fitted to all samples."""
        return _as_refit(self.problem, self.result, self.tol)

    @property
    def primal(self) -> float:
        """Primal objective."""
        return self.problem.primal(self.result.alpha, self.result.f)

    @property
    def dual(self) -> float:
        """Dual objective, a lower bound of the primal one."""
        return self.problem.dual(self.result.z, self.result.g)

    @property
    def slack(self) -> float:
        """Weighted sum of the slacks."""
        return float(self.problem.weight @ self.problem.slack(self.result.alpha, self.result.f))

    def moved(self, problem: MarginProgram, rows: Rows) -> ProgramMachine:
        """Solve another program on the same samples, warm-started from this optimum."""
        return replace(self, problem=problem, result=self._solved(problem, rows, self.result))

    def matters(self) -> BoolArray:
        """Return a mask of the samples with a nonzero coefficient or a tight constraint.

        Let i be any other sample: its coefficient is zero and its constraint is not tight. The
        program is convex. Near its optimum, the feasible set and the objective are the same with
        and without constraint i, and the variable that is removed with it is zero. So the optimum
        is also optimal for the program without the sample. If that program had a second optimum,
        the points between the two near the first would be optima of the program with the sample.
        The same holds for the minimum sum of coefficients among the optima without slack.

        The nu machine divides by the sum of the weights and depends on every sample.
        """
        problem, result = self.problem, self.result
        if problem.nu is not None:
            return np.ones(problem.n_rows, dtype=bool)
        margins = problem.product(result.alpha, result.f)
        size = problem.shift * result.alpha + np.abs(result.f)
        return np.asarray((result.alpha > 0) | (margins <= 1.0 + TIGHT * np.maximum(1.0, size)))

    def margin_deficits(self) -> FloatArray | None:
        """Return the slack of each sample beyond its adaptive margin; None for fixed margins."""
        problem, result = self.problem, self.result
        if not problem.shift.any():
            return None
        own = problem.shift * result.alpha
        return np.maximum(0.0, problem.slack(result.alpha, result.f) - own)

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Refit with the fraction `kept` of each sample's weight, from the fitted optimum."""
        problem = _without(self.problem, kept)
        start = _start(problem, rows, self.result, kept) if problem.nu is None else None
        return _as_refit(problem, self._solved(problem, rows, start), self.tol)

    def _solved(
        self, problem: MarginProgram, rows: Rows, start: ProgramResult | None
    ) -> ProgramResult:
        """Solve a program, warm-started unless its optimal objective is zero.

        An objective of zero has many optima, and a warm start would return one that depends on
        the start. The program is then solved from scratch, as a new fit would do.
        """
        if start is not None and not _without_slack(problem, start):
            found = self._solved_from(problem, rows, start)
            if not _without_slack(problem, found):
                return found
        return self._solved_from(problem, rows, None)

    def _solved_from(
        self, problem: MarginProgram, rows: Rows, start: ProgramResult | None
    ) -> ProgramResult:
        budget = Budget(self.max_iter, cache_bytes=self.cache_bytes)
        return solve(problem, rows, tol=self.tol, budget=budget, start=start, seed=self.seed)


@dataclass(frozen=True, eq=False)
class ProgramTraining(RefitTraining):
    """Fitted model of one or more linear programs."""

    machines: Sequence[ProgramMachine]

    @property
    def held(self) -> str:
        """Parameter of an equivalent program that leave-one-out holds; empty if none."""
        return max(machine.held for machine in self.machines)

    def own_parts(self) -> FloatArray:
        """Return each sample's own term alpha_i y_i k(x_i, x_i), which (2.2) removes.

        If several samples were merged, only the share of one of them is returned.
        """
        data, columns = self.data, self._columns()
        diagonal = Rows(self.kernel, data.X, self.centre).diagonal()
        fraction = np.minimum(1.0, data.given_weight) / np.append(data.weight, 1.0)[data.member]
        parts = np.zeros((len(data.member), columns[-1].stop))
        for machine, span in zip(self.machines, columns, strict=True):
            own = np.append(machine.fitted.beta * diagonal, 0.0)[data.member]
            parts[:, span] = (fraction * own)[:, None]
        return parts

    def margin_deficits(self) -> FloatArray | None:
        """Return the slack of each sample beyond the adaptive margin of the first program."""
        lacking = self.machines[0].margin_deficits()
        return None if lacking is None else lacking[self.data.member]


def _without_slack(problem: MarginProgram, result: ProgramResult) -> bool:
    """Return whether the objective is zero up to rounding."""
    total = float(problem.weight.sum())
    return problem.nu is None and problem.primal(result.alpha, result.f) <= NO_SLACK * total


def _without(problem: MarginProgram, kept: FloatArray) -> MarginProgram:
    """Return the program with the weights scaled by `kept`, without samples of zero weight.

    The shift of a sample is inversely proportional to its weight, see `MarginProgram.shift`.
    """
    some = kept > 0
    part = kept[some]
    weight = problem.weight[some] * part
    nu = problem.nu
    return replace(
        problem,
        y=problem.y[some],
        weight=weight,
        shift=problem.shift[some] / part,
        limit=problem.limit[some],
        nu=None if nu is None else max(nu, float(weight.min() / weight.sum())),
    )


def _start(
    problem: MarginProgram, rows: Rows, result: ProgramResult, kept: FloatArray
) -> ProgramResult:
    """Return the warm start of a refit: the optimum restricted to the remaining samples."""
    some = kept > 0
    alpha = result.alpha[some]
    z = np.minimum(result.z[some], problem.weight)
    used = np.flatnonzero(alpha + z)
    both = np.column_stack([problem.y * alpha, problem.y * z])[used]
    values = rows.weighted_sum(np.arange(rows.n), rows, used, both)
    return replace(result, alpha=alpha, z=z, f=values[:, 0].copy(), g=values[:, 1].copy())


def _as_refit(problem: MarginProgram, result: ProgramResult, tol: float) -> Refit:
    optimal = problem.is_optimal(result.alpha, result.f, result.z, result.g, tol)
    return Refit(problem.y * result.alpha, np.zeros(1), optimal)
