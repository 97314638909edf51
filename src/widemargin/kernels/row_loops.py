"""Compiled computation of single kernel rows of dense samples, in float64.

Solvers that need few rows of the kernel matrix compute them one at a time; blocks of rows are the
task of :mod:`widemargin.kernels.tiles`. Samples stand in chunks of LANES, which compilers turn into
vector instructions.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.jit.extremes import maximum, minimum

LANES = 64
LINEAR, RBF, POLY = range(3)  # kernels that `kernel_row` knows
LOG2_E = 1.4426950408889634
SMALLEST_EXPONENT = -1021.0  # 2^y is a normal number above it


def _power_of_two() -> tuple[float, ...]:
    """Return the coefficients of a polynomial for 2^v on [-1/2, 1/2], relative error 1e-16."""
    nodes = 0.5 * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    fit = np.polynomial.Chebyshev.fit(nodes, np.exp2(nodes), 12, domain=[-0.5, 0.5])
    return tuple(float(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12 = _power_of_two()


@jit(fast=True)
def kernel_row(K, p, columns, samples, norms, r, own, form, work, power, bits):
    """Write the kernel values of sample r, with own = -|x|^2 / 2, to K[p].

    columns (n_chunks, n_features, LANES) and samples (n_columns, n_features) are the samples, their
    features padded to a multiple of four. norms (n_chunks, LANES): -|x|^2 / 2. form: kind of the
    kernel; for POLY also gamma, coef0 and degree; then the column that is zero, or -1. work
    (2, LANES) and power (LANES,) are scratch, bits the memory of power as integers.
    """
    kind = int(form[0])
    for c in range(columns.shape[0]):
        for t in range(LANES):
            work[0, t] = 0.0
        for k in range(0, columns.shape[1], 4):
            x0, x1, x2, x3 = samples[r, k], samples[r, k + 1], samples[r, k + 2], samples[r, k + 3]
            for t in range(LANES):
                work[0, t] += (
                    x0 * columns[c, k, t]
                    + x1 * columns[c, k + 1, t]
                    + x2 * columns[c, k + 2, t]
                    + x3 * columns[c, k + 3, t]
                )
        if kind == RBF:
            # exp(..) = 2^w 2^v with an integer w and |v| <= 1/2; 2^w is made of its exponent bits.
            for t in range(LANES):
                y = minimum((work[0, t] + own + norms[c, t]) * LOG2_E, 0.0)
                y = maximum(y, SMALLEST_EXPONENT)
                w = np.int64(y - 0.5)
                work[1, t] = y - np.float64(w)
                bits[t] = (w + 1023) << 52
            for t in range(LANES):
                v = work[1, t]
                x = (((((P12 * v + P11) * v + P10) * v + P9) * v + P8) * v + P7) * v + P6
                x = (((((x * v + P5) * v + P4) * v + P3) * v + P2) * v + P1) * v + P0
                K[p, c, t] = power[t] * x
        elif kind == POLY:
            for t in range(LANES):
                work[0, t] = form[1] * work[0, t] + form[2]
                K[p, c, t] = work[0, t]
            for _ in range(1, int(form[3])):
                for t in range(LANES):
                    K[p, c, t] *= work[0, t]
        else:
            for t in range(LANES):
                K[p, c, t] = work[0, t]
    blank = int(form[4])
    if blank >= 0:
        K[p, blank // LANES, blank % LANES] = 0.0


@jit(fast=True)
def own_row(K, p, columns, samples, norms, r, form, work, power, bits):
    """Write the kernel values of sample r, which stands in column r, to K[p]."""
    own = norms[r // LANES, r % LANES]
    kernel_row(K, p, columns, samples, norms, r, own, form, work, power, bits)
    if int(form[0]) == RBF:
        K[p, r // LANES, r % LANES] = 1.0  # exactly, as large coefficients amplify its error


@jit(fast=True)
def class_sums(
    K, flat, columns, points, norms, form, work, power, bits, coefficients, starts, out
):  # fmt: skip
    """Write sums of coefficients times kernel values over the columns of each class.

    points (n_points, n_features): the samples to be evaluated. coefficients (n_sums, n_columns);
    class c has the columns from starts[c] to starts[c + 1]. out (n_points, n_classes, n_sums); K
    (1, n_chunks, LANES) and flat, the same memory, are scratch. The other arguments are those of
    `kernel_row`.
    """
    for i in range(out.shape[0]):
        own = 0.0
        for k in range(points.shape[1]):
            own -= 0.5 * points[i, k] * points[i, k]
        kernel_row(K, 0, columns, points, norms, i, own, form, work, power, bits)
        for c in range(out.shape[1]):
            for r in range(out.shape[2]):
                total = 0.0
                for t in range(starts[c], starts[c + 1]):
                    total += coefficients[r, t] * flat[t]
                out[i, c, r] = total
