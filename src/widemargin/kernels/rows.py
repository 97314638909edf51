"""Blocks, diagonals and weighted sums of kernel values, computed tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, Matrix, RealArray
from widemargin.kernels.objects.questions import is_object, own_noise, own_values
from widemargin.kernels.single_rows import SingleRows, single_rows
from widemargin.kernels.tiles import operand_bytes, set_own, spans_of, tiles_for

if TYPE_CHECKING:
    from widemargin.kernels import Kernel

# Right operands of tiles, each with its column range.
_Operands: TypeAlias = list[tuple[slice, Any]]

# A tile of this many rows (see tiles.py for its width) and its operands stay in the cache while
# the exponentials are computed.
TILE_ROWS = 256
SYMMETRIC_TILE = 512
OPERAND_BYTES = 64_000_000  # memory limit for right operands held at once
WORTH_A_THREAD = 65_536  # below this number of kernel values, starting a thread costs more


class Rows:
    """Samples together with their kernel.

    Parameters
    ----------
    kernel : Kernel
        Kernel function.
    X : ndarray or CSR of shape (n, n_features)
        Samples; stored without a copy.
    centre : ndarray of shape (n_features,), optional
        Origin for the rbf kernel on dense data, the mean by default. Two objects used in the same
        block must have the same centre.
    threads : int, default=1
        Number of threads that compute the tiles of a block.

    Attributes
    ----------
    n : int
        Number of samples.
    evaluations : int
        Number of kernel values computed so far.
    stated : Rows
        Samples that the problem is stated on, for certificates: these, or those given by the user
        if these are a centred copy.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel, Rows
    >>> rows = Rows(Kernel("linear"), np.array([[1.0], [2.0]]))
    >>> both = np.arange(2)
    >>> rows.weighted_sum(both, rows, both, np.array([1.0, -1.0]))
    array([-1., -2.])
    """

    def __init__(
        self, kernel: Kernel, X: Matrix, centre: FloatArray | None = None, threads: int = 1
    ) -> None:
        self.kernel = kernel
        self.X = X
        self.n = X.shape[0]
        self.threads = threads
        self.evaluations = 0
        self.stated: Rows = self
        dense_rbf = kernel.name == "rbf" and not sp.issparse(X)
        self.centre = X.mean(axis=0, dtype=np.float64) if dense_rbf and centre is None else centre
        self.tiles = tiles_for(kernel, X, self.centre)

    @cached_property
    def single_rows(self) -> SingleRows | None:
        """The samples in the form for single kernel rows; None if these are not for them."""
        return single_rows(self)

    def part(self, rows: IntArray) -> Rows:
        """Return some of the samples with the same kernel and centre."""
        precomputed = self.kernel.name == "precomputed"
        X = self.X[np.ix_(rows, rows)] if precomputed else self.X[rows]
        part = Rows(self.kernel, X, self.centre)
        if self.stated is not self:
            part.stated = Rows(self.kernel, self.stated.X[rows], self.stated.centre)
        if "single_rows" in vars(self):
            part.single_rows = self.single_rows and self.single_rows.part(rows)
        return part

    def without_cache(self) -> Rows:
        """Return the same samples without the arrays that only a fit needs."""
        plain = Rows(self.kernel, self.X, self.centre)
        if self.stated is not self:
            plain.stated = self.stated
        return plain

    def diagonal(self) -> FloatArray:
        """Return k(x_i, x_i) in float64."""
        kernel, X = self.kernel, self.X
        if kernel.name == "rbf":
            return np.ones(self.n)
        if kernel.name == "precomputed":
            return np.diagonal(X).astype(np.float64)
        if is_object(kernel.function):
            function: Any = kernel.function
            return own_values(function, X)
        if kernel.function is not None:
            each = (self.block(i, self, i) for i in np.arange(self.n)[:, None])
            return np.array([float(value[0, 0]) for value in each])
        if sp.issparse(X):
            row = np.repeat(np.arange(self.n), np.diff(X.indptr))
            norms = np.bincount(row, X.data.astype(np.float64) ** 2, self.n).astype(np.float64)
        else:
            norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        kernel.transform(norms)
        return norms

    def block(
        self, rows: IntArray, other: Rows, columns: IntArray, dtype: DTypeLike = np.float64
    ) -> RealArray:
        """Return the kernel values between samples of self (rows) and of other (columns)."""
        out = np.empty((len(rows), len(columns)), dtype=dtype)

        itself, noise = self._meets_itself(rows, other, columns), self._noise_of(rows)

        def write(rights: _Operands, part: slice) -> None:
            left = self.tiles.left(rows[part], out.dtype)
            for span, right in rights:
                self.tiles.write(left, right, out[part, span])
                set_own(out[part, span], itself, part, span, noise)

        self._for_tiles(write, rows, other, columns, out.dtype)
        return out

    def _meets_itself(self, rows: IntArray, other: Rows, columns: IntArray) -> IntArray | None:
        """Return the column of each row's own sample (-1 if absent), or None where not needed.

        For the rbf kernel k(x, x) = 1 is set explicitly: the exponent of a narrow kernel has a
        rounding error, which large coefficients would amplify. Noise of a kernel object is added.
        """
        special = self.kernel.name == "rbf" or self.own_noise is not None
        if other is not self or not special:
            return None
        place = np.full(self.n, -1, dtype=np.intp)
        place[columns] = np.arange(len(columns))
        return place[rows]

    @cached_property
    def own_noise(self) -> FloatArray | None:
        """Noise in k(x_i, x_i) that is not in the kernel values of different samples, or None."""
        return own_noise(self.kernel.function, self.X)

    def _noise_of(self, rows: IntArray) -> FloatArray | None:
        return None if self.own_noise is None else self.own_noise[rows]

    def fill_symmetric(self, rows: IntArray, out: RealArray) -> None:
        """Write the symmetric matrix k(rows, rows) to out, computing one triangle of tiles."""
        spans, left, right = self._square(rows, out.dtype)
        itself, noise = self._meets_itself(rows, self, rows), self._noise_of(rows)

        def write(pair: tuple[int, int]) -> None:
            down, across = spans[pair[0]], spans[pair[1]]
            self.tiles.write(left(pair[0]), right(pair[1]), out[down, across])
            set_own(out[down, across], itself, down, across, noise)
            if down != across:
                out[across, down] = out[down, across].T

        pairs = [(i, j) for i in range(len(spans)) for j in range(i + 1)]
        self._share(write, pairs, len(rows) * (len(rows) + 1) // 2)

    def matrix(self) -> FloatArray:
        """Return the full kernel matrix in float64; the caller checks the memory."""
        K = np.empty((self.n, self.n))
        self.fill_symmetric(np.arange(self.n), K)
        return K

    def symmetric_sum(self, rows: IntArray, coefficients: FloatArray) -> FloatArray:
        """Return sum_j coefficients_j k(x_i, x_j) in float64, with i and j over the same rows."""
        if self.kernel.name == "linear" or sp.issparse(self.X):
            # Operands of sparse data are too large to keep for all tiles, too slow to recompute.
            return self.weighted_sum(rows, self, rows, coefficients)
        spans, left, right = self._square(rows, np.dtype(np.float64))
        itself, noise = self._meets_itself(rows, self, rows), self._noise_of(rows)
        out = np.zeros(len(rows))
        for i, down in enumerate(spans):
            # Sums are added in a fixed order, so that results do not depend on thread timing.
            parts: list[FloatArray] = [out[:0]] * (i + 1)

            def multiply(j: int, down: slice = down, i: int = i, parts: Any = parts) -> None:
                across = spans[j]
                tile = np.empty((down.stop - down.start, across.stop - across.start))
                self.tiles.write(left(i), right(j), tile)
                set_own(tile, itself, down, across, noise)
                parts[j] = tile @ coefficients[across]
                if j < i:
                    out[across] += coefficients[down] @ tile

            self._share(multiply, range(i + 1), (down.stop - down.start) * down.stop)
            for part in parts:
                out[down] += part
        return out

    def _square(
        self, rows: IntArray, dtype: np.dtype[Any]
    ) -> tuple[list[slice], Callable[[int], Any], Callable[[int], Any]]:
        """Return the spans of a square block and two functions for its left and right operands.

        The operands are computed once if they fit into OPERAND_BYTES, else again for each tile.
        """
        spans = spans_of(len(rows), SYMMETRIC_TILE)
        lefts: list[Any] = []
        rights: list[Any] = []
        for span in spans:
            rights.append(self.tiles.right(rows[span], dtype))
            if len(spans) * operand_bytes(rights[0]) > OPERAND_BYTES:
                return (
                    spans,
                    lambda i: self.tiles.left(rows[spans[i]], dtype),
                    lambda i: self.tiles.right(rows[spans[i]], dtype),
                )
            lefts.append(self.tiles.left(rows[span], dtype))
        return spans, lefts.__getitem__, rights.__getitem__

    def weighted_sum(
        self,
        rows: IntArray,
        other: Rows,
        columns: IntArray,
        coefficients: FloatArray,
        dtype: DTypeLike = np.float64,
    ) -> FloatArray:
        """Return sum_j coefficients_j k(x_i, z_j) for each row, without storing the block.

        The coefficients have shape (n_columns,) or (n_columns, n_outputs). For the linear kernel
        the sum is one product with w = sum_j coefficients_j z_j.
        """
        if self.kernel.name == "linear":
            w = other.X[columns].T @ np.asarray(coefficients, dtype=np.float64)
            return np.asarray(self.X[rows] @ w, dtype=np.float64)
        weights = np.asarray(coefficients, dtype=dtype)
        out = np.zeros((len(rows), *weights.shape[1:]))
        itself, noise = self._meets_itself(rows, other, columns), self._noise_of(rows)

        def add(rights: _Operands, part: slice) -> None:
            left = self.tiles.left(rows[part], weights.dtype)
            for span, right in rights:
                weight = weights[span]
                tile = np.empty((part.stop - part.start, len(weight)), dtype=dtype)
                self.tiles.write(left, right, tile)
                set_own(tile, itself, part, span, noise)
                out[part] += tile @ weight

        self._for_tiles(add, rows, other, columns, weights.dtype)
        return out

    def _for_tiles(
        self,
        job: Callable[[_Operands, slice], None],
        rows: IntArray,
        other: Rows,
        columns: IntArray,
        dtype: np.dtype[Any],
    ) -> None:
        """Call job on each tile of rows, with as many right operands as OPERAND_BYTES allows."""
        spans = spans_of(len(columns), self.tiles.width)
        while spans:
            rights: _Operands = []
            held = 0
            while spans and held < OPERAND_BYTES:
                span = spans.pop(0)
                rights.append((span, other.tiles.right(columns[span], dtype)))
                held += operand_bytes(rights[-1][1])
            n_columns = rights[-1][0].stop - rights[0][0].start
            parts = spans_of(len(rows), TILE_ROWS)
            self._share(partial(job, rights), parts, len(rows) * n_columns)

    def _share(self, job: Callable[[Any], None], items: Iterable[Any], evaluations: int) -> None:
        """Call job on every item, with several threads if there is enough work."""
        self.evaluations += evaluations
        if self.tiles.thread_safe and evaluations > WORTH_A_THREAD:
            for_each(job, items, self.threads)
        else:
            for item in items:
                job(item)
