r"""Sums of kernel values with proved error bounds: f_i = sum_j beta_j k(x_i, x_j).

The kernel is an exact real function of the stored samples and parameters; for precomputed matrices
and user-defined functions, the returned float64 numbers are the kernel. Let *majorants* q satisfy
:math:`|k(x_i, x_j)| \le q_i q_j`, and :math:`S = \sum_j |\beta_j| q_j`. The float64 sums of
:class:`widemargin.kernels.rows.Rows` then have an error of at most :math:`\gamma_k S q_i`, where k
counts the rounding errors of one kernel value, relative to the product of the majorants, and those
of the sum (Higham 2002, chapters 3 and 4; any order of summation):

============  ==============================  ======================================================
kernel        q                               roundings of one kernel value
============  ==============================  ======================================================
linear        :math:`|x|`                     d + 4
poly          :math:`(\gamma |x|^2 + |c|)     degree (d + 4)
              ^{degree/2}`
rbf           1                               :math:`11 + (3 d + 14) R^2 + 4 R`: the exponent is a
                                              product of centred, scaled rows of norm at most R (far
                                              pairs: differences, where t exp(-t) < 0.37 helps)
sigmoid       that of poly with degree 1      d + 12; note that abs(tanh t) <= abs(t)
precomputed   :math:`\max_j \sqrt{|K_{ij}|}`  0
callable      :math:`\sqrt{K_{ii}}`           0, for positive semi-definite kernels
============  ==============================  ======================================================

The precise sums use double-double arithmetic on the samples themselves, differences for rbf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import (
    CHARGE,
    EXP_CHARGE,
    U,
    add,
    exp_minus,
    multiply,
    two_product,
    two_sum,
)
from widemargin._base.enclosure import Enclosure
from widemargin._base.jit import jit
from widemargin._base.products import LOST_SQUARE, combine, gamma, row_norms, times
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels.rows import SYMMETRIC_TILE, Rows
from widemargin.kernels.tiles import FAR_NORM, spans_of

if TYPE_CHECKING:
    from widemargin.kernels import Kernel

TINY = 1e-290  # covers underflow of kernel values, relative to the coefficients
PRECISE_PAIRS = 20_000_000  # kernel values in double-double take 0.5 to 1 microsecond each
PRECISE_ROWS = 64  # rows per task of a thread
DENSE_BYTES = 200e6  # sparse samples are made dense for precise sums up to this size


def majorants(rows: Rows) -> FloatArray:
    """Return q with abs(k(x_i, x_j)) <= q_i q_j for all pairs of samples."""
    kernel = rows.kernel
    with np.errstate(all="ignore"):
        if kernel.name == "rbf":
            return np.ones(rows.n)
        if kernel.name == "precomputed":
            largest = np.maximum(np.abs(rows.X).max(axis=0), np.abs(rows.X).max(axis=1))
            return np.asarray(np.sqrt(largest) * (1 + 4 * U))
        if kernel.function is not None:
            return np.asarray(np.sqrt(np.abs(_own_values(rows))) * (1 + 4 * U))
        norms = row_norms(rows.X)
        if kernel.name == "linear":
            return norms
        base = (abs(float(kernel.gamma)) * norms**2 + abs(kernel.coef0)) * (1 + 16 * U)
        if kernel.name == "sigmoid":
            return np.asarray(np.sqrt(base) * (1 + 8 * U))
        power = max(1.0, float(kernel.degree))
        return np.asarray(np.sqrt(base) ** kernel.degree * (1 + 32 * power * U))


def _own_values(rows: Rows) -> FloatArray:
    """Return k(x_i, x_i) of a user-defined kernel, from blocks on the diagonal."""
    spans = spans_of(rows.n, PRECISE_ROWS)
    blocks = [
        rows.block(np.arange(s.start, s.stop), rows, np.arange(s.start, s.stop)) for s in spans
    ]
    return np.concatenate([np.diagonal(block) for block in blocks]).astype(np.float64)


def roundings(rows: Rows, n_terms: int) -> float:
    """Return k, the number of rounding errors in a sum of `n_terms` kernel values in float64."""
    kernel, d = rows.kernel, rows.X.shape[1]
    if kernel.name == "linear":
        return float(n_terms + d + 4)
    if kernel.name == "precomputed" or kernel.function is not None:
        return float(n_terms + 2)
    # Sums within a tile are added tile by tile.
    width = max(rows.tiles.width, SYMMETRIC_TILE)
    narrow = min(rows.tiles.width, SYMMETRIC_TILE)
    summed = min(n_terms, width + n_terms // narrow + 2) + 2
    if kernel.name == "rbf":
        return summed + 11 + _exponent_roundings(rows)
    if kernel.name == "sigmoid":
        return float(summed + d + 12)
    power = float(kernel.degree)
    # A root (degree < 1) can enlarge a small error without limit.
    return summed + power * (d + 4) + 8 if power >= 1.0 else np.inf


def _exponent_roundings(rows: Rows) -> float:
    """Return the rounding errors of an rbf kernel value that come from its exponent."""
    X, d = rows.X, rows.X.shape[1]
    scale = np.empty(d)
    scale[:] = np.sqrt(2.0 * np.asarray(rows.kernel.gamma, np.float64))
    with np.errstate(all="ignore"):
        if sp.issparse(X):
            radius = float(row_norms(X @ sp.diags_array(scale)).max(initial=0.0))
        else:
            radius = scaled_radius(X, rows.centre, scale)
        # If not both samples of a pair are far, the norms are at most 2 sqrt(2 FAR_NORM), or one
        # norm is twice the other and the kernel value is too small for its error to matter.
        near = min(radius * radius, 8.0 * FAR_NORM[np.float64])
        steps = (3 * d + 14) * (near * (1 + 1e-6) + 3.0) + 4.0 * radius
    return float(steps) if np.isfinite(steps) else np.inf


def enclosed_sum(
    rows: Rows,
    at: IntArray,
    of: IntArray,
    beta: FloatArray,
    values: FloatArray | None = None,
    *,
    size: FloatArray | None = None,
    precise: bool = False,
) -> Enclosure:
    """Return an enclosure of f_i = sum_j beta_j k(x_i, x_j), i in `at` and j in `of`.

    Parameters
    ----------
    rows : Rows
        Samples with their kernel.
    at, of : ndarray of int
        Indices of the samples i and j.
    beta : ndarray of shape (len(of),)
        Coefficients.
    values : ndarray of shape (len(at),), optional
        The same sums as float64 numbers computed by `rows`, if they are known already.
    size : ndarray of shape (n,), optional
        Majorants of all samples, if they are known already.
    precise : bool, default=False
        Whether to use double-double arithmetic, where it is available and affordable.
    """
    size = majorants(rows) if size is None else size
    if precise and len(of):
        found = _precise_sum(rows, at, of, beta)
        if found is not None:
            return found
    if values is None:
        values = rows.weighted_sum(at, rows, of, beta) if len(of) else np.zeros(len(at))
    factor = gamma(roundings(rows, len(of))) if len(of) else 0.0
    error = rough_errors(beta, size[of], size[at], factor)
    return Enclosure(values, np.zeros(len(at)), error)


def enclosed_diagonal(
    rows: Rows, at: IntArray, *, size: FloatArray | None = None, precise: bool = False
) -> Enclosure:
    """Return an enclosure of k(x_i, x_i), i in `at`; parameters as for `enclosed_sum`."""
    kernel, X = rows.kernel, rows.X
    if kernel.name == "rbf":
        return Enclosure.exact(np.ones(len(at)))
    if kernel.name == "precomputed" or kernel.function is not None:
        return Enclosure.exact(rows.diagonal()[at])
    fits = not sp.issparse(X) or len(at) * X.shape[1] * 8 <= DENSE_BYTES
    settings = _power_settings(kernel)
    if precise and settings is not None and fits:
        samples = X[at].toarray() if sp.issparse(X) else X[at]
        out = np.zeros((3, len(at)))
        own_powers(np.ascontiguousarray(samples, dtype=np.float64), *settings, out)
        if np.isfinite(out).all():
            units = CHARGE * (settings[2] * (X.shape[1] + 4) + 4) * (1 + 1e-6)
            return Enclosure(out[0], out[1], units * U * U * out[2] + TINY * (1 + out[2]))
    size = majorants(rows) if size is None else size
    with np.errstate(all="ignore"):
        error = gamma(roundings(rows, 1)) * size[at] ** 2 * (1 + 8 * U) + TINY * (1 + size[at])
        return Enclosure.within(rows.diagonal()[at], np.where(np.isnan(error), np.inf, error))


def _power_settings(kernel: Kernel) -> tuple[float, float, int] | None:
    """Return gamma, coef0 and degree of kernels that are whole powers, else None."""
    if kernel.name == "linear":
        return 1.0, 0.0, 1
    if kernel.name != "poly" or not float(kernel.degree).is_integer() or kernel.degree < 1:
        return None
    return float(kernel.gamma), float(kernel.coef0), int(kernel.degree)


def _precise_sum(rows: Rows, at: IntArray, of: IntArray, beta: FloatArray) -> Enclosure | None:
    """Return the sums in double-double arithmetic, or None if they are not available."""
    kernel, X = rows.kernel, rows.X
    if kernel.name == "linear":
        w = combine(X[of], beta, precise=True)
        first, second = times(X[at], w.hi, precise=True), times(X[at], w.lo)
        return (first + second).widened(np.asarray(abs(X[at]) @ w.error) * (1 + 1e-6))
    if len(at) * len(of) > PRECISE_PAIRS:
        return None
    if kernel.name == "precomputed":
        return times(X[np.ix_(at, of)], beta, precise=True)
    if kernel.function is not None:
        parts = [
            times(rows.block(at[s], rows, of), beta, precise=True) for s in spans_of(len(at), 256)
        ]
        joined = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("hi", "lo", "error")
        )
        return Enclosure(*joined)
    if kernel.name != "rbf" and _power_settings(kernel) is None:
        return None
    if sp.issparse(X) and (len(at) + len(of)) * X.shape[1] * 8 > DENSE_BYTES:
        return None
    return _compiled_sum(rows, at, of, beta)


def _compiled_sum(rows: Rows, at: IntArray, of: IntArray, beta: FloatArray) -> Enclosure | None:
    """Return the sums of the compiled loop, or None where they overflow."""
    kernel, X, d = rows.kernel, rows.X, rows.X.shape[1]
    left, right = (X[part].toarray() if sp.issparse(X) else X[part] for part in (at, of))
    left, right = (np.ascontiguousarray(part, dtype=np.float64) for part in (left, right))
    width = np.broadcast_to(np.asarray(kernel.gamma, np.float64), d).copy()
    out, is_rbf = np.zeros((3, len(at))), kernel.name == "rbf"
    settings = is_rbf, width, float(kernel.coef0), 1 if is_rbf else int(kernel.degree)

    def write(span: slice) -> None:
        kernel_sums(left[span], right, beta, *settings, out[:, span])

    for_each(write, spans_of(len(at), PRECISE_ROWS), rows.threads)
    if not np.isfinite(out).all():
        return None
    value = 0.37 * CHARGE * (d + 4) + EXP_CHARGE if is_rbf else CHARGE * kernel.degree * (d + 4)
    units = (value + CHARGE * (len(of) + 4)) * (1 + 1e-6)
    tiny = TINY * (1 + float(np.abs(beta).sum())) * (1 + out[2])
    return Enclosure(out[0], out[1], units * U * U * out[2] + tiny)


@jit
def scaled_radius(X, centre, scale):  # type: ignore[no-untyped-def]
    """Return an upper bound of the largest norm of a row of (X - centre) * scale."""
    n, d = X.shape
    whole, most = d - d % 4, 0.0
    for i in range(n):
        x = X[i]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for t in range(0, whole, 4):
            z0, z1 = (x[t] - centre[t]) * scale[t], (x[t + 1] - centre[t + 1]) * scale[t + 1]
            z2 = (x[t + 2] - centre[t + 2]) * scale[t + 2]
            z3 = (x[t + 3] - centre[t + 3]) * scale[t + 3]
            s0 += z0 * z0
            s1 += z1 * z1
            s2 += z2 * z2
            s3 += z3 * z3
        for t in range(whole, d):
            z0 = (x[t] - centre[t]) * scale[t]
            s0 += z0 * z0
        square = (s0 + s1) + (s2 + s3)
        if not square <= most:
            most = square
        if np.isnan(most):
            return np.inf
    return np.sqrt(most) * (1.0 + (d + 8) * U) + LOST_SQUARE


@jit
def rough_errors(beta, size_of, size_at, factor):  # type: ignore[no-untyped-def]
    """Return the errors of float64 sums: factor times sum |beta| q, times q of each sample."""
    mass, n = 0.0, len(beta)
    for j in range(n):
        mass += abs(beta[j]) * size_of[j]
    mass *= 1.0 + (n + 8) * U
    error = np.empty(len(size_at))
    for i in range(len(size_at)):
        q = size_at[i]
        value = factor * mass * q * (1.0 + 8.0 * U) + TINY * (1.0 + mass) * (1.0 + q)
        error[i] = np.inf if np.isnan(value) else value
    return error


@jit
def kernel_sums(X, Z, beta, is_rbf, width, coef0, degree, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and a majorant of sum_j beta_j k(x_i, z_j), in double-double, to out."""
    for i in range(X.shape[0]):
        fh, fl, total = 0.0, 0.0, 0.0
        for j in range(Z.shape[0]):
            if is_rbf:
                kh, kl = exp_minus(*scaled_distance(X[i], Z[j], width))
                most = 1.0
            else:
                kh, kl, most = power_of_product(X[i], Z[j], width[0], coef0, degree)
            kh, kl = multiply(kh, kl, beta[j], 0.0)
            fh, fl = add(fh, fl, kh, kl)
            total += abs(beta[j]) * most
        out[0, i], out[1, i], out[2, i] = fh, fl, total


