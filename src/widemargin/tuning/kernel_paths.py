r"""Kernel matrices as functions of log gamma, and gradients with respect to it.

A path returns the kernel matrix K(theta) of the training samples. Its method `gradient` applies the
chain rule to the derivative of a loss with respect to K, stored as :class:`KernelGradient`,
dJ = u' dK beta + sum_ij W_ij dK_ij, and returns dJ/dtheta:

===========  =================================  ==================================
path         K_ij                               dK_ij / dtheta, theta = log gamma
===========  =================================  ==================================
FixedPath    given                              none
WidthPath    exp(-gamma |x_i - x_j|^2)          -gamma |x_i - x_j|^2 K_ij
PolyPath     (h + c)^p, h = gamma x_i'x_j       p (h + c)^(p-1) h
ScalesPath   exp(-sum_d g_d (x_id - x_jd)^2)    -g_d (x_id - x_jd)^2 K_ij
ObjectPath   that of a kernel object            its own derivatives, per hyperparameter
===========  =================================  ==================================

For one gamma per feature the differences are not formed: with E_ij the derivative times K_ij,
sum_ij E_ij (x_id - x_jd)^2 = sum_i (E 1)_i x_id^2 + sum_j (E'1)_j x_jd^2 - 2 x_d' E x_d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin.kernels.objects import KernelObject
from widemargin.kernels.objects.questions import gradients, log_parameters, with_log_parameters


@dataclass(frozen=True, eq=False)
class KernelGradient:
    """Loss and its derivative with respect to K: a rank-one term plus W on the support vectors.

    Attributes
    ----------
    loss : float
        J.
    left, right : ndarray of shape (n,)
        u and beta; beta is zero outside the support vectors.
    factor : ndarray of shape (m, m)
        Lower triangle (zeros above) of W on the support vectors, in Fortran order.
    support : ndarray of shape (n,) of bool
        Mask of the support vectors.
    """

    loss: float
    left: FloatArray
    right: FloatArray
    factor: FloatArray
    support: BoolArray


# Each path has a `size`, the number of its parameters, `separate`, whether these are unrelated
# (else they are log gammas), and two methods: `kernel` returns K, and `gradient` returns dJ/dtheta
# of a loss on a subset of the samples (None: all), given their K.


class FixedPath:
    """Kernel matrix without parameters to tune."""

    size = 0
    separate = False

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return the kernel matrix."""
        return self.K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return an empty gradient."""
        return np.empty(0)


class WidthPath:
    """Kernel matrix of the rbf kernel with one gamma, from precomputed squared distances."""

    size = 1
    separate = False

    def __init__(self, distances: FloatArray) -> None:
        self.distances = distances

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return the kernel matrix."""
        K = self.distances * -np.exp(theta[0])
        np.exp(K, out=K)
        return K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return the derivative with respect to log gamma."""
        change = K * _block(self.distances, rows)
        return np.array([-np.exp(theta[0]) * _contract(change, loss)])


class PolyPath:
    """Kernel matrix of the polynomial kernel with its gamma, from precomputed products."""

    size = 1
    separate = False

    def __init__(self, products: FloatArray, degree: float, coef0: float) -> None:
        self.products = products
        self.degree = degree
        self.coef0 = coef0

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return the kernel matrix."""
        return np.asarray((np.exp(theta[0]) * self.products + self.coef0) ** self.degree)

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return the derivative with respect to log gamma."""
        scaled = np.exp(theta[0]) * _block(self.products, rows)
        change = self.degree * (scaled + self.coef0) ** (self.degree - 1) * scaled
        return np.array([_contract(change, loss)])


class ScalesPath:
    """Kernel matrix of the rbf kernel with one gamma per feature (ARD)."""

    separate = False

    def __init__(self, X: FloatArray) -> None:
        self.X = X - X.mean(axis=0)
        self.size = X.shape[1]

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return the kernel matrix."""
        scaled = self.X * np.exp(0.5 * theta)
        K = _from_products(scaled @ scaled.T)
        np.negative(K, out=K)
        np.exp(K, out=K)
        return K

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return the derivatives with respect to log gamma, one per feature."""
        X = self.X if rows is None else self.X[rows]
        M = np.flatnonzero(loss.support)
        u, beta, Y = loss.left, loss.right[M], X[M]
        columns = K[:, M]
        of_rows, of_columns = u * (columns @ beta), beta * (u @ columns)
        cross = ((u[:, None] * X) * (columns @ (beta[:, None] * Y))).sum(axis=0)
        total = of_rows @ X**2 + of_columns @ Y**2 - 2.0 * cross
        # W is stored as its lower triangle, so entries off the diagonal count twice. Those on the
        # diagonal do not matter: they multiply x_id - x_id = 0.
        E = loss.factor.T * columns[M]
        sums = E.sum(axis=0) + E.sum(axis=1)
        total += 2.0 * (sums @ Y**2 - 2.0 * (Y * (E @ Y)).sum(axis=0))
        return -np.exp(theta) * total


class ObjectPath:
    """Kernel matrix of a kernel object, as a function of the logarithms of its hyperparameters."""

    separate = True

    def __init__(self, X: FloatArray, kernel: KernelObject) -> None:
        self.X = X
        self.start = kernel
        self.size = len(log_parameters(kernel))

    def kernel(self, theta: FloatArray) -> FloatArray:
        """Return the kernel matrix."""
        return with_log_parameters(self.start, theta)(self.X)

    def gradient(
        self, theta: FloatArray, K: FloatArray, rows: IntArray | None, loss: KernelGradient
    ) -> FloatArray:
        """Return the derivatives with respect to the logarithms of the hyperparameters."""
        changes = gradients(with_log_parameters(self.start, theta), self.X)
        return np.array([_contract(_block(change, rows), loss) for change in changes])


KernelPath: TypeAlias = FixedPath | WidthPath | PolyPath | ScalesPath | ObjectPath


def _block(A: FloatArray, rows: IntArray | None) -> FloatArray:
    return A if rows is None else A[np.ix_(rows, rows)]


def _contract(change: FloatArray, loss: KernelGradient) -> float:
    """Return u' dK beta + sum_ij W_ij dK_ij."""
    M = np.flatnonzero(loss.support)
    columns = change[:, M] if len(M) < len(change) else change
    first = float(loss.left @ (columns @ loss.right[M]))
    inner = columns[M] if len(M) < len(change) else change
    lower = loss.factor.T  # C order, like the symmetric block
    off = 2.0 * float(np.vdot(lower, inner))
    return first + off - float(lower.diagonal() @ inner.diagonal())


def squared_distances(X: Matrix) -> FloatArray:
    """Return |x_i - x_j|^2 for all pairs of samples, dense or sparse."""
    if not sp.issparse(X):
        # Centring reduces cancellation when distances are computed from inner products.
        X = np.asarray(X, dtype=np.float64)
        X = X - X.mean(axis=0)
        return _from_products(X @ X.T)
    X = X.astype(np.float64)
    return _from_products((X @ X.T).toarray())


def _from_products(G: FloatArray) -> FloatArray:
    """Convert inner products x_i'x_j to squared distances |x_i - x_j|^2, in place."""
    norms = G.diagonal().copy()
    G *= -2.0
    G += norms
    G += norms[:, None]
    np.maximum(G, 0.0, out=G)
    np.fill_diagonal(G, 0.0)
    return G
