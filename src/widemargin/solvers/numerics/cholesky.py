"""Cholesky factorisation and triangular inverse in blocks, on Python threads.

LAPACK's threads wait actively for each other, which takes many times as long on a busy computer,
and a call of LAPACK cannot be interrupted. Here every task is a product of blocks on one thread,
and interrupts take effect between blocks. The result does not depend on the number of threads.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dtrtrs

from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import FloatArray

BLOCK = 256
COLUMNS = 512  # columns of an inverse that are computed together


def factorise(C: FloatArray) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor.

    The matrix is in Fortran order, and its upper triangle without the diagonal is not changed.
    Returns whether the matrix is positive definite.
    """
    n = len(C)
    spans = [slice(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK)]
    below = np.tri(BLOCK, dtype=bool)
    with worker_threads() as threads:
        for k, own in enumerate(spans):
            size = own.stop - own.start
            corner, failed = dpotrf(C[own, own], lower=1, clean=1)
            if failed:
                return False
            np.copyto(C[own, own], corner, where=below[:size, :size])
            rest = spans[k + 1 :]
            panel = np.empty((n - own.stop, size))

            def solve(rows: slice, own: slice = own, corner: FloatArray = corner,
                      panel: FloatArray = panel) -> None:  # fmt: skip
                found = dtrsm(1.0, corner, C[rows, own], side=1, lower=1, trans_a=1)
                C[rows, own] = panel[rows.start - own.stop : rows.stop - own.stop] = found

            def update(pair: tuple[slice, slice], own: slice = own,
                       panel: FloatArray = panel) -> None:  # fmt: skip
                rows, columns = pair
                left = panel[rows.start - own.stop : rows.stop - own.stop]
                right = panel[columns.start - own.stop : columns.stop - own.stop]
                tile = C[rows, columns]
                if rows == columns:
                    np.subtract(
                        tile, left @ right.T, out=tile, where=below[: len(left), : len(left)]
                    )
                else:
                    tile -= left @ right.T

            for_each(solve, rest, threads)
            pairs = [(b, a) for a, b in itertools.combinations_with_replacement(rest, 2)]
            for_each(update, pairs, threads)
    return True


def inverse_norms(factor: FloatArray) -> FloatArray:
    """Return the squared norms of the columns of the inverse of a lower triangular matrix.

    For a Cholesky factor they are the diagonal of the inverse of the factorised matrix.
    """
    n, found = len(factor), np.empty(len(factor))

    def solve(start: int) -> None:
        stop = min(start + COLUMNS, n)
        right = np.zeros((n - start, stop - start), order="F")
        right[np.arange(stop - start), np.arange(stop - start)] = 1.0
        columns = dtrtrs(factor[start:, start:], right, lower=1, overwrite_b=1)[0]
        found[start:stop] = np.einsum("ij,ij->j", columns, columns)

    with worker_threads() as threads:
        for_each(solve, range(0, n, COLUMNS), threads)
    return found
