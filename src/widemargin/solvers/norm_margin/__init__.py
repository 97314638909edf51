r"""Maximum-margin hyperplanes in any l_p norm: which solver finds them, and what they find.

Problem: :mod:`widemargin.problems.norm_margin`.

==========  =======================================================================================
p           solver
==========  =======================================================================================
1, inf      a linear program, by HiGHS (:mod:`widemargin.solvers.norm_margin.program`)
2, soft     that of the linear soft margin (:mod:`widemargin.solvers.linear`)
2, hard     the nearest points of the convex hulls (:mod:`widemargin.solvers.reduced_hull`); power
            cones where they almost meet
any other   power cones, by Clarabel (:mod:`widemargin.solvers.norm_margin.cone`)
==========  =======================================================================================

All of them see the rows from their mean (dense rows only) and in units of their largest entry.
Each gives w and the dual variables a; the threshold is then the best one for w, and a is moved into
its constraints, so that what it proves does not depend on the solver's word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import SMALLEST_ENTRY
from widemargin.certificate import Certificate
from widemargin.kernels import Kernel, Rows
from widemargin.problems.norm_margin import NormMargin, length
from widemargin.problems.reduced_hull import HARD, reduced_hulls
from widemargin.solvers import reduced_hull
from widemargin.solvers.base import Budget, Monitor, Status
from widemargin.solvers.linear import solve_linear
from widemargin.solvers.norm_margin.cone import solve_cone, solve_hard_cone
from widemargin.solvers.norm_margin.program import solve_program

SHARP = 1e-13  # gap asked of the linear soft margin: w is known to its root, and steps are cheap
HULL_TOL = 1e-9  # KKT violation asked of the nearest points, in units of the margin
SIMPLEX_STEPS, CONE_STEPS, NEWTON_STEPS = 100, 200, 1000  # budgets; the first a row and feature
OTHERWISE = ({"equilibrate_enable": False}, {"max_step_fraction": 0.9})  # of Clarabel
ENOUGH = 1e-3  # of the gap asked for: beyond it another solver is tried
AWAY = 1e-6  # a row this far from its margin has its dual variable at a bound
MEETING = 1e-9  # hulls nearer than this, in units of the rows' largest entry, count as meeting
_Found = tuple[FloatArray, FloatArray, int, Status]


@dataclass(frozen=True)
class MarginResult:
    """A hyperplane and the dual variables that prove how good it is.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        w; for the hard margin such that the least y (w.x + b) is 1.
    intercept : float
        b.
    dual : ndarray of shape (n_rows,)
        Feasible dual variables (:meth:`NormMargin.feasible`).
    margin : float
        See :meth:`NormMargin.margin`.
    certificate : Certificate
        Recomputed from the above.
    status : {"converged", "max_iter", "stopped", "stalled"}
        How it ended.
    separable : bool
        False if the convex hulls of the classes meet, as far as float64 can tell.
    """

    coef: FloatArray
    intercept: float
    dual: FloatArray
    margin: float
    certificate: Certificate
    status: Status
    separable: bool = True


def solve_norm_margin(
    X: Matrix,
    problem: NormMargin,
    *,
    tol: float,
    max_iter: int = -1,
    seed: int = 0,
    deadline: float = np.inf,
    monitor: Monitor | None = None,
) -> MarginResult:
    """Find the hyperplane of largest margin.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows; sparse ones stay sparse.
    problem : NormMargin
        Labels, costs and norm.
    tol : float
        Relative gap up to which the certificate says converged.
    max_iter : int
        Largest number of steps; -1 is the solver's own.
    seed : int
        Of samples that predict the solution of large problems for p = 2.
    deadline : float
        Value of ``time.monotonic()`` at which to stop.
    monitor : callable, optional
        Called between steps for p = 2; returns whether to go on.
    """
    rows, origin, unit = _scaled(X)
    per_cost = unit**2 if problem.squared else unit
    inner = replace(problem, cost=problem.cost * per_cost)
    best: MarginResult | None = None
    for w, a, n_iter, status in _attempts(rows, inner, max_iter, seed, deadline, monitor):
        w, b = _plane(inner, rows, w)
        a = _proof(inner, rows, w, b, a, tol)
        found = _result(
            problem, rows * unit, w / unit, b, a / per_cost, origin, tol, n_iter, status
        )
        meeting = found.margin <= 0.0 and found.certificate.dual * unit >= 1.0 / MEETING
        if meeting:
            return replace(found, separable=False)
        if best is None or not found.certificate.gap >= best.certificate.gap:
            best = found
        enough = best.certificate.gap <= ENOUGH * tol * _size(best.certificate, problem, unit)
        if enough or status in ("max_iter", "stopped"):
            break
    assert best is not None
    return best


def _scaled(X: Matrix) -> tuple[Matrix, FloatArray, float]:
    """Return rows about as large as 1, the point they are seen from and the unit."""
    if sp.issparse(X):
        rows, origin = X.astype(np.float64), np.zeros(X.shape[1])
    else:
        origin = X.mean(axis=0, dtype=np.float64)
        rows = X - origin
    unit = float(abs(rows).max())
    if unit < SMALLEST_ENTRY:  # two classes may be this small where others are not
        unit = 1.0
    return rows / unit, origin, unit


def _size(certificate: Certificate, problem: NormMargin, unit: float) -> float:
    """Return what gaps are small against: 1, for the hard margin as large rows see it.

    Its objective, one over the margin, is in units of one over the rows: rows of 1e16 have
    objectives of 1e-16, and any plane would do.
    """
    return max(1.0 / max(1.0, unit) if problem.hard else 1.0, abs(certificate.primal))


def _attempts(
    rows: Matrix,
    problem: NormMargin,
    max_iter: int,
    seed: int,
    deadline: float,
    monitor: Monitor | None,
) -> Iterator[_Found]:
    """Yield w, a, steps and status of one solver after the other, the likeliest first.

    Quadratic programs know hulls that almost meet to half the digits only, as their objective is
    the square of the distance; cones have the distance itself. Interior points of cones may stall
    where the classes are far apart and slack is dear. Then the soft margin is the hard one, if no
    variable of that exceeds its cost; or other settings help.
    """
    if problem.squared:
        yield _soft_margin(rows, problem, max_iter, seed, monitor)
        return
    if problem.norm == 2.0:
        yield _nearest_points(rows, problem, max_iter, seed, monitor)
    if problem.norm == 1.0 or np.isinf(problem.norm):
        steps = max_iter if max_iter > 0 else SIMPLEX_STEPS * sum(rows.shape)
        yield _by_library(solve_program, rows, problem, steps, deadline)
        return
    steps = max_iter if max_iter > 0 else CONE_STEPS
    if problem.hard:
        yield _by_library(solve_hard_cone, rows, problem, steps, deadline)
    else:
        yield _by_library(solve_cone, rows, problem, steps, deadline)
        hard = replace(problem, cost=np.full(len(problem.y), np.inf))
        w, a, n_iter, status = _by_library(solve_hard_cone, rows, hard, steps, deadline)
        w, _ = _plane(hard, rows, w)
        size = length(rows.T @ (problem.y * a), problem.dual_norm) or 1.0
        yield w, a / size, n_iter, status
    for settings in OTHERWISE:
        yield _by_library(partial(solve_cone, otherwise=settings), rows, problem, steps, deadline)


def _by_library(
    solve: Callable[..., tuple[FloatArray, FloatArray, int, bool]],
    rows: Matrix,
    problem: NormMargin,
    steps: int,
    deadline: float,
) -> _Found:
    """Call HiGHS or Clarabel and say how it ended."""
    seconds = max(0.0, deadline - time.monotonic())
    y, cost, norm = problem.y, problem.cost, problem.norm
    w, a, n_iter, ended = solve(rows, y, cost, norm, max_iter=steps, seconds=seconds)
    if ended:
        return w, a, n_iter, "converged"
    return w, a, n_iter, "max_iter" if n_iter >= steps else "stopped"


def _soft_margin(
    rows: Matrix, problem: NormMargin, max_iter: int, seed: int, monitor: Monitor | None
) -> _Found:
    """Solve (1.25)."""
    steps = max_iter if max_iter > 0 else NEWTON_STEPS
    found = solve_linear(rows, problem.box, tol=SHARP, max_iter=steps, seed=seed, monitor=monitor)
    return found.coef, problem.y * found.dual, found.n_iter, found.status


def _nearest_points(
    rows: Matrix, problem: NormMargin, max_iter: int, seed: int, monitor: Monitor | None
) -> _Found:
    """Solve the hard margin in the Euclidean norm."""
    hulls = reduced_hulls(problem.y, np.full(len(problem.y), HARD))
    data = Rows(Kernel("linear"), rows)
    found = reduced_hull.solve(
        hulls, data, tol=HULL_TOL, budget=Budget(max_iter, monitor), seed=seed, fall_back=False
    )
    return rows.T @ found.alpha, problem.y * found.alpha, found.n_iter, found.status


def _plane(problem: NormMargin, rows: Matrix, w: FloatArray) -> tuple[FloatArray, float]:
    """Return w and b, scaled to the margin 1 where it is hard and there is one."""
    f = rows @ w
    b = problem.threshold(f)
    least = problem.functional_margin(f, b) if problem.hard else 1.0
    return (w / least, b / least) if least > 0 else (w, b)


def _proof(
    problem: NormMargin, rows: Matrix, w: FloatArray, b: float, a: FloatArray, tol: float
) -> FloatArray:
    """Return feasible dual variables, at a bound where the row is away from its margin.

    Interior points leave all of them a little off their bounds. Where the plane is far from the
    optimum the solver's own point may prove more, and is kept.
    """
    f = rows @ w
    margins = problem.y * (f + b)
    settled = np.where(margins > 1.0 + AWAY, 0.0, a)
    if not problem.hard:
        settled = np.where(margins < 1.0 - AWAY, problem.cost, settled)
    first, second = (problem.feasible(point, f, b) for point in (settled, a))
    values = [problem.dual(point, rows.T @ (problem.y * point)) for point in (first, second)]
    return first if values[0] >= values[1] - 0.1 * tol * max(1.0, abs(values[1])) else second


def _result(
    problem: NormMargin,
    rows: Matrix,
    w: FloatArray,
    b: float,
    a: FloatArray,
    origin: FloatArray,
    tol: float,
    n_iter: int,
    status: Status,
) -> MarginResult:
    """Recompute everything from the plane, the dual variables and the rows about their origin."""
    f, v = rows @ w, rows.T @ (problem.y * a)
    if problem.hard:  # any multiple of a proves the same
        size = length(v, problem.dual_norm) or 1.0
        a, v = a / size, v / size
    certificate = problem.certificate(w, f, b, a, v, tol=tol, n_iter=n_iter)
    margin = problem.margin(w, f, b)
    if not certificate.converged and status == "converged":
        status = "stalled"
    return MarginResult(w, b - float(w @ origin), a, margin, certificate, status)
