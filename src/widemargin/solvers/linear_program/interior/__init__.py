r"""Interior-point method for linear programs whose kernel matrix has a low rank.

The path of `interior.path` is followed on :math:`G \approx B B' + H`, of a rank that grows as the
gap falls (`numerics.pivoted_cholesky`): n r^2 a step, r well below a hundred for the first half of
them, and the kernel matrix is never formed. What comes out counts only by the true kernel: the
objective of alpha, and the bound that z proves (`linear_program.bound`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from widemargin._base.typing import FloatArray
from widemargin.certificate import gap_scale
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.linear_program.bound import Multipliers, best_bound
from widemargin.solvers.linear_program.interior.path import PathPoint
from widemargin.solvers.linear_program.interior.system import LowRankSystem
from widemargin.solvers.linear_program.interior.vertex import in_support, vertex
from widemargin.solvers.linear_program.result import ProgramResult
from widemargin.solvers.numerics.pivoted_cholesky import LowRank, rank_estimate

SHARE_OF_ROWS = 3  # a rank above n / this is not low
# Remainders of the kernel: the least that is used unless the true kernel asks for less, the least
# of all, and the one by which the rank is estimated.
FINE, FINEST, ESTIMATED = 1e-8, 1e-13, 1e-6
COARSEST = 1e-5  # a remainder that is left for good and larger than this makes the path useless
NEAR = 1e-5  # gap from which on the vertex may be recognised
INSIDE = 1e-3  # gap of multipliers that are well inside G z < c
ENOUGH = 0.01  # share of tol from which on the point itself is tried if no vertex was found
SHORT, PATIENCE = 1e-3, 15  # so many steps in a row as short as this lead nowhere


def solve_interior(
    problem: MarginProgram,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: ProgramResult | None = None,
) -> ProgramResult | None:
    """Solve a program as the door of the package; None where the kernel has no low rank.

    The multipliers of `start` take part in the bound (not for the nu machine, where they have
    another sum). The path has to start far from any vertex, so nothing else of it is of use.
    """
    if not low_rank_pays(rows, budget.cache_bytes):
        return None
    low = LowRank(rows, problem.y, _most_columns(rows.n, budget.cache_bytes))
    low.grow(0.1)
    system = LowRankSystem(low, problem.shift, rows.threads)
    return _Run(problem, rows, system, tol, budget, start).result()


def low_rank_pays(rows: Rows, cache_bytes: float) -> bool:
    """Tell from a sample whether a few columns stand for the kernel matrix."""
    return rank_estimate(rows, ESTIMATED) <= _most_columns(rows.n, cache_bytes)


def _most_columns(n: int, cache_bytes: float) -> int:
    """Return the rank that pays and fits: the factor, its room to grow, a weighted copy."""
    return int(min(n // SHARE_OF_ROWS, cache_bytes / (3 * 8 * n)))


class _Run:
    """One run: the point on its path, and the best result that the true kernel has confirmed."""

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
            self.candidates = []  # of another sum
        self.fine = FINE
        self.inside: FloatArray | None = None  # multipliers well inside G z < c
        self.bound: Multipliers | None = None
        self.best: tuple[float, FloatArray, FloatArray] | None = None  # primal, alpha, f
        if problem.nu is None:
            nothing = np.zeros(problem.n_rows)
            self.best = (problem.primal(nothing, nothing), nothing, nothing)

    def result(self) -> ProgramResult | None:
        """Follow the path to its end; None if the low rank was not enough for it."""
        point = PathPoint(self.problem, self.system)
        with np.errstate(all="ignore"):  # steps that overflow are not taken
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
        """Take steps until the true kernel confirms the gap or nothing is left to gain."""
        next_try, short = ENOUGH * self.tol, 0
        while short < PATIENCE:
            self._sharpen(point)
            if point.gap >= INSIDE or self.inside is None:
                self.inside = point.z
            # About what `MarginProgram.scale` will be.
            nu = self.problem.nu
            scale = gap_scale(point.primal) if nu is None else max(1e-12, nu * abs(point.rho))
            relative = point.complementarity / scale
            nearby = vertex(self.problem, self.rows, point) if point.gap <= NEAR else None
            if nearby is not None:
                self._offer(nearby[1])
                self.bound = best_bound(self.problem, self.candidates)
                if self._suffices(nearby[0]):
                    return "converged"
            if relative <= next_try:
                if self._is_done(point):
                    return "converged"
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
        """Whether the kernel's rank is too large for what the path still has to find."""
        return self.system.low.exhausted and self.system.low.remainder > COARSEST

    def _sharpen(self, point: PathPoint) -> None:
        """Let the rank follow the gap: what the kernel lacks must not matter yet.

        It must not fit the rows either, as a diagonal can with coefficients of its inverse size.
        """
        low, gap = self.system.low, min(1.0, point.gap)
        before = low.rank
        fitting = 0.1 * gap / (float(point.a.max()) * low.scale)
        low.grow(max(self.fine, min(gap**2, fitting)))
        if low.rank > before:
            self.system.refresh()
            point.measure()

    # -- what counts: the true kernel ----------------------------------------------------------

    def _is_done(self, point: PathPoint) -> bool:
        """Whether the point itself, with small coefficients set to 0 or not, is good enough."""
        if self.inside is not None:
            self._offer(self.inside)
            self.inside = None
        self._offer(point.z)
        self.bound = best_bound(self.problem, self.candidates)
        kept = (in_support(point), point.growing, np.ones(self.rows.n, dtype=bool))
        return any(self._suffices(np.where(stays, point.a, 0.0)) for stays in kept if stays.any())

    def _suffices(self, alpha: FloatArray) -> bool:
        """Evaluate alpha by the true kernel; tell whether the best so far meets the bound."""
        within = np.minimum(alpha, self.problem.limit)
        alpha = within if self.problem.nu is None else alpha / alpha.sum()
        f = self._values(alpha)
        primal = self.problem.primal(alpha, f)
        if self.best is None or primal < self.best[0]:
            self.best = (primal, alpha, f)
        assert self.bound is not None
        return self.problem.is_optimal(*self.best[1:], *self.bound, self.tol)

    def _offer(self, z: FloatArray) -> None:
        """Add multipliers to the candidates for the bound, once they are exactly feasible."""
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
        if 2 * len(used) > len(v):
            return self.rows.symmetric_sum(everyone, self.problem.y * v)
        return self.rows.weighted_sum(everyone, self.rows, used, (self.problem.y * v)[used])
