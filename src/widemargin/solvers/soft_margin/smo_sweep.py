"""Working-set selection for SMO, and the state that its sweeps update.

A working set consists of the maximal violators in both directions. Its kernel values are gathered
into a block that fits into the cache, in whole chunks per group, for `soft_margin.smo_loops`; the
decision values of all samples are updated once per sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels.row_loops import LANES
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.soft_margin import smo_loops

WORKING_SET = 1536  # variables: a float32 block of this order takes 9 MB
# By precision: smallest curvature of a pair relative to its diagonal (smaller values are rounding
# errors), smallest absolute curvature, and a number larger than all scores.
LIMITS = {"float32": (2e-7, 1e-30, 1e30), "float64": (1e-14, 1e-300, 1e300)}
ASTRAY = 1e-3  # relative decrease of the objective at which the best point is restored
GATHERED_ROWS = 256  # rows of a block that one thread copies at a time
ADDED_COLUMNS = 2048  # decision values that one thread updates at a time
WORTH_A_THREAD = 100_000  # kernel values read; below that, starting a thread costs more


class DenseState:
    """Variables and decision values of a problem whose kernel matrix is in memory.

    The variables are sorted by group. A problem without intercept gets one additional variable,
    unbounded and with kernel values of zero: paired with it, any other variable can change alone,
    so the same pair steps apply. The parameters are those of `smo.solve_dense`; alpha and f are
    copied.

    Attributes
    ----------
    index : ndarray of shape (n_variables,)
        Position in the problem's arrays, -1 for the additional variable.
    row, target, lower, upper, ridge, group, alpha : ndarray of shape (n_variables,)
        As in the problem.
    field : ndarray of shape (n_padded,)
        Decision values of the samples at alpha, zero in the padding.
    """

    def __init__(
        self, K: RealArray, problem: SoftMargin, alpha: FloatArray, f: FloatArray, threads: int
    ) -> None:
        self.K = K
        self.threads = threads
        self.n_groups = len(problem.totals)
        order = np.argsort(problem.group, kind="stable")

        def sorted_by_group(values: Any, extra: float) -> Any:
            return values[order] if self.n_groups else np.append(values[order], extra)

        self.index: IntArray = sorted_by_group(np.arange(len(order)), -1)
        self.row: IntArray = sorted_by_group(problem.row, problem.n_rows)
        self.target: FloatArray = sorted_by_group(problem.target, 0.0)
        self.lower: FloatArray = sorted_by_group(problem.lower, -np.inf)
        self.upper: FloatArray = sorted_by_group(problem.upper, np.inf)
        self.ridge: FloatArray = sorted_by_group(problem.ridge, 0.0)
        self.group: IntArray = sorted_by_group(problem.group, 0)
        self.alpha: FloatArray = sorted_by_group(alpha, 0.0)
        border = int(np.searchsorted(self.group, 1))
        both = [slice(0, border), slice(border, len(self.group))]
        self.parts = [part for part in both if part.start < part.stop]
        self.field = np.zeros(len(K))
        self.field[: len(f)] = f
        self.start = self.alpha.copy(), self.field.copy()
        self.objectives: list[float] = []
        self.best = 0.0, *self.start
        self.astray = False
        self.width = WORKING_SET

    def write_back(self, alpha: FloatArray, f: FloatArray) -> None:
        """Copy variables and decision values to the caller's arrays."""
        inside = self.index >= 0
        alpha[self.index[inside]] = self.alpha[inside]
        f[:] = self.field[: len(f)]

    def scores(self) -> FloatArray:
        """Return the gradient of the dual objective."""
        return self.target - self.field[self.row] - self.ridge * self.alpha

    def violation(self) -> float:
        """Return the KKT violation, m(alpha) - M(alpha) in LIBSVM, the largest of the groups."""
        score = self.scores()
        up = np.where(self.alpha < self.upper, score, -np.inf)
        down = np.where(self.alpha > self.lower, score, np.inf)
        return max(float(up[part].max() - down[part].min()) for part in self.parts)

    def free(self) -> IntArray:
        """Return the free variables of the problem: strictly inside their bounds."""
        inside = (self.alpha > self.lower) & (self.alpha < self.upper)
        return np.flatnonzero(inside & (self.index >= 0))

    def sweep(self, tol: float, max_steps: int) -> tuple[int, float]:
        """Take pair steps on one working set; return their number and the gain of the objective."""
        score = self.scores()
        chosen = self._working_set(score)
        before = self.alpha[chosen]
        steps, gained = self._take_steps(score, chosen, tol, max_steps)
        self.shift(chosen, self.alpha[chosen] - before)
        self._keep_best()
        # Few steps do not amortise gathering the block: with a larger one there are more of them.
        if steps < self.width // 8:
            self.width = min(2 * self.width, len(self.alpha))
        return steps, gained

    def _working_set(self, score: FloatArray) -> IntArray:
        """Select the next working set: the worst violators in both directions, sorted."""
        n = len(score)
        if n <= self.width:
            return np.arange(n)
        chosen = self.index < 0  # the additional variable belongs to every working set
        quota = self.width // (2 * len(self.parts))
        for part in self.parts:
            s, alpha = score[part], self.alpha[part]
            rising = np.where(alpha < self.upper[part], -s, np.inf)
            chosen[part.start + _smallest(rising, quota)] = True
            falling = np.where((alpha > self.lower[part]) & ~chosen[part], s, np.inf)
            chosen[part.start + _smallest(falling, quota)] = True
        return np.flatnonzero(chosen)

    def _take_steps(
        self, score: FloatArray, chosen: IntArray, tol: float, max_steps: int
    ) -> tuple[int, float]:
        """Run the compiled loop on the working set; return the number of steps and the gain."""
        K = self.K
        slots, border, q = _slots(self.group[chosen])
        rows = np.full(q, len(K) - 1)  # the last row of the padding is zero
        rows[slots] = self.row[chosen]
        if len(K) == q and np.array_equal(rows[slots], slots):
            block = K  # the working set is the whole problem in its own order: no copy
        else:
            block = np.empty((q, q), dtype=K.dtype)
            _gather(K, rows, block, self.threads)
        box, flat = np.zeros((4, q)), np.zeros((4, q), dtype=K.dtype)
        box[:, slots] = (
            self.lower[chosen], self.upper[chosen], self.alpha[chosen], self.ridge[chosen]
        )  # fmt: skip
        tau, tiny, huge = LIMITS[K.dtype.name]
        flat[0, slots] = score[chosen]
        flat[1] = np.where(box[2] < box[1], 0.0, huge)
        flat[2] = np.where(box[2] > box[0], 0.0, huge)
        flat[3] = block.diagonal()
        flat[3, slots] += self.ridge[chosen].astype(K.dtype)
        shape = (q // LANES, LANES)
        limits = np.array([tau, tiny, huge, tol, q], dtype=K.dtype)
        _, steps, gained, _, _ = smo_loops.take_steps(
            block.reshape(q, *shape), np.arange(q), flat.reshape(4, *shape), flat, box, border,
            limits, max_steps, max_steps + 1, *smo_loops.NO_FORMULA,
        )  # fmt: skip
        alpha = box[2]
        self.alpha[chosen] = alpha[slots]
        return int(steps), float(gained)

    def shift(self, variables: IntArray, change: FloatArray) -> None:
        """Update the decision values for a change of some variables."""
        moved = change != 0
        rows, n = self.row[variables[moved]], len(self.field)
        coefficients = change[moved].astype(self.K.dtype)

        def add(start: int) -> None:  # by columns, so that threads write to disjoint parts
            stop = min(start + ADDED_COLUMNS, n)
            smo_loops.add_rows(self.K, rows, coefficients, self.field, start, stop)

        if len(rows) * n > WORTH_A_THREAD:
            for_each(add, range(0, n, ADDED_COLUMNS), self.threads)
        else:
            for start in range(0, n, ADDED_COLUMNS):
                add(start)

    def anchor(self) -> None:
        """Recompute the decision values from the starting point to discard rounding errors."""
        change = self.alpha - self.start[0]
        self.field[:] = self.start[1]
        self.shift(np.arange(len(change)), change)
        self.objectives.append(self._keep_best())

    def _keep_best(self) -> float:
        """Return the gain of the objective since the start; restore the best point if it fell.

        The exact objective increases with every step. It falls only where cancellation between huge
        terms has destroyed the scores, and then further steps are noise of growing size.
        """
        start_alpha, start_field = self.start
        change = self.alpha - start_alpha
        with np.errstate(over="ignore", invalid="ignore"):
            both = (self.field + start_field)[self.row]
            squares = self.ridge @ (self.alpha**2 - start_alpha**2)
            objective = float(self.target @ change - 0.5 * (both @ change) - 0.5 * squares)
        best, best_alpha, best_field = self.best
        if objective >= best:
            self.best = objective, self.alpha.copy(), self.field.copy()
        elif not objective >= best - ASTRAY * max(1.0, abs(best)):  # also for NaN
            self.alpha[:], self.field[:] = best_alpha, best_field
            self.astray = True
        return objective

    def rounding(self) -> float:
        """Return the rounding error of the objective in float64."""
        terms = np.abs(self.alpha) @ (np.abs(self.target) + np.abs(self.field[self.row]))
        return float(np.finfo(np.float64).eps * terms)

    def stalled(self) -> bool:
        """Return whether rounding errors have cancelled the gain of the last steps."""
        if self.astray:
            return True
        last = self.objectives[-4:]
        return len(last) == 4 and max(last[1:]) <= last[0] + 1e-13 * max(1.0, abs(last[0]))


def _smallest(values: FloatArray, k: int) -> IntArray:
    """Return the positions of the k smallest values, finite ones only."""
    if len(values) > k:
        best = np.argpartition(values, k)[:k]
    else:
        best = np.arange(len(values))
    return best[np.isfinite(values[best])]


def _gather(K: RealArray, rows: IntArray, block: RealArray, threads: int) -> None:
    """Copy K[rows][:, rows] to block, in slabs of rows that threads copy independently."""

    def copy(start: int) -> None:
        smo_loops.gather(K, rows, block, start, min(start + GATHERED_ROWS, len(rows)))

    threads = threads if len(rows) > 2 * GATHERED_ROWS else 1
    for_each(copy, range(0, len(rows), GATHERED_ROWS), threads)


def _slots(group: IntArray) -> tuple[IntArray, int, int]:
    """Return padded positions of sorted variables, the first chunk of group 1, and the length.

    Each group is padded to whole chunks, so that no chunk mixes variables of two thresholds.
    """
    first = int(np.searchsorted(group, 1))
    second = len(group) - first
    border = -(-first // LANES)
    chunks = border + -(-second // LANES)
    slots = np.concatenate([np.arange(first), border * LANES + np.arange(second)])
    return slots, border, chunks * LANES
