r"""Find maximum-margin hyperplanes in any l_p norm.

Problem: :mod:`widemargin.problems.norm_margin`.

==========  =======================================================================================
p           solver
==========  =======================================================================================
1, inf      linear program, by HiGHS (:mod:`widemargin.solvers.norm_margin.program`)
2, soft     linear soft-margin solver (:mod:`widemargin.solvers.linear`)
2, hard     nearest points of the convex hulls (:mod:`widemargin.solvers.reduced_hull`); power
            cones if the hulls almost intersect
any other   power cones, by Clarabel (:mod:`widemargin.solvers.norm_margin.cone`)
==========  =======================================================================================

The samples are centred (dense data only) and divided by their largest entry first. Each solver
returns w and dual variables a. The intercept is then the optimal one for w, and a is made exactly
feasible, so that the lower bound is valid whatever the accuracy of the solver.
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
from widemargin.certificate import gap_scale, relative_gap
from widemargin.kernels import Kernel, Rows
from widemargin.problems.norm_margin import NormMargin, length
from widemargin.problems.reduced_hull import HARD, reduced_hulls
from widemargin.solvers import linear, reduced_hull
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.norm_margin.cone import solve_cone, solve_hard_cone
from widemargin.solvers.norm_margin.program import solve_program

__all__ = ["MarginResult", "solve"]

SHARP = 1e-13  # gap of the linear soft margin; the error of w is its square root, steps are cheap
HULL_TOL = 1e-9  # KKT violation of the nearest points, in units of the margin
# Default budgets; that of the simplex method is per sample and per feature.
SIMPLEX_STEPS, CONE_STEPS, NEWTON_STEPS = 100, 200, 1000
OTHERWISE = ({"equilibrate_enable": False}, {"max_step_fraction": 0.9})  # Clarabel, second attempts
ENOUGH = 1e-3  # fraction of tol to reach; at a larger gap the next solver is tried
AWAY = 1e-6  # a sample this far from its margin has its dual variable at a bound
MEETING = 1e-9  # hulls nearer than this, in units of the largest entry, count as intersecting
_Found = tuple[FloatArray, FloatArray, int, Status]


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginResult(LinearResult):
    """Separating hyperplane with feasible dual variables.

    For the hard margin `coef` is scaled so that the smallest y (w.x + b) is 1; `alpha` is feasible
    (:meth:`NormMargin.feasible`).

    Attributes
    ----------
    margin : float
        See :meth:`NormMargin.margin`.
    separable : bool
        False if the convex hulls of the classes intersect within the accuracy of float64.
    """

    alpha: FloatArray
    margin: float
    separable: bool = True

    @property
    def gap(self) -> float:
        """Duality gap; infinite if the hyperplane does not separate the classes (hard margin)."""
        return self.primal - self.dual if np.isfinite(self.primal) else np.inf


def solve(
    problem: NormMargin,
    data: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: MarginResult | None = None,
    method: str = "auto",
    seed: int = 0,
    deadline: float = np.inf,
) -> MarginResult:
    """Find the hyperplane of largest margin.

    Parameters
    ----------
    problem : NormMargin
        Labels, costs and norm.
    data : ndarray or CSR of shape (n, d)
        Samples; sparse data is not made dense.
    tol : float
        Relative gap up to which the result counts as converged.
    budget : Budget
        Steps; max_iter=-1 selects the default of the solver. The monitor is called for p = 2 only.
    start : MarginResult, optional
        Ignored: no method has a warm start.
    method : {"auto"}
        The solver depends on the norm, see the module docstring.
    seed : int
        Seed of the subsamples from which large problems with p = 2 are warm-started.
    deadline : float
        Value of ``time.monotonic()`` at which HiGHS and Clarabel stop.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.norm_margin import NormMargin
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.norm_margin import solve
    >>> X, y = np.array([[0.0, 0.0], [2.0, 1.0]]), np.array([-1.0, 1.0])
    >>> hard = NormMargin(y, np.full(2, np.inf), norm=1.0)
    >>> found = solve(hard, X, tol=1e-6, budget=Budget(-1))
    >>> found.coef.round(9), round(found.margin, 9), found.status
    (array([1., 0.]), 1.0, 'converged')
    """
    if method != "auto":
        raise ValueError(f'method must be "auto"; got {method!r}')
    rows, origin, unit = _scaled(data)
    per_cost = unit**2 if problem.squared else unit
    inner = replace(problem, cost=problem.cost * per_cost)
    # Gaps are relative to max(least, objective). The objective of the hard margin is the inverse of
    # the margin, so that it scales with 1 / unit and may be far below 1 for large entries.
    least = 1.0 / max(1.0, unit) if problem.hard else 1.0
    best: MarginResult | None = None
    for w, a, n_iter, status in _attempts(rows, inner, budget, seed, deadline):
        w, b = _plane(inner, rows, w)
        a = _proof(inner, rows, w, b, a, tol)
        # Recompute everything in the original units from w, b, a and the centred samples.
        X, w, a = rows * unit, w / unit, a / per_cost
        f, v = X @ w, X.T @ (problem.y * a)
        if problem.hard:  # the bound is invariant to the scale of a; normalise |v|_q to 1
            size = length(v, problem.dual_norm) or 1.0
            a, v = a / size, v / size
        found = MarginResult(
            coef=w,
            thresholds=np.array([b - float(w @ origin)]),
            alpha=a,
            primal=problem.primal(w, f, b),
            dual=problem.dual(a, v),
            margin=problem.margin(w, f, b),
            n_iter=n_iter,
            status="converged",
        )
        if not relative_gap(found.primal, found.dual) <= tol:
            found = replace(found, status="stalled" if status == "converged" else status)
        if found.margin <= 0.0 and found.dual * unit >= 1.0 / MEETING:
            return replace(found, separable=False)
        if best is None or not found.gap >= best.gap:
            best = found
        enough = best.gap <= ENOUGH * tol * max(least, abs(best.primal))
        if enough or status in ("max_iter", "stopped"):
            break
    assert best is not None
    return best


def _scaled(X: Matrix) -> tuple[Matrix, FloatArray, float]:
    """Centre (dense data only) and scale the samples; return them with the origin and the unit."""
    if sp.issparse(X):
        rows, origin = X.astype(np.float64), np.zeros(X.shape[1])
    else:
        origin = X.mean(axis=0, dtype=np.float64)
        rows = X - origin
    unit = float(abs(rows).max())
    if unit < SMALLEST_ENTRY:  # possible for a pair of classes although all data has larger entries
        unit = 1.0
    return rows / unit, origin, unit


def _attempts(
    rows: Matrix, problem: NormMargin, budget: Budget, seed: int, deadline: float
) -> Iterator[_Found]:
    """Yield (w, a, n_iter, status) of one solver after the other, the most promising first.

    A quadratic program resolves hulls that almost intersect to half of the digits only, because its
    objective is the squared distance; the conic program minimises the distance itself. Clarabel may
    stall if the classes are far apart and slack is expensive. Then either the hard margin is the
    optimum of the soft one too, if none of its dual variables exceeds its cost; or other settings
    help.
    """
    if problem.squared:  # (1.25)
        found = linear.solve(
            problem.box,
            rows,
            tol=SHARP,
            budget=Budget(_steps(budget, NEWTON_STEPS), budget.monitor),
            method="smoothed_newton",
            seed=seed,
        )
        assert found.alpha is not None
        yield found.coef, problem.y * found.alpha, found.n_iter, found.status
        return
    if problem.norm == 2.0:
        hulls = reduced_hulls(problem.y, np.full(len(problem.y), HARD))
        nearest = reduced_hull.solve(
            hulls, Rows(Kernel("linear"), rows), tol=HULL_TOL, budget=budget, seed=seed,
            fall_back=False,
        )  # fmt: skip
        w, a = rows.T @ nearest.alpha, problem.y * nearest.alpha
        yield w, a, nearest.n_iter, nearest.status
    if problem.norm == 1.0 or np.isinf(problem.norm):
        steps = _steps(budget, SIMPLEX_STEPS * sum(rows.shape))
        yield _by_library(solve_program, rows, problem, steps, deadline)
        return
    steps = _steps(budget, CONE_STEPS)
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


def _steps(budget: Budget, own: int) -> int:
    """Return the step limit of the budget, or the default of the method if there is none."""
    return budget.max_iter if budget.max_iter > 0 else own


def _by_library(
    solve: Callable[..., tuple[FloatArray, FloatArray, int, bool]],
    rows: Matrix,
    problem: NormMargin,
    steps: int,
    deadline: float,
) -> _Found:
    """Call HiGHS or Clarabel and translate its termination into a status."""
    seconds = max(0.0, deadline - time.monotonic())
    y, cost, norm = problem.y, problem.cost, problem.norm
    w, a, n_iter, ended = solve(rows, y, cost, norm, max_iter=steps, seconds=seconds)
    if ended:
        return w, a, n_iter, "converged"
    return w, a, n_iter, "max_iter" if n_iter >= steps else "stopped"


def _plane(problem: NormMargin, rows: Matrix, w: FloatArray) -> tuple[FloatArray, float]:
    """Return w and the optimal b, scaled to functional margin 1 if a hard margin is positive."""
    f = rows @ w
    b = problem.threshold(f)
    least = problem.functional_margin(f, b) if problem.hard else 1.0
    return (w / least, b / least) if least > 0 else (w, b)


def _proof(
    problem: NormMargin, rows: Matrix, w: FloatArray, b: float, a: FloatArray, tol: float
) -> FloatArray:
    """Return feasible dual variables, at a bound for samples away from their margin.

    Interior-point methods leave all of them slightly off their bounds. If the hyperplane is far
    from the optimum, the solver's own dual variables may give a better bound and are kept.
    """
    f = rows @ w
    margins = problem.y * (f + b)
    settled = np.where(margins > 1.0 + AWAY, 0.0, a)
    if not problem.hard:
        settled = np.where(margins < 1.0 - AWAY, problem.cost, settled)
    first, second = (problem.feasible(point, f, b) for point in (settled, a))
    values = [problem.dual(point, rows.T @ (problem.y * point)) for point in (first, second)]
    return first if values[0] >= values[1] - 0.1 * tol * gap_scale(values[1]) else second
