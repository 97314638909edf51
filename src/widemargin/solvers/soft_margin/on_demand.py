r"""SMO on all variables, with each kernel row computed when it is first needed.

Problem: see :mod:`widemargin.problems.soft_margin`. For up to some thousands of samples this is
faster than working on subsamples: a pair step needs the kernel rows of two samples, so that only
support vectors, and few others, ever need theirs. All arithmetic is in float64, and each row is
computed once.

1. Pair steps on all variables (`smo_loops.take_steps`) until the KKT violation is below tol.
2. If many steps in a row need no new kernel row, the variables that can still move are gathered
   into a block of the kernel matrix and solved by themselves (`smo.solve_dense`, which interleaves
   Newton steps).
3. At the end the decision values are summed again from the kernel rows, to remove the rounding
   errors of the updates; work continues if the KKT violation then exceeds tol.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.kernels.row_loops import LANES
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, DualResult
from widemargin.solvers.soft_margin import smo_loops
from widemargin.solvers.soft_margin.newton_step import newton_move
from widemargin.solvers.soft_margin.smo import (
    JITTER,
    NEWTON_VARIABLES,
    NewtonSchedule,
    padded,
)

# Smallest curvature of a pair relative to its diagonal (smaller values are rounding errors),
# smallest absolute curvature, and a number larger than all scores.
LIMITS = {np.float32: (2e-7, 1e-30, 1e30), np.float64: (1e-14, 1e-300, 1e300)}
FLOAT64_VARIABLES = 512  # larger blocks of gathered variables are float32, which halves the time
MOST_ROWS = 5000  # with more samples float32 blocks and subsamples pay
# Pair steps without a new kernel row before variables are gathered. With few columns that gains
# little, and only fits that converge slowly need it, for its Newton steps.
FEW_COLUMNS, LONG_PATIENCE, PATIENCE = 1024, 2000, 300
# Pair steps of the first compiled call, and variables read per call thereafter: interrupts and
# limits act in between.
FIRST_STEPS, WORK_PER_CALL = 200, 100_000_000
STEPS_PER_VARIABLE = 20  # in a block of gathered variables
STEPS_PER_SAMPLE, MANY_STEPS = 100, 100_000  # more of them ask for another method
# Approximate seconds: of a pair step per variable, and of a Newton step as a polynomial in the
# number of free variables (constant, square and cube).
STEP_SECONDS, NEWTON_SECONDS = 7e-10, (3e-4, 1e-8, 2e-10)
SHARE = 0.1  # the gathered variables are solved to this share of the violation
# Part of tol that is aimed at, with few columns and with many: the last steps cost little, and the
# error of the objective falls with the square of the violation.
BEYOND_FEW, BEYOND_MANY = 0.05, 0.2
ROUNDS = 20  # sums of the decision values at the end


def solve(
    problem: SoftMargin,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: DualResult | None = None,
    most_steps: int | None = None,
) -> DualResult:
    """Solve a soft-margin problem whose kernel matrix fits into memory.

    The status "stalled" means that rounding errors, or more than `most_steps` steps, ask for
    another method. The other parameters are those of `solve` of the package.
    """
    problem = problem.bounded()
    run = _Run(problem, rows, None if start is None else start.alpha)
    n_variables = len(run.alpha)
    few = run.n_columns <= FEW_COLUMNS
    shortest, beyond = (LONG_PATIENCE, BEYOND_FEW) if few else (PATIENCE, BEYOND_MANY)
    patience, most = shortest, STEPS_PER_SAMPLE * rows.n + MANY_STEPS
    most = budget.used + (most if most_steps is None else most_steps)
    per_call = FIRST_STEPS
    for _ in range(ROUNDS):
        while budget.status == "converged":
            if budget.used > most:
                run.sum_again()
                return run.result(budget, stalled=run.current_violation() > tol)
            steps = min(budget.left, per_call, most + 1)
            per_call = max(FIRST_STEPS, WORK_PER_CALL // n_variables)
            reason, taken = run.take_steps(beyond * tol, steps, patience)
            budget.spend(taken, run.violation)
            if reason in (smo_loops.CONVERGED, smo_loops.NO_GAIN):
                break
            if reason == smo_loops.SETTLED and budget.status == "converged":
                patience = (
                    PATIENCE if run.solve_movable(tol, budget) else 2 * max(patience, shortest)
                )
                run.take_newton_step()
        run.sum_again()
        if budget.status != "converged" or run.current_violation() <= tol:
            return run.result(budget)
        if reason == smo_loops.NO_GAIN:
            break
    return run.result(budget, stalled=True)


def fits(problem: SoftMargin, rows: Rows, budget: Budget) -> bool:
    """Return whether this method is for the problem: few samples, and memory for all their rows."""
    return rows.n <= MOST_ROWS and 8.0 * padded(rows.n) ** 2 <= budget.cache_bytes


class _Run:
    """Variables, scores and kernel rows of one run, laid out in columns.

    Column c of `n_columns` holds one sample: sample i stands in column `place[i]`. Without
    intercept there is one additional column with kernel values of zero, whose variable is
    unbounded: paired with it, any other variable can change alone.

    Attributes
    ----------
    grid, flat : ndarray
        Scores, barriers and diagonal, see `smo_loops.take_steps`.
    box : ndarray of shape (4, n_variables)
        Lower and upper bounds, alpha and ridge.
    K, slot : ndarray
        Kernel rows and, for each column, the position of its row, or -1.
    """

    def __init__(self, problem: SoftMargin, rows: Rows, start: FloatArray | None) -> None:
        self.problem, self.rows = problem, rows
        self.sides = problem.n_variables // problem.n_rows
        self._arrange()
        self._fill(problem.repair(np.zeros(problem.n_variables) if start is None else start)
                   if start is not None or problem.totals.any() else None)  # fmt: skip
        self.violation = np.inf
        self.schedule = NewtonSchedule()

    def _arrange(self) -> None:
        """Assign columns to the samples; groups of samples begin with a new chunk."""
        problem, n = self.problem, self.problem.n_rows
        self.place: IntArray | slice = slice(0, n)
        self.blank = -1
        n_columns = n + -n % LANES
        self.border = self.sides * n_columns // LANES
        if problem.n_groups == 2 and self.sides == 1:
            second = problem.group == 1
            size = n - int(np.count_nonzero(second))
            self.border = -(-size // LANES)
            n_columns = LANES * (self.border + -(-(n - size) // LANES))
            self.place = np.empty(n, dtype=np.intp)
            self.place[~second] = np.arange(size)
            self.place[second] = LANES * self.border + np.arange(n - size)
        elif problem.n_groups == 2:
            self.border = n_columns // LANES
        elif problem.n_groups == 0:
            n_columns = padded(n)
            self.blank = n
            self.border = self.sides * n_columns // LANES
        self.n_columns = n_columns

    def _fill(self, alpha: FloatArray | None) -> None:
        """Set up all arrays for a starting point; None is zero."""
        problem, m, sides = self.problem, self.n_columns, self.sides
        self.grid = np.empty((4, sides * m // LANES, LANES))
        self.flat = self.grid.reshape(4, sides * m)
        self.flat[0] = 0.0
        self.flat[1:3] = LIMITS[np.float64][2]
        self.box = np.zeros((4, sides * m))
        self.alpha = self.box[2]
        for side in range(sides):
            own = slice(side * problem.n_rows, (side + 1) * problem.n_rows)
            at = self._variables(side)
            for array, values in zip(
                (self.flat[0], self.box[0], self.box[1], self.box[3]),
                (problem.target, problem.lower, problem.upper, problem.ridge),
                strict=True,
            ):
                array[at] = values[own]
            if alpha is not None:
                self.alpha[at] = alpha[own]
        if self.blank >= 0:
            self.box[0, self.blank], self.box[1, self.blank] = -np.inf, np.inf
        self.flat[1][self.alpha < self.box[1]] = 0.0
        self.flat[2][self.alpha > self.box[0]] = 0.0
        self._prepare_rows()
        if alpha is not None:
            self.sum_again()

    def _variables(self, side: int) -> IntArray | slice:
        """Return the variables of one side of all samples."""
        first = side * self.n_columns
        if isinstance(self.place, slice):
            return slice(first, first + self.problem.n_rows)
        return first + self.place

    def _prepare_rows(self) -> None:
        """Prepare the computation of kernel rows, or compute all of them as one block."""
        n, m = self.problem.n_rows, self.n_columns
        self.slot = np.full(m, -1)
        self.made = 0
        power = np.empty(LANES)
        blank = float(self.blank)
        found = self.rows.single_rows
        if found is None:
            self.K = self._whole_matrix()
            self.slot[self.place] = np.arange(n)
            self.made = n
            diagonal = self.rows.diagonal()
            columns, samples, norms = smo_loops.NO_FORMULA[:3]
            form = np.array([0.0, 0.0, 0.0, 0.0, blank])
        else:
            place = None if isinstance(self.place, slice) else self.place
            columns, samples, norms = found.in_columns(place, m)
            diagonal = found.diagonal(norms)[self.place]
            form = np.array([*found.form, blank])
            self.K = np.empty((n + 1, m // LANES, LANES))
        for side in range(self.sides):
            self.flat[3][side * m : (side + 1) * m] = 1.0
            self.flat[3][self._variables(side)] = diagonal
        self.flat[3] += self.box[3]
        self.formula = (columns, samples, norms, form, np.empty((2, LANES)), power,
                        power.view(np.int64))  # fmt: skip
        if self.blank >= 0:
            self.flat[3][self.blank] = 0.0
            self.K[self.made] = 0.0
            self.slot[self.blank] = self.made
            self.made += 1

    def _whole_matrix(self) -> FloatArray:
        """Return all kernel rows, with zeros in the columns without a sample."""
        n, m = self.problem.n_rows, self.n_columns
        K = np.zeros((n + 1, m))
        if isinstance(self.place, slice):
            self.rows.fill_symmetric(np.arange(n), K[:n, :n])
        else:
            K[:n, self.place] = self.rows.matrix()
        return K.reshape(n + 1, m // LANES, LANES)

    def take_steps(self, tol: float, max_steps: int, patience: int) -> tuple[int, int]:
        """Take pair steps on all variables; return why they ended and how many there were."""
        limits = np.array([*LIMITS[np.float64], tol, self.made], dtype=np.float64)
        reason, steps, gained, self.violation, made = smo_loops.take_steps(
            self.K, self.slot, self.grid, self.flat, self.box, self.border, limits, max_steps,
            patience, *self.formula,
        )  # fmt: skip
        self._count(made)
        self.schedule.steps += steps
        self.schedule.gained += gained
        return reason, steps

    def _count(self, made: int) -> None:
        self.rows.evaluations += (made - self.made) * self.problem.n_rows
        self.made = made

    def sum_again(self) -> None:
        """Compute the scores from the variables and the kernel rows."""
        m = self.n_columns
        beta = self.alpha[:m] if self.sides == 1 else self.alpha[:m] + self.alpha[m:]
        if self.blank >= 0:  # its kernel row is zero
            beta = beta.copy()
            beta[self.blank] = 0.0
        total = np.zeros((m // LANES, LANES))
        self._count(smo_loops.sum_rows(self.K, self.slot, self.made, beta, total, *self.formula))
        self.values = total.reshape(m)
        for side in range(self.sides):
            at = self._variables(side)
            own = slice(side * self.problem.n_rows, (side + 1) * self.problem.n_rows)
            ridge = self.box[3][at] * self.alpha[at]
            self.flat[0][at] = self.problem.target[own] - self.values[self.place] - ridge

    def current_violation(self) -> float:
        """Return the KKT violation of the current scores."""
        score, up, down = self.flat[:3]
        cut = self.border * LANES
        parts = [slice(0, cut), slice(cut, None)] if cut < len(score) else [slice(0, cut)]
        high, low = score - up, score + down
        return max(float(high[part].max() - low[part].min()) for part in parts)

    def solve_movable(self, tol: float, budget: Budget) -> bool:
        """Solve for the variables that can still move; return whether that was worthwhile."""
        columns = self._movable()
        place, border, m = self._arranged(columns)
        if len(columns) < 2 or m > 0.7 * self.n_columns:
            return False
        shift = np.arange(self.sides)[:, None]
        inside, outside = (place + shift * m).ravel(), (columns + shift * self.n_columns).ravel()
        at = self.slot[columns]
        dtype = np.float32 if m > FLOAT64_VARIABLES else np.float64
        block = np.zeros((len(columns), m), dtype=dtype)
        block[:, place] = self.K.reshape(len(self.K), -1)[np.ix_(at, columns)]
        slot = np.zeros(m, dtype=np.intp)
        slot[place] = np.arange(len(columns))
        box, flat = np.zeros((4, self.sides * m)), np.zeros((4, self.sides * m), dtype=dtype)
        flat[1:3], flat[3] = LIMITS[dtype][2], 1.0
        box[:, inside] = self.box[:, outside]
        flat[:, inside] = np.minimum(self.flat[:, outside], LIMITS[dtype][2])
        stop = max(SHARE * self.violation, 0.5 * tol)
        limits = np.array([*LIMITS[dtype], stop, len(columns)], dtype=dtype)
        most = min(budget.left, STEPS_PER_VARIABLE * len(inside))
        _, steps, gained, violation, _ = smo_loops.take_steps(
            block.reshape(len(columns), -1, LANES), slot, flat.reshape(4, -1, LANES), flat, box,
            border, limits, most, most + 1, *smo_loops.NO_FORMULA,
        )  # fmt: skip
        budget.spend(steps, violation)
        self._move(outside, box[2, inside], outside % self.n_columns)
        self.schedule.steps += steps * m // self.n_columns  # they are shorter than the others
        self.schedule.gained += gained
        return bool(steps > len(columns))

    def take_newton_step(self) -> None:
        """Take a Newton step on the free variables, if pair steps have cost as much meanwhile."""
        free = (self.alpha > self.box[0]) & (self.alpha < self.box[1])
        if self.blank >= 0:
            free[self.blank] = False
        variables = np.flatnonzero(free)
        n_free = len(variables)
        constant, square, cube = NEWTON_SECONDS
        price = (constant + square * n_free**2 + cube * n_free**3) / STEP_SECONDS
        due = self.schedule.is_due(price / len(self.alpha))
        if not due or not 2 <= n_free <= NEWTON_VARIABLES:
            return
        columns = variables % self.n_columns
        A = self.K.reshape(len(self.K), -1)[np.ix_(self.slot[columns], columns)]
        A[np.diag_indices(n_free)] += self.box[3][variables] + JITTER["float64"] * A.max()
        alpha, score = self.alpha[variables], self.flat[0][variables]
        low, high = self.box[:2, variables] - alpha
        group = np.where(variables < self.border * LANES, 0, 1)
        move = newton_move(A, score, low, high, group if self.problem.n_groups else None)
        if move is None:
            self.schedule.judge(0.0)
            return
        # Set variables exactly to their bound: a rounding error inside it would count as free.
        moved = np.where(move <= low, self.box[0][variables], alpha + move)
        moved = np.where(move >= high, self.box[1][variables], moved)
        self._move(variables, moved, columns)
        self.schedule.judge(float(score @ move - 0.5 * move @ (A @ move)))

    def _arranged(self, columns: IntArray) -> tuple[IntArray, int, int]:
        """Return places of some columns in a block, its border of groups and its width."""
        q, cut = len(columns), self.border * LANES
        if self.sides == 1 and cut < self.n_columns:
            first = int(np.searchsorted(columns, cut))
            border = -(-first // LANES)
            place = np.arange(q) + (border * LANES - first) * (np.arange(q) >= first)
            return place, border, border * LANES + (q - first) + -(q - first) % LANES
        m = q + -q % LANES
        one_group = cut == self.sides * self.n_columns
        return np.arange(q), (self.sides if one_group else 1) * m // LANES, m

    def _move(self, variables: IntArray, alpha: FloatArray, columns: IntArray) -> None:
        """Set variables, which belong to these columns, and update all scores."""
        change = alpha - self.alpha[variables]
        self.flat[0][variables] -= self.box[3][variables] * change
        self.alpha[variables] = alpha
        huge = LIMITS[np.float64][2]
        self.flat[1][variables] = np.where(alpha < self.box[1][variables], 0.0, huge)
        self.flat[2][variables] = np.where(alpha > self.box[0][variables], 0.0, huge)
        beta = np.bincount(columns, change, self.n_columns)
        if self.blank >= 0:
            beta[self.blank] = 0.0
        field = np.zeros((self.n_columns // LANES, LANES))
        smo_loops.sum_rows(self.K, self.slot, self.made, beta, field, *self.formula)
        for side in range(self.sides):
            self.flat[0][side * self.n_columns : (side + 1) * self.n_columns] -= field.ravel()

    def _movable(self) -> IntArray:
        """Return the columns whose row is known and a variable of which may still move."""
        score, up, down = self.flat[:3]
        cut = self.border * LANES
        movable = np.zeros(len(score), dtype=bool)
        for part in (slice(0, cut), slice(cut, None)):
            if score[part].size == 0:
                continue
            high, low = (score[part] - up[part]).max(), (score[part] + down[part]).min()
            can = (score[part] - up[part] > low) | (score[part] + down[part] < high)
            movable[part] = can
        either = movable.reshape(self.sides, self.n_columns).any(axis=0)
        either &= self.slot >= 0
        if self.blank >= 0:
            either[self.blank] = True
        return np.flatnonzero(either)

    def result(self, budget: Budget, *, stalled: bool = False) -> DualResult:
        """Return the variables in the order of the problem, and the decision values."""
        parts = [self.alpha[self._variables(side)] for side in range(self.sides)]
        return DualResult(
            alpha=np.concatenate(parts),
            f=self.values[self.place].copy(),
            n_iter=max(1, budget.used),
            status="stalled" if stalled else budget.status,
        )
