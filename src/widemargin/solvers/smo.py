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

from widemargin._jit import jit
from widemargin._threads import for_each
from widemargin._typing import FloatArray, IntArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import _smo_loops
from widemargin.solvers._newton import newton_move
from widemargin.solvers._smo_loops import LANES
from widemargin.solvers.result import Budget

WORKING_SET = 1536
NEWTON_BELOW = 0.1  # violation; further out the free variables still change too much
NEWTON_FLOPS_PER_STEP = 1.3e5  # free^3 divided by this: pair steps in the time of a factorisation
# By precision: smallest curvature of a pair relative to its diagonal (rounding hides less),
# smallest at all, and a number beyond all scores.
LIMITS = {"float32": (2e-7, 1e-30, 1e30), "float64": (1e-14, 1e-300, 1e300)}
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
        return cls(*parts)

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
    v = _Variables.of(problem, b)
    field = np.zeros(len(K))
    field[: problem.n_rows] = f
    violation = np.inf
    since_newton = 0
    while True:
        score = v.scores(field)
        ends = _ends(score, v, problem)
        violation = max(high - low for high, low in ends)
        if violation <= tol or budget.left == 0:
            break
        chosen = _working_set(score, v, problem)
        before = v.b[chosen]
        inner_tol = max(0.1 * violation, 0.5 * tol)
        allowed = min(STEPS_PER_SWEEP, budget.left)
        steps = _sweep_set(K, v, score, chosen, inner_tol, allowed)
        change = v.b[chosen] - before
        moved = change != 0
        _add_rows(K, v.row[chosen][moved], change[moved], field, threads)
        if not budget.spend(steps, violation) or steps == 0:
            break
        since_newton += steps
        if violation < NEWTON_BELOW and since_newton >= _newton_price(v):
            _newton(K, v, field, problem, threads)
            since_newton = 0
    inside = v.index >= 0
    b[v.index[inside]] = v.b[inside]
    f[:] = field[: problem.n_rows]
    return float(violation)


def _newton_price(v: _Variables) -> int:
    """How many pair steps cost as much as one Newton step on the free variables."""
    free = int(np.count_nonzero((v.b > v.lower) & (v.b < v.upper) & (v.index >= 0)))
    return 500 + free + int(free**3 / NEWTON_FLOPS_PER_STEP)


def _newton(
    K: RealArray, v: _Variables, field: FloatArray, problem: SoftMargin, threads: int
) -> None:
    """Move the free variables of v by one Newton step, where that helps."""
    free = np.flatnonzero((v.b > v.lower) & (v.b < v.upper) & (v.index >= 0))
    if len(free) < 2:
        return
    rows = v.row[free]
    A = K[np.ix_(rows, rows)].astype(np.float64)
    jitter = (1e-12 if K.dtype == np.float64 else 1e-7) * float(A.diagonal().max())
    A[np.diag_indices(len(free))] += v.ridge[free] + jitter
    room = v.lower[free] - v.b[free], v.upper[free] - v.b[free]
    group = v.group[free] if problem.n_groups else None
    move = newton_move(A, v.scores(field)[free], *room, group)
    if move is None:
        return
    lower, upper = v.lower[free], v.upper[free]
    moved = v.b[free] + move
    moved = np.where(move <= room[0], lower, np.where(move >= room[1], upper, moved))
    _add_rows(K, rows, moved - v.b[free], field, threads)
    v.b[free] = moved


def _ends(score: FloatArray, v: _Variables, problem: SoftMargin) -> list[tuple[float, float]]:
    """Highest score that may rise and lowest that may fall, for each group."""
    up = np.where(v.b < v.upper, score, -np.inf)
    down = np.where(v.b > v.lower, score, np.inf)
    borders = _borders(v.group)
    return [(float(up[part].max()), float(down[part].min())) for part in borders]


def _borders(group: IntArray) -> list[slice]:
    border = int(np.searchsorted(group, 1))
    parts = [slice(0, border), slice(border, len(group))]
    return [part for part in parts if part.start < part.stop]


def _working_set(score: FloatArray, v: _Variables, problem: SoftMargin) -> IntArray:
    """Positions of the variables to work on: the ends of the order of violation, in order."""
    n = len(score)
    if n <= WORKING_SET:
        return np.arange(n)
    chosen = np.zeros(n, dtype=bool)
    chosen[v.index < 0] = True
    parts = _borders(v.group)
    quota = WORKING_SET // (2 * len(parts))
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
    K: RealArray, v: _Variables, score: FloatArray, chosen: IntArray, tol: float, max_steps: int
) -> int:
    """Run sweeps on the chosen variables; v.b changes in place. Returns the steps taken."""
    slots, border, q = _slots(v.group[chosen])
    rows = np.full(q, len(K) - 1)  # the last row of the padding is zero
    rows[slots] = v.row[chosen]
    if len(K) == q and np.array_equal(rows[slots], slots):
        block = K  # all variables, where they stand
    else:
        block = np.empty((q, q), dtype=K.dtype)
        _smo_loops.gather(K, rows, block)
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
    steps, _ = _smo_loops.sweep(
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
    return int(steps)


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
        add_rows(K, rows, coefficients, field, start, min(start + width, n))

    for_each(add, range(0, n, width), threads if len(rows) * n > 100_000 else 1)


@jit(fast=True)
def add_rows(K, rows, coefficients, field, start, stop):  # type: ignore[no-untyped-def]
    """field[start:stop] += coefficients @ K[rows, start:stop], summed in float64 blocks."""
    part = np.empty(stop - start, K.dtype)
    for first in range(0, len(rows), 64):
        part[:] = 0
        for r in range(first, min(first + 64, len(rows))):
            c = coefficients[r]
            row = K[rows[r], start:stop]
            for t in range(len(part)):
                part[t] += c * row[t]
        for t in range(len(part)):
            field[start + t] += part[t]
