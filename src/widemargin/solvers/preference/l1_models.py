"""Minimise the two models of the l_1 preference machine: a quadratic and a linear program.

Near some weights the smoothed loss is a quadratic; near the optimum the loss itself is a sum over
the pairs at the kink. With the l_1 norm the first is minimised by sweeps and linear systems, the
second is a linear program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray
from widemargin.solvers.numerics.highs import solve_linear_program

MOST_ROUNDS, PASSES = 30, 10  # of a model's solution, and over the weights in each
FORCING = 1e-3  # change of a derivative that ends the rounds, relative to that at their start
ACCURATE = 1e-9  # and in absolute terms: its bound is 1


def minimise_quadratic(gram: FloatArray, correlation: FloatArray, w: FloatArray) -> FloatArray:
    """Return v that minimises |v|_1 - correlation.(v - w) + 1/2 (v - w)'gram (v - w).

    Sweeps over the weights find out which are zero and the signs of the others; those have a
    common minimum by a linear system, to which they go until one of them changes its sign.
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
    """Go to the minimum for the signs of v; weights that would change theirs become zero.

    If that is not better, all stop where the first of them does.
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
    """Minimise over one weight after the other; return the largest change of a gradient."""
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
    """Solve max sum(a), |pull + differences'a| <= 1, 0 <= a <= cap; return weights and a."""
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
