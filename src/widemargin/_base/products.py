r"""Products of a data matrix with a vector, with proved error bounds.

`times` encloses Xw, `combine` X'a. Without `precise` they are float64 products, whose error is at
most :math:`\gamma_k |X| |w|` for sums of k terms in any order (Higham 2002, section 3.5), bounded
by norms; with `precise` they are double-double sums, whose error is negligible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import CHARGE, U, add, two_product
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, Matrix


def gamma(k: float) -> float:
    """Return Higham's gamma_k = k U / (1 - k U), rounded up; infinite if k U is not small."""
    return k * U / (1.0 - k * U) * (1.0 + 1e-6) if k * U < 0.5 else np.inf


def row_norms(X: Matrix) -> FloatArray:
    """Return upper bounds of the Euclidean norms of the rows of X."""
    if sp.issparse(X):
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        squares = np.bincount(row, X.data.astype(np.float64) ** 2, X.shape[0])
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    grown = np.sqrt(squares) * (1.0 + (X.shape[1] + 8) * U)
    return np.asarray(grown + 1e-160)  # squares below 1e-320 underflow


def times(X: Matrix, w: FloatArray, *, precise: bool = False) -> Enclosure:
    """Return an enclosure of Xw, for a vector w.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Samples, float32 or float64.
    w : ndarray of shape (d,)
        Float64 numbers.
    precise : bool, default=False
        Whether to use double-double arithmetic.
    """
    w = np.ascontiguousarray(w, dtype=np.float64)
    if precise:
        return _precise(X, w, transposed=False)
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(w)) * (1.0 + (len(w) + 8) * U)
        values = np.asarray(_float64(X) @ w, dtype=np.float64)
        return Enclosure.within(values, gamma(X.shape[1] + 2) * size * row_norms(X) + DUST)


def combine(X: Matrix, a: FloatArray, *, precise: bool = False) -> Enclosure:
    """Return an enclosure of X'a, for a vector a; parameters as for `times`."""
    a = np.ascontiguousarray(a, dtype=np.float64)
    if precise:
        return _precise(X, a, transposed=True)
    with np.errstate(all="ignore"):
        values = np.asarray(_float64(X).T @ a, dtype=np.float64)
        size = np.asarray(abs(X).T @ np.abs(a), dtype=np.float64)
        return Enclosure.within(values, gamma(len(a) + 2) * (size * (1 + 1e-6) + DUST) + DUST)


def _float64(X: Matrix) -> Matrix:
    return X if X.dtype == np.float64 else X.astype(np.float64)


def _precise(X: Matrix, v: FloatArray, *, transposed: bool) -> Enclosure:
    out = np.zeros((3, X.shape[1] if transposed else X.shape[0]))
    if sp.issparse(X):
        loop: Any = sparse_combine if transposed else sparse_times
        loop(_float64(X).data, X.indices, X.indptr, v, out)
    else:
        loop = dense_combine if transposed else dense_times
        loop(np.ascontiguousarray(X, dtype=np.float64), v, out)
    terms = len(v) + 8
    return Enclosure(out[0], out[1], CHARGE * terms * U * U * (1 + 1e-6) * out[2] + DUST)


@jit
def dense_times(X, w, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and the sum of absolute terms of Xw to the rows of out."""
    for i in range(X.shape[0]):
        h, low, size = 0.0, 0.0, 0.0
        for t in range(X.shape[1]):
            p, e = two_product(X[i, t], w[t])
            h, low = add(h, low, p, e)
            size += abs(p)
        out[0, i], out[1, i], out[2, i] = h, low, size


@jit
def dense_combine(X, a, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and the sum of absolute terms of X'a to the rows of out."""
    for i in range(X.shape[0]):
        if a[i] == 0.0:
            continue
        for t in range(X.shape[1]):
            p, e = two_product(X[i, t], a[i])
            out[0, t], out[1, t] = add(out[0, t], out[1, t], p, e)
            out[2, t] += abs(p)


@jit
def sparse_times(data, indices, indptr, w, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and the sum of absolute terms of Xw, X in CSR format, to the rows of out."""
    for i in range(out.shape[1]):
        h, low, size = 0.0, 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            p, e = two_product(data[k], w[indices[k]])
            h, low = add(h, low, p, e)
            size += abs(p)
        out[0, i], out[1, i], out[2, i] = h, low, size


@jit
def sparse_combine(data, indices, indptr, a, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and the sum of absolute terms of X'a, X in CSR format, to the rows of out."""
    for i in range(len(a)):
        if a[i] == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            t = indices[k]
            p, e = two_product(data[k], a[i])
            out[0, t], out[1, t] = add(out[0, t], out[1, t], p, e)
            out[2, t] += abs(p)
