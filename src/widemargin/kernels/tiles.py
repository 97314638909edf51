"""Computation of tiles of kernel values: dense, sparse, precomputed and user-defined kernels.

Each class below prepares samples as left and right operands, and computes a tile of kernel values
from two operands. No other module computes kernel values, so that an array library for another
device would only have to be supported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray, Matrix, RealArray

if TYPE_CHECKING:
    from widemargin.kernels import Kernel

KEPT_VALUES = 20_000_000  # 80 MB; operands of larger data are recomputed for each tile

# Half the squared norm, in units of the kernel width, beyond which rounding changes a kernel value
# by more than 1e-9 (1e-3 in float32, which only guides solvers).
FAR_NORM = {np.float64: 2.0**13, np.float32: 2.0**13}
BASE_UNITS = 1e3  # roundings of the base of a polynomial kernel, of which a negative one is zero

Transform = Callable[[RealArray], None]


class Tiles(Protocol):
    """Protocol of the tile classes used by :class:`widemargin.kernels.Rows`."""

    width: int
    thread_safe: bool

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Return the left operand of some rows."""

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Return the right operand of some rows."""

    def write(self, left: Any, right: Any, out: RealArray) -> None:
        """Write the tile of kernel values of two operands to out."""


class DenseTiles:
    """Tiles of dense data: one BLAS product, transformed in place while the tile is in cache.

    With `scale` = sqrt(2 gamma) (rbf), two extra columns hold the squared norms, so that the
    product is already the exponent -sum_j gamma_j (x_j - z_j)^2. The exponent is a difference of
    numbers as large as the squared norms. For pairs of samples that are both far from the origin,
    relative to the kernel width, it suffers from cancellation and is computed from the differences
    of the features instead.
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
        self.kept: RealArray | None = None  # float32 operand of all rows, computed on first use

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """Return the rows, augmented by (-|z|^2 / 2, 1) for the rbf kernel."""
        if self.scale is None:
            return np.asarray(self.X[rows], dtype=dtype)
        if dtype == np.float32 and self.X.size <= KEPT_VALUES:
            if self.kept is None:
                self.kept = self._augmented(self.X, dtype)
            return self.kept[rows]
        return self._augmented(self.X[rows], dtype)

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """Return the transposed rows, augmented by (1, -|z|^2 / 2) for the rbf kernel."""
        operand = self.left(rows, dtype)
        if self.scale is not None:
            operand[:, [-2, -1]] = operand[:, [-1, -2]]
        return operand.T

    def _augmented(self, X: RealArray, dtype: np.dtype[Any]) -> RealArray:
        assert self.scale is not None and self.centre is not None
        out = np.empty((len(X), X.shape[1] + 2), dtype=dtype)
        # Centring reduces the squared norms, and with them the cancellation in the exponent.
        shifted = np.subtract(X, self.centre, dtype=np.float64)
        z = out[:, :-2]
        np.multiply(shifted, self.scale, out=z, casting="same_kind")
        # Norms of the rounded rows, so that k(x, x) = 1 up to the rounding error of one product.
        with np.errstate(over="ignore"):  # an infinite norm counts as far, see _write_exponents
            out[:, -2] = -0.5 * np.einsum("ij,ij->i", z, z, dtype=np.float64)
        if not np.isfinite(z).all():
            raise ValueError(overflow_message(out.dtype))
        out[:, -1] = 1.0
        return out

    def write(self, left: RealArray, right: RealArray, out: RealArray) -> None:
        """Compute the product and transform it in place."""
        if self.scale is None:
            np.matmul(left, right, out=out)
        else:
            self._write_exponents(left, right, out)
        self.transform(out)

    def _write_exponents(self, left: RealArray, right: RealArray, out: RealArray) -> None:
        far = FAR_NORM[out.dtype.type]
        rows, columns = np.flatnonzero(left[:, -2] < -far), np.flatnonzero(right[-1] < -far)
        if not (len(rows) and len(columns)):
            np.matmul(left, right, out=out)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # only in pairs overwritten below
            np.matmul(left, right, out=out)
            apart = cdist(left[rows, :-2], right[:-2, columns].T, "sqeuclidean")
            out[np.ix_(rows, columns)] = -0.5 * apart


def overflow_message(dtype: Any) -> str:
    """Return the error message for an overflow in the exponents of the rbf kernel."""
    return (
        f"gamma times the rows of X overflows {np.dtype(dtype)}: scale the features (e.g. with "
        "StandardScaler) or lower gamma"
    )


