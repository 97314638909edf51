r"""Find a start for many rows with few support vectors: a training set that violators join.

Problem: see :mod:`widemargin.problems.soft_margin`; the kernel matrix is never formed.

The optimum depends on the support vectors alone, so a small set R that holds them all has the
optimum of all rows (the idea of Balcázar et al. 2008, with violators added instead of drawn).

1. R starts as a random sample, whose losses are scaled up to stand for all rows.
2. Its optimum is evaluated on a larger sample. Rows that violate it join R, at first also those
   near the margin; nothing is dropped. `soft_margin.smo` solves R again, from where it
   was, on a kernel block that only gets new rows and columns. The larger sample grows fourfold
   when nobody violates, until it is everything: most rows are looked at two or three times.
3. `soft_margin.active_set` checks the result in float64 on every row where it matters
   and goes on from it if that is needed: exact to the tolerance, whatever the draws were.

A look at n rows costs n times the number of support vectors, the block of R its size squared. Where
R outgrows the memory it may have, the machine has many support vectors, and active_set starts from
samples that double.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin.smo import padded, solve_dense
from widemargin.solvers.soft_margin.smo_loops import LANES

FIRST_ROWS = 500  # rows of the first sample
GROWTH = 4  # how much larger each sample is that is looked at
NEAR_MARGIN = 0.1  # distance from the margin, in its units, of rows that join R at the first look
MOST_NEW_ROWS = 1000  # rows that join R after a look
LARGEST_SET = 6000  # rows of R; beyond that nothing is gained by it
LOOSE_TOL = 0.03  # tolerance while R is far from complete


class GrowingSet:
    """The set R, its variables and its kernel block, in the precision dtype."""

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
        """Return variables of all rows near the optimum, feasible; None where R grows too large."""
        n = self.problem.n_rows
        order = rng.permutation(n)
        self.join(order[: self._enough(order)])
        seen, looks = len(self.R), 0
        self.solve(n / seen, LOOSE_TOL)
        while self.budget.status == "converged":
            if seen < n and looks != 1:  # a second look at those that the first has changed
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
        """Return how many rows can have the sums that the groups ask for, with boxes scaled up."""
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
        """Add rows to R: their variables are zero, the kernel block gets rows and columns."""
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
        """Solve R alone from where it is; scale is what each of its rows stands for."""
        part = self.problem.restrict(self.R, scale)
        m = len(self.R)
        alpha = part.repair(self.alpha)
        f = (self.K[:m, :m] @ part.coefficients(alpha).astype(self.dtype)).astype(np.float64)
        solve_dense(self.K, part, alpha, f, tol=tol, budget=self.budget, threads=self.rows.threads)
        self.alpha = alpha
        self.threshold = part.thresholds(f)

    def violators(self, seen: IntArray, within: float) -> IntArray:
        """Return the rows outside R that most violate its optimum, or come so near to it.

        Their variables are zero: a score above the threshold calls for one that may rise, a score
        below it for one that may fall.
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
