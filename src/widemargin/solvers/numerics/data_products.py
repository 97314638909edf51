"""Products with dense and CSR data matrices in float64, as needed by linear solvers.

All sums are float64, also for float32 data, and matrix-vector products read the data in place,
without conversion, copy or transposition. Long products are split into slabs of a few milliseconds
and ``tick`` is called in between, so that interrupts and time limits take effect.
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
FEW = 2000  # largest number of samples whose Gram matrix is kept: 32 MB
BLOCK = 1 << 19  # values of a float64 copy of samples: 4 MB


@jit
def _dense_dot(X: Any, w: Any, out: Any) -> None:
    """Compute out[i] = x_i . w.

    Without fast=True the compiler may not reorder a sum. Four interleaved partial sums fit into
    one vector register and are independent of each other.
    """
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
    """Add sum_i coef_i x_i to out; samples with coefficient zero are not read."""
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
    """Compute out[i] = x_i . w.

    An unsigned index is faster in the loops over CSR samples: it needs no test for a negative one.
    """
    for i in range(len(out)):
        s = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            s += data[p] * w[np.uintp(indices[p])]
        out[i] = s


@jit
def _csr_combine(indptr: Any, indices: Any, data: Any, coef: Any, out: Any) -> None:
    """Add sum_i coef_i x_i to out; samples with coefficient zero are not read."""
    for i in range(len(coef)):
        c = coef[i]
        if c != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                out[np.uintp(indices[p])] += c * data[p]


@jit  # with fast=True the compiler gathers vectors, which is slower than single loads
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
            z += data[p] * v[np.uintp(indices[p])]
        z *= weight[k]
        total += z
        for p in range(first, last):
            out[np.uintp(indices[p])] += z * data[p]
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
            out[np.uintp(indices[p])] += weight[k] * data[p] * data[p]


class LinearRows:
    """Data matrix with the products that linear solvers need.

    Parameters
    ----------
    X : ndarray of shape (n, d) or CSR matrix
        Samples, float32 or float64.
    tick : callable, optional
        Called by the calling thread inside long products; by default a no-op.
    threads : int
        Number of threads for long products; the results are identical to the last bit.
    constant : bool
        Whether the last feature is constant, with an intercept as its weight.
    """

    def __init__(
        self,
        X: Matrix,
        tick: Callable[[], None] = lambda: None,
        *,
        threads: int = 1,
        constant: bool = False,
    ) -> None:
        self.X = X
        self.constant = constant
        self.sparse = bool(sp.issparse(X))
        self.n_rows, self.n_features = X.shape
        self.n_values = int(X.nnz if self.sparse else X.size)
        self.tick = tick
        self.threads = threads
        self.products: FloatArray | None = None  # Gram matrix of all samples about `origin`
        self.origin = np.zeros(self.n_features)

    def _arrays(self, s: slice) -> tuple[Any, ...]:
        """Return a slice of the samples as the first arguments of a compiled loop."""
        if self.sparse:
            return self.X.indptr[s.start : s.stop + 1], self.X.indices, self.X.data
        return (self.X[s],)

    def _over_slabs(self, n_rows: int, function: Callable[[int, slice], None]) -> int:
        """Call function(number, slab) on slabs of n_rows samples; return the number of slabs."""
        per_row = max(1, self.n_values // max(1, self.n_rows))
        step = max(1, SLAB // per_row)
        slabs = [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]
        if len(slabs) == 1:
            function(0, slabs[0])
            self.tick()
            return 1
        batch = 8 * self.threads  # a few milliseconds between two calls of tick
        for first in range(0, len(slabs), batch):
            numbers = range(first, min(first + batch, len(slabs)))
            for_each(lambda i: function(i, slabs[i]), numbers, min(self.threads, len(numbers)))
            self.tick()
        return len(slabs)

    def _summed(self, n_rows: int, add: Callable[[slice, FloatArray], float | None]) -> Any:
        """Return the sums of `out` and of the return values of add(slab, out) over all slabs.

        Each slab has its own accumulator, and these are added in the order of the slabs: the result
        does not depend on the number of threads.
        """
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
        """Return sum_k weight_k (x_k - centre) (x_k - centre)' v over the given samples."""
        whole = self._arrays(slice(0, self.n_rows))
        loop = _csr_curvature if self.sparse else _dense_curvature
        shift = float(centre @ v)
        out, total = self._summed(
            len(rows), lambda k, out: loop(*whole, rows[k], weight[k], shift, v, out)
        )
        out -= total * centre
        return out

    def spread(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the diagonal of sum_k weight_k (x_k - centre) (x_k - centre)'.

        `centre` must be the weighted mean of these samples, or zero.
        """
        whole = self._arrays(slice(0, self.n_rows))
        loop = _csr_squares if self.sparse else _dense_squares
        out, _ = self._summed(len(rows), lambda k, out: loop(*whole, rows[k], weight[k], out))
        return np.maximum(out - weight.sum() * centre * centre, 0.0)

    def take(self, rows: IntArray) -> LinearRows:
        """Return a copy of some samples."""
        return LinearRows(self.X[rows], self.tick, threads=self.threads, constant=self.constant)

    def size_of(self, rows: IntArray) -> int:
        """Return the number of stored values of some samples."""
        if self.sparse:
            return int((self.X.indptr[rows + 1] - self.X.indptr[rows]).sum())
        return len(rows) * self.n_features

    def feature_gram(self, rows: IntArray, weight: FloatArray, centre: FloatArray) -> FloatArray:
        """Return sum_k weight_k (x_k - centre) (x_k - centre)', of shape (d, d).

        `centre` must be the weighted mean of these samples, or zero.
        """
        out = np.zeros((self.n_features, self.n_features))
        thin = self.sparse and self._thin(rows)
        for block, k in self._blocks(rows, dense=not thin):
            root = np.sqrt(weight[k])
            if thin:  # centring would make the block dense: subtract the centre from the sum
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
        """Estimate the time of :meth:`feature_gram` or :meth:`row_gram` in nanoseconds."""
        size, order = self.size_of(rows), min(len(rows), self.n_features)
        if self.sparse and self._thin(rows):
            work = 3.0 * size * size / len(rows)
        else:
            work = 0.1 * len(rows) * self.n_features * order
        if len(rows) >= self.n_features or not self._worth_keeping(rows):
            return work
        # Kept for further calls: free once computed, and before that shared by about ten of them.
        return 0.0 if self.products is not None else 0.1 * work

    def _thin(self, rows: IntArray) -> bool:
        """Return whether samples are so sparse that products of sparse matrices are cheaper."""
        return 30.0 * (self.size_of(rows) / len(rows)) ** 2 < self.n_features**2

    def row_gram(self, rows: IntArray, centre: FloatArray) -> FloatArray:
        """Return the centred Gram matrix (x_k - centre) . (x_l - centre) of the given samples."""
        if not self._worth_keeping(rows):
            return self._products(rows, centre)
        if self.products is None:
            # Centre at the mean: products about the origin lose digits if the mean is large.
            self.origin = self.combine(np.full(self.n_rows, 1.0 / self.n_rows))
            self.products = self._products(np.arange(self.n_rows), self.origin)
        return self._moved(self.products[np.ix_(rows, rows)], rows, self.origin, centre)

    def _moved(
        self, gram: FloatArray, rows: IntArray, origin: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Shift a Gram matrix in place from products about `origin` to those about `centre`."""
        shift = centre - origin
        side = self.dot(shift)[rows] - origin @ shift
        gram -= side[:, None]
        gram -= side
        gram += shift @ shift
        return gram

    def _products(self, rows: IntArray, centre: FloatArray) -> FloatArray:
        """Compute the centred Gram matrix of the given samples from the data."""
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
        """Return whether to keep the Gram matrix of all samples for further calls."""
        return self.products is not None or (
            self.n_rows <= FEW and 2 * len(rows) > self.n_rows and self.n_rows < self.n_features
        )

    def _blocks(self, rows: IntArray, *, dense: bool) -> Iterator[tuple[Any, slice]]:
        """Yield float64 copies of some samples, a few MB at a time, and their positions."""
        per_row = self.n_features if dense else 1 + self.size_of(rows) // len(rows)
        step = max(1, BLOCK // per_row)
        for first in range(0, len(rows), step):
            k = slice(first, min(first + step, len(rows)))
            block = self.X[rows[k]]
            if dense and self.sparse:
                block = block.toarray()
            yield block.astype(np.float64, copy=False), k
            self.tick()
