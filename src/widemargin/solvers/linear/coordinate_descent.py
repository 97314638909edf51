r"""Dual coordinate descent for linear soft margins and tubes.

Problem: see :mod:`widemargin.problems.soft_margin`, with at most one threshold. A sweep maximises
the dual objective over one variable after the other (Hsieh et al. 2008): with
:math:`w = \sum_i \beta_i x_i`,

.. math:: \alpha_v \leftarrow \mathrm{clip}\Bigl(\alpha_v +
    \frac{t_v - w \cdot x_{r(v)} - b - \rho_v \alpha_v}{|x_{r(v)}|^2 + \rho_v + \mu},
    \ l_v, u_v\Bigr)

costs one read of a sample for the score, and another one for w if the variable moves. Few sweeps
are enough if C is small; for large C they do not end, and Newton's method takes over
(:mod:`widemargin.solvers.linear`).

* *Dropped variables.* A variable at a bound whose score exceeds all those that moved variables in
  the last sweep is left out until the others have settled. Once half of the stored samples are left
  out, those in use are copied, so that memory is read in one stretch.
* *Intercept.* Its constraint, that the variables add up to zero, is a term
  :math:`b \sum \alpha + \frac{\mu}{2} (\sum \alpha - z)^2` of an augmented Lagrangian with z = 0,
  whose multiplier b is updated whenever the variables have settled. A penalised intercept, the
  weight of a constant feature s, would tie all variables together in the same way as a large mu.
  Therefore it is treated as :math:`\frac{s^2}{2} z^2` with the constraint that z is their sum.
* *Gap.* Then, both objectives are evaluated on all samples. The run ends at a relative gap of tol,
  otherwise the scores have to settle within a smaller range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.products import row_norms
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import relative_gap
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.linear import coordinate_loops as loops
from widemargin.solvers.numerics.data_products import LinearRows

PENALTY = 0.1  # mu, in units of the mean square norm: more of it ties the variables together
LEAST_TOL = 1e-7  # a smaller gap takes too many sweeps
LARGEST = 1e70  # values whose squares, multiplied by costs, do not overflow
FIRST_RANGE = 0.1  # range of scores at the first evaluation, in units of the mean target
SHRINK = (0.1, 0.5)  # least and largest factor by which the range is reduced
CALL = 10_000_000  # stored values that one compiled call reads, some ten milliseconds
IN_CACHE = 100_000  # up to this many stored values the order of the samples is fully random
CHUNK = 16  # beyond, this many neighbours are read together
FEW_VALUES = 3_000  # for larger dense data, Newton's method takes less time than some sweeps
DENSE_SWEEPS = 1_000_000  # stored values read by all sweeps over dense data
SPARSE_SWEEPS = 40  # sweeps over sparse data


def fits(problem: SoftMargin, X: Matrix, tol: float) -> bool:
    """Return whether coordinate descent is worth a try: sparse data, or few values and a hinge."""
    if problem.n_groups > 1 or problem.is_hard or tol < LEAST_TOL:
        return False
    if not sp.issparse(X) and (X.size > FEW_VALUES or problem.ridge.any()):
        return False
    values = X.data if sp.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return largest <= LARGEST


def balanced(problem: SoftMargin, alpha: FloatArray) -> FloatArray:
    """Return alpha with a sum of zero: the variable farthest from its bounds absorbs the rest."""
    room = np.minimum(alpha - problem.lower, problem.upper - alpha)
    widest = int(np.argmax(room))
    alpha[widest] -= min(max(float(alpha.sum()), -room[widest]), room[widest])
    return alpha


def solve(problem: SoftMargin, rows: LinearRows, *, tol: float, budget: Budget) -> LinearResult:
    """Solve a soft margin or tube to a relative duality gap of tol, if few sweeps suffice.

    The status "stalled" means that many more sweeps would be needed; the result is then a start for
    another method. The other parameters are those of `solve` of the package.
    """
    run = _Run(problem, rows)
    sweeps = SPARSE_SWEEPS if rows.sparse else DENSE_SWEEPS / max(1, rows.n_values)
    settled = FIRST_RANGE * run.unit
    visits = int(min(sweeps, budget.left // 2) * problem.n_variables)
    while True:
        start = run.visited
        run.sweep(settled, visits, budget)
        gap, before = run.evaluate(), run.gap
        run.gap = gap
        if gap <= tol or run.visited >= visits or budget.status != "converged":
            break
        if gap < before < np.inf and _too_slow(
            before, gap, tol, run.visited - start, visits - run.visited
        ):
            break
        run.consider_all()
        settled *= min(max(0.5 * tol / gap, SHRINK[0]), SHRINK[1])
    return run.result(budget, tol)


def _too_slow(before: float, gap: float, tol: float, taken: int, left: int) -> bool:
    """Return whether the gap, at its last rate of decrease, will not reach tol in time.

    It has decreased from `before` to `gap` in `taken` visits of variables; `left` of them remain.
    """
    return taken * log(gap / tol) / log(before / gap) > 2.0 * left


@dataclass(frozen=True, eq=False)
class _Stored:
    """Samples in the form of `coordinate_loops.descend`, and the stored sample of each variable."""

    values: FloatArray
    indices: IntArray
    starts: IntArray
    ends: IntArray
    row: IntArray
    n: int

    @classmethod
    def of(cls, X: Matrix, row: IntArray, *, constant: bool) -> _Stored:
        """Return the samples of a matrix, without the last feature if that is constant."""
        n, d = X.shape
        indices: Any = np.empty(0, dtype=np.int32)
        if sp.issparse(X):
            values = np.ascontiguousarray(X.data, dtype=np.float64)
            indices = np.ascontiguousarray(X.indices, dtype=np.int32)
            bounds = X.indptr.astype(np.int64)
        else:
            values = np.ascontiguousarray(X, dtype=np.float64).reshape(-1)
            bounds = np.arange(n + 1) * d
        return cls(values, indices, bounds[:-1], bounds[1:] - int(constant), row, n)


def _first_intercept(problem: SoftMargin) -> float:
    """Return the best intercept of w = 0, without a penalty."""
    free = replace(problem, totals=np.zeros(1))
    return float(free.thresholds(np.zeros(problem.n_rows))[0])


class _Run:
    """Variables, weights and the lists of active variables of one run."""

    def __init__(self, problem: SoftMargin, rows: LinearRows) -> None:
        self.problem, self.rows = problem, rows
        n = problem.n_variables
        own = problem.row.astype(np.int64)
        self.whole = self.stored = _Stored.of(rows.X, own, constant=rows.constant)
        norms = row_norms(rows.X) ** 2
        self.constant = np.inf
        if rows.constant:
            self.constant = float(self.whole.values[self.whole.ends[0]])
            norms = np.maximum(norms - self.constant**2, 0.0)
        penalty = PENALTY * (float(norms.mean()) or 1.0)
        tied = problem.n_groups > 0 or rows.constant
        # A weak tie between the variables needs no multiplier.
        self.has_multiplier = tied and self.constant**2 > penalty
        penalty = min(penalty, self.constant**2) if tied else 0.0
        self.multiplier = _first_intercept(problem) if self.has_multiplier else 0.0
        self.sums = np.array([0.0, self.multiplier, penalty, np.inf, -np.inf])
        ridge = problem.ridge
        curve = norms[problem.row] + ridge + self.sums[loops.PENALTY]
        curve[curve == 0.0] = 1.0  # samples of zeros: the first step ends at a bound
        self.terms = np.array([problem.target, problem.lower, problem.upper, ridge, curve])
        self.unit = float(np.abs(problem.target).mean()) or 1.0
        self.alpha, self.w = np.zeros(n), np.zeros(rows.n_features)
        self.lists = np.tile(np.arange(n), (3, 1))
        self.counts = np.array([n, 0, 20081120])
        self.chunk = 1 if rows.n_values <= IN_CACHE else CHUNK
        self.visited = 0
        self.gap = np.inf
        self.primal, self.dual = np.inf, -np.inf
        self.best_w, self.best_alpha, self.thresholds = self.w, self.alpha, np.empty(0)

    def sweep(self, settled: float, visits: int, budget: Budget) -> None:
        """Sweep until the scores are within `settled`, or the visits or the budget are spent."""
        per_variable = max(1, self.rows.n_values // max(1, self.rows.n_rows))
        per_call = max(1, CALL // per_variable)
        n, wide = self.problem.n_variables, True
        while wide and self.visited < visits and budget.status == "converged":
            most = min(per_call, visits - self.visited)
            steps = self.visited // n
            stored = self.stored
            self.visited += loops.descend(
                stored.values, stored.indices, stored.starts, stored.ends, stored.row, self.terms,
                self.alpha, self.w, self.lists, self.counts, self.sums, settled, most, self.chunk,
            )  # fmt: skip
            budget.spend(self.visited // n - steps, self.gap)
            spread = self.sums[loops.HIGH] - self.sums[loops.LOW]
            wide = self.counts[loops.ACTIVE] > 0 and spread > settled
            self._store_active()

    def _store_active(self) -> None:
        """Copy the samples in use if they are few of those stored, and too many for the cache."""
        n_active, current = self.counts[loops.ACTIVE], self.counts[loops.CURRENT]
        if 2 * n_active > self.stored.n or self.rows.n_values <= IN_CACHE:
            return
        order = np.sort(self.lists[current, :n_active])
        self.lists[current, :n_active] = order
        rows = np.unique(self.problem.row[order])
        place = np.zeros(self.rows.n_rows, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.problem.row]
        self.stored = _Stored.of(self.rows.X[rows], kept, constant=self.rows.constant)

    def consider_all(self) -> None:
        """Make all variables active again, and update the multiplier of the intercept."""
        self.stored = self.whole
        self.counts[loops.ACTIVE] = self.problem.n_variables
        self.sums[loops.HIGH], self.sums[loops.LOW] = np.inf, -np.inf
        if not self.has_multiplier:
            return
        mu, total = self.sums[loops.PENALTY], self.sums[loops.TOTAL]
        z = (self.multiplier + mu * total) / (self.constant**2 + mu)  # 0 without a penalty
        self.multiplier += mu * (total - z)
        self.sums[loops.SHIFT] = self.multiplier - mu * z

    def evaluate(self) -> float:
        """Compute both objectives on all samples, keep the best points and return their gap."""
        problem, rows = self.problem, self.rows
        if rows.constant:
            shift = self.sums[loops.SHIFT] + self.sums[loops.PENALTY] * self.sums[loops.TOTAL]
            self.w[-1] = shift / self.constant
        f = rows.dot(self.w)
        thresholds = problem.thresholds(f)
        primal = problem.primal(f, float(self.w @ self.w), thresholds)
        if primal < self.primal:
            self.primal, self.best_w, self.thresholds = primal, self.w.copy(), thresholds
        alpha = self.alpha
        if problem.n_groups:
            alpha = problem.repair(alpha, np.abs(problem.scores(alpha, f) - thresholds[0]))
            alpha = balanced(problem, alpha)
        expansion = rows.combine(problem.coefficients(alpha))
        dual = problem.dual(alpha, float(expansion @ expansion))
        if dual > self.dual:
            self.dual, self.best_alpha = dual, alpha.copy()
        if not problem.n_groups:
            self.w = expansion  # without the rounding errors of the updates
        return relative_gap(self.primal, self.dual)

    def result(self, budget: Budget, tol: float) -> LinearResult:
        """Return the best points."""
        unsolved: Status = "stalled" if budget.status == "converged" else budget.status
        return LinearResult(
            coef=self.best_w,
            thresholds=self.thresholds,
            alpha=self.best_alpha,
            n_iter=max(1, budget.used),
            status="converged" if self.gap <= tol else unsolved,
            primal=self.primal,
            dual=self.dual,
        )
