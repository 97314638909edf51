"""Kernel functions k(x, z), and blocks of kernel values of dense and sparse data.

A :class:`Kernel` holds the formula and its parameters. `Rows` combines it with data and computes
blocks, diagonals and weighted sums of kernel values tile by tile, without the full kernel matrix.
Kernel values are float32 where they only guide a solver, and float64 where they enter a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin._base.typing import FloatArray, Matrix, RealArray
from widemargin.kernels.objects import (
    RBF,
    Constant,
    DotProduct,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
)
from widemargin.kernels.rows import Rows as Rows  # for solvers; not a public name
from widemargin.kernels.tiles import raise_to

__all__ = [
    "RBF",
    "Constant",
    "DotProduct",
    "Kernel",
    "Matern",
    "Periodic",
    "RationalQuadratic",
    "White",
    "is_mercer",
]

NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")


@dataclass(frozen=True)
class Kernel:
    r"""Kernel function with its parameters.

    ============  ==========================================================
    linear        x'z
    poly          (gamma x'z + coef0)^degree, homogeneous for coef0 = 0
    rbf           exp(-sum_j gamma_j (x_j - z_j)^2), gamma a number or one per feature
    sigmoid       tanh(gamma x'z + coef0), not positive definite in general
    precomputed   X is the kernel matrix
    callable      function(X, Z) returns the block of kernel values, or a kernel object
    ============  ==========================================================

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "sigmoid", "precomputed", "callable"}
        Name of the formula.
    gamma : float or ndarray of shape (n_features,), default=1.0
        Inverse squared length scale (rbf), or factor of the inner product.
    degree : float, default=3
        Exponent of the polynomial.
    coef0 : float, default=0.0
        Constant term of the polynomial and the sigmoid.
    function : callable, default=None
        The user's kernel if `name` is "callable".

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
        """Return the block of kernel values k(x_i, z_j) in float64."""
        right = Rows(self, Z)
        left = Rows(self, X, centre=right.centre)
        return left.block(np.arange(left.n), right, np.arange(right.n))

    def transform(self, products: RealArray) -> None:
        """Transform inner products (rbf: exponents) into kernel values, in place.

        Parameters
        ----------
        products : ndarray
            Inner products on entry, kernel values on return.
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
        """Whether the formula gives a positive semi-definite matrix for all data."""
        if self.name == "poly":
            return self.coef0 >= 0 and float(self.degree).is_integer()
        return self.name in ("linear", "rbf")


def is_mercer(K: ArrayLike, *, tol: float = 1e-8) -> bool:
    """Check whether a kernel matrix is symmetric and positive semi-definite.

    This is Mercer's condition on a finite sample (Smola et al. 2000, theorem 1.11). Only if it
    holds is the training problem convex and the certificate a bound.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Kernel matrix.
    tol : float, default=1e-8
        Tolerance for rounding errors, relative to the largest entry.

    Returns
    -------
    bool
        True if no eigenvalue is below ``-tol * n * max(abs(K))``.

    Examples
    --------
    >>> from widemargin.kernels import is_mercer
    >>> is_mercer([[1.0, 0.5], [0.5, 1.0]]), is_mercer([[1.0, 2.0], [2.0, 1.0]])
    (True, False)
    """
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be a square matrix, got shape {K.shape}")
    if not np.isfinite(K).all():
        raise ValueError("K must hold finite numbers; got NaN or infinite entries")
    scale = float(np.abs(K).max(initial=0.0))
    if scale == 0:
        return True
    if np.abs(K - K.T).max(initial=0.0) > tol * scale:
        return False
    shifted = 0.5 * (K + K.T) + tol * len(K) * scale * np.eye(len(K))
    try:  # Cholesky is much cheaper than the eigenvalues
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True
