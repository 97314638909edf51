r"""Sequential minimal optimisation on a kernel block that is in memory.

Problem (see :mod:`widemargin.problems.soft_margin`): maximise
:math:`t'b - \frac12 \beta'K\beta - \frac12 \sum_v \rho_v b_v^2` over
:math:`l \le b \le u`, moving pairs of variables of the same group so that the sum of each group
stays what it was. The pair is the one of Fan, Chen and Lin (2005): i has the highest score that
may rise, j promises the largest decrease by the second-order model.

Steps cost time in proportion to the rows of the kernel block that they touch, and a block that
fits the cache is several times faster. So the pairs are sought in working sets of at most
`WORKING_SET` variables (:mod:`widemargin.solvers.soft_margin.smo_sweep`).
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.box_qp_interior import solve_dense_box_qp
from widemargin.solvers.soft_margin.newton_step import NewtonTurn, newton_move
from widemargin.solvers.soft_margin.smo_loops import LANES
from widemargin.solvers.soft_margin.smo_sweep import (
    Variables,
    add_rows,
    parts_of,
    sweep_set,
    working_set,
)

WORKING_SET = 1536
JITTER = {"float32": 1e-7, "float64": 1e-11}  # ridge of the Newton system, relative
INTERIOR_VARIABLES = 2048
STEPS_PER_SWEEP = 20_000  # some hundredths of a second: interrupts and monitors act in between
ASTRAY = 1e-3  # by how much the objective may fall, relatively, before the best point is restored
IDLE_SWEEPS = 50  # sweeps in a row that changed nothing that float64 can show


def padded(n: int) -> int:
    """Return the length of n variables in whole chunks, with room for one more."""
    return (n // LANES + 1) * LANES


def solve_dense(
    K: RealArray,
    problem: SoftMargin,
    b: FloatArray,
    f: FloatArray,
    *,
    tol: float,
    budget: Budget,
    threads: int = 1,
) -> float:
    """Optimise all variables of a problem whose kernel matrix is in memory.

    Parameters
    ----------
    K : ndarray of shape (n_padded, n_padded)
        Kernel of the problem's rows, zero in the padding; ``n_padded = padded(n_rows)``.
    problem : SoftMargin
        The problem.
    b : ndarray of shape (n_variables,)
        Start, feasible; changed in place.
    f : ndarray of shape (n_rows,)
        Decision values at b. They may hold a part that does not come from these rows; changed
        in place.
    tol : float
        KKT violation to reach.
    budget : Budget
        Steps left.
    threads : int
        Threads for bringing the scores up to date.

    Returns
    -------
    float
        The violation left, by the scores kept here.
    """
    run = _Dense(K, problem, b, f, threads)
    turn = NewtonTurn()
    taken = 0
    interior_after = _interior_price(problem.n_variables)
    lowest, idle = np.inf, 0
    while True:
        violation = run.violation()
        if violation <= tol or budget.left == 0 or run.stalled() or idle > IDLE_SWEEPS:
            break
        # Only as far as the other variables, which stand still meanwhile, make it worth while.
        inner_tol = max(0.1 * violation, 0.5 * tol)
        steps, gained = run.sweep(inner_tol, min(STEPS_PER_SWEEP, budget.left))
        if not budget.spend(steps, violation) or steps == 0:
            break
        lower = violation < 0.999 * lowest
        lowest = violation if lower else lowest
        idle = 0 if lower or gained > run.rounding() else idle + 1
        turn.watch(steps, gained)
        taken += steps
        if taken >= interior_after:
            interior_after = np.inf
            run.interior_point()
        elif turn.is_due(run.n_free()):
            turn.judge(run.newton_step())
            run.anchor()
    run.write_back(b, f)
    return violation


class _Dense:
    """Variables and decision values of one run, and the moves that it can make."""

    def __init__(
        self, K: RealArray, problem: SoftMargin, b: FloatArray, f: FloatArray, threads: int
    ) -> None:
        self.K = K
        self.problem = problem
        self.threads = threads
        self.v = Variables.of(problem, b)
        self.field = np.zeros(len(K))
        self.field[: problem.n_rows] = f
        self.start_b = self.v.b.copy()
        self.start_field = self.field.copy()
        self.objectives: list[float] = []
        self.best = 0.0, self.start_b, self.start_field
        self.astray = False
        self.width = WORKING_SET

    def write_back(self, b: FloatArray, f: FloatArray) -> None:
        """Copy the variables and decision values to where the caller wants them."""
        inside = self.v.index >= 0
        b[self.v.index[inside]] = self.v.b[inside]
        f[:] = self.field[: self.problem.n_rows]

    def violation(self) -> float:
        """Return by how much the scores that may rise and those that may fall overlap."""
        v = self.v
        score = v.scores(self.field)
        up = np.where(v.b < v.upper, score, -np.inf)
        down = np.where(v.b > v.lower, score, np.inf)
        return max(float(up[part].max() - down[part].min()) for part in parts_of(v.group))

    def n_free(self) -> int:
        """Count the variables strictly inside their boxes."""
        return len(self._free())

    def _free(self) -> IntArray:
        v = self.v
        return np.flatnonzero((v.b > v.lower) & (v.b < v.upper) & (v.index >= 0))

    def sweep(self, tol: float, max_steps: int) -> tuple[int, float]:
        """Take pair steps on one working set; return their number and gain."""
        v = self.v
        score = v.scores(self.field)
        chosen = working_set(score, v, self.width)
        before = v.b[chosen]
        steps, gained = sweep_set(self.K, v, score, chosen, tol, max_steps, self.threads)
        self._shift(chosen, v.b[chosen] - before)
        self._keep_best()
        if steps < self.width // 8:  # gathering the block cost more than was done with it
            self.width = min(2 * self.width, len(v.b))
        return steps, gained

    def newton_step(self) -> float:
        """Move the free variables by one Newton step; return what the objective gained."""
        v, free = self.v, self._free()
        if len(free) < 2:
            return 0.0
        rows = v.row[free]
        A = self.K[np.ix_(rows, rows)].astype(np.float64)
        jitter = JITTER[self.K.dtype.name] * float(A.diagonal().max())
        A[np.diag_indices(len(free))] += v.ridge[free] + jitter
        lowest, highest = v.lower[free] - v.b[free], v.upper[free] - v.b[free]
        score = v.scores(self.field)[free]
        group = v.group[free] if self.problem.n_groups else None
        move = newton_move(A, score, lowest, highest, group)
        if move is None:
            return 0.0
        # A variable that reaches its bound is set to it exactly.
        moved = np.where(move <= lowest, v.lower[free], v.b[free] + move)
        moved = np.where(move >= highest, v.upper[free], moved)
        change = moved - v.b[free]
        v.b[free] = moved
        self._shift(free, change)
        return float(score @ move - 0.5 * move @ (A @ move))

    def interior_point(self) -> None:
        """Solve by interior points instead; keep the result if it is better."""
        v = self.v
        inside = np.flatnonzero(v.index >= 0)
        rows, b = v.row[inside], v.b[inside]
        Q = self.K[np.ix_(rows, rows)].astype(np.float64)
        Q[np.diag_indices(len(b))] += v.ridge[inside]
        linear = v.scores(self.field)[inside] + Q @ b
        groups = range(self.problem.n_groups)
        E = np.array([v.group[inside] == g for g in groups], dtype=np.float64).reshape(-1, len(b))
        lower, upper = v.lower[inside], v.upper[inside]
        found = solve_dense_box_qp(Q, linear, lower, upper, E, E @ b)
        if found is None:
            return
        for members in E > 0:  # what snapping to bounds has shifted goes to the freest variable
            room = np.where(members, np.minimum(found - lower, upper - found), -np.inf)
            found[room.argmax()] += b[members].sum() - found[members].sum()
        found = np.clip(found, lower, upper)
        with np.errstate(over="ignore", invalid="ignore"):  # it may have gone astray
            reached = linear @ found - 0.5 * found @ (Q @ found)
        if reached > linear @ b - 0.5 * b @ (Q @ b):
            v.b[inside] = found
            self.anchor()

    def _shift(self, variables: IntArray, change: FloatArray) -> None:
        """Bring the decision values up to date after variables have changed."""
        moved = change != 0
        rows = self.v.row[variables[moved]]
        add_rows(self.K, rows, change[moved], self.field, self.threads)

    def anchor(self) -> None:
        """Recompute the decision values from the start, so that rounding does not pile up."""
        v = self.v
        change = v.b - self.start_b
        self.field[:] = self.start_field
        self._shift(np.arange(len(change)), change)
        self.objectives.append(self._keep_best())

    def _keep_best(self) -> float:
        """Return what the objective has gained since the start; go back to the best if it fell.

        Where sums of huge terms have lost their digits, moves are noise, and their sizes grow.
        """
        v, change = self.v, self.v.b - self.start_b
        with np.errstate(over="ignore", invalid="ignore"):
            both = (self.field + self.start_field)[v.row]
            squares = v.ridge @ (v.b**2 - self.start_b**2)
            objective = float(v.target @ change - 0.5 * (both @ change) - 0.5 * squares)
        best, best_b, best_field = self.best
        if objective >= best:
            self.best = objective, v.b.copy(), self.field.copy()
        elif not objective >= best - ASTRAY * max(1.0, abs(best)):
            v.b[:], self.field[:] = best_b, best_field
            self.astray = True
        return objective

    def rounding(self) -> float:
        """Return how little the objective may change without being seen in float64."""
        v = self.v
        terms = np.abs(v.b) @ (np.abs(v.target) + np.abs(self.field[v.row]))
        return float(np.finfo(np.float64).eps * terms)

    def stalled(self) -> bool:
        """Whether rounding has eaten up what the last moves claimed to gain."""
        if self.astray:
            return True
        last = self.objectives[-4:]
        return len(last) == 4 and max(last[1:]) <= last[0] + 1e-13 * max(1.0, abs(last[0]))


def _interior_price(n_variables: int) -> float:
    """How many pair steps cost as much as solving by interior points."""
    return 2000 + n_variables**3 / 5000 if n_variables <= INTERIOR_VARIABLES else np.inf
