"""How a tile of kernel values is made: the seam between kernels and the array library.

Each class below turns some rows into a left operand, some into a right operand, and two operands
into a tile of kernel values. Nothing else in the library computes a kernel value, so an array
library for another device can take its place here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from widemargin._jit import jit
from widemargin._typing import FloatArray, IntArray, Matrix, RealArray

KEPT_VALUES = 20_000_000  # 80 MB: larger data are prepared tile by tile, again for each use

Transform = Callable[[RealArray], None]


class Tiles(Protocol):
    """What :class:`widemargin.kernels.Rows` needs to compute blocks."""

    width: int
    thread_safe: bool

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Prepare rows for the left side of a tile."""

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Prepare rows for the right side of a tile."""

    def write(self, left: Any, right: Any, out: RealArray) -> None:
        """Write the kernel values of two operands to out."""


class DenseTiles:
    """Dense rows: one BLAS product, then the transform in place while the tile is in cache.

    With `scale` (rbf), the squared norms ride along in two extra columns, so that the product is
    already the exponent -sum_j gamma_j (x_j - z_j)^2, scale = sqrt(2 gamma).
    """

    width = 2048
    thread_safe = True

    def __init__(
        self,
        X: RealArray,
        transform: Transform,
        scale: FloatArray | None = None,
        centre: FloatArray | None = None,
    ) -> None:
        self.X = X
        self.transform = transform
        self.scale = scale
        self.centre = centre
        self.kept: RealArray | None = None  # the float32 operand of all rows, once it was needed

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """Rows, and for the rbf kernel (-|z|^2 / 2, 1)."""
        if self.scale is None:
            return np.asarray(self.X[rows], dtype=dtype)
        if dtype == np.float32 and self.X.size <= KEPT_VALUES:
            if self.kept is None:
                self.kept = self._augmented(self.X, dtype)
            return self.kept[rows]
        return self._augmented(self.X[rows], dtype)

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """Rows as columns, and for the rbf kernel (1, -|z|^2 / 2)."""
        operand = self.left(rows, dtype)
        if self.scale is not None:
            operand[:, [-2, -1]] = operand[:, [-1, -2]]
        return operand.T

    def _augmented(self, X: RealArray, dtype: np.dtype[Any]) -> RealArray:
        assert self.scale is not None and self.centre is not None
        out = np.empty((len(X), X.shape[1] + 2), dtype=dtype)
        # The mean is the origin: it shrinks the squared norms, whose difference is the exponent.
        shifted = np.subtract(X, self.centre, dtype=np.float64)
        z = out[:, :-2]
        np.multiply(shifted, self.scale, out=z, casting="same_kind")
        # The norms of the rounded rows, so that k(x, x) = 1 up to the rounding of one product.
        out[:, -2] = -0.5 * np.einsum("ij,ij->i", z, z, dtype=np.float64)
        out[:, -1] = 1.0
        return out

    def write(self, left: RealArray, right: RealArray, out: RealArray) -> None:
        """One product and its transform."""
        np.matmul(left, right, out=out)
        self.transform(out)


class SparseTiles:
    """CSR rows: each row against a dense table of the columns that the other side uses.

    With `gamma` (rbf, one value a feature) the exponent is 2 sum gamma x z - |x|^2 - |z|^2 in
    the norm weighted by gamma.
    """

    width = 256
    thread_safe = True

    def __init__(self, X: Any, transform: Transform, gamma: FloatArray | None = None) -> None:
        self.X = X
        self.transform = transform
        self.gamma = gamma

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """CSR arrays (times 2 gamma for rbf) and squared norms."""
        X = self.X[rows]
        if self.gamma is None:
            return X.data.astype(dtype), X.indices, X.indptr, np.zeros(X.shape[0], dtype=dtype)
        data = X.data * (2.0 * self.gamma[X.indices])
        return data.astype(dtype), X.indices, X.indptr, self._norms(X).astype(dtype)

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """The columns that occur, densely, where each one stands, and squared norms."""
        Z = self.X[rows]
        position = np.full(Z.shape[1], -1, dtype=np.intp)
        position[Z.indices] = 0
        used = np.flatnonzero(position == 0)
        position[used] = np.arange(len(used))
        table = np.zeros((len(used), Z.shape[0]), dtype=dtype)
        row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        table[position[Z.indices], row] = Z.data  # canonical CSR: no entry occurs twice
        norms = np.zeros(Z.shape[0]) if self.gamma is None else self._norms(Z)
        return position, table, norms.astype(dtype)

    def _norms(self, X: Any) -> FloatArray:
        assert self.gamma is not None
        weighted = X.data.astype(np.float64) ** 2 * self.gamma[X.indices]
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.asarray(np.bincount(row, weighted, X.shape[0]), dtype=np.float64)

    def write(self, left: Any, right: Any, out: RealArray) -> None:
        """Products of sparse rows with the table, then the transform."""
        tile = out if out.flags.c_contiguous else np.empty(out.shape, dtype=out.dtype)
        sparse_product(*left, *right, tile)
        self.transform(tile)
        if tile is not out:
            out[...] = tile


class LookedUpTiles:
    """A precomputed kernel matrix: values are looked up."""

    width = 1 << 30
    thread_safe = True

    def __init__(self, K: RealArray) -> None:
        self.K = K

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """The rows of the matrix."""
        return self.K[rows]

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> IntArray:
        """The numbers of the columns."""
        return rows

    def write(self, left: RealArray, right: IntArray, out: RealArray) -> None:
        """Pick the columns."""
        out[...] = left[:, right]


class CalledTiles:
    """A kernel function of the user."""

    width = 1 << 30
    thread_safe = False  # the user's function need not be

    def __init__(self, function: Callable[[Any, Any], ArrayLike], X: Matrix) -> None:
        self.function = function
        self.X = X

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Matrix:
        """The rows themselves."""
        return self.X[rows]

    right = left

    def write(self, left: Matrix, right: Matrix, out: RealArray) -> None:
        """Call the function and check the shape of what it returns."""
        values = np.asarray(self.function(left, right))
        if values.shape != out.shape:
            raise ValueError(
                "kernel must return an array of shape (n_rows_X, n_rows_Y): called on "
                f"{out.shape[0]} and {out.shape[1]} rows it returned shape {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError("kernel returned NaN or infinity; it must return finite numbers")
        out[...] = values


@jit(fast=True)
def sparse_product(data, indices, indptr, offset, position, table, shift, out):  # type: ignore[no-untyped-def]
    """Write the product of CSR rows and a table of columns, less offset (rows) and shift (columns).

    Four table rows are added at a time: the row of the result is the bottleneck otherwise.
    """
    n_columns = out.shape[1]
    found = np.empty(table.shape[0] + 4, np.int64)
    value = np.empty(table.shape[0] + 4, out.dtype)
    for r in range(out.shape[0]):
        row = out[r]
        base = offset[r]
        for t in range(n_columns):
            row[t] = -base - shift[t]
        hits = 0
        for k in range(indptr[r], indptr[r + 1]):
            p = position[indices[k]]
            if p >= 0:
                found[hits] = p
                value[hits] = data[k]
                hits += 1
        for k in range(hits, hits + 3):
            found[k] = 0
            value[k] = 0
        for k in range(0, hits, 4):
            v0, v1, v2, v3 = value[k], value[k + 1], value[k + 2], value[k + 3]
            c0, c1 = table[found[k]], table[found[k + 1]]
            c2, c3 = table[found[k + 2]], table[found[k + 3]]
            for t in range(n_columns):
                row[t] += v0 * c0[t] + v1 * c1[t] + v2 * c2[t] + v3 * c3[t]
