r"""Growing training set: warm start for many samples with few support vectors.

Problem: see :mod:`widemargin.problems.soft_margin`; the kernel matrix is never formed.

The optimum depends on the support vectors alone, so a small set R that contains them all has the
same optimum as all samples (the idea of Balcázar et al. 2008, with violators added instead of
drawn at random).

1. R starts as a random subsample; its losses are scaled up to represent all samples.
2. The solution on R is evaluated on a larger subsample. Violators are added to R, at first also
   samples near the margin; none is removed. `soft_margin.smo` solves R again with a warm start;
   the kernel block is extended by rows and columns, never recomputed. The larger subsample grows
   fourfold until it contains all samples; most samples are evaluated two or three times.
3. `soft_margin.active_set` verifies the result in float64 and continues from it if necessary, so
   the tolerance is met independently of the random draws.

Evaluating n samples costs n times the number of support vectors, the block of R its size squared.
If R exceeds its memory limit, there are many support vectors, and `active_set` starts from
subsamples that double instead.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels import Rows
from widemargin.kernels.row_loops import LANES
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin.smo import padded, solve_dense

FIRST_ROWS = 500  # size of the first subsample
GROWTH = 4  # ratio of the sizes of consecutive evaluated subsamples
NEAR_MARGIN = 0.1  # distance from the margin, in its units, at which a sample is added to R early
MOST_NEW_ROWS = 1000  # samples added to R at once, the worst violators
LARGEST_SET = 6000  # size of R beyond which the doubling subsamples are preferred
LOOSE_TOL = 0.03  # tolerance while R is incomplete: it will be solved again anyway


class GrowingSet:
    """Training set R with its dual variables and its kernel block, stored as `dtype`."""

    def __init__(
        self, problem: SoftMargin, rows: Rows, tol: float, budget: Budget, dtype: type
    ) -> None:
        self.problem, self.rows, self.tol, self.budget = problem, rows, tol, budget
        self.dtype = dtype
        affordable = int(np.sqrt(0.5 * budget.cache_bytes / np.dtype(dtype).itemsize)) - LANES
        self.limit = min(LARGEST_SET, affordable)
        self.R = np.empty(0, dtype=np.intp)
        self.inside = np.zeros(problem.n_rows, dtype=bool)
        self.alpha = np.empty(0)
        self.K: RealArray = np.zeros((0, 0), dtype=dtype)
        self.threshold = np.zeros(problem.n_groups)

    def run(self, rng: np.random.Generator) -> FloatArray | None:
        """Return feasible, nearly optimal alpha of all samples; None if R exceeds its limit."""
        n = self.problem.n_rows
        order = rng.permutation(n)
        self.join(order[: self._enough(order)])
        seen, looks = len(self.R), 0
        self.solve(n / seen, LOOSE_TOL)
        while self.budget.status == "converged":
            # Each subsample is evaluated twice: the first update of R creates new violators.
            if seen < n and looks != 1:
                seen, looks = min(n, GROWTH * seen), 0
            newcomers = self.violators(order[:seen], NEAR_MARGIN if looks == 0 else -0.5 * self.tol)
            looks += 1
            if len(self.R) + len(newcomers) > self.limit:
                return None
            if not len(newcomers):
                if seen == n:
                    break
                looks = 0
                continue
            self.join(newcomers)
            self.solve(n / seen, LOOSE_TOL if seen < n else 0.3 * self.tol)
        alpha = np.zeros(self.problem.n_variables)
        alpha[self.problem.variables_of(self.R)] = self.alpha
        return self.problem.repair(alpha)

    def _enough(self, order: IntArray) -> int:
        """Return a subsample size for which the scaled equality constraints are feasible."""
        size = min(FIRST_ROWS, len(order))
        while size < len(order):
            part = self.problem.restrict(order[:size], len(order) / size)
            alpha = part.repair(np.zeros(part.n_variables))
            sums = [alpha[part.group == g].sum() for g in range(part.n_groups)]
            if np.allclose(sums, part.totals, rtol=1e-9, atol=1e-12):
                break
            size = min(len(order), 2 * size)
        return size

    def join(self, newcomers: IntArray) -> None:
        """Add samples to R with zero variables, and extend the kernel block."""
        old, m = len(self.R), len(self.R) + len(newcomers)
        alpha = np.zeros((self.problem.n_variables // self.problem.n_rows, m))
        alpha[:, :old] = self.alpha.reshape(len(alpha), old)
        self.alpha = alpha.ravel()
        self.R = np.concatenate([self.R, newcomers])
        self.inside[newcomers] = True
        K: RealArray = np.zeros((padded(m), padded(m)), dtype=self.dtype)
        K[:old, :old] = self.K[:old, :old]
        K[old:m, :old] = self.rows.block(newcomers, self.rows, self.R[:old], self.dtype)
        K[:old, old:m] = K[old:m, :old].T
        self.rows.fill_symmetric(newcomers, K[old:m, old:m])
        self.K = K

    def solve(self, scale: float, tol: float) -> None:
        """Solve the problem on R by a warm start; each loss is multiplied by `scale`."""
        part = self.problem.restrict(self.R, scale)
        m = len(self.R)
        alpha = part.repair(self.alpha)
        f = (self.K[:m, :m] @ part.coefficients(alpha).astype(self.dtype)).astype(np.float64)
        solve_dense(self.K, part, alpha, f, tol=tol, budget=self.budget, threads=self.rows.threads)
        self.alpha = alpha
        self.threshold = part.thresholds(f)

    def violators(self, seen: IntArray, within: float) -> IntArray:
        """Return the worst violators outside R, including samples within a distance of violation.

        Their variables are zero, so a score above the threshold is a violation if the variable can
        increase, a score below it if the variable can decrease.
        """
        others = seen[~self.inside[seen]]
        beta = self.problem.restrict(self.R).coefficients(self.alpha)
        used = np.flatnonzero(beta)
        f = self.rows.weighted_sum(others, self.rows, self.R[used], beta[used], self.dtype)
        part = self.problem.restrict(others)
        score = part.target - f[part.row]
        if part.n_groups:
            score -= self.threshold[part.group]
        wrong = np.where(part.upper > 0, score, -np.inf)
        wrong = np.maximum(wrong, np.where(part.lower < 0, -score, -np.inf))
        wrong = wrong.reshape(-1, len(others)).max(axis=0)
        found = np.flatnonzero(wrong > -within)
        if len(found) > MOST_NEW_ROWS:
            found = found[np.argpartition(-wrong[found], MOST_NEW_ROWS)[:MOST_NEW_ROWS]]
        return others[found]
