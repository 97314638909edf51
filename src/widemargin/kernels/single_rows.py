"""Kernel rows computed one at a time, for solvers that need few of them.

The compiled loop is in :mod:`widemargin.kernels.row_loops`. It serves samples with few features and
a linear, rbf or polynomial kernel; blocks of kernel values (`Rows`) serve the others. Sparse
samples are copied to an array, so that they are treated as the same numbers in an array are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels.row_loops import LANES, LINEAR, POLY, RBF, class_sums
from widemargin.kernels.tiles import FAR_NORM

if TYPE_CHECKING:
    from widemargin.kernels.rows import Rows

# With more features, blocks of the whole matrix are faster: they are products in BLAS.
MOST_FEATURES = 128
MOST_SPARSE = 50_000  # more sparse samples are not copied to an array
MOST_FACTORS = 20  # largest degree of a polynomial that is computed by multiplication


@dataclass(frozen=True, eq=False)
class SingleRows:
    """Samples in the form that `row_loops.kernel_row` reads.

    Attributes
    ----------
    samples : ndarray of shape (n, n_padded_features)
        Samples in float64 (rbf: centred and scaled), zeros in the last features.
    form : tuple of float
        Kind of the kernel, gamma, coef0, degree.
    """

    samples: FloatArray
    form: tuple[float, float, float, float]

    def part(self, rows: IntArray) -> SingleRows:
        """Return some of the samples with the same kernel."""
        return SingleRows(self.samples[rows], self.form)

    def in_columns(
        self, place: IntArray | None, n_columns: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the arguments `columns`, `samples` and `norms` of `kernel_row`.

        Sample i stands in column place[i] (None: i) of n_columns, a multiple of LANES; the other
        columns hold zeros.
        """
        n, d = self.samples.shape
        rows = np.zeros((n_columns, d))
        rows[slice(0, n) if place is None else place] = self.samples
        columns = np.empty((n_columns // LANES, d, LANES))
        columns[:] = rows.reshape(-1, LANES, d).transpose(0, 2, 1)
        norms = np.einsum("ij,ij->i", rows, rows)
        norms *= -0.5
        return columns, rows, norms.reshape(-1, LANES)

    def diagonal(self, norms: FloatArray) -> FloatArray:
        """Return k(x, x) of all columns, given their `norms`."""
        kind, gamma, coef0, degree = self.form
        if kind == RBF:
            return np.ones(norms.size)
        squares = -2.0 * norms.ravel()
        return squares if kind == LINEAR else (gamma * squares + coef0) ** int(degree)


class FewPoints:
    """Decision values of few points at a time: one compiled call, without blocks and threads.

    Parameters
    ----------
    support : Rows
        The support vectors, grouped by class; their kernel is one of `kernel_row`.
    coefficients : ndarray of shape (n_sums, n_support)
        Coefficients.
    counts : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    """

    def __init__(self, support: Rows, coefficients: FloatArray, counts: IntArray) -> None:
        rows = support.single_rows
        assert rows is not None
        n = len(rows.samples)
        self.support = support
        self.form = np.array([*rows.form, -1.0])
        self.columns, _, self.norms = rows.in_columns(None, n + -n % LANES)
        self.coefficients = np.ascontiguousarray(coefficients)
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)

    def sums(self, X: RealArray) -> FloatArray:
        """Return the sums per sample of X, class and row of coefficients."""
        points = scaled(self.support, X)
        K = np.empty((1, len(self.columns), LANES))
        power = np.empty(LANES)
        out = np.empty((len(points), len(self.starts) - 1, len(self.coefficients)))
        class_sums(
            K, K.reshape(-1), self.columns, points, self.norms, self.form, np.empty((2, LANES)),
            power, power.view(np.int64), self.coefficients, self.starts, out,
        )  # fmt: skip
        return out


def single_rows(rows: Rows) -> SingleRows | None:
    """Return the samples for `kernel_row`, or None if it does not know their kernel.

    It is also None for rbf kernels so narrow that the exponent of distant samples would be
    inaccurate: blocks compute it from differences.
    """
    kernel, X = rows.kernel, rows.X
    if X.shape[1] > MOST_FEATURES or kernel.name not in ("linear", "poly", "rbf"):
        return None
    if sp.issparse(X):
        if X.shape[0] > MOST_SPARSE:
            return None
        X = X.toarray()
    with np.errstate(over="ignore"):
        samples = scaled(rows, X)
        largest = 0.5 * float(np.einsum("ij,ij->i", samples, samples).max())
    if kernel.name == "rbf":
        near = largest < FAR_NORM[np.float64]
        return SingleRows(samples, (float(RBF), 0.0, 0.0, 0.0)) if near else None
    if kernel.name == "linear":
        return SingleRows(samples, (float(LINEAR), 0.0, 0.0, 0.0))
    whole = float(kernel.degree).is_integer() and kernel.degree <= MOST_FACTORS
    if kernel.name == "poly" and whole:
        form = (float(POLY), float(kernel.gamma), float(kernel.coef0), float(kernel.degree))
        return SingleRows(samples, form)
    return None


def scaled(rows: Rows, X: RealArray) -> FloatArray:
    """Return X in the form of the samples of `single_rows`, whatever samples `rows` has."""
    n, d = X.shape
    samples = np.zeros((n, d + -d % 4))
    inside = samples[:, :d]
    if rows.kernel.name == "rbf":
        centre = X.mean(axis=0, dtype=np.float64) if rows.centre is None else rows.centre
        np.subtract(X, centre, out=inside)
        inside *= np.sqrt(2.0 * np.asarray(rows.kernel.gamma, dtype=np.float64))
    else:
        inside[:] = X
    return samples
