"""Kernels k(x, z): blocks, diagonals and sums, dense and sparse behind one call.

A :class:`Kernel` is a formula. :class:`Rows` is data seen through a kernel; two of them can be
multiplied block by block without ever holding the whole matrix. All kernel values of the library
come from :meth:`Rows.block`, in float32 where they only steer and in float64 where they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike

from widemargin._kernel_tiles import (
    operand_bytes,
    raise_to,
    set_ones,
    spans_of,
    tiles_for,
)
from widemargin._threads import for_each
from widemargin._typing import FloatArray, IntArray, Matrix, RealArray

# Right operands of tiles, each with the span of its columns.
_Operands: TypeAlias = list[tuple[slice, Any]]

__all__ = ["Kernel", "is_mercer"]  # `Rows` is for solvers

NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")

# A tile of this many rows (see _kernel_tiles for its width) and the operands that make it stay in
# the cache while its exponentials are taken.
TILE_ROWS = 256
SYMMETRIC_TILE = 512
OPERAND_BYTES = 64_000_000  # of prepared columns that are held at once
WORTH_A_THREAD = 65_536  # kernel values; below that, starting a thread costs more


@dataclass(frozen=True)
class Kernel:
    r"""A kernel function with its parameters.

    ============  ==========================================================
    linear        x'z
    poly          (gamma x'z + coef0)^degree, homogeneous for coef0 = 0
    rbf           exp(-sum_j gamma_j (x_j - z_j)^2), gamma a number or one per feature
    sigmoid       tanh(gamma x'z + coef0), not positive definite in general
    precomputed   the data are the kernel values
    callable      function(X, Z) returns the block
    ============  ==========================================================

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "sigmoid", "precomputed", "callable"}
        Which formula.
    gamma : float or ndarray of shape (n_features,), default=1.0
        Inverse squared length scale (rbf) or factor of the product.
    degree : float, default=3
        Exponent of the polynomial.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid.
    function : callable, default=None
        The user's kernel when `name` is "callable".

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel
    >>> Kernel("rbf", gamma=0.5)(np.array([[0.0], [1.0]]), np.array([[0.0]])).round(4)
    array([[1.    ],
           [0.6065]])
    """

    name: str
    gamma: float | FloatArray = 1.0
    degree: float = 3
    coef0: float = 0.0
    function: Callable[[Any, Any], ArrayLike] | None = field(default=None, repr=False)

    def __call__(self, X: Matrix, Z: Matrix) -> RealArray:
        """Return the block k(x_i, z_j) in float64."""
        right = Rows(self, Z)
        left = Rows(self, X, centre=right.centre)
        return left.block(np.arange(left.n), right, np.arange(right.n))

    def transform(self, products: RealArray) -> None:
        """Turn inner products (rbf: exponents) into kernel values, in place.

        Parameters
        ----------
        products : ndarray
            Changed in place.
        """
        if self.name == "rbf":
            np.exp(products, out=products)
        elif self.name in ("poly", "sigmoid"):
            products *= self.gamma
            products += self.coef0
            if self.name == "sigmoid":
                np.tanh(products, out=products)
            else:
                raise_to(products, self.degree)

    @property
    def is_mercer_by_name(self) -> bool:
        """Whether the formula is positive semi-definite for all data."""
        if self.name == "poly":
            return self.coef0 >= 0 and float(self.degree).is_integer()
        return self.name in ("linear", "rbf")


def is_mercer(K: ArrayLike, *, tol: float = 1e-8) -> bool:
    """Tell whether a kernel matrix is symmetric and positive semi-definite.

    Mercer's condition on a sample (Smola et al. 2000, theorem 1.11): only then is the training
    problem convex and the certificate a bound.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Kernel matrix.
    tol : float, default=1e-8
        Rounding allowed, relative to the largest entry.

    Returns
    -------
    bool
        True when no eigenvalue is below ``-tol * n * max(abs(K))``.

    Examples
    --------
    >>> from widemargin.kernels import is_mercer
    >>> is_mercer([[1.0, 0.5], [0.5, 1.0]]), is_mercer([[1.0, 2.0], [2.0, 1.0]])
    (True, False)
    """
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be a square matrix, got shape {K.shape}")
    scale = float(np.abs(K).max(initial=0.0))
    if scale == 0:
        return True
    if np.abs(K - K.T).max(initial=0.0) > tol * scale:
        return False
    shifted = 0.5 * (K + K.T) + tol * len(K) * scale * np.eye(len(K))
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


class Rows:
    """Rows of data seen through a kernel.

    Parameters
    ----------
    kernel : Kernel
        The formula.
    X : ndarray or CSR of shape (n, n_features)
        The data; kept, not copied.
    centre : ndarray of shape (n_features,), optional
        Origin for the rbf kernel on dense data, the mean by default. Two sets of rows that meet
        in a block must share it.
    threads : int, default=1
        Threads that share the tiles of a block.

    Attributes
    ----------
    n : int
        Number of rows.
    evaluations : int
        Kernel values computed so far.

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
        dense_rbf = kernel.name == "rbf" and not sp.issparse(X)
        self.centre = X.mean(axis=0, dtype=np.float64) if dense_rbf and centre is None else centre
        self.tiles = tiles_for(kernel, X, self.centre)

    def diagonal(self) -> FloatArray:
        """Return k(x_i, x_i) in float64."""
        kernel, X = self.kernel, self.X
        if kernel.name == "rbf":
            return np.ones(self.n)
        if kernel.name == "precomputed":
            return np.diagonal(X).astype(np.float64)
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
        """Return k(rows of self, columns of other)."""
        out = np.empty((len(rows), len(columns)), dtype=dtype)

        itself = self._meets_itself(rows, other, columns)

        def write(part: slice, rights: _Operands) -> None:
            left = self.tiles.left(rows[part], out.dtype)
            for span, right in rights:
                self.tiles.write(left, right, out[part, span])
                set_ones(out[part, span], itself, part, span)

        self._for_tiles(write, rows, other, columns, out.dtype)
        return out

    def _meets_itself(self, rows: IntArray, other: Rows, columns: IntArray) -> IntArray | None:
        """Return for each row its own place among the columns (-1: none), for the rbf kernel only.

        There k(x, x) = 1, which the exponent of a narrow kernel misses by rounding; with large
        coefficients that would be seen.
        """
        if other is not self or self.kernel.name != "rbf":
            return None
        place = np.full(self.n, -1, dtype=np.intp)
        place[columns] = np.arange(len(columns))
        return place[rows]

    def fill_symmetric(self, rows: IntArray, out: RealArray) -> None:
        """Write k(rows, rows) to out, computing each pair of rows once."""
        spans, left, right = self._square(rows, out.dtype)
        itself = self._meets_itself(rows, self, rows)

        def write(pair: tuple[int, int]) -> None:
            down, across = spans[pair[0]], spans[pair[1]]
            self.tiles.write(left(pair[0]), right(pair[1]), out[down, across])
            set_ones(out[down, across], itself, down, across)
            if down != across:
                out[across, down] = out[down, across].T

        pairs = [(i, j) for i in range(len(spans)) for j in range(i + 1)]
        self._share(write, pairs, len(rows) * (len(rows) + 1) // 2)

    def matrix(self) -> FloatArray:
        """Return the kernel matrix of all rows in float64, which the caller has room for."""
        K = np.empty((self.n, self.n))
        self.fill_symmetric(np.arange(self.n), K)
        return K

    def symmetric_sum(self, rows: IntArray, coefficients: FloatArray) -> FloatArray:
        """Return sum_j coefficients_j k(x_i, x_j) in float64, i and j over the same rows."""
        if self.kernel.name == "linear" or sp.issparse(self.X):
            # _Operands of sparse rows are too large to be kept for all tiles, too slow to remake.
            return self.weighted_sum(rows, self, rows, coefficients)
        spans, left, right = self._square(rows, np.dtype(np.float64))
        itself = self._meets_itself(rows, self, rows)
        out = np.zeros(len(rows))
        for i, down in enumerate(spans):
            # Sums are added up in a fixed order, whichever thread ends first: same bits every time.
            parts: list[FloatArray] = [out[:0]] * (i + 1)

            def multiply(j: int, down: slice = down, i: int = i, parts: Any = parts) -> None:
                across = spans[j]
                tile = np.empty((down.stop - down.start, across.stop - across.start))
                self.tiles.write(left(i), right(j), tile)
                set_ones(tile, itself, down, across)
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
        """Return the spans of a square block and what gives the operands of its tiles.

        They are made once if they may all be held, else for each tile again.
        """
        spans = spans_of(len(rows), SYMMETRIC_TILE)
        if not spans:
            return spans, spans.__getitem__, spans.__getitem__

        def left(i: int) -> Any:
            return self.tiles.left(rows[spans[i]], dtype)

        def right(i: int) -> Any:
            return self.tiles.right(rows[spans[i]], dtype)

        if len(spans) * operand_bytes(right(0)) > OPERAND_BYTES:
            return spans, left, right
        numbers = range(len(spans))
        lefts, rights = [left(i) for i in numbers], [right(i) for i in numbers]
        return spans, lefts.__getitem__, rights.__getitem__

    def weighted_sum(
        self,
        rows: IntArray,
        other: Rows,
        columns: IntArray,
        coefficients: FloatArray,
        dtype: DTypeLike = np.float64,
    ) -> FloatArray:
        """Return sum_j coefficients_j k(x_i, z_j) for each row, without holding the block.

        The coefficients have shape (n_columns,) or (n_columns, n_outputs). The linear kernel needs
        no block: its sum is one product with w = sum_j coefficients_j z_j.
        """
        if self.kernel.name == "linear":
            w = other.X[columns].T @ np.asarray(coefficients, dtype=np.float64)
            return np.asarray(self.X[rows] @ w, dtype=np.float64)
        weights = np.asarray(coefficients, dtype=dtype)
        out = np.zeros((len(rows), *weights.shape[1:]))
        itself = self._meets_itself(rows, other, columns)

        def add(part: slice, rights: _Operands) -> None:
            left = self.tiles.left(rows[part], weights.dtype)
            for span, right in rights:
                weight = weights[span]
                tile = np.empty((part.stop - part.start, len(weight)), dtype=dtype)
                self.tiles.write(left, right, tile)
                set_ones(tile, itself, part, span)
                out[part] += tile @ weight

        self._for_tiles(add, rows, other, columns, weights.dtype)
        return out

    def _for_tiles(
        self,
        job: Callable[[slice, _Operands], None],
        rows: IntArray,
        other: Rows,
        columns: IntArray,
        dtype: np.dtype[Any],
    ) -> None:
        """Run a job on each tile of rows with as many right operands as may be held at once."""
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
            self._share(partial(_with, job, rights), parts, len(rows) * n_columns)

    def _share(self, job: Callable[[Any], None], items: Iterable[Any], evaluations: int) -> None:
        """Run a job on every item, on several threads where that pays."""
        self.evaluations += evaluations
        many = self.tiles.thread_safe and evaluations > WORTH_A_THREAD
        for_each(job, items, self.threads if many else 1)


def _with(job: Callable[[slice, _Operands], None], rights: _Operands, part: slice) -> None:
    job(part, rights)