@jit
def own_powers(X, gamma, coef0, degree, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and a majorant of (gamma x_i'x_i + coef0)^degree to out."""
    for i in range(X.shape[0]):
        out[0, i], out[1, i], out[2, i] = power_of_product(X[i], X[i], gamma, coef0, degree)


@jit
def scaled_distance(x, z, width):  # type: ignore[no-untyped-def]
    """Return sum_t width_t (x_t - z_t)^2 as a double-double."""
    sh, sl = 0.0, 0.0
    for t in range(len(x)):
        dh, dl = two_sum(x[t], -z[t])
        dh, dl = multiply(dh, dl, dh, dl)
        dh, dl = multiply(dh, dl, width[t], 0.0)
        sh, sl = add(sh, sl, dh, dl)
    return sh, sl


@jit
def power_of_product(x, z, gamma, coef0, degree):  # type: ignore[no-untyped-def]
    """Return (gamma x'z + coef0)^degree as a double-double, and a majorant of its terms."""
    sh, sl, most = 0.0, 0.0, 0.0
    for t in range(len(x)):
        p, e = two_product(x[t], z[t])
        sh, sl = add(sh, sl, p, e)
        most += abs(p)
    sh, sl = multiply(sh, sl, gamma, 0.0)
    sh, sl = add(sh, sl, coef0, 0.0)
    base = most = abs(gamma) * most + abs(coef0)
    kh, kl = sh, sl
    for _ in range(degree - 1):
        kh, kl = multiply(kh, kl, sh, sl)
        most *= base
    return kh, kl, most
