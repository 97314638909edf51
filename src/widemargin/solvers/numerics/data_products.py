"""Multiply with dense and CSR data in float64: every product that a linear solver needs.

All sums are float64 whatever the data are, and the data are read where they lie: no product
converts, copies or transposes them. Long products are cut into slabs of a few milliseconds, with a
call of ``tick`` after each, so that interrupts and time budgets act inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.jit import jit
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, Matrix

SLAB = 1 << 20  # stored values that one thread reads at a time: about a millisecond
FEW = 2000  # rows whose products with each other may be kept: 32 MB
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


class LinearRows:
    """A data matrix seen through the products of a linear machine.

    Parameters
    ----------
    X : ndarray of shape (n, d) or CSR matrix
        float32 or float64.
    tick : callable, optional
        Called by this thread inside long products; by default nothing happens.
    threads : int
        Number of threads for long products; it does not change a bit of the results.
    """

    def __init__(
        self, X: Matrix, tick: Callable[[], None] = lambda: None, *, threads: int = 1
    ) -> None:
        self.X = X
        self.sparse = bool(sp.issparse(X))
        self.n_rows, self.n_features = X.shape
        self.n_values = int(X.nnz if self.sparse else X.size)
        self.tick = tick
        self.threads = threads
        self.products: FloatArray | None = None  # of all rows about origin, where they are few
        self.origin = np.zeros(self.n_features)

    def _arrays(self, s: slice) -> tuple[Any, ...]:
        """Return the arguments by which compiled loops know a stretch of rows."""
        if self.sparse:
            return self.X.indptr[s.start : s.stop + 1], self.X.indices, self.X.data
        return (self.X[s],)

    def _over_slabs(self, n_rows: int, function: Callable[[int, slice], None]) -> int:
        """Call function(number, slab) on slabs of n_rows rows, in batches; return their number."""
        per_row = max(1, self.n_values // max(1, self.n_rows))
        step = max(1, SLAB // per_row)
        slabs = [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]
        if len(slabs) == 1:
            function(0, slabs[0])
            self.tick()
            return 1
        batch = 8 * self.threads
        for first in range(0, len(slabs), batch):
            numbers = range(first, min(first + batch, len(slabs)))
            for_each(lambda i: function(i, slabs[i]), numbers, min(self.threads, len(numbers)))
            self.tick()
        return len(slabs)

    def _summed(self, n_rows: int, add: Callable[[slice, FloatArray], float | None]) -> Any:
        """Sum what add(slab, out) adds to out and returns over all slabs, in their order."""
        parts: dict[int, tuple[FloatArray, float]] = {}

        def work(number: int, slab: slice) -> None:
            out = np.zeros(self.n_features)
            parts[number] = out, add(slab, out) or 0.0

        count = self._over_slabs(n_rows, work)
        out, total = parts.get(0, (np.zeros(self.n_features), 0.0))
        for number in range(1, count):
            out += parts[number][0]
            total += parts[number][1]
        return out, total

    def dot(self, w: FloatArray) -> FloatArray:
        """Return X w."""
        out = np.empty(self.n_rows)
        loop = _csr_dot if self.sparse else _dense_dot
        self._over_slabs(self.n_rows, lambda _, s: loop(*self._arrays(s), w, out[s]))
        return out

    def combine(self, coef: FloatArray) -> FloatArray:
        """Return X' coef."""
        loop = _csr_combine if self.sparse else _dense_combine
        out, _ = self._summed(self.n_rows, lambda s, out: loop(*self._arrays(s), coef[s], out))
        return out

    def curvature(
        self, rows: IntArray, weight: FloatArray, centre: FloatArray, v: FloatArray
    ) -> FloatArray:
        """Return sum_k weight_k (x_k - centre) (x_k - centre)' v over the given rows."""
        whole = self._arrays(slice(0, self.n_rows))
        loop = _csr_curvature if self.sparse else _dense_curvature
        shift = float(centre @ v)
        out, total = self._summed(
            len(rows), lambda k, out: loop(*whole, rows[k], weight[k], shift, v, out)
        )
        out -= total * centre
        return out

    def spread(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the diagonal of sum_k weight_k (x_k - centre) (x_k - centre)'."""
        whole = self._arrays(slice(0, self.n_rows))
        loop = _csr_squares if self.sparse else _dense_squares
        out, _ = self._summed(len(rows), lambda k, out: loop(*whole, rows[k], weight[k], out))
        return np.maximum(out - weight.sum() * centre * centre, 0.0)

    def take(self, rows: IntArray) -> LinearRows:
        """Return a copy of some rows."""
        return LinearRows(self.X[rows], self.tick, threads=self.threads)

    def size_of(self, rows: IntArray) -> int:
        """Return the number of values stored in some rows."""
        if self.sparse:
            return int((self.X.indptr[rows + 1] - self.X.indptr[rows]).sum())
        return len(rows) * self.n_features

    def feature_gram(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return sum_k weight_k (x_k - centre) (x_k - centre)', of shape (d, d)."""
        out = np.zeros((self.n_features, self.n_features))
        thin = self.sparse and self._thin(rows)
        for block, k in self._blocks(rows, dense=not thin):
            root = np.sqrt(weight[k])
            if thin:
                scaled = sp.diags_array(root) @ block
                out += (scaled.T @ scaled).toarray()
            else:
                block -= centre
                block *= root[:, None]
                out += block.T @ block
        if thin:
            out -= weight.sum() * np.outer(centre, centre)
        return out

    def cost_of_gram(self, rows: IntArray) -> float:
        """Return the work of :meth:`feature_gram` or :meth:`row_gram` in nanoseconds, roughly."""
        size, order = self.size_of(rows), min(len(rows), self.n_features)
        if self.sparse and self._thin(rows):
            work = 3.0 * size * size / len(rows)
        else:
            work = 0.1 * len(rows) * self.n_features * order
        if len(rows) >= self.n_features or not self._worth_keeping(rows):
            return work
        return 0.0 if self.products is not None else 0.1 * work

    def _thin(self, rows: IntArray) -> bool:
        """Whether rows hold so few values that products of sparse matrices are cheaper."""
        return 30.0 * (self.size_of(rows) / len(rows)) ** 2 < self.n_features**2

    def row_gram(self, rows: IntArray, centre: FloatArray) -> FloatArray:
        """Return (x_k - centre) . (x_l - centre) for all pairs of the given rows."""
        if not self._worth_keeping(rows):
            return self._products(rows, centre)
        if self.products is None:
            # Products about the mean: about zero, a large offset would swallow their digits.
            self.origin = self.combine(np.full(self.n_rows, 1.0 / self.n_rows))
            self.products = self._products(np.arange(self.n_rows), self.origin)
        return self._moved(self.products[np.ix_(rows, rows)], rows, self.origin, centre)

    def _moved(
        self, gram: FloatArray, rows: IntArray, origin: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the products about centre, given those about origin (which is overwritten)."""
        shift = centre - origin
        side = self.dot(shift)[rows] - origin @ shift
        gram -= side[:, None]
        gram -= side
        gram += shift @ shift
        return gram

    def _products(self, rows: IntArray, centre: FloatArray) -> FloatArray:
        """Compute (x_k - centre) . (x_l - centre) for all pairs of the given rows."""
        if self.sparse:
            some = self.X[rows].astype(np.float64, copy=False)
            gram: FloatArray = (some @ some.T).toarray()
            return self._moved(gram, rows, np.zeros(self.n_features), centre)
        out = np.zeros((len(rows), len(rows)))
        step = max(1, BLOCK // len(rows))
        for first in range(0, self.n_features, step):
            stretch = slice(first, first + step)
            block = self.X[rows, stretch] - centre[stretch]
            out += block @ block.T
            self.tick()
        return out

    def _worth_keeping(self, rows: IntArray) -> bool:
        """Whether the products of all rows are kept for further calls."""
        return self.products is not None or (
            self.n_rows <= FEW and 2 * len(rows) > self.n_rows and self.n_rows < self.n_features
        )

    def _blocks(self, rows: IntArray, *, dense: bool) -> Iterator[tuple[Any, slice]]:
        """Yield float64 copies of some rows, a few MB at a time, and their places."""
        per_row = self.n_features if dense else 1 + self.size_of(rows) // len(rows)
        step = max(1, BLOCK // per_row)
        for first in range(0, len(rows), step):
            k = slice(first, min(first + step, len(rows)))
            block = self.X[rows[k]]
            if dense and self.sparse:
                block = block.toarray()
            yield block.astype(np.float64, copy=False), k
            self.tick()
