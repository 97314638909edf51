"""One door to the solvers of the linear programs of `problems.linear_program`.

===================  ============================================================================
where                what is done
===================  ============================================================================
G w <= c             nothing can be learned: alpha = 0 and z = w are optimal
many rows, low rank  :mod:`widemargin.solvers.linear_program.interior`: Newton steps, n r^2 each
all others           `linear_program.simplex`: pivots over the few rows that matter
===================  ============================================================================

Whoever found the coefficients, what is returned is evaluated afresh with the true kernel, and its
objective is never above that of alpha = 0. The bound allows for the rounding of its own sums
(`linear_program.bound`) unless that alone would put it beyond tol: then it is
the dual as float64 gives it.

Where several optima exist, (1) an objective of 0 is reached with the least
sum alpha_i k(x_i, x_i); (2) otherwise the same data in the same order give the same one.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Monitor, Status
from widemargin.solvers.linear_program.bound import best_bound
from widemargin.solvers.linear_program.interior import solve_interior
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.linear_program.simplex import solve_by_pivots

__all__ = ["ProgramResult", "solve_lp_machine"]

INTERIOR_ROWS = 2500  # from here on Newton steps at low rank overtake the pivots (measured)


def solve_lp_machine(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float = 1e-6,
    max_iter: int = 100,
    cache_bytes: float = 5e8,
    seed: int = 0,
    monitor: Monitor | None = None,
    start: ProgramResult | None = None,
    whole: FloatArray | None = None,
) -> ProgramResult:
    """Solve a linear program of `problems.linear_program`.

    Parameters
    ----------
    problem : MarginProgram
        The program.
    rows : Rows
        Its data, seen through the kernel.
    tol : float, default=1e-6
        Relative gap asked for.
    max_iter : int, default=100
        Steps of the solver: sweeps of n_rows / 10 pivots (at least 50), or Newton steps.
    cache_bytes : float, default=5e8
        Memory for kernel values. A MemoryError says so when it is too small.
    seed : int, default=0
        For the random numbers that break ties.
    monitor : callable, optional
        Called with (steps, violation) a few times a second; returns whether to go on.
    start : ProgramResult, optional
        Solution of a similar program over the same rows, e.g. at another lam.
    whole : ndarray of shape (n_rows,), optional
        K (y w), if it is known already.

    Returns
    -------
    ProgramResult
        Status "stalled": rounding errors kept the relative gap above tol.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel, Rows
    >>> from widemargin.problems.linear_program import adaptive_margin, limits
    >>> from widemargin.solvers.linear_program import solve_lp_machine
    >>> rows = Rows(Kernel("rbf"), np.array([[0.0], [0.5], [2.0], [2.5]]))
    >>> k, y = rows.diagonal(), np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = adaptive_margin(y, np.ones(4), k, limits(k, k), lam=1.0)
    >>> found = solve_lp_machine(problem, rows)
    >>> round(problem.primal(found.alpha, found.f), 9), found.status
    (0.0, 'converged')
    """
    if problem.nu is None:
        idle = _without_learning(problem, rows, whole)
        if idle is not None:
            return idle
    first = None if start is None else start.alpha
    if rows.n >= INTERIOR_ROWS:  # None where the rank is not low
        inside = solve_interior(
            problem,
            rows,
            tol=tol,
            max_iter=max_iter,
            cache_bytes=cache_bytes,
            monitor=monitor,
            start=start,
        )
        if inside is not None and not _to_be_continued(problem, inside, tol):
            return inside
        first = first if inside is None else inside.alpha
    found = solve_by_pivots(
        problem,
        rows,
        tol=tol,
        max_iter=max_iter,
        cache_bytes=cache_bytes,
        seed=seed,
        monitor=monitor,
        start=first,
    )
    return _finish(problem, rows, found.alphas, found.zs, tol, found.n_iter, found.status, "pivots")


def _to_be_continued(problem: MarginProgram, inside: ProgramResult, tol: float) -> bool:
    """Tell whether pivots should go on: from a path that got stuck, or to the least of many optima.

    Without slack (an objective of 0, which Newton steps reach but for tol) every point of the path
    is optimal, and the one of least sum alpha_i k(x_i, x_i) is promised.
    """
    if inside.status in ("max_iter", "stopped"):
        return False
    many = problem.nu is None and problem.primal(inside.alpha, inside.f) <= tol
    return many or inside.status == "stalled"


def _without_learning(
    problem: MarginProgram, rows: Rows, g: FloatArray | None
) -> ProgramResult | None:
    """Return alpha = 0 with z = w if that is optimal, up to the rounding of G w, g = K (y w)."""
    if g is None:
        g = rows.symmetric_sum(np.arange(rows.n), problem.y * problem.weight)
    excess = problem.product(problem.weight, g) - problem.price
    size = np.maximum(problem.weight * problem.shift, np.abs(g))
    if (excess > 4 * np.finfo(float).eps * size).any():
        return None
    zero = np.zeros(rows.n)
    return ProgramResult(zero, problem.weight.copy(), zero.copy(), g, 1, "converged", "none")


def _finish(
    problem: MarginProgram,
    rows: Rows,
    alphas: list[FloatArray],
    zs: list[FloatArray],
    tol: float,
    n_iter: int,
    status: Status,
    method: str,
) -> ProgramResult:
    """Take the best of some solutions, evaluated afresh; alpha = 0 is one of them."""
    values = _values(problem, rows, [*alphas, *zs])
    points = list(zip(alphas, values, strict=False))
    if problem.nu is None:
        points = [_without_rest(problem, *point) for point in points]
        points.append((np.zeros(rows.n), np.zeros(rows.n)))
    alpha, f = min(points, key=lambda point: problem.primal(*point))
    bounds = list(zip(zs, values[len(alphas) :], strict=True))
    z, g = best_bound(problem, bounds)
    least = problem.primal(alpha, f) - tol * problem.scale(alpha, f)
    if problem.dual(z, g) < least:
        # Where no z is strictly inside G z < c, allowing for rounding costs more than rounding.
        z, g = max([(z, g), *bounds], key=lambda point: problem.dual(*point))
    short = problem.dual(z, g) < least
    if not short:
        status = "converged"
    elif status == "converged":
        status = "stalled"
    return ProgramResult(alpha, z, f, g, n_iter, status, method)


def _values(problem: MarginProgram, rows: Rows, vectors: list[FloatArray]) -> list[FloatArray]:
    """Return K (y v) for some vectors in one pass."""
    together = np.column_stack(vectors)
    used = np.flatnonzero(together.any(axis=1))
    weights = problem.y[used, None] * together[used]
    return list(rows.weighted_sum(np.arange(rows.n), rows, used, weights).T.copy())


def _without_rest(
    problem: MarginProgram, alpha: FloatArray, f: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Scale alpha by the rounding that keeps the smallest margin from 1, where all reach it."""
    margins = problem.product(alpha, f)
    least = float(margins.min())
    if problem.price > 0 or not 1 - 1e-9 < least < 1:
        return alpha, f
    scale = (1 + 1e-15) / least
    scaled = np.minimum(scale * alpha, problem.limit)
    return (scaled, scale * f) if (scaled < problem.limit).all() else (alpha, f)
