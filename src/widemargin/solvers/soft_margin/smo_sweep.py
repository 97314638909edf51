"""One sweep of pair steps: which variables it works on, and the block of kernel values it needs.

The working set are the variables from both ends of the order of violation. Their kernel values are
gathered into a block that fits the cache, in whole chunks for each group, for
`soft_margin.smo_loops`; afterwards all decision values are brought up to date at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.soft_margin import smo_loops as _smo_loops
from widemargin.solvers.soft_margin.smo_loops import LANES

# By precision: smallest curvature of a pair relative to its diagonal (rounding hides less),
# smallest at all, and a number beyond all scores.
LIMITS = {"float32": (2e-7, 1e-30, 1e30), "float64": (1e-14, 1e-300, 1e300)}


@dataclass
class Variables:
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
    def of(cls, problem: SoftMargin, b: FloatArray) -> Variables:
        """Return the variables of a problem at b."""
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
        """Return the derivatives of the objective at decision values f."""
        return self.target - f[self.row] - self.ridge * self.b


def parts_of(group: IntArray) -> list[slice]:
    """Return where the variables of each group stand."""
    border = int(np.searchsorted(group, 1))
    parts = [slice(0, border), slice(border, len(group))]
    return [part for part in parts if part.start < part.stop]


def working_set(score: FloatArray, v: Variables, width: int) -> IntArray:
    """Positions of the variables to work on: the ends of the order of violation, in order."""
    n = len(score)
    if n <= width:
        return np.arange(n)
    chosen = np.zeros(n, dtype=bool)
    chosen[v.index < 0] = True
    parts = parts_of(v.group)
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


def sweep_set(
    K: RealArray,
    v: Variables,
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


def add_rows(
    K: RealArray, rows: IntArray, change: FloatArray, field: FloatArray, threads: int
) -> None:
    """field += sum_r change_r K[r], by columns so that threads do not meet."""
    n = len(field)
    coefficients = change.astype(K.dtype)
    width = 2048

    def add(start: int) -> None:
        _smo_loops.add_rows(K, rows, coefficients, field, start, min(start + width, n))

    for_each(add, range(0, n, width), threads if len(rows) * n > 100_000 else 1)
