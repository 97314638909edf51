r"""Preference machines with a kernel: a small basis first, then the whole space.

Pivoted Cholesky picks rows whose images :math:`\phi(x_p)` nearly span those of all rows. With an
orthonormal basis U of their span, :math:`G = \Phi U` holds the rows' coordinates:
:math:`K \approx GG'`, and :math:`f = Gv` are exactly the utilities of :math:`Uv`. So the problem
restricted to the span is a linear machine in G, cheap to solve and no approximation of anything
but the search: its optimum is a point of the whole problem.

What is left is the part of the optimum outside the span. There Newton's method goes on in the
whole space by conjugate gradients in its own inner product, one product by K for each. (A
preconditioner from G was measured and does not pay: the part of the residual that the gap sees
lies in the leading directions of K, which conjugate gradients settle first.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.jit import jit
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels import Rows
from widemargin.solvers.preference.space import Element, Trust

BLOCK = 64  # pivots looked for at a time
FRESH = 0.2  # a candidate whose residual falls below this share of the block's largest waits
SPANNED = 1e-13  # residual relative to the kernel's diagonal that is rounding
SLAB = 512  # rows of a product that one thread takes
SMALL_BYTES = 64e6  # a matrix held in float64
WORTH_HOLDING = 4  # products after which it pays to hold the matrix


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates of all rows in an orthonormal basis of the span of some of them.

    Attributes
    ----------
    pivots : ndarray of shape (rank,)
        The rows that span.
    G : ndarray of shape (n_rows, rank)
        Coordinates; G of the pivots is lower triangular.
    spans : bool
        Whether every row's image is in the span but for rounding.
    """

    pivots: IntArray
    G: FloatArray
    spans: bool

    def coefficients(self, v: FloatArray) -> FloatArray:
        """Return the expansion coefficients, on all rows, of the vector with coordinates v."""
        out = np.zeros(len(self.G))
        out[self.pivots] = solve_triangular(self.G[self.pivots], v, lower=True, trans="T")
        return out


def pivoted_basis(rows: Rows, largest: int) -> Basis:
    """Return a basis of at most ``largest`` vectors, fewer if they span all rows' images.

    Candidates are drawn a block at a time with probability in proportion to what the basis lacks
    of them, and those that the others of their block span already are put back.
    """
    rng = np.random.default_rng(0)
    every = np.arange(rows.n)
    lack = rows.diagonal().copy()
    enough = SPANNED * float(lack.max(initial=0.0))
    G = np.empty((rows.n, min(largest, rows.n)))
    pivots: list[IntArray] = []
    rank = 0
    while rank < G.shape[1] and lack.max() > enough:
        wanted = min(BLOCK, int((lack > enough).sum()))
        drawn = rng.choice(rows.n, wanted, replace=False, p=_odds(lack, enough))
        small = rows.block(drawn, rows, drawn) - G[drawn, :rank] @ G[drawn, :rank].T
        kept, factor = _fresh(small, enough, G.shape[1] - rank)
        chosen = drawn[kept]
        columns = rows.block(every, rows, chosen) - G[:, :rank] @ G[chosen, :rank].T
        new = slice(rank, rank + len(chosen))
        G[:, new] = solve_triangular(factor, columns.T, lower=True, check_finite=False).T
        G[chosen, new] = factor  # exactly triangular
        lack = np.maximum(lack - np.einsum("ij,ij->i", G[:, new], G[:, new]), 0.0)
        lack[chosen] = 0.0
        pivots.append(chosen)
        rank += len(chosen)
    found = np.concatenate(pivots) if pivots else np.zeros(0, np.intp)
    return Basis(found, np.ascontiguousarray(G[:, :rank]), bool(lack.max(initial=0.0) <= enough))


def _odds(lack: FloatArray, enough: float) -> FloatArray:
    odds = np.where(lack > enough, lack, 0.0)
    return np.asarray(odds / odds.sum())


