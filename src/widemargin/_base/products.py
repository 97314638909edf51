r"""Products of a data matrix with a vector, with proved error bounds.

`times` encloses Xw, `combine` X'a. Without `precise` they are float64 products, whose error is at
most :math:`\gamma_k |X| |w|` for sums of k terms in any order (Higham 2002, section 3.5); the same
loop computes this bound. Long sums over dense samples are sums of short ones, which keeps k small.
With `precise` they are double-double sums, whose error is negligible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import CHARGE, U, add, two_product
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.jit import jit
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, Matrix

SLAB = 1 << 20  # stored values that one thread reads at a time: about a millisecond
LOST_SQUARE = 1e-160  # norm of a row whose squares underflow: they are below 1e-320
RUN = 256  # samples, or numbers, that are summed before their sum is added to the others


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
    return np.asarray(grown + LOST_SQUARE)


def times(X: Matrix, w: FloatArray, *, precise: bool = False, threads: int = 1) -> Enclosure:
    """Return an enclosure of Xw, for a vector w.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Samples, float32 or float64.
    w : ndarray of shape (d,)
        Float64 numbers.
    precise : bool, default=False
        Whether to use double-double arithmetic.
    threads : int, default=1
        Number of threads; the result does not depend on it.
    """
    w = np.ascontiguousarray(w, dtype=np.float64)
    out = np.zeros((3, X.shape[0]))
    if sp.issparse(X):
        loop: Any = sparse_times if precise else sparse_rough_times
    else:
        loop = dense_times if precise else dense_rough_times

    def work(slab: slice) -> None:
        loop(*_arrays(X, slab), w, out[:, slab])

    for_each(work, _slabs(X), threads)
    return _enclosed(out, X.shape[1], precise=precise)


def combine(X: Matrix, a: FloatArray, *, precise: bool = False, threads: int = 1) -> Enclosure:
    """Return an enclosure of X'a, for a vector a; parameters as for `times`."""
    a = np.ascontiguousarray(a, dtype=np.float64)
    if sp.issparse(X):
        loop: Any = sparse_combine if precise else sparse_rough_combine
    else:
        loop = dense_combine if precise else dense_rough_combine
    slabs = _slabs(X)
    outs = [np.zeros((3, X.shape[1])) for _ in slabs]

    def work(number: int) -> None:
        loop(*_arrays(X, slabs[number]), a[slabs[number]], outs[number])

    for_each(work, range(len(slabs)), threads)
    found = Enclosure.exact(np.zeros(X.shape[1]))
    for slab, out in zip(slabs, outs, strict=True):
        rows = slab.stop - slab.start
        terms = rows if precise or sp.issparse(X) else run_terms(rows)
        found = found + _enclosed(out, terms, precise=precise)
    return found


def run_terms(n: int) -> int:
    """Return the number of additions that an entry goes through in sums of runs of n numbers."""
    return min(n, RUN) + -(-n // RUN)


def _slabs(X: Matrix) -> list[slice]:
    """Return slices of samples that one thread reads at a time."""
    n = X.shape[0]
    values = X.nnz if sp.issparse(X) else X.size
    step = max(1, SLAB * n // max(1, values))
    return [slice(k, min(k + step, n)) for k in range(0, n, step)]


def _arrays(X: Matrix, slab: slice) -> tuple[Any, ...]:
    """Return some samples as the first arguments of a compiled loop."""
    if sp.issparse(X):
        return X.data, X.indices, X.indptr[slab.start : slab.stop + 1]
    return (X[slab],)


def _enclosed(out: FloatArray, terms: int, *, precise: bool) -> Enclosure:
    """Return an enclosure of sums of at most `terms` products; out holds hi, lo and sizes."""
    with np.errstate(all="ignore"):
        unit = CHARGE * (terms + 8) * U * U * (1 + 1e-6) if precise else gamma(terms + 2)
        lost = DUST * (terms + 1)  # underflow
        return Enclosure(out[0], out[1], unit * (out[2] * (1 + 1e-6) + lost) + lost)


@jit
def dense_rough_times(X, w, out):  # type: ignore[no-untyped-def]
    """Write Xw in float64 and the sums of absolute terms to rows 0 and 2 of out."""
    n, d = X.shape
    whole = d - d % 4
    for i in range(n):
        x = X[i]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        for t in range(0, whole, 4):
            p0, p1 = x[t] * w[t], x[t + 1] * w[t + 1]
            p2, p3 = x[t + 2] * w[t + 2], x[t + 3] * w[t + 3]
            s0 += p0
            s1 += p1
            s2 += p2
            s3 += p3
            a0 += abs(p0)
            a1 += abs(p1)
            a2 += abs(p2)
            a3 += abs(p3)
        for t in range(whole, d):
            p0 = x[t] * w[t]
            s0 += p0
            a0 += abs(p0)
        out[0, i], out[2, i] = (s0 + s1) + (s2 + s3), (a0 + a1) + (a2 + a3)


@jit
def dense_rough_combine(X, a, out):  # type: ignore[no-untyped-def]
    """Write X'a in float64 and the sums of absolute terms to rows 0 and 2 of out."""
    value, size = out[1], out[2]  # row 1 holds the sums of a run, and zeros in the end
    for first in range(0, X.shape[0], RUN):
        value[:] = 0.0
        for i in range(first, min(first + RUN, X.shape[0])):
            c = a[i]
            if c != 0.0:
                for t in range(X.shape[1]):
                    p = c * X[i, t]
                    value[t] += p
                    size[t] += abs(p)
        for t in range(X.shape[1]):
            out[0, t] += value[t]
    value[:] = 0.0


@jit
def sparse_rough_times(data, indices, indptr, w, out):  # type: ignore[no-untyped-def]
    """Write Xw, X in CSR format, in float64 and the sums of absolute terms to rows 0 and 2."""
    for i in range(out.shape[1]):
        s, size = 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            p = data[k] * w[indices[k]]
            s += p
            size += abs(p)
        out[0, i], out[2, i] = s, size


@jit
def sparse_rough_combine(data, indices, indptr, a, out):  # type: ignore[no-untyped-def]
    """Write X'a, X in CSR format, in float64 and the sums of absolute terms to rows 0 and 2."""
    for i in range(len(a)):
        if a[i] == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            p = data[k] * a[i]
            out[0, indices[k]] += p
            out[2, indices[k]] += abs(p)


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