class SparseTiles:
    """Tiles of CSR data: sparse rows times a dense table of the features that the columns use.

    With `gamma` (rbf, one value per feature) the exponent is 2 sum gamma x z - |x|^2 - |z|^2 in
    the norm weighted by gamma.
    """

    width = 256
    thread_safe = True

    def __init__(self, X: Any, transform: Transform, gamma: FloatArray | None = None) -> None:
        self.X = X
        self.transform = transform
        self.gamma = gamma

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Return the CSR arrays (data times 2 gamma for rbf), the squared norms and the rows."""
        X = self.X[rows]
        if self.gamma is None:
            offset = np.zeros(X.shape[0], dtype=dtype)
            return X.data.astype(dtype), X.indices, X.indptr, offset, X
        data = X.data * (2.0 * self.gamma[X.indices])
        scaled = data.astype(dtype), X.indices, X.indptr, self._norms(X, dtype)
        if not np.isfinite(scaled[0]).all():
            raise ValueError(overflow_message(dtype))
        return *scaled, X

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> Any:
        """Return the table positions of the features, the dense table, squared norms and rows."""
        Z = self.X[rows]
        position = np.full(Z.shape[1], -1, dtype=np.intp)
        position[Z.indices] = 0
        used = np.flatnonzero(position == 0)
        position[used] = np.arange(len(used))
        table = np.zeros((len(used), Z.shape[0]), dtype=dtype)
        row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        table[position[Z.indices], row] = Z.data  # canonical CSR has no duplicate entries
        norms = np.zeros(Z.shape[0], dtype) if self.gamma is None else self._norms(Z, dtype)
        return position, table, norms, Z

    def _norms(self, X: Any, dtype: np.dtype[Any]) -> RealArray:
        assert self.gamma is not None
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        with np.errstate(over="ignore"):  # an infinite norm counts as far
            weighted = X.data.astype(np.float64) ** 2 * self.gamma[X.indices]
            return np.asarray(np.bincount(row, weighted, X.shape[0]).astype(dtype))

    def write(self, left: Any, right: Any, out: RealArray) -> None:
        """Compute the products of the sparse rows with the table and transform them."""
        tile = out if out.flags.c_contiguous else np.empty(out.shape, dtype=out.dtype)
        *rows, X = left
        *columns, Z = right
        sparse_product(*rows, *columns, tile)
        if self.gamma is not None:
            self._replace_far_pairs(X, rows[-1], Z, columns[-1], tile)
        self.transform(tile)
        if tile is not out:
            out[...] = tile

    def _replace_far_pairs(
        self, X: Any, offset: RealArray, Z: Any, shift: RealArray, tile: RealArray
    ) -> None:
        """Recompute exponents from differences if both samples are far, as for dense data."""
        far = 2.0 * FAR_NORM[tile.dtype.type]
        rows, columns = np.flatnonzero(offset > far), np.flatnonzero(shift > far)
        if len(rows) and len(columns):
            X, Z = X[rows].astype(np.float64), Z[columns].astype(np.float64)
            apart = np.empty((len(rows), len(columns)))
            squared_distances(
                X.data, X.indices, X.indptr, Z.data, Z.indices, Z.indptr, self.gamma, apart
            )
            with np.errstate(over="ignore"):
                tile[np.ix_(rows, columns)] = -apart


class LookedUpTiles:
    """Tiles of a precomputed kernel matrix."""

    width = 1 << 30
    thread_safe = True

    def __init__(self, K: RealArray) -> None:
        self.K = K

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> RealArray:
        """Return the rows of the kernel matrix."""
        return self.K[rows]

    def right(self, rows: IntArray, dtype: np.dtype[Any]) -> IntArray:
        """Return the column indices."""
        return rows

    def write(self, left: RealArray, right: IntArray, out: RealArray) -> None:
        """Copy the columns of the given rows."""
        out[...] = left[:, right]


class CalledTiles:
    """Tiles of a user-defined kernel function."""

    width = 1 << 30

    def __init__(self, function: Callable[[Any, Any], ArrayLike], X: Matrix) -> None:
        self.function = function
        self.thread_safe = hasattr(function, "_log_parameters")  # a function may not be
        self.X = X

    def left(self, rows: IntArray, dtype: np.dtype[Any]) -> Matrix:
        """Return the rows of X."""
        return self.X[rows]

    right = left

    def write(self, left: Matrix, right: Matrix, out: RealArray) -> None:
        """Call the kernel function; raise if the shape is wrong or a value is not finite."""
        returned: Any = self.function(left, right)
        values = returned.toarray() if sp.issparse(returned) else np.asarray(returned)
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
    """Write CSR rows times table, minus offset (per row) and shift (per column), to out.

    Four table rows are added at a time, since reading and writing the row of the result is
    otherwise the bottleneck.
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
        # Pad with zeros to a multiple of four.
        for k in range(hits, hits + 3):
            found[k] = 0
            value[k] = 0
        for k in range(0, hits, 4):
            v0, v1, v2, v3 = value[k], value[k + 1], value[k + 2], value[k + 3]
            c0, c1 = table[found[k]], table[found[k + 1]]
            c2, c3 = table[found[k + 2]], table[found[k + 3]]
            for t in range(n_columns):
                row[t] += v0 * c0[t] + v1 * c1[t] + v2 * c2[t] + v3 * c3[t]


