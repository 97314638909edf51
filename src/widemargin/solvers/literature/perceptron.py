r"""Perceptron algorithm of Table 1.1 of Smola et al. (2000), primal and with kernels.

Problem: :class:`widemargin.problems.perceptron.SeparatingPlane`; data: samples with their kernel.
Start from w = 0, b = 0 and make passes over the samples in their order. For each misclassified
sample, :math:`y_i (w \cdot x_i + b) \le 0`, update

.. math:: w \leftarrow w + \eta y_i x_i, \qquad b \leftarrow b + \eta y_i,

until a pass makes no update. The rate eta only scales w and b, so it is 1 here.

In feature space :math:`w = \sum_j c_j y_j \phi(x_j)`, where :math:`c_j` counts the updates on
sample j; an update adds :math:`y_i (k(x_i, \cdot) + 1)` to the decision values of all samples.

========  =========================================  ==============================
method    state                                      selected by "auto"
========  =========================================  ==============================
primal    w and b                                    for the linear kernel
dual      update counts c and decision values        for all other kernels
========  =========================================  ==============================

>>> import numpy as np
>>> from widemargin.kernels import Kernel, Rows
>>> from widemargin.problems.perceptron import SeparatingPlane
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.literature.perceptron import solve
>>> rows = Rows(Kernel("linear"), np.array([[0.64]]))
>>> result = solve(SeparatingPlane(np.array([-1.0])), rows, budget=Budget(10))
>>> result.coef, result.intercept, result.n_updates, result.n_iter
(array([-0.64]), -1.0, 1, 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import require_choice
from widemargin.kernels import Rows
from widemargin.problems.perceptron import SeparatingPlane
from widemargin.solvers.base import Budget, LinearResult, Status

__all__ = ["PerceptronResult", "solve"]

VALUES_PER_SWEEP = 2e7  # numbers read between calls of the monitor (hundredths of a second)


@dataclass(frozen=True, eq=False, kw_only=True)
class PerceptronResult(LinearResult):
    """Weights or coefficients of a perceptron trained with eta = 1, and its number of updates.

    Attributes
    ----------
    coef : ndarray
        Weights w; for "dual" the coefficients :math:`c_j y_j` of the samples.
    n_updates : int
        Number of updates; `n_iter` is the number of passes, including an unfinished one.
    n_wrong : int
        Number of samples that the result misclassifies.
    """

    n_updates: int
    n_wrong: int


def solve(
    problem: SeparatingPlane,
    data: Rows,
    *,
    tol: float = 0.0,
    budget: Budget,
    start: None = None,
    method: str = "auto",
) -> PerceptronResult:
    """Train a perceptron until no sample is misclassified.

    Parameters
    ----------
    problem : SeparatingPlane
        Labels of the samples.
    data : Rows
        Samples with their kernel, in the order in which they are visited.
    tol : float, default=0.0
        Not used: a run converges when a pass finds no misclassified sample.
    budget : Budget
        Limits on passes and memory. The monitor is called with (passes, updates of the current
        pass divided by the number of samples). "dual" caches the kernel rows of misclassified
        samples, which are likely to be misclassified again; if the memory is full, the oldest row
        is replaced.
    start : None
        Not used: the algorithm of Table 1.1 starts from zero.
    method : {"auto", "primal", "dual"}
        See the table in the module docstring.

    Returns
    -------
    PerceptronResult
        Its status is "converged", "max_iter" (passes) or "stopped" (by the monitor).
    """
    require_choice("method", method, ("auto", "primal", "dual"))
    if method == "auto":
        method = "primal" if data.kernel.name == "linear" else "dual"
    run: _PrimalRun | _DualRun
    if method == "primal":
        run = _PrimalRun(problem, data)
    else:
        run = _DualRun(problem, data, budget.cache_bytes)
    n_passes, monitor = 0, budget.monitor
    status: Status = "max_iter"
    while status == "max_iter" and n_passes < budget.max_iter:
        n_passes += 1
        before = run.updates
        for _ in run.sweeps():
            share = max(1, run.updates - before) / data.n
            if monitor is not None and not monitor(n_passes, share):
                status = "stopped"
                break
        else:
            if run.updates == before and not (run.drifts and run.n_wrong()):
                status = "converged"
    return PerceptronResult(
        coef=run.coef(),
        thresholds=np.array([run.intercept()]),
        n_updates=run.updates,
        n_wrong=0 if status == "converged" else run.n_wrong(),
        n_iter=n_passes,
        status=status,
    )


class _PrimalRun:
    """State of the primal method: weights and intercept."""

    drifts = False  # decision values are computed from w, so a pass without updates is the last

    def __init__(self, problem: SeparatingPlane, rows: Rows) -> None:
        self.problem, self.X = problem, rows.X
        self.state = np.zeros(self.X.shape[1] + 1)  # w, then b
        self.updates = 0

    def sweeps(self) -> Iterator[None]:
        """Visit all samples once; yield after each bounded amount of work."""
        X, y = self.X, self.problem.label
        n, sparse = X.shape[0], sp.issparse(X)
        at_once = max(1, int(VALUES_PER_SWEEP / len(self.state)))
        for start in range(0, n, at_once):
            part = (y, self.state, start, min(n, start + at_once))
            if sparse:
                self.updates += _sweep_sparse(X.indptr, X.indices, X.data, *part)
            else:
                self.updates += _sweep_dense(X, *part)
            yield

    def coef(self) -> FloatArray:
        return self.state[:-1].copy()

    def intercept(self) -> float:
        return float(self.state[-1])

    def n_wrong(self) -> int:
        return self.problem.n_wrong(self.X @ self.coef() + self.intercept())


class _DualRun:
    """State of the dual method: update counts, decision values and cached kernel rows."""

    drifts = True  # rounding errors of updates add up; convergence requires recomputed values

    def __init__(self, problem: SeparatingPlane, rows: Rows, cache_bytes: float) -> None:
        n = rows.n
        self.problem, self.rows, self.y = problem, rows, problem.label
        self.count, self.f = np.zeros(n), np.zeros(n)
        self.updates = 0
        n_slots = int(min(n, max(1, cache_bytes // (8 * n))))
        self.kept = np.empty((n_slots, n))
        self.slot = np.full(n, -1, dtype=np.intp)  # index into kept of each sample's row, or -1
        self.owner = np.full(n_slots, -1, dtype=np.intp)
        self.next_slot = 0
        self.at_once = max(1, int(VALUES_PER_SWEEP / n))

    def sweeps(self) -> Iterator[None]:
        """Visit all samples once; yield after bounded work and after computing a kernel row."""
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
        """Compute and cache the kernel row of a sample; replace the oldest if the cache is full."""
        place = self.next_slot
        if self.owner[place] >= 0:
            self.slot[self.owner[place]] = -1
        everything = np.arange(self.rows.n)
        self.kept[place] = self.rows.block(np.array([row]), self.rows, everything)[0]
        self.slot[row], self.owner[place] = place, row
        self.next_slot = (place + 1) % len(self.owner)

    def coef(self) -> FloatArray:
        return self.count * self.y

    def intercept(self) -> float:
        return float(self.count @ self.y)

    def n_wrong(self) -> int:
        """Recompute the decision values and return the number of misclassified samples."""
        used = np.flatnonzero(self.count)
        c = (self.count * self.y)[used]
        everything = np.arange(self.rows.n)
        self.f = self.rows.weighted_sum(everything, self.rows, used, c) + float(c.sum())
        return self.problem.n_wrong(self.f)


@jit
def _sweep_dense(X: Matrix, y: FloatArray, state: FloatArray, start: int, stop: int) -> int:
    """Visit samples start to stop - 1, return the number of updates; `state` is w, then b."""
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
    """Do the same as `_sweep_dense` for a matrix in CSR format."""
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
    """Visit samples from start on, until a kernel row is missing or max_steps updates were made.

    Returns the sample to continue with and the number of updates made.
    """
    # Invariant: f[j] = sum_i count[i] y[i] (k(x_i, x_j) + 1) for all j, up to rounding.
    # kept[slot[i]] is the kernel row of sample i; slot[i] = -1 if it is not cached.
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
