"""Columns of the signed kernel matrix for a working set, and their QR factorisation."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram

RANK = 1e-12  # diagonal entries of R below this fraction of the largest count as zero


class Columns:
    """Columns of G, each divided by the size of its kernel values, computed on demand."""

    def __init__(self, problem: MarginProgram, rows: Rows, memory: float) -> None:
        self.problem, self.rows, self.size = problem, rows, problem.kernel_sizes()
        self.place = np.full(rows.n, -1)
        self.most = max(1, int(memory / (16 * rows.n)))  # room for a copy
        self.store = np.empty((rows.n, 0))
        self.count = 0

    def of(self, which: IntArray) -> FloatArray:
        """Return the columns of some coefficients."""
        new = which[self.place[which] < 0]
        if len(new):
            self._add(new)
        return self.store[:, self.place[which]]

    def _add(self, new: IntArray) -> None:
        first, self.count = self.count, self.count + len(new)
        if self.count > self.most:
            raise MemoryError(
                f"the columns of {self.count} coefficients do not fit into cache_size: raise it"
            )
        if self.count > self.store.shape[1]:
            room = np.empty((self.rows.n, min(self.most, max(2 * first, self.count))))
            room[:, :first] = self.store[:, :first]
            self.store = room
        y = self.problem.y
        block = self.rows.block(np.arange(self.rows.n), self.rows, new) * (y[:, None] * y[new])
        block[new, np.arange(len(new))] -= self.problem.shift[new]
        self.store[:, first : self.count] = block / self.size[new]
        self.place[new] = np.arange(first, self.count)


def factored(M: FloatArray, damping: float) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return Q, R and the order of the columns of a matrix, without those that depend on others.

    Whether they do is judged with all columns scaled to the norm 1: those of isolated samples are
    tiny. With damping, R'R = M'M + damping^2 I.
    """
    n = len(M)
    if damping:
        M = np.vstack([M, damping * np.eye(M.shape[1])])
    norm = np.linalg.norm(M, axis=0)
    scale = np.where(norm > 0, norm, 1.0)
    Q, R, order = qr(M / scale, mode="economic", pivoting=True, check_finite=False)
    rank = int(np.count_nonzero(np.abs(np.diagonal(R)) > RANK))
    return Q[:n, :rank], R[:rank, :rank] * scale[order[:rank]], order
