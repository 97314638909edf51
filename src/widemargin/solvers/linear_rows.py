"""The rows of a linear machine's data: every product its solver needs, dense and CSR behind one name.

All sums are float64 whatever the data are, and the data are read where they lie: no product
converts, copies or transposes them. Long products are cut into slabs of a few milliseconds, with a
call of ``tick`` after each, so that interrupts and time budgets act inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._jit import jit
from widemargin._typing import FloatArray, IntArray, Matrix

SLAB = 1 << 22  # stored values between two ticks: some 5 ms
BLOCK = 1 << 19  # values of a float64 copy of rows: 4 MB


@jit
def _dense_dot(X: Any, w: Any, out: Any) -> None:
    """out[i] = x_i . w, in four interleaved sums that the compiler may keep in one register."""
    n, d = X.shape
    whole = d - d % 4
    for i in range(n):
        x = X[i]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(0, whole, 4):
            s0 += x[j] * w[j]
            s1 += x[j + 1] * w[j + 1]
            s2 += x[j + 2] * w[j + 2]
            s3 += x[j + 3] * w[j + 3]
        for j in range(whole, d):
            s0 += x[j] * w[j]
        out[i] = (s0 + s1) + (s2 + s3)


@jit
def _dense_combine(X: Any, coef: Any, out: Any) -> None:
    """Add sum_i coef_i x_i to out; rows with coefficient zero are not read."""
    n, d = X.shape
    for i in range(n):
        c = coef[i]
        if c != 0.0:
            for j in range(d):
                out[j] += c * X[i, j]


@jit(fast=True)
def _dense_curvature(X: Any, rows: Any, weight: Any, shift: Any, v: Any, out: Any) -> Any:
    """Add sum_k z_k x_k to out, z_k = weight_k (x_k . v - shift); return the sum of z."""
    d = X.shape[1]
    total = 0.0
    for k in range(len(rows)):
        x = X[rows[k]]
        z = -shift
        for j in range(d):
            z += x[j] * v[j]
        z *= weight[k]
        total += z
        for j in range(d):
            out[j] += z * x[j]
    return total


@jit
def _csr_dot(indptr: Any, indices: Any, data: Any, w: Any, out: Any) -> None:
    """out[i] = x_i . w."""
    for i in range(len(out)):
        s = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            s += data[p] * w[indices[p]]
        out[i] = s


@jit
def _csr_combine(indptr: Any, indices: Any, data: Any, coef: Any, out: Any) -> None:
    """Add sum_i coef_i x_i to out; rows with coefficient zero are not read."""
    for i in range(len(coef)):
        c = coef[i]
        if c != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                out[indices[p]] += c * data[p]


@jit(fast=True)
def _csr_curvature(
    indptr: Any, indices: Any, data: Any, rows: Any, weight: Any, shift: Any, v: Any, out: Any
) -> Any:
    """Add sum_k z_k x_k to out, z_k = weight_k (x_k . v - shift); return the sum of z."""
    total = 0.0
    for k in range(len(rows)):
        first = indptr[rows[k]]
        last = indptr[rows[k] + 1]
        z = -shift
        for p in range(first, last):
            z += data[p] * v[indices[p]]
        z *= weight[k]
        total += z
        for p in range(first, last):
            out[indices[p]] += z * data[p]
    return total


@jit
def _dense_squares(X: Any, rows: Any, weight: Any, out: Any) -> None:
    """Add sum_k weight_k x_k^2, feature by feature, to out."""
    d = X.shape[1]
    for k in range(len(rows)):
        x = X[rows[k]]
        for j in range(d):
            out[j] += weight[k] * x[j] * x[j]


@jit
def _csr_squares(indptr: Any, indices: Any, data: Any, rows: Any, weight: Any, out: Any) -> None:
    """Add sum_k weight_k x_k^2, feature by feature, to out."""
    for k in range(len(rows)):
        for p in range(indptr[rows[k]], indptr[rows[k] + 1]):
            out[indices[p]] += weight[k] * data[p] * data[p]


def _nothing() -> None:
    """Tick of a product that nobody watches."""


class LinearRows:
    """A data matrix seen through the products of a linear machine.

    Parameters
    ----------
    X : ndarray of shape (n, d) or CSR matrix
        float32 or float64.
    tick : callable, optional
        Called inside long products.
    """

    def __init__(self, X: Matrix, tick: Callable[[], None] = _nothing) -> None:
        self.X = X
        self.sparse = bool(sp.issparse(X))
        self.n_rows, self.n_features = X.shape
        self.n_values = int(X.nnz if self.sparse else X.size)
        self.tick = tick

    def _slabs(self, n_rows: int) -> Iterator[slice]:
        per_row = max(1, self.n_values // max(1, self.n_rows))
        step = max(1, SLAB // per_row)
        for first in range(0, n_rows, step):
            yield slice(first, min(first + step, n_rows))
            self.tick()

    def dot(self, w: FloatArray) -> FloatArray:
        """Return X w."""
        out = np.empty(self.n_rows)
        for s in self._slabs(self.n_rows):
            if self.sparse:
                indptr = self.X.indptr[s.start : s.stop + 1]
                _csr_dot(indptr, self.X.indices, self.X.data, w, out[s])
            else:
                _dense_dot(self.X[s], w, out[s])
        return out

    def combine(self, coef: FloatArray) -> FloatArray:
        """Return X' coef."""
        out = np.zeros(self.n_features)
        for s in self._slabs(self.n_rows):
            if self.sparse:
                indptr = self.X.indptr[s.start : s.stop + 1]
                _csr_combine(indptr, self.X.indices, self.X.data, coef[s], out)
            else:
                _dense_combine(self.X[s], coef[s], out)
        return out

    def take(self, rows: IntArray) -> LinearRows:
        """Return a copy of some rows."""
        return LinearRows(self.X[rows], self.tick)

    def size_of(self, rows: IntArray) -> int:
        """Return the number of values stored in some rows."""
        if self.sparse:
            return int((self.X.indptr[rows + 1] - self.X.indptr[rows]).sum())
        return len(rows) * self.n_features

    def curvature(
        self, rows: IntArray, weight: FloatArray, centre: FloatArray, v: FloatArray
    ) -> FloatArray:
        """Return sum_k weight_k (x_k - centre) (x_k - centre)' v over the given rows."""
        out = np.zeros(self.n_features)
        shift = float(centre @ v)
        total = 0.0
        X = self.X
        for k in self._slabs(len(rows)):
            if self.sparse:
                total += _csr_curvature(
                    X.indptr, X.indices, X.data, rows[k], weight[k], shift, v, out
                )
            else:
                total += _dense_curvature(X, rows[k], weight[k], shift, v, out)
        out -= total * centre
        return out

    def spread(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the diagonal of sum_k weight_k (x_k - centre) (x_k - centre)'."""
        out = np.zeros(self.n_features)
        X = self.X
        for k in self._slabs(len(rows)):
            if self.sparse:
                _csr_squares(X.indptr, X.indices, X.data, rows[k], weight[k], out)
            else:
                _dense_squares(X, rows[k], weight[k], out)
        return np.maximum(out - weight.sum() * centre * centre, 0.0)

    def feature_gram(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return sum_k weight_k (x_k - centre) (x_k - centre)', of shape (d, d)."""
        out = np.zeros((self.n_features, self.n_features))
        for block, k in self._blocks(rows):
            scale = np.sqrt(weight[k])
            if self.sparse:
                scaled = sp.diags_array(scale) @ block
                out += (scaled.T @ scaled).toarray()
            else:
                scaled = (block - centre) * scale[:, None]
                out += scaled.T @ scaled
        if self.sparse:
            out -= weight.sum() * np.outer(centre, centre)
        return out

    def row_gram(self, rows: IntArray, centre: FloatArray) -> FloatArray:
        """Return (x_k - centre) . (x_l - centre) for all pairs of the given rows."""
        if not self.sparse:
            block = self.X[rows].astype(np.float64) - centre
            return np.asarray(block @ block.T)
        block = self.X[rows].astype(np.float64)
        side = block @ centre
        gram: FloatArray = (block @ block.T).toarray()
        gram -= side[:, None]
        gram -= side
        gram += centre @ centre
        return gram

    def _blocks(self, rows: IntArray) -> Iterator[tuple[Any, slice]]:
        """Yield float64 copies of some rows, a few MB at a time, and their places."""
        per_row = max(1, self.size_of(rows) // max(1, len(rows)))
        step = max(1, BLOCK // per_row)
        for first in range(0, len(rows), step):
            k = slice(first, min(first + step, len(rows)))
            yield self.X[rows[k]].astype(np.float64), k
            self.tick()
