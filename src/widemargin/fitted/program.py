"""Keep a fitted linear program such that it can be trained again without some of its rows."""

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

NO_SLACK = 1e-8  # objective, relative to that of no coefficients, that counts as zero
TIGHT = 1e-6  # a margin this little above what is asked for may be at it


@dataclass(frozen=True, eq=False)
class ProgramMachine:
    """One linear program over all rows of a training set and its optimum.

    Attributes
    ----------
    problem : MarginProgram
        The program; of a nu machine with a margin, that of the equivalent LP machine.
    result : ProgramResult
        Its optimum.
    tol : float
        Relative gap asked for.
    max_iter : int
        Steps that one fit may take.
    cache_bytes : float
        Memory that one fit may use.
    seed : int
        Of the solver.
    """

    problem: MarginProgram
    result: ProgramResult
    tol: float
    max_iter: int
    cache_bytes: float
    seed: int

    @property
    def fitted(self) -> Refit:
        """The machine as it was trained."""
        return _as_refit(self.problem, self.result, self.tol)

    @property
    def primal(self) -> float:
        """The objective."""
        return self.problem.primal(self.result.alpha, self.result.f)

    @property
    def dual(self) -> float:
        """A lower bound of the objective."""
        return self.problem.dual(self.result.z, self.result.g)

    @property
    def slack(self) -> float:
        """The sum of the slacks, by weight."""
        return float(self.problem.weight @ self.problem.slack(self.result.alpha, self.result.f))

    def moved(self, problem: MarginProgram, rows: Rows) -> ProgramMachine:
        """Return the machine of another program for the same rows, trained from here."""
        return replace(self, problem=problem, result=self._solved(problem, rows, self.result))

    def matters(self) -> BoolArray:
        """Return the rows with a coefficient, or with no more margin than is asked for.

        Let row i be any other one: its coefficient is zero and its constraint is not tight. The
        program is convex. Near its optimum the feasible points and their objective are the same
        with and without constraint i, and without it there is a variable less that was zero. So
        the optimum is one of the program without the row too; and if that had a second one, the
        points between them and near the first would be second optima of the program with the
        row. The same holds for the least sum of coefficients among the optima that have no slack.

        The nu machine divides by the sum of the weights, so that every row matters.
        """
        problem, result = self.problem, self.result
        if problem.nu is not None:
            return np.ones(problem.n_rows, dtype=bool)
        margins = problem.product(result.alpha, result.f)
        size = problem.shift * result.alpha + np.abs(result.f)
        return np.asarray((result.alpha > 0) | (margins <= 1.0 + TIGHT * np.maximum(1.0, size)))

    def margin_deficits(self) -> FloatArray | None:
        """Return the slack of each row beyond its adaptive margin; None if margins are fixed."""
        problem, result = self.problem, self.result
        if not problem.shift.any():
            return None
        own = problem.shift * result.alpha
        return np.maximum(0.0, problem.slack(result.alpha, result.f) - own)

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Train with the fraction `kept` of each row's weight, from the fitted machine."""
        problem = _without(self.problem, kept)
        start = _start(problem, rows, self.result, kept) if problem.nu is None else None
        return _as_refit(problem, self._solved(problem, rows, start), self.tol)

    def _solved(
        self, problem: MarginProgram, rows: Rows, start: ProgramResult | None
    ) -> ProgramResult:
        """Solve a program from a neighbour's optimum.

        Where no slack is left there are many optima, next to the start among others; then it is
        the one that training afresh finds.
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
    """A fit of `ProgramMachine` objects."""

    machines: Sequence[ProgramMachine]

    def own_parts(self) -> FloatArray:
        """Return what each of the user's samples adds to its own values: what (2.2) leaves out.

        Of a row that stands for several samples, one is left out.
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
        """Return the slack of each sample beyond the adaptive margin of the first machine."""
        lacking = self.machines[0].margin_deficits()
        return None if lacking is None else lacking[self.data.member]


def _without_slack(problem: MarginProgram, result: ProgramResult) -> bool:
    """Tell whether the objective is zero, up to the rounding that a solver leaves."""
    total = float(problem.weight.sum())
    return problem.nu is None and problem.primal(result.alpha, result.f) <= NO_SLACK * total


def _without(problem: MarginProgram, kept: FloatArray) -> MarginProgram:
    """Return the program with less weight on some rows, those without any left out.

    A row that stands for w equal ones demands a margin for alpha / w, see `MarginProgram.shift`.
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
    """Return what the optimum on all rows says about those that are left."""
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
