"""Solve the linear programs of :mod:`widemargin.problems.linear_program`.

==========  =====================================================================================
method      algorithm
==========  =====================================================================================
"simplex"   simplex method with kernel rows computed on demand: any kernel, an exact vertex
"interior"  interior-point method on a low-rank kernel, n r^2 per Newton step; raises ValueError
            if the numerical rank is not low
"auto"      "interior" from 2500 samples on if the rank is low, else "simplex". The simplex method
            also continues from an interior-point run that stalled, and selects the optimum of
            least sum alpha_i k(x_i, x_i) if the optimum has no slack and is not unique
==========  =====================================================================================

Programs with squared slack have one algorithm, active-set Newton steps from the optimum with linear
slack (`linear_program.squared`).

If G w <= c, alpha = 0 and z = w are optimal and no method is run.

If the methods stall far from the optimum, programs with larger prices lead to it
(`linear_program.continuation`).

Both methods have their result re-evaluated with the exact kernel, and its objective is never above
that of alpha = 0. The multipliers are chosen so that their bound survives the rounding errors of
its own sums (`linear_program.bound`), unless these errors alone would push the gap beyond tol; then
those with the best dual objective in float64 are returned. What is proved, in exact arithmetic, is
the certificate of the problem, `problems.linear_program.bounds`.

If there are several optima, (1) "simplex" and "auto" return, at an objective of 0, the one of least
sum alpha_i k(x_i, x_i); (2) otherwise the same data in the same order give the same one.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.products import gamma
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require
from widemargin.kernels import Rows
from widemargin.kernels.sums import roundings
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget
from widemargin.solvers.linear_program.bound import best_bound
from widemargin.solvers.linear_program.continuation import from_larger_prices, has_failed
from widemargin.solvers.linear_program.interior import solve_interior
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.linear_program.simplex import Vertices, solve_simplex
from widemargin.solvers.linear_program.squared import solve_squared

__all__ = ["ProgramResult", "solve", "zero_result"]

METHODS = ("auto", "simplex", "interior")
INTERIOR_ROWS = 2500  # from this size on the interior-point method at low rank is faster (measured)


def solve(
    problem: MarginProgram,
    data: Rows,
    *,
    tol: float,
    budget: Budget,
    start: ProgramResult | None = None,
    method: str = "auto",
    seed: int = 0,
    weight_values: FloatArray | None = None,
) -> ProgramResult:
    """Solve a linear program of :mod:`widemargin.problems.linear_program`.

    Parameters
    ----------
    problem : MarginProgram
        The linear program.
    data : Rows
        Training samples with their kernel.
    tol : float
        Duality gap to reach, relative to ``problem.scale``.
    budget : Budget
        Steps are sweeps of n_rows / 10 pivots (at least 50), or Newton steps. The memory is for
        kernel values; a MemoryError is raised if the basis does not fit. Pivots that follow
        an interior-point run have the full number of steps again.
    start : ProgramResult, optional
        Warm start: solution of a similar program over the same samples, e.g. at another lam.
    method : {"auto", "simplex", "interior"}, default="auto"
        See the module docstring.
    seed : int, default=0
        Seed of the perturbation that breaks ties at degenerate vertices.
    weight_values : ndarray of shape (n_rows,), optional
        K (y w), if the caller has already computed it.

    Returns
    -------
    ProgramResult
        Its status is "stalled" if rounding errors kept the relative gap above tol.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Kernel, Rows
    >>> from widemargin.problems.linear_program import adaptive_margin, limits
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.linear_program import solve
    >>> rows = Rows(Kernel("rbf"), np.array([[0.0], [0.5], [2.0], [2.5]]))
    >>> k, y = rows.diagonal(), np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = adaptive_margin(y, np.ones(4), k, limits(k, k), lam=1.0)
    >>> found = solve(problem, rows, tol=1e-6, budget=Budget(100))
    >>> round(problem.primal(found.alpha, found.f), 9), found.status
    (0.0, 'converged')
    """
    require(method in METHODS, "method", method, f"one of {', '.join(METHODS)}")
    if problem.nu is None:
        if weight_values is None:
            weight_values = data.symmetric_sum(np.arange(data.n), problem.y * problem.weight)
        # If G w <= c, z = w is dual feasible and proves that alpha = 0 is optimal. An excess within
        # the rounding error of G w does not count.
        excess = problem.product(problem.weight, weight_values) - problem.price / problem.steepness
        size = np.maximum(problem.weight * problem.shift, np.abs(weight_values))
        if not (excess > 4 * np.finfo(float).eps * size).any():
            return zero_result(problem, weight_values)

    if problem.squared:

        def linear() -> ProgramResult:
            return solve(
                problem.linear,
                data,
                tol=tol,
                budget=budget,
                method=method,
                seed=seed,
                weight_values=weight_values,
            )

        return solve_squared(problem, data, tol=tol, budget=budget, start=start, linear=linear)

    def from_start(program: MarginProgram, near: ProgramResult | None) -> ProgramResult:
        return _solve_from(program, data, tol, budget, near, method, seed)

    found = from_start(problem, start)
    if has_failed(problem, found):
        assert weight_values is not None
        largest = float(problem.product(problem.weight, weight_values).max())
        found = from_larger_prices(problem, found, largest, from_start, tol)
    return found


def _solve_from(
    problem: MarginProgram,
    data: Rows,
    tol: float,
    budget: Budget,
    start: ProgramResult | None,
    method: str,
    seed: int,
) -> ProgramResult:
    """Solve a program by the method that suits it; parameters as for `solve`."""
    first = None if start is None else start.alpha
    if method == "interior" or (method == "auto" and data.n >= INTERIOR_ROWS):
        found = solve_interior(problem, data, tol=tol, budget=budget, start=start)
        if found is None:
            fix = '"simplex" or "auto" where the kernel matrix is not of low rank'
            require(method == "auto", "method", method, fix)
        elif method == "interior" or not _pivots_go_on(problem, found, tol):
            return found
        else:
            first = found.alpha
        # Newton steps and pivots are different units, so the pivots have a budget of their own.
        budget = Budget(budget.max_iter, budget.monitor, budget.cache_bytes)
    vertices = solve_simplex(problem, data, tol=tol, budget=budget, seed=seed, start=first)
    return _best_of(problem, data, vertices, tol)


def zero_result(problem: MarginProgram, weight_values: FloatArray) -> ProgramResult:
    """Return the result alpha = 0, z = w, given K (y w); it is optimal if G w <= c."""
    zero = np.zeros(problem.n_rows)
    return ProgramResult(
        alpha=zero,
        z=problem.steepness * problem.weight,
        f=zero.copy(),
        g=problem.steepness * weight_values,
        n_iter=1,
        status="converged",
        method="none",
    )


def _pivots_go_on(problem: MarginProgram, found: ProgramResult, tol: float) -> bool:
    """Return whether the simplex method has to continue from an interior-point result.

    It does if the path stalled, and if the objective is 0 (up to tol, which is all that Newton
    steps reach). Then every alpha without slack is optimal, while the package guarantees the one of
    least sum alpha_i k(x_i, x_i).
    """
    if found.status in ("max_iter", "stopped"):
        return False
    many = problem.nu is None and problem.primal(found.alpha, found.f) <= tol
    return many or found.status == "stalled"


def _best_of(problem: MarginProgram, rows: Rows, found: Vertices, tol: float) -> ProgramResult:
    """Re-evaluate the vertices with the exact kernel and return the best, alpha = 0 included."""
    alphas, zs, count = found.alphas, found.zs, roundings(rows, rows.n)
    together = np.column_stack([*alphas, *zs])
    used = np.flatnonzero(together.any(axis=1))
    signed = problem.y[used, None] * together[used]
    values = list(rows.weighted_sum(np.arange(rows.n), rows, used, signed).T.copy())
    points = list(zip(alphas, values, strict=False))
    if problem.nu is None:
        points = [_without_rest(problem, *point, count) for point in points]
        points.append((np.zeros(rows.n), np.zeros(rows.n)))
    alpha, f = min(points, key=lambda point: problem.primal(*point))
    bounds = list(zip(zs, values[len(alphas) :], strict=True))
    z, g = best_bound(problem, bounds, count)
    if not problem.is_optimal(alpha, f, z, g, tol):
        # If no candidate is strictly feasible, G z < c, the allowance for rounding in `best_bound`
        # costs more than the rounding itself; compare with the dual values as computed.
        z, g = max([(z, g), *bounds], key=lambda point: problem.dual(*point))
    status = found.status
    if problem.is_optimal(alpha, f, z, g, tol):
        status = "converged"
    elif status == "converged":
        status = "stalled"
    return ProgramResult(
        alpha=alpha, z=z, f=f, g=g, n_iter=found.n_iter, status=status, method="simplex"
    )


def _without_rest(
    problem: MarginProgram, alpha: FloatArray, f: FloatArray, count: float
) -> tuple[FloatArray, FloatArray]:
    """Rescale alpha if only rounding keeps the smallest margin from being at least 1.

    Then the slack, and with c = 0 the objective, is exactly 0, also in exact arithmetic.
    `count` is the number of rounding errors in a sum of kernel values.
    """
    sums = float(alpha.sum()) * problem.kernel_sizes() + problem.shift * alpha
    least = float((problem.product(alpha, f) - 2 * gamma(count) * sums).min())
    if problem.price > 0 or not 1 - 1e-9 < least < 1:
        return alpha, f
    scale = (1 + 1e-15) / least
    scaled = np.minimum(scale * alpha, problem.limit)
    return (scaled, scale * f) if (scaled < problem.limit).all() else (alpha, f)
