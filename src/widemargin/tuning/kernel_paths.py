r"""Kernels as functions of log-parameters, and derivatives pulled back to them.

A path gives K(theta) on the training rows. Its `gradient` turns the derivative of a loss with
respect to K, kept in the factors of :class:`KernelGradient`,
dJ = u' dK beta + sum_ij W_ij dK_ij, into dJ/dtheta:

===========  =================================  ==================================
path         K_ij                               dK_ij / dtheta, theta = log gamma
===========  =================================  ==================================
FixedPath    given                              none
WidthPath    exp(-gamma |x_i - x_j|^2)          -gamma |x_i - x_j|^2 K_ij
PolyPath     (h + c)^p, h = gamma x_i'x_j       p (h + c)^(p-1) h
ScalesPath   exp(-sum_d g_d (x_id - x_jd)^2)    -g_d (x_id - x_jd)^2 K_ij
===========  =================================  ==================================

For one gamma a feature the differences are never formed: with E_ij the derivative times K_ij,
sum_ij E_ij (x_id - x_jd)^2 = sum_i (E 1)_i x_id^2 + sum_j (E'1)_j x_jd^2 - 2 x_d' E x_d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix


@dataclass(frozen=True, eq=False)
class KernelGradient:
    """A loss and its derivative with respect to K: one of rank one and one on the support rows.

    Attributes
    ----------
    loss : float
        J.
    left, right : ndarray of shape (n,)
        u and beta; beta is zero outside the support rows.
    factor : ndarray of shape (m, m)
        Lower triangle (zeros above) of W on the support rows, in Fortran's order.
    support : ndarray of shape (n,) of bool
        Which rows are support rows.
    """

    loss: float
    left: FloatArray
    right: FloatArray
    factor: FloatArray
    support: BoolArray


# Each path has a `size`, the number of its parameters, and two methods: `kernel` returns K, and
# `gradient` dJ/dtheta of a loss on some rows (None: all), K being the block of those rows.


class FixedPath:
    """A kernel without parameters to tune."""

    size = 0

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return K."""
        return self.K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return an empty gradient."""
        return np.empty(0)


class WidthPath:
    """The rbf kernel with one gamma; squared distances are computed once."""

    size = 1

    def __init__(self, distances: FloatArray) -> None:
        self.distances = distances

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return K."""
        K = self.distances * -np.exp(theta[0])
        np.exp(K, out=K)
        return K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return dJ/dlog gamma."""
        change = K * _block(self.distances, rows)
        return np.array([-np.exp(theta[0]) * _contract(change, loss)])


class PolyPath:
    """The polynomial kernel with its gamma."""

    size = 1

    def __init__(self, products: FloatArray, degree: float, coef0: float) -> None:
        self.products = products
        self.degree = degree
        self.coef0 = coef0

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return K."""
        return np.asarray((np.exp(theta[0]) * self.products + self.coef0) ** self.degree)

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return dJ/dlog gamma."""
        scaled = np.exp(theta[0]) * _block(self.products, rows)
        change = self.degree * (scaled + self.coef0) ** (self.degree - 1) * scaled
        return np.array([_contract(change, loss)])


class ScalesPath:
    """The rbf kernel with one gamma for each feature."""

    def __init__(self, X: FloatArray) -> None:
        self.X = X - X.mean(axis=0)
        self.size = X.shape[1]

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return K."""
        scaled = self.X * np.exp(0.5 * theta)
        K = _from_products(scaled @ scaled.T)
        np.negative(K, out=K)
        np.exp(K, out=K)
        return K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return dJ/dlog gamma for every feature."""
        X = self.X if rows is None else self.X[rows]
        M = np.flatnonzero(loss.support)
        u, beta, Y = loss.left, loss.right[M], X[M]
        columns = K[:, M]
        of_rows, of_columns = u * (columns @ beta), beta * (u @ columns)
        cross = ((u[:, None] * X) * (columns @ (beta[:, None] * Y))).sum(axis=0)
        total = of_rows @ X**2 + of_columns @ Y**2 - 2.0 * cross
        # W is stored as its lower triangle: what is off the diagonal counts twice.
        E = loss.factor.T * columns[M]
        sums = E.sum(axis=0) + E.sum(axis=1)
        total += 2.0 * (sums @ Y**2 - 2.0 * (Y * (E @ Y)).sum(axis=0))
        return -np.exp(theta) * total


KernelPath: TypeAlias = FixedPath | WidthPath | PolyPath | ScalesPath


def _block(A: FloatArray, rows: IntArray | None) -> FloatArray:
    return A if rows is None else A[np.ix_(rows, rows)]


def _contract(change: FloatArray, loss: KernelGradient) -> float:
    """Return u' dK beta + sum_ij W_ij dK_ij."""
    M = np.flatnonzero(loss.support)
    columns = change[:, M] if len(M) < len(change) else change
    first = float(loss.left @ (columns @ loss.right[M]))
    inner = columns[M] if len(M) < len(change) else change
    lower = loss.factor.T  # rows in C's order, as those of the symmetric block
    off = 2.0 * float(np.vdot(lower, inner))
    return first + off - float(lower.diagonal() @ inner.diagonal())


def squared_distances(X: Matrix) -> FloatArray:
    """Return |x_i - x_j|^2 for all rows, dense or sparse."""
    if not sp.issparse(X):
        # The origin does not matter, but cancellation does: differences are made of products.
        X = np.asarray(X, dtype=np.float64)
        X = X - X.mean(axis=0)
        return _from_products(X @ X.T)
    X = X.astype(np.float64)
    return _from_products((X @ X.T).toarray())


def _from_products(G: FloatArray) -> FloatArray:
    """Turn x_i'x_j into |x_i - x_j|^2, in place."""
    norms = G.diagonal().copy()
    G *= -2.0
    G += norms
    G += norms[:, None]
    np.maximum(G, 0.0, out=G)
    np.fill_diagonal(G, 0.0)
    return G
