"""Minimise the l_1 norm plus a local model of the pairwise loss, quadratic or piecewise linear.

The quadratic model approximates the smoothed loss around the current weights and is minimised by
coordinate descent with Newton steps on the nonzero weights. The piecewise linear model, valid near
the optimum, consists of the pairs at the kink and is solved as a linear program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray
from widemargin.solvers.numerics.highs import solve_linear_program

MOST_ROUNDS, PASSES = 30, 10  # rounds per model, and passes over the weights in each
FORCING = 1e-3  # largest change of the gradient at the end, relative to that of the first pass
ACCURATE = 1e-9  # the same in absolute terms; the gradient of the l_1 norm is at most 1


def minimise_quadratic(gram: FloatArray, correlation: FloatArray, w: FloatArray) -> FloatArray:
    """Return v that minimises |v|_1 - correlation.(v - w) + 1/2 (v - w)'gram (v - w).

    Coordinate descent identifies the zero weights and the signs of the others; a linear system then
    yields the minimum for these signs, which coordinate descent alone would approach slowly.
    """
    v = w.copy()
    rest = correlation.copy()  # minus the gradient of the smooth part
    enough = max(ACCURATE, FORCING * _sweep(gram, rest, v, 1, 0.0))
    for _ in range(MOST_ROUNDS):
        if _sweep(gram, rest, v, PASSES, enough) <= enough:
            break
        used = np.flatnonzero(v)
        if len(used):
            part = gram[np.ix_(used, used)]
            v[used] = _with_signs(part, rest[used], v[used])
            rest = correlation - gram @ (v - w)
    return v


def _with_signs(gram: FloatArray, rest: FloatArray, v: FloatArray) -> FloatArray:
    """Step to the minimum for the signs of v; weights that would change sign become zero.

    If that does not decrease the model, shorten the whole step to where the first sign changes.
    """
    sign = np.sign(v)
    try:
        change = cho_solve(cho_factor(gram, check_finite=False), rest - sign, check_finite=False)
    except LinAlgError:
        return v
    clipped = np.where((v + change) * sign > 0, change, -v)
    if sign @ clipped - rest @ clipped + 0.5 * clipped @ gram @ clipped < 0:
        return np.asarray(v + clipped)
    until = np.min(-v[change * sign < 0] / change[change * sign < 0], initial=1.0)
    return np.asarray(v + until * change)


@jit
def _sweep(gram: Any, rest: Any, v: Any, passes: Any, enough: Any) -> Any:
    """Run passes of cyclic coordinate descent; return the largest gradient change of the last."""
    largest = 0.0
    for _ in range(passes):
        largest = 0.0
        for j in range(len(v)):
            bend = gram[j, j]
            wish = bend * v[j] + rest[j]
            new = 0.0
            if wish > 1.0:
                new = (wish - 1.0) / bend
            elif wish < -1.0:
                new = (wish + 1.0) / bend
            step = new - v[j]
            if step != 0.0:
                v[j] = new
                for k in range(len(v)):
                    rest[k] -= gram[j, k] * step
                largest = max(largest, abs(bend * step))
        if largest <= enough:
            break
    return largest


def solve_program(
    differences: FloatArray, cap: FloatArray, pull: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Maximise sum(a) s.t. |pull + differences'a| <= 1, 0 <= a <= cap; return weights and a.

    The weights are the multipliers of the inequalities. Returns None if the LP solver fails.
    """
    rows = sp.csr_array(np.vstack([differences.T, -differences.T]))
    found = solve_linear_program(
        -np.ones(len(cap)),
        A_ub=rows,
        b_ub=np.concatenate([1.0 - pull, 1.0 + pull]),
        bounds=np.column_stack([np.zeros(len(cap)), cap]),
    )
    if found.ended != "optimal" or found.x is None:
        return None
    plus, minus = np.split(-found.inequalities, 2)
    return plus - minus, np.clip(found.x, 0.0, cap)
