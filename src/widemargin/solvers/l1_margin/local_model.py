r"""Quadratic model of the l1-penalised squared hinge on a working set of features.

With the samples A that have a slack, curvatures :math:`h_i = 2 c_i` and the change
:math:`\delta = v - w` of the weights of the working set, the model is

.. math::

    \min_v \; g \cdot \delta + \tfrac12 \delta' H \delta + |v|_1, \qquad
    H = \sum_{i \in A} h_i (x_i - m)(x_i - m)' ,

where g is the gradient of the loss at w. An intercept follows the weights optimally; eliminating it
subtracts m, the mean of the samples of A weighted by h (m = 0 without an intercept).

The model is a lasso problem. It is solved by coordinate descent, which finds the nonzero weights,
alternating with Newton steps on these: the full step with weights that would change their sign set
to zero, or if that does not decrease the model, the step up to the first change of sign.

=============  =============================================================  ==================
class          cost of one sweep                                              for
=============  =============================================================  ==================
`GramModel`    square of the number of features                               few features
`ColumnModel`  stored values of the features' columns                         all others
=============  =============================================================  ==================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.solvers.numerics.data_products import LinearRows

LARGEST_FACTOR = 2000  # largest order of a Gram matrix or factorisation: 32 MB
SWEEPS = 10  # sweeps of coordinate descent between two Newton steps, at least
MOST_SWEEPS = 300  # the same, at most: as many as take the time of a factorisation
ROUNDS = 5  # largest number of times that sweeps and Newton steps alternate on one model
CHEAP = 3000  # Newton steps in a row that end at a change of sign: this over the nonzero weights
RIDGE = 1e-12  # added to the unit diagonal of the scaled Newton matrix
FULL = 5  # every fifth sweep visits all features, the others those with nonzero weights


@jit(fast=True)
def _gram_sweeps(H: Any, g: Any, v: Any, most: Any, goal: Any) -> Any:
    """Run sweeps of coordinate descent; update v and g = gradient at v; return the last change."""
    # Invariant: g is the gradient of the quadratic part at v. The change of a coordinate is
    # measured by what it changes its own gradient, so that the penalty's slope, 1, is the unit.
    worst = np.inf
    full = True
    for s in range(most):
        worst = 0.0
        for j in range(len(v)):
            if v[j] == 0.0 and (not full or abs(g[j]) <= 1.0):
                continue
            h = H[j, j]
            new = 0.0
            if h > 0.0:
                new = v[j] - g[j] / h
                new = max(new - 1.0 / h, 0.0) + min(new + 1.0 / h, 0.0)
            change = new - v[j]
            if change != 0.0:
                v[j] = new
                for k in range(len(v)):
                    g[k] += change * H[j, k]
                worst = max(worst, abs(change) * h)
        if full and worst <= goal:
            break
        full = worst <= goal or (s + 1) % FULL == 0 or s + 2 == most
    return worst


@jit(fast=True)
def _column_sweeps(
    indptr: Any,
    indices: Any,
    data: Any,
    h: Any,
    diagonal: Any,
    slope: Any,
    sums: Any,
    mass: Any,
    v: Any,
    q: Any,
    total: Any,
    most: Any,
    goal: Any,
) -> Any:
    """Run sweeps of coordinate descent on CSC columns; update v, q and total; see `ColumnModel`."""
    worst = np.inf
    full = True
    for s in range(most):
        worst = 0.0
        for j in range(len(v)):
            if v[j] == 0.0 and not full:
                continue
            g = slope[j] - total[0] * sums[j] / mass
            for p in range(indptr[j], indptr[j + 1]):
                g += data[p] * q[indices[p]]
            new = 0.0
            if diagonal[j] > 0.0:
                new = v[j] - g / diagonal[j]
                new = max(new - 1.0 / diagonal[j], 0.0) + min(new + 1.0 / diagonal[j], 0.0)
            change = new - v[j]
            if change != 0.0:
                v[j] = new
                total[0] += change * sums[j]
                for p in range(indptr[j], indptr[j + 1]):
                    q[indices[p]] += change * data[p] * h[indices[p]]
                worst = max(worst, abs(change) * diagonal[j])
        if full and worst <= goal:
            break
        full = worst <= goal or (s + 1) % FULL == 0 or s + 2 == most
    return worst


class GramModel:
    """Model with its matrix H; `g` is the gradient of the quadratic part at `v`."""

    def __init__(
        self,
        rows: LinearRows,
        used: IntArray,
        h: FloatArray,
        mean: FloatArray,
        slope: FloatArray,
        w: FloatArray,
    ) -> None:
        self.H = rows.feature_gram(used, h, mean)
        self.slope, self.w = slope, w
        self.g, self.v = slope.copy(), w.copy()

    def sweep(self, goal: float) -> float:
        """Run sweeps of coordinate descent; return the largest change in the last one."""
        return float(_gram_sweeps(self.H, self.g, self.v, SWEEPS, goal))

    def gradient(self) -> FloatArray:
        """Return the gradient of the quadratic part at v."""
        return self.g

    def hessian(self, some: IntArray) -> FloatArray:
        """Return the rows and columns of H of some features."""
        return self.H[np.ix_(some, some)]

    def move(self, some: IntArray, new: FloatArray) -> None:
        """Set the weights of some features."""
        self.g = self.g + (new - self.v[some]) @ self.H[some]
        self.v = self.v.copy()
        self.v[some] = new


class ColumnModel:
    """Model with the columns of its features.

    `q` is h times the change X delta of the decision values, without the intercept; `sums` are the
    sums of h x per feature, `mass` is that of h (infinite without an intercept, which then does not
    change), and total[0] is the sum of q.
    """

    def __init__(
        self,
        rows: LinearRows,
        columns: Matrix,
        used: IntArray,
        h: FloatArray,
        mean: FloatArray,
        slope: FloatArray,
        w: FloatArray,
        *,
        intercept: bool,
    ) -> None:
        self.rows, self.used, self.mean, self.weight = rows, used, mean, h
        self.columns = columns
        self.h = np.zeros(rows.n_rows)
        self.h[used] = h
        self.mass = float(h.sum()) if intercept else np.inf
        self.sums = mean * float(h.sum())
        self.diagonal = rows.spread(used, h, mean)
        self.slope, self.w, self.v = slope, w, w.copy()
        self.q, self.total = np.zeros(rows.n_rows), np.zeros(1)

    def sweep(self, goal: float) -> float:
        """Run sweeps of coordinate descent; return the largest change in the last one."""
        Z = self.columns
        ratio = np.count_nonzero(self.v) ** 3 // (100 * max(1, Z.nnz))
        most = min(max(SWEEPS, ratio), MOST_SWEEPS)
        return float(
            _column_sweeps(
                Z.indptr, Z.indices, Z.data, self.h, self.diagonal, self.slope, self.sums,
                self.mass, self.v, self.q, self.total, most, goal,
            )
        )  # fmt: skip

    def gradient(self) -> FloatArray:
        """Return the gradient of the quadratic part at v."""
        own: FloatArray = self.columns.T @ self.q
        return self.slope + own - float(self.total[0]) / self.mass * self.sums

    def hessian(self, some: IntArray) -> FloatArray:
        """Return the rows and columns of H of some features."""
        part = LinearRows(self.columns[:, some].tocsr(), self.rows.tick)
        return part.feature_gram(self.used, self.weight, self.mean[some])

    def move(self, some: IntArray, new: FloatArray) -> None:
        """Set the weights of some features."""
        change = np.zeros_like(self.v)
        change[some] = new - self.v[some]
        self.q = self.q + self.h * (self.columns @ change)
        self.total = self.total + float(self.sums @ change)
        self.v = self.v + change
        self.v[some] = new


LocalModel = GramModel | ColumnModel


def build_model(
    X: Matrix,
    rows: LinearRows,
    used: IntArray,
    h: FloatArray,
    slope: FloatArray,
    w: FloatArray,
    *,
    intercept: bool,
) -> LocalModel:
    """Return the model on the features of X, in the form whose sweeps are cheaper.

    X, in CSC or dense, and `rows`, in CSR or dense, hold the same values; `used` and `h` are the
    samples with a slack and their curvatures; `slope` and `w` have one value per feature.
    """
    mean = np.zeros(rows.n_features)
    if intercept:
        spread = np.zeros(rows.n_rows)
        spread[used] = h / h.sum()
        mean = rows.combine(spread)
    d = rows.n_features
    if d <= LARGEST_FACTOR and d * d <= 4 * rows.size_of(used):
        return GramModel(rows, used, h, mean, slope, w)
    columns = sp.csc_array(X, dtype=np.float64)
    return ColumnModel(rows, columns, used, h, mean, slope, w, intercept=intercept)


def model_value(model: LocalModel) -> float:
    """Return the model's objective at its v, up to a constant: |w|_1 at v = w."""
    change = model.v - model.w
    return 0.5 * float((model.slope + model.gradient()) @ change) + float(np.abs(model.v).sum())


