"""Products with the centred data matrix of a cumulative model, and its rotation if it is wide.

The thresholds absorb any shift of the utilities, so the samples may be centred: features like
1000 +- 1 then keep their digits. The centring is applied to the products, so that sparse data stay
sparse and dense data need no copy.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import BoolArray, FloatArray, Matrix
from widemargin.problems.cumulative import CumulativeProblem, Slopes
from widemargin.solvers.numerics.data_products import BLOCK, LinearRows


class CentredRows:
    """Products with X centred at its weighted mean, sums in float64; X is read in place.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Weighted mean of the samples.
    varies : ndarray of shape (d,)
        Whether a feature is not constant.
    """

    def __init__(self, X: Matrix, weight: FloatArray, threads: int) -> None:
        self.rows = LinearRows(X, threads=threads)
        self.everything = np.arange(X.shape[0])
        self.centre = self.rows.combine(weight / weight.sum())
        # A centred constant feature is rounding noise, which Newton steps must not fit.
        self.varies = ~constant_columns(X)

    def dot(self, w: FloatArray) -> FloatArray:
        """Return (x_i - centre) . w."""
        return self.rows.dot(w) - float(self.centre @ w)

    def combine(self, coef: FloatArray) -> FloatArray:
        """Return sum_i coef_i (x_i - centre)."""
        return self.rows.combine(coef) - float(coef.sum()) * self.centre

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return sum_i weight_i (x_i - centre)(x_i - centre)'."""
        return self.rows.feature_gram(self.everything, weight, self.centre)

    def spread(self, weight: FloatArray) -> FloatArray:
        """Return the diagonal of `gram`."""
        total = self.rows.combine(weight)
        raw = self.rows.spread(self.everything, weight, np.zeros_like(self.centre))
        moved = raw - 2.0 * total * self.centre + float(weight.sum()) * self.centre**2
        return np.maximum(moved, 0.0)

    def against_thresholds(self, problem: CumulativeProblem, slopes: Slopes) -> FloatArray:
        """Return the mixed second derivatives, shape (n_thresholds, d)."""
        # Those by utility and threshold, shape (n_rows, n_thresholds), have two entries per row.
        n, q, X = len(problem.codes), problem.n_ranks, self.rows.X
        columns = np.column_stack([problem.codes, problem.codes + 1]).ravel()
        values = np.column_stack([slopes.below, slopes.above]).ravel()
        padded = sp.csr_array((values, columns, np.arange(0, 2 * n + 1, 2)), shape=(n, q + 1))
        links = padded[:, 1:-1]
        out = np.zeros((q - 1, X.shape[1]))
        # Convert X to float64 in blocks of bounded size.
        step = max(1, BLOCK // max(1, self.rows.n_values // n))
        for first in range(0, n, step):
            some = slice(first, first + step)
            product = links[some].T @ X[some].astype(np.float64, copy=False)
            out += product.toarray() if sp.issparse(product) else product
        return out - np.outer(np.asarray(links.sum(axis=0)).ravel(), self.centre)

    def turned(self) -> tuple[FloatArray, FloatArray]:
        """Return rotated samples Z and the map A: with R the centred samples, ZZ' = RR', Z = RR'A.

        Z has at most n columns, and w = R'A z has |w| = |z| and utilities Z z: a problem in many
        features is one in at most n.
        """
        gram = self.rows.row_gram(self.everything, self.centre)
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-13 * len(values) * max(float(values[-1]), 0.0)
        root = np.sqrt(values[kept])
        return np.ascontiguousarray(vectors[:, kept] * root), vectors[:, kept] / root


def constant_columns(X: Matrix) -> BoolArray:
    """Return a mask of the features that have one value in all samples."""
    if sp.issparse(X):
        return np.asarray(X.max(axis=0).toarray() == X.min(axis=0).toarray()).ravel()
    return np.asarray(X.max(axis=0) == X.min(axis=0))
