r"""Kernel machines of any size: a growing sample, a band around the margin, one exact finish.

Problem: see :mod:`widemargin.problems.soft_margin`; the kernel matrix is never formed.

1. *Sample.* A random sample with its losses scaled up stands for the whole (as in the recursion
   of notes/sampling, section 4). Its optimum predicts which rows end at a bound. Samples double.
2. *Band.* Rows far from the margin keep their bound; the rows near it, and all that violate the
   optimality conditions, form the band, whose kernel block is in memory and which
   :mod:`widemargin.solvers.smo` solves. The decision values of all rows then follow from the
   coefficients that changed, in one blocked pass of float32 kernel values.
3. *Finish.* The decision values are evaluated afresh in float64. Where the violation still
   exceeds the tolerance, the bands go on in float64, as LIBSVM would, until it does not.

Every band holds the most violating pair, so each one improves the dual objective: the method
is a decomposition method and converges for positive semi-definite kernels.
"""

from __future__ import annotations

import numpy as np

from widemargin._typing import FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.result import Budget, Monitor, SolverResult
from widemargin.solvers.smo import LANES, padded, solve_dense

FLOAT64_ROWS = 1500  # up to this size float64 costs nothing worth saving
WHOLE = 3000  # up to this size the band is everything
SAMPLE_TOL = 0.3  # a sample predicts no better than this, so there is no use in solving it further
UNCERTAIN = 0.1  # half width, in units of the margin, of the zone where a new row is undecided
BAND = 4096  # rows of a band, unless there are more free variables than half of it


def solve(
    problem: SoftMargin,
    rows: Rows,
    *,
    tol: float,
    max_iter: int,
    cache_bytes: float,
    seed: int = 0,
    start: FloatArray | None = None,
    monitor: Monitor | None = None,
) -> SolverResult:
    """Solve a soft-margin problem to a KKT violation of tol, checked in float64.

    Parameters
    ----------
    problem : SoftMargin
        What to solve.
    rows : Rows
        The training rows seen through the kernel.
    tol : float
        KKT violation to reach.
    max_iter : int
        Largest number of pair steps.
    cache_bytes : float
        Memory for kernel blocks.
    seed : int
        Seed of the samples.
    start : ndarray of shape (n_variables,), optional
        Feasible variables to start from; the samples are then skipped.
    monitor : callable, optional
        Called between sweeps with (steps, violation); returns whether to go on.
    """
    run = _Run(problem, rows, tol, Budget(max_iter, monitor), cache_bytes)
    if start is not None:
        b = problem.repair(start)
        f = run.decision_values(b, np.float32)
    elif problem.n_rows <= WHOLE:
        b = problem.repair(np.zeros(problem.n_variables))
        f = run.decision_values(b, np.float64)
    else:
        b, f = run.from_samples(np.random.default_rng(seed))
    return run.finish(b, f)