def tiles_for(kernel: Kernel, X: Matrix, centre: FloatArray | None) -> Tiles:
    """Return the tile object for a kernel and data; `centre` is used for dense rbf only."""
    if kernel.name == "precomputed":
        return LookedUpTiles(X)
    if kernel.function is not None:
        return CalledTiles(kernel.function, X)
    gamma = np.asarray(kernel.gamma, dtype=np.float64) if kernel.name == "rbf" else None
    if sp.issparse(X):
        per_feature = None if gamma is None else np.broadcast_to(gamma, X.shape[1]).copy()
        return SparseTiles(X, kernel.transform, per_feature)
    scale = None if gamma is None else np.sqrt(2.0 * gamma)
    return DenseTiles(X, kernel.transform, scale, centre)


def operand_bytes(operand: Any) -> int:
    """Return the memory of an operand in bytes."""
    parts = operand if isinstance(operand, tuple) else (operand,)
    return sum(int(getattr(part, "nbytes", 0)) for part in parts)


def set_own(
    tile: RealArray,
    itself: IntArray | None,
    down: slice,
    across: slice,
    noise: FloatArray | None = None,
) -> None:
    """Set k(x, x) = 1, or add noise to it, where row and column of the tile are the same sample."""
    if itself is None:
        return
    place = itself[down]
    met = np.flatnonzero((place >= across.start) & (place < across.stop))
    if noise is None:
        tile[met, place[met] - across.start] = 1.0
    else:
        tile[met, place[met] - across.start] += noise[down][met]


def spans_of(n: int, width: int) -> list[slice]:
    """Return slices of at most `width` that cover range(n)."""
    return [slice(start, min(start + width, n)) for start in range(0, n, width)]


def raise_to(base: RealArray, degree: float) -> None:
    """Raise base to a power in place; small integer degrees by multiplication, which is faster.

    Raises
    ------
    ValueError
        If the degree is not a whole number and some base is negative beyond rounding.
    """
    if float(degree).is_integer() and 1 <= degree <= 8:
        factor = base.copy()
        for _ in range(int(degree) - 1):
            base *= factor
        return
    if not float(degree).is_integer():
        least, largest = float(base.min(initial=0.0)), float(base.max(initial=0.0))
        if least < -BASE_UNITS * np.finfo(base.dtype).eps * max(largest, -least):
            raise ValueError(
                "degree must be a whole number if gamma * x'z + coef0 is negative for some pair "
                f"of samples, as here ({least:.3g}); got degree={degree!r}. Round it, raise "
                "coef0, or scale the features to be non-negative"
            )
        np.maximum(base, 0.0, out=base)
    np.power(base, degree, out=base)


@jit
def squared_distances(data, indices, indptr, other, other_indices, other_indptr, gamma, out):  # type: ignore[no-untyped-def]
    """Write sum_j gamma_j (x_j - z_j)^2 of all pairs of CSR rows with sorted indices to out."""
    for r in range(out.shape[0]):
        for c in range(out.shape[1]):
            total = 0.0
            p, p_end = indptr[r], indptr[r + 1]
            q, q_end = other_indptr[c], other_indptr[c + 1]
            while p < p_end or q < q_end:
                # Merge the two index lists: a feature missing from one row is zero there.
                column = indices[p] if p < p_end else other_indices[q]
                if q < q_end and other_indices[q] < column:
                    column = other_indices[q]
                difference = 0.0
                if p < p_end and indices[p] == column:
                    difference += data[p]
                    p += 1
                if q < q_end and other_indices[q] == column:
                    difference -= other[q]
                    q += 1
                total += gamma[column] * difference * difference
            out[r, c] = total