def _fresh(small: FloatArray, enough: float, most: int) -> tuple[IntArray, FloatArray]:
    """Cholesky with pivoting of a block; stop at candidates that the others nearly span."""
    small = small.copy()
    lack = np.diagonal(small).copy()
    stop = max(enough, FRESH * float(lack.max()))
    kept: list[int] = []
    columns = np.zeros((len(small), min(most, len(small))))
    while len(kept) < columns.shape[1]:
        k = int(np.argmax(lack))
        if kept and lack[k] <= stop:
            break
        c = len(kept)
        columns[:, c] = (small[:, k] - columns[:, :c] @ columns[k, :c]) / np.sqrt(lack[k])
        lack -= columns[:, c] ** 2
        lack[k] = -np.inf
        kept.append(k)
    factor = np.tril(columns[kept, : len(kept)])
    return np.array(kept, dtype=np.intp), factor


@jit(fast=True)
def _mixed_product(K: Any, v: Any, out: Any) -> None:
    """out = K v with sums in float64 whatever K is: half the memory to read, and no noise.

    Four rows at a time, so that v is read once for all of them.
    """
    n = K.shape[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(len(v)):
            s0 += K[i, j] * v[j]
            s1 += K[i + 1, j] * v[j]
            s2 += K[i + 2, j] * v[j]
            s3 += K[i + 3, j] * v[j]
        out[i] = s0
        out[i + 1] = s1
        out[i + 2] = s2
        out[i + 3] = s3
    for i in range(whole, n):
        s0 = 0.0
        for j in range(len(v)):
            s0 += K[i, j] * v[j]
        out[i] = s0


class Products:
    """Products with the kernel matrix: computed afresh, or held if there are many.

    A small matrix is held in float64, a larger one in float32 until :meth:`sharpen` is called.
    """

    def __init__(self, rows: Rows, cache_bytes: float) -> None:
        self.rows, self.cache_bytes = rows, cache_bytes
        self.every = np.arange(rows.n)
        small = 8.0 * rows.n**2 <= min(cache_bytes, SMALL_BYTES)
        self.dtype = np.dtype(np.float64 if small else np.float32)
        self.calls = 0
        self.K: RealArray | None = None

    @property
    def may_hold(self) -> bool:
        """Whether the matrix fits the memory allowed; a linear kernel needs none."""
        fits = self.dtype.itemsize * self.rows.n**2 <= self.cache_bytes
        return fits and self.rows.kernel.name != "linear"

    @property
    def is_exact(self) -> bool:
        """Whether every product is one with float64 kernel values."""
        return self.dtype == np.float64 or not self.may_hold

    def sharpen(self) -> None:
        """Use kernel values in float64 only from now on."""
        self.dtype = np.dtype(np.float64)
        self.K = None

    def __call__(self, v: FloatArray) -> FloatArray:
        """Return K v."""
        self.calls += 1
        if self.K is None and self.may_hold and self.calls > WORTH_HOLDING:
            self.K = np.empty((self.rows.n, self.rows.n), dtype=self.dtype)
            self.rows.fill_symmetric(self.every, self.K)
        return self.exact(v) if self.K is None else self._read(self.K, v)

    def _read(self, K: RealArray, v: FloatArray) -> FloatArray:
        out = np.empty(len(v))

        def multiply(first: int) -> None:
            slab = slice(first, first + SLAB)
            _mixed_product(K[slab], v, out[slab])

        for_each(multiply, range(0, len(v), SLAB), self.rows.threads)
        return out

    def exact(self, v: FloatArray) -> FloatArray:
        """Return K v in float64 from kernel values that are not kept."""
        some = np.flatnonzero(v)
        if 2 * len(some) <= len(v):
            return self.rows.weighted_sum(self.every, self.rows, some, v[some])
        return self.rows.symmetric_sum(self.every, v)


class KernelSpace:
    """Expansions sum_i beta_i k(x_i, .) over all rows."""

    trust: Trust = "rough"

    def __init__(self, product: Products) -> None:
        self.product = product

    def dot(self, a: Element, b: Element) -> float:
        """Return beta_a' K beta_b."""
        return float(a.coef @ b.image)

    def expand(self, beta: FloatArray) -> Element:
        """Return the expansion with its image: one product by K."""
        return Element(beta, self.product(beta))

    def at(self, coef: FloatArray) -> Element:
        """Return the expansion with its image."""
        return self.expand(coef)

    def prepare(self, f: FloatArray, width: float, ramp: float | None = None) -> None:
        """There is no preconditioner to prepare."""

    def precondition(self, r: Element) -> Element:
        """Return the residual itself."""
        return r