class _Run:
    """One run of the solver: the problem, its data and what is left of the budget."""

    def __init__(
        self, problem: SoftMargin, rows: Rows, tol: float, budget: Budget, cache_bytes: float
    ) -> None:
        self.problem = problem
        self.rows = rows
        self.tol = tol
        self.budget = budget
        self.cache_bytes = cache_bytes

    def decision_values(self, b: FloatArray, dtype: type) -> FloatArray:
        """Return K beta on every row, evaluated afresh."""
        everything = np.arange(self.problem.n_rows)
        return self._weighted_sum(everything, everything, self.problem.coefficients(b), dtype)

    def _weighted_sum(
        self, at: IntArray, of: IntArray, beta: FloatArray, dtype: type
    ) -> FloatArray:
        """Return sum_j beta_j k(x, x_j) on the rows `at`, j over the rows `of`."""
        used = np.flatnonzero(beta)
        return self.rows.weighted_sum(at, self.rows, of[used], beta[used], dtype)

    def from_samples(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return variables and decision values of all rows, predicted by growing samples."""
        n = self.problem.n_rows
        order = rng.permutation(n)
        sizes = [n]
        while sizes[0] > WHOLE:
            sizes.insert(0, (sizes[0] + 1) // 2)
        sample = order[: sizes[0]]
        part = self.problem.restrict(sample, n / len(sample))
        b = part.repair(np.zeros(part.n_variables))
        f = self._weighted_sum(sample, sample, part.coefficients(b), np.float32)
        for size in sizes[1:]:
            self.solve_bands(part, sample, b, f, np.float32, SAMPLE_TOL)
            part, b, f = self._grow(part, b, f, order[:size])
            sample = order[:size]
        back = np.empty(n, dtype=np.intp)
        back[order] = np.arange(n)
        return b[part.variables_of(back)], f[back]

    def _grow(
        self, part: SoftMargin, b: FloatArray, f: FloatArray, grown: IntArray
    ) -> tuple[SoftMargin, FloatArray, FloatArray]:
        """Predict the solution on a larger sample, whose first rows are those of part."""
        m = part.n_rows
        shrink = m / len(grown)
        beta = part.coefficients(b)
        f = np.concatenate([f, self._weighted_sum(grown[m:], grown[:m], beta, np.float32)])
        larger = self.problem.restrict(grown, self.problem.n_rows / len(grown))
        slack = larger.target - f[larger.row]
        if part.n_groups:
            slack -= part.thresholds(f[:m])[larger.group]
        guess = _predicted(larger, slack)
        guess[larger.variables_of(np.arange(m))] = b * shrink
        # Near the margin the prediction is least certain: let those rows balance the sums.
        guess = larger.repair(guess, np.abs(slack))
        change = larger.coefficients(guess).copy()
        change[:m] -= beta * shrink
        f = f * shrink + self._weighted_sum(grown, grown, change, np.float32)
        return larger, guess, f

    def solve_bands(
        self,
        part: SoftMargin,
        sample: IntArray,
        b: FloatArray,
        f: FloatArray,
        dtype: type,
        tol: float,
    ) -> None:
        """Improve b and f (in place) band by band until the violation of part is below tol."""
        while self.budget.status == "optimal":
            violation = part.kkt_violation(b, f)
            if violation <= tol:
                return
            band = self._band(part, b, f, violation, dtype)
            used = self.budget.used
            b_band, f_band = self._solve_band(part, sample, band, b, f, dtype, tol, violation)
            variables = part.variables_of(band)
            if len(band) == part.n_rows:
                f[:] = f_band
            else:
                change = part.restrict(band).coefficients(b_band - b[variables])
                f += self._weighted_sum(sample, sample[band], change, dtype)
            b[variables] = b_band
            if self.budget.used == used:
                return  # rounding leaves nothing to gain in this precision

    def _solve_band(
        self,
        part: SoftMargin,
        sample: IntArray,
        band: IntArray,
        b: FloatArray,
        f: FloatArray,
        dtype: type,
        tol: float,
        violation: float,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the variables and decision values of a band after solving it alone."""
        m = len(band)
        K = np.zeros((padded(m), padded(m)), dtype=dtype)
        self.rows.fill_symmetric(sample[band], K[:m, :m])
        b_band, f_band = b[part.variables_of(band)], f[band]
        whole = m == part.n_rows
        solve_dense(
            K,
            part.restrict(band),
            b_band,
            f_band,
            tol=0.5 * tol if whole else max(0.3 * tol, 0.03 * violation),
            budget=self.budget,
            threads=self.rows.threads,
        )
        return b_band, f_band

    def _band(
        self, part: SoftMargin, b: FloatArray, f: FloatArray, violation: float, dtype: type
    ) -> IntArray:
        """Rows to solve for: violators, free ones and those nearest to the margin."""
        affordable = int(np.sqrt(self.cache_bytes / np.dtype(dtype).itemsize)) - LANES
        if part.n_rows <= min(WHOLE, affordable):
            return np.arange(part.n_rows)
        score = part.scores(b, f)
        if part.n_groups:
            score -= part.thresholds(f)[part.group]
        up, down = b < part.upper, b > part.lower
        # Positive: violates (or is free); negative: how far it is from doing so.
        urgency = np.maximum(np.where(up, score, -np.inf), np.where(down, -score, -np.inf))
        urgency = urgency.reshape(-1, part.n_rows).max(axis=0)
        wanted = int(np.count_nonzero(urgency > -0.5 * min(UNCERTAIN, violation)))
        free = int(np.count_nonzero(up & down))
        size = min(max(1024, min(wanted, max(BAND, 2 * free))), max(256, affordable), part.n_rows)
        most_urgent = np.argpartition(-urgency, size - 1)[:size]
        return np.union1d(most_urgent, part.row[_extremes(part, b, f)])

    def finish(self, b: FloatArray, f: FloatArray) -> SolverResult:
        """Solve on all rows and check in float64; go on in float64 where that fails."""
        everything = np.arange(self.problem.n_rows)
        dtype: type = np.float64 if self.problem.n_rows <= FLOAT64_ROWS else np.float32
        while True:
            used = self.budget.used
            self.solve_bands(self.problem, everything, b, f, dtype, 0.9 * self.tol)
            f = self.decision_values(b, np.float64)
            violation = self.problem.kkt_violation(b, f)
            stuck = dtype is np.float64 and self.budget.used == used
            if violation <= self.tol or self.budget.status != "optimal" or stuck:
                return SolverResult(b, f, max(1, self.budget.used), self.budget.status)
            dtype = np.float64


def _extremes(part: SoftMargin, b: FloatArray, f: FloatArray) -> IntArray:
    """Variables of the most violating pair of each group: with them every band gains."""
    score = part.scores(b, f)
    up, down = b < part.upper, b > part.lower
    found = []
    for g in range(max(1, part.n_groups)):
        member = part.group == g
        found.append(np.argmax(np.where(up & member, score, -np.inf)))
        found.append(np.argmin(np.where(down & member, score, np.inf)))
    return np.array(found)


def _predicted(part: SoftMargin, slack: FloatArray) -> FloatArray:
    """Dual variables that a given slack t - f - lambda suggests."""
    if part.ridge.any():
        return np.clip(slack / part.ridge, part.lower, part.upper)
    width = part.upper - part.lower
    return part.lower + width * np.clip(0.5 + 0.5 * slack / UNCERTAIN, 0.0, 1.0)
