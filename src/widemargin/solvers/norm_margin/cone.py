r"""Solve the duals of :mod:`widemargin.problems.norm_margin` for 1 < p < inf by Clarabel.

The same two problems as in :mod:`widemargin.solvers.norm_margin.program`, with
:math:`|v|_q \le t` as d power cones: :math:`r_j^{1/q} t^{1 - 1/q} \ge |v_j|`,
:math:`\sum_j r_j \le t`. t is 1 (soft margin) or the objective (hard margin).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin.problems.norm_margin import conjugate

FEW_ROWS = 400  # constraints added per class and round, at least
BELOW = 1e-9  # relative margin violation beyond which a sample is added
TOLERANCE = 1e-11  # so small that Clarabel runs until it makes no progress; the gap is recomputed


def solve_hard_cone(
    X: Matrix, y: FloatArray, cost: FloatArray, norm: float, *, max_iter: int, seconds: float
) -> tuple[FloatArray, FloatArray, int, bool]:
    """Solve the hard margin by row generation: :func:`solve_cone` on a growing working set.

    At most d + 1 samples determine the solution. The first working set holds the samples of each
    class that are nearest to the other one along the difference of the class means; each round adds
    the samples that violate the margin of the last solution, the worst first, until none does.
    """
    deadline = time.monotonic() + seconds
    at_once = max(FEW_ROWS, 2 * X.shape[1])
    w = np.asarray(X.T @ np.where(y > 0, 1.0 / (y > 0).sum(), -1.0 / (y < 0).sum()))
    a, steps, ended = np.zeros(len(y)), 0, True
    chosen = np.zeros(len(y), dtype=bool)
    while ended:
        f = X @ w
        new = np.concatenate([_short(s * f, y == s, chosen, at_once) for s in (1, -1)])
        if len(new) == 0:
            break
        chosen[new] = True
        some = np.flatnonzero(chosen)
        left = max(0.0, deadline - time.monotonic())
        w, part, n_iter, ended = solve_cone(
            X[some], y[some], cost[some], norm, max_iter=max_iter, seconds=left
        )
        steps += n_iter
        a = np.zeros(len(y))
        a[some] = part
    return w, a, steps, ended


def _short(values: FloatArray, members: BoolArray, chosen: BoolArray, most: int) -> IntArray:
    """Return at most `most` violators of a class: values below those of all chosen samples.

    The lowest values come first.
    """
    least = float(values[members & chosen].min(initial=np.inf))
    room = BELOW * float(np.abs(values).max())
    lower = np.flatnonzero(members & ~chosen & (values < least - room))
    return lower[np.argsort(values[lower], kind="stable")[:most]]


def solve_cone(
    X: Matrix,
    y: FloatArray,
    cost: FloatArray,
    norm: float,
    *,
    max_iter: int,
    seconds: float,
    otherwise: Mapping[str, Any] | None = None,
) -> tuple[FloatArray, FloatArray, int, bool]:
    """Solve the dual by Clarabel; return w, a, the number of steps and whether it hit no limit.

    The parameters are those of :func:`widemargin.solvers.norm_margin.program.solve_program`, with
    any norm; `otherwise` holds settings of Clarabel other than the defaults.
    """
    import clarabel

    n, d = X.shape
    hard = bool(np.isinf(cost[0]))
    alpha = 1.0 / conjugate(norm)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = max_iter
    settings.time_limit = seconds
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    for name, value in (otherwise or {}).items():
        setattr(settings, name, value)
    A, b, n_equal = _constraints(X, y, cost, hard)
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(len(b) - n_equal - 3 * d)]
    cones += [clarabel.PowerConeT(alpha)] * d
    size = n + d + hard
    q = np.concatenate([np.zeros(n + d), [1.0]]) if hard else np.append(-np.ones(n), np.zeros(d))
    nothing = sp.csc_array((size, size))
    found = clarabel.DefaultSolver(nothing, q, A, b, cones, settings).solve()
    by_limit = str(found.status) in ("MaxIterations", "MaxTime")
    # The third row of each cone is v_j; its multiplier is -w_j.
    w = -np.asarray(found.z)[len(b) - 3 * d :].reshape(d, 3)[:, 2]
    a = np.asarray(found.x)[:n]
    # Clarabel may return NaN when a limit stops it early; zeros have a certificate, if a bad one.
    if not (np.isfinite(w).all() and np.isfinite(a).all()):
        w, a, by_limit = np.zeros(d), np.zeros(n), True
    return w, a, max(1, int(found.iterations)), not by_limit


def _constraints(
    X: Matrix, y: FloatArray, cost: FloatArray, hard: bool
) -> tuple[Any, FloatArray, int]:
    """Return A and b of A x + s = b, and the number of equations among its rows.

    The variables x are a, r and, for the hard margin, t. The slack s is zero in the equations (sums
    of a), nonnegative in the next rows (a, cost - a, t - sum r), then in one power cone per
    feature.
    """
    n, d = X.shape
    signed = sp.csr_array(X).multiply(y[:, None]).T
    one_t = 1 if hard else 0
    if hard:
        sums, totals = np.array([y > 0, y < 0], dtype=np.float64), np.ones(2)
        boxes, room = -sp.eye_array(n), np.zeros(n)
    else:
        sums, totals = y[None, :], np.zeros(1)
        boxes = sp.vstack([-sp.eye_array(n), sp.eye_array(n)])
        room = np.concatenate([np.zeros(n), cost])
    t_row = sp.csr_array(np.concatenate([np.zeros(n), np.ones(d), -np.ones(one_t)])[None, :])
    # Build the rows of the cones by kind, then permute them: Clarabel expects the three rows of a
    # cone to be consecutive.
    r_rows = sp.hstack([sp.csr_array((d, n)), -sp.eye_array(d), sp.csr_array((d, one_t))])
    t_rows = sp.hstack([sp.csr_array((d, n + d)), -sp.csr_array(np.ones((d, one_t)))])
    v_rows = sp.hstack([-signed, sp.csr_array((d, d + one_t))])
    order = np.arange(3 * d).reshape(3, d).T.ravel()
    cones = sp.vstack([r_rows, t_rows, v_rows], format="csr")[order]
    pad = sp.csr_array((len(sums), d + one_t)), sp.csr_array((boxes.shape[0], d + one_t))
    rows = [sp.hstack([sp.csr_array(sums), pad[0]]), sp.hstack([boxes, pad[1]]), t_row, cones]
    cone_side = np.tile([0.0, 0.0 if hard else 1.0, 0.0], d)
    side = np.concatenate([totals, room, [0.0 if hard else 1.0], cone_side])
    return sp.vstack(rows, format="csc"), side, len(totals)
