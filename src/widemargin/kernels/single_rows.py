"""Kernel rows computed one at a time, for solvers that need few of them.

The compiled loop is in :mod:`widemargin.kernels.row_loops`. It serves dense samples with few
features and a linear, rbf or polynomial kernel; blocks of kernel values (`Rows`) serve the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels.row_loops import LANES, LINEAR, POLY, RBF
from widemargin.kernels.tiles import FAR_NORM

if TYPE_CHECKING:
    from widemargin.kernels.rows import Rows

# With more features, blocks of the whole matrix are faster: they are products in BLAS.
MOST_FEATURES = 128
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


def single_rows(rows: Rows) -> SingleRows | None:
    """Return the samples for `kernel_row`, or None if it does not know their kernel.

    It is also None for rbf kernels so narrow that the exponent of distant samples would be
    inaccurate: blocks compute it from differences.
    """
    kernel, X = rows.kernel, rows.X
    if sp.issparse(X) or X.shape[1] > MOST_FEATURES:
        return None
    n, d = X.shape
    samples = np.zeros((n, d + -d % 4))
    inside = samples[:, :d]
    if kernel.name == "rbf":
        with np.errstate(over="ignore"):
            assert rows.centre is not None
            np.subtract(X, rows.centre, out=inside)
            inside *= np.sqrt(2.0 * np.asarray(kernel.gamma, dtype=np.float64))
            largest = 0.5 * float(np.einsum("ij,ij->i", samples, samples).max())
        near = largest < FAR_NORM[np.float64]
        return SingleRows(samples, (float(RBF), 0.0, 0.0, 0.0)) if near else None
    inside[:] = X
    if kernel.name == "linear":
        return SingleRows(samples, (float(LINEAR), 0.0, 0.0, 0.0))
    whole = float(kernel.degree).is_integer() and kernel.degree <= MOST_FACTORS
    if kernel.name == "poly" and whole:
        form = (float(POLY), float(kernel.gamma), float(kernel.coef0), float(kernel.degree))
        return SingleRows(samples, form)
    return None
