r"""The perceptron: rows in turn, and a step for each one that is wrong.

Table 1.1 of Smola et al. (2000). From w = 0, b = 0, visit the rows in their order, again and again;
where :math:`y_i (w \cdot x_i + b) \le 0`,

.. math:: w \leftarrow w + \eta y_i x_i, \qquad b \leftarrow b + \eta y_i,

until a pass finds no such row. A value of 0 is wrong for either label: sgn(0) is neither +1 nor -1,
and w = 0 must be left. eta multiplies w and b and changes nothing else, so it is 1 here.

In feature space w is :math:`\sum_j c_j y_j \phi(x_j)`, where :math:`c_j` counts the steps on row j;
a step adds :math:`y_i (k(x_i, \cdot) + 1)` to the values of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.kernels import Rows
from widemargin.solvers.base import Monitor, Status

VALUES_PER_SWEEP = 2e7  # numbers read between two looks at the clock: some hundredths of a second


@dataclass(frozen=True)
class PerceptronResult:
    """A perceptron, for eta = 1.

    Attributes
    ----------
    coef : ndarray
        w, or with a kernel the coefficients :math:`c_j y_j` of the rows.
    intercept : float
        b.
    n_updates : int
        Steps taken.
    n_passes : int
        Passes begun.
    wrong : int
        Rows that are wrong at the end.
    status : {"converged", "max_iter", "stopped"}
        Whether no row is wrong, the passes or the time ran out.
    """

    coef: FloatArray
    intercept: float
    n_updates: int
    n_passes: int
    wrong: int
    status: Status


def train(
    X: Matrix, y: FloatArray, *, max_passes: int, monitor: Monitor | None = None
) -> PerceptronResult:
    """Train in the features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows in the order in which they are visited.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    max_passes : int
        Largest number of passes.
    monitor : callable, optional
        Called with (passes, share of wrong rows) between sweeps; returns whether to go on.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.literature.perceptron import train
    >>> found = train(np.array([[0.64]]), np.array([-1.0]), max_passes=10)
    >>> found.coef, found.intercept, found.n_updates, found.n_passes
    (array([-0.64]), -1.0, 1, 2)
    """
    state = np.zeros(X.shape[1] + 1)  # w, then b
    at_once = max(1, int(VALUES_PER_SWEEP / (X.shape[1] + 1)))
    sparse = sp.issparse(X)
    parts = (X.indptr, X.indices, X.data) if sparse else ()
    n, updates = X.shape[0], 0
    for n_passes in range(1, max_passes + 1):
        before = updates
        for start in range(0, n, at_once):
            stop = min(n, start + at_once)
            if sparse:
                updates += _sweep_sparse(*parts, y, state, start, stop)
            else:
                updates += _sweep_dense(X, y, state, start, stop)
            if monitor is not None and not monitor(n_passes, max(1, updates - before) / n):
                return _in_features(X, y, state, updates, n_passes, "stopped")
        if updates == before:
            return _in_features(X, y, state, updates, n_passes, "converged")
    return _in_features(X, y, state, updates, max_passes, "max_iter")


def _in_features(
    X: Matrix, y: FloatArray, state: FloatArray, updates: int, n_passes: int, status: Status
) -> PerceptronResult:
    w, b = state[:-1].copy(), float(state[-1])
    # "converged" is what the sweep saw with its own order of sums.
    wrong = 0 if status == "converged" else int(np.count_nonzero(y * (X @ w + b) <= 0))
    return PerceptronResult(w, b, updates, n_passes, wrong, status)


def train_kernel(
    rows: Rows,
    y: FloatArray,
    *,
    max_passes: int,
    cache_bytes: float,
    monitor: Monitor | None = None,
) -> PerceptronResult:
    """Train in the feature space of a kernel.

    Parameters
    ----------
    rows : Rows
        Rows seen through the kernel, in the order in which they are visited.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    max_passes : int
        Largest number of passes.
    cache_bytes : float
        Memory for kernel rows. Those of rows that were wrong are kept, as they are likely to be
        wrong again; when there is no more room the oldest makes way.
    monitor : callable, optional
        Called with (passes, share of wrong rows) between sweeps; returns whether to go on.
    """
    run = _KernelRun(rows, y, cache_bytes)
    status: Status = "max_iter"
    n_passes = 0
    while n_passes < max_passes and status == "max_iter":
        n_passes += 1
        before = run.updates
        for _ in run.sweeps():
            share = max(1, run.updates - before) / rows.n
            if monitor is not None and not monitor(n_passes, share):
                status = "stopped"
                break
        else:
            if run.updates == before and run.settle() == 0:
                status = "converged"
    wrong = 0 if status == "converged" else run.settle()
    return PerceptronResult(
        run.count * y, float(run.count @ y), run.updates, n_passes, wrong, status
    )


class _KernelRun:
    """Counts and values of a perceptron in feature space, and the kernel rows that it keeps."""

    def __init__(self, rows: Rows, y: FloatArray, cache_bytes: float) -> None:
        n = rows.n
        self.rows, self.y = rows, y
        self.count, self.f = np.zeros(n), np.zeros(n)
        self.updates = 0
        n_slots = int(min(n, max(1, cache_bytes // (8 * n))))
        self.kept = np.empty((n_slots, n))
        self.slot = np.full(n, -1, dtype=np.intp)  # where the kernel row of each row is kept
        self.owner = np.full(n_slots, -1, dtype=np.intp)
        self.next_slot = 0
        self.at_once = max(1, int(VALUES_PER_SWEEP / n))

    def sweeps(self) -> Iterator[None]:
        """Visit all rows once; pause after a bounded amount of work, or for a kernel row."""
        position = 0
        while position < self.rows.n:
            position, steps = _sweep_kept(
                self.kept, self.slot, self.y, self.count, self.f, position, self.at_once
            )
            self.updates += steps
            if position < self.rows.n and self.slot[position] < 0:
                self.keep(position)
            yield

    def keep(self, row: int) -> None:
        """Compute the kernel row of a row, in place of the oldest if there is no more room."""
        place = self.next_slot
        if self.owner[place] >= 0:
            self.slot[self.owner[place]] = -1
        everything = np.arange(self.rows.n)
        self.kept[place] = self.rows.block(np.array([row]), self.rows, everything)[0]
        self.slot[row], self.owner[place] = place, row
        self.next_slot = (place + 1) % len(self.owner)

    def settle(self) -> int:
        """Compute the values afresh, for sums of steps drift; return how many rows are wrong."""
        used = np.flatnonzero(self.count)
        c = (self.count * self.y)[used]
        everything = np.arange(self.rows.n)
        self.f = self.rows.weighted_sum(everything, self.rows, used, c) + float(c.sum())
        return int(np.count_nonzero(self.y * self.f <= 0))


@jit
def _sweep_dense(X: Matrix, y: FloatArray, state: FloatArray, start: int, stop: int) -> int:
    """Visit rows start to stop; return the steps taken. State is w, then b."""
    d = X.shape[1]
    steps = 0
    for i in range(start, stop):
        value = state[d]
        for j in range(d):
            value += state[j] * X[i, j]
        if y[i] * value <= 0:
            for j in range(d):
                state[j] += y[i] * X[i, j]
            state[d] += y[i]
            steps += 1
    return steps


@jit
def _sweep_sparse(
    indptr: IntArray,
    indices: IntArray,
    data: Matrix,
    y: FloatArray,
    state: FloatArray,
    start: int,
    stop: int,
) -> int:
    """Do the same for CSR rows."""
    steps = 0
    for i in range(start, stop):
        value = state[-1]
        for k in range(indptr[i], indptr[i + 1]):
            value += state[indices[k]] * data[k]
        if y[i] * value <= 0:
            for k in range(indptr[i], indptr[i + 1]):
                state[indices[k]] += y[i] * data[k]
            state[-1] += y[i]
            steps += 1
    return steps


@jit
def _sweep_kept(
    kept: FloatArray,
    slot: IntArray,
    y: FloatArray,
    count: FloatArray,
    f: FloatArray,
    start: int,
    max_steps: int,
) -> tuple[int, int]:
    """Visit rows from start on, up to one whose kernel row is missing or max_steps steps.

    Returns the row to go on with and the steps taken.
    """
    steps = 0
    for i in range(start, len(y)):
        if y[i] * f[i] > 0:
            continue
        if slot[i] < 0 or steps == max_steps:
            return i, steps
        row = kept[slot[i]]
        for j in range(len(f)):
            f[j] += y[i] * (row[j] + 1.0)
        count[i] += 1.0
        steps += 1
    return len(y), steps