def minimise(model: LocalModel, goal: float) -> None:
    """Minimise the model until a sweep changes no coordinate's gradient by more than goal.

    The number of Newton steps is limited, more for many nonzero weights: the next model of the
    problem then gains more than further steps on this one.
    """
    for _ in range(ROUNDS):
        if model.sweep(goal) <= goal:
            return
        for _ in range(max(1, CHEAP // max(1, int(np.count_nonzero(model.v))))):
            if not _newton(model):
                break


def _newton(model: LocalModel) -> bool:
    """Take a Newton step on the nonzero weights; return whether it ended at a change of sign.

    The matrix is scaled to a unit diagonal. If it is singular, the ridge makes the step long in
    directions that only change the penalty, and it ends where the first weight becomes zero.
    """
    some = np.flatnonzero(model.v)
    if not 0 < len(some) <= LARGEST_FACTOR:
        return False
    v, g = model.v[some], model.gradient()[some]
    H = model.hessian(some)
    root = np.sqrt(np.diag(H))
    if not root.all():
        return False
    H /= np.outer(root, root)
    H[np.diag_indices_from(H)] += RIDGE
    try:
        factor = cho_factor(H, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    step = -cho_solve(factor, (g + np.sign(v)) / root, check_finite=False) / root
    if not np.isfinite(step).all():
        return False
    before = model_value(model)
    new = v + step
    crossed = np.sign(new) != np.sign(v)
    if not crossed.any():
        model.move(some, new)
        return False
    model.move(some, np.where(crossed, 0.0, new))
    if model_value(model) < before:
        return True
    lengths = np.where(crossed, -v / np.where(step == 0.0, 1.0, step), np.inf)
    first = int(np.argmin(lengths))
    new = v + float(lengths[first]) * step
    new[first] = 0.0
    model.move(some, new)
    return True
