r"""Sequential minimal optimisation on a kernel block that is in memory.

Problem (see :mod:`widemargin.problems.soft_margin`): maximise
:math:`t'b - \frac12 \beta'K\beta - \frac12 \sum_v \rho_v b_v^2` over
:math:`l \le b \le u`, moving pairs of variables of the same group so that the sum of each group
stays what it was. The pair is the one of Fan, Chen and Lin (2005): i has the highest score that
may rise, j promises the largest decrease by the second-order model.

Steps cost time in proportion to the rows of the kernel block that they touch, and a block that
fits the cache is several times faster. So the pairs are sought in working sets of at most
`WORKING_SET` variables from both ends of the order of violation; after each one the scores of
all variables are brought up to date at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._threads import for_each
from widemargin._typing import FloatArray, IntArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import _smo_loops
from widemargin.solvers._interior import interior_point
from widemargin.solvers._newton import NewtonTurn, newton_move
from widemargin.solvers._smo_loops import LANES
from widemargin.solvers.result import Budget

WORKING_SET = 1536
# By precision: smallest curvature of a pair relative to its diagonal (rounding hides less),
# smallest at all, and a number beyond all scores.
LIMITS = {"float32": (2e-7, 1e-30, 1e30), "float64": (1e-14, 1e-300, 1e300)}
JITTER = {"float32": 1e-7, "float64": 1e-11}  # ridge of the Newton system, relative
INTERIOR_VARIABLES = 2048
STEPS_PER_SWEEP = 20_000  # some hundredths of a second: interrupts and monitors act in between


def padded(n: int) -> int:
    """Return the length of n variables in whole chunks, with room for one more."""
    return (n // LANES + 1) * LANES


@dataclass
class _Variables:
    """The variables of a problem in the order of their groups, ready for sweeps.

    A problem without intercept gets one more variable, free and with a kernel of zero: it takes
    up what the sum of the others changes, so that pair steps move single variables too.
    """

    index: IntArray  # position in the problem's arrays, -1 for the extra one
    row: IntArray
    target: FloatArray
    lower: FloatArray
    upper: FloatArray
    ridge: FloatArray
    group: IntArray
    b: FloatArray

    @classmethod
    def of(cls, problem: SoftMargin, b: FloatArray) -> _Variables:
        order = np.argsort(problem.group, kind="stable")
        parts = [
            order,
            problem.row[order],
            problem.target[order],
            problem.lower[order],
            problem.upper[order],
            problem.ridge[order],
            problem.group[order],
            b[order],
        ]
        if not problem.n_groups:
            extra = [-1, problem.n_rows, 0.0, -np.inf, np.inf, 0.0, 0, 0.0]
            parts = [np.append(part, value) for part, value in zip(parts, extra, strict=True)]
        return cls(*parts)  # type: ignore[arg-type]

    def scores(self, f: FloatArray) -> FloatArray:
        return self.target - f[self.row] - self.ridge * self.b


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
    while True:
        violation = run.violation()
        if violation <= tol or budget.left == 0 or run.stalled():
            break
        # Only as far as the other variables, which stand still meanwhile, make it worth while.
        inner_tol = max(0.1 * violation, 0.5 * tol)
        steps, gained = run.sweep(inner_tol, min(STEPS_PER_SWEEP, budget.left))
        if not budget.spend(steps, violation) or steps == 0:
            break
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
        self.v = _Variables.of(problem, b)
        self.field = np.zeros(len(K))
        self.field[: problem.n_rows] = f
        self.start_b = self.v.b.copy()
        self.start_field = self.field.copy()
        self.objectives: list[float] = []
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
        return max(float(up[part].max() - down[part].min()) for part in _parts(v.group))

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
        chosen = _working_set(score, v, self.width)
        before = v.b[chosen]
        steps, gained = _sweep_set(self.K, v, score, chosen, tol, max_steps, self.threads)
        self._shift(chosen, v.b[chosen] - before)
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
        found = interior_point(Q, linear, lower, upper, E, E @ b)
        if found is None:
            return
        for members in E > 0:  # what snapping to bounds has shifted goes to the freest variable
            room = np.where(members, np.minimum(found - lower, upper - found), -np.inf)
            found[room.argmax()] += b[members].sum() - found[members].sum()
        found = np.clip(found, lower, upper)
        if linear @ found - 0.5 * found @ (Q @ found) > linear @ b - 0.5 * b @ (Q @ b):
            v.b[inside] = found
            self.anchor()

    def _shift(self, variables: IntArray, change: FloatArray) -> None:
        """Bring the decision values up to date after variables have changed."""
        moved = change != 0
        rows = self.v.row[variables[moved]]
        _add_rows(self.K, rows, change[moved], self.field, self.threads)

    def anchor(self) -> None:
        """Recompute the decision values from the start, so that rounding does not pile up."""
        v = self.v
        change = v.b - self.start_b
        self.field[:] = self.start_field
        self._shift(np.arange(len(change)), change)
        both = (self.field + self.start_field)[v.row]
        squares = v.ridge @ (v.b**2 - self.start_b**2)
        self.objectives.append(float(v.target @ change - 0.5 * (both @ change) - 0.5 * squares))

    def stalled(self) -> bool:
        """Whether rounding has eaten up what the last moves claimed to gain."""
        last = self.objectives[-4:]
        return len(last) == 4 and max(last[1:]) <= last[0] + 1e-13 * max(1.0, abs(last[0]))


def _interior_price(n_variables: int) -> float:
    """How many pair steps cost as much as solving by interior points."""
    return 2000 + n_variables**3 / 5000 if n_variables <= INTERIOR_VARIABLES else np.inf


def _parts(group: IntArray) -> list[slice]:
    border = int(np.searchsorted(group, 1))
    parts = [slice(0, border), slice(border, len(group))]
    return [part for part in parts if part.start < part.stop]


def _working_set(score: FloatArray, v: _Variables, width: int) -> IntArray:
    """Positions of the variables to work on: the ends of the order of violation, in order."""
    n = len(score)
    if n <= width:
        return np.arange(n)
    chosen = np.zeros(n, dtype=bool)
    chosen[v.index < 0] = True
    parts = _parts(v.group)
    quota = width // (2 * len(parts))
    for part in parts:
        s, b = score[part], v.b[part]
        rising = np.where(b < v.upper[part], -s, np.inf)
        chosen[part.start + _smallest(rising, quota)] = True
        falling = np.where((b > v.lower[part]) & ~chosen[part], s, np.inf)
        chosen[part.start + _smallest(falling, quota)] = True
    return np.flatnonzero(chosen)


def _smallest(values: FloatArray, k: int) -> IntArray:
    """Positions of the k smallest finite values."""
    if len(values) > k:
        best = np.argpartition(values, k)[:k]
    else:
        best = np.arange(len(values))
    return best[np.isfinite(values[best])]


def _sweep_set(
    K: RealArray,
    v: _Variables,
    score: FloatArray,
    chosen: IntArray,
    tol: float,
    max_steps: int,
    threads: int,
) -> tuple[int, float]:
    """Run a sweep on the chosen variables; v.b changes in place. Returns steps and gain."""
    slots, border, q = _slots(v.group[chosen])
    rows = np.full(q, len(K) - 1)  # the last row of the padding is zero
    rows[slots] = v.row[chosen]
    if len(K) == q and np.array_equal(rows[slots], slots):
        block = K  # all variables, where they stand
    else:
        block = np.empty((q, q), dtype=K.dtype)
        _gather(K, rows, block, threads)
    ridge = v.ridge[chosen].astype(K.dtype)
    block[slots, slots] += ridge
    arrays = []
    for values in (v.lower[chosen], v.upper[chosen], v.b[chosen]):
        filled = np.zeros(q)
        filled[slots] = values
        arrays.append(filled)
    lower, upper, b = arrays
    s = np.zeros(q, dtype=K.dtype)
    s[slots] = score[chosen]
    shape = (q // LANES, LANES)
    diagonal = np.ascontiguousarray(np.diagonal(block)).reshape(shape)
    tau, tiny, huge = LIMITS[K.dtype.name]
    steps, gained = _smo_loops.sweep(
        block.reshape(q, *shape),
        diagonal,
        lower,
        upper,
        b,
        s.reshape(shape),
        border,
        np.array([tau, tiny, huge, tol], dtype=K.dtype),
        max_steps,
    )
    if block is K:
        block[slots, slots] -= ridge
    v.b[chosen] = b[slots]
    return int(steps), float(gained)


def _gather(K: RealArray, rows: IntArray, block: RealArray, threads: int) -> None:
    """block = K[rows][:, rows], by rows so that threads do not meet."""
    width = 256

    def copy(start: int) -> None:
        _smo_loops.gather(K, rows, block, start, min(start + width, len(rows)))

    for_each(copy, range(0, len(rows), width), threads if len(rows) > 2 * width else 1)


def _slots(group: IntArray) -> tuple[IntArray, int, int]:
    """Places of sorted variables in whole chunks per group; border chunk; total length."""
    first = int(np.searchsorted(group, 1))
    second = len(group) - first
    border = -(-first // LANES)
    chunks = border + -(-second // LANES)
    slots = np.concatenate([np.arange(first), border * LANES + np.arange(second)])
    return slots, border, chunks * LANES


def _add_rows(
    K: RealArray, rows: IntArray, change: FloatArray, field: FloatArray, threads: int
) -> None:
    """field += sum_r change_r K[r], by columns so that threads do not meet."""
    n = len(field)
    coefficients = change.astype(K.dtype)
    width = 2048

    def add(start: int) -> None:
        _smo_loops.add_rows(K, rows, coefficients, field, start, min(start + width, n))

    for_each(add, range(0, n, width), threads if len(rows) * n > 100_000 else 1)
