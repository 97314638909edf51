r"""Interior-point method for linear programs whose kernel matrix has low numerical rank.

The central path of `interior.path` is followed on :math:`G \approx B B' + H`, whose rank r grows as
the gap falls (`numerics.pivoted_cholesky`). A step costs n r^2, r is well below a hundred in the
first half of the steps, and the kernel matrix is never formed. Results are accepted only by the
exact kernel: by the objective of alpha and the lower bound from z (`linear_program.bound`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from widemargin._base.typing import FloatArray
from widemargin.certificate import gap_scale
from widemargin.kernels import Rows
from widemargin.kernels.sums import roundings
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.linear_program.bound import Multipliers, best_bound
from widemargin.solvers.linear_program.interior.path import PathPoint
from widemargin.solvers.linear_program.interior.system import LowRankSystem
from widemargin.solvers.linear_program.interior.vertex import in_support, vertex
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.numerics.pivoted_cholesky import LowRank, rank_estimate

SHARE_OF_ROWS = 3  # a rank above n / this is not low
# Remainders of the low-rank factor: the smallest used before a check with the exact kernel fails,
# the smallest used at all, and the one at which the rank is estimated.
FINE, FINEST, ESTIMATED = 1e-8, 1e-13, 1e-6
COARSEST = 1e-5  # if the rank is exhausted at a larger remainder, the path misses the optimum
NEAR = 1e-5  # relative gap below which the basis of the optimal vertex is guessed
INSIDE = 1e-3  # multipliers kept as strictly feasible, G z < c, are from no smaller a gap
ENOUGH = 0.01  # fraction of tol below which the iterate itself is tried if no vertex was accepted
SHORT, PATIENCE = 1e-3, 15  # stall: this many consecutive steps shorter than SHORT


def solve_interior(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: ProgramResult | None = None,
) -> ProgramResult | None:
    """Solve a linear program, or return None if the kernel matrix does not have low rank.

    The parameters are those of :func:`widemargin.solvers.linear_program.solve`. Of `start` only the
    multipliers are used, as a candidate for the lower bound (not for the nu machine, where their
    sum differs): an interior-point method has to start far from any vertex.
    """
    if not low_rank_pays(rows, budget.cache_bytes):
        return None
    low = LowRank(rows, problem.y, _most_columns(rows.n, budget.cache_bytes))
    low.grow(0.1)
    system = LowRankSystem(low, problem.shift, rows.threads)
    return _Run(problem, rows, system, tol, budget, start).result()


def low_rank_pays(rows: Rows, cache_bytes: float) -> bool:
    """Estimate from a subsample whether the kernel matrix has low numerical rank."""
    return rank_estimate(rows, ESTIMATED) <= _most_columns(rows.n, cache_bytes)


def _most_columns(n: int, cache_bytes: float) -> int:
    """Return the largest rank that is worthwhile and fits into memory.

    Three arrays of shape (n, rank) are needed: the factor, its spare capacity, a weighted copy.
    """
    return int(min(n // SHARE_OF_ROWS, cache_bytes / (3 * 8 * n)))


class _Run:
    """One run: the iterates, and the best result as evaluated with the exact kernel."""

    def __init__(
        self,
        problem: MarginProgram,
        rows: Rows,
        system: LowRankSystem,
        tol: float,
        budget: Budget,
        start: ProgramResult | None,
    ) -> None:
        self.problem, self.rows, self.system = problem, rows, system
        self.tol, self.budget, self.used_before = tol, budget, budget.used
        self.candidates: list[Multipliers] = [] if start is None else [(start.z, start.g)]
        if problem.nu is not None:
            self.candidates = []  # their sum is another nu
        self.fine, self.roundings = FINE, roundings(rows, rows.n)
        self.inside: FloatArray | None = None  # strictly feasible multipliers, G z < c
        self.bound: Multipliers | None = None
        self.best: tuple[float, FloatArray, FloatArray] | None = None  # primal, alpha, f
        if problem.nu is None:
            nothing = np.zeros(problem.n_rows)
            self.best = (problem.primal(nothing, nothing), nothing, nothing)

    def result(self) -> ProgramResult | None:
        """Follow the path to its end; return None if the rank turned out too low for it."""
        point = PathPoint(self.problem, self.system)
        with np.errstate(all="ignore"):  # `PathPoint.step` rejects directions that are not finite
            status = self._follow(point)
        if status != "converged":
            if self._is_done(point):
                status = "converged"
            elif status == "stalled" and self._too_coarse():
                return None
        assert self.best is not None and self.bound is not None
        (_, alpha, f), (z, g) = self.best, self.bound
        steps = max(1, self.budget.used - self.used_before)
        return ProgramResult(
            alpha=alpha, z=z, f=f, g=g, n_iter=steps, status=status, method="interior"
        )

    def _follow(self, point: PathPoint) -> Status:
        """Take steps until the gap, with the exact kernel, is within tol or the run stalls."""
        next_try, short = ENOUGH * self.tol, 0
        while short < PATIENCE:
            self._sharpen(point)
            # Early multipliers are strictly feasible; `best_bound` combines them with the last.
            if point.gap >= INSIDE or self.inside is None:
                self.inside = point.z
            # Estimate of `MarginProgram.scale`, which needs the exact kernel.
            nu = self.problem.nu
            scale = gap_scale(point.primal) if nu is None else max(1e-12, nu * abs(point.rho))
            relative = point.complementarity / scale
            nearby = (
                vertex(self.problem, self.rows, point, self.roundings)
                if point.gap <= NEAR
                else None
            )
            if nearby is not None:
                self._offer(nearby[1])
                self.bound = best_bound(self.problem, self.candidates, self.roundings)
                if self._suffices(nearby[0]):
                    return "converged"
            if relative <= next_try:
                if self._is_done(point):
                    return "converged"
                # The gap of the low-rank problem is closed but the exact one is not: the rank is
                # too low, and the same check would fail again before both have improved.
                next_try = 0.1 * relative
                self.fine = max(FINEST, 1e-2 * self.fine)
            if self._too_coarse():
                return "stalled"
            if not self.budget.spend(1, max(relative, point.infeasibility)):
                return self.budget.status
            try:
                length = point.step()
            except LinAlgError:
                return "stalled"
            if length == 0:
                return "stalled"
            short = short + 1 if length < SHORT else 0
        return "stalled"

    def _too_coarse(self) -> bool:
        """Return whether the rank is exhausted while the low-rank kernel is still too coarse."""
        return self.system.low.exhausted and self.system.low.remainder > COARSEST

    def _sharpen(self, point: PathPoint) -> None:
        """Increase the rank as the gap falls, so that the remainder stays below the gap.

        The diagonal remainder h must also be small beside 1 / alpha: otherwise large coefficients
        could reach a sample's margin through h alone, which the exact kernel does not allow.
        """
        low, gap = self.system.low, min(1.0, point.gap)
        before = low.rank
        fitting = 0.1 * gap / (float(point.a.max()) * low.scale)
        low.grow(max(self.fine, min(gap**2, fitting)))
        if low.rank > before:
            self.system.refresh()
            point.measure()

    # -- evaluation with the exact kernel ------------------------------------------------------

    def _is_done(self, point: PathPoint) -> bool:
        """Return whether the iterate meets tol, with or without its small coefficients."""
        if self.inside is not None:
            self._offer(self.inside)
            self.inside = None
        self._offer(point.z)
        self.bound = best_bound(self.problem, self.candidates, self.roundings)
        # Two predictions of the support first, so that a sparse alpha is found if it suffices.
        kept = (in_support(point), point.growing, np.ones(self.rows.n, dtype=bool))
        return any(self._suffices(np.where(stays, point.a, 0.0)) for stays in kept if stays.any())

    def _suffices(self, alpha: FloatArray) -> bool:
        """Evaluate alpha with the exact kernel; return whether the best so far meets tol."""
        within = np.minimum(alpha, self.problem.limit)
        alpha = within if self.problem.nu is None else alpha / alpha.sum()
        f = self._values(alpha)
        primal = self.problem.primal(alpha, f)
        if self.best is None or primal < self.best[0]:
            self.best = (primal, alpha, f)
        assert self.bound is not None
        return self.problem.is_optimal(*self.best[1:], *self.bound, self.tol)

    def _offer(self, z: FloatArray) -> None:
        """Project multipliers onto their box (and sum) and add them to the candidates."""
        w, nu = self.problem.cost, self.problem.nu
        z = np.clip(z, 0.0, w)
        if nu is not None:
            total, room = float(z.sum()), float((w - z).sum())
            z = (
                z * (nu / total)
                if total > nu
                else z + (w - z) * min(1.0, (nu - total) / (room or 1.0))
            )
        self.candidates.append((z, self._values(z)))

    def _values(self, v: FloatArray) -> FloatArray:
        """Return K (y v)."""
        everyone, used = np.arange(self.rows.n), np.flatnonzero(v)
        # The symmetric sum evaluates each pair of samples once, but all samples take part.
        if 2 * len(used) > len(v):
            return self.rows.symmetric_sum(everyone, self.problem.y * v)
        return self.rows.weighted_sum(everyone, self.rows, used, (self.problem.y * v)[used])
